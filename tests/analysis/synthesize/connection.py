"""Two ends of a connection that behave as the specification says: requester and responder of RC, senders of UC and UD.

IBTA vol 1, 9.7 (reliable service), 9.8 (unreliable). What real adapters do differently from one another – which packets
ask for an acknowledgement, how answers are gathered, how soon a NAK is acted upon, whether every duplicate is
acknowledged – is drawn for each connection (`Manners`).
"""

import bisect
import random as randoms
import struct
from collections import deque
from dataclasses import dataclass, field

from . import wire
from .network import MICROSECOND, MILLISECOND, Clock, Network, Transmission


@dataclass
class Manners:
    """What the specification leaves open, of one end."""
    mtu: int = 1024
    window: int = 64              # packets outstanding
    reads: int = 16               # reads and atomics outstanding
    spacing: int = 100            # ns a packet takes on the wire
    turn: int = 2 * MICROSECOND   # from a request to its answer
    reaction: int = 10 * MICROSECOND  # from a NAK to sending again
    stops_at_nak: bool = True     # sends nothing new until it goes back
    timeout: int = 17 * MILLISECOND
    retries: int = 7
    asks: float = 1.0             # chance that a message's last packet asks for an acknowledgement
    gathers: int = 0              # ns that an acknowledgement waits for more
    drops_gathered: bool = False  # a read response stands for the acknowledgement that waits
    acknowledges_every_duplicate: bool = False
    takes_out_of_order: bool = False
    credits: int = wire.NO_CREDITS_GIVEN
    traffic_class: int = 0
    ack_traffic_class: int = 0
    pkey: int = 0xFFFF
    migrated: bool = True
    ttl: int = 64
    counts_identification: bool = True

    @classmethod
    def drawn(cls, random):
        mtu = random.choice((256, 256, 256, 512, 512, 1024, 1024, 2048, 4096))
        spacing = max(70, mtu * 8 // random.choice((25, 40, 100))) + random.randrange(30)
        soft = random.random() < .4  # a software stack: slower, counts IP identifications
        return cls(
            mtu=mtu, window=random.choice((16, 32, 64, 128)), reads=random.choice((1, 2, 4, 16)), spacing=spacing,
            turn=random.randrange(1_500, 4_000) * (4 if soft else 1),
            reaction=random.randrange(2_000, 60_000), stops_at_nak=random.random() < .6,
            timeout=round(4096 * 2 ** random.choice((10, 11, 12, 13, 14)) * random.uniform(1, 2)),
            asks=random.choice((1.0, 1.0, .5, .1)), gathers=random.choice((0, 0, 500, 3000)),
            drops_gathered=random.random() < .5, acknowledges_every_duplicate=soft,
            credits=random.choice((wire.NO_CREDITS_GIVEN, wire.NO_CREDITS_GIVEN, random.randrange(11, 30))),
            traffic_class=random.choice((0, 2, 2, 0x68 | 2)), ack_traffic_class=random.choice((0, 2, 0x68)),
            ttl=random.choice((64, 64, 63, 62)), counts_identification=soft)


@dataclass(eq=False)
class Message:
    kind: str  # as MessageKind names it
    size: int
    immediate: int | None = None
    invalidate: int | None = None
    solicited: bool = False
    address: int = 0
    key: int = 0
    operand: int = 0
    compare: int = 0
    # Filled in by the requester
    first_place: int = 0
    last_place: int = 0
    act: int = 0
    transmissions: list = field(default_factory=list)


class Item:
    """A request packet as planned: a message's part, or a read request that takes as many PSNs as it has responses."""

    __slots__ = ("place", "span", "opcode", "message", "offset", "length", "ask", "last", "overrides", "sent_times")

    def __init__(self, place, span, opcode, message, offset, length, last):
        self.place, self.span, self.opcode, self.message = place, span, opcode, message
        self.offset, self.length, self.last = offset, length, last
        self.ask = False
        self.overrides = {}
        self.sent_times = 0

    @property
    def answered_in_full(self):
        """A read or an atomic: its answer carries data, an acknowledgement is not enough."""
        return self.opcode in (wire.READ_REQUEST, wire.COMPARE_SWAP, wire.FETCH_ADD)


class Round:
    """A time of going back: what was sent again because of it."""

    def __init__(self, end, cause, by, place, time):
        self.end, self.cause, self.by, self.place, self.time = end, cause, by, place, time
        self.transmissions = []


def segment(message, mtu):
    """(opcode, offset, length, is last) of each packet, for RC; a read is one packet."""
    if message.kind == "read":
        return [(wire.READ_REQUEST, 0, 0, True)]
    if message.kind in ("compare_swap", "fetch_add"):
        return [(wire.COMPARE_SWAP if message.kind == "compare_swap" else wire.FETCH_ADD, 0, 0, True)]
    first, middle, last, only = (
        (wire.SEND_FIRST, wire.SEND_MIDDLE, wire.SEND_LAST, wire.SEND_ONLY) if message.kind == "send" else
        (wire.WRITE_FIRST, wire.WRITE_MIDDLE, wire.WRITE_LAST, wire.WRITE_ONLY))
    if message.immediate is not None:
        last, only = last + 1, only + 1
    elif message.invalidate is not None:
        last, only = wire.SEND_LAST_INVALIDATE, wire.SEND_ONLY_INVALIDATE
    count = max(1, -(-message.size // mtu))
    packets = []
    for i in range(count):
        opcode = only if count == 1 else first if i == 0 else last if i == count - 1 else middle
        packets.append((opcode, i * mtu, min(mtu, message.size - i * mtu), i == count - 1))
    return packets


def request_headers(item, message, offset, remaining):
    headers = b""
    if item.opcode in (wire.WRITE_FIRST, wire.WRITE_ONLY, wire.WRITE_ONLY_IMMEDIATE, wire.READ_REQUEST):
        headers = wire.reth(message.address + offset, message.key, remaining)
    elif item.opcode in (wire.COMPARE_SWAP, wire.FETCH_ADD):
        headers = wire.atomic_eth(message.address, message.key, message.operand, message.compare)
    if message.immediate is not None and item.last:
        headers += struct.pack("!I", message.immediate)
    if message.invalidate is not None and item.last:
        headers += struct.pack("!I", message.invalidate)
    return headers


_FILL = randoms.Random(0).randbytes(1 << 16)  # like no upper layer's header


def content(message, offset, length):
    begin = (message.address + offset) & 0x7FFF
    return _FILL[begin:begin + length]


class ReliableEnd:
    """One end of an RC connection: a requester and a responder that share a port."""

    # Of a duplicate: the PSN of the newest SEND or RDMA WRITE, as C9-105 is read; else of whatever came last.
    ACKNOWLEDGES_SENDS_ALONE = False

    def __init__(self, number, connection, manners):
        self.number, self.connection, self.manners = number, connection, manners
        self.clock, self.network = connection.clock, connection.network
        # requester
        self.items, self.places = [], []
        self.next = 0              # the item to be sent next
        self.sent_items = 0        # those before it have been sent once
        self.unanswered = 0        # the oldest place that is not acknowledged
        self.planned = 0           # places given out
        self.resume_at = 0         # no requests before this time
        self.progress = 0          # when an answer last moved things on
        self.tries = 0
        self.dead = False
        self.recoveries, self.round = [], None
        self.going_back = False
        self.implied_at = -1
        self.since_ask = 0
        self.extra_spacing = 0
        self.timer_runs = False
        # responder
        self.expected = 0
        self.newest = -1  # place of the last SEND or RDMA WRITE that was executed
        self.msn = 0
        self.nak_sent = False
        self.out_of_service = False
        self.waiting_ack = None
        self.answer_at = 0
        self.held = {}
        self.atomic_answers = {}
        self.not_ready = 0         # so many times a send finds no receive request
        self.rnr_timer = 1
        self.refuses = None        # (place, code): what is refused with a NAK
        self.answer_slowly = 0     # ns on top of `turn`
        self.withholds = False     # acknowledgements are held until released
        self.no_credits = False
        # port
        self.answers = deque()
        self.free_at = 0
        self.pumping = False

    # -- port: answers go before requests, one packet at a time

    def pump(self):
        if not self.pumping:
            self.pumping = True
            self.clock.at(max(self.free_at, self.clock.now), self._slot)

    def _slot(self):
        self.pumping = False
        sent = None
        if self.answers:
            sent = self.answers.popleft()()
        elif not self.dead:
            sent = self._next_request()
        if sent is None:
            return
        self.connection.send(self, sent)
        self.free_at = self.clock.now + self.manners.spacing + (self.extra_spacing if sent.role == "request" else 0)
        self.pump()

    # -- requester

    def post(self, messages):
        """Requests that the application makes at once; the last of them surely asks for an acknowledgement."""
        for number, message in enumerate(messages):
            message.first_place = self.planned
            message.act = self.connection.act
            self.connection.messages.append((self.number, message))
            for opcode, offset, length, last in segment(message, self.manners.mtu):
                span = max(1, -(-message.size // self.manners.mtu)) if opcode == wire.READ_REQUEST else 1
                item = Item(self.planned, span, opcode, message, offset, length, last)
                self.since_ask += 1
                if not item.answered_in_full:
                    item.ask = (last and (number == len(messages) - 1 or
                                          self.connection.random.random() < self.manners.asks) or
                                self.since_ask >= self.manners.window // 2)
                if item.ask or item.answered_in_full:
                    self.since_ask = 0
                self.items.append(item)
                self.places.append(item.place)
                self.planned += span
            message.last_place = self.planned - 1
        self.pump()

    def index_of(self, place):
        return bisect.bisect_right(self.places, place) - 1

    @property
    def at_rest(self):
        """Its requests are answered or given up, and its answers are sent."""
        return ((self.dead or self.unanswered == self.planned) and not self.answers and
                self.answer_at < self.clock.now and not self.waiting_ack)

    def _next_request(self):
        if self.clock.now < self.resume_at or self.going_back and self.manners.stops_at_nak:
            if self.clock.now < self.resume_at:
                self.clock.at(self.resume_at, self.pump)
            return None
        if self.next < len(self.items) and self.items[self.next].place + self.items[self.next].span <= self.unanswered:
            self.next = self.index_of(self.unanswered) if self.unanswered < self.planned else len(self.items)
        if self.next >= len(self.items):
            return None
        item = self.items[self.next]
        oldest = self.index_of(self.unanswered)
        if self.next > oldest:
            if item.place + item.span - self.unanswered > max(self.manners.window, item.span):
                return None
            if item.answered_in_full and sum(
                    other.answered_in_full for other in self.items[oldest:self.next]) >= self.manners.reads:
                return None
        offset, place = item.offset, item.place
        if item.opcode == wire.READ_REQUEST and self.unanswered > place:  # the rest of it
            offset += (self.unanswered - place) * self.manners.mtu
            place = self.unanswered
        message = item.message
        t = Transmission(self.number, "request", message.kind, item.opcode, place, item.place + item.span - place)
        t.headers = request_headers(item, message, offset, message.size - (offset if message.kind == "read" else 0))
        t.payload = content(message, offset, item.length)
        t.flags = {"ack_request": item.ask or item.sent_times > 0 and item.last and not item.answered_in_full,
                   "solicited": message.solicited and item.last}
        t.overrides = dict(item.overrides) if item.sent_times == 0 else {}
        t.item, t.message = item, message
        t.again = self.next < self.sent_items
        item.sent_times += 1
        message.transmissions.append(t)
        if t.again and self.round:
            t.round = self.round
            self.round.transmissions.append(t)
        else:
            self.round = None
        self.next += 1
        self.sent_items = max(self.sent_items, self.next)
        if oldest == self.next - 1 or not self.timer_runs:
            self.progress = self.clock.now
        self._run_timer()
        return t

    def _run_timer(self):
        if not self.timer_runs:
            self.timer_runs = True
            self.clock.at(self.progress + self.manners.timeout, self._timer)

    def _timer(self):
        self.timer_runs = False
        if self.dead or self.unanswered >= self._sent_places():
            return
        due = max(self.progress + self.manners.timeout, self.resume_at)
        if self.going_back or self.clock.now < due:
            self.timer_runs = True
            self.clock.at(max(due, self.clock.now + self.manners.reaction), self._timer)
            return
        self.tries += 1
        if self.tries > self.manners.retries:
            self.dead = True
            return
        self._begin_round("timeout", None)
        self._run_timer()

    def _sent_places(self):
        return self.items[self.sent_items - 1].place + self.items[self.sent_items - 1].span if self.sent_items else 0

    def _go_back(self, cause, by, wait):
        if self.going_back:
            return
        self.going_back = True
        self.clock.after(wait, self._gone_back, cause, by)

    def _gone_back(self, cause, by):
        self.going_back = False
        if not self.dead:
            self._begin_round(cause, by)

    def _begin_round(self, cause, by):
        self.progress = self.clock.now
        if self.unanswered < self._sent_places():
            index = self.index_of(self.unanswered)
            if index < self.next:
                self.next = index
                self.round = Round(self.number, cause, by, self.unanswered, self.clock.now)
                self.recoveries.append(self.round)
        self.pump()

    def _advance(self, place):
        if place > self.unanswered:
            self.unanswered, self.progress, self.tries = place, self.clock.now, 0

    def _first_unfinished_answer(self):
        """(its next response's place) of the oldest read or atomic that was sent and is not answered in full."""
        if self.unanswered >= self.planned:
            return None
        for item in self.items[self.index_of(self.unanswered):self.sent_items]:
            if item.answered_in_full:
                return max(self.unanswered, item.place)
        return None

    def _answer(self, t):
        unfinished = self._first_unfinished_answer()
        if t.kind in ("response", "atomic_answer"):
            if unfinished is None or t.place < unfinished:
                return
            if t.place == unfinished:
                self._advance(t.place + 1)
            else:
                self._advance(unfinished)
                self._imply(unfinished, t)
            return
        upto = t.place if t.kind == "ack" else t.place - 1
        if upto >= self._sent_places():
            return  # nobody asked for that
        if unfinished is not None and unfinished <= upto:
            self._advance(unfinished)
            self._imply(unfinished, t)
            return
        self._advance(upto + 1)
        if t.kind == "nak":
            if t.code == "psn_sequence_error":
                self._go_back("sequence_error_nak", t, self.manners.reaction)
            else:
                self.dead = True
        elif t.kind == "rnr_nak":
            wait = max(wire.RNR_TIMERS[t.code], self.connection.rnr_wait or 0)
            wait += wait // 50 + self.connection.random.randrange(1_000, 5_000)
            self.resume_at = self.clock.now + wait
            self._go_back("rnr", t, wait)

    def _imply(self, place, by):
        if self.implied_at != place:
            self.implied_at = place
            self._go_back("implied_nak", by, self.manners.reaction)

    # -- responder

    def receive(self, t):
        if t.role == "request":
            self._serve(t)
        elif t.role == "answer" and not self.dead:
            self._answer(t)
            self.pump()

    def _serve(self, t):
        if self.out_of_service:
            return
        if t.place == self.expected:
            self._execute(t)
            while self.expected in self.held:
                self._execute(self.held.pop(self.expected))
        elif t.place < self.expected:
            self._duplicate(t)
        elif self.manners.takes_out_of_order:
            self.held[t.place] = t
        elif not self.nak_sent:
            self.nak_sent = True
            self._nak("psn_sequence_error")

    def _nak(self, code):
        self._settle_ack()
        n = Transmission(self.number, "answer", "nak", wire.ACKNOWLEDGE, self.expected)
        n.code, n.msn = code, self.msn
        n.headers = wire.aeth(wire.NAK | wire.NAK_CODES[code], self.msn)
        self._answer_with(n)

    def _execute(self, t):
        if self.refuses and t.place >= self.refuses[0]:
            self.out_of_service = True
            self._nak(self.refuses[1])
            return
        takes_receive = t.kind == "send" and t.opcode in (wire.SEND_FIRST, *_SEND_ONLY) or t.opcode in _WRITE_IMMEDIATE
        if takes_receive and self.not_ready:
            self.not_ready -= 1
            self.nak_sent = True  # what follows is dropped in silence until this one comes again
            self._settle_ack()
            n = Transmission(self.number, "answer", "rnr_nak", wire.ACKNOWLEDGE, self.expected)
            n.code, n.msn = self.rnr_timer, self.msn
            n.headers = wire.aeth(wire.RNR_NAK | self.rnr_timer, self.msn)
            self._answer_with(n)
            return
        self.nak_sent = False
        if t.kind == "read":
            self._settle_ack()
            self.msn += 1
            self.expected += t.span
            self._respond(t)
        elif t.kind in ("compare_swap", "fetch_add"):
            self._settle_ack()
            self.msn += 1
            self.expected += 1
            a = Transmission(self.number, "answer", "atomic_answer", wire.ATOMIC_ACKNOWLEDGE, t.place)
            a.msn, a.message = self.msn, t.message
            a.headers = wire.aeth(self._credits(), self.msn) + struct.pack("!Q", self.connection.random.getrandbits(64))
            self.atomic_answers[t.place] = a.headers
            self._answer_with(a)
        else:
            self.newest = self.expected
            self.expected += 1
            self.msn += t.item.last
            if t.flags["ack_request"]:
                self._ack()

    def _duplicate(self, t):
        if t.kind == "read":
            self._settle_ack()
            self._respond(t)
        elif t.kind in ("compare_swap", "fetch_add"):
            self._settle_ack()
            a = Transmission(self.number, "answer", "atomic_answer", wire.ATOMIC_ACKNOWLEDGE, t.place)
            a.headers, a.msn, a.message = self.atomic_answers[t.place], self.msn, t.message
            self._answer_with(a)
        elif self.manners.acknowledges_every_duplicate:
            self._answer_with(self._acknowledgement())
        elif t.flags["ack_request"]:
            self._ack()

    def _respond(self, t):
        message, mtu = t.message, self.manners.mtu
        begin = t.place - message.first_place
        for i in range(t.span):
            opcode = (wire.RESPONSE_ONLY if t.span == 1 else wire.RESPONSE_FIRST if i == 0 else
                      wire.RESPONSE_LAST if i == t.span - 1 else wire.RESPONSE_MIDDLE)
            r = Transmission(self.number, "answer", "response", opcode, t.place + i)
            r.msn, r.message = self.msn, message
            if opcode != wire.RESPONSE_MIDDLE:
                r.headers = wire.aeth(self._credits(), self.msn)
            offset = (begin + i) * mtu
            r.payload = content(message, offset, max(0, min(mtu, message.size - offset)))
            self._answer_with(r)

    def _credits(self):
        return 0 if self.no_credits else self.manners.credits

    def _acknowledgement(self):
        place = self.newest if self.ACKNOWLEDGES_SENDS_ALONE else self.expected - 1
        a = Transmission(self.number, "answer", "ack", wire.ACKNOWLEDGE, place)
        a.msn = self.msn
        a.headers = wire.aeth(self._credits(), self.msn)
        return a

    def _answer_with(self, transmission):
        """In order, after the time that answering takes."""
        self.answer_at = max(self.clock.now + self.manners.turn + self.answer_slowly, self.answer_at)
        self.clock.at(self.answer_at, self._queue, transmission)

    def _queue(self, transmission):
        self.answers.append(lambda: transmission)
        self.pump()

    def _ack(self):
        """Acknowledges what has come when it is sent: several requests at once where they come fast."""
        if self.waiting_ack:
            return
        self.waiting_ack = {"fixed": None, "canceled": False}
        self.answer_at = max(self.clock.now + self.manners.turn + self.answer_slowly + self.manners.gathers,
                             self.answer_at)
        self.clock.at(self.answer_at, self._ack_due, self.waiting_ack)

    def _settle_ack(self):
        """Before an answer with data and before a NAK: the acknowledgement that waits must not speak of what comes after
        it."""
        if self.waiting_ack:
            if self.manners.drops_gathered and not self.withholds:
                self.waiting_ack["canceled"] = True
            else:
                self.waiting_ack["fixed"] = self._acknowledgement()
            self.waiting_ack = None

    def _ack_due(self, waiting):
        if waiting is self.waiting_ack:
            self.waiting_ack = None
        if not waiting["canceled"]:
            self._queue(waiting["fixed"] or self._acknowledgement())

    def answer_unasked(self, transmission):
        """A faulty responder."""
        self._answer_with(transmission)


_SEND_ONLY = (wire.SEND_ONLY, wire.SEND_ONLY_IMMEDIATE, wire.SEND_ONLY_INVALIDATE)
_WRITE_IMMEDIATE = (wire.WRITE_LAST_IMMEDIATE, wire.WRITE_ONLY_IMMEDIATE)


class UnreliableEnd:
    """One end of a UC connection or of two UD queue pairs: sends, and hears nothing back."""

    def __init__(self, number, connection, manners, datagrams=False, qkey=0):
        self.number, self.connection, self.manners = number, connection, manners
        self.clock, self.datagrams, self.qkey = connection.clock, datagrams, qkey
        self.planned = 0
        self.free_at = 0
        self.recoveries = []
        self.extra_spacing = 0
        self.dead = False

    @property
    def at_rest(self):
        return self.free_at < self.clock.now

    def post(self, messages):
        for message in messages:
            message.first_place, message.act = self.planned, self.connection.act
            self.connection.messages.append((self.number, message))
            for opcode, offset, length, last in segment(message, self.manners.mtu):
                if self.datagrams:
                    opcode = wire.UD_SEND_ONLY if message.immediate is None else wire.UD_SEND_ONLY_IMMEDIATE
                else:
                    opcode |= wire.UC
                t = Transmission(self.number, "request", message.kind, opcode, self.planned)
                if self.datagrams:
                    t.headers = wire.deth(self.qkey, self.connection.qps[self.number])
                    if message.immediate is not None:
                        t.headers += struct.pack("!I", message.immediate)
                else:
                    plain = Item(self.planned, 1, opcode & 0x1F, message, offset, length, last)
                    t.headers = request_headers(plain, message, offset, message.size)
                t.payload = content(message, offset, length)
                t.flags = {"solicited": message.solicited and last}
                t.message = message
                message.transmissions.append(t)
                self.free_at = max(self.free_at, self.clock.now) + self.manners.spacing
                self.clock.at(self.free_at, self.connection.send, self, t)
                self.planned += 1
            message.last_place = self.planned - 1

    def receive(self, transmission):
        pass


class Connection:
    """Two ends and the network between them. `captured()` gives what the capturing point saw."""

    def __init__(self, random, service, hosts, qps, first_psns, manners, begin, source_ports, path, evidence=None):
        self.random, self.service, self.hosts, self.qps, self.first_psns = random, service, hosts, qps, first_psns
        self.clock = Clock(begin)
        self.begin = begin
        # path: (ns from host 0 to the capturing point, ns from there to host 1)
        self.network = Network(self.clock, random, path, (path[1], path[0]))
        self.messages = []
        self.act = 0
        self.rnr_wait = None
        self.source_ports = list(source_ports)
        self.evidence = evidence
        self.identifications = [random.randrange(1 << 16), random.randrange(1 << 16)]
        self.extra_frames = []     # (time, bytes, sender) of the exchange that made the connection, and ended it
        self.told = []             # truth that an act states by itself: truth.py
        self.name = service
        self.clean = False         # nothing is wrong with it
        self.one_direction = None  # the capture has only what this end sent
        self.rewritten = None      # (end, address): the capture shows that address for it
        self.replaces = None       # the connection that had its queue pairs before
        if service == "rc":
            self.ends = [ReliableEnd(i, self, manners[i]) for i in (0, 1)]
        else:
            qkey = random.getrandbits(31)
            self.ends = [UnreliableEnd(i, self, manners[i], service == "ud", qkey) for i in (0, 1)]
        self.network.endpoints = self.ends

    def send(self, end, t):
        """A packet leaves its end."""
        t.act = self.act
        requester = end.number if t.role == "request" else 1 - end.number
        t.psn = (self.first_psns[requester] + t.place) % wire.PSNS
        t.qp = self.qps[1 - end.number]
        t.source_port = self.source_ports[end.number]
        if end.manners.counts_identification:
            self.identifications[end.number] = (self.identifications[end.number] + 1) & 0xFFFF
            t.identification = self.identifications[end.number]
        t.traffic_class = end.manners.traffic_class if t.role == "request" else end.manners.ack_traffic_class
        self.network.carry(t)

    def cnp(self, sender):
        """A congestion notification to the other end. IBTA vol 1, A17.9.3."""
        t = Transmission(sender, "notification", "cnp", wire.CNP, 0)
        t.payload = bytes(16)
        t.flags = {"becn": True, "migrated": False}
        self.send(self.ends[sender], t)
        t.psn = 0
        t.traffic_class = 48 << 2
        return t

    def settle(self):
        """Runs until every request is answered, or given up, and nothing is on its way."""
        while not self._settled() and self.clock.step():
            pass

    def _settled(self):
        return self.network.in_flight == 0 and all(end.at_rest for end in self.ends)

    def bytes(self, captured):
        t = captured.transmission
        manners = self.ends[t.sender].manners
        fields = {"pkey": manners.pkey, "migrated": manners.migrated, "ttl": manners.ttl, **t.flags, **t.overrides}
        headers, payload = fields.pop("headers", t.headers), fields.pop("payload", t.payload)
        opcode, psn = fields.pop("opcode", t.opcode), fields.pop("psn", t.psn)
        frame = wire.Roce(self.hosts[t.sender], self.hosts[1 - t.sender], opcode, t.qp, psn, t.source_port, headers,
                          payload, identification=t.identification, traffic_class=t.traffic_class, **fields).bytes()
        return captured.change(frame) if captured.change else frame
