"""Violations if the DMA length of the RETH differs from the length of the message: by requester and responder."""

import json
import struct
import subprocess

import pytest
from made_frames import A, B, bth, pcap, roce, dissect, with_icrc  # noqa: F401 (dissect is a fixture)
from tshark_runs import COMMAND, SAMPLES, needs_tshark, plugin_tree

pytestmark = needs_tshark

FILLED, TOTAL = "rc.requester.length.packets-filled", "rc.responder.length.write-total"
WRITE_FIRST, WRITE_LAST, WRITE_ONLY, ACK = 6, 8, 10, 17


def violations(packets):
    """Return the length violations of each frame."""
    def shown(violation, name):
        return next(field.get("show") for field in violation.iter("field")
                    if field.get("name") == "rdmawire.violation." + name)

    return [(number, *(shown(violation, name) for name in ("rule", "level", "expected", "actual")))
            for number, packet in enumerate(packets, 1) if plugin_tree(packet) is not None
            for violation in plugin_tree(packet).iter("field") if violation.get("name") == "rdmawire.violation"
            if shown(violation, "rule") in (FILLED, TOTAL)]


def write(opcode, psn, payload, announced=None):
    reth = b"" if announced is None else struct.pack(">QII", 0x1000, 0x42, announced)
    return roce(bth(opcode, 0x11, psn) + reth + bytes(payload), source=A, destination=B)


def acknowledge(psn):
    return roce(bth(ACK, 0x22, psn) + struct.pack(">I", 0x1F << 24 | 1), source=B, destination=A)


@pytest.mark.parametrize("announced", [64, 8, 4])
def test_single_packet_write_with_wrong_dma_length(dissect, announced):  # noqa: F811
    """The payload has 8 bytes."""
    found = violations(dissect([write(WRITE_ONLY, 100, 8, announced), acknowledge(100)], "-2"))
    assert found == ([] if announced == 8 else [
        (1, FILLED, "shall", f"{announced} bytes in total, the DMA length of the RETH", "8 bytes with this RC RDMA WRITE Only")])


@pytest.mark.parametrize("announced", [2000, 1524, 1500])
def test_two_packet_write_with_wrong_dma_length(dissect, announced):  # noqa: F811
    """The payload has 1024 and 500 bytes. The last packet shows the violation."""
    found = violations(dissect([write(WRITE_FIRST, 100, 1024, announced), write(WRITE_LAST, 101, 500), acknowledge(101)], "-2"))
    assert found == ([] if announced == 1524 else [
        (2, FILLED, "shall", f"{announced} bytes in total, the DMA length of the RETH",
         "1524 bytes with this RC RDMA WRITE Last")])


def frames_of(capture):
    """Return the frames of a little-endian pcap file."""
    data = capture.read_bytes()
    at, frames = 24, []
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return frames


@pytest.mark.parametrize("more", [1000, 0, -1000])
def test_responder_that_accepts_wrong_dma_length(dissect, tmp_path, more):  # noqa: F811
    """The first WRITE of a connection opened by the CM has a wrong DMA length and is acknowledged."""
    frames = frames_of(SAMPLES / "rping.pcap")
    first = next(at for at, frame in enumerate(frames)
                 if frame[36:38] == struct.pack(">H", 4791) and frame[42] == WRITE_FIRST)
    reth = first_length = 42 + 12 + 12
    length = struct.unpack_from(">I", frames[first], first_length)[0]
    assert length == 4000
    changed = frames[first]
    frames[first] = with_icrc(changed[:reth] + struct.pack(">I", length + more) + changed[reth + 4:])
    if not more:
        assert frames[first] == changed
    packets = dissect(frames, "-2", "-J", "rdmawire")
    found = violations(packets)

    capture = tmp_path / "changed.pcap"
    capture.write_bytes(pcap(frames))
    done = subprocess.run([COMMAND, "check", "--json", capture], capture_output=True, text=True, timeout=120)
    assert found == [(one["frame"], one["rule"], one["level"], one["expected"], one["actual"])
                    for one in sorted(json.loads(done.stdout)["violations"], key=lambda one: one["frame"])
                    if one["rule"] in (FILLED, TOTAL)]
    assert [rule for _, rule, *_ in found] == ([FILLED, TOTAL] if more else [])
    if more:
        assert found[0][3] == f"{length + more} bytes in total, the DMA length of the RETH"
        assert found[1][3].startswith("a NAK (invalid request) for the RC RDMA WRITE ")
