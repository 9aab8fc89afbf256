"""Captures that lack the start of their connections or some packets, and the CM packets of a connection."""

import gzip
import re
import struct
import subprocess

import pytest
from tshark_runs import SAMPLES, needs_tshark, with_plugin

pytestmark = needs_tshark
PASSES = pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])
RPING, NVME = SAMPLES / "rping.pcap", SAMPLES / "nvme-over-rdma.pcap.zst"


def rows(capture, passes, display_filter, *fields, arguments=()):
    home = with_plugin()
    out = home.tshark("-n", *passes, "-r", home.place(capture), "-Y", display_filter, "-T", "fields",
                      *(part for field in fields for part in ("-e", field)), *arguments).stdout.decode()
    return [line.split("\t") for line in out.splitlines()]


def cut(capture, target, *frames, keep=True):
    """Write a copy of the capture with only these frames, or without them."""
    source, target = with_plugin().place(capture), target.with_name(f"{target.parent.name}-{target.name}")
    subprocess.run(["editcap", "-F", "nsecpcap", *(["-r"] if keep else []), source, target, *frames], check=True,
                   stderr=subprocess.DEVNULL)
    return target


def follow(capture, passes, form):
    home = with_plugin()
    return home.tshark("-n", "-q", *passes, "-r", home.place(capture), "-z", f"follow,rdmawire,{form},0").stdout.decode()


# ------------------------------------------------------------------------------------------------------ CM packets


@PASSES
def test_stream_contains_the_cm_packets_of_its_connection(passes):
    found = rows(NVME, passes, "infiniband.mad", "frame.number", "rdmawire.stream", "rdmawire.analysis.connection")
    streams = {}
    for frame, stream, connection in found:
        streams.setdefault((int(stream), int(connection)), []).append(int(frame))
    # Frames of REQ, REP, RTU, DREQ, DREP. The connection is the frame of its REQ.
    assert streams == {(0, 15): [15, 16, 17, 98, 99], (1, 100): [100, 101, 102, 643, 644],
                       (2, 179): [179, 180, 181, 633, 634]}
    data = rows(NVME, passes, "rdmawire.stream == 1 && rdmawire.bth && !rdmawire.mad", "frame.number")
    assert len(data) > 10 and all(102 < int(frame) < 643 for frame, in data)


@PASSES
def test_cm_packets_show_the_times_and_the_completeness_of_the_stream(passes):
    found = rows(RPING, passes, "infiniband.mad", "frame.time_epoch", "rdmawire.time_relative", "rdmawire.time_delta",
                 "rdmawire.completeness.str")
    first = float(found[0][0])
    assert [round(float(time) - first, 6) for time, *_ in found] == [round(float(row[1]), 6) for row in found]
    assert found[0][2] == "0.000000000" and float(found[1][2]) == pytest.approx(float(found[1][1]))
    assert found[-1][3] == "EQRC·"
    assert [row[3] for row in found] == (["EQRC·"] * 5 if passes else ["·····", "·····", "E····", "EQR··", "EQRC·"])


@pytest.mark.parametrize("passes, closing", [((), ["339"]), (("-2",), ["338", "339"])], ids=["one pass", "two passes"])
def test_disconnect_without_captured_request_belongs_to_the_stream(tmp_path, passes, closing):
    capture = cut(RPING, tmp_path / "late.pcap", "41-400")
    assert [row[0] for row in rows(capture, passes, "rdmawire.mad && rdmawire.stream == 0", "frame.number")] == closing
    # Connections without CM are paired late in one pass.
    deltas = rows(capture, ("-2",), "rdmawire.stream", "frame.time_epoch", "rdmawire.time_delta")
    times = [int(time.replace(".", "")) for time, _ in deltas]
    assert [int(delta.replace(".", "")) for _, delta in deltas] == [0, *(b - a for a, b in zip(times, times[1:]))]


@PASSES
def test_rejected_request_has_a_stream(tmp_path, passes):
    """A REQ without a reply: the connection has no other packets."""
    capture = cut(RPING, tmp_path / "request.pcap", "1-15")
    assert rows(capture, passes, "rdmawire.stream", "frame.number", "rdmawire.stream") == [["15", "0"]]


# ------------------------------------------------------------------------------- connections without their start


@pytest.mark.parametrize("name", ["siw-send.pcap.gz", "siw-write.pcap.gz", "siw-read.pcap.gz", "siw-rping.pcap"])
def test_iwarp_without_mpa_negotiation_is_recognized(tmp_path, name):
    """The sender uses no CRCs, so consecutive MSNs and offsets are the evidence."""
    whole = {int(frame): row for frame, *row in rows(SAMPLES / name, ("-2",), "rdmawire.rdmap", "frame.number",
                                                     "rdmawire.rdmap.opcode", "rdmawire.ddp_untagged.msn")}
    last = max(whole)
    middle = last // 2
    found = {int(frame) + middle - 1: row for frame, *row in rows(
        cut(SAMPLES / name, tmp_path / "middle.pcap", f"{middle}-{last}"), ("-2",), "rdmawire.rdmap", "frame.number",
        "rdmawire.rdmap.opcode", "rdmawire.ddp_untagged.msn")}
    expected = {frame for frame in whole if frame >= middle}
    # The first PDUs of a direction are shown in the frame of the PDU that continues them. The last PDUs of siw-send have no
    # such PDU.
    assert len(expected) > 50 and set(found) <= expected and len(expected) - len(found) <= 6
    pdus, all_pdus = (sum(row[0].count(",") + 1 for row in some) for some in (
        found.values(), [whole[frame] for frame in expected]))
    assert all_pdus - 2 <= pdus <= all_pdus


