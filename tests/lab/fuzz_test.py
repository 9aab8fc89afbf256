"""Fuzzes Linux rxe and siw in the lab: the fuzzer is stable, writes a report, and its findings are reproducible.

RDMAWIRE_LAB=1 fuzzes each device for one minute, RDMAWIRE_FULL=1 for five. Otherwise the tests are skipped.
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


@pytest.mark.skipif(not LAB, reason="requires RDMAWIRE_LAB=1, because it boots a virtual machine")
@pytest.mark.parametrize("device", ["rxe", "siw"])
def test_device_is_fuzzed_for_minutes(tmp_path, device):
    environment = dict(os.environ, PYTHONPATH=PYTHON)
    seconds = 300 if FULL else 60
    arguments = ["--target", f"lab:{device}", "--time", str(seconds), "--seed", "1", "--report", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "rdmawire.fuzz", *arguments],
        env=environment, capture_output=True, text=True, timeout=400 + 2 * seconds,
    )
    # Both devices have known violations (docs/reference/known-deviations.md), some of which are found within seconds.
    assert done.returncode == 1, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    # An idle host reaches ten times as many. Minimizing the findings takes most of a minute.
    assert report["statistics"]["executions"] > 25
    # After a crash, the guest is restarted and the run continues.
    died = sum(one["times"] for one in report["findings"]
               if one["oracle"] in ("kernel message", "device gone") and "WARNING" not in one["signature"])  # fmt: skip
    assert report["statistics"]["restarts"] >= died
    assert [one for one in report["findings"] if one["reproduced"]]
    for one in report["findings"]:
        assert (tmp_path / one["directory"] / "reproduce.py").exists()


REQ, REP, RTU, DREQ, DREP = 0x10, 0x13, 0x14, 0x15, 0x16
SEND_ONLY, WRITE_ONLY, READ_REQUEST, ACKNOWLEDGE = 4, 10, 12, 17
POST_SEND = 2
MANAGED = {
    # The tester connects, both sides send requests, the tester disconnects, and then the QP must not respond.
    "passive": [
        {"do": "cm", "opcode": REQ, "own_psn": 2000, "depth": 4, "retries": 2, "timeout": 6},
        {"do": "cm_accept", "count": 4, "length": 64},
        {"do": "cm", "opcode": RTU},
        {"do": "request", "opcode": SEND_ONLY, "payload": 8, "flags": 1},
        {"do": "request", "opcode": WRITE_ONLY, "length": 8, "payload": 8, "flags": 1},
        {"do": "request", "opcode": READ_REQUEST, "length": 8},
        {"do": "post", "opcode": POST_SEND, "length": 300},
        {"do": "answer", "opcode": ACKNOWLEDGE, "psn": 1, "syndrome": 31},
        {"do": "cm", "opcode": DREQ},
        {"do": "request", "opcode": SEND_ONLY, "payload": 8, "flags": 1},
    ],
    # The device connects and disconnects.
    "active": [
        {"do": "cm_connect", "retries": 2},
        {"do": "cm", "opcode": REP, "own_psn": 7, "depth": 4},
        {"do": "request", "opcode": WRITE_ONLY, "length": 8, "payload": 8, "flags": 1},
        {"do": "cm_disconnect"},
        {"do": "cm", "opcode": DREP},
    ],
}


@pytest.mark.skipif(not LAB, reason="requires RDMAWIRE_LAB=1, because it boots a virtual machine")
@pytest.mark.parametrize("side", MANAGED)
def test_cm_connections_of_rxe_are_followed(tmp_path, side):
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"family": "roce", "seed": 1, "steps": MANAGED[side]}))
    done = subprocess.run(
        [sys.executable, "-m", "rdmawire.fuzz", "--target", "lab:rxe", "--replay", str(script)],
        env=dict(os.environ, PYTHONPATH=PYTHON), capture_output=True, text=True, timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
