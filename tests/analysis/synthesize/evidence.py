"""What says openly which queue pairs belong together: the CM's exchange, or the programs' own text over TCP."""

from . import wire
from .network import MICROSECOND


def connection_manager(c, random, reads=16):
    """Frames before and after the connection: (time, bytes, sender). The active side is end 0. `reads`: as many reads and
    atomics at a time are agreed on, both ways."""
    ids = random.getrandbits(32), random.getrandbits(32)
    transaction, bye = random.getrandbits(40), random.getrandbits(40)
    port = random.choice((4420, 7471, 18515, 20049))
    a, b = c.hosts
    mtu, gap = c.ends[0].manners.mtu, random.randrange(20, 200) * MICROSECOND

    def frame(sender, mad, psn):
        source, destination = (a, b) if sender == 0 else (b, a)
        return wire.mad_packet(source, destination, mad, psn, 49152 + (ids[0] & 0x3FFF),
                               random.randrange(1 << 16)).bytes()

    # A REQ, and a REP, say the PSN that the *other* side shall begin with. IBTA vol 1, 12.7.31.
    opening = [(0, wire.cm_req(a, b, ids, transaction, c.qps[0], c.first_psns[1], mtu, port,
                               c.ends[0].manners.pkey, reads)),
               (1, wire.cm_rep(b, ids, transaction, c.qps[1], c.first_psns[0], reads)), (0, wire.cm_rtu(ids, transaction))]
    start = c.begin - 4 * gap
    for i, (sender, mad) in enumerate(opening):
        c.extra_frames.append((start + i * gap, frame(sender, mad, random.randrange(1000)), sender))

    def close():
        at = c.clock.now + gap
        c.extra_frames.append((at, frame(0, wire.cm_dreq(ids[0], ids[1], bye, c.qps[1]), 1), 0))
        c.extra_frames.append((at + gap, frame(1, wire.cm_drep(ids[1], ids[0], bye), 2), 1))

    return close


def text(c, random):
    """As ibv_rc_pingpong does: each side sends "lid:qpn:psn:gid", the client first. The client is end 0."""
    client, server = c.hosts
    port = 18515 + random.randrange(4)
    own = random.randrange(32768, 61000)
    numbers = [random.getrandbits(32), random.getrandbits(32)]
    gap = random.randrange(20, 150) * MICROSECOND
    at = c.begin - 12 * gap

    def say(sender, flags, payload=b""):
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

    say(0, wire.SYN)
    say(1, wire.SYN | wire.TCP_ACK)
    say(0, wire.TCP_ACK)
    say(0, wire.PSH | wire.TCP_ACK, line(0))
    say(1, wire.TCP_ACK)
    say(1, wire.PSH | wire.TCP_ACK, line(1))
    say(0, wire.PSH | wire.TCP_ACK, b"done\0")
    say(1, wire.FIN | wire.TCP_ACK)
    say(0, wire.FIN | wire.TCP_ACK)
    say(1, wire.TCP_ACK)
    return lambda: None
