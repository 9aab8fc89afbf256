"""Builds frames, and returns the plugin's output for them."""

import struct
import zlib

import pytest
from tshark_runs import plugin_tree, with_plugin, without_plugin

MACS = bytes.fromhex("525400000003" "525400000002")
A, B = bytes([10, 0, 0, 2]), bytes([10, 0, 0, 3])


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(protocol, payload, source=A, destination=B, tos=0):
    header = struct.pack(">BBHHHBBH4s4s", 0x45, tos, 20 + len(payload), 1, 0x4000, 64, protocol, 0, source, destination)
    header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
    return MACS + b"\x08\x00" + header + payload


def with_icrc(frame):
    """Return a RoCEv2 frame (IPv4 without options, no VLAN) with a valid ICRC. IBTA vol 1, A17.3.3."""
    masked = bytearray(b"\xff" * 8 + frame[14:-4])
    for at in (8 + 1, 8 + 8, 8 + 10, 8 + 11, 8 + 26, 8 + 27, 8 + 28 + 4):
        masked[at] = 0xFF
    return frame[:-4] + struct.pack("<I", zlib.crc32(masked))


def roce(transport, port=49192, tos=0, destination_port=4791, source=A, destination=B):
    """Return a RoCEv2 frame with a valid ICRC."""
    udp = struct.pack(">HHHH", port, destination_port, 8 + len(transport) + 4, 0)
    return with_icrc(ipv4(17, udp + transport + bytes(4), source, destination, tos))


def bth(opcode, qp=0x11, psn=100, pad=0, flags=0):
    return struct.pack(">BBHII", opcode, 0x40 | pad << 4, 0xFFFF, flags << 24 | qp, psn)


def pcap(frames):
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for number, frame in enumerate(frames):
        out += struct.pack("<IIII", 1_700_000_000, number, len(frame), len(frame)) + frame
    return out


@pytest.fixture
def dissect(tmp_path):
    """Return a function that writes frames to a capture and returns tshark's PDML packets."""

    def run_tshark(frames, *arguments, plugin=True):
        home = with_plugin() if plugin else without_plugin()
        run_tshark.count += 1
        capture = tmp_path / f"{tmp_path.name}-{run_tshark.count}.pcap"
        capture.write_bytes(pcap(frames))
        return home.packets(capture, *arguments)

    run_tshark.count = 0
    return run_tshark


def value(packet, name):
    tree = plugin_tree(packet)
    assert tree is not None, "no tree"
    found = [field.get("show") for field in tree.iter("field") if field.get("name") == "rdmawire." + name]
    assert len(found) == 1, f"{name}: {found}"
    return found[0]
