"""Generates captures that fill the bounded tables of the analysis, with as few packets as possible for each table
entry.

    python tests/memory/flood.py queue-pairs /tmp/flood.pcap --frames 1000000

Every frame is valid RoCEv2 (or TCP) with a correct ICRC, except for the kind `damaged`.
"""

import argparse
import random
import struct
import sys
import zlib
from pathlib import Path

START = 1_700_000_000
HOST_A, HOST_B = 0x0A000001, 0x0A000002
SEND_ONLY, WRITE_ONLY, ACKNOWLEDGE = 0x04, 0x0A, 0x11
UD_SEND_ONLY, UC_SEND_ONLY, CNP, MRC_WRITE_ONLY = 0x64, 0x24, 0x81, 0xCA


def ipv4(source, destination, protocol, length, ecn=0, identification=0):
    header = struct.pack(">BBHHHBBHII", 0x45, ecn, 20 + length, identification, 0x4000, 64, protocol, 0,
                         source, destination)
    words = sum(struct.unpack(">10H", header))
    words = (words & 0xFFFF) + (words >> 16)
    return header[:10] + struct.pack(">H", ~(words + (words >> 16)) & 0xFFFF) + header[12:]


def roce(qp, psn, *, source=HOST_A, destination=HOST_B, opcode=SEND_ONLY, port=0xC000, extension=b"", payload=b"x" * 16,
         ecn=0, damage=0):
    """An Ethernet frame with RoCEv2."""
    bth = struct.pack(">BBHII", opcode, 0x40, 0xFFFF, qp, psn)
    body = extension + payload
    length = 8 + len(bth) + len(body) + 4
    network = ipv4(source, destination, 17, length, ecn)
    udp = struct.pack(">HHHH", port, 4791, length, 0)
    # The ICRC covers the packet with the fields that change in transit set to ones.
    masked = (b"\xff" * 8 + network[:1] + b"\xff" + network[2:8] + b"\xff" + network[9:10] + b"\xff\xff" + network[12:]
              + udp[:6] + b"\xff\xff" + bth[:4] + b"\xff" + bth[5:] + body)
    icrc = struct.pack("<I", zlib.crc32(masked) ^ damage)
    return b"\x02\0\0\0\0\2\x02\0\0\0\0\1\x08\0" + network + udp + bth + body + icrc


def tcp(source, port, flags, sequence, data=b""):
    segment = struct.pack(">HHIIBBHHH", port, 4420, sequence, 0, 0x50, flags, 9000, 0, 0) + data
    return b"\x02\0\0\0\0\2\x02\0\0\0\0\1\x08\0" + ipv4(source, HOST_B, 6, len(segment)) + segment


def queue_pairs(i, _):
    """One connection per packet, all between the same two hosts."""
    return roce(i % 0xFFFFF0 + 16, i * 7919 & 0xFFFFFF, port=0xC000 | i & 0x3FFF)


def pairs(i, _):
    """One connection per packet, each between different hosts."""
    return roce(i % 0xFFFFF0 + 16, i * 7919 & 0xFFFFFF, source=0x0B000000 + i, destination=0x0C000000 + i * 3)


