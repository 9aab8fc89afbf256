"""MRC between two network namespaces, captured with tcpdump, analyzed and checked. Requires root, ip and tcpdump."""

import contextlib
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))
SAMPLE = ROOT / "captures" / "samples" / "mrc.pcap"
#: A checkout of anichol67/MRC-Client. The user provides it, because it lacks a license.
CLIENT = os.environ.get("RDMAWIRE_MRC_CLIENT")

pytestmark = [
    pytest.mark.skipif(not COMMAND.exists(), reason=f"needs the command: {COMMAND} is not built"),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces require root"),
    pytest.mark.skipif(not shutil.which("tcpdump") or not shutil.which("ip"), reason="needs ip and tcpdump"),
]

ETHERNET, IPV6, UDP, BTH = 0, 14, 54, 62  # offsets in the frames of the sample
WRITES, SACK = range(0xC6, 0xCC), 0xDC

#: Sends each frame of standard input, one per line in hexadecimal, and confirms it.
SENDER = """
import socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((sys.argv[1], 0))
for line in sys.stdin:
    link.send(bytes.fromhex(line))
    print("sent", flush=True)
"""


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Namespaces:
    """Two namespaces with a link between them. Frames are captured at the second one."""

    def __init__(self, stack, directory):
        self.names = [f"mrc-{os.getpid()}-{end}" for end in "ab"]
        self.capture = directory / "veth.pcap"
        self._stack = stack
        for name in self.names:
            try:
                ip("netns", "add", name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no network namespaces: {error.stderr.strip()}")
            stack.callback(ip, "netns", "del", name)
            # No neighbor discovery in the capture.
            subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                            "net.ipv6.conf.default.disable_ipv6=1"], check=True, capture_output=True)
        a, b = self.names
        ip("link", "add", "m0", "netns", a, "type", "veth", "peer", "name", "m0", "netns", b)
        for name in self.names:
            ip("-n", name, "link", "set", "m0", "mtu", "9000", "up")
        self._dump = self.start(1, "tcpdump", "-i", "m0", "-U", "--immediate-mode", "-w", str(self.capture),
                                stderr=subprocess.PIPE)
        while "listening on" not in self._dump.stderr.readline():
            assert self._dump.poll() is None, "tcpdump ended"

    def start(self, end, *command, **options):
        process = subprocess.Popen(["ip", "netns", "exec", self.names[end], *command], text=True, **options)
        self._stack.callback(lambda: process.poll() is None and (process.kill(), process.wait()))
        return process

    def finish(self, frames):
        """Wait for this number of frames in the capture, and end it."""
        for _ in range(100):
            if self.capture.exists() and len(list(frames_of(self.capture))) >= frames:
                break
            time.sleep(0.1)
        self._dump.terminate()
        self._dump.wait()
        return self.capture


def frames_of(capture):
    data = capture.read_bytes()
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        if at + 16 + length > len(data):
            return
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def with_icrc(frame):
    """Replace the ICRC: a CRC-32 over the packet with ones in place of fields that change (IBTA, annex A17)."""
    packet = bytearray(b"\xff" * 8 + frame[IPV6:-4])
    packet[8] |= 0x0F  # traffic class, flow label
    packet[9:12] = b"\xff" * 3
    packet[15] = 0xFF  # hop limit
    packet[8 + UDP - IPV6 + 6 : 8 + UDP - IPV6 + 8] = b"\xff\xff"
    packet[8 + BTH - IPV6 + 4] = 0xFF
    return frame[:-4] + struct.pack("<I", zlib.crc32(bytes(packet)))


