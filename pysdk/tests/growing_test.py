"""Captures that grow, and captures of the same traffic at several places: as `analyze --follow` and `--capture-points` have them."""

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
from sample_captures import RPING, SAMPLES, said

BYTES = RPING.read_bytes()


@pytest.fixture
def growing(tmp_path):
    path = tmp_path / "growing.pcap"
    path.write_bytes(BYTES[:9000])
    return path


def grow(path, data):
    with path.open("ab") as file:
        file.write(data)


def whole(report):
    """Without the file's name, which differs."""
    return {key: value for key, value in report.to_dict().items() if key != "input"}


def test_a_file_that_grows_gives_in_the_end_what_the_whole_file_gives(growing):
    with rdmawire.follow(growing, every=0.1, idle=1.0) as following:
        reports = iter(following)
        first = next(reports)
        grow(growing, BYTES[9000:20000])
        second = next(reports)
        grow(growing, BYTES[20000:])
        *_, last = reports
    assert 0 < first.summary.packets < second.summary.packets < last.summary.packets
    assert whole(last) == whole(rdmawire.analyze(RPING))
    assert last.read_errors == following.read_errors == [] and following.closed
    with pytest.raises(rdmawire.UsageError, match="requires the packets"):
        last.messages.columns()


def test_options_are_those_of_analyze(growing):
    grow(growing, BYTES[9000:])
    options = {"filter": "not aeth", "ignore": ["cm"], "verify_crcs": False}
    [report] = rdmawire.follow(growing, every=5, seconds=0.3, **options)
    assert whole(report) == whole(rdmawire.analyze(RPING, **options))
    assert report["input"].filter == "not aeth"


def test_it_can_be_looked_at_and_stopped_from_another_thread(growing):
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


def test_a_file_that_goes_away_ends_it_with_a_sentence(growing):
    with rdmawire.follow(growing, every=0.1) as following:
        reports = iter(following)
        next(reports)
        growing.unlink()
        *_, last = reports
    assert "was removed" in last.read_errors[0] and last.summary.packets > 0


def test_what_cannot_be_followed(tmp_path):
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
    nothing = tmp_path / "nonsense.pcap"
    nothing.write_bytes(b"this is no capture, and never will be one")
    with pytest.raises(rdmawire.CaptureError, match=r"nonsense\.pcap"):
        list(rdmawire.follow(nothing, every=0.1))


@pytest.fixture
def two_places(tmp_path):
    """One capture and what a place behind it saw: later, and one packet less."""
    sample = SAMPLES[[path.name for path in SAMPLES].index("rc-send.pcap.gz")]
    before, behind = tmp_path / "before.pcap", tmp_path / "behind.pcap"
    with rdmawire.create_capture(before) as out, rdmawire.create_capture(behind) as further:
        for frame in rdmawire.open_capture(sample):
            out.write(frame)
            if frame.number != 50:
                further.write(frame, time_ns=frame.time_ns + 5000)
    return before, behind


def test_places_are_compared_as_the_command_does(two_places):
    for options, words in (
        ({}, []),
        ({"synchronized": True, "order": ["before.pcap", "behind.pcap"]},
         ["--clocks", "synchronized", "--order", "before.pcap,behind.pcap"]),
        ({"filter": "bth", "window": 0.5, "verify_crcs": False}, ["--filter", "bth", "--window", "0.5", "--no-crc"]),
    ):  # fmt: skip
        comparison = rdmawire.compare(two_places, **options)
        assert comparison.to_dict() == json.loads(said("analyze", "--capture-points", "--json", *words, *two_places))
        text = said("analyze", "--capture-points", "--color", "never", *words, *two_places)
        assert comparison.text(width=120) == text and str(comparison)
    assert [point.name for point in comparison.points] == ["before", "behind"]
    assert comparison.findings and comparison.findings[0].title in comparison._repr_html_()
    assert pickle.loads(pickle.dumps(comparison)).to_dict() == comparison.to_dict()
    assert "before.pcap and 1 more" in repr(comparison)


