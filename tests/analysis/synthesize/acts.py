"""Acts: each is a part of a connection's story in which one thing goes wrong (or nothing), from rest to rest.

An act sets up what the network or an end will do, has the application post requests, and lets time run until all is
answered. It says (`told`) only what cannot be read off the two ends' own records: truth.py does the rest.
"""

import struct

from . import wire
from .connection import Message
from .network import MICROSECOND, MILLISECOND, SECOND, Fate, Transmission
from .truth import Told

KINDS = ("send", "send", "write", "write", "read", "compare_swap", "fetch_add")


def message(c, end, kind=None, packets=None, exact=False):
    """A message that is drawn at random; `exact`: its size is a multiple of the MTU."""
    random, mtu = c.random, c.ends[end].manners.mtu
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
    """Messages of just so many packets together."""
    messages = []
    while packets:
        count = min(packets, c.random.choice((1, 2, 3, 5, 8, 12)))
        messages.append(message(c, end, c.random.choice(kinds), count, exact))
        packets -= count
    return messages


def begin(c, pause=None):
    c.act += 1
    c.network.rules.clear()
    c.clock.run(c.clock.now + (pause or c.random.randrange(20, 300) * MICROSECOND))
    return c.random.randrange(2)


def finish(c):
    c.settle()
    c.network.rules.clear()


def first_requests(c, end, places, fate):
    """The rule: the first sending of these places of this act's requests has this fate."""
    act, base = c.act, c.ends[end].planned
    c.network.rules.append(lambda t: fate if (
        t.role == "request" and t.sender == end and t.act == act and not t.again and t.place - base in places) else None)


def pick(c, end, places):
    """The first sendings of an act's requests, by place from the first of the act."""
    base = min(t.place for t in c.network.transmissions
               if t.act == c.act and t.sender == end and t.role == "request")
    return [t for t in c.network.transmissions if t.act == c.act and t.sender == end and t.role == "request" and
            not t.again and t.place - base in places]


# ---------------------------------------------------------------------------------------------------------------------
# Nothing goes wrong


def clean(c, end=None):
    drawn = begin(c)
    end = drawn if end is None else end
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
    finish(c)


def datagram(c, end):
    m = message(c, end, "send", 1)
    m.invalidate = None
    return m


# ---------------------------------------------------------------------------------------------------------------------
# Losses, and what follows from them


def loses_requests(c, where):
    """In the midst of a stream: a NAK names the first that is missing (but for a loss of the capture alone)."""
    end, n = begin(c), c.random.randrange(5, 15)
    count = c.random.choice((1, 1, 1, 2, 3))
    at = c.random.randrange(1, n - count)
    first_requests(c, end, range(at, at + count), Fate(lost=where))
    c.ends[end].post(stream(c, end, n))
    finish(c)


