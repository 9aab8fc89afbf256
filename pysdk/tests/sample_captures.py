"""The captures that tests read, and the command that they are compared with."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted(path for path in (ROOT / "captures/samples").iterdir() if ".pcap" in path.name)
RDMAWIRE = os.environ.get("RDMAWIRE", str(ROOT / "build/dev/bin/rdmawire"))

RPING = ROOT / "captures/samples/rping.pcap"
LOSS = ROOT / "captures/samples/rc-pingpong-loss.pcap.gz"
SIW = ROOT / "captures/samples/siw-rping.pcap"
CUT_TO = 3000
"""So many bytes of RPING end inside a record."""


def said(*arguments, expected=(0, 1)):
    """What the command prints."""
    run = subprocess.run([RDMAWIRE, *map(str, arguments)], capture_output=True, timeout=120,
                         env=os.environ | {"COLUMNS": "120"})
    assert run.returncode in expected, run.stderr.decode()
    return run.stdout.decode()


def dissected(path):
    """Each packet as `dissect --json` has it."""
    return [json.loads(line) for line in said("dissect", "--json", path).splitlines()]


def sample_id(path):
    return path.name
