"""Captures: read by frame and by packet, written, and captured live."""

import copy
import json
import os
import pickle
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import rdmawire
from rdmawire import BTH, UDP, Ether, IPv4
from sample_captures import TRUNCATED_TO, LOSS, ROOT, RPING, SAMPLES, dissected, sample_id

CORPORA = [ROOT / "captures/io/corpus/capture_reader_fuzz", *sorted((ROOT / "captures/io/corpus").glob("*-crashes"))]


@pytest.mark.parametrize("path", SAMPLES, ids=sample_id)
def test_packets_equal_dissect_json(path):
    with rdmawire.open_capture(path) as capture:
        packets = list(capture.packets())
    assert [packet.to_dict() for packet in packets] == dissected(path)


@pytest.mark.parametrize("path", SAMPLES, ids=sample_id)
def test_frames_equal_the_records_of_the_file(path):
    expected = dissected(path)
    frames = list(rdmawire.open_capture(path))
    assert [(f.number, f.wire_length, len(bytes(f)), f.link) for f in frames] == [
        (p["frame"], p["length"], p["captured"], p["link"]) for p in expected
    ]
    assert [f"{f.time_ns // 10**9}.{f.time_ns % 10**9:09}" for f in frames] == [p["time"] for p in expected]


def test_pdus_have_the_dissected_layers():
    sample = SAMPLES[[path.name for path in SAMPLES].index("siw-write.pcap.gz")]
    pdus = [pdu for packet in rdmawire.open_capture(sample).packets() for pdu in packet.pdus]
    expected = [pdu for packet in dissected(sample) for pdu in packet.get("pdus", ())]
    assert len(pdus) == len(expected) > 50
    for pdu, expected_pdu in zip(pdus, expected, strict=True):
        assert [layer["protocol"] for layer in pdu.to_dict()["layers"]] == [
            layer["protocol"] for layer in expected_pdu["layers"]
        ]


def test_capture_can_be_iterated_repeatedly():
    with rdmawire.open_capture(RPING) as capture:
        first, second = iter(capture), iter(capture)
        assert next(first) == next(second) and next(first).number == 2
        assert len(list(capture)) == len(list(first)) + 2


def test_filter_selects_matching_frames():
    capture = rdmawire.open_capture(RPING)
    expected_pdu = [p["frame"] for p in dissected(RPING) if any(layer["protocol"] == "reth" for layer in p["layers"])]
    assert [f.number for f in capture.frames(filter="reth")] == expected_pdu
    assert [p.number for p in capture.packets(filter="reth")] == expected_pdu


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview], ids=lambda kind: kind.__name__)
def test_bytes_are_read_as_a_capture(make):
    assert list(rdmawire.open_capture(make(RPING.read_bytes()))) == list(rdmawire.open_capture(RPING))


def test_file_object_is_read_as_a_capture():
    with RPING.open("rb") as file:
        assert len(list(rdmawire.open_capture(file))) == len(dissected(RPING))
    with RPING.open("r", errors="replace") as file, pytest.raises(rdmawire.UsageError, match="'rb'"):
        rdmawire.open_capture(file)


def test_buffer_of_open_capture_cannot_be_resized():
    data = bytearray(RPING.read_bytes())
    frames = iter(rdmawire.open_capture(data))
    next(frames)
    with pytest.raises(BufferError):
        data.clear()


def test_stream_is_read_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(RPING.read_bytes()))
    writer.start()
    capture = rdmawire.open_capture(tmp_path / "pipe")
    assert len(list(capture)) == len(dissected(RPING))
    writer.join()
    with pytest.raises(rdmawire.CaptureError, match="is a stream and was read already"):
        next(iter(capture))


@pytest.mark.parametrize(
    "content, message",
    [(None, "No such file"), (b"", "empty"), (b"not a capture, but text", "neither pcap nor pcapng")],
)
def test_invalid_capture_file_is_reported(tmp_path, content, message):
    file = tmp_path / "x.pcap"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(rdmawire.CaptureError, match=f"x.pcap.*{message}"):
        rdmawire.open_capture(file)


def test_read_error_follows_all_complete_frames():
    frames = []
    with pytest.raises(rdmawire.CaptureError, match="memory: record .* at byte .*stopped after") as failure:
        for frame in rdmawire.open_capture(RPING.read_bytes()[:TRUNCATED_TO]):
            frames.append(frame)  # noqa: PERF402
    assert frames and f"stopped after {len(frames)} packets" in str(failure.value)
    facts = rdmawire.open_capture(RPING.read_bytes()[:TRUNCATED_TO]).facts()
    assert facts.packets == len(frames) and facts.error == str(failure.value)


