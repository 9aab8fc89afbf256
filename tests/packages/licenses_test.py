"""packaging/licenses.toml names every library that a package compiles in, links or ships."""

import importlib.machinery
import importlib.util
import os
import re
from pathlib import Path

import pytest
from packages import ROOT, needs, run

BUILD = Path(os.environ.get("RDMAWIRE_PACKAGE_BUILD", ROOT / "build" / "package"))
NINJA = BUILD / "build.ninja"

# The program or library of each package, as a target of the build.
TARGETS = {"runtime": "bin/rdmawire", "agent": "bin/rdmawire-agent", "wireshark": "wireshark/rdmawire.so",
           "library": "librdmawire.so", "python": "python/rdmawire/_core"}

pytestmark = [needs("ninja", "dpkg-query"),
              pytest.mark.skipif(not NINJA.exists(), reason=f"needs {NINJA}: scripts/package deb makes it")]


def load():
    loader = importlib.machinery.SourceFileLoader("licenses", str(ROOT / "packaging" / "licenses.py"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


licenses = load()


@pytest.fixture(scope="module")
def headers_of_objects():
    """The headers of the system that each object file includes."""
    objects, current = {}, None
    for line in run("ninja", "-C", BUILD, "-t", "deps").stdout.splitlines():
        if line.startswith("    "):
            if line.strip().startswith("/usr/include/"):
                objects[current].add(line.strip())
        elif ": #deps" in line:
            current = line.split(": #deps")[0]
            objects[current] = set()
    return objects


def inputs_of(target):
    """The files that ninja links into a target, also through static libraries: object files and archives."""
    found, todo = set(), [target]
    while todo:
        one = todo.pop()
        for line in run("ninja", "-C", BUILD, "-t", "query", one, check=False).stdout.splitlines():
            if line.startswith("  outputs:"):
                break
            name = line.strip().removeprefix("| ").removeprefix("|| ")
            if line.startswith("    ") and name.endswith((".a", ".o")) and name not in found:
                found.add(name)
                if not name.startswith("/"):
                    todo.append(name)
    return found


def target_of(package):
    [target] = [line.split(":")[0] for line in run("ninja", "-C", BUILD, "-t", "targets", "all").stdout.splitlines()
                if re.fullmatch(re.escape(TARGETS[package]) + r"(\..*so|\.0\.1\.0)?: \S*LINKER\S*", line)] or [None]
    if target is None:
        pytest.skip(f"{BUILD} has no target {TARGETS[package]}")
    return target


# Headers of the system (C and C++ libraries, Linux), which need no license notice.
SYSTEM = {"gcc", "glibc", "linux"}


def libraries_of(paths):
    names = {}
    for path in sorted(paths):
        package = licenses.package_of_file(path)
        name = licenses.library_of_package(package) if package else None
        assert name, f"licenses.toml lacks {package}, which contains {path}"
        names.setdefault(name, path)
    return names


@pytest.mark.parametrize("package", TARGETS)
def test_table_names_the_library_of_every_included_header(package, headers_of_objects):
    objects = [name for name in inputs_of(target_of(package)) if name.endswith(".o")]
    headers = set().union(*(headers_of_objects.get(name, set()) for name in objects))
    assert headers, objects
    # One header per directory is enough to find its package.
    folders = {str(Path(path).parent): path for path in headers}
    single = {path for path in headers if str(Path(path).parent) in ("/usr/include", "/usr/include/x86_64-linux-gnu")}
    compiled = set(libraries_of(set(folders.values()) | single)) - SYSTEM
    files = [BUILD / target_of(package)]
    named = set(licenses.parts_of(package, files=[file for file in files if file.exists()]))
    assert compiled <= named


def test_table_names_every_static_library_of_the_agent():
    archives = {name for name in inputs_of(target_of("agent")) if name.startswith("/")}
    assert set(libraries_of(archives)) <= set(licenses.TABLE["package"]["agent"]["static"])


@pytest.mark.parametrize("package", licenses.TABLE["package"])
def test_notices_have_the_text_of_every_license(package):
    text = licenses.notices(package)
    for name in licenses.parts_of(package):
        assert re.search(rf"^(.*, )?{re.escape(name)} \(Debian package ", text, re.M), name
        assert licenses.license_text(name)[2].rstrip()[:200] in text


def test_an_unknown_shared_library_is_an_error():
    with pytest.raises(licenses.LicenseError, match="licenses.toml lacks"):
        licenses.parts_of("runtime", files=["/usr/bin/dpkg-query", "/usr/bin/apt-get"])
