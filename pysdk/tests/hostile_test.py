"""Every call can be interrupted, and no call crashes, regardless of the arguments."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rdmawire
import sample_frames

HERE = Path(__file__).parent
FULL = bool(os.environ.get("RDMAWIRE_FULL"))
SECONDS = 3600 if FULL else 20
SEED = int(os.environ.get("RDMAWIRE_SEED", "1"))
RPING = sample_frames.SAMPLES / "rping.pcap"


def test_hostile_arguments_end_in_exceptions(tmp_path):
    log = tmp_path / "call"
    seed = str(int(time.time()) if FULL and "RDMAWIRE_SEED" not in os.environ else SEED)
    child = subprocess.Popen(
        [sys.executable, str(HERE / "hostile_calls.py"), str(log), "--seed", seed, "--seconds", str(SECONDS)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
    )  # fmt: skip
    # The timer of a call cannot interrupt a call that hangs in C++.
    last, since = None, time.monotonic()
    while child.poll() is None:
        time.sleep(0.2)
        now = log.read_text(errors="replace") if log.exists() else None
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() - since > 60:
            child.send_signal(signal.SIGABRT)  # faulthandler prints the stack
            break
    out, err = child.communicate()
    call = log.read_text(errors="replace")
    assert child.returncode == 0, f"seed {seed}: status {child.returncode} in {call}\n{out}\n{err[-4000:]}"
    count, systematic = re.match(r"(\d+) calls, (\d+) systematic", out).groups()
    assert int(count) - int(systematic) > 1000  # random calls. An idle host executes a hundred times as many


CORE_CALLS = [
    lambda core: core.Packet.show(None),
    lambda core: core.Packet.show(core.Packet.__new__(core.Packet)),
    lambda core: core.Packet.number.fget(None),
    lambda core: core.Stimulus.solicited(None),
    lambda core: core.CaptureSource.facts(None),
    lambda core: core.captured_frames(None),
    lambda core: core.captured_frames(core.CaptureSource.__new__(core.CaptureSource)),
    lambda core: core._QueuePair(None, "rc", {}, 1, None, None),
    lambda core: core._Wire.counters(None),
    lambda core: core._Device.close(None),
]


@pytest.mark.parametrize("call", CORE_CALLS)
def test_none_and_unfinished_objects_are_rejected(call):
    with pytest.raises(TypeError):
        call(rdmawire._core)


def test_rejection_of_none_names_the_argument():
    with pytest.raises(TypeError, match=r"show\(\): self: expected of type .*Packet, got None"):
        rdmawire._core.Packet.show(None)


def test_repeated_constructor_keeps_an_open_device():
    with rdmawire.reference() as device:
        with pytest.raises(TypeError):
            device.__init__(None)
        assert device.rc_qp().qpn > 0


def interrupted(program, *arguments, stdin=None, after="ready"):
    """Run a program that prints "ready" before a call, interrupt it, and return the seconds until its end."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdin=stdin, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout.readline().strip() == after, child.stderr.read()
    time.sleep(0.3)
    begin = time.monotonic()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=120)
    assert "KeyboardInterrupt" in err, err
    return time.monotonic() - begin


# The time includes the end of the interpreter. An idle host needs less than 1.5 s (RDMAWIRE_SLOWDOWN=2).
MOST = 0.5 + 0.5 * float(os.environ.get("RDMAWIRE_SLOWDOWN", "6"))
BEGIN = "import sys, rdmawire; print('ready', flush=True); "


def test_ctrl_c_ends_reading_of_a_silent_pipe():
    for work in ("rdmawire.open_capture('-')", "rdmawire.analyze('-')", "rdmawire.check('-')"):
        reader, writer = os.pipe()
        assert interrupted(BEGIN + work, stdin=reader) < MOST, work
        os.close(reader), os.close(writer)


def test_ctrl_c_ends_opening_of_a_pipe_without_writer(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for work in ("open_capture", "analyze", "check"):
        assert interrupted(BEGIN + f"rdmawire.{work}(sys.argv[1])", tmp_path / "fifo") < MOST, work


def test_ctrl_c_ends_an_iteration_over_a_pipe_that_stops(tmp_path):
    program = (
        "import sys, rdmawire\n"
        "for number, _ in enumerate(rdmawire.open_capture('-'), 1):\n"
        "    if number == 20: print('ready', flush=True)\n"
    )
    reader, writer = os.pipe()
    os.write(writer, RPING.read_bytes()[:4000])
    assert interrupted(program, stdin=reader) < MOST
    os.close(reader), os.close(writer)


def large_capture(path):
    """Make a capture of 2 GB that uses no disk space: 134 million empty records."""
    path.write_bytes(RPING.read_bytes()[:24])
    os.truncate(path, 2 << 30)
    return path


def test_ctrl_c_ends_work_on_a_large_capture(tmp_path):
    path = large_capture(tmp_path / "large.pcap")
    for work in ("learn_map(sys.argv[1])", "analyze(sys.argv[1])", "check(sys.argv[1])",
                 "open_capture(sys.argv[1]).facts()", "open_capture(sys.argv[1]).columns(['frame.len'])",
                 "replay_reactive(sys.argv[1], rdmawire.reference())",
                 "replay(sys.argv[1], dry_run=True, map=['qp:0x11=0x12'])"):  # fmt: skip
        assert interrupted(BEGIN + f"rdmawire.{work}", path) < MOST, work


def test_large_counts_are_refused():
    with rdmawire.reference() as device, device.rc_qp() as qp:
        with pytest.raises(rdmawire.UsageError, match="count=2147483648: expected at most"):
            qp.post_recv(1 << 31)
    with pytest.raises(rdmawire.UsageError, match="count=4294967296: expected at most"):
        rdmawire.conformance.pattern_bytes(1 << 32)


@pytest.mark.parametrize("extra", [3, 5, 7])
def test_device_that_cannot_start_its_thread_raises(extra):
    """The address space is too small for the stack of a thread, 8 MiB."""
    program = (
        "import resource, sys, rdmawire\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (int(sys.argv[1]) << 20), resource.RLIM_INFINITY))\n"
        "try:\n"
        "    rdmawire.reference()\n"
        "except (rdmawire.DeviceError, MemoryError, RuntimeError) as error:\n"
        "    print('raised', error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(extra)], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0 and "raised" in ran.stdout, ran
