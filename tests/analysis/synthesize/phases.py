"""Phases of a connection. A phase has at most one kind of fault. All requests are complete or given up before it ends.

A phase sets up the impairments of the network or an endpoint, posts requests, and runs the clock until the connection
is idle. It appends to `injected` only the expected events that truth.py cannot derive from the endpoints' state.
"""

import struct

from . import wire
from .connection import Message
from .network import MICROSECOND, MILLISECOND, SECOND, Impairment, Transmission
from .truth import InjectedEvent

KINDS = ("send", "send", "write", "write", "read", "compare_swap", "fetch_add")


def message(c, end, kind=None, packets=None, exact=False):
    """Return a random message. `exact`: the size is a multiple of the MTU."""
    random, mtu = c.random, c.ends[end].behavior.mtu
    kind = kind or random.choice(KINDS)
    packets = packets or random.choice((1, 1, 1, 2, 3, 4, 6))
    size = packets * mtu if exact or random.random() < .5 else (packets - 1) * mtu + random.randrange(1, mtu)
    if kind in ("compare_swap", "fetch_add"):
        size = 8
    if packets == 1 and not exact and kind in ("send", "write") and random.random() < .1:
        size = 0
    m = Message(kind, size, address=random.getrandbits(40) & ~7, key=random.getrandbits(32),
                solicited=kind == "send" and random.random() < .3, operand=random.getrandbits(64),
                compare=random.getrandbits(64))
    if kind in ("send", "write") and random.random() < .15:
        m.immediate = random.getrandbits(32)
    elif kind == "send" and c.service == "rc" and random.random() < .1:
        m.invalidate = random.getrandbits(32)
    return m


def stream(c, end, packets, kinds=("send", "write"), exact=False):
    """Return messages with `packets` packets in total."""
    messages = []
    while packets:
        count = min(packets, c.random.choice((1, 2, 3, 5, 8, 12)))
        messages.append(message(c, end, c.random.choice(kinds), count, exact))
        packets -= count
    return messages


def start_phase(c, pause=None):
    c.phase += 1
    c.network.rules.clear()
    c.clock.run(c.clock.now + (pause or c.random.randrange(20, 300) * MICROSECOND))
    return c.random.randrange(2)


def end_phase(c):
    c.settle()
    c.network.rules.clear()


def impair_requests(c, end, seqs, impairment):
    """Apply the impairment to the first transmission of requests. `seqs`: relative to the phase's first request."""
    phase, base = c.phase, c.ends[end].planned
    c.network.rules.append(lambda t: impairment if (
        t.role == "request" and t.sender == end and t.phase == phase and not t.retransmission and
        t.seq - base in seqs) else None)


def first_transmissions(c, end, seqs):
    """Return the first transmissions of requests. `seqs`: relative to the phase's first request."""
    base = min(t.seq for t in c.network.transmissions
               if t.phase == c.phase and t.sender == end and t.role == "request")
    return [t for t in c.network.transmissions if t.phase == c.phase and t.sender == end and t.role == "request" and
            not t.retransmission and t.seq - base in seqs]


# ---------------------------------------------------------------------------------------------------------------------
# No fault


def clean(c, end=None):
    draw = start_phase(c)
    end = draw if end is None else end
    ends = (end,) if c.random.random() < .6 else (end, 1 - end)
    for one in ends:
        for _ in range(c.random.choice((1, 1, 2, 3))):
            if c.service == "rc":
                batch = [message(c, one) for _ in range(c.random.choice((1, 1, 2, 4)))]
            elif c.service == "uc":
                batch = [message(c, one, c.random.choice(("send", "write"))) for _ in range(c.random.choice((1, 2)))]
            else:
                batch = [datagram(c, one)]
            c.clock.after(c.random.randrange(60) * MICROSECOND, c.ends[one].post, batch)
    c.clock.run(c.clock.now + 61 * MICROSECOND)
    end_phase(c)


def datagram(c, end):
    m = message(c, end, "send", 1)
    m.invalidate = None
    return m


# ---------------------------------------------------------------------------------------------------------------------
# Packet loss


def lose_requests(c, where):
    """Lose requests within a stream. The responder sends a NAK, unless only the capture lost them."""
    end, n = start_phase(c), c.random.randrange(5, 15)
    count = c.random.choice((1, 1, 1, 2, 3))
    at = c.random.randrange(1, n - count)
    impair_requests(c, end, range(at, at + count), Impairment(lost=where))
    c.ends[end].post(stream(c, end, n))
    end_phase(c)


