"""Builds headers below the RDMA protocols. Only the IPv4 checksum is valid."""

import struct


def mac_header(kind):
    return bytes.fromhex("020000000001020000000002") + struct.pack(">H", kind)


def ipv4(protocol, payload, options=b""):
    words = 5 + len(options) // 4
    header = struct.pack(">BBHHHBBH", 0x40 | words, 0x28, words * 4 + len(payload), 0x1234, 0x4000, 61, protocol, 0)
    header += bytes([10, 9, 8, 7, 10, 9, 8, 6]) + options
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF) + header[12:]
    return header + payload


def ipv6(following, payload):
    return (struct.pack(">IHBB", 0x6AB12345, len(payload), following, 63) + bytes(range(0x20, 0x30))
            + bytes(range(0x40, 0x50)) + payload)


def udp(port, payload):
    return struct.pack(">HHHH", 50000, port, 8 + len(payload), 0) + payload


def tcp(payload=b"", options=b"", flags=0x10, seq=0x01020304, ack=0x05060708, ports=(50001, 50002)):
    words = 5 + len(options) // 4
    return struct.pack(">HHIIHHHH", *ports, seq, ack, words << 12 | flags, 1000, 0, 0) + options + payload
