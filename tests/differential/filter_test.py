"""`--filter` with Wireshark's field names selects the same frames as `tshark -Y`."""

import concurrent.futures
import subprocess

import pytest

import programs
from captures import SAMPLES

CASES = [
    ("rping.pcap", "infiniband.bth.opcode == 17 and infiniband.bth.psn >= 100"),
    ("rping.pcap", "infiniband.reth.dmalen > 1000 or infiniband.reth.r_key == 0"),
    ("rping.pcap", "udp.port == 4791 && frame.len > 1000 && ip.addr == 10.0.0.3"),
    ("rping.pcap", "not infiniband.bth.a and not tcp and not arp"),
    ("rping.pcap", "infiniband.bth.a and not infiniband.aeth"),
    ("rping.pcap", "!(ip.src == 10.0.0.0/8) or frame.number in {5..9, 20}"),
    ("rc-pingpong-loss.pcap.gz", "infiniband.aeth.syndrome.opcode == 3"),
    ("rc-pingpong-loss.pcap.gz", "infiniband.bth.destqp in {0x11, 0x12} and infiniband.bth.a == 1"),
    ("rc-pingpong-loss.pcap.gz", "eth.addr == 52:54:00:00:00:02 and tcp.port == 18515 and tcp.srcport != 18515"),
    ("ucmatose.pcap", "infiniband.mad.attributeid == 0x10 or infiniband.cm.rep"),
    ("ucmatose.pcap", "infiniband.mad and infiniband.deth.q_key == 0x80010000"),
    ("rc-atomic.pcap", "infiniband.atomiceth.swapdt > 0 or infiniband.reth.va"),
    ("rc-write-ipv6.pcap", "infiniband.bth.opcode != 17 and not ipv6.dst == ff02::/16"),
    ("rc-write-ipv6.pcap", "ip.version == 6 and ipv6.addr == ff02::/16"),
    ("ud-pingpong.pcap", "infiniband.deth.srcqp >= 0x10 and infiniband.bth.p_key == 0xffff"),
    ("siw-rping.pcap", "iwarp_rdma.opcode == 0 and iwarp_ddp.last_flag == 1"),
    ("siw-rping.pcap", "iwarp_mpa.rev == 2 or tcp.options.mss_val == 1460"),
    ("siw-rping.pcap", "tcp.flags.syn == 1 && tcp.flags.ack == 0 || tcp.option_kind == 5"),
    ("siw-write-loss.pcap.gz", "iwarp_ddp.tagged_offset > 0 and iwarp_mpa.ulpdulength < 1000"),
    ("nvme-over-rdma.pcap.zst", "nvme.cmd.opc == 2 or nvme.fabrics.cmd.fctype == 4 and ip.dsfield.dscp == 0"),
]


def filter_with_tshark(case):
    name, expression = case
    command = ["tshark", "-r", str(SAMPLES / name), *programs.TSHARK_OPTIONS, "-Y", expression, "-T", "fields", "-e",
               "frame.number"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return [int(line) for line in done.stdout.split()] if done.returncode == 0 else done.stderr


@pytest.fixture(scope="module")
def expected():
    programs.require_rdmawire()
    programs.require_tshark()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(CASES, pool.map(filter_with_tshark, CASES), strict=True))


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_filter_selects_the_same_frames_as_tshark(expected, case):
    name, expression = case
    selected = [packet["frame"] for packet in programs.dissect(SAMPLES / name, "--filter", expression)]
    assert selected == expected[case]
    assert selected, "the case must select frames"
