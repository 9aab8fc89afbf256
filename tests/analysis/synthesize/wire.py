"""Builds frames: RoCEv2 over Ethernet and IPv4 or IPv6, CM datagrams, and plain TCP.

Written from the specifications (IBTA vol 1, chapter 9 and annexes A16 and A17; RFC 791, 768, 8200, 9293) without
rdmawire's code, so that tests do not repeat its errors.
"""

import ipaddress
import struct
import zlib
from dataclasses import dataclass, field

ROCE_PORT = 4791
PSNS = 1 << 24

# BTH opcodes. IBTA vol 1, table 38. UC adds 0x20, UD adds 0x60.
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMMEDIATE, SEND_ONLY, SEND_ONLY_IMMEDIATE = range(0, 6)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMMEDIATE, WRITE_ONLY, WRITE_ONLY_IMMEDIATE = range(6, 12)
READ_REQUEST, RESPONSE_FIRST, RESPONSE_MIDDLE, RESPONSE_LAST, RESPONSE_ONLY = range(12, 17)
ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, COMPARE_SWAP, FETCH_ADD = range(17, 21)
SEND_LAST_INVALIDATE, SEND_ONLY_INVALIDATE = 22, 23
UC, UD_SEND_ONLY, UD_SEND_ONLY_IMMEDIATE, CNP = 0x20, 0x64, 0x65, 0x81

# AETH syndromes. IBTA vol 1, 9.7.5.1.
ACK, RNR_NAK, NAK = 0x00, 0x20, 0x60
NO_CREDITS = 31
NAK_CODES = {"psn_sequence_error": 0, "invalid_request": 1, "remote_access_error": 2, "remote_operational_error": 3,
             "invalid_rd_request": 4}
# Nanoseconds by timer code. IBTA vol 1, table 45.
RNR_TIMERS = [round(milliseconds * 1_000_000) for milliseconds in (
    655.36, .01, .02, .03, .04, .06, .08, .12, .16, .24, .32, .48, .64, .96, 1.28, 1.92, 2.56, 3.84, 5.12, 7.68, 10.24,
    15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52)]

_LRH_AS_ONES = b"\xff" * 8  # A17.3.3: ones instead of the LRH


@dataclass(frozen=True)
class Host:
    mac: bytes
    address: bytes  # 4 or 16 bytes

    @property
    def text(self):
        return str(ipaddress.ip_address(self.address))

    @property
    def gid(self):
        return self.address if len(self.address) == 16 else bytes(10) + b"\xff\xff" + self.address


@dataclass
class Roce:
    """A RoCEv2 packet as its sender builds it."""
    source: Host
    destination: Host
    opcode: int
    qp: int
    psn: int
    source_port: int = 49152
    headers: bytes = b""  # extension headers
    payload: bytes = b""
    solicited: bool = False
    migrated: bool = True
    ack_request: bool = False
    pkey: int = 0xFFFF
    becn: bool = False
    identification: int = 0
    traffic_class: int = 0
    ttl: int = 64
    pad_bytes: bytes | None = None  # None: zeros
    unmasked: frozenset = field(default_factory=frozenset)  # fields that a faulty sender does not mask: see icrc()

    def bytes(self):
        pad = -len(self.payload) % 4
        fill = bytes(pad) if self.pad_bytes is None else self.pad_bytes[:pad]
        bth = struct.pack("!BBHBBHBBH", self.opcode, self.solicited << 7 | self.migrated << 6 | pad << 4, self.pkey,
                          self.becn << 6, self.qp >> 16, self.qp & 0xFFFF, self.ack_request << 7,
                          self.psn >> 16 & 0xFF, self.psn & 0xFFFF)
        content = b"".join((bth, self.headers, self.payload, fill))
        frame = (self.destination.mac + self.source.mac +
                 datagram(self.source, self.destination, 17,
                          struct.pack("!HHHH", self.source_port, ROCE_PORT, len(content) + 12, 0) + content + bytes(4),
                          self.identification, self.traffic_class, self.ttl))
        return frame[:-4] + struct.pack("<I", icrc(frame, self.unmasked))


def datagram(source, destination, protocol, content, identification=0, traffic_class=0, ttl=64):
    """Return the EtherType and the IP datagram."""
    if len(source.address) == 4:
        header = struct.pack("!BBHHHBBH4s4s", 0x45, traffic_class, 20 + len(content), identification, 0x4000, ttl,
                             protocol, 0, source.address, destination.address)
        return b"\x08\x00" + header[:10] + struct.pack("!H", checksum(header)) + header[12:] + content
    return (b"\x86\xdd" + struct.pack("!IHBB", 6 << 28 | traffic_class << 20, len(content), protocol, ttl) +
            source.address + destination.address + content)