def run_exchange(directory, change=lambda number, frame: frame):
    """Send the frames of the reference endpoints, each from its endpoint's namespace. Return the capture."""
    frames = [bytes(change(number, frame)) for number, frame in enumerate(frames_of(SAMPLE), 1)]
    requester = frames[0][IPV6 + 8 : IPV6 + 24]
    with contextlib.ExitStack() as stack:
        between = Namespaces(stack, directory)
        ends = [between.start(end, sys.executable, "-c", SENDER, "m0", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                for end in (0, 1)]
        for frame in frames:
            end = ends[0 if frame[IPV6 + 8 : IPV6 + 24] == requester else 1]
            end.stdin.write(frame.hex() + "\n")
            end.stdin.flush()
            assert end.stdout.readline() == "sent\n"
        return between.finish(len(frames)), frames


def rdmawire(*arguments):
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def exchange(tmp_path_factory):
    return run_exchange(tmp_path_factory.mktemp("exchange"))


def test_captured_frames_are_those_that_were_sent(exchange):
    capture, sent = exchange
    assert list(frames_of(capture)) == sent


def test_analysis_of_the_capture(exchange):
    capture, sent = exchange
    report = rdmawire("analyze", "--json", str(capture))
    (connection,) = report["mrc"]["connections"]
    opcodes = Counter(frame[BTH] for frame in sent)
    assert connection["packets"] == sum(opcodes[code] for code in WRITES)
    assert connection["sacks"] == opcodes[SACK]
    ports = Counter(struct.unpack_from(">H", frame, UDP)[0] for frame in sent if frame[BTH] in WRITES)
    assert {path["source_port"]: path["packets"] for path in report["mrc"]["paths"]} == ports
    assert connection["messages_completed"] == connection["messages"] == 24
    assert report["summary"]["truncated_packets"] == 0
    assert {"mrc_trimmed", "mrc_retransmission"} <= {finding["kind"] for finding in report["findings"]}


def test_undisturbed_endpoints_violate_no_rule(exchange):
    report = rdmawire("check", "--json", "--complete", str(exchange[0]))
    assert report["violations"] == []
    unevaluated = [rule["alias"] for rule in report["rules"] if rule["rule"].startswith("mrc.") and not rule["passed"]]
    assert unevaluated == []


def test_fault_of_an_endpoint_is_the_only_violation(tmp_path):
    frames = list(frames_of(SAMPLE))
    assert with_icrc(frames[40]) == frames[40], "the ICRC of an unchanged frame"
    faulty = next(number for number, frame in enumerate(frames, 1) if frame[BTH] == SACK and number > 60)

    def change(number, frame):
        if number != faulty:
            return frame
        changed = bytearray(frame)
        changed[BTH + 12 + 1] |= 0x1C  # reserved bits of the SETH, after M
        return with_icrc(bytes(changed))

    capture, _ = run_exchange(tmp_path, change)
    report = rdmawire("check", "--json", "--complete", str(capture))
    (violation,) = report["violations"]
    assert violation["frame"] == faulty
    assert violation["rule"] == "mrc.sender.headers.reserved-zero", violation


CLIENT_RESPONDER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from core.mrc_responder import MRCResponder
from core.packet_io import PacketIO
responder, link = MRCResponder(), PacketIO()
link.bind_interface("m0")
def receive(raw, interface):
    responder.process_packet(raw, interface, send_fn=link.send)
link.start_receiver(receive)
time.sleep(1)
print("ready", flush=True)
sys.stdin.readline()
print(responder.get_stats(), flush=True)
"""
CLIENT_REQUESTER = """
import sys
sys.path.insert(0, sys.argv[1])
from core.packet_builder import PacketBuilder
from core.packet_io import PacketIO
builder, link = PacketBuilder(), PacketIO()
for psn in range(16):
    packet = builder.build_write("2001:db8::1", "2001:db8::2", "02:00:00:00:00:01", "02:00:00:00:00:02", 17, 34, psn,
                                 4096 + 64 * psn, 7, 64, bytes(64), msn=psn, ev_value=psn % 4)
    assert link.send(packet.to_bytes(), "m0")
"""


@pytest.mark.skipif(not CLIENT, reason="RDMAWIRE_MRC_CLIENT names no checkout of MRC-Client")
def test_public_implementation(tmp_path):
    pytest.importorskip("scapy")
    with contextlib.ExitStack() as stack:
        between = Namespaces(stack, tmp_path)
        responder = between.start(1, sys.executable, "-c", CLIENT_RESPONDER, CLIENT, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        while (line := responder.stdout.readline()) != "ready\n":
            assert line, "the responder ended"
        requester = between.start(0, sys.executable, "-c", CLIENT_REQUESTER, CLIENT)
        assert requester.wait(60) == 0
        capture = between.finish(16)
        responder.stdin.write("end\n")
        responder.stdin.close()
        statistics = responder.stdout.read()
    assert "'packets_received': 16" in statistics, statistics
    report = rdmawire("check", "--json", str(capture))
    assert {violation["alias"] for violation in report["violations"]} >= {"MRC-001"}
    analysis = rdmawire("analyze", "--json", "--no-crc", str(capture))
    (connection,) = analysis["mrc"]["connections"]
    assert connection["packets"] == 16
    assert len(analysis["mrc"]["paths"]) == 4
    assert rdmawire("analyze", "--json", str(capture))["mrc"]["connections"] == [], "its ICRC is wrong"