def hosts(i, _):
    """One connection per packet, between 28 pairs of hosts."""
    return roce(i // 28 % 0xFFFFF0 + 16, i * 7919 & 0xFFFFFF, source=0x0B000000 + i % 7, destination=0x0C000000 + i % 4)


def twice(i, _):
    """Two packets per connection, far apart, with acknowledgements that are not evidence for pairing."""
    return roce(i // 2 * 2 % 0xFFFFF0 + 16, i & 1, port=0xC000 | i // 2 & 0x3FFF, source=HOST_A + i // 2 % 5)


def datagrams(i, _):
    """One UD pair per packet."""
    return roce(i % 1000 + 16, i & 0xFFFFFF, opcode=UD_SEND_ONLY,
                extension=struct.pack(">II", 0x11111111, i // 1000 % 0xFFFFF0 + 16))


def unreliable(i, _):
    """One UC connection per packet."""
    return roce(i % 0xFFFFF0 + 16, i * 7919 & 0xFFFFFF, opcode=UC_SEND_ONLY)


def damaged(i, _):
    """One connection with an event per packet, between 1000 pairs of hosts."""
    return roce(i % 0xFFFFF0 + 16, i & 0xFFFFFF, source=0x0B000000 + i % 1000, damage=1 + (i & 0xFFFF))


def retransmitted(i, _):
    """Connections of eight packets, some of which are retransmissions. Each connection causes a finding."""
    step = i % 8
    return roce(i // 8 % 0xFFFFF0 + 16, (0, 1, 2, 1, 2, 3, 4, 2)[step], source=0x0B000000 + i // 8 % 11,
                port=0xC000 | i // 8 & 0x3FFF)


def regions(i, _):
    """One memory region per packet, few connections."""
    reth = struct.pack(">QII", 0x7F0000000000 + i * 4096, i, 16)
    return roce(16 + i % 50, i // 50 & 0xFFFFFF, opcode=WRITE_ONLY, extension=reth, source=HOST_A + i % 50)


def ports(i, _):
    """One UDP source port per packet, few connections."""
    return roce(16 + i % 50, i // 50 & 0xFFFFFF, port=i & 0xFFFF, source=HOST_A + i % 50)


def incast(i, _):
    """Receivers with several senders at the same time."""
    return roce(16, i & 0xFFFFFF, source=0x0B000000 + i % 3, destination=0x0C000000 + i // 3)


def sockets(i, _):
    """TCP connections that begin with an MPA request."""
    request = b"MPA ID Req Frame\0\1\0\0"
    source, port = HOST_A + i // 2 // 50000, 1024 + i // 2 % 50000
    return tcp(source, port, 0x18, 100, request) if i & 1 else tcp(source, port, 0x02, 99)


def requests(i, _):
    """CM requests without a response."""
    mad = bytearray(256)
    mad[0:4] = 1, 7, 2, 3
    mad[17] = 0x10
    struct.pack_into(">I", mad, 24, i + 1)
    mad[24 + 32 : 24 + 35] = (i % 0xFFFFF0 + 16).to_bytes(3, "big")
    struct.pack_into(">I", mad, 24 + 52, 0xFFFFFFFF)
    for at, host in ((56, HOST_A), (72, HOST_B)):
        mad[24 + at + 10 : 24 + at + 12] = b"\xff\xff"
        struct.pack_into(">I", mad, 24 + at + 12, host)
    return roce(1, i & 0xFFFFFF, opcode=UD_SEND_ONLY, extension=struct.pack(">II", 0x80010000, 1), payload=bytes(mad))


def multipath(i, chance):
    """MRC WRITEs to 20,000 QPs on random paths."""
    headers = struct.pack(">HH", 0, i // 20_000 & 0xFFFF) + struct.pack(">QII", 0x7F0000000000, 7, 16)
    return roce(16 + i % 20_000, i // 20_000 & 0xFFFFFF, opcode=MRC_WRITE_ONLY, extension=headers,
                port=0xC000 | chance.randrange(1 << 10), source=HOST_A + i % 5)


def mixture(i, chance):
    """Any of the other kinds, at random."""
    return chance.choice(MIXED)(chance.randrange(1 << 20), chance)


KINDS = {function.__name__.replace("_", "-"): function
         for function in (queue_pairs, pairs, hosts, twice, datagrams, unreliable, damaged, retransmitted, regions, ports,
                          incast, sockets, requests, multipath, mixture)}
MIXED = [function for function in KINDS.values() if function not in (multipath, mixture)]


def write(path, kind, frames, seed=1, step_ns=1000):
    """Write the capture (nanosecond pcap)."""
    make, chance = KINDS[kind], random.Random(seed)
    with Path(path).open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for i in range(frames):
            frame = make(i, chance)
            ns = i * step_ns
            file.write(struct.pack("<IIII", START + ns // 10**9, ns % 10**9, len(frame), len(frame)) + frame)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("file", type=Path)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write(options.file, options.kind, options.frames, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
