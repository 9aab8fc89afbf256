"""rdmawire analyze --capture-points: compares a capture with modified copies."""

import gzip
import json
import os
import re
import struct
import subprocess
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "captures" / "samples"
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason=f"needs the command: {COMMAND} is not built")

VALIDATOR = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "reference" / "schemas" / "analyze.schema.json").read_text()))
SEND = SAMPLES / "rc-send.pcap.gz"
PINGPONG = SAMPLES / "rc-pingpong.pcap.gz"
IWARP = SAMPLES / "siw-write.pcap.gz"


def run(*arguments, status=0):
    done = subprocess.run([COMMAND, "analyze", "--capture-points", *map(str, arguments)], timeout=60, capture_output=True)
    assert done.returncode == status, done.stderr
    return done


def compare(*arguments, **options):
    report = json.loads(run(*arguments, "--json", **options).stdout)
    VALIDATOR.validate(report)
    return report["capture_points"]


def records(path):
    """File header; seconds, fraction, bytes on the wire, and bytes of each record."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    found, at = [], 24
    while at < len(data):
        seconds, fraction, captured, wire = struct.unpack_from("<IIII", data, at)
        found.append((seconds, fraction, wire, data[at + 16 : at + 16 + captured]))
        at += 16 + captured
    return data[:24], found


def write(path, header, packets):
    body = b"".join(struct.pack("<IIII", s, f, len(content), wire) + content for s, f, wire, content in packets)
    path.write_bytes(header + body)
    return path


def other_point(path, source, *, without=(), change=lambda content: content, later=1, snap=None):
    """Writes the capture as seen after the next router, closer to 10.0.0.2. `without`: frame numbers to omit."""
    header, packets = records(source)
    kept = []
    for number, (seconds, fraction, wire, content) in enumerate(packets, 1):
        if number in without:
            continue
        content = bytearray(change(content))
        if content[12:14] == b"\x08\x00":
            content[22] += 1 if content[26:30] == bytes([10, 0, 0, 2]) else -1
        kept.append((seconds + later, fraction, wire, bytes(content[:snap])))
    return write(path, header, kept)


def outcomes(hop):
    return {kind: row["packets"] for kind, row in hop["outcomes"].items()}


def rdma(report):
    return [hop for hop in report["hops"] if hop["traffic"] == "rdma"]


def test_packets_are_matched_and_clocks_aligned(tmp_path):
    report = compare(PINGPONG, other_point(tmp_path / "further.pcap", PINGPONG))
    assert [point["name"] for point in report["points"]] == ["rc-pingpong", "further"]
    first, second = report["points"]
    assert first["rdma"] == second["rdma"] == first["shared"] == second["shared"] == report["packets"]
    assert all(not outcomes(hop) for hop in rdma(report))
    clock = report["clocks"][0]
    assert abs(clock["offset_ns"] - 1_000_000_000) <= 2000


def test_missing_acknowledged_packets_are_capture_loss(tmp_path):
    # The omitted packets were acknowledged, so the network did not lose them.
    listed = subprocess.run([COMMAND, "dissect", PINGPONG, "--json"], capture_output=True, timeout=60, check=True)
    frames = [json.loads(line) for line in listed.stdout.splitlines()]
    sends = [
        f["frame"]
        for f in frames
        for layer in f["layers"]
        if layer["protocol"] == "bth" and "SEND" in layer["fields"]["opcode_name"]
        and any(ip["protocol"] == "ip" and ip["fields"]["src"] == "10.0.0.3" for ip in f["layers"])
    ]
    gone = set(sends[20:200:17])
    report = compare(PINGPONG, other_point(tmp_path / "b.pcap", PINGPONG, without=gone))
    # Times differ only by the offset, so only the TTL indicates the order.
    assert {by for way in report["paths"] for by in way["order_by"]} == {"ttl"}
    assert sum(outcomes(hop).get("missed_downstream", 0) for hop in rdma(report)) == len(gone)
    assert all(set(outcomes(hop)) <= {"missed_downstream"} for hop in rdma(report))
    reported = {pair["upstream"] for hop in rdma(report) for pair in hop["outcomes"].get("missed_downstream", {}).get("frames", [])}
    assert reported <= gone and reported
    assert not [f for f in report["findings"] if f["severity"] != "info"]


def test_ecn_marks_and_rewritten_dscp_are_reported(tmp_path):
    def mark(content):
        content = bytearray(content)
        if content[12:14] == b"\x08\x00" and content[23] == 17:
            content[15] = (8 << 2) | 3 if content[15] & 3 else 8 << 2
        return content

    report = compare(SEND, other_point(tmp_path / "b.pcap", SEND, change=mark))
    kinds = {f["kind"] for f in report["findings"]}
    assert "dscp_rewritten" in kinds
    assert "dscp_rewritten" in run(SEND, tmp_path / "b.pcap", "--json").stdout.decode()
    run(SEND, tmp_path / "b.pcap", "--fail-on", "dscp_rewritten", status=1)
    run(SEND, tmp_path / "b.pcap", "--fail-on", "error", status=0)


def test_truncated_captures_are_compared_by_headers(tmp_path):
    truncated = other_point(tmp_path / "b.pcap", SEND, snap=80)
    report = compare(SEND, truncated)
    assert report["identity"] == "headers"
    assert report["points"][0]["shared"] == report["points"][0]["rdma"] == report["packets"]


def test_iwarp_segments_are_matched(tmp_path):
    _, packets = records(IWARP)
    data = [n for n, p in enumerate(packets, 1) if len(p[3]) > 1000]
    gone = {data[len(data) // 2]}
    report = compare(IWARP, other_point(tmp_path / "b.pcap", IWARP, without=gone))
    hops = rdma(report)
    assert hops and sum(hop["seen"] for hop in hops) > 100
    assert sum(outcomes(hop).get("missed_downstream", 0) for hop in hops) == 1


def test_frames_of_a_finding_name_their_captures(tmp_path):
    header, packets = records(SEND)
    sends = [n for n, p in enumerate(packets, 1) if len(p[3]) > 1000]
    gone = set(sends[10:16])
    text = run(SEND, other_point(tmp_path / "b.pcap", SEND, without=gone)).stdout.decode()
    listed = ", ".join(map(str, sorted(gone)[:4]))
    assert f"frames  {listed}, … of rc-send" in text

    def other_dscp(content):
        content = bytearray(content)
        if content[12:14] == b"\x08\x00" and content[23] == 17:
            content[15] = 8 << 2
        return content

    text = run(SEND, other_point(tmp_path / "c.pcap", SEND, change=other_dscp)).stdout.decode()
    assert re.search(r"frames  (\d+ → \d+, ){4}… of (rc-send → c|c → rc-send)\n", text), text


def test_unrelated_capture_is_a_finding(tmp_path):
    report = compare(SEND, PINGPONG)
    assert [f["kind"] for f in report["findings"]] == ["unrelated", "unrelated"]
    assert "shares no packet with the other captures" in run(SEND, PINGPONG).stdout.decode()
    run(SEND, PINGPONG, "--fail-on", "unrelated", status=1)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([SEND], "at least two files"),
        ([SEND, SEND], "duplicate file"),
        ([SEND, "-"], "standard input"),
        ([SEND, PINGPONG, "--order", "x.pcap"], "does not match exactly one file"),
        ([SEND, PINGPONG, "--order", "rc-send.pcap.gz"], "(1 of 2 given)"),
        ([SEND, PINGPONG, "--order", "rc-send.pcap.gz,rc-send.pcap.gz"], "listed twice"),
        ([SEND, PINGPONG, "--csv", "x"], "--csv"),
        ([SEND, PINGPONG, "--window", "0"], "--window"),
        ([SEND, PINGPONG, "--filter", "bth.pns == 1"], "bth.psn"),
    ],
)
def test_invalid_usage_exits_with_status_2(arguments, message):
    assert message in run(*arguments, status=2).stderr.decode()


def test_clocks_requires_capture_points():
    done = subprocess.run([COMMAND, "analyze", SEND, "--clocks", "synchronized"], timeout=60, capture_output=True)
    assert done.returncode == 2 and b"--capture-points" in done.stderr


def test_missing_file_is_reported_and_others_are_compared(tmp_path):
    further = other_point(tmp_path / "b.pcap", SEND)
    done = run(SEND, further, tmp_path / "missing.pcap", "--json", status=3)
    assert b"missing.pcap" in done.stderr
    assert len(json.loads(done.stdout)["capture_points"]["points"]) == 2
    run(SEND, tmp_path / "missing.pcap", status=3)


def test_truncated_file_is_compared_up_to_its_end(tmp_path):
    whole = other_point(tmp_path / "b.pcap", SEND)
    cut = tmp_path / "c.pcap"
    cut.write_bytes(whole.read_bytes()[:60_000])
    done = run(SEND, cut, "--json", status=3)
    report = json.loads(done.stdout)["capture_points"]
    assert report["points"][1]["error"]
    assert all(not outcomes(hop) for hop in rdma({"hops": report["hops"]}))
