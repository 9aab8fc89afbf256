"""The fuzzer against Linux's rxe and siw in the lab: it is stable, reports, and what it finds can be run again.

RDMAWIRE_LAB=1 runs each for a minute; RDMAWIRE_FULL=1 for five; else it is skipped.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FULL = os.environ.get("RDMAWIRE_FULL") == "1"
LAB = os.environ.get("RDMAWIRE_LAB") == "1" or FULL
PYTHON = os.environ.get("RDMAWIRE_PYTHON", str(ROOT / "build" / "dev" / "python"))


@pytest.mark.skipif(not LAB, reason="needs RDMAWIRE_LAB=1: it boots a virtual machine")
@pytest.mark.parametrize("device", ["rxe", "siw"])
def test_a_device_is_fuzzed_for_minutes(tmp_path, device):
    environment = dict(os.environ, PYTHONPATH=PYTHON)
    seconds = 300 if FULL else 60
    arguments = ["--target", f"lab:{device}", "--time", str(seconds), "--seed", "1", "--report", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "rdmawire.fuzz", *arguments],
        env=environment, capture_output=True, text=True, timeout=400 + 2 * seconds,
    )
    # Both deviate from the specification in ways that docs/deviations.md lists, and some show within seconds.
    assert done.returncode == 1, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    # Ten times as many where the machine has nothing else to do; cutting findings down takes most of a minute.
    assert report["statistics"]["executions"] > 25
    # What comes can end the kernel, too (docs/fuzz-findings.md): then the guest was booted again, and the run went on.
    died = sum(one["times"] for one in report["findings"]
               if one["oracle"] in ("kernel message", "device gone") and "WARNING" not in one["signature"])  # fmt: skip
    assert report["statistics"]["restarts"] >= died
    assert [one for one in report["findings"] if one["reproduced"]]
    for one in report["findings"]:
        assert (tmp_path / one["directory"] / "reproduce.py").exists()
