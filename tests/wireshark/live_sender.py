"""Sends a capture on a veth pair: creates the interfaces a and b, starts a capturing program, sends the frames on a.

usage: live_sender.py CAPTURE PROGRAM ARGUMENT…

The exit status is that of the program. Run it in a separate network namespace: see wireshark_live_test.py.
"""

import socket
import struct
import subprocess
import sys
import time
from pathlib import Path


def frames_of(capture):
    data = Path(capture).read_bytes()
    order = "<" if struct.unpack("<I", data[:4])[0] in (0xA1B2C3D4, 0xA1B23C4D) else ">"
    at = 24
    while at < len(data):
        length = struct.unpack(order + "I", data[at + 8:at + 12])[0]
        yield data[at + 16:at + 16 + length]
        at += 16 + length


def main():
    capture, *program = sys.argv[1:]
    for command in ("link add name a mtu 9000 type veth peer name b mtu 9000", "link set dev a addrgenmode none",
                    "link set dev b addrgenmode none", "link set dev a up", "link set dev b up"):
        subprocess.run(["ip", *command.split()], check=True)
    running = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
    # dumpcap prints this when the capture has started.
    messages = ""
    while "Capturing on" not in messages:
        line = running.stderr.readline()
        messages += line
        if not line:
            sys.exit(messages)
    time.sleep(2)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind(("a", 0))
        for frame in frames_of(capture):
            wire.send(frame)
            time.sleep(0.0002)
    sys.stderr.write(running.stderr.read())
    sys.exit(running.wait())


if __name__ == "__main__":
    main()
