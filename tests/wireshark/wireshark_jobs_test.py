"""The ten jobs of docs/reference/wireshark-jobs.md, each compared with a count from fields of the built-in dissector."""

import re
import struct
import subprocess
from collections import Counter

import pytest
from tshark_runs import SAMPLES, needs_tshark, with_plugin, without_plugin

pytestmark = needs_tshark
LOSS, NVME = SAMPLES / "rc-pingpong-loss.pcap.gz", SAMPLES / "nvme-over-rdma.pcap.zst"
READ_LOSS = SAMPLES / "rc-read-loss.pcap.zst"
PASSES = pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])


def tshark(capture, *arguments, home=None):
    home = home or with_plugin()
    return home.tshark("-n", "-r", home.place(capture), *arguments).stdout.decode()


def fields(capture, display_filter, *names, arguments=(), home=None):
    out = tshark(capture, *arguments, "-Y", display_filter, "-T", "fields",
                 *(part for name in names for part in ("-e", name)), home=home)
    return [line.split("\t") for line in out.splitlines()]


def transports(capture):
    """Return (frame, source, destination, destination QP, PSN, opcode) of each packet, without the plugin."""
    names = ("frame.number", "ip.src", "ip.dst", "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.opcode")
    return [(int(row[0]), *row[1:4], int(row[4]), int(row[5]))
            for row in fields(capture, "infiniband.bth", *names, home=without_plugin())]


def retransmitted(capture):
    """Return the frames with a SEND or WRITE whose PSN does not exceed an earlier one of its direction."""
    highest, frames = {}, set()
    for frame, *direction, psn, opcode in transports(capture):
        if opcode > 11:
            continue
        before = highest.get(tuple(direction), -1)
        frames |= {frame} if psn <= before else set()
        highest[tuple(direction)] = max(before, psn)
    return frames


def numbers(rows):
    return {int(row[0]) for row in rows}


def test_job_1_list_problems():
    flagged = numbers(fields(LOSS, "rdmawire.analysis.flags", "frame.number", arguments=("-2",)))
    naks = numbers(fields(LOSS, "infiniband.aeth.syndrome.opcode == 3", "frame.number", home=without_plugin()))
    expected = retransmitted(LOSS)
    assert expected and naks and (expected | naks) <= flagged
    assert numbers(fields(LOSS, "rdmawire.analysis.seen_before", "frame.number", arguments=("-2",))) == expected


def test_job_2_summary_of_problems():
    text = tshark(LOSS, "-2", "-q", "-z", "expert,warn")
    count = re.search(r"^ +(\d+) .*go-back-N retransmission", text, re.M)
    assert int(count[1]) == len(retransmitted(LOSS))


@PASSES
def test_job_3_packets_of_one_stream(passes):
    """Also the packets that establish and close the connection."""
    selected = numbers(fields(NVME, "rdmawire.stream == 1", "frame.number", arguments=passes))
    management = numbers(fields(NVME, "infiniband.mad", "frame.number", home=without_plugin()))
    data = {frame for frame, *_, qp, _, _ in transports(NVME) if qp == "0x000012"}
    assert data <= selected and selected - management == data
    assert selected & management == {100, 101, 102, 643, 644}


def test_job_4_conversations_and_endpoints():
    packets = Counter(row[1] for row in transports(LOSS))
    line = next(line for line in tshark(LOSS, "-2", "-q", "-z", "conv,rdmawire").splitlines() if "<->" in line)
    assert sorted(int(count) for count in re.findall(r"(?<= )\d+(?= \d+ kB)", line)[:2]) == sorted(packets.values())
    ends = [line.split() for line in tshark(LOSS, "-2", "-q", "-z", "endpoints,rdmawire").splitlines() if " QP 0x" in line]
    assert {end[0]: int(end[5]) for end in ends} == packets


