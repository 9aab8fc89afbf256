"""Exchanges that identify the QPs of a connection: CM messages, and the text that programs exchange over TCP."""

from . import wire
from .network import MICROSECOND


def connection_manager(c, random, max_reads=16):
    """Add the CM exchange before the connection. Return a function that adds the exchange that closes it.

    Endpoint 0 is the active side. `max_reads`: the negotiated number of outstanding READs and atomics.
    """
    ids = random.getrandbits(32), random.getrandbits(32)
    transaction, bye = random.getrandbits(40), random.getrandbits(40)
    port = random.choice((4420, 7471, 18515, 20049))
    a, b = c.hosts
    mtu, gap = c.ends[0].behavior.mtu, random.randrange(20, 200) * MICROSECOND

    def frame(sender, mad, psn):
        source, destination = (a, b) if sender == 0 else (b, a)
        return wire.mad_packet(source, destination, mad, psn, 49152 + (ids[0] & 0x3FFF),
                               random.randrange(1 << 16)).bytes()

    # REQ and REP contain the starting PSN of the *other* side. IBTA vol 1, 12.7.31.
    opening = [(0, wire.cm_req(a, b, ids, transaction, c.qps[0], c.first_psns[1], mtu, port,
                               c.ends[0].behavior.pkey, max_reads)),
               (1, wire.cm_rep(b, ids, transaction, c.qps[1], c.first_psns[0], max_reads)),
               (0, wire.cm_rtu(ids, transaction))]
    start = c.begin - 4 * gap
    for i, (sender, mad) in enumerate(opening):
        c.extra_frames.append((start + i * gap, frame(sender, mad, random.randrange(1000)), sender))

    def close():
        at = c.clock.now + gap
        c.extra_frames.append((at, frame(0, wire.cm_dreq(ids[0], ids[1], bye, c.qps[1]), 1), 0))
        c.extra_frames.append((at + gap, frame(1, wire.cm_drep(ids[1], ids[0], bye), 2), 1))

    return close


def text(c, random):
    """Add the exchange of ibv_rc_pingpong: "lid:qpn:psn:gid" of the client (endpoint 0), then of the server."""
    client, server = c.hosts
    port = 18515 + random.randrange(4)
    own = random.randrange(32768, 61000)
    numbers = [random.getrandbits(32), random.getrandbits(32)]
    gap = random.randrange(20, 150) * MICROSECOND
    at = c.begin - 12 * gap

    def send(sender, flags, payload=b""):
        nonlocal at
        source, destination = (client, server) if sender == 0 else (server, client)
        ports = (own, port) if sender == 0 else (port, own)
        acknowledgement = numbers[1 - sender] if flags & wire.TCP_ACK else 0
        data = wire.tcp(source, destination, *ports, numbers[sender], acknowledgement, flags, payload,
                          random.randrange(1 << 16))
        c.extra_frames.append((at, data, sender))
        numbers[sender] += len(payload) + (1 if flags & (wire.SYN | wire.FIN) else 0)
        at += gap

    def line(end):
        return f"0000:{c.qps[end]:06x}:{c.first_psns[end]:06x}:{c.hosts[end].gid.hex()}".encode() + b"\0"

    send(0, wire.SYN)
    send(1, wire.SYN | wire.TCP_ACK)
    send(0, wire.TCP_ACK)
    send(0, wire.PSH | wire.TCP_ACK, line(0))
    send(1, wire.TCP_ACK)
    send(1, wire.PSH | wire.TCP_ACK, line(1))
    send(0, wire.PSH | wire.TCP_ACK, b"done\0")
    send(1, wire.FIN | wire.TCP_ACK)
    send(0, wire.FIN | wire.TCP_ACK)
    send(1, wire.TCP_ACK)
    return lambda: None
