"""Sample captures, and the output of the rdmawire command that tests compare with."""

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
TRUNCATED_TO = 3000
"""RPING truncated to this many bytes ends inside a record."""


def command_output(*arguments, expected=(0, 1)):
    """Return the standard output of the rdmawire command."""
    run = subprocess.run([RDMAWIRE, *map(str, arguments)], capture_output=True, timeout=120,
                         env=os.environ | {"COLUMNS": "120"})
    assert run.returncode in expected, run.stderr.decode()
    return run.stdout.decode()


def dissected(path):
    """Return the objects of `dissect --json`, one per packet."""
    return [json.loads(line) for line in command_output("dissect", "--json", path).splitlines()]


def sample_id(path):
    return path.name
