#!/usr/bin/python3
"""Complete the files of a package before CPack packs them.

usage: finish.py ROOT --component NAME --package NAME --version VERSION --maintainer WHO --format DEB|RPM [--static]

ROOT is the staged root of one package. This script moves the documentation to the package's directory, writes copyright,
changelog and license notices, compresses man pages, installs the overrides of lintian and sets the times of all files to
SOURCE_DATE_EPOCH.
"""

import argparse
import email.utils
import gzip
import os
import re
import shutil
import stat
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import licenses  # noqa: E402

SOURCE = Path(__file__).resolve().parent.parent


def compress(path, data=None):
    """Compress `data`, or the contents of the file, to path.gz, whose header contains no time and name."""
    content = path.read_bytes() if data is None else data
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(content, 9, mtime=0))
    if data is None:
        path.unlink()


def releases():
    """Return the entries of CHANGELOG.md: version, date (None: not released) and text, newest first."""
    parts = re.split(r"^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?.*$", (SOURCE / "CHANGELOG.md").read_text(), flags=re.M)
    return [(parts[i], parts[i + 1], parts[i + 2]) for i in range(1, len(parts), 3)]


def debian_changelog(package, version, maintainer, epoch):
    """Return the changelog in Debian's format, with the entry of this version."""
    lines = []
    for name, _, text in releases():
        if name in (version, "Unreleased"):
            items = re.findall(r"^- ((?:.+\n?)(?:  .+\n?)*)", text, re.M)
            lines += [re.sub(r"\s+", " ", item).strip() for item in items]
    body = "".join(textwrap.fill(line, 78, initial_indent="  * ", subsequent_indent="    ") + "\n"
                   for line in lines or ["New version."])
    return (f"{package} ({version}) unstable; urgency=medium\n\n{body}\n -- {maintainer}  "
            f"{email.utils.formatdate(epoch, usegmt=False, localtime=False).replace('-0000', '+0000')}\n")


def debian_copyright(component):
    """Return the copyright file in Debian's format."""
    text = (SOURCE / "LICENSE").read_text().split("\n\n", 2)
    holder = re.search(r"Copyright \(c\) (.+)", text[1])[1]
    mit = (SOURCE / "LICENSE").read_text().split("\n\n", 2)[2].split("\n\n---")[0]
    license_name = {"MIT": "Expat", "GPL-2.0-or-later": "GPL-2+"}[licenses.TABLE["package"][component]["license"]]
    lines = ["Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/", "Upstream-Name: rdmawire",
             "Comment: THIRD-PARTY-NOTICES.gz has the licenses of the libraries that this package uses.", "",
             "Files: *", f"Copyright: {holder}", "License: Expat", ""]
    if license_name == "GPL-2+":
        lines += ["Files: rdmawire.so", f"Copyright: {holder}", "License: GPL-2+", "",
                  "License: GPL-2+", " On Debian systems, the text of the GNU General Public License, version 2, is in",
                  " /usr/share/common-licenses/GPL-2.", ""]
    lines += ["License: Expat", *(f" {line}" if line else " ." for line in mit.splitlines())]
    return "\n".join(lines) + "\n"


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def finish(options):
    root, epoch = options.root, int(os.environ["SOURCE_DATE_EPOCH"])
    share = root / "usr" / "share"
    doc = share / "doc" / options.package
    if options.package != "rdmawire" and (share / "doc" / "rdmawire").is_dir():
        shutil.copytree(share / "doc" / "rdmawire", doc, dirs_exist_ok=True)
        shutil.rmtree(share / "doc" / "rdmawire")
    doc.mkdir(parents=True, exist_ok=True)

    elf = [path for path in sorted(root.rglob("*")) if is_elf(path)]
    bundled = [path for path in elf if re.fullmatch(r"lib(?!rdmawire).+\.so\.\d+", path.name)]
    sources = [licenses.library_paths()[path.name] for path in bundled]
    notices = licenses.notices(options.component, options.static, sources, [path for path in elf if path not in bundled])
    compress(doc / "THIRD-PARTY-NOTICES", notices.encode())
    if options.format == "DEB":
        # Debian's zsh reads this directory and not site-functions.
        if (share / "zsh" / "site-functions").is_dir():
            (share / "zsh" / "site-functions").rename(share / "zsh" / "vendor-completions")
        (doc / "LICENSE").unlink(missing_ok=True)
        (doc / "copyright").write_text(debian_copyright(options.component))
        compress(doc / "changelog", debian_changelog(options.package, options.version, options.maintainer, epoch).encode())
        overrides = SOURCE / "packaging" / "lintian" / options.component
        if overrides.is_file():
            target = share / "lintian" / "overrides" / options.package
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(overrides.read_text().replace("@PACKAGE@", options.package))

    for page in sorted((share / "man").rglob("*.[1-9]")):
        compress(page)
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR and ".so" not in path.name
            path.chmod(0o755 if executable else 0o644)
    # Set the times of directories last, because a change of their entries changes their time.
    for path in sorted([root, *root.rglob("*")], reverse=True):
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("--component", required=True, choices=sorted(licenses.TABLE["package"]))
    parser.add_argument("--package", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--maintainer", required=True)
    parser.add_argument("--format", required=True, choices=["DEB", "RPM"])
    parser.add_argument("--static", action="store_true")
    options = parser.parse_args()
    if not os.environ.get("SOURCE_DATE_EPOCH", "").isdigit():
        sys.exit("finish.py: SOURCE_DATE_EPOCH is not set to a number of seconds: run scripts/package")
    try:
        finish(options)
    except licenses.LicenseError as error:
        sys.exit(f"finish.py: {options.package}: {error}")


if __name__ == "__main__":
    main()
