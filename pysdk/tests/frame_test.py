"""Frames: constructed, parsed, changed and built."""

import copy
import ipaddress
import pickle

import pytest
import rdmawire
from rdmawire import (
    AETH,
    BTH,
    DDP,
    FPDU,
    LRH,
    RDMAP,
    RETH,
    TCP,
    UDP,
    DDPTagged,
    Ether,
    Frame,
    Header,
    IPv4,
    IPv6,
    Opcode,
    Syndrome,
    parse,
    segment,
)

# Ethernet, IPv4, UDP, BTH, RETH, "data", ICRC
WRITE_ONLY = bytes.fromhex(
    "000000000000000000000000080045000040000000004011"
    "70ac000000000a000002c00012b7002c00000a00ffff0000"
    "0011000000050000000000001000000000010000000464617461220bfe95"
)


def write_only():
    return (
        Ether()
        / IPv4(dst="10.0.0.2")
        / UDP()
        / BTH(opcode=Opcode.RC_RDMA_WRITE_ONLY, dest_qp=17, psn=5)
        / RETH(va=0x1000, rkey=1, length=4)
        / b"data"
    )


def test_omitted_fields_are_computed():
    assert bytes(write_only()) == WRITE_ONLY


def test_parsed_frame_keeps_its_bytes():
    frame = parse(WRITE_ONLY)
    assert bytes(frame) == WRITE_ONLY
    assert bytes(memoryview(frame)) == WRITE_ONLY
    assert [type(layer) for layer in frame.layers] == [Ether, IPv4, UDP, BTH, RETH]
    assert frame[BTH].psn == 5
    assert frame[BTH].opcode is Opcode.RC_RDMA_WRITE_ONLY
    assert frame[IPv4].dst == "10.0.0.2"
    assert frame.payload == b"data"
    assert frame.icrc == 0x220BFE95
    assert frame.icrc_status == "good"
    assert BTH in frame and AETH not in frame
    assert frame == write_only()


@pytest.mark.parametrize("length", range(17))
def test_truncated_packet_of_link_type_bth_is_parsed(length):
    data = bytes(BTH(opcode=Opcode.RC_SEND_ONLY, dest_qp=17, psn=5)) + bytes(4)
    frame = parse(data[:length], "bth")
    assert (BTH in frame) == (length >= 12)
    assert bytes(frame) == data[:length]
    if length >= 12:
        assert (frame[BTH].dest_qp, frame[BTH].psn) == (17, 5)


def test_change_keeps_checksums_and_del_recomputes_them():
    frame = parse(WRITE_ONLY)
    frame[BTH].psn = 6
    assert bytes(frame) == WRITE_ONLY[:53] + b"\x06" + WRITE_ONLY[54:]
    assert frame.icrc_status == "bad"
    del frame.icrc
    assert frame.icrc_status == "good"
    frame[IPv4].ttl = 1
    assert frame[IPv4].checksum == 0x70AC
    del frame[IPv4].checksum
    assert frame[IPv4].checksum == 0x70AC + (63 << 8)
    assert frame.icrc_status == "good"  # the ICRC does not cover the TTL


def test_computed_fields_have_the_value_to_send():
    frame = write_only()
    assert frame[IPv4].total_length == 64
    assert frame[UDP].dst_port == 4791
    assert frame[RETH].length == 4
    frame.payload = b"four more"
    assert frame[IPv4].total_length == 72
    assert frame.pad == bytes(3) and frame[BTH].pad == 3
    assert frame[RETH].length == 4  # set explicitly


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        (Ether() / IPv4() / UDP() / BTH(opcode=4) / bytes(70_000), "ip.total_length is 16 bits wide: 70044"),
        (Ether() / IPv6() / UDP() / BTH(opcode=4) / bytes(70_000), "ipv6.payload_length is 16 bits wide: 70024"),
        (FPDU() / DDP() / bytes(70_000), "fpdu.ulpdu_length is 16 bits wide"),
        (LRH() / BTH(opcode=4) / bytes(9000), "lrh.length is 11 bits wide"),
        (Ether() / IPv4(options=bytes(100)), "ip.header_length is 4 bits wide: 30"),
        (Ether() / IPv4() / TCP(options=bytes(80)), "tcp.data_offset is 4 bits wide: 25"),
    ],
)
def test_computed_length_that_exceeds_its_field_is_an_error(frame, field):
    with pytest.raises(rdmawire.UsageError, match=field):
        bytes(frame)


