"""rdmawire replay --reactive against the reference device."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RDMAWIRE = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))
PINGPONG, RPING, STREAM, SRQ = (
    str(ROOT / "captures/samples" / name)
    for name in ("rc-pingpong.pcap.gz", "rping.pcap", "siw-rping.pcap", "srq-pingpong.pcap.gz")
)

pytestmark = pytest.mark.skipif(not RDMAWIRE.exists(), reason=f"needs the command: {RDMAWIRE} is not built")


def replay(capture, *arguments):
    command = [RDMAWIRE, "replay", capture, "--reactive", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("capture", [PINGPONG, RPING, STREAM])
@pytest.mark.parametrize("side", ["a", "b"])
def test_emulated_side_gets_captured_responses(capture, side):
    done = replay(capture, "--side", side, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["good"], report["failure"]) == (0, True, ""), done
    assert report["side"] == side and report["divergences"] == [] and report["error_counters"] == {}
    for messages in report["messages"].values():
        assert messages["completed"] == messages["all"] > 0
    assert all(one["good"] for one in report["memory"])


def test_loss_is_recovered_and_recorded(tmp_path):
    out = tmp_path / "out.pcapng"
    done = replay(PINGPONG, "--side", "a", "--fault", "drop connection 1 psn +5 try 1 from a", "-O", out)
    assert done.returncode == 0, done
    assert "NAK PSN sequence error, PSN +5, MSN 0" in done.stdout
    assert "1 NAK recovery: 3 packets" in done.stdout
    checked = subprocess.run([RDMAWIRE, "dissect", out, "--color", "never"], capture_output=True, text=True, timeout=60)
    assert "ICRC bad" not in checked.stdout and checked.stdout.count("\n") > 800


def test_fault_rules_use_the_connection_and_qp_numbers_of_the_report():
    shown = replay(SRQ, "--connection", "3", "--dry-run").stdout
    qp = re.search(r"^connection 3: RC QP (0x[0-9a-f]+)", shown).group(1)
    done = replay(SRQ, "--connection", "3", "--side", "a", "--fault", "drop connection 3 psn +2 try 1", "--fault",
                  f"duplicate qp {qp} nth 2")
    assert done.returncode == 0 and "(connection 3, " in done.stdout, done
    done = replay(SRQ, "--connection", "3", "--side", "a", "--fault", "drop connection 1 psn +2 try 1")
    assert done.returncode == 1 and "(they belong to connection 3)" in done.stderr, done


def test_divergence_shows_captured_and_live_frames():
    done = replay(PINGPONG, "--side", "a", "--device-fault", "msn-starts-at-one")
    assert done.returncode == 1
    assert "captured: frame 34: ACK, PSN +7, MSN 1; live: frame 9: ACK, PSN +7, MSN 2" in done.stdout


def test_dry_run_lists_steps():
    done = replay(RPING, "--dry-run", "--side", "b")
    assert done.returncode == 0
    steps = done.stdout.splitlines()
    assert steps[1:4] == [
        "the peer posts message 1: SEND of 16 bytes (frame 18)",
        "wait for the peer's message 1 and respond",
        "send message 1: READ of 4000 bytes, PSN +0 to +3 (frame 20)",
    ]


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        (["--connection", "9"], 2, "no connection 9"),
        (["--device", "rxe0"], 2, 'unknown device "rxe0"'),
        (["--speed", "2"], 2, "--speed cannot be used with --reactive"),
        (["--fault", "dorp psn +5"], 2, "dorp"),
        (["--device-fault", "msn-start-at-one"], 2, "did you mean msn-starts-at-one?"),
        (["--device-fault", "nothing"], 2, 'unknown fault "nothing"'),
        (["-O", "/no/such/directory/x.pcapng"], 3, "/no/such/directory"),
    ],
)
def test_invalid_arguments_are_reported(arguments, status, words):
    done = replay(RPING, *arguments)
    assert done.returncode == status, done
    assert words in done.stderr + done.stdout


def test_live_peer_options_require_reactive():
    done = subprocess.run([RDMAWIRE, "replay", RPING, "--wire", "null", "--side", "a"], capture_output=True, text=True)
    assert done.returncode == 2 and "--reactive" in done.stderr
