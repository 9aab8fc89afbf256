"""Frames that Wireshark 4.0's built-in dissectors dissect incorrectly, dissected by the plugin in both modes.

../shared/WIRESHARK.md describes the errors.
"""

import struct

import pytest
from made_frames import A, B, MACS, bth, checksum, ipv4, roce, dissect, value  # noqa: F401 (dissect is a fixture)
from tshark_runs import needs_tshark, plugin_tree

pytestmark = needs_tshark

MAIN = ("-o", "rdmawire.main_dissector:TRUE")


def protocols(packet):
    return {proto.get("name") for proto in packet.findall("proto")}


def assert_good_icrc(packet):
    assert value(packet, "icrc.status") == "1"


def test_roce_with_low_registered_source_port(dissect):
    """Wireshark tries the dissector of the lower UDP port first: TFTP for port 69, DNS for 53."""
    frames = [roce(bth(4) + b"abcd", port=port) for port in (53, 69)]
    assert [("infiniband" in protocols(packet)) for packet in dissect(frames, plugin=False)] == [False, False]
    for packet in dissect(frames):
        assert value(packet, "bth.opcode") == "4" and value(packet, "bth.psn") == "100"
        assert_good_icrc(packet)
    for packet in dissect(frames, *MAIN):
        assert not protocols(packet) & {"dns", "tftp"}
        assert value(packet, "bth.dest_qp") == "0x000011"


@pytest.mark.parametrize("arguments", [("-d", "udp.port==5000,rdmawire"),
                                       ("-o", "rdmawire.roce_port:5000"), ("-o", "infiniband.rroce.port:5000")],
                         ids=["Decode As", "plugin preference", "built-in preference"])
def test_roce_on_another_port(dissect, arguments):
    frame = roce(bth(4) + b"abcd", destination_port=5000)
    packet, = dissect([frame])
    assert plugin_tree(packet) is None
    packet, = dissect([frame], *arguments)
    assert value(packet, "bth.psn") == "100"
    assert_good_icrc(packet)


def test_decode_as_by_ethertype(dissect):
    """RoCEv1: a GRH after the EtherType."""
    transport = bth(4) + b"abcd" + bytes(4)
    grh = struct.pack(">IHBB", 0x60000000, len(transport), 0x1B, 64) + bytes(10) + b"\xff\xff" + A + bytes(10) + b"\xff\xff" + B
    frame = MACS + b"\x89\x15" + grh + transport
    packet, = dissect([frame])
    assert "infiniband" in protocols(packet) and value(packet, "bth.psn") == "100"
    packet, = dissect([frame], "-d", "ethertype==0x8915,rdmawire")
    assert "infiniband" not in protocols(packet) and value(packet, "bth.psn") == "100"


def test_cnp(dissect):
    """The built-in dissector does not know opcode 0x81, FECN and BECN."""
    for arguments in ((), MAIN):
        packet, = dissect([roce(bth(0x81, flags=0x40) + bytes(16), tos=2)], *arguments)
        assert value(packet, "bth.opcode") == "129"
        assert value(packet, "bth.becn") in ("1", "True") and value(packet, "bth.fecn") in ("0", "False")
        assert [field.get("size") for field in plugin_tree(packet).iter("field")
                if field.get("name") == "rdmawire.cnp"] == ["16"]
        assert_good_icrc(packet)


def test_xrc_send_only(dissect):
    for arguments in ((), MAIN):
        packet, = dissect([roce(bth(0xA4) + struct.pack(">I", 0x000123) + b"abcd")], *arguments)
        assert int(value(packet, "xrceth.xrcsrq"), 0) == 0x123
        assert value(packet, "payload") == "61:62:63:64"
        assert_good_icrc(packet)


def test_rd_send_only(dissect):
    """The built-in dissector interprets RDETH and DETH as the longer BTH of Mellanox DC."""
    packet, = dissect([roce(bth(0x44) + struct.pack(">III", 0x000007, 0x11223344, 0x000012) + b"abcd")])
    assert int(value(packet, "rdeth.ee_context"), 0) == 7
    assert int(value(packet, "deth.src_qp"), 0) == 0x12
    assert value(packet, "payload") == "61:62:63:64"


def names(packet):
    return {field.get("name").removeprefix("rdmawire.") for field in plugin_tree(packet).iter("field")}


def test_flush_and_atomic_write(dissect):
    """Built-in since Wireshark 4.4."""
    feth, reth = struct.pack(">I", 0x11), struct.pack(">QII", 0x1000, 0x42, 64)
    flush, write = dissect([roce(bth(0x1C) + feth + reth), roce(bth(0x1D, psn=101) + reth + b"12345678")])
    assert value(flush, "bth.opcode") == "28" and "feth" in names(flush)
    assert int(value(flush, "reth.length")) == 64
    assert value(write, "bth.opcode") == "29" and value(write, "payload") == ":".join(f"{c:02x}" for c in b"12345678")
    assert_good_icrc(flush)
    assert_good_icrc(write)


def test_pad_is_not_part_of_the_payload(dissect):
    """42 bytes of payload and two pad bytes. The built-in dissector passes all bytes on."""
    frame = roce(bth(4, pad=2) + b"a" * 42 + b"\0\0")

    def data_length(packet):
        return [field.get("show") for field in packet.iter("field") if field.get("name") == "data.len"]

    packet, = dissect([frame])
    assert value(packet, "payload") == ":".join(["61"] * 42) and value(packet, "pad") == "00:00"
    assert data_length(packet) == ["44"]
    packet, = dissect([frame], *MAIN)
    assert data_length(packet) == ["42"]