def test_job_5_response_times():
    """Each response has the time since the last transmission of its request."""
    sent = {}
    for frame, *packet, _ in transports(LOSS):
        sent.setdefault(tuple(packet), []).append(frame)
    transmissions = {frames[0]: frames for frames in sent.values()}
    times = {int(row[0]): float(row[1]) for row in fields(LOSS, "frame", "frame.number", "frame.time_relative")}
    found = fields(LOSS, "rdmawire.analysis.answers && rdmawire.analysis.answers_after", "frame.number",
                   "rdmawire.analysis.answers", "rdmawire.analysis.answers_after", arguments=("-2",))
    assert len(found) > 100
    for frame, request, after in found:
        last = max(one for one in transmissions[int(request)] if one < int(frame))
        assert float(after) == pytest.approx(times[int(frame)] - times[last], abs=1e-9)
    assert " 100 " in next(line for line in tshark(LOSS, "-2", "-q", "-z", "rdmawire,srt").splitlines() if " send " in line)


@PASSES
def test_job_6_data_of_a_stream(passes):
    text = tshark(READ_LOSS, *passes, "-q", "-z", "follow,rdmawire,raw,1")
    data = "".join(line.strip() for line in text.splitlines() if re.fullmatch(r"\t?[0-9a-f]+", line))
    # 50 READs of 16384 bytes.
    assert len(data) // 2 == 50 * 16384


def test_job_7_graph_over_time():
    field = "rdmawire.payload.length"
    text = tshark(LOSS, "-2", "-q", "-z", f"io,stat,0.1,SUM({field}){field}")
    sums = [int(row[1]) for row in re.findall(r"\| *([\d. ]+<> *[\d.]+|[\d.]+ *<> *Dur) *\| *(\d+) *\|", text)]
    payloads = fields(LOSS, "infiniband.bth.opcode in {0..11}", "udp.length", "infiniband.bth.padcnt", "infiniband.bth.opcode",
                      home=without_plugin())
    # UDP, BTH and ICRC, and no extended headers: the capture contains only SENDs.
    assert sum(sums) == sum(int(length) - 8 - 12 - 4 - int(pad) for length, pad, _ in payloads) > 800_000


def test_job_8_other_ports(tmp_path):
    """RoCEv2 to another UDP port, and iWARP whose start was not captured."""
    content = bytearray(with_plugin().place(SAMPLES / "rping.pcap").read_bytes())
    at = 24
    while at < len(content):
        length = struct.unpack("<I", content[at + 8:at + 12])[0]
        if content[at + 16 + 36:at + 16 + 38] == struct.pack(">H", 4791):  # after Ethernet, IPv4 and the source port
            content[at + 16 + 36:at + 16 + 38] = struct.pack(">H", 14791)
        at += 16 + length
    other = tmp_path / "job-8-port.pcap"
    other.write_bytes(content)
    names = ("frame.number", "rdmawire.bth.psn")
    assert not fields(other, "rdmawire.bth", *names)
    assert fields(other, "rdmawire.bth", *names, arguments=("-d", "udp.port==14791,rdmawire")) == fields(
        SAMPLES / "rping.pcap", "rdmawire.bth", *names)
    late = tmp_path / "job-8.pcap"
    subprocess.run(["editcap", "-F", "nsecpcap", "-r", with_plugin().place(SAMPLES / "siw-send.pcap.gz"), late, "400-964"],
                   check=True, stderr=subprocess.DEVNULL)
    assert len(fields(late, "rdmawire.rdmap", "frame.number")) > 300


def test_job_9_columns():
    times = dict(fields(NVME, "frame", "frame.number", "frame.time_epoch"))
    previous = {}
    for frame, stream, delta in fields(NVME, "rdmawire.stream", "frame.number", "rdmawire.stream", "rdmawire.time_delta"):
        now = int(times[frame].replace(".", ""))
        assert int(delta.replace(".", "")) == now - previous.get(stream, now)
        previous[stream] = now
    assert len(previous) == 3


def test_job_10_extract_for_a_colleague():
    home = with_plugin()
    target = home.path / "extract"
    target.mkdir(exist_ok=True)
    target.chmod(0o777)
    expected = fields(LOSS, "rdmawire.analysis.flags", "frame.time_epoch", arguments=("-2",))
    tshark(LOSS, "-2", "-Y", "rdmawire.analysis.flags", "-w", target / "problems.pcapng")
    assert fields(target / "problems.pcapng", "frame", "frame.time_epoch") == expected and len(expected) > 90