def test_what_cannot_be_compared(two_places, tmp_path):
    before, behind = two_places
    for files, options, why in (
        ([before], {}, "at least two files"),
        ([before, before], {}, "duplicate file"),
        ([before, "-"], {}, "read twice"),
        ([before, behind], {"order": ["before.pcap"]}, "1 of 2 given"),
        ([before, behind], {"order": ["x.pcap"]}, "does not match exactly one file"),
        ([before, behind], {"window": -1}, "window"),
        ([before, behind], {"filter": "icrc.status == bad", "verify_crcs": False}, "CRCs"),
    ):
        with pytest.raises(rdmawire.UsageError, match=why):
            rdmawire.compare(files, **options)
    with pytest.raises(rdmawire.CaptureError, match=r"none\.pcap"):
        rdmawire.compare([before, tmp_path / "none.pcap"])

    def enough(*_):
        raise KeyError("enough")

    large = tmp_path / "large.pcap"
    with rdmawire.create_capture(large) as out:
        for frame in itertools.islice(itertools.cycle(list(rdmawire.open_capture(before))), 20_000):
            out.write(frame)
    with pytest.raises(KeyError, match="enough"):
        rdmawire.compare([large, behind], progress=enough)


def test_counts_are_those_of_dissect():
    for path in SAMPLES:
        assert rdmawire.open_capture(path).counts() == json.loads(said("dissect", "--count", "--json", path))
    counted = rdmawire.open_capture(RPING).counts(filter="aeth", verify_crcs=False)
    assert counted == json.loads(said("dissect", "--count", "--json", "--filter", "aeth", "--no-crc", RPING))
    with pytest.raises(rdmawire.CaptureError, match="stopped after"):
        rdmawire.open_capture(BYTES[:5000]).counts()
    with rdmawire.open_capture(RPING) as capture:
        pass
    with pytest.raises(rdmawire.ClosedError):
        capture.counts()


def test_csv_is_what_the_command_writes(tmp_path):
    rdmawire.analyze(RPING).to_csv(tmp_path / "ours", packets=True)
    said("analyze", "--csv", tmp_path / "theirs", "--csv-packets", "--threads", "1", RPING)
    names = sorted(path.name for path in (tmp_path / "theirs").iterdir())
    assert sorted(path.name for path in (tmp_path / "ours").iterdir()) == names and "packets.csv" in names
    for name in names:
        assert (tmp_path / "ours" / name).read_text() == (tmp_path / "theirs" / name).read_text()
    with pytest.raises(rdmawire.CaptureError):
        rdmawire.analyze(RPING).to_csv("/proc/nowhere")
    with pytest.raises(rdmawire.UsageError, match="requires the packets"):
        rdmawire.Report.from_json(rdmawire.analyze(RPING).to_json()).to_csv(tmp_path / "none")


def test_nothing_of_it_leaks(tmp_path, two_places):
    """Objects, blocks of the interpreter's, and memory that malloc gave, after as many turns again."""
    commented = tmp_path / "commented.pcapng"
    with rdmawire.create_capture(commented) as out:
        for frame in rdmawire.open_capture(RPING):
            out.write(frame, comments=[f"number {frame.number}"])

    def turn():
        for frame in rdmawire.open_capture(commented):
            assert frame.comments and frame.interface is not None
        pickle.loads(pickle.dumps(frame)).copy()
        for packet in rdmawire.open_capture(commented).packets():
            assert packet.comments == packet.frame.comments
        with rdmawire.follow(RPING, every=1, seconds=0.01) as following:
            list(following)
        rdmawire.compare(two_places)
        rdmawire.open_capture(RPING).counts()
        with pytest.raises(rdmawire.UsageError):
            rdmawire.compare([RPING, RPING])

    for _ in range(5):
        turn()
    gc.collect()
    objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
    high = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        turn()
    gc.collect()
    assert len(gc.get_objects()) - objects < 100
    assert sys.getallocatedblocks() - blocks < 2000  # one a frame would be seven thousand
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - high < 8192  # KiB
