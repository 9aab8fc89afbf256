#!/usr/bin/python3
"""Write the metadata of the installed Python package from pyproject.toml, as pip does for a wheel.

usage: dist_info.py VERSION DIRECTORY
"""

import sys
import tomllib
from pathlib import Path


def main(version, directory):
    project = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())["project"]
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}",
             f"Summary: {project['description']}", f"License: {project['license']['text']}",
             f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {name}" for name in project["dependencies"]]
    for extra, names in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {name}; extra == "{extra}"' for name in names]
    entries = []
    for group, members in project["entry-points"].items():
        entries += [f"[{group}]", *(f"{name} = {target}" for name, target in members.items()), ""]
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "METADATA").write_text("\n".join(lines) + "\n")
    (directory / "entry_points.txt").write_text("\n".join(entries))
    (directory / "INSTALLER").write_text("cmake\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[2])
    main(*sys.argv[1:])
