"""Runs rdmawire and tshark, or returns the reason why they cannot run."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RDMAWIRE = os.environ.get("RDMAWIRE", str(ROOT / "build" / "dev" / "bin" / "rdmawire"))
FULL = os.environ.get("RDMAWIRE_FULL", "") not in ("", "0")
SEED = int(os.environ.get("RDMAWIRE_SEED", "1"))


class Failed(Exception):
    """A program ended with a nonzero status."""


def run(*command, timeout=600):
    done = subprocess.run([str(part) for part in command], capture_output=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))} ended with {done.returncode}: "
                     f"{done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout.decode(errors="replace")


def no_rdmawire():
    """Return the reason why rdmawire cannot run, or None."""
    if not shutil.which(RDMAWIRE):
        return f"requires {RDMAWIRE}: run cmake --build --preset dev, or set RDMAWIRE to another program"
    return None


def no_tshark():
    return None if shutil.which("tshark") else "requires tshark"


def tshark_fields(path, *names):
    """Return a dictionary per frame: the first value of each field, as text."""
    command = ["tshark", "-n", "-r", path, "-T", "fields", "-E", "occurrence=f", "-E", "separator=/t"]
    for name in names:
        command += ["-e", name]
    return [dict(zip(names, line.split("\t"))) for line in run(*command).split("\n")[:-1]]
