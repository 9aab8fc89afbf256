"""Properties of real captures, each as a test of the command."""

import copy
import struct

import pytest

import programs
from captures import SAMPLES, WITHOUT_SHARED, Frame, all_captures, capture_named, read_pcap, write_pcap
from programs import dissect


@pytest.fixture(scope="module", autouse=True)
def _needs():
    programs.require_rdmawire()


def shared(name):
    capture = capture_named(f"shared/public/{name}")
    if not capture:
        pytest.skip(WITHOUT_SHARED)
    return capture.path


def layer(packet, protocol):
    return next((one for one in packet["layers"] if one["protocol"] == protocol), None)


def changed(tmp_path, source, change):
    """Apply `change(number, frame, packet)` to the frames of a capture. Return the dissected packets."""
    link, frames = read_pcap(source)
    for packet, frame in zip(dissect(source), frames, strict=True):
        change(packet["frame"], frame, packet)
    write_pcap(tmp_path / "x.pcap", link, frames)
    return dissect(tmp_path / "x.pcap")


def recompute_ip_checksum(frame, packet):
    at = layer(packet, "ip")["offset"]
    frame.data[at + 10 : at + 12] = b"\0\0"
    total = sum(struct.unpack(">10H", frame.data[at : at + 20]))
    total = (total & 0xFFFF) + (total >> 16)
    frame.data[at + 10 : at + 12] = struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)


def test_icrc_masks_the_lrh_if_a_grh_is_present(tmp_path):
    source = shared("magnate3__linux-riscv-dev__ib2.pcap")

    def other_lid(_, frame, packet):
        frame.data[layer(packet, "lrh")["offset"] + 3] ^= 1

    def other_lane(_, frame, packet):
        frame.data[layer(packet, "lrh")["offset"]] ^= 0x10

    seen = set()
    for packet in changed(tmp_path, source, other_lid):
        with_grh = layer(packet, "grh") is not None
        assert packet["icrc"]["status"] == ("good" if with_grh else "bad"), packet["frame"]
        assert packet["vcrc"]["status"] == "bad", packet["frame"]
        seen.add(with_grh)
    assert seen == {False, True}
    for packet in changed(tmp_path, source, other_lane):
        assert (packet["icrc"]["status"], packet["vcrc"]["status"]) == ("good", "bad"), packet["frame"]


def test_overwritten_source_port_is_recovered_in_real_capture():
    packets = dissect(shared("magnate3__linux-riscv-dev__dc-small.pcap"))
    assert {packet["icrc"]["status"] for packet in packets} == {"bad"}
    assert {packet["icrc"]["source_port"] for packet in packets} == {63484, 53369}


def test_any_overwritten_source_port_is_recovered(tmp_path):
    original = {}

    def overwrite(number, frame, packet):
        if "icrc" in packet:
            at = layer(packet, "udp")["offset"]
            original[number] = int.from_bytes(frame.data[at : at + 2], "big")
            frame.data[at : at + 2] = struct.pack(">H", 4791)

    for packet in changed(tmp_path, SAMPLES / "rping.pcap", overwrite):
        if "icrc" in packet:
            assert packet["icrc"]["source_port"] == original[packet["frame"]]
    assert len(original) == 365


def test_acknowledgements_without_captured_requests_have_no_finding(tmp_path):
    link, frames = read_pcap(SAMPLES / "rc-pingpong.pcap.gz")
    packets = dissect(SAMPLES / "rc-pingpong.pcap.gz")

    def is_request(packet):
        bth = layer(packet, "bth")
        return bth is not None and bth["fields"]["opcode"] != 17

    kept = [(frame, packet) for frame, packet in zip(frames, packets, strict=True) if not is_request(packet)]
    assert 0 < len(kept) < len(frames)
    write_pcap(tmp_path / "x.pcap", link, [frame for frame, _ in kept])
    for packet, (_, original) in zip(dissect(tmp_path / "x.pcap"), kept, strict=True):
        assert "findings" not in packet
        assert packet["layers"] == original["layers"]


def test_vendor_transport_is_identified_without_guessing_payloads():
    for packet in dissect(shared("magnate3__linux-riscv-dev__dc-small.pcap")):
        assert layer(packet, "dceth") and not layer(packet, "mad")
        assert "findings" not in packet
        assert "upper" not in packet


def test_captured_packets_are_not_malformed():
    for capture in all_captures():
        for packet in dissect(capture.path):
            where = f"{capture.name} frame {packet['frame']}"
            if capture.name == "samples/mrc.pcap":  # a switch trimmed some packets
                assert all(f["kind"] == "truncated" for f in packet.get("findings", ())), where
                continue
            assert "findings" not in packet, where
            assert all("findings" not in pdu for pdu in packet.get("pdus", ())), where