def test_iwarp_of_few_packets_requires_the_preference(tmp_path):
    """Two FPDUs of different directions are no evidence."""
    ports = {row[0] for row in rows(SAMPLES / "siw-rping.pcap", (), "rdmawire.rdmap", "tcp.port")}
    port = next(one for one in next(iter(ports)).split(",") if int(one) < 32768)
    frames = [row[0] for row in rows(SAMPLES / "siw-rping.pcap", (), "rdmawire.rdmap.opcode == 3", "frame.number")]
    capture = cut(SAMPLES / "siw-rping.pcap", tmp_path / "few.pcap", frames[10])
    assert not rows(capture, (), "rdmawire.rdmap", "frame.number")
    for option in (("-o", f"rdmawire.iwarp_ports:{port}"), ("-d", f"tcp.port=={port},rdmawire")):
        assert rows(capture, (), "rdmawire.rdmap", "rdmawire.rdmap.opcode", arguments=option) in ([["0x03"]], [["3"]])


def test_upper_layer_preference_decodes_nvme_without_cm(tmp_path):
    fields = ("infiniband.bth.psn", "rdmawire.nvme_cqe", "rdmawire.nvme_io", "rdmawire.upper")
    selected = "rdmawire.nvme_cqe || rdmawire.nvme_io"
    whole = rows(NVME, (), f"({selected}) && rdmawire.stream == 2 && frame.number >= 200 && frame.number <= 632", *fields)
    capture = cut(NVME, tmp_path / "late.pcap", "200-632")
    option = ("-o", "rdmawire.upper_layers.nvme:0x13")
    assert not rows(capture, (), selected, *fields)
    assert rows(capture, (), selected, *fields, arguments=option) == whole and len(whole) > 30


def test_upper_layer_preference_does_not_change_other_evidence():
    fields = ("frame.number", "rdmawire.upper", "rdmawire.upper.frame")
    assert rows(NVME, (), "rdmawire.upper", *fields, arguments=("-o", "rdmawire.upper_layers.iser:0x11-0x13")) == rows(
        NVME, (), "rdmawire.upper", *fields)


@pytest.mark.parametrize("value", ["x", "5-x", "99999999999"])
def test_invalid_numbers_of_preferences_are_refused(value):
    home = with_plugin()
    done = home.tshark("-n", "-r", home.place(RPING), "-c", "1", "-o", f"rdmawire.upper_layers.nvme:{value}", check=False)
    assert done.returncode == 1 and b"Invalid" in done.stderr


# ---------------------------------------------------------------------------------------------------------- follow


@PASSES
def test_follow_shows_missing_bytes(tmp_path, passes):
    """Frames 56 and 57 are two middle packets of a message, frame 65 is one of the peer."""
    capture = cut(SAMPLES / "rc-pingpong.pcap.gz", tmp_path / "gaps.pcap", "56-57", "65", keep=False)
    text = follow(capture, passes, "ascii")
    assert re.findall(r"\[(\d+) bytes missing in capture file\]", text) == ["2048", "1024"]
    whole = follow(SAMPLES / "rc-pingpong.pcap.gz", passes, "ascii")
    assert "missing" not in whole


