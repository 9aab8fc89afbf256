"""Growing captures, and captures of the same traffic at several capture points.

The command's counterparts are `analyze --follow` and `analyze --capture-points`.
"""

import gc
import itertools
import json
import pickle
import resource
import sys
import threading
import time

import pytest
import rdmawire
from sample_captures import RPING, SAMPLES, command_output

BYTES = RPING.read_bytes()


@pytest.fixture
def growing(tmp_path):
    path = tmp_path / "growing.pcap"
    path.write_bytes(BYTES[:9000])
    return path


def grow(path, data):
    with path.open("ab") as file:
        file.write(data)


def without_file_name(report):
    """Return the report without the file's name, which differs."""
    return {key: value for key, value in report.to_dict().items() if key != "input"}


def test_last_report_of_growing_file_equals_analyze(growing):
    with rdmawire.follow(growing, every=0.1, idle=1.0) as following:
        reports = iter(following)
        first = next(reports)
        grow(growing, BYTES[9000:20000])
        second = next(reports)
        grow(growing, BYTES[20000:])
        *_, last = reports
    assert 0 < first.summary.packets < second.summary.packets < last.summary.packets
    assert without_file_name(last) == without_file_name(rdmawire.analyze(RPING))
    assert last.read_errors == following.read_errors == [] and following.closed
    with pytest.raises(rdmawire.UsageError, match="requires the packets"):
        last.messages.columns()


def test_follow_has_the_options_of_analyze(growing):
    grow(growing, BYTES[9000:])
    options = {"filter": "not aeth", "ignore": ["cm"], "verify_crcs": False}
    [report] = rdmawire.follow(growing, every=5, seconds=0.3, **options)
    assert without_file_name(report) == without_file_name(rdmawire.analyze(RPING, **options))
    assert report["input"].filter == "not aeth"


def test_follow_can_be_inspected_and_stopped_from_a_thread(growing):
    following = rdmawire.follow(growing, every=0.1)
    reports = []
    thread = threading.Thread(target=lambda: reports.extend(following))
    thread.start()
    deadline = time.monotonic() + 10
    while following.packets == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert following.report().summary.packets == following.packets > 0
    assert "packets" in repr(following)
    following.stop()
    thread.join(10)
    assert not thread.is_alive() and reports[-1].summary.packets > 0


def test_deleted_file_ends_follow_with_an_error(growing):
    with rdmawire.follow(growing, every=0.1) as following:
        reports = iter(following)
        next(reports)
        growing.unlink()
        *_, last = reports
    assert "was removed" in last.read_errors[0] and last.summary.packets > 0


def test_follow_rejects_invalid_input(tmp_path):
    with pytest.raises(rdmawire.CaptureError, match="not found"):
        rdmawire.follow(tmp_path / "none.pcap")
    with pytest.raises(rdmawire.CaptureError, match="regular file"):
        rdmawire.follow("/dev/null")
    with pytest.raises(rdmawire.CaptureError):
        rdmawire.follow(interface="no-such-interface")
    for wrong in ({}, {"file": "x", "interface": "y"}, {"file": RPING, "capture_filter": "tcp"}, {"file": RPING, "every": 0}):
        with pytest.raises(rdmawire.UsageError, match="follow"):
            rdmawire.follow(**wrong)
    with pytest.raises(rdmawire.UsageError, match="unknown field"):
        rdmawire.follow(RPING, filter="bth.opcod")
    invalid = tmp_path / "nonsense.pcap"
    invalid.write_bytes(b"this is text instead of a capture")
    with pytest.raises(rdmawire.CaptureError, match=r"nonsense\.pcap"):
        list(rdmawire.follow(invalid, every=0.1))


@pytest.fixture
def two_points(tmp_path):
    """A capture, and the same traffic downstream: delayed by 5 µs, without one packet."""
    sample = SAMPLES[[path.name for path in SAMPLES].index("rc-send.pcap.gz")]
    upstream, downstream = tmp_path / "upstream.pcap", tmp_path / "downstream.pcap"
    with rdmawire.create_capture(upstream) as out, rdmawire.create_capture(downstream) as delayed:
        for frame in rdmawire.open_capture(sample):
            out.write(frame)
            if frame.number != 50:
                delayed.write(frame, time_ns=frame.time_ns + 5000)
    return upstream, downstream


