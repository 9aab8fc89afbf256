"""Headers that occur in no sample capture: tunnels, tags, options and extension headers."""

import random
import struct

import pytest

import differences
import programs
from captures import SAMPLES, Capture, Frame, read_pcap, write_pcap
from frame_bytes import ipv4, ipv6, mac_header, tcp, udp

ETHERNET, SLL, SLL2 = 1, 113, 276
OPCODES = [*range(0x00, 0x15), 0x16, 0x17, *range(0x20, 0x2C), 0x64, 0x65]  # of RC, UC and UD


@pytest.fixture(scope="module", autouse=True)
def _needs():
    programs.require_rdmawire()
    programs.require_tshark()


def roce_frame():
    """Return a complete RC SEND Only of a real capture: Ethernet, IPv4, UDP, BTH."""
    _, frames = read_pcap(SAMPLES / "rping.pcap")
    return bytes(frames[17].data)


def frame_numbers(text):
    for part in text.split(", "):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def synthesized_frames():
    """Return (name, link type, bytes) of every frame."""
    inner = roce_frame()
    inside = inner[14:]  # starts with the IPv4 header
    ip_payload = inside[20:]
    frames = [
        ("802.1Q", ETHERNET, mac_header(0x8100) + struct.pack(">HH", 0xB123, 0x0800) + inside),
        ("802.1ad and 802.1Q", ETHERNET,
         mac_header(0x88A8) + struct.pack(">HHHH", 0x7064, 0x8100, 0x5FFE, 0x0800) + inside),
        ("VXLAN", ETHERNET, mac_header(0x0800) + ipv4(17, udp(4789, bytes.fromhex("0800000000abcd00") + inner))),
        ("GRE", ETHERNET, mac_header(0x0800) + ipv4(47, bytes.fromhex("00000800") + inside)),
        ("GRE with key and sequence number", ETHERNET,
         mac_header(0x0800) + ipv4(47, bytes.fromhex("30006558 11223344 55667788") + inner)),
        ("ERSPAN type II", ETHERNET,
         mac_header(0x0800) + ipv4(47, bytes.fromhex("100088be 00000007 1064 6c21 00012345") + inner)),
        ("ERSPAN type III", ETHERNET,
         mac_header(0x0800) + ipv4(47, bytes.fromhex("100022eb 00000009 2065 a801 12345678 00218000") + inner)),
        ("IPv4 options", ETHERNET,
         mac_header(0x0800) + ipv4(17, ip_payload, bytes.fromhex("01 94040000 0707040a0000fe".replace(" ", "")))),
        ("IPv6 hop-by-hop and destination options", ETHERNET,
         mac_header(0x86DD) + ipv6(0, bytes.fromhex("3c00 0502 0000 0100 1100 0104 00000000") + ip_payload)),
        ("IPv6 first fragment", ETHERNET,
         mac_header(0x86DD) + ipv6(44, bytes.fromhex("11 00 0001 deadbeef".replace(" ", "")) + ip_payload)),
        ("IPv6 authentication header", ETHERNET,
         mac_header(0x86DD) + ipv6(51, bytes.fromhex("11040000 00000102 00000003 a1a2a3a4a5a6a7a8a9aaabac") + ip_payload)),
        ("IPv6 in IPv4", ETHERNET, mac_header(0x0800) + ipv4(41, ipv6(17, ip_payload))),
        ("TCP options of every kind", ETHERNET,
         mac_header(0x0800) + ipv4(6, tcp(options=bytes.fromhex("020405b4 01 030307 0402 080a0000000100000002 01 01 00".replace(" ", "") + "00"),
                                          flags=0x1C2))),
        ("TCP selective acknowledgements", ETHERNET,
         mac_header(0x0800) + ipv4(6, tcp(options=bytes.fromhex("0101 0512 00000001 00000002 00000003 00000004".replace(" ", ""))))),
        ("ARP", ETHERNET, mac_header(0x0806)
         + bytes.fromhex("0001080006040002 020000000001 0a090807 020000000002 0a090806".replace(" ", ""))),
        ("Linux cooked", SLL, bytes.fromhex("0004 0001 0006 0200000000010000 0800".replace(" ", "")) + inside),
        ("Linux cooked v2", SLL2, bytes.fromhex("0800 0000 00000003 0001 04 06 0200000000010000".replace(" ", "")) + inside),
    ]
    # Transport headers with random values: each opcode of RC, UC and UD over IPv4 and UDP.
    rng = random.Random(11)
    without_payload = {0x0C: 16, 0x11: 4, 0x12: 12, 0x13: 28, 0x14: 28}  # bytes of their extension headers
    for opcode in OPCODES:
        bth = struct.pack(">BBHII", opcode, 0x80, 0x8001, 0x00ABCDEF, 0x80000000 | rng.randrange(1 << 24))
        remainder = rng.randbytes(without_payload.get(opcode, 64)) + bytes(4)
        frames.append((f"opcode {opcode:#04x}", ETHERNET, mac_header(0x0800) + ipv4(17, udp(4791, bth + remainder))))
    return frames


# Expected differences by frame and field, and why rdmawire is correct.
EXPECTED_DIFFERENCES = {
    # Outer and inner tags have the same format. tshark names the fields of the outer one ieee8021ad.
    **{("802.1ad and 802.1Q", f"vlan.{field}"): "other field names" for field in ("dei", "etype", "id", "priority")},
    # The End of Option List option is the last one (RFC 9293, 3.1). tshark continues to read options.
    ("TCP options of every kind", "tcp.option_kind"): "continues",
    # A first fragment does not contain the ICRC. tshark interprets its last four bytes as the ICRC.
    ("IPv6 first fragment", "infiniband.invariant.crc"): "not contained",
    # The packet contains the value once. tshark uses one name for the header and its field.
    **{(f"opcode {opcode:#04x}", "infiniband.immdt"): "shown twice" for opcode in
       (0x03, 0x05, 0x09, 0x0B, 0x23, 0x25, 0x29, 0x2B, 0x65)},
    **{(f"opcode {opcode:#04x}", "infiniband.ieth"): "shown twice" for opcode in (0x16, 0x17)},
}


@pytest.mark.parametrize("link", [ETHERNET, SLL, SLL2])
def test_tshark_and_rdmawire_agree_on_synthesized_frames(tmp_path, link):
    frames = [(name, data) for name, frame_link, data in synthesized_frames() if frame_link == link]
    write_pcap(tmp_path / "x.pcap", link, [Frame(1, 0, len(data), bytearray(data)) for _, data in frames])
    comparison = differences.compare(Capture("synthesized_frames", tmp_path / "x.pcap"))
    assert comparison.frames == comparison.tshark_frames == len(frames)
    found = {(frames[number - 1][0], d.field): str(d)
             for d in comparison.differences for number in frame_numbers(d.frames)}
    names = {name for name, _ in frames}
    unexpected = {key: text for key, text in found.items() if key not in EXPECTED_DIFFERENCES}
    assert unexpected == {}
    assert [key for key in EXPECTED_DIFFERENCES if key[0] in names and key not in found] == [], "no difference"
