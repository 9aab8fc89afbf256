#!/usr/bin/python3
"""Write the notices of everything that a package links or ships, with each license.

usage: licenses.py PACKAGE [--static] [--bundled FILE]... [FILE]...

PACKAGE is a name of [package.*] in licenses.toml. --static names the build with RDMAWIRE_STATIC. The files are the
package's programs and libraries: their shared libraries are added. --bundled names a shared library in the package.
The license texts are Debian's copyright files, so this script requires Debian.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

TABLE = tomllib.loads((Path(__file__).parent / "licenses.toml").read_text())


class LicenseError(Exception):
    """The table lacks a library, or its license is not installed."""


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


@cache
def installed():
    """Return the versions of the installed Debian packages by name."""
    rows = output_of("dpkg-query", "--show", "--showformat", "${Package} ${source:Version}\n").splitlines()
    return dict(sorted(row.split() for row in rows if len(row.split()) == 2))


@cache
def library_of_package(package):
    """Return the name of a Debian package in the table, or None."""
    for name, library in TABLE["library"].items():
        if re.fullmatch(library["debian"], package):
            return name
    return None


@cache
def package_of_file(path):
    """Return the Debian package that contains a file, or None."""
    real = str(Path(path).resolve())
    for candidate in (real, "/usr" + real, real.removeprefix("/usr"), str(path)):
        found = output_of("dpkg-query", "--search", candidate)
        if found:
            return found.split(":")[0].split(",")[0]
    return None


def needed(path):
    """Return the SONAMEs of the shared libraries that a program or library needs."""
    return re.findall(r"^\s+NEEDED\s+(\S+)", output_of("objdump", "-p", str(path)), re.M)


@cache
def library_paths():
    """Return the path at which the dynamic linker finds each SONAME."""
    rows = output_of("/sbin/ldconfig", "-p")
    return {row[1]: row[2] for row in re.finditer(r"^\s+(\S+) \(libc6,(?!x32)[^)]*\) => (\S+)$", rows, re.M)}


def shared_libraries(files):
    """Return the shared libraries that the files need directly, by their names in the table."""
    names = set()
    for file in files:
        for soname in needed(file):
            if soname.startswith(("librdmawire", "ld-linux")):
                continue
            path = library_paths().get(soname)
            package = package_of_file(path) if path else None
            name = library_of_package(package) if package else None
            if name is None:
                raise LicenseError(f"{file} needs {soname} of the Debian package {package}, which licenses.toml lacks")
            names.add(name)
    return names


def license_text(name):
    """Return the Debian package of a library, its version, and its copyright file."""
    for package, version in installed().items():
        path = Path("/usr/share/doc", package, "copyright")
        if re.fullmatch(TABLE["library"][name]["debian"], package) and path.is_file():
            return package, version, path.read_text(errors="replace")
    raise LicenseError(f"no installed Debian package matches {TABLE['library'][name]['debian']!r}: the license of {name} "
                       "is unknown")


def parts_of(package, static=False, bundled=(), files=()):
    """Return each library of a package: its name, and the ways in which the package uses it."""
    entry = TABLE["package"][package]
    ways = {}
    for key, way in (("headers", "compiled in"), ("data", "embedded"), ("static", "linked statically"),
                     ("static-portable", "linked statically"), ("contained", "contained as a shared library")):
        if key == "static-portable" and not static:
            continue
        for name in entry.get(key, ()):
            ways.setdefault(name, []).append(way)
    for name in shared_libraries(files):
        ways.setdefault(name, []).append("linked as a shared library")
    for path in bundled:
        package_name = package_of_file(path)
        name = library_of_package(package_name) if package_name else None
        if name is None:
            raise LicenseError(f"licenses.toml lacks the Debian package {package_name} of the bundled {path}")
        ways.setdefault(name, []).append("contained as a shared library")
    return dict(sorted(ways.items()))


def notices(package, static=False, bundled=(), files=()):
    """Return the text of the notices of a package."""
    parts = parts_of(package, static, bundled, files)
    lines = [f"This package of rdmawire is under the license {TABLE['package'][package]['license']}. "
             "It uses these libraries:", ""]
    texts = {}
    for name, ways in parts.items():
        source, version, text = license_text(name)
        lines.append(f"  {name:<11} {TABLE['library'][name]['license']:<42} {', '.join(ways)}")
        texts.setdefault(text, []).append((name, source, version))
    lines += ["", "The source of rdmawire allows each program to be linked with another version of an LGPL library."]
    for text, uses in texts.items():
        title = ", ".join(f"{name} (Debian package {source}, source version {version})" for name, source, version in uses)
        lines += ["", "-" * 100, title, "-" * 100, "", text.rstrip()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", choices=sorted(TABLE["package"]))
    parser.add_argument("--static", action="store_true", help="notices of the build with RDMAWIRE_STATIC")
    parser.add_argument("--bundled", action="append", default=[], metavar="FILE", help="a shared library in the package")
    parser.add_argument("files", nargs="*", metavar="FILE", help="programs and libraries of the package")
    options = parser.parse_args()
    try:
        sys.stdout.write(notices(options.package, options.static, options.bundled, options.files))
    except LicenseError as error:
        sys.exit(f"licenses.py: {error}")


if __name__ == "__main__":
    main()
