"""Runs rdmawire and tshark for the tests, and says what is missing where they cannot run."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RDMAWIRE = os.environ.get("RDMAWIRE", str(ROOT / "build" / "dev" / "bin" / "rdmawire"))
FULL = os.environ.get("RDMAWIRE_FULL", "") not in ("", "0")
SEED = int(os.environ.get("RDMAWIRE_SEED", "1"))


class Failed(Exception):
    """A program ended badly; says which and what it said."""


def run(*command, timeout=600):
    done = subprocess.run([str(part) for part in command], capture_output=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))} ended with {done.returncode}: "
                     f"{done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout.decode(errors="replace")


def no_rdmawire():
    """The reason why rdmawire cannot be run, or None."""
    if not shutil.which(RDMAWIRE):
        return f"needs {RDMAWIRE}: build it with cmake --build --preset dev, or name another in RDMAWIRE"
    return None


def no_tshark():
    return None if shutil.which("tshark") else "needs tshark"


@functools.cache
def no_analyze():
    """The reason why `rdmawire analyze` cannot be run, or None."""
    reason = no_rdmawire()
    if reason:
        return reason
    # Without arguments a subcommand asks for its FILE; what is not a subcommand is named as such.
    done = subprocess.run([RDMAWIRE, "analyze"], capture_output=True, timeout=60, check=False)
    return None if b"no command" not in done.stderr else f"{RDMAWIRE} has no subcommand analyze yet"


def tshark_fields(path, *names):
    """A dictionary a frame: field to its first value as text."""
    command = ["tshark", "-n", "-r", path, "-T", "fields", "-E", "occurrence=f", "-E", "separator=/t"]
    for name in names:
        command += ["-e", name]
    return [dict(zip(names, line.split("\t"))) for line in run(*command).split("\n")[:-1]]