def loses_read_request(c, where):
    end = begin(c)
    head = stream(c, end, c.random.randrange(1, 4))
    packets = c.random.randrange(1, 5)
    first_requests(c, end, [sum(max(1, -(-m.size // c.ends[end].manners.mtu)) for m in head)], Fate(lost=where))
    c.ends[end].post([*head, message(c, end, "read", packets), *stream(c, end, c.random.randrange(1, 5))])
    finish(c)


def loses_tail(c, where):
    """Nothing comes after what is lost: only the timer tells."""
    end, n = begin(c), c.random.randrange(1, 8)
    count = c.random.choice((1, 1, 2)) if n > 2 else 1
    first_requests(c, end, range(n - count, n), Fate(lost=where))
    c.ends[end].post(stream(c, end, n))
    finish(c)


def loses_acknowledgement(c, where):
    """The timer repeats what had arrived: spurious, where the capture has the acknowledgement."""
    end, act = begin(c), c.act
    requester = c.ends[end]
    recoveries = len(requester.recoveries)
    c.network.rules.append(lambda t: Fate(lost=where) if (
        t.role == "answer" and t.sender != end and t.act == act and len(requester.recoveries) == recoveries) else None)
    requester.post(stream(c, end, c.random.randrange(1, 8)))
    finish(c)


def acknowledgement_comes_late(c):
    """It passes the capturing point in time and stands in a queue after that for longer than the timer."""
    end, act = begin(c), c.act
    requester = c.ends[end]
    late = requester.manners.timeout + c.random.randrange(200, 2000) * MICROSECOND
    recoveries = len(requester.recoveries)
    c.network.rules.append(lambda t: Fate(late_after=late) if (
        t.role == "answer" and t.sender != end and t.act == act and len(requester.recoveries) == recoveries) else None)
    requester.post(stream(c, end, c.random.randrange(1, 8)))
    finish(c)


def timer_too_short(c):
    end = begin(c)
    c.ends[1 - end].answer_slowly = round(c.ends[end].manners.timeout * c.random.uniform(1.1, 1.7))
    c.ends[end].post([message(c, end, c.random.choice(("send", "write")))])
    finish(c)
    c.ends[1 - end].answer_slowly = 0


def loses_responses(c, where, tail=False):
    """In the midst of a read's responses: the one behind the gap implies a NAK. At its end: the timer tells."""
    end, act = begin(c), c.act
    n = c.random.randrange(4, 12)
    count = c.random.choice((1, 1, 2))
    at = n - count if tail else c.random.randrange(1, n - count)
    base = c.ends[end].planned
    seen = set()

    def rule(t):
        if t.kind == "response" and t.sender != end and t.act == act and at <= t.place - base < at + count and \
                t.place not in seen:
            seen.add(t.place)
            return Fate(lost=where)
        return None

    c.network.rules.append(rule)
    after = stream(c, end, c.random.randrange(1, 3)) if where == "capture" or c.random.random() < .3 and not tail else []
    c.ends[end].post([message(c, end, "read", n), *after])
    finish(c)


def loses_atomic_answer(c, where):
    end, act = begin(c), c.act
    seen = []

    def rule(t):
        if t.kind == "atomic_answer" and t.sender != end and t.act == act and not seen:
            seen.append(t)
            return Fate(lost=where)
        return None

    c.network.rules.append(rule)
    c.ends[end].post([message(c, end, c.random.choice(("compare_swap", "fetch_add"))),
                      *stream(c, end, c.random.randrange(1, 4))])
    finish(c)


def storm(c):
    """Everything may be lost, at either side of the capturing point, NAKs and repetitions too."""
    end = begin(c)
    chance = c.random.uniform(.01, .06)
    c.network.rules.append(lambda t: Fate(lost=c.random.choice(("before", "after")))
                           if c.random.random() < chance else None)
    for _ in range(c.random.randrange(1, 4)):
        c.ends[end].post([message(c, end) for _ in range(c.random.randrange(2, 6))])
        c.clock.run(c.clock.now + c.random.randrange(5, 100) * MICROSECOND)
    finish(c)


def gap_of_uc(c):
    end, n = begin(c), c.random.randrange(6, 16)
    count = c.random.choice((1, 1, 2, 4))
    at = c.random.randrange(1, n - count)
    first_requests(c, end, range(at, at + count), Fate(lost=c.random.choice(("before", "capture"))))
    c.ends[end].post(stream(c, end, n))
    finish(c)


# ---------------------------------------------------------------------------------------------------------------------
# Order and copies


def _lateness(c, end):
    spacing, random = c.ends[end].manners.spacing, c.random
    overtaken_by = random.choice((1, 2, 3))
    while overtaken_by > 1 and (overtaken_by - .5) * spacing > 1200:
        overtaken_by -= 1
    return overtaken_by, overtaken_by * spacing + spacing // 2


def reorders_requests(c, how):
    """how: "network", the receiver sends a NAK; "tolerated", it puts them in order; "capture", only the capture's order
    is wrong."""
    end, n = begin(c), c.random.randrange(6, 15)
    by, late = _lateness(c, end)
    at = c.random.randrange(1, n - by)
    fate = Fate(late_in_capture=late) if how == "capture" else Fate(late_before=late)
    c.ends[1 - end].manners.takes_out_of_order = how == "tolerated"
    first_requests(c, end, [at], fate)
    c.ends[end].post(stream(c, end, n))
    finish(c)
    c.ends[1 - end].manners.takes_out_of_order = False
    c.told.append(Told("out_of_order", ["none"], end, at=pick(c, end, [at])[0]))


def reorders_responses(c, how):
    end, act, n = begin(c), c.act, c.random.randrange(6, 14)
    by, late = _lateness(c, 1 - end)
    at = c.random.randrange(1, n - by)
    base, seen = c.ends[end].planned, []

    def rule(t):
        if t.kind == "response" and t.act == act and t.place - base == at and not seen:
            seen.append(t)
            return Fate(late_in_capture=late) if how == "capture" else Fate(late_before=late)
        return None

    c.network.rules.append(rule)
    c.ends[end].post([message(c, end, "read", n)])
    finish(c)
    c.told.append(Told("out_of_order", ["none"], at=seen[0]))


def copies(c, where, role):
    """where: "network" (the receiver gets both) or "capture"."""
    end, act, n = begin(c), c.act, c.random.randrange(2, 9)
    seen, chosen = [], c.random.randrange(n) if role == "request" else 0

    def rule(t):
        if t.act == act and t.role == role and t.kind in ("send", "write", "ack"):
            if role == "answer" or t.place - base == chosen:
                if not seen:
                    seen.append(t)
                    return Fate(copies=1) if where == "network" else Fate(copies_captured=1)
        return None

    base = c.ends[end].planned
    c.network.rules.append(rule)
    c.ends[end].post(stream(c, end, n))
    finish(c)
    c.told.append(Told("duplicate", ["none"], at=seen[0].captures[1], origin=seen[0].captures[0]))


# ---------------------------------------------------------------------------------------------------------------------
# What the responder refuses


def not_ready(c, stalls=False):
    end = begin(c)
    responder = c.ends[1 - end]
    responder.not_ready = c.random.choice((1, 1, 1, 2))
    responder.rnr_timer = c.random.randrange(1, 27)
    if stalls:
        responder.not_ready, responder.rnr_timer = 1, 0
        c.rnr_wait = c.random.randrange(2000, 3000) * MILLISECOND
    packets = c.random.randrange(1, 8)
    c.ends[end].post([message(c, end, "send", 1), *stream(c, end, packets)])
    finish(c)
    responder.not_ready, c.rnr_wait = 0, None
    if stalls:
        again = c.ends[end].recoveries[-1].transmissions[0]
        before = max((cap for t in c.network.transmissions if t.index < again.index for cap in t.captures),
                     key=lambda cap: cap.time)
        c.told.append(Told("stall", ["rnr"], between=(before, again)))


def refused(c, code):
    """A NAK that ends the connection."""
    end = begin(c)
    head = stream(c, end, c.random.randrange(1, 6))
    last = message(c, end, c.random.choice(("send", "write", "read")), 1)
    base = c.ends[end].planned + sum(max(1, -(-m.size // c.ends[end].manners.mtu)) for m in head)
    c.ends[1 - end].refuses = (base, code)
    c.ends[end].post([*head, last])
    finish(c)


def no_answer(c):
    """The peer has gone."""
    end = begin(c)
    c.ends[1 - end].out_of_service = True
    c.ends[end].manners.retries = c.random.randrange(0, 4)
    c.ends[end].post([message(c, end, c.random.choice(("send", "write", "read")))])
    finish(c)
    sent = [t for t in c.network.transmissions if t.act == c.act and t.sender == end and t.captures]
    c.told.append(Told("unanswered", ["none"], end, between=(sent[0], sent[-1])))


# ---------------------------------------------------------------------------------------------------------------------
# Answers that nobody asked for


def repeats_acknowledgement(c):
    end = begin(c)
    c.ends[end].post(stream(c, end, c.random.randrange(1, 6)))
    c.settle()
    c.clock.run(c.clock.now + c.random.randrange(100, 900) * MICROSECOND)
    responder = c.ends[1 - end]
    t = Transmission(1 - end, "stray", "ack", wire.ACKNOWLEDGE, responder.expected - 1)
    t.headers = wire.aeth(responder.manners.credits, responder.msn)
    responder.answer_unasked(t)
    finish(c)
    c.told.append(Told("ghost_acknowledgement", ["none"], end, at=t, psn=t.psn))
    clean(c, end)


def answers_unasked(c):
    end = begin(c)
    c.ends[end].post(stream(c, end, c.random.randrange(1, 6)))
    c.settle()
    c.clock.run(c.clock.now + c.random.randrange(50, 300) * MICROSECOND)
    responder = c.ends[1 - end]
    far = c.ends[end].planned + c.random.randrange(1 << 16, 1 << 21)
    kind = c.random.choice(("ack", "response", "atomic_answer"))
    opcode = {"ack": wire.ACKNOWLEDGE, "response": wire.RESPONSE_ONLY, "atomic_answer": wire.ATOMIC_ACKNOWLEDGE}[kind]
    t = Transmission(1 - end, "stray", kind, opcode, far)
    t.headers = wire.aeth(responder.manners.credits, responder.msn)
    if kind == "atomic_answer":
        t.headers += bytes(8)
    elif kind == "response":
        t.payload = bytes(c.random.randrange(4, 256))
    responder.answer_unasked(t)
    finish(c)
    c.told.append(Told("unsolicited_response", ["none"], end, at=t, psn=t.psn))
    clean(c, end)


def counts_wrongly(c):
    """From here on the responder's MSN is off by some; before, it was seen to be right."""
    end = begin(c)
    c.ends[end].post([message(c, end, "send", 1)])
    c.settle()
    c.clock.run(c.clock.now + 20 * MICROSECOND)
    by, responder = c.random.choice((1, 1, 2, 7, 1000)), c.ends[1 - end]
    responder.msn += by
    before = len(c.network.transmissions)
    c.ends[end].post(stream(c, end, c.random.randrange(1, 6)))
    finish(c)
    t = next(t for t in c.network.transmissions[before:] if t.kind == "ack" and t.sender != end)
    c.told.append(Told("msn_jump", ["none"], end, at=t, value=(t.msn - by) % wire.PSNS, observed=(t.msn % wire.PSNS,) * 2))


# ---------------------------------------------------------------------------------------------------------------------
# Damage


def _set(begin_at, new):
    return lambda frame: wire.with_ip_checksum(frame[:begin_at] + new + frame[begin_at + len(new):])


def damage(c, cause, in_network):
    """One packet's bytes change on the way, so that its ICRC is wrong. In the network: its receiver drops it."""
    end, n = begin(c), c.random.randrange(4, 10)
    at, random = c.random.randrange(0, n - 1), c.random
    host = c.hosts[end]
    transport = 14 + (20 if len(host.address) == 4 else 40)
    messages = stream(c, end, n)
    if cause in ("pad", "payload"):
        for m in messages:
            m.size = max(m.size, 9)
            if cause == "pad":  # one packet's worth that needs padding, each a message of its own
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
    fate = Fate(change=change, refused="icrc") if in_network else Fate(change_in_capture=change)
    first_requests(c, end, [at], fate)
    c.ends[end].post(messages)
    finish(c)
    chosen = pick(c, end, [at])[0]
    if cause == "payload" and not chosen.payload:
        raise AssertionError("no payload to damage")
    c.told.append(Told("crc_bad", [cause], end, at=chosen, value=value))


UNMASKED = {"ttl_not_masked": ("ttl",), "traffic_class_not_masked": ("traffic_class",),
            "bth_reserved_not_masked": ("bth_reserved",)}


def sender_forgets_mask(c, cause):
    """All that one end sends in this act; its peer computes the same."""
    end, act, random = begin(c), c.act, c.random
    v6 = len(c.hosts[end].address) == 16
    fields = UNMASKED.get(cause) or random.choice(
        (("udp_checksum",),) if v6 else (("ip_checksum",), ("udp_checksum",), ("ip_checksum", "udp_checksum")))
    hops = random.choice((0, 1, 2, 3)) if cause == "ttl_not_masked" else 0
    ttl_at = 14 + (7 if v6 else 8)
    faulty = []

    def rule(t):
        if t.act != act or t.sender != end:
            return None
        t.overrides["unmasked"] = frozenset(fields)
        faulty.append(t)
        if not hops:
            return None
        return Fate(change=lambda frame: _set(ttl_at, bytes([frame[ttl_at] - hops]))(frame))

    c.network.rules.append(rule)
    c.ends[end].post(stream(c, end, random.randrange(2, 7)))
    finish(c)
    c.told += [Told("crc_bad", [cause], end, at=t) for t in faulty]


def rewrite_address(c, of, to):
    """The capture shows another address of one host: somebody rewrote it on the way to the capture only."""
    for t in c.network.transmissions:
        change = _set(26 if t.sender == of else 30, to)
        for captured in t.captures:
            captured.change = change
        c.told.append(Told("crc_bad", ["address"], t.sender, at=t))


def cut_short(c):
    end, n = begin(c), c.random.randrange(3, 9)
    at = c.random.randrange(n)
    messages = stream(c, end, n, exact=True)
    cut = c.random.randrange(8, c.ends[end].manners.mtu)
    first_requests(c, end, [at], Fate(change_in_capture=lambda frame: frame[:len(frame) - cut]))
    c.ends[end].post(messages)
    finish(c)
    chosen = pick(c, end, [at])[0]
    c.told += [Told("truncated", ["none"], end, at=chosen),
               Told("crc_bad", [], end, at=chosen, required=False)]


def wrong_pkey(c):
    end, n = begin(c), c.random.randrange(4, 10)
    at, act, base = c.random.randrange(1, n - 1), c.act, c.ends[end].planned
    pkey = 0x8000 | c.random.randrange(1, 0x7FFF)

    def rule(t):
        if t.act == act and t.role == "request" and t.sender == end and not t.again and t.place - base == at:
            t.overrides["pkey"] = pkey
            return Fate(refused="pkey")
        return None

    c.network.rules.append(rule)
    c.ends[end].post(stream(c, end, n))
    finish(c)
    c.told.append(Told("pkey_mismatch", ["none"], end, at=pick(c, end, [at])[0]))


def wrong_qkey(c):
    end = begin(c)
    for _ in range(6):
        c.ends[end].post([datagram(c, end)])
    c.clock.run(c.clock.now + 30 * MICROSECOND)
    qkey, act = c.random.getrandbits(31), c.act
    marked = []

    def rule(t):
        if t.act == act and not marked:
            marked.append(t)
            t.headers = struct.pack("!I", qkey) + t.headers[4:]
            return Fate(refused="qkey")
        return None

    c.network.rules.append(rule)
    for _ in range(3):
        c.ends[end].post([datagram(c, end)])
    finish(c)
    c.told.append(Told("qkey_mismatch", ["none"], end, at=marked[0]))


def _faulty_packet(c, end, head, messages, item_index, **overrides):
    """`messages` behind `head`; one packet of theirs is wrong, and refused. It is the last that is sent."""
    requester, responder = c.ends[end], c.ends[1 - end]
    requester.post(head)
    c.settle()
    c.clock.run(c.clock.now + 20 * MICROSECOND)
    before = len(requester.items)
    requester.post(messages)
    item = requester.items[before + item_index]
    item.overrides = overrides
    del requester.items[before + item_index + 1:], requester.places[before + item_index + 1:]
    requester.planned = item.place + item.span
    item.ask = True
    responder.refuses = (item.place, "invalid_request")
    finish(c)
    return next(t for t in c.network.transmissions if t.item is item)


def wrong_segment(c):
    end = begin(c)
    mtu, random = c.ends[end].manners.mtu, c.random
    head = [message(c, end, "write", 4, exact=True), message(c, end, "send", 3, exact=True)]
    kind = random.choice(("first", "middle", "only")) if mtu < 4096 else random.choice(("first", "middle"))
    if kind == "only":
        length = mtu + 4 * random.randrange(1, mtu // 4)
        t = _faulty_packet(c, end, head, [Message("send", 4)], 0, payload=bytes(length))
    else:
        length = 4 * random.randrange(1, mtu // 4)
        t = _faulty_packet(c, end, head, [Message("send", 4 * mtu)], 0 if kind == "first" else 1,
                           payload=bytes(length))
    c.told.append(Told("segmentation", ["none"], end, at=t, value=mtu, observed=(length, length)))


def wrong_opcode(c):
    end = begin(c)
    mtu, random = c.ends[end].manners.mtu, c.random
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
    c.told.append(Told("opcode_sequence", ["none"], end, at=t))


def too_many_reads(c, agreed):
    """The requester has one more outstanding than was agreed on; this responder bears it."""
    end = begin(c, 400 * MICROSECOND)
    e, extra = c.ends[end], c.random.randrange(1, 3)
    reads, e.manners.reads = e.manners.reads, 64
    before = len(c.network.transmissions)
    e.post([message(c, end, c.random.choice(("read", "fetch_add")), 1) for _ in range(agreed + extra)])
    finish(c)
    e.manners.reads = reads
    asked = [t for t in c.network.transmissions[before:] if t.role == "request"]
    c.told.append(Told("read_limit", ["none"], end, at=asked[agreed]))
    c.told += [Told("read_limit", ["none"], end, at=t, required=False) for t in asked[agreed + 1:]]


# ---------------------------------------------------------------------------------------------------------------------
# Congestion, time, paths


def marked(c):
    """A switch marks some packets; sometimes the receiver tells the sender."""
    end, act = begin(c), c.act
    c.ends[end].manners.traffic_class |= 2
    chance, seen = c.random.uniform(.1, .6), []

    def rule(t):
        if t.act == act and t.sender == end and t.role == "request" and c.random.random() < chance:
            seen.append(t)
            return Fate(mark=True)
        return None

    c.network.rules.append(rule)
    c.ends[end].post(stream(c, end, c.random.randrange(3, 20)))
    if c.random.random() < .4:
        c.clock.after(8 * MICROSECOND, _notify, c, end, [])
    finish(c)
    c.told += [Told("ecn_marked", ["none"], end, at=t) for t in seen]


def _notify(c, end, causes):
    t = c.cnp(1 - end)
    c.told.append(Told("cnp", causes, at=t))


def notified(c, falls):
    """A steady stream; in its midst the receiver tells of congestion."""
    end = begin(c)
    e = c.ends[end]
    pace = c.random.randrange(2_000, 5_000)
    window, e.manners.window = e.manners.window, 4096
    size = 64
    before, after = 1200 * MICROSECOND // pace, 1200 * MICROSECOND // pace
    for i in range(before + after):
        wait = pace * i if i < before or not falls else pace * before + (i - before) * pace * falls
        c.clock.after(wait, e.post, [Message("write", size, address=8 * i, key=7)])
    c.clock.after(pace * before - pace // 2, _notify, c, end, ["rate_fell" if falls else "rate_unchanged"])
    c.clock.run(c.clock.now + pace * before + after * pace * max(1, falls))
    finish(c)
    e.manners.window = window


def stalls(c, cause):
    """Two seconds and more without a packet."""
    end = begin(c)
    long = c.random.randrange(2000, 3500) * MILLISECOND
    requester, responder = c.ends[end], c.ends[1 - end]
    timeout, requester.manners.timeout = requester.manners.timeout, 8 * SECOND
    if cause == "nothing_outstanding":
        c.settle()
        c.clock.run(c.clock.now + long)
        requester.post(stream(c, end, c.random.randrange(1, 5)))
        finish(c)
    elif cause == "peer":
        responder.answer_slowly = long
        requester.post([message(c, end, "write", 1)])
        finish(c)
        responder.answer_slowly = 0
        responder.answer_at = 0
    else:  # credit
        responder.no_credits = True
        requester.post([message(c, end, "send", 1), message(c, end, "send", 1)])
        c.settle()
        c.clock.run(c.clock.now + long)
        responder.no_credits = False
        credits = responder.manners.credits
        responder.manners.credits = 10 if credits == wire.NO_CREDITS_GIVEN else credits
        update = Transmission(1 - end, "stray", "ack", wire.ACKNOWLEDGE, responder.expected - 1)
        update.headers = wire.aeth(responder.manners.credits, responder.msn)
        responder.answer_unasked(update)
        c.settle()
        requester.post([message(c, end, "send", 1), message(c, end, "send", 2)])
        finish(c)
        responder.manners.credits = credits
    requester.manners.timeout = timeout
    captures = sorted((cap for t in c.network.transmissions for cap in t.captures), key=lambda cap: cap.time)
    for one, two in zip(captures, captures[1:]):
        if two.transmission.act == c.act and two.time - one.time >= long * .9:
            c.told.append(Told("stall", [cause], between=(one, two)))


def path_changes(c):
    end = begin(c)
    old, before = c.source_ports[end], len(c.network.transmissions)
    while c.source_ports[end] == old:
        c.source_ports[end] = c.random.randrange(49152, 65536)
    c.ends[end].post(stream(c, end, c.random.randrange(1, 6)))
    finish(c)
    t = next(t for t in c.network.transmissions[before:] if t.sender == end)
    c.told.append(Told("path_change", ["none"], end, at=t))
