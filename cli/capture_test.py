#!/usr/bin/python3
"""rdmawire capture in a network namespace.

usage: capture_test.py RDMAWIRE

Sends frames through a veth pair inside its own network namespace. Exit status 77: skipped, with the reason.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RDMAWIRE = sys.argv[1]
FRAME = bytes.fromhex("525400000002" "525400000003" "88b5")


def run(*arguments):
    return subprocess.run([RDMAWIRE, *arguments], capture_output=True, text=True, timeout=120)


def dissected(path):
    return run("dissect", "--filter", "eth.type == 0x88b5", str(path)).stdout.splitlines()


def send(count):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind(("va", 0))
        for number in range(count):
            wire.send(FRAME + bytes([number]) * 100)


def usage():
    assert run("capture", "-i", "lo").returncode == 2, "no output"
    assert run("capture", "-o", "x").returncode == 2, "no interface"
    assert run("capture", "-i", "lo", "-o", "-", "--ring-size", "1M").returncode == 2, "a ring on standard output"
    assert run("capture", "-i", "lo", "-o", "x", "--ring-files", "3").returncode == 2, "a ring without a limit"
    missing = run("capture", "-i", "no-such-interface", "-o", "x")
    assert missing.returncode == 3 and missing.stderr.count("\n") == 1 and "no-such-interface" in missing.stderr, missing
    wrong = run("capture", "-i", "lo", "-o", "x", "--filter", "udp prt 5")
    assert wrong.returncode == 2 and wrong.stderr.count("\n") == 1 and "udp prt 5" in wrong.stderr, wrong
    unwritable = run("capture", "-i", "lo", "-o", "/no/such/directory/x.pcapng", "--seconds", "1")
    assert unwritable.returncode == 3 and "/no/such/directory" in unwritable.stderr, unwritable
    assert re.search(r"^vb +(running|up)", run("capture", "--list").stdout, re.M)


class Capture:
    """A running capture on vb."""

    def __init__(self, *arguments, **options):
        command = [RDMAWIRE, "capture", "-i", "vb", "--filter", "ether proto 0x88b5", *map(str, arguments)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)
        # The kernel lists bound sockets in /proc.
        deadline = time.monotonic() + 10
        while "\n" not in Path(f"/proc/{self.process.pid}/net/packet").read_text().strip() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)

    def end(self):
        output = self.process.communicate(timeout=120)
        return self.process.returncode, output[1]


def count(directory):
    capture = Capture("-o", directory / "count.pcapng", "-c", 5)
    send(8)
    status, errors = capture.end()
    assert status == 0 and "5 packets, 0 dropped" in errors, (status, errors)
    assert len(dissected(directory / "count.pcapng")) == 5


def interrupt(directory):
    for sent in (signal.SIGINT, signal.SIGTERM):
        capture = Capture("-o", directory / "int.pcap", "-s", 60)
        send(3)
        time.sleep(0.5)
        capture.process.send_signal(sent)
        status, errors = capture.end()
        assert status == 0 and "3 packets" in errors, (status, errors)
        assert len(dissected(directory / "int.pcap")) == 3
    cut = run("dissect", "--filter", "frame.cap_len == 60 and frame.len == 114", str(directory / "int.pcap"))
    assert len(cut.stdout.splitlines()) == 3, cut.stdout


def seconds(directory):
    start = time.monotonic()
    status, errors = Capture("-o", directory / "empty.pcapng", "--seconds", 1).end()
    assert status == 0 and "0 packets" in errors and time.monotonic() - start < 60
    assert run("dissect", str(directory / "empty.pcapng")).returncode == 0


def pipe(directory):
    capture = Capture("-o", "-", "-c", 2, stdout=subprocess.PIPE)
    reader = subprocess.Popen([RDMAWIRE, "dissect", "-"], stdin=capture.process.stdout, stdout=subprocess.PIPE, text=True)
    capture.process.stdout.close()
    capture.process.stdout = None
    send(2)
    status, _ = capture.end()
    assert status == 0
    assert len(reader.communicate(timeout=120)[0].splitlines()) == 2


def ring(directory):
    capture = Capture("-o", directory / "ring.pcapng", "--ring-size", 2000, "--ring-files", 2, "-c", 60)
    send(60)
    status, errors = capture.end()
    assert status == 0 and "2 kept" in errors, (status, errors)
    files = sorted(directory.glob("ring_*.pcapng"))
    assert len(files) == 2 and all(file.stat().st_size < 3000 for file in files)
    assert 0 < sum(len(dissected(file)) for file in files) < 60


def main():
    if os.environ.get("RDMAWIRE_INSIDE") != "1":
        available = subprocess.run(["unshare", "-n", "true"], capture_output=True)
        if available.returncode != 0:
            print("skipped: needs permission for network namespaces (unshare -n)")
            return 77
        command = ["unshare", "-n", sys.executable, __file__, RDMAWIRE]
        return subprocess.run(command, env={**os.environ, "RDMAWIRE_INSIDE": "1"}).returncode
    made = [["ip", "link", "set", "lo", "up"], ["ip", "link", "add", "va", "type", "veth", "peer", "name", "vb"],
            ["ip", "link", "set", "va", "up"], ["ip", "link", "set", "vb", "up"]]
    for command in made:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"skipped: needs veth interfaces: {' '.join(command)}: {done.stderr.strip()}")
            return 77
    usage()
    with tempfile.TemporaryDirectory() as directory:
        for test in (count, interrupt, seconds, pipe, ring):
            test(Path(directory))
            print(test.__name__, "ok")
    return 0


sys.exit(main())