def test_comparison_equals_the_command_output(two_points):
    for options, words in (
        ({}, []),
        ({"synchronized": True, "order": ["upstream.pcap", "downstream.pcap"]},
         ["--clocks", "synchronized", "--order", "upstream.pcap,downstream.pcap"]),
        ({"filter": "bth", "window": 0.5, "verify_crcs": False}, ["--filter", "bth", "--window", "0.5", "--no-crc"]),
    ):  # fmt: skip
        comparison = rdmawire.compare(two_points, **options)
        assert comparison.to_dict() == json.loads(command_output("analyze", "--capture-points", "--json", *words, *two_points))
        text = command_output("analyze", "--capture-points", "--color", "never", *words, *two_points)
        assert comparison.text(width=120) == text and str(comparison)
    assert [point.name for point in comparison.points] == ["upstream", "downstream"]
    assert comparison.findings and comparison.findings[0].title in comparison._repr_html_()
    assert pickle.loads(pickle.dumps(comparison)).to_dict() == comparison.to_dict()
    assert "upstream.pcap and 1 more" in repr(comparison)


def test_compare_rejects_invalid_input(two_points, tmp_path):
    upstream, downstream = two_points
    for files, options, why in (
        ([upstream], {}, "at least two files"),
        ([upstream, upstream], {}, "duplicate file"),
        ([upstream, "-"], {}, "read twice"),
        ([upstream, downstream], {"order": ["upstream.pcap"]}, "1 of 2 given"),
        ([upstream, downstream], {"order": ["x.pcap"]}, "does not match exactly one file"),
        ([upstream, downstream], {"window": -1}, "window"),
        ([upstream, downstream], {"filter": "icrc.status == bad", "verify_crcs": False}, "requires verify_crcs=True"),
    ):
        with pytest.raises(rdmawire.UsageError, match=why):
            rdmawire.compare(files, **options)
    with pytest.raises(rdmawire.CaptureError, match=r"none\.pcap"):
        rdmawire.compare([upstream, tmp_path / "none.pcap"])

    def abort(*_):
        raise KeyError("abort")

    large = tmp_path / "large.pcap"
    with rdmawire.create_capture(large) as out:
        for frame in itertools.islice(itertools.cycle(list(rdmawire.open_capture(upstream))), 20_000):
            out.write(frame)
    with pytest.raises(KeyError, match="abort"):
        rdmawire.compare([large, downstream], progress=abort)


def test_counts_equal_dissect_count():
    for path in SAMPLES:
        assert rdmawire.open_capture(path).counts() == json.loads(command_output("dissect", "--count", "--json", path))
    counted = rdmawire.open_capture(RPING).counts(filter="aeth", verify_crcs=False)
    assert counted == json.loads(command_output("dissect", "--count", "--json", "--filter", "aeth", "--no-crc", RPING))
    with pytest.raises(rdmawire.CaptureError, match="stopped after"):
        rdmawire.open_capture(BYTES[:5000]).counts()
    with rdmawire.open_capture(RPING) as capture:
        pass
    with pytest.raises(rdmawire.ClosedError):
        capture.counts()


def test_csv_files_equal_the_command_output(tmp_path):
    rdmawire.analyze(RPING).to_csv(tmp_path / "ours", packets=True)
    command_output("analyze", "--csv", tmp_path / "theirs", "--csv-packets", "--threads", "1", RPING)
    names = sorted(path.name for path in (tmp_path / "theirs").iterdir())
    assert sorted(path.name for path in (tmp_path / "ours").iterdir()) == names and "packets.csv" in names
    for name in names:
        assert (tmp_path / "ours" / name).read_text() == (tmp_path / "theirs" / name).read_text()
    with pytest.raises(rdmawire.CaptureError):
        rdmawire.analyze(RPING).to_csv("/proc/nowhere")
    with pytest.raises(rdmawire.UsageError, match="requires the packets"):
        rdmawire.Report.from_json(rdmawire.analyze(RPING).to_json()).to_csv(tmp_path / "none")


def test_repeated_use_does_not_leak(tmp_path, two_points):
    """Counts objects, interpreter blocks and resident memory."""
    commented = tmp_path / "commented.pcapng"
    with rdmawire.create_capture(commented) as out:
        for frame in rdmawire.open_capture(RPING):
            out.write(frame, comments=[f"number {frame.number}"])

    def use_everything():
        for frame in rdmawire.open_capture(commented):
            assert frame.comments and frame.interface is not None
        pickle.loads(pickle.dumps(frame)).copy()
        for packet in rdmawire.open_capture(commented).packets():
            assert packet.comments == packet.frame.comments
        with rdmawire.follow(RPING, every=1, seconds=0.01) as following:
            list(following)
        rdmawire.compare(two_points)
        rdmawire.open_capture(RPING).counts()
        with pytest.raises(rdmawire.UsageError):
            rdmawire.compare([RPING, RPING])

    for _ in range(5):
        use_everything()
    gc.collect()
    objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
    high = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        use_everything()
    gc.collect()
    assert len(gc.get_objects()) - objects < 100
    assert sys.getallocatedblocks() - blocks < 2000  # one block per frame would be 7,000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - high < 8192  # KiB