@PASSES
def test_follow_puts_retransmitted_data_in_order(passes):
    """The data of a lost packet precedes that of the packets after it, and each packet occurs once."""
    text = follow(SAMPLES / "rc-pingpong-loss.pcap.gz", passes, "raw")
    sent = [line.strip() for line in text.splitlines() if re.fullmatch(r"\t?[0-9a-f]+", line)]
    assert "missing" not in text and sum(map(len, sent)) // 2 == 2 * 409600
    frames = rows(SAMPLES / "rc-pingpong-loss.pcap.gz", passes, "rdmawire.payload.length > 0", "ip.src",
                  "rdmawire.analysis.relative_psn", "rdmawire.payload.length")
    lengths = {(source, int(psn)): int(length) for source, psn, length in frames}
    assert len(sent) == len(lengths) and sorted(len(one) // 2 for one in sent) == sorted(lengths.values())


def sent_bytes(text):
    return sum(len(line.strip()) // 2 for line in text.splitlines() if re.fullmatch(r"\t?[0-9a-f]+", line))


def changed(target, change):
    """Write a copy of rc-pingpong in which `change` modified each packet."""
    data = bytearray(gzip.decompress((SAMPLES / "rc-pingpong.pcap.gz").read_bytes()))
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at < len(data):
        size, = struct.unpack_from(order + "I", data, at + 8)
        change(data, at + 16, size)
        at += 16 + size
    target = target.with_name(f"{target.parent.name}-{target.name}")
    target.write_bytes(data)
    return target


def rewrite_addresses(data, at, _size):
    data[at + 27] ^= 1
    data[at + 31] ^= 1


def clear_icrc(data, at, size):
    data[at + size - 4:at + size] = bytes(4)


@PASSES
@pytest.mark.parametrize("change", [rewrite_addresses, clear_icrc])
def test_follow_contains_packets_whose_bad_icrc_is_no_damage(tmp_path, passes, change):
    text = follow(changed(tmp_path / f"{change.__name__}.pcap", change), passes, "raw")
    # In one pass, packets before the directions are paired belong to no stream yet.
    assert sent_bytes(text) == 2 * 409600 if passes else sent_bytes(text) > 800000


@PASSES
def test_follow_excludes_damaged_packets(tmp_path, passes):
    """The payload of one packet with 1024 bytes is changed."""
    frame = rows(SAMPLES / "rc-pingpong.pcap.gz", (), "rdmawire.payload.length == 1024", "frame.number")[20][0]
    count = iter(range(1, 1 << 20))

    def damage(data, at, size):
        if next(count) == int(frame):
            for i in range(size - 300, size - 100):
                data[at + i] ^= 0x5a

    text = follow(changed(tmp_path / "damaged.pcap", damage), passes, "ascii")
    assert frame not in re.findall(r"^Frame (\d+)", text, re.M)
    assert sent_bytes(follow(changed(tmp_path / "copy.pcap", lambda *_: None), passes, "raw")) == 2 * 409600
    count = iter(range(1, 1 << 20))
    raw = follow(changed(tmp_path / "damaged.pcap", damage), passes, "raw")
    note = b"[1024 bytes missing in capture file]\0".hex()
    assert sent_bytes(raw.replace(note, "")) == 2 * 409600 - 1024


@PASSES
def test_follow_continues_after_a_gap_without_acknowledgements(tmp_path, passes):
    """A capture of one direction that lacks one packet."""
    pingpong = SAMPLES / "rc-pingpong.pcap.gz"
    source = rows(pingpong, (), "rdmawire.payload.length > 0", "ip.src")[0][0]
    frames = [row[0] for row in rows(pingpong, (), f"ip.src == {source} && rdmawire.bth", "frame.number")]
    lost = next(row[0] for row in rows(pingpong, (), f"ip.src == {source} && rdmawire.payload.length == 1024 && "
                                       "frame.number > 600", "frame.number"))
    whole = sent_bytes(follow(cut(pingpong, tmp_path / "whole.pcap", *frames), passes, "raw"))
    text = follow(cut(pingpong, tmp_path / "gap.pcap", *(frame for frame in frames if frame != lost)), passes, "raw")
    note = b"[1024 bytes missing in capture file]\0".hex()
    assert whole > 200000 and text.count(note) == 1
    assert sent_bytes(text.replace(note, "")) == whole - 1024


def test_follow_contains_truncated_read_responses(tmp_path):
    """Both modes output the captured part of each READ response."""
    capture = with_plugin().place(SAMPLES / "rc-read-loss.pcap.zst")
    target = tmp_path.with_name(f"{tmp_path.name}-snap.pcap")
    subprocess.run(["editcap", "-s", "200", capture, target], check=True, stderr=subprocess.DEVNULL)
    one, two = (sum(sent_bytes(with_plugin().tshark(
        "-n", "-q", *passes, "-r", with_plugin().place(target), "-z", f"follow,rdmawire,raw,{stream}").stdout.decode())
        for stream in (0, 1)) for passes in ((), ("-2",)))
    assert one > 50000 and two >= one * 0.9


def test_follow_with_a_read_filter_contains_the_remaining_data():
    """The packets of one endpoint do not reach the second pass."""
    text = follow(SAMPLES / "rc-pingpong.pcap.gz", ("-2", "-R", "ip.src == 10.0.0.2"), "raw")
    assert sent_bytes(text) >= 409600


def test_follow_attributes_missing_bytes_of_iwarp_to_their_sender(tmp_path):
    """Frame 53 has data of 10.0.0.2. An acknowledgement with data of 10.0.0.3 shows that they are missing."""
    capture = cut(SAMPLES / "siw-rping.pcap", tmp_path / "lost.pcap", "53", keep=False)
    text = follow(capture, ("-2",), "raw")
    client = re.search(r"Node 0: ([0-9.]+)", text)[1]
    note = b"[52 bytes missing in capture file]\0".hex()
    lines = [line for line in text.splitlines() if line.strip() == note]
    assert lines == [note if client == "10.0.0.2" else "\t" + note]
