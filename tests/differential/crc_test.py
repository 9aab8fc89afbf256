"""CRC verification by the command: good for captured packets, bad for exactly the damaged packets."""

import json
import random
import struct

import pytest

import programs
from captures import SAMPLES, SHARED, WITHOUT_SHARED, Frame, all_captures, capture_named, read_pcap, write_pcap
from frame_bytes import ipv4, mac_header, tcp
from programs import dissect

# A capture whose UDP source ports were overwritten on the path: see real_captures_test.py.
DAMAGED = "shared/public/magnate3__linux-riscv-dev__dc-small.pcap"
ETHERNET, INFINIBAND = 1, 247


@pytest.fixture(scope="module", autouse=True)
def _needs():
    programs.require_rdmawire()


def layers(packet, protocol):
    return [layer for layer in packet["layers"] if layer["protocol"] == protocol]


def test_crcs_of_captured_frames_are_good():
    counted = {"icrc": 0, "vcrc": 0}
    for capture in all_captures():
        if capture.name == DAMAGED:
            continue
        for packet in dissect(capture.path):
            where = f"{capture.name} frame {packet['frame']}"
            if layers(packet, "bth"):
                assert packet["icrc"]["status"] == "good", where
                counted["icrc"] += 1
            if layers(packet, "lrh"):
                assert packet["vcrc"]["status"] == "good", where
                counted["vcrc"] += 1
    assert counted["icrc"] > 9000
    assert counted["vcrc"] == (170 if SHARED.is_dir() else 0)


# Fields that change in transit are not covered. Offsets are relative to the start of the header.
UNCOVERED = {"ip": {1, 8, 10, 11}, "ipv6": {1, 2, 3, 7}, "udp": {6, 7}, "bth": {4}}


def covered(packet):
    """Return the offsets of bytes that the ICRC covers and that do not select the protocol."""
    (bth,) = layers(packet, "bth")
    network = (layers(packet, "ip") + layers(packet, "ipv6") + layers(packet, "grh"))[-1]
    addresses = range(network["offset"] + network["length"] - (8 if network["protocol"] == "ip" else 32),
                      network["offset"] + network["length"])
    following = range(bth["offset"] + 8, packet["length"] - 4)
    return [*addresses, *following]


@pytest.mark.parametrize("name", ["rping.pcap", "rc-write-ipv6.pcap", "ucmatose.pcap", "linlinw5-uc-pingpong.pcap",
                                  "rc-atomic.pcap", "ud-pingpong.pcap"])
def test_icrc_is_bad_for_exactly_the_damaged_frames(tmp_path, name):
    rng = random.Random(5)
    link, frames = read_pcap(SAMPLES / name)
    damaged = set()
    for packet, frame in zip(dissect(SAMPLES / name), frames, strict=True):
        if "icrc" in packet and rng.random() < 0.5:
            frame.data[rng.choice(covered(packet))] ^= 1 << rng.randrange(8)
            damaged.add(packet["frame"])
    write_pcap(tmp_path / "x.pcap", link, frames)
    assert damaged
    assert {p["frame"] for p in dissect(tmp_path / "x.pcap") if p.get("icrc", {}).get("status") == "bad"} == damaged


@pytest.mark.parametrize("name", ["rping.pcap", "rc-write-ipv6.pcap"])
def test_icrc_ignores_fields_that_change_in_transit(tmp_path, name):
    rng = random.Random(7)
    link, frames = read_pcap(SAMPLES / name)
    for packet, frame in zip(dissect(SAMPLES / name), frames, strict=True):
        for header, offsets in UNCOVERED.items():
            for layer in layers(packet, header) if "icrc" in packet else ():
                for offset in offsets:
                    frame.data[layer["offset"] + offset] = rng.randrange(256)
    write_pcap(tmp_path / "x.pcap", link, frames)
    statuses = [p["icrc"]["status"] for p in dissect(tmp_path / "x.pcap") if "icrc" in p]
    assert statuses and set(statuses) == {"good"}


def _vectors():
    path = SHARED / "vectors.json"
    return json.loads(path.read_text()) if path.exists() else [{"name": "none", "skip": True}]


@pytest.mark.parametrize("vector", _vectors(), ids=lambda v: v["name"])
def test_icrcs_of_published_frames_are_good(tmp_path, vector):
    if vector.get("skip"):
        pytest.skip(WITHOUT_SHARED)
    if "masked" in vector:  # a local packet, starting with the LRH, without CRCs. The VCRC is not checked
        link, data = INFINIBAND, bytearray.fromhex(vector["masked"] + vector["icrc_wire"] + "0000")
    else:
        link, data = ETHERNET, bytearray.fromhex(vector["frame"])
    write_pcap(tmp_path / "x.pcap", link, [Frame(0, 0, len(data), data)])
    (packet,) = dissect(tmp_path / "x.pcap")
    assert packet["icrc"] == {"value": "0x" + vector["icrc_wire"], "status": "good"}


# ---------------------------------------------------------------------------------------------------------------------
# MPA