def test_oversized_frame_can_be_printed_and_corrected():
    frame = Ether() / IPv4() / UDP() / BTH(opcode=4, psn=7) / bytes(70_000)
    assert repr(frame) == "<Frame Ether / IPv4 / UDP / BTH, 70058 bytes>"
    assert (frame[BTH].psn, frame[IPv4].ttl, len(frame.payload)) == (7, 64, 70_000)
    assert copy.copy(frame) == frame and "payload" in frame.show(dump=True)
    assert eval(frame.command(), vars(rdmawire)) == frame
    for read in (lambda: frame[UDP].length, lambda: frame[IPv4].total_length, lambda: memoryview(frame), lambda: bytes(copy.copy(frame))):
        with pytest.raises(rdmawire.UsageError, match="ip.total_length is 16 bits wide"):
            read()
    frame.payload = bytes(70)
    assert frame[UDP].length == 96 and len(bytes(frame)) == 128 + 2


def test_length_of_an_oversized_frame_can_be_set():
    frame = Ether() / IPv4() / UDP() / BTH(opcode=4) / bytes(70_000)
    frame[IPv4].total_length = frame[UDP].length = 99
    assert frame[IPv4].total_length == 99
    assert len(bytes(frame)) == 14 + 20 + 8 + 12 + 70_000 + 4


def test_show_of_an_fpdu_contains_protocol_and_crc():
    frame = FPDU() / DDP(tagged=1) / RDMAP() / DDPTagged(stag=7) / b"data!"
    assert "28 bytes  fpdu  iwarp" in frame.show(dump=True)
    assert "CRC good" in frame.summary()
    frame.mpa_crc = 1
    assert "bad: computed value is" in frame.show(dump=True)
    assert frame.hexdump(dump=True).rstrip().endswith("pad crc")
    assert "CRC bad" in frame.summary()


def test_header_remains_valid_without_its_frame():
    header = parse(WRITE_ONLY)[BTH]
    assert header.dest_qp == 17


@pytest.mark.parametrize(
    "address",
    ["10.0.0.2", b"\x0a\0\0\2", 0x0A000002, ipaddress.IPv4Address("10.0.0.2")],
)
def test_addresses_are_accepted_in_each_type(address):
    assert IPv4(dst=address).dst == "10.0.0.2"


def test_syndrome_is_an_enumeration_with_parts():
    assert AETH(syndrome=Syndrome.NAK_REMOTE_ACCESS_ERROR).syndrome == 0x62
    assert AETH(syndrome=0x62).syndrome_nak_code is rdmawire.NAKCode.REMOTE_ACCESS_ERROR


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: BTH(psn=1 << 24), rdmawire.UsageError, "bth.psn is 24 bits wide: 16777216 does not fit"),
        (lambda: BTH(psn=-1), rdmawire.UsageError, "-1 does not fit"),
        (lambda: BTH(psn="5"), TypeError, "bth.psn: expected an int, got str"),
        (lambda: BTH(psn=5.0), TypeError, "got float"),
        (lambda: BTH(5), TypeError, "only keyword arguments"),
        (lambda: BTH(number=5), TypeError, "no field 'number'"),
        (lambda: IPv4(dst="10.0.0.256"), rdmawire.UsageError, "got '10.0.0.256'"),
        (lambda: IPv6(dst=b"123"), rdmawire.UsageError, "16 bytes"),
        (lambda: setattr(AETH(), "syndrome_wait", 1), AttributeError, "derived from syndrome"),
        (lambda: Header(), TypeError, "use a header class such as BTH"),
        (lambda: parse(5), TypeError, "expected a bytes-like object"),
        (lambda: parse(b"", link="token ring"), rdmawire.UsageError, "link='token ring'"),
        (lambda: parse(WRITE_ONLY)[AETH], IndexError, "the frame has no AETH; it has Ether, IPv4, UDP, BTH, RETH"),
        (lambda: write_only() / 5, TypeError, "unsupported operand"),
        (lambda: hash(write_only()), TypeError, "unhashable"),
        (lambda: segment(write_only(), 100), rdmawire.UsageError, "MTU 100"),
        (lambda: parse(WRITE_ONLY[:45], strict=True), rdmawire.ParseError, "ip at offset 14"),
    ],
)
def test_invalid_use_raises_the_documented_error(call, error, text):
    with pytest.raises(error) as raised:
        call()
    assert text in str(raised.value)


