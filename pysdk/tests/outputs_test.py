"""Output files: never the input, never partial."""

import os
import resource
import signal
import subprocess
import sys

import pytest
import rdmawire
import sample_frames

RPING = sample_frames.SAMPLES / "rping.pcap"


@pytest.fixture
def names(tmp_path):
    """A capture and other names of it."""
    path = tmp_path / "x.pcap"
    path.write_bytes(RPING.read_bytes())
    os.link(path, tmp_path / "hard.pcap")
    (tmp_path / "soft.pcap").symlink_to(path)
    yield [path, tmp_path / "hard.pcap", tmp_path / "soft.pcap", tmp_path / "." / ".." / tmp_path.name / "x.pcap"]
    assert path.read_bytes() == RPING.read_bytes()


def test_open_capture_is_not_overwritten(names):
    with rdmawire.open_capture(names[0]) as capture:
        for name in names:
            with pytest.raises(rdmawire.UsageError, match="is the input file|is an open capture"):
                capture.table(["bth.psn"]).to_parquet(name)
            with pytest.raises(rdmawire.UsageError, match="is an open capture; close the capture"):
                rdmawire.create_capture(name)
            a, b = rdmawire.wire_pair()
            a.record()
            with a, b, pytest.raises(rdmawire.UsageError, match="is an open capture"):
                a.save(name)


def test_closed_capture_can_be_overwritten(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(RPING.read_bytes())
    with rdmawire.open_capture(path):
        pass
    with rdmawire.create_capture(path) as out:
        out.write(bytes(60))
    assert len(list(rdmawire.open_capture(path))) == 1


def test_analyzed_capture_is_not_overwritten(names):
    report, checked = rdmawire.analyze(names[0]), rdmawire.check(names[0])
    for name in names:
        for write in (report.to_html, checked.to_html, report.messages.to_parquet):
            with pytest.raises(rdmawire.UsageError, match="is the input file"):
                write(name)


def test_replayed_capture_is_not_overwritten(names):
    for name in names:
        with pytest.raises(rdmawire.UsageError, match="is the input file"):
            rdmawire.replay(names[0], f"file:{name}")


def test_failed_output_keeps_the_old_file(tmp_path):
    report = rdmawire.analyze(RPING)
    page = tmp_path / "x.html"
    page.write_text("old")
    table = tmp_path / "x.parquet"
    table.write_text("old")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, old[1]))
        with pytest.raises(rdmawire.CaptureError, match=r"cannot write .*x\.html: File too large") as wrong:
            report.to_html(page)
        assert isinstance(wrong.value, OSError)
        with pytest.raises((rdmawire.CaptureError, OSError)):
            report.messages.to_parquet(table)
        with pytest.raises(rdmawire.CaptureError, match="File too large"):
            report.to_csv(tmp_path / "tables")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    assert page.read_text() == table.read_text() == "old"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["tables", "x.html", "x.parquet"]


def test_full_device_and_missing_directory_are_reported():
    report = rdmawire.analyze(RPING)
    with pytest.raises(rdmawire.CaptureError, match="^cannot write /dev/full: No space left on device$"):
        report.to_html("/dev/full")
    with pytest.raises(rdmawire.CaptureError, match="^cannot write /no/x.html: No such file or directory$"):
        report.to_html("/no/x.html")


def test_interrupted_output_is_absent(tmp_path):
    program = (
        "import os, signal, sys, threading, rdmawire\n"
        "def interrupt():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "table = rdmawire.open_capture(sys.argv[1]).table(['frame.number'], batch_rows=10)\n"
        "threading.Timer(0.5, interrupt).start()\n"
        "while True: table.to_parquet(sys.argv[2])\n"
    )
    target = tmp_path / "x.parquet"
    ran = subprocess.run([sys.executable, "-c", program, RPING, target], capture_output=True, text=True, timeout=60)
    assert "KeyboardInterrupt" in ran.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"x.parquet"}