_CRC32C = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ 0x82F63B78 if _byte & 1 else _byte >> 1
    _CRC32C.append(_byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def with_crcs(path):
    """Return a siw capture with CRCs negotiated: (link, frames, {frame: [(offset, length) of its FPDUs]})."""
    link, frames = read_pcap(path)
    fpdus = {}
    for packet, frame in zip(dissect(path), frames, strict=True):
        for pdu in packet.get("pdus", ()):
            assert not pdu["reassembled"], "the capture must have one segment per FPDU"
            begin, end = pdu["offset"], pdu["offset"] + pdu["length"]
            if pdu["layers"][0]["protocol"] == "mpa":
                frame.data[begin + 16] |= 0x40
            else:
                frame.data[end - 4 : end] = struct.pack("<I", crc32c(frame.data[begin : end - 4]))
                fpdus.setdefault(packet["frame"], []).append((begin, pdu["length"]))
    return link, frames, fpdus


def crc_statuses(packet):
    return [pdu["crc"]["status"] for pdu in packet.get("pdus", ()) if pdu["layers"][0]["protocol"] == "fpdu"]


def test_mpa_crc_is_bad_for_exactly_the_damaged_fpdus(tmp_path):
    link, frames, fpdus = with_crcs(SAMPLES / "siw-rping.pcap")
    write_pcap(tmp_path / "good.pcap", link, frames)
    for packet in dissect(tmp_path / "good.pcap"):
        assert crc_statuses(packet) == ["good"] * len(fpdus.get(packet["frame"], ())), packet["frame"]
    rng = random.Random(3)
    damaged = {}
    for number, places in fpdus.items():
        for index, (begin, length) in enumerate(places):
            if length > 24 and rng.random() < 0.5:
                # Damage only bytes after the headers, because a damaged length or opcode would affect the following
                # FPDUs.
                frames[number - 1].data[begin + rng.randrange(20, length)] ^= 1 << rng.randrange(8)
                damaged.setdefault(number, set()).add(index)
    write_pcap(tmp_path / "bad.pcap", link, frames)
    assert sum(map(len, damaged.values())) > 20
    for packet in dissect(tmp_path / "bad.pcap"):
        expected = ["bad" if index in damaged.get(packet["frame"], ()) else "good"
                    for index in range(len(fpdus.get(packet["frame"], ())))]
        assert crc_statuses(packet) == expected, packet["frame"]


def test_mpa_crcs_of_a_real_stream_are_good():
    capture = capture_named("shared/public/realjimmy__sample-captures__iwarp_send_recv_snd_recv_crc.pcap")
    if not capture:
        pytest.skip(WITHOUT_SHARED)
    assert [status for packet in dissect(capture.path) for status in crc_statuses(packet)] == ["good", "good"]


def test_mpa_crcs_are_not_checked_unless_negotiated():
    for packet in dissect(SAMPLES / "siw-rping.pcap"):
        assert all("crc" not in pdu for pdu in packet.get("pdus", ())), packet["frame"]


class Endpoint:
    """The sender of one direction of a synthesized TCP connection."""

    def __init__(self, ports, seq):
        self.ports, self.seq = ports, seq
        self.position = 0  # position in the stream of FPDUs, which determines the markers

    def segment(self, payload, flags=0x18):
        frame = mac_header(0x0800) + ipv4(6, tcp(payload, flags=flags, seq=self.seq, ports=self.ports))
        self.seq += len(payload) + (flags & 2) // 2
        return Frame(1, 0, len(frame), bytearray(frame))

    def fpdu(self, ulpdu, markers):
        """Return an FPDU with its CRC. Markers at every 512th byte of the stream point back to the FPDU's length."""
        content = struct.pack(">H", len(ulpdu)) + ulpdu
        content += b"\0" * (-len(content) % 4)
        out, length_at = bytearray(), 0

        def marker():
            if markers and (self.position + len(out)) % 512 == 0:
                out.extend(struct.pack(">HH", 0, len(out) - length_at))

        marker()  # a marker between two FPDUs belongs to the second
        length_at = len(out)
        for at in range(0, len(content), 4):
            if at:
                marker()
            out.extend(content[at : at + 4])
        marker()  # a marker between the pad and the CRC is included in the CRC
        out.extend(struct.pack("<I", crc32c(out)))
        self.position += len(out)
        return bytes(out)


@pytest.mark.parametrize("markers", [False, True])
def test_mpa_crcs_with_and_without_markers(tmp_path, markers):
    rng = random.Random(9)
    client, server = Endpoint((40000, 7174), 1000), Endpoint((7174, 40000), 9000)
    flags = 0xC0 if markers else 0x40
    frames = [client.segment(b"", 2), server.segment(b"", 0x12), client.segment(b"", 0x10),
              client.segment(b"MPA ID Req Frame" + bytes([flags, 1, 0, 0])),
              server.segment(b"MPA ID Rep Frame" + bytes([flags, 1, 0, 0]))]
    expected = []
    for number in range(40):
        # A Send on queue 0: tagged 0, last 1, version 1. RDMAP version 1, opcode Send.
        header = bytes([0x41, 0x43]) + struct.pack(">IIII", 0, 0, number + 1, 0)
        ulpdu = header + rng.randbytes(rng.randrange(1400))
        data = bytearray(client.fpdu(ulpdu, markers))
        bad = len(ulpdu) > 40 and rng.random() < 0.3
        if bad:
            data[-5] ^= 0x20  # pad, data or a marker
        frames.append(client.segment(bytes(data)))
        expected.append("bad" if bad else "good")
    write_pcap(tmp_path / "x.pcap", ETHERNET, frames)
    packets = dissect(tmp_path / "x.pcap")
    assert [status for packet in packets for status in crc_statuses(packet)] == expected
    assert {"good", "bad"} == set(expected)
    assert any(pdu.get("markers") for packet in packets for pdu in packet.get("pdus", ())) == markers