def test_use_after_close_raises():
    capture = rdmawire.open_capture(RPING)
    frames, packets, rows = iter(capture), capture.packets(), iter(capture.table(["frame.number"]))
    frame = next(frames)
    capture.close()
    capture.close()
    assert capture.closed and "closed" in repr(capture)
    uses = [
        lambda: next(frames),
        lambda: next(packets),
        lambda: next(rows),
        lambda: iter(capture),
        capture.facts,
        lambda: capture.columns(["bth.psn"]),
    ]
    for use in uses:
        with pytest.raises(rdmawire.ClosedError, match="rping.pcap was closed"):
            use()
    assert len(bytes(frame)) > 0


def test_closing_while_other_threads_iterate():
    for path in (RPING, LOSS):
        capture = rdmawire.open_capture(path)
        failures = []

        def read(capture=capture, failures=failures):
            try:
                while True:
                    list(capture.packets(filter="bth"))
            except rdmawire.ClosedError:
                return
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        capture.close()
        for thread in threads:
            thread.join()
        assert not failures


@pytest.mark.parametrize("path", [RPING, LOSS], ids=sample_id)
def test_threads_share_one_iterator(path):
    numbers = []
    frames = iter(rdmawire.open_capture(path))
    threads = [threading.Thread(target=lambda: numbers.extend(f.number for f in frames)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == [p["frame"] for p in dissected(path)]


def test_iterator_continues_in_forked_child():
    frames = iter(rdmawire.open_capture(RPING))
    next(frames)
    child = os.fork()
    if child == 0:
        os._exit(0 if len(list(frames)) == len(dissected(RPING)) - 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert next(frames).number == 2


def test_malformed_files_never_crash():
    files = [file.read_bytes() for corpus in CORPORA for file in sorted(corpus.iterdir())]
    assert len(files) > 5
    rng = random.Random(7)
    for path in SAMPLES:
        for _ in range(3):
            data = bytearray(path.read_bytes()[:20_000])
            for _ in range(rng.randrange(40)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            files.append(bytes(data[: rng.randrange(len(data))]))
    for data in files:
        try:
            capture = rdmawire.open_capture(data)
            capture.facts()
        except rdmawire.CaptureError:
            continue
        for read in (
            lambda capture=capture: [frame.to_dict() for frame in capture],
            lambda capture=capture: [packet.to_dict() for packet in capture.packets()],
            lambda capture=capture: capture.columns(["bth.psn", "ip.src", "payload", "frame.time"], partial=True),
            lambda capture=capture: list(capture.table(["frame", "mad.transaction_id", "note"])),
        ):
            try:
                read()
            except rdmawire.CaptureError as error:
                assert "memory" in str(error)  # noqa: PT017


# Written


@pytest.mark.parametrize("name", ["x.pcap", "x.pcapng", "x.pcap.gz", "x.pcapng.zst"])
@pytest.mark.parametrize("path", [RPING, LOSS], ids=sample_id)
def test_written_capture_is_read_back(tmp_path, name, path):
    frames = list(rdmawire.open_capture(path))
    with rdmawire.create_capture(tmp_path / name) as out:
        for frame in frames:
            out.write(frame)
        assert out.records == len(frames)
    read = list(rdmawire.open_capture(tmp_path / name))
    assert [(bytes(f), f.time_ns, f.wire_length, f.number) for f in read] == [
        (bytes(f), f.time_ns, f.wire_length, f.number) for f in frames
    ]


def test_comments_and_interfaces_are_written(tmp_path):
    file = tmp_path / "x.pcapng"
    with rdmawire.create_capture(file, comments=["a file"], application="a test") as out:
        ethernet = out.add_interface(name="eth0", description="the first")
        native = out.add_interface("infiniband", name="ib0")
        out.write(b"\x00" * 60, time_ns=1_700_000_000_123_456_789, interface=native, comments=["one", "zwölf"])
        out.write(bytearray(60), interface=ethernet, wire_length=1500, comments="only one")
        out.write(memoryview(bytes(60)), link="infiniband")
    packets = list(rdmawire.open_capture(file).packets())
    assert [(p.interface.name, p.comments, p.frame.link) for p in packets] == [
        ("ib0", ("one", "zwölf"), "infiniband"),
        ("eth0", ("only one",), "ethernet"),
        ("ib0", (), "infiniband"),
    ]
    assert packets[0].time_ns == 1_700_000_000_123_456_789
    assert abs(packets[1].time_ns - time.time_ns()) < 60e9 and packets[1].frame.wire_length == 1500
    assert [i.name for i in rdmawire.open_capture(file).facts().interfaces] == ["eth0", "ib0"]
    tshark = subprocess.run(["capinfos", str(file)], capture_output=True, text=True)
    assert "Number of packets:   3" in tshark.stdout, tshark.stderr


def test_frames_have_their_interface_and_comments(tmp_path):
    file = tmp_path / "x.pcapng.gz"
    with rdmawire.create_capture(file) as out:
        first = out.add_interface(name="eth0", description="the first", snap_length=100)
        second = out.add_interface(name="eth1")
        for i in range(4):
            frame = Ether() / IPv4() / UDP() / BTH(psn=i) / b"data"
            out.write(frame, interface=[first, second][i % 2], comments=[f"number {i}"] if i > 1 else [])
    with rdmawire.open_capture(file) as capture:
        frames = list(capture)
        facts = capture.facts()
    assert [(f.interface.name, f.comments) for f in frames] == [
        ("eth0", ()), ("eth1", ()), ("eth0", ("number 2",)), ("eth1", ("number 3",))
    ]  # fmt: skip
    assert frames[0].interface == facts.interfaces[0] and frames[0].interface.snap_length == 100
    # Filtered frames, packets and PDUs have the same comments and interface.
    assert [f.comments for f in rdmawire.open_capture(file).frames(filter="bth.psn == 3")] == [("number 3",)]
    packet = list(rdmawire.open_capture(file).packets())[2]
    assert packet.frame.interface == packet.interface == facts.interfaces[0]
    assert packet.frame.comments == packet.comments == ("number 2",)
    # Copies and derived frames keep the origin. Frames that are constructed, parsed or composed have none.
    one = frames[3]
    one[BTH].psn = 77
    for copied in (one, one.copy(), copy.deepcopy(one), pickle.loads(pickle.dumps(one)), one.without(UDP)):
        assert (copied.interface, copied.comments) == (facts.interfaces[1], ("number 3",))
    assert pickle.loads(pickle.dumps(frames[2])).comments == ("number 2",)
    by_hand = Ether() / b"data"
    assert (by_hand.interface, by_hand.comments) == (None, ())
    assert rdmawire.parse(bytes(one)).comments == () and (one / b"more").interface is None
    for name in ("interface", "comments"):
        with pytest.raises(AttributeError):
            setattr(by_hand, name, None)
    # Rewritten frames keep their comments unless the caller passes others.
    copied = tmp_path / "copied.pcapng"
    with rdmawire.create_capture(copied) as out:
        out.write(frames[2])
        out.write(frames[3], comments=["new"])
        out.write(frames[3], comments=[])
    assert [f.comments for f in rdmawire.open_capture(copied)] == [("number 2",), ("new",), ()]
    # pcap has one unnamed interface and no comments.
    [sample] = [next(iter(rdmawire.open_capture(RPING)))]
    assert (sample.interface.name, sample.interface.link, sample.comments) == ("", "ethernet", ())


def test_unpickling_an_invalid_origin_raises_type_error():
    frame = Ether() / b"data"
    restore, state = frame.__reduce__()
    for wrong in (5, (), (None, 5), [None, ()]):
        with pytest.raises(TypeError, match="origin"):
            restore(*state[:-1], wrong)


def test_writer_errors_name_the_invalid_argument(tmp_path):
    with pytest.raises(rdmawire.CaptureError, match="nowhere"):
        rdmawire.create_capture(tmp_path / "nowhere" / "x.pcap")
    with pytest.raises(rdmawire.UsageError, match="format=pcapnh"):
        rdmawire.create_capture(tmp_path / "x", format="pcapnh")
    with pytest.raises(rdmawire.UsageError, match="compression=rar"):
        rdmawire.create_capture(tmp_path / "x", compression="rar")
    out = rdmawire.create_capture(tmp_path / "x.pcap")
    out.write(bytes(60))
    with pytest.raises(rdmawire.UsageError, match="tokenring"):
        out.write(bytes(60), link="tokenring")
    with pytest.raises(TypeError):
        out.write(60)
    out.close()
    with pytest.raises(rdmawire.ClosedError, match="x.pcap was closed"):
        out.write(bytes(60))


@pytest.mark.parametrize(
    ("name", "refused", "why"),
    [
        ("x.pcapng", {"interface": 3}, "undefined interface 3"),
        ("x.pcapng", {"time_ns": -1}, "times before 1970"),
        ("x.pcap", {"time_ns": 4_400_000_000 * 10**9}, "after 2106"),
        ("x.pcap", {"frame": bytes(400_000)}, "exceeds the limit of 262144 bytes"),
        ("x.pcap", {"link": "infiniband"}, "a pcap file has a single link type"),
    ],
)
def test_rejected_packet_keeps_the_other_packets(tmp_path, name, refused, why):
    out = rdmawire.create_capture(tmp_path / name)
    for time in range(500):
        out.write(bytes(60), time_ns=time)
    with pytest.raises(rdmawire.CaptureError, match=why):
        out.write(**{"frame": bytes(60), **refused})
    out.write(bytes(60), time_ns=500)
    out.close()
    assert len(list(rdmawire.open_capture(tmp_path / name))) == 501


def test_pcap_writer_rejects_second_link_type(tmp_path):
    with (
        pytest.raises(rdmawire.CaptureError, match="link type 247 after link type 1: a pcap file has a single") as failure,
        rdmawire.create_capture(tmp_path / "x.pcap") as out,
    ):
        out.write(bytes(60))
        out.write(bytes(60), link="infiniband")
    assert failure.value.__context__ is None
    assert len(list(rdmawire.open_capture(tmp_path / "x.pcap"))) == 1


# Live


@pytest.mark.skipif(os.geteuid() != 0, reason="live capture requires root")
def test_live_capture_on_loopback():
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with rdmawire.open_live("lo", filter="udp port 40791") as live:
        assert live.receive(timeout=0.2) is None
        sender.sendto(b"hello", ("127.0.0.1", 40791))
        frame = live.receive(timeout=10)
        assert bytes(frame).endswith(b"hello") and abs(frame.time_ns - time.time_ns()) < 60e9
        threading.Timer(0.3, live.close).start()
        assert len([f for f in live if f is None]) == 0  # ends because another thread closes the capture
    with pytest.raises(rdmawire.ClosedError):
        live.receive()


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces require root")
def test_lost_packets_of_a_live_capture_are_reported():
    # Runs in a separate namespace, without other traffic.
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
import socket, warnings
import rdmawire
from rdmawire import BTH, Ether, IPv4, UDP
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind(("left", 0))
frame = bytes(Ether(dst="02:00:00:00:00:02") / IPv4(dst="10.0.0.2") / UDP() / BTH() / bytes(1000))

def burst(count, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with rdmawire.open_live("right", filter="udp port 4791", **options) as live:
            for _ in range(count):
                sender.send(frame)
            received = 0
            while live.receive(timeout=0.3) is not None:
                received += 1
        live.close()
    counters = live.statistics()
    print(received, counters["lost_by_capture"], [str(one.message) for one in caught])

burst(2000)
burst(5000, buffer_size=1 << 20)
"""
    links = "ip link add left type veth peer name right && ip link set left up && ip link set right up"
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", f'{links} && exec "$0" -c "$PROGRAM"', sys.executable],
        env=os.environ | {"PROGRAM": program},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if any(reason in done.stderr for reason in ("not permitted", "not supported", "Unknown device type", "not found")):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    complete, lossy = done.stdout.splitlines()
    assert complete == "2000 0 []"
    received, lost = (int(word) for word in lossy.split()[:2])
    assert received + lost == 5000 and lost > 0
    assert f"['right: {lost} packets were lost, because the buffer was full; use a larger buffer_size" in lossy


def test_buffer_size_is_checked():
    for wrong in (0, (1 << 20) - 1, (1 << 30) + 1):
        with pytest.raises(rdmawire.UsageError, match="buffer_size=.*expected bytes from 1 MiB"):
            rdmawire.open_live("lo", buffer_size=wrong)


@pytest.mark.skipif(os.geteuid() != 0, reason="live capture requires root")
def test_missing_device_and_invalid_filter_are_errors():
    assert "lo" in rdmawire.live_devices()
    with pytest.raises(rdmawire.CaptureError, match="nothing0"):
        rdmawire.open_live("nothing0")
    with pytest.raises(rdmawire.CaptureError, match="lo"):
        rdmawire.open_live("lo", filter="no such thing")


@pytest.mark.parametrize("statement", ["list(capture.frames(filter='bth.psn == 1 and bth.psn == 2'))", "capture.facts()",
                                  "capture.columns(['bth.psn'])"])
def test_ctrl_c_interrupts_reading(tmp_path, statement):
    file = tmp_path / "x.pcap"
    data = RPING.read_bytes()
    with file.open("wb") as out:
        out.write(data[:24])
        for _ in range(1000):
            out.write(data[24:])
    code = f"import numpy, rdmawire\ncapture = rdmawire.open_capture({str(file)!r})\nprint(1, flush=True)\nwhile True: {statement}"
    python_path = str(Path(rdmawire.__path__[0]).parent)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={"PYTHONPATH": python_path})
    child.stdout.readline()
    time.sleep(0.3)
    child.send_signal(2)
    _, expected = child.communicate(timeout=120)
    assert b"KeyboardInterrupt" in expected and child.returncode != 0


def test_to_json_equals_the_dissect_line():
    packet = next(rdmawire.open_capture(RPING).packets())
    assert json.loads(packet.to_json()) == packet.to_dict() and "ethernet" in packet.show(dump=True).lower()