def test_tcp_keep_alive_does_not_affect_fpdus(tmp_path):
    link, frames = read_pcap(SAMPLES / "siw-rping.pcap")
    before = dissect(SAMPLES / "siw-rping.pcap")
    with_data = [p["frame"] for p in before if p.get("pdus") and p["pdus"][0]["layers"][0]["protocol"] == "fpdu"]
    # After every tenth segment, the sender repeats the last byte of this segment.
    repeated = with_data[5::10]
    out, inserted = [], set()
    for number, (frame, packet) in enumerate(zip(frames, before, strict=True), 1):
        out.append(frame)
        if number not in repeated:
            continue
        ip, tcp = layer(packet, "ip"), layer(packet, "tcp")
        begin = tcp["offset"] + tcp["length"]
        end = ip["offset"] + ip["fields"]["total_length"]
        keep_alive = Frame(frame.seconds, frame.fraction, begin + 1,
                           copy.copy(frame.data[:begin]) + frame.data[end - 1 : end])
        struct.pack_into(">H", keep_alive.data, ip["offset"] + 2, begin + 1 - ip["offset"])
        struct.pack_into(">I", keep_alive.data, tcp["offset"] + 4, (tcp["fields"]["seq"] + end - begin - 1) % 2**32)
        out.append(keep_alive)
        inserted.add(len(out))
    write_pcap(tmp_path / "x.pcap", link, out)
    after = dissect(tmp_path / "x.pcap")
    assert len(inserted) > 5
    for packet in after:
        if packet["frame"] in inserted:
            assert "pdus" not in packet and any("keep-alive" in note for note in packet["notes"]), packet["frame"]
    pdus = [[pdu["layers"] for pdu in p.get("pdus", ())] for p in after if p["frame"] not in inserted]
    assert pdus == [[pdu["layers"] for pdu in p.get("pdus", ())] for p in before]


def _pcapng(resolution, ticks):
    """Return a pcapng file with one packet. Timestamps are in 10^-resolution s (None: no option, microseconds)."""

    def block(kind, body):
        body += b"\0" * (-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    options = b"" if resolution is None else struct.pack("<HHB3xHH", 9, 1, resolution, 0, 0)
    return (block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
            + block(1, struct.pack("<HHI", 1, 0, 0) + options)
            + block(6, struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, 14, 14) + bytes(14)))


@pytest.mark.parametrize("resolution, ticks", [(9, 1732163000123456789), (6, 1732163000123456), (None, 1732163000123456),
                                               (3, 1732163000123)])
def test_timestamp_resolution_of_the_interface_is_used(tmp_path, resolution, ticks):
    (tmp_path / "x.pcapng").write_bytes(_pcapng(resolution, ticks))
    (packet,) = dissect(tmp_path / "x.pcapng")
    digits = 6 if resolution is None else resolution
    assert packet["time"] == f"{ticks // 10**digits}.{ticks % 10**digits:0{digits}}".ljust(20, "0")


def test_truncated_packet_is_detected_by_its_ip_length(tmp_path):
    def truncate(_, frame, packet):
        if layer(packet, "bth"):
            del frame.data[60:]
            frame.wire_length = len(frame.data)

    truncated = 0
    for packet in changed(tmp_path, SAMPLES / "rping.pcap", truncate):
        if layer(packet, "bth"):
            assert packet["length"] == packet["captured"] == 60
            assert packet["icrc"] == {"status": "unverifiable"}, packet["frame"]
            assert all(finding["kind"] != "malformed" for finding in packet.get("findings", ())), packet["frame"]
            truncated += 1
    assert truncated == 365


def test_directions_with_different_dscp_are_paired(tmp_path):
    """The DSCP does not affect ICRC verification or upper-layer protocols."""

    def mark(_, frame, packet):
        bth = layer(packet, "bth")
        if bth and bth["fields"]["opcode"] != 17:
            frame.data[layer(packet, "ip")["offset"] + 1] = 26 << 2
            recompute_ip_checksum(frame, packet)

    source = SAMPLES / "nvme-over-rdma.pcap.zst"
    dscps = set()
    for packet, before in zip(changed(tmp_path, source, mark), dissect(source), strict=True):
        assert packet.get("icrc") == before.get("icrc")
        assert packet.get("upper") == before.get("upper")
        if bth := layer(packet, "bth"):
            dscps.add((bth["fields"]["opcode"] == 17, layer(packet, "ip")["fields"]["tos.dscp"]))
    assert dscps == {(True, 0), (False, 26)}