def test_empty_send_is_not_malformed(dissect):
    """The built-in dissector calls the RPC over RDMA heuristic."""
    frame = roce(bth(4))
    packet, = dissect([frame], *MAIN)
    assert "_ws.malformed" not in protocols(packet)
    assert "payload" not in names(packet)
    assert_good_icrc(packet)


def test_bad_icrc_is_reported(dissect):
    """The built-in dissector does not verify the ICRC."""
    frame = roce(bth(4) + b"abcd")
    packet, = dissect([frame[:-8] + b"abce" + frame[-4:]], "-2")
    assert value(packet, "icrc.status") == "2"
    assert "analysis.crc_bad" in names(packet)


def test_cm_mra_message(dissect):
    """The built-in dissector does not know MRA, attribute 0x0011. IBTA vol 1, 12.6.6."""
    mad = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, 0x1234, 0x11, 0, 0)
    mra = struct.pack(">IIBB", 0x000000AA, 0x000000BB, 0x40, 0x60) + bytes(222)
    deth = struct.pack(">II", 0x80010000, 1)
    for arguments in ((), MAIN):
        packet, = dissect([roce(bth(0x64, qp=1) + deth + mad + mra)], *arguments)
        assert int(value(packet, "cmmra.local_comm_id"), 0) == 0xAA
        assert int(value(packet, "cmmra.remote_comm_id"), 0) == 0xBB


class Stream:
    """A TCP connection between two hosts."""

    def __init__(self):
        self.next = {A: 1000, B: 5000}
        self.frames = []

    def send(self, source, payload=b"", flags=0x18):
        destination = B if source == A else A
        ports = (40000, 9999) if source == A else (9999, 40000)
        header = struct.pack(">HHIIBBHHH", *ports, self.next[source], self.next[destination], 0x50, flags, 8192, 0, 0)
        pseudo = source + destination + struct.pack(">BBH", 0, 6, len(header) + len(payload))
        segment = header + payload
        sum_ = checksum(pseudo + segment + b"\0" * (len(segment) % 2))
        segment = segment[:16] + struct.pack(">H", sum_) + segment[18:]
        self.frames.append(ipv4(6, segment, source, destination))
        self.next[source] += len(payload) + (flags & 2 != 0)


    def connect(self):
        """Connect, and negotiate MPA without markers and CRCs."""
        self.send(A, flags=0x02)
        self.send(B, flags=0x12)
        self.send(A, b"MPA ID Req Frame" + struct.pack(">BBH", 0, 1, 0))
        self.send(B, b"MPA ID Rep Frame" + struct.pack(">BBH", 0, 1, 0))
        return self

    def fpdu(self, *ulpdus):
        """Send one segment with FPDUs. The CRC field is 0."""
        data = b""
        for ulpdu in ulpdus:
            fpdu = struct.pack(">H", len(ulpdu)) + ulpdu
            data += fpdu + bytes(-len(fpdu) % 4) + bytes(4)
        self.send(A, data)


def send(msn, offset, data, last=False):
    """Return a segment of a Send: RFC 5040, 4.3, with an untagged DDP header, RFC 5041, 4.2."""
    return bytes([0x41 if last else 0x01, 0x43]) + struct.pack(">IIII", 0, 0, msn, offset) + data


def write(stag, offset, data, last=False):
    return bytes([0xC1 if last else 0x81, 0x40]) + struct.pack(">IQ", stag, offset) + data


def test_iwarp_immediate_data(dissect):
    """RFC 7306, 6: opcode 8, eight bytes on queue 0."""
    stream = Stream().connect()
    stream.fpdu(bytes([0x41, 0x48]) + struct.pack(">IIII", 0, 0, 1, 0) + b"12345678")
    packets = dissect(stream.frames)
    assert value(packets[-1], "wire") == "4"
    assert value(packets[-1], "rdmap.opcode") == "8"
    assert value(packets[-1], "ddp_untagged.msn") == "1"
    assert int(value(packets[-1], "rdmap_immediate.data"), 0) == int.from_bytes(b"12345678", "big")


def reassembled(packet):
    """Return the messages that are reassembled in the packet."""
    return [bytes.fromhex(field.get("value")) for field in plugin_tree(packet).iter("field")
            if field.get("name") == "rdmawire.reassembled.data"]


@pytest.mark.parametrize("arguments", [(), ("-2",), MAIN], ids=["one pass", "two passes", "main"])
def test_interleaved_ddp_segments_are_reassembled(dissect, arguments):
    """A WRITE between the segments of a Send. The built-in dissector reassembles in order of arrival."""
    stream = Stream().connect()
    stream.fpdu(send(1, 0, b"one "))
    stream.fpdu(write(0x77, 0x1000, b"WRITE "), write(0x77, 0x1006, b"of two", last=True))
    stream.fpdu(send(1, 4, b"message, "))
    stream.fpdu(send(1, 13, b"in three", last=True), send(2, 0, b"short", last=True))
    *_, first, between, middle, last = dissect(stream.frames, *arguments)
    assert reassembled(first) == [] and reassembled(middle) == []
    assert reassembled(between) == [b"WRITE of two"]
    assert reassembled(last) == [b"one message, in three"]
    segments = [field.get("show") for field in plugin_tree(last).iter("field")
                if field.get("name") == "rdmawire.segment"]
    assert segments == ["5", "7", "8"]


def test_message_with_missing_segment_is_not_reassembled(dissect):
    stream = Stream().connect()
    stream.fpdu(send(1, 0, b"one "))
    stream.fpdu(send(1, 99, b"in three", last=True))
    assert [reassembled(packet) for packet in dissect(stream.frames)[-2:]] == [[], []]