def checksum(data):
    """Return the Internet checksum. RFC 1071."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[:len(data) & ~1]))
    if len(data) % 2:
        total += data[-1] << 8
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def ip_header_length(frame):
    return 20 if frame[12:14] == b"\x08\x00" else 40


def icrc(frame, unmasked=frozenset()):
    """Return the correct ICRC of an untagged RoCEv2 frame.

    `unmasked`: fields that a faulty sender does not replace with ones: "ttl", "traffic_class", "ip_checksum",
    "udp_checksum", "bth_reserved". IBTA vol 1, 7.8.1 and A17.3.3.
    """
    length = ip_header_length(frame)
    headers = bytearray(frame[14:14 + length + 8 + 12])
    if length == 20:
        masks = {"traffic_class": (1, 2), "ttl": (8, 9), "ip_checksum": (10, 12)}
    else:
        masks = {"ttl": (7, 8)}
        headers[1] |= 0x0F  # the flow label
        headers[2:4] = b"\xff\xff"
        if "traffic_class" not in unmasked:
            headers[0] |= 0x0F
            headers[1] |= 0xF0
    masks["udp_checksum"] = (length + 6, length + 8)
    masks["bth_reserved"] = (length + 12, length + 13)
    for name, (begin, end) in masks.items():
        if name not in unmasked:
            headers[begin:end] = b"\xff" * (end - begin)
    crc = zlib.crc32(_LRH_AS_ONES)
    crc = zlib.crc32(headers, crc)
    return zlib.crc32(frame[14 + length + 8 + 12:-4], crc)


def with_ip_checksum(frame):
    """Return the frame with a valid IPv4 header checksum."""
    if ip_header_length(frame) != 20:
        return frame
    header = frame[14:24] + b"\0\0" + frame[26:34]
    return frame[:24] + struct.pack("!H", checksum(header)) + frame[26:]


# ---------------------------------------------------------------------------------------------------------------------
# Extension headers


def reth(address, key, length):
    return struct.pack("!QII", address, key, length)


def aeth(syndrome, msn):
    return struct.pack("!I", syndrome << 24 | msn & 0xFFFFFF)


def atomic_eth(address, key, swap_or_add, compare):
    return struct.pack("!QIQQ", address, key, swap_or_add, compare)


def deth(qkey, source_qp):
    return struct.pack("!II", qkey, source_qp)


# ---------------------------------------------------------------------------------------------------------------------
# CM datagrams. IBTA vol 1, 12.6. They use QP 1 and the well-known Q_Key.

_GSI_QKEY = 0x80010000


def _mad(attribute, transaction, content):
    return struct.pack("!BBBBHHQHHI", 1, 0x07, 2, 0x03, 0, 0, transaction, attribute, 0, 0) + content.ljust(232, b"\0")


def cm_req(source, destination, ids, transaction, qp, first_psn, mtu, service_port, pkey=0xFFFF, max_reads=16):
    path = (struct.pack("!HH", 0xFFFF, 0xFFFF) + source.gid + destination.gid +
            struct.pack("!IBBBB", 0, 0, 64, 0, 18 << 3))
    addresses = b"\x00\x60" if len(source.address) == 16 else b"\x00\x40"
    private = (addresses + struct.pack("!H", 40000 + (ids[0] & 0xFFF)) + source.address.rjust(16, b"\0") +
               destination.address.rjust(16, b"\0"))
    content = (struct.pack("!IIQQII", ids[0], 0, 0x0000000001060000 | service_port, guid(source), 0, 0) +
               struct.pack("!IIIIHBB", qp << 8 | max_reads, max_reads & 0xFF, 20 << 3, first_psn << 8 | 20 << 3 | 7,
                           pkey,
                           _mtu_code(mtu) << 4 | 7, 15 << 4) + path + bytes(44) + private)
    return _mad(0x0010, transaction, content)


def cm_rep(source, ids, transaction, qp, first_psn, max_reads=16):
    content = struct.pack("!IIIIIIBBBBQ", ids[1], ids[0], 0, qp << 8, 0, first_psn << 8, max_reads, max_reads, 15 << 3,
                          7 << 5,
                          guid(source))
    return _mad(0x0013, transaction, content)


def cm_rtu(ids, transaction):
    return _mad(0x0014, transaction, struct.pack("!II", ids[0], ids[1]))


def cm_dreq(own_id, other_id, transaction, other_qp):
    return _mad(0x0015, transaction, struct.pack("!III", own_id, other_id, other_qp << 8))


def cm_drep(own_id, other_id, transaction):
    return _mad(0x0016, transaction, struct.pack("!II", own_id, other_id))


def guid(host):
    return int.from_bytes(host.mac[:3] + b"\xff\xfe" + host.mac[3:], "big")


def mad_packet(source, destination, mad, psn, source_port, identification=0):
    return Roce(source, destination, UD_SEND_ONLY, 1, psn, source_port, deth(_GSI_QKEY, 1), mad,
                identification=identification)


def _mtu_code(mtu):
    return {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}[mtu]


# ---------------------------------------------------------------------------------------------------------------------
# Plain TCP, for programs that exchange their QP numbers as text.

FIN, SYN, RST, PSH, TCP_ACK = 1, 2, 4, 8, 16


def tcp(source, destination, source_port, destination_port, sequence, acknowledgement, flags, payload=b"",
        identification=0):
    header = struct.pack("!HHIIBBHHH", source_port, destination_port, sequence & 0xFFFFFFFF,
                         acknowledgement & 0xFFFFFFFF, 5 << 4, flags, 64240, 0, 0)
    length = len(header) + len(payload)
    pseudo = source.address + destination.address + (
        struct.pack("!BBH", 0, 6, length) if len(source.address) == 4 else struct.pack("!II", length, 6))
    header = header[:16] + struct.pack("!H", checksum(pseudo + header + payload)) + header[18:]
    return (destination.mac + source.mac + datagram(source, destination, 6, header + payload, identification)).ljust(
        60, b"\0")