def test_rejected_value_leaves_the_frame_unchanged():
    frame = parse(WRITE_ONLY)
    with pytest.raises(rdmawire.UsageError):
        frame[BTH].psn = 1 << 24
    with pytest.raises(rdmawire.UsageError):
        frame.icrc = 1 << 32
    assert bytes(frame) == WRITE_ONLY


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f)), Frame.copy])
def test_copies_are_equal_and_independent(duplicate):
    for frame in (write_only(), parse(WRITE_ONLY)):
        copied = duplicate(frame)
        assert copied == frame
        copied[BTH].psn = 9
        assert frame[BTH].psn == 5
        assert bytes(frame) == WRITE_ONLY


def test_copy_keeps_computed_fields():
    for duplicate in (copy.copy, lambda f: pickle.loads(pickle.dumps(f))):
        frame = duplicate(write_only())
        frame.payload = b"more data"
        assert frame[IPv4].total_length == 72 and frame.icrc_status == "good"
        captured = duplicate(parse(WRITE_ONLY))
        captured.payload = b"more data"
        assert captured[IPv4].total_length == 64


def test_evaluated_command_creates_the_same_frame():
    frame = write_only()
    assert frame.command() == (
        "Ether() / IPv4(dst='10.0.0.2') / UDP() / "
        "BTH(opcode=Opcode.RC_RDMA_WRITE_ONLY, dest_qp=0x11, psn=5) / RETH(va=0x1000, rkey=0x1) / b'data'"
    )
    assert eval(frame.command(), vars(rdmawire)) == frame


def test_segment_splits_a_message_at_the_path_mtu():
    frame = write_only()
    del frame[RETH].length
    frame.payload = bytes(600)
    packets = segment(frame, 256)
    assert [packet[BTH].opcode for packet in packets] == [
        Opcode.RC_RDMA_WRITE_FIRST,
        Opcode.RC_RDMA_WRITE_MIDDLE,
        Opcode.RC_RDMA_WRITE_LAST,
    ]
    assert [packet[BTH].psn for packet in packets] == [5, 6, 7]
    assert packets[0][RETH].length == 600


def test_unknown_field_error_suggests_a_similar_name():
    header = BTH()
    with pytest.raises(AttributeError, match=r"rdmawire.BTH has no field 'pns'; did you mean psn\?"):
        header.pns  # noqa: B018
    with pytest.raises(AttributeError, match=r"rdmawire.BTH has no field 'pns'; did you mean psn\?"):
        header.pns = 5
    with pytest.raises(AttributeError, match="rdmawire.BTH has no field 'nothing_like_it'; its fields are opcode, se"):
        del header.nothing_like_it
    with pytest.raises(AttributeError, match="read-only"):
        header.copy = 5
    with pytest.raises(AttributeError):
        setattr(header, "\udcff", 5)
    with pytest.raises(TypeError):
        header.__setattr__(5, 5)
    assert not hasattr(header, "_repr_markdown_")
