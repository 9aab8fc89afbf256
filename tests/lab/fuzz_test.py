"""Fuzzes Linux rxe and siw in the lab: the fuzzer is stable, writes a report, and its findings are reproducible.

RDMAWIRE_LAB=1 runs 60 executions with each device, RDMAWIRE_FULL=1 1000. Otherwise the tests are skipped. No result
depends on the speed of the machine. The timeouts only end a test that hangs.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import lab_guests
import pytest

ROOT = Path(__file__).resolve().parents[2]
FULL = os.environ.get("RDMAWIRE_FULL") == "1"
LAB = os.environ.get("RDMAWIRE_LAB") == "1" or FULL
PYTHON = os.environ.get("RDMAWIRE_PYTHON", str(ROOT / "build" / "dev" / "python"))
HANG = 3600  # seconds

pytestmark = pytest.mark.skipif(not LAB, reason="requires RDMAWIRE_LAB=1, because it boots a virtual machine")
if LAB and Path(PYTHON, "rdmawire").exists():
    sys.path.insert(0, PYTHON)
    from rdmawire import fuzz


@pytest.mark.parametrize("device", ["rxe", "siw"])
def test_device_is_fuzzed(tmp_path, device):
    executions = 1000 if FULL else 60
    arguments = ["--target", f"lab:{device}", "--executions", str(executions), "--seed", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "rdmawire.fuzz", *arguments, "--report", str(tmp_path)],
        env=dict(os.environ, PYTHONPATH=PYTHON), capture_output=True, text=True, timeout=HANG,
    )
    # Both devices have known violations (docs/reference/known-deviations.md), some of which the fuzzer finds
    # immediately.
    assert done.returncode == 1, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    statistics = report["statistics"]
    assert statistics["executions"] == executions
    assert statistics["steps"] > executions and statistics["connections"] >= statistics["lives"] // 2
    # The edges are different combinations of state, step and response.
    assert statistics["edges"] > 40
    # After a crash, the guest is restarted and the run continues.
    died = sum(one["times"] for one in report["findings"]
               if one["oracle"] in ("kernel message", "device gone") and "WARNING" not in one["signature"])  # fmt: skip
    assert report["statistics"]["restarts"] >= died
    reproduced = [one for one in report["findings"] if one["reproduced"]]
    assert len(reproduced) > 1
    for one in report["findings"]:
        assert (tmp_path / one["directory"] / "reproduce.py").exists()
    # One of the scripts causes the same alarm in another guest.
    [finding] = [one for one in reproduced if one["oracle"] not in ("kernel message", "device gone")][:1]
    again = subprocess.run(
        [sys.executable, str(tmp_path / finding["directory"] / "reproduce.py")],
        env=dict(os.environ, PYTHONPATH=PYTHON), capture_output=True, text=True, timeout=HANG,
    )
    assert again.returncode == 1, again.stdout + again.stderr
    assert finding["signature"] in again.stdout


@pytest.mark.parametrize("device", ["rxe", "siw"])
def test_lost_guest_is_restarted_and_the_run_continues(device):
    before = lab_guests.processes()
    with fuzz.Session(f"lab:{device}", seed=2, minimize=False) as session:
        session.run(executions=5)
        [killed] = set(lab_guests.processes()) - set(before)
        restored = lab_guests.is_restored(killed)
        os.kill(killed, signal.SIGKILL)
        session.run(executions=5)
        [running] = set(lab_guests.processes()) - set(before)
        assert running != killed
        assert lab_guests.is_restored(running) and not restored
        assert session.statistics.executions == 10
        assert session.statistics.restarts >= 1
        session.run(executions=5)
        assert session.statistics.executions == 15
    assert lab_guests.processes() == before


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


@pytest.mark.parametrize("side", MANAGED)
def test_cm_connections_of_rxe_are_followed(tmp_path, side):
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"family": "roce", "seed": 1, "steps": MANAGED[side]}))
    done = subprocess.run(
        [sys.executable, "-m", "rdmawire.fuzz", "--target", "lab:rxe", "--replay", str(script)],
        env=dict(os.environ, PYTHONPATH=PYTHON), capture_output=True, text=True, timeout=HANG,
    )
    assert done.returncode == 0, done.stdout + done.stderr
