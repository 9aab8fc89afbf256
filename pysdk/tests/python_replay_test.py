"""Replay from Python: unchanged, rewritten, with faults and callbacks, and one side against a device."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import rdmawire
from rdmawire import BTH, CaptureError, UsageError, areplay, learn_map, open_wire, replay, replay_reactive, wire_pair

ROOT = Path(__file__).resolve().parents[2]
RPING = ROOT / "captures" / "samples" / "rping.pcap"
COMMAND = ROOT / "build" / "dev" / "bin" / "rdmawire"


def frames_of(path):
    with open_wire(f"file:{path},read") as wire:
        return list(wire)


def test_replay_to_a_file_writes_every_frame(tmp_path):
    report = replay(RPING, f"file:{tmp_path / 'x.pcapng'}")
    assert report.ok and report.sent == 379
    assert [bytes(f) for f in frames_of(tmp_path / "x.pcapng")] == [bytes(f) for f in frames_of(RPING)]
    assert str(report).startswith("sent 379 frames")


def test_report_equals_the_command_output(tmp_path):
    if not COMMAND.exists():
        pytest.skip(f"requires the rdmawire command at {COMMAND}")
    options = ["--speed", "10", "--fault", "drop psn +5 try 1", "--seed", "1"]
    done = subprocess.run(
        [COMMAND, "replay", RPING, "--wire", f"file:{tmp_path / 'a.pcapng'}", "--json", *options],
        capture_output=True,
        text=True,
        check=True,
    )
    report = replay(RPING, f"file:{tmp_path / 'b.pcapng'}", speed=10, faults=["drop psn +5 try 1"], fault_seed=1)
    printed = json.loads(done.stdout.replace("a.pcapng", "b.pcapng"))
    assert report.json == printed
    assert (tmp_path / "a.pcapng").read_bytes() == (tmp_path / "b.pcapng").read_bytes()


def test_dry_run_reports_mapped_fields():
    report = replay(
        RPING, map=["ip:10.0.0.2=192.168.1.2", "qp:10.0.0.2/0x11=0x777"], include="bth.psn == 8415281", dry_run=True
    )
    first = dict(report.differences)[18]
    assert "ip.dst 10.0.0.2 → 192.168.1.2" in first and "bth.dest_qp 0x11 → 0x777" in first
    assert len(report.differences) == 2


def test_inferred_mapping_file_is_extended_and_used(tmp_path):
    path = tmp_path / "map.json"
    path.write_text(learn_map(RPING, ["qp:10.0.0.2/0x11=0x777"]))
    assert json.loads(path.read_text())["connections"]
    report = replay(RPING, f"file:{tmp_path / 'x.pcapng'}", map=path, others="keep")
    assert report.ok
    assert any(BTH in f and f[BTH].dest_qp == 0x777 for f in frames_of(tmp_path / "x.pcapng"))


def test_on_frame_changes_and_drops_frames(tmp_path):
    seen = []

    def on_frame(played):
        seen.append(played.number)
        if BTH not in played.frame:
            return False
        if played.frame[BTH].psn == 8415281:
            changed = played.frame.copy()
            changed[BTH].psn = 1
            return changed
        return None if played.number % 2 else bytes(played.frame)

    report = replay(RPING, f"file:{tmp_path / 'x.pcapng'}", on_frame=on_frame)
    out = frames_of(tmp_path / "x.pcapng")
    assert len(seen) > len(out) == report.sent
    assert all(BTH in frame for frame in out)
    assert 1 in [frame[BTH].psn for frame in out]
    assert 8415281 not in [frame[BTH].psn for frame in out]
    assert report.json["skipped"]["excluded"]["frames"] == len(seen) - len(out)


@pytest.mark.parametrize("name", ["on_frame", "on_progress"])
def test_callback_exception_ends_the_replay(name, tmp_path):
    class Enough(Exception):
        pass

    def raises(argument):
        raise Enough

    a, b = wire_pair()
    with a, b, pytest.raises(Enough):
        replay(RPING, a, **{name: raises}, loops=0, pps=1000)


def test_on_frame_result_of_wrong_type_raises():
    with pytest.raises(TypeError):
        replay(RPING, "null", on_frame=lambda played: 5)


def test_progress_and_timing():
    steps = []
    a, b = wire_pair(frames=100_000)
    with a, b:
        started = time.monotonic()
        report = replay(RPING, a, pps=500, limit=300, on_progress=steps.append)
        assert 0.5 < time.monotonic() - started < 60
        assert report.sent == 300 and b.receive(timeout=1) is not None
    assert steps and steps[-1]["sent"] <= 300


def test_ctrl_c_and_other_threads_work_during_replay():
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import rdmawire, threading, os, signal, time\n"
        "a, b = rdmawire.wire_pair(frames=1000000)\n"
        "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        f"try:\n    rdmawire.replay({str(RPING)!r}, a, pps=100, loops=0)\n"
        "except KeyboardInterrupt:\n    print('interrupted', b.receive(0) is not None)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted True\n", done.stderr


def test_canceled_task_stops_the_replay():
    async def cancel_replay():
        a, b = wire_pair(frames=1_000_000)
        async with a, b:
            report = await areplay(RPING, a, topspeed=True)
            assert report.sent > 300
            task = asyncio.create_task(areplay(RPING, a, pps=100, loops=0))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            sent = a.counters.sent
            await asyncio.sleep(0.1)
            assert a.counters.sent == sent  # sending has stopped

    asyncio.run(cancel_replay())


def test_invalid_arguments_are_rejected(tmp_path):
    a, b = wire_pair()
    with a, b:
        for call in (
            lambda: replay(RPING),
            lambda: replay(RPING, a, color="red"),
            lambda: replay(RPING, a, speed=0),
            lambda: replay(RPING, a, speed="fast"),
            lambda: replay(RPING, a, crc="perhaps"),
            lambda: replay(RPING, a, faults="explode"),
            lambda: replay(RPING, a, include="bth.opcod == 4"),
            lambda: replay(RPING, a, map=["qp:nonsense"]),
            lambda: replay([RPING, RPING], [a, b, a]),
            lambda: replay([], a),
        ):
            with pytest.raises((UsageError, CaptureError)):
                call()
        with pytest.raises(TypeError):
            replay(RPING, a, on_frame=5)
        (tmp_path / "no capture").write_text("text")
        for name in ("missing.pcap", "no capture"):
            with pytest.raises(CaptureError, match=name):
                replay(tmp_path / name, a)
            with pytest.raises(CaptureError, match=name):
                replay(tmp_path / name, dry_run=True)
        later = replay([RPING, tmp_path / "missing.pcap"], a)
        assert not later.ok and "missing.pcap" in later.error and later.error in repr(later)
    with pytest.raises(UsageError, match="allow_target"):
        replay(RPING, "packet:lo")


def test_closing_the_wire_ends_the_replay_with_a_report():
    a, b = wire_pair(frames=1_000_000)
    threading.Timer(0.2, a.close).start()
    report = replay(RPING, a, pps=100, loops=0)
    assert not report.ok and "closed" in report.error
    b.close()


def test_reactive_replay_against_the_reference_device(tmp_path):
    out = tmp_path / "exchange.pcapng"
    with rdmawire.reference() as device:
        report = replay_reactive(ROOT / "captures" / "samples" / "rping.pcap", device, output=out)
        assert report.ok, str(report)
        assert report.json["sent"] and out.stat().st_size > 1000
        with pytest.raises(UsageError):
            replay_reactive(RPING, device, side="c")
        with pytest.raises((UsageError, CaptureError)):
            replay_reactive(tmp_path / "missing.pcap", device)
        with pytest.raises((UsageError, CaptureError)):
            replay_reactive(RPING, device, connection=99)
    with pytest.raises(rdmawire.ClosedError):
        replay_reactive(RPING, device)
