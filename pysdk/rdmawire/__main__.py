"""Run the command: ``python -m rdmawire`` starts the package's ``rdmawire``, or else the one on the path."""

import os
import shutil
import sys

if __name__ == "__main__":
    # The wheel's command `rdmawire` runs this file without importing the package.
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "rdmawire")
    if not os.access(program, os.X_OK):
        program = shutil.which("rdmawire") or ""
    if not program:
        sys.exit("rdmawire: the command is not installed: install the wheel or the Debian package rdmawire")
    os.execv(program, ["rdmawire", *sys.argv[1:]])