def lose_read_request(c, where):
    end = start_phase(c)
    head = stream(c, end, c.random.randrange(1, 4))
    packets = c.random.randrange(1, 5)
    impair_requests(c, end, [sum(max(1, -(-m.size // c.ends[end].behavior.mtu)) for m in head)], Impairment(lost=where))
    c.ends[end].post([*head, message(c, end, "read", packets), *stream(c, end, c.random.randrange(1, 5))])
    end_phase(c)


def lose_tail(c, where):
    """Lose the last requests. Only the ACK timer detects the loss."""
    end, n = start_phase(c), c.random.randrange(1, 8)
    count = c.random.choice((1, 1, 2)) if n > 2 else 1
    impair_requests(c, end, range(n - count, n), Impairment(lost=where))
    c.ends[end].post(stream(c, end, n))
    end_phase(c)


def lose_acknowledgement(c, where):
    """The ACK timer expires although the responder received the requests: spurious if the ACK was captured."""
    end, phase = start_phase(c), c.phase
    requester = c.ends[end]
    recoveries = len(requester.recoveries)
    c.network.rules.append(lambda t: Impairment(lost=where) if (
        t.role == "response" and t.sender != end and t.phase == phase and
        len(requester.recoveries) == recoveries) else None)
    requester.post(stream(c, end, c.random.randrange(1, 8)))
    end_phase(c)


def delay_acknowledgement(c):
    """The acknowledgement passes the capture point in time, but is then queued for longer than the ACK timeout."""
    end, phase = start_phase(c), c.phase
    requester = c.ends[end]
    late = requester.behavior.timeout + c.random.randrange(200, 2000) * MICROSECOND
    recoveries = len(requester.recoveries)
    c.network.rules.append(lambda t: Impairment(queue_delay_after=late) if (
        t.role == "response" and t.sender != end and t.phase == phase and
        len(requester.recoveries) == recoveries) else None)
    requester.post(stream(c, end, c.random.randrange(1, 8)))
    end_phase(c)


def shorten_timer(c):
    end = start_phase(c)
    c.ends[1 - end].extra_response_delay = round(c.ends[end].behavior.timeout * c.random.uniform(1.1, 1.7))
    c.ends[end].post([message(c, end, c.random.choice(("send", "write")))])
    end_phase(c)
    c.ends[1 - end].extra_response_delay = 0


def lose_responses(c, where, tail=False):
    """Lose responses of a READ. A later response implies a NAK. If the last responses are lost, the ACK timer
    expires."""
    end, phase = start_phase(c), c.phase
    n = c.random.randrange(4, 12)
    count = c.random.choice((1, 1, 2))
    at = n - count if tail else c.random.randrange(1, n - count)
    base = c.ends[end].planned
    seen = set()

    def rule(t):
        if t.kind == "read_response" and t.sender != end and t.phase == phase and at <= t.seq - base < at + count and \
                t.seq not in seen:
            seen.add(t.seq)
            return Impairment(lost=where)
        return None

    c.network.rules.append(rule)
    after = []
    if where == "capture" or c.random.random() < .3 and not tail:
        after = stream(c, end, c.random.randrange(1, 3))
    c.ends[end].post([message(c, end, "read", n), *after])
    end_phase(c)


def lose_atomic_response(c, where):
    end, phase = start_phase(c), c.phase
    seen = []

    def rule(t):
        if t.kind == "atomic_response" and t.sender != end and t.phase == phase and not seen:
            seen.append(t)
            return Impairment(lost=where)
        return None

    c.network.rules.append(rule)
    c.ends[end].post([message(c, end, c.random.choice(("compare_swap", "fetch_add"))),
                      *stream(c, end, c.random.randrange(1, 4))])
    end_phase(c)


def storm(c):
    """Lose random packets on both sides of the capture point, including NAKs and retransmissions."""
    end = start_phase(c)
    probability = c.random.uniform(.01, .06)
    c.network.rules.append(lambda t: Impairment(lost=c.random.choice(("before", "after")))
                           if c.random.random() < probability else None)
    for _ in range(c.random.randrange(1, 4)):
        c.ends[end].post([message(c, end) for _ in range(c.random.randrange(2, 6))])
        c.clock.run(c.clock.now + c.random.randrange(5, 100) * MICROSECOND)
    end_phase(c)


def lose_uc_packets(c):
    end, n = start_phase(c), c.random.randrange(6, 16)
    count = c.random.choice((1, 1, 2, 4))
    at = c.random.randrange(1, n - count)
    impair_requests(c, end, range(at, at + count), Impairment(lost=c.random.choice(("before", "capture"))))
    c.ends[end].post(stream(c, end, n))
    end_phase(c)


# ---------------------------------------------------------------------------------------------------------------------
# Reordering and duplication


def _reordering(c, end):
    packet_time, random = c.ends[end].behavior.packet_time, c.random
    packets = random.choice((1, 2, 3))
    while packets > 1 and (packets - .5) * packet_time > 1200:
        packets -= 1
    return packets, packets * packet_time + packet_time // 2


def reorder_requests(c, how):
    """`how`: "network": the receiver sends a NAK. "tolerated": the receiver restores the order. "capture": only the
    capture is affected."""
    end, n = start_phase(c), c.random.randrange(6, 15)
    by, late = _reordering(c, end)
    at = c.random.randrange(1, n - by)
    impairment = Impairment(delay_in_capture=late) if how == "capture" else Impairment(delay_before=late)
    c.ends[1 - end].behavior.accepts_out_of_order = how == "tolerated"
    impair_requests(c, end, [at], impairment)
    c.ends[end].post(stream(c, end, n))
    end_phase(c)
    c.ends[1 - end].behavior.accepts_out_of_order = False
    c.injected.append(InjectedEvent("out_of_order", ["none"], end, at=first_transmissions(c, end, [at])[0]))


def reorder_responses(c, how):
    end, phase, n = start_phase(c), c.phase, c.random.randrange(6, 14)
    by, late = _reordering(c, 1 - end)
    at = c.random.randrange(1, n - by)
    base, seen = c.ends[end].planned, []

    def rule(t):
        if t.kind == "read_response" and t.phase == phase and t.seq - base == at and not seen:
            seen.append(t)
            return Impairment(delay_in_capture=late) if how == "capture" else Impairment(delay_before=late)
        return None

    c.network.rules.append(rule)
    c.ends[end].post([message(c, end, "read", n)])
    end_phase(c)
    c.injected.append(InjectedEvent("out_of_order", ["none"], at=seen[0]))


def duplicate_packet(c, where, role):
    """`where`: "network" (the receiver gets both packets) or "capture"."""
    end, phase, n = start_phase(c), c.phase, c.random.randrange(2, 9)
    seen, chosen = [], c.random.randrange(n) if role == "request" else 0

    def rule(t):
        if t.phase == phase and t.role == role and t.kind in ("send", "write", "ack"):
            if role == "response" or t.seq - base == chosen:
                if not seen:
                    seen.append(t)
                    return Impairment(duplicates=1) if where == "network" else Impairment(duplicates_in_capture=1)
        return None

    base = c.ends[end].planned
    c.network.rules.append(rule)
    c.ends[end].post(stream(c, end, n))
    end_phase(c)
    c.injected.append(InjectedEvent("duplicate", ["none"], at=seen[0].captures[1], origin=seen[0].captures[0]))


# ---------------------------------------------------------------------------------------------------------------------
# Rejected requests


def not_ready(c, stall=False):
    end = start_phase(c)
    responder = c.ends[1 - end]
    responder.not_ready = c.random.choice((1, 1, 1, 2))
    responder.rnr_timer = c.random.randrange(1, 27)
    if stall:
        responder.not_ready, responder.rnr_timer = 1, 0
        c.rnr_wait = c.random.randrange(2000, 3000) * MILLISECOND
    packets = c.random.randrange(1, 8)
    c.ends[end].post([message(c, end, "send", 1), *stream(c, end, packets)])
    end_phase(c)
    responder.not_ready, c.rnr_wait = 0, None
    if stall:
        retransmitted = c.ends[end].recoveries[-1].transmissions[0]
        before = max((cap for t in c.network.transmissions if t.index < retransmitted.index for cap in t.captures),
                     key=lambda cap: cap.time)
        c.injected.append(InjectedEvent("stall", ["rnr"], between=(before, retransmitted)))


def reject(c, code):
    """The responder sends a fatal NAK."""
    end = start_phase(c)
    head = stream(c, end, c.random.randrange(1, 6))
    last = message(c, end, c.random.choice(("send", "write", "read")), 1)
    base = c.ends[end].planned + sum(max(1, -(-m.size // c.ends[end].behavior.mtu)) for m in head)
    c.ends[1 - end].rejects = (base, code)
    c.ends[end].post([*head, last])
    end_phase(c)


def no_response(c):
    """The responder no longer sends responses."""
    end = start_phase(c)
    c.ends[1 - end].out_of_service = True
    c.ends[end].behavior.retries = c.random.randrange(0, 4)
    c.ends[end].post([message(c, end, c.random.choice(("send", "write", "read")))])
    end_phase(c)
    sent = [t for t in c.network.transmissions if t.phase == c.phase and t.sender == end and t.captures]
    c.injected.append(InjectedEvent("unanswered", ["none"], end, between=(sent[0], sent[-1])))


# ---------------------------------------------------------------------------------------------------------------------
# Unsolicited responses


def repeat_acknowledgement(c):
    end = start_phase(c)
    c.ends[end].post(stream(c, end, c.random.randrange(1, 6)))
    c.settle()
    c.clock.run(c.clock.now + c.random.randrange(100, 900) * MICROSECOND)
    responder = c.ends[1 - end]
    t = Transmission(1 - end, "stray", "ack", wire.ACKNOWLEDGE, responder.expected - 1)
    t.headers = wire.aeth(responder.behavior.credits, responder.msn)
    responder.send_stray(t)
    end_phase(c)
    c.injected.append(InjectedEvent("ghost_acknowledgement", ["none"], end, at=t, psn=t.psn))
    clean(c, end)


def send_unsolicited_response(c):
    end = start_phase(c)
    c.ends[end].post(stream(c, end, c.random.randrange(1, 6)))
    c.settle()
    c.clock.run(c.clock.now + c.random.randrange(50, 300) * MICROSECOND)
    responder = c.ends[1 - end]
    far = c.ends[end].planned + c.random.randrange(1 << 16, 1 << 21)
    kind = c.random.choice(("ack", "read_response", "atomic_response"))
    opcode = {"ack": wire.ACKNOWLEDGE, "read_response": wire.RESPONSE_ONLY,
              "atomic_response": wire.ATOMIC_ACKNOWLEDGE}[kind]
    t = Transmission(1 - end, "stray", kind, opcode, far)
    t.headers = wire.aeth(responder.behavior.credits, responder.msn)
    if kind == "atomic_response":
        t.headers += bytes(8)
    elif kind == "read_response":
        t.payload = bytes(c.random.randrange(4, 256))
    responder.send_stray(t)
    end_phase(c)
    c.injected.append(InjectedEvent("unsolicited_response", ["none"], end, at=t, psn=t.psn))
    clean(c, end)


def corrupt_msn(c):
    """The responder's MSN is wrong from this phase on."""
    end = start_phase(c)
    c.ends[end].post([message(c, end, "send", 1)])
    c.settle()
    c.clock.run(c.clock.now + 20 * MICROSECOND)
    by, responder = c.random.choice((1, 1, 2, 7, 1000)), c.ends[1 - end]
    responder.msn += by
    before = len(c.network.transmissions)
    c.ends[end].post(stream(c, end, c.random.randrange(1, 6)))
    end_phase(c)
    t = next(t for t in c.network.transmissions[before:] if t.kind == "ack" and t.sender != end)
    c.injected.append(InjectedEvent("msn_jump", ["none"], end, at=t, value=(t.msn - by) % wire.PSNS,
                                    observed=(t.msn % wire.PSNS,) * 2))


# ---------------------------------------------------------------------------------------------------------------------
# Corrupted packets


def _set(start_at, new):
    return lambda frame: wire.with_ip_checksum(frame[:start_at] + new + frame[start_at + len(new):])


def corrupt(c, cause, in_network):
    """Corrupt one packet in transit so that its ICRC is invalid. `in_network`: the receiver drops the packet."""
    end, n = start_phase(c), c.random.randrange(4, 10)
    at, random = c.random.randrange(0, n - 1), c.random
    host = c.hosts[end]
    transport = 14 + (20 if len(host.address) == 4 else 40)
    messages = stream(c, end, n)
    if cause in ("pad", "payload"):
        for m in messages:
            m.size = max(m.size, 9)
            if cause == "pad":  # single-packet messages with a pad
                m.size = 4 * random.randrange(3, 40) + random.randrange(1, 4)
        if cause == "pad":
            messages = [*messages, *[Message("write", 4 * random.randrange(3, 40) + random.randrange(1, 4), address=8)
                                     for _ in range(n)]][:n]
    value = None

    def change(frame):
        if cause == "source_port":
            return _set(transport, struct.pack("!H", random_port))(frame)
        if cause == "ip_identification":
            return _set(18, struct.pack("!H", (struct.unpack("!H", frame[18:20])[0] + shift) & 0xFFFF))(frame)
        pad = frame[transport + 8 + 1] >> 4 & 3
        if cause == "payload":
            span = len(chosen.payload)
            position = len(frame) - 4 - pad - 1 - bit // 8 % span
            return frame[:position] + bytes([frame[position] ^ 1 << bit % 8]) + frame[position + 1:]
        if cause == "pad":
            return frame[:-4 - pad] + (garbage * 3)[:pad] + frame[-4:]
        return frame[:-4] + bytes(byte ^ other for byte, other in zip(frame[-4:], wrong))

    random_port, shift, bit = random.randrange(1024, 65536), random.randrange(1, 65536), random.getrandbits(24)
    garbage, wrong = bytes([random.randrange(1, 256)]), struct.pack("!I", random.randrange(1, 1 << 32))
    if random_port == c.source_ports[end]:
        random_port ^= 1
    if cause == "source_port":
        value = c.source_ports[end]
    impairment = Impairment(change=change, dropped="icrc") if in_network else Impairment(change_in_capture=change)
    impair_requests(c, end, [at], impairment)
    c.ends[end].post(messages)
    end_phase(c)
    chosen = first_transmissions(c, end, [at])[0]
    if cause == "payload" and not chosen.payload:
        raise AssertionError("the packet has no payload to corrupt")
    c.injected.append(InjectedEvent("crc_bad", [cause], end, at=chosen, value=value))


UNMASKED = {"ttl_not_masked": ("ttl",), "traffic_class_not_masked": ("traffic_class",),
            "bth_reserved_not_masked": ("bth_reserved",)}


def omit_mask(c, cause):
    """One endpoint does not mask a field in the ICRC. Its peer accepts the packets, because it omits the same mask."""
    end, phase, random = start_phase(c), c.phase, c.random
    v6 = len(c.hosts[end].address) == 16
    fields = UNMASKED.get(cause) or random.choice(
        (("udp_checksum",),) if v6 else (("ip_checksum",), ("udp_checksum",), ("ip_checksum", "udp_checksum")))
    hops = random.choice((0, 1, 2, 3)) if cause == "ttl_not_masked" else 0
    ttl_at = 14 + (7 if v6 else 8)
    faulty = []

    def rule(t):
        if t.phase != phase or t.sender != end:
            return None
        t.overrides["unmasked"] = frozenset(fields)
        faulty.append(t)
        if not hops:
            return None
        return Impairment(change=lambda frame: _set(ttl_at, bytes([frame[ttl_at] - hops]))(frame))

    c.network.rules.append(rule)
    c.ends[end].post(stream(c, end, random.randrange(2, 7)))
    end_phase(c)
    c.injected += [InjectedEvent("crc_bad", [cause], end, at=t) for t in faulty]


def rewrite_address(c, of, to):
    """The capture contains another address for one host, rewritten between the network and the capture."""
    for t in c.network.transmissions:
        change = _set(26 if t.sender == of else 30, to)
        for captured in t.captures:
            captured.change = change
        c.injected.append(InjectedEvent("crc_bad", ["address"], t.sender, at=t))


def truncate(c):
    end, n = start_phase(c), c.random.randrange(3, 9)
    at = c.random.randrange(n)
    messages = stream(c, end, n, exact=True)
    cut = c.random.randrange(8, c.ends[end].behavior.mtu)
    impair_requests(c, end, [at], Impairment(change_in_capture=lambda frame: frame[:len(frame) - cut]))
    c.ends[end].post(messages)
    end_phase(c)
    chosen = first_transmissions(c, end, [at])[0]
    c.injected += [InjectedEvent("truncated", ["none"], end, at=chosen),
               InjectedEvent("crc_bad", [], end, at=chosen, required=False)]


def wrong_pkey(c):
    end, n = start_phase(c), c.random.randrange(4, 10)
    at, phase, base = c.random.randrange(1, n - 1), c.phase, c.ends[end].planned
    pkey = 0x8000 | c.random.randrange(1, 0x7FFF)

    def rule(t):
        if t.phase == phase and t.role == "request" and t.sender == end and not t.retransmission and t.seq - base == at:
            t.overrides["pkey"] = pkey
            return Impairment(dropped="pkey")
        return None

    c.network.rules.append(rule)
    c.ends[end].post(stream(c, end, n))
    end_phase(c)
    c.injected.append(InjectedEvent("pkey_mismatch", ["none"], end, at=first_transmissions(c, end, [at])[0]))


def wrong_qkey(c):
    end = start_phase(c)
    for _ in range(6):
        c.ends[end].post([datagram(c, end)])
    c.clock.run(c.clock.now + 30 * MICROSECOND)
    qkey, phase = c.random.getrandbits(31), c.phase
    affected = []

    def rule(t):
        if t.phase == phase and not affected:
            affected.append(t)
            t.headers = struct.pack("!I", qkey) + t.headers[4:]
            return Impairment(dropped="qkey")
        return None

    c.network.rules.append(rule)
    for _ in range(3):
        c.ends[end].post([datagram(c, end)])
    end_phase(c)
    c.injected.append(InjectedEvent("qkey_mismatch", ["none"], end, at=affected[0]))


def _faulty_packet(c, end, head, messages, item_index, **overrides):
    """Post `head`, then `messages` up to one faulty packet, which the responder rejects. Return that packet."""
    requester, responder = c.ends[end], c.ends[1 - end]
    requester.post(head)
    c.settle()
    c.clock.run(c.clock.now + 20 * MICROSECOND)
    before = len(requester.items)
    requester.post(messages)
    item = requester.items[before + item_index]
    item.overrides = overrides
    del requester.items[before + item_index + 1:], requester.seqs[before + item_index + 1:]
    requester.planned = item.seq + item.span
    item.ack_request = True
    responder.rejects = (item.seq, "invalid_request")
    end_phase(c)
    return next(t for t in c.network.transmissions if t.item is item)


def wrong_segment(c):
    end = start_phase(c)
    mtu, random = c.ends[end].behavior.mtu, c.random
    head = [message(c, end, "write", 4, exact=True), message(c, end, "send", 3, exact=True)]
    kind = random.choice(("first", "middle", "only")) if mtu < 4096 else random.choice(("first", "middle"))
    if kind == "only":
        length = mtu + 4 * random.randrange(1, mtu // 4)
        t = _faulty_packet(c, end, head, [Message("send", 4)], 0, payload=bytes(length))
    else:
        length = 4 * random.randrange(1, mtu // 4)
        t = _faulty_packet(c, end, head, [Message("send", 4 * mtu)], 0 if kind == "first" else 1,
                           payload=bytes(length))
    c.injected.append(InjectedEvent("segmentation", ["none"], end, at=t, value=mtu, observed=(length, length)))


def wrong_opcode(c):
    end = start_phase(c)
    mtu, random = c.ends[end].behavior.mtu, c.random
    head = [message(c, end, "send", 2, exact=True), message(c, end, "write", 2, exact=True)]
    kind = random.choice(("not begun", "not ended", "other operation"))
    if kind == "not begun":
        t = _faulty_packet(c, end, head, [Message("send", mtu)], 0,
                           opcode=random.choice((wire.SEND_MIDDLE, wire.SEND_LAST, wire.WRITE_MIDDLE)))
    elif kind == "not ended":
        t = _faulty_packet(c, end, head, [Message("send", 4 * mtu)], random.choice((1, 2)),
                           opcode=random.choice((wire.SEND_FIRST, wire.SEND_ONLY)))
    else:
        t = _faulty_packet(c, end, head, [Message("send", 4 * mtu)], random.choice((1, 2)), opcode=wire.WRITE_MIDDLE)
    c.injected.append(InjectedEvent("opcode_sequence", ["none"], end, at=t))


def too_many_reads(c, agreed):
    """The requester exceeds the negotiated number of outstanding READs. The responder tolerates this."""
    end = start_phase(c, 400 * MICROSECOND)
    e, extra = c.ends[end], c.random.randrange(1, 3)
    max_reads, e.behavior.max_reads = e.behavior.max_reads, 64
    before = len(c.network.transmissions)
    e.post([message(c, end, c.random.choice(("read", "fetch_add")), 1) for _ in range(agreed + extra)])
    end_phase(c)
    e.behavior.max_reads = max_reads
    asked = [t for t in c.network.transmissions[before:] if t.role == "request"]
    c.injected.append(InjectedEvent("read_limit", ["none"], end, at=asked[agreed]))
    c.injected += [InjectedEvent("read_limit", ["none"], end, at=t, required=False) for t in asked[agreed + 1:]]


# ---------------------------------------------------------------------------------------------------------------------
# Congestion, stalls and path changes


def mark_ecn(c):
    """A switch ECN-marks some packets. Sometimes the receiver sends a CNP."""
    end, phase = start_phase(c), c.phase
    c.ends[end].behavior.traffic_class |= 2
    probability, seen = c.random.uniform(.1, .6), []

    def rule(t):
        if t.phase == phase and t.sender == end and t.role == "request" and c.random.random() < probability:
            seen.append(t)
            return Impairment(mark=True)
        return None

    c.network.rules.append(rule)
    c.ends[end].post(stream(c, end, c.random.randrange(3, 20)))
    if c.random.random() < .4:
        c.clock.after(8 * MICROSECOND, _send_cnp, c, end, [])
    end_phase(c)
    c.injected += [InjectedEvent("ecn_marked", ["none"], end, at=t) for t in seen]


def _send_cnp(c, end, causes):
    t = c.cnp(1 - end)
    c.injected.append(InjectedEvent("cnp", causes, at=t))


def change_rate(c, falls):
    """A steady stream with a CNP in its middle. `falls`: factor by which the sender then slows down (0: it does
    not)."""
    end = start_phase(c)
    e = c.ends[end]
    pace = c.random.randrange(2_000, 5_000)
    window, e.behavior.window = e.behavior.window, 4096
    size = 64
    before, after = 1200 * MICROSECOND // pace, 1200 * MICROSECOND // pace
    for i in range(before + after):
        wait = pace * i if i < before or not falls else pace * before + (i - before) * pace * falls
        c.clock.after(wait, e.post, [Message("write", size, address=8 * i, key=7)])
    c.clock.after(pace * before - pace // 2, _send_cnp, c, end, ["rate_fell" if falls else "rate_unchanged"])
    c.clock.run(c.clock.now + pace * before + after * pace * max(1, falls))
    end_phase(c)
    e.behavior.window = window


def stall(c, cause):
    """The connection is silent for two seconds or more."""
    end = start_phase(c)
    long = c.random.randrange(2000, 3500) * MILLISECOND
    requester, responder = c.ends[end], c.ends[1 - end]
    timeout, requester.behavior.timeout = requester.behavior.timeout, 8 * SECOND
    if cause == "nothing_outstanding":
        c.settle()
        c.clock.run(c.clock.now + long)
        requester.post(stream(c, end, c.random.randrange(1, 5)))
        end_phase(c)
    elif cause == "peer":
        responder.extra_response_delay = long
        requester.post([message(c, end, "write", 1)])
        end_phase(c)
        responder.extra_response_delay = 0
        responder.respond_at = 0
    else:  # credit
        responder.no_credits = True
        requester.post([message(c, end, "send", 1), message(c, end, "send", 1)])
        c.settle()
        c.clock.run(c.clock.now + long)
        responder.no_credits = False
        credits = responder.behavior.credits
        responder.behavior.credits = 10 if credits == wire.NO_CREDITS else credits
        update = Transmission(1 - end, "stray", "ack", wire.ACKNOWLEDGE, responder.expected - 1)
        update.headers = wire.aeth(responder.behavior.credits, responder.msn)
        responder.send_stray(update)
        c.settle()
        requester.post([message(c, end, "send", 1), message(c, end, "send", 2)])
        end_phase(c)
        responder.behavior.credits = credits
    requester.behavior.timeout = timeout
    captures = sorted((cap for t in c.network.transmissions for cap in t.captures), key=lambda cap: cap.time)
    for one, two in zip(captures, captures[1:]):
        if two.transmission.phase == c.phase and two.time - one.time >= long * .9:
            c.injected.append(InjectedEvent("stall", [cause], between=(one, two)))


def change_path(c):
    end = start_phase(c)
    old, before = c.source_ports[end], len(c.network.transmissions)
    while c.source_ports[end] == old:
        c.source_ports[end] = c.random.randrange(49152, 65536)
    c.ends[end].post(stream(c, end, c.random.randrange(1, 6)))
    end_phase(c)
    t = next(t for t in c.network.transmissions[before:] if t.sender == end)
    c.injected.append(InjectedEvent("path_change", ["none"], end, at=t))
