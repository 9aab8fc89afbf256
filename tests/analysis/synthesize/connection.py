"""Two endpoints that behave as specified: requester and responder of RC, senders of UC and UD.

IBTA vol 1, 9.7 (reliable service), 9.8 (unreliable). `Behavior` holds the properties in which real adapters differ:
which packets request an acknowledgement, ACK coalescing, the delay after a NAK, acknowledgement of duplicates. Its
values are drawn at random for each endpoint.
"""

import bisect
import random as random_module
import struct
from collections import deque
from dataclasses import dataclass, field

from . import wire
from .network import MICROSECOND, MILLISECOND, Clock, Network, Transmission


@dataclass
class Behavior:
    """Properties of one endpoint that the specification leaves open."""
    mtu: int = 1024
    window: int = 64                        # outstanding packets
    max_reads: int = 16                     # outstanding READs and atomics
    packet_time: int = 100                  # ns for the transmission of a packet
    response_delay: int = 2 * MICROSECOND   # ns from a request to its response
    nak_reaction: int = 10 * MICROSECOND    # ns from a NAK to the retransmission
    stops_at_nak: bool = True               # sends no new requests between a NAK and the retransmission
    timeout: int = 17 * MILLISECOND
    retries: int = 7
    ack_request_rate: float = 1.0           # probability that the last packet of a message requests an ACK
    ack_delay: int = 0                      # ns, for ACK coalescing
    read_response_replaces_ack: bool = False  # a READ response replaces a delayed ACK
    acknowledges_every_duplicate: bool = False
    accepts_out_of_order: bool = False
    credits: int = wire.NO_CREDITS
    traffic_class: int = 0
    ack_traffic_class: int = 0
    pkey: int = 0xFFFF
    migrated: bool = True
    ttl: int = 64
    increments_identification: bool = True

    @classmethod
    def draw(cls, random):
        mtu = random.choice((256, 256, 256, 512, 512, 1024, 1024, 2048, 4096))
        packet_time = max(70, mtu * 8 // random.choice((25, 40, 100))) + random.randrange(30)
        soft = random.random() < .4  # a software stack: slower, increments the IP identification
        return cls(
            mtu=mtu, window=random.choice((16, 32, 64, 128)), max_reads=random.choice((1, 2, 4, 16)),
                packet_time=packet_time,
            response_delay=random.randrange(1_500, 4_000) * (4 if soft else 1),
            nak_reaction=random.randrange(2_000, 60_000), stops_at_nak=random.random() < .6,
            timeout=round(4096 * 2 ** random.choice((10, 11, 12, 13, 14)) * random.uniform(1, 2)),
            ack_request_rate=random.choice((1.0, 1.0, .5, .1)), ack_delay=random.choice((0, 0, 500, 3000)),
            read_response_replaces_ack=random.random() < .5, acknowledges_every_duplicate=soft,
            credits=random.choice((wire.NO_CREDITS, wire.NO_CREDITS, random.randrange(11, 30))),
            traffic_class=random.choice((0, 2, 2, 0x68 | 2)), ack_traffic_class=random.choice((0, 2, 0x68)),
            ttl=random.choice((64, 64, 63, 62)), increments_identification=soft)


@dataclass(eq=False)
class Message:
    kind: str  # a name of MessageKind
    size: int
    immediate: int | None = None
    invalidate: int | None = None
    solicited: bool = False
    address: int = 0
    key: int = 0
    operand: int = 0
    compare: int = 0
    # Set by the requester
    first_seq: int = 0
    last_seq: int = 0
    phase: int = 0
    transmissions: list = field(default_factory=list)


class Item:
    """A planned request packet: a part of a message, or a READ request, whose span is its number of responses."""

    __slots__ = ("seq", "span", "opcode", "message", "offset", "length", "ack_request", "last", "overrides",
                 "sent_times")

    def __init__(self, seq, span, opcode, message, offset, length, last):
        self.seq, self.span, self.opcode, self.message = seq, span, opcode, message
        self.offset, self.length, self.last = offset, length, last
        self.ack_request = False
        self.overrides = {}
        self.sent_times = 0

    @property
    def needs_data_response(self):
        """True for READs and atomics: an acknowledgement does not complete them."""
        return self.opcode in (wire.READ_REQUEST, wire.COMPARE_SWAP, wire.FETCH_ADD)


class Recovery:
    """One go-back-N episode and its retransmissions."""

    def __init__(self, end, cause, by, seq, time):
        self.end, self.cause, self.by, self.seq, self.time = end, cause, by, seq, time
        self.transmissions = []


def segment(message, mtu):
    """Return (opcode, offset, length, is last) of each RC packet. A READ is one packet."""
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


_FILLER = random_module.Random(0).randbytes(1 << 16)  # not recognized as an upper-layer header


def content(message, offset, length):
    begin = (message.address + offset) & 0x7FFF
    return _FILLER[begin:begin + length]


class ReliableEndpoint:
    """One endpoint of an RC connection: a requester and a responder that share a port."""

    # True: an ACK contains the PSN of the last SEND or RDMA WRITE (C9-105). False: of the last request of any kind.
    ACKNOWLEDGES_ONLY_SENDS = False

    def __init__(self, number, connection, behavior):
        self.number, self.connection, self.behavior = number, connection, behavior
        self.clock, self.network = connection.clock, connection.network
        # requester
        self.items, self.seqs = [], []
        self.next = 0              # index of the next item to send
        self.sent_items = 0        # items with a smaller index were sent at least once
        self.oldest_unacked = 0    # sequence number
        self.planned = 0           # sequence numbers assigned
        self.resume_at = 0         # the endpoint sends no requests before this time
        self.progress = 0  # time of the last acknowledgement that advanced oldest_unacked
        self.attempts = 0
        self.dead = False
        self.recoveries, self.recovery = [], None
        self.going_back = False
        self.implied_at = -1
        self.since_ack_request = 0
        self.timer_runs = False
        # responder
        self.expected = 0
        self.last_send = -1        # sequence number of the last executed SEND or RDMA WRITE
        self.msn = 0
        self.nak_sent = False
        self.out_of_service = False
        self.pending_ack = None
        self.respond_at = 0
        self.buffered = {}
        self.atomic_responses = {}
        self.not_ready = 0  # number of SENDs to reject because no receive is posted
        self.rnr_timer = 1
        self.rejects = None  # (seq, code): requests from `seq` on are rejected with this NAK
        self.extra_response_delay = 0  # ns, added to response_delay
        self.no_credits = False
        # port
        self.responses = deque()
        self.free_at = 0
        self.pumping = False

    # -- port: sends one packet at a time, and responses before requests

    def pump(self):
        if not self.pumping:
            self.pumping = True
            self.clock.at(max(self.free_at, self.clock.now), self._slot)

    def _slot(self):
        self.pumping = False
        sent = None
        if self.responses:
            sent = self.responses.popleft()()
        elif not self.dead:
            sent = self._next_request()
        if sent is None:
            return
        self.connection.send(self, sent)
        self.free_at = self.clock.now + self.behavior.packet_time
        self.pump()

    # -- requester

    def post(self, messages):
        """Post requests. The last packet of the last message always requests an acknowledgement."""
        for number, message in enumerate(messages):
            message.first_seq = self.planned
            message.phase = self.connection.phase
            self.connection.messages.append((self.number, message))
            for opcode, offset, length, last in segment(message, self.behavior.mtu):
                span = max(1, -(-message.size // self.behavior.mtu)) if opcode == wire.READ_REQUEST else 1
                item = Item(self.planned, span, opcode, message, offset, length, last)
                self.since_ack_request += 1
                if not item.needs_data_response:
                    item.ack_request = (last and (number == len(messages) - 1 or
                                          self.connection.random.random() < self.behavior.ack_request_rate) or
                                self.since_ack_request >= self.behavior.window // 2)
                if item.ack_request or item.needs_data_response:
                    self.since_ack_request = 0
                self.items.append(item)
                self.seqs.append(item.seq)
                self.planned += span
            message.last_seq = self.planned - 1
        self.pump()

    def index_of(self, seq):
        return bisect.bisect_right(self.seqs, seq) - 1

    @property
    def idle(self):
        """True if all requests are complete or given up, and all responses are sent."""
        return ((self.dead or self.oldest_unacked == self.planned) and not self.responses and
                self.respond_at < self.clock.now and not self.pending_ack)

    def _next_request(self):
        if self.clock.now < self.resume_at or self.going_back and self.behavior.stops_at_nak:
            if self.clock.now < self.resume_at:
                self.clock.at(self.resume_at, self.pump)
            return None
        item = self.items[self.next] if self.next < len(self.items) else None
        if item and item.seq + item.span <= self.oldest_unacked:
            self.next = self.index_of(self.oldest_unacked) if self.oldest_unacked < self.planned else len(self.items)
        if self.next >= len(self.items):
            return None
        item = self.items[self.next]
        oldest = self.index_of(self.oldest_unacked)
        if self.next > oldest:
            if item.seq + item.span - self.oldest_unacked > max(self.behavior.window, item.span):
                return None
            if item.needs_data_response and sum(
                    other.needs_data_response for other in self.items[oldest:self.next]) >= self.behavior.max_reads:
                return None
        offset, seq = item.offset, item.seq
        if item.opcode == wire.READ_REQUEST and self.oldest_unacked > seq:  # the remaining part
            offset += (self.oldest_unacked - seq) * self.behavior.mtu
            seq = self.oldest_unacked
        message = item.message
        t = Transmission(self.number, "request", message.kind, item.opcode, seq, item.seq + item.span - seq)
        t.headers = request_headers(item, message, offset, message.size - (offset if message.kind == "read" else 0))
        t.payload = content(message, offset, item.length)
        t.flags = {"ack_request": (item.ack_request or item.sent_times > 0 and item.last and
                                   not item.needs_data_response),
                   "solicited": message.solicited and item.last}
        t.overrides = dict(item.overrides) if item.sent_times == 0 else {}
        t.item, t.message = item, message
        t.retransmission = self.next < self.sent_items
        item.sent_times += 1
        message.transmissions.append(t)
        if t.retransmission and self.recovery:
            t.recovery = self.recovery
            self.recovery.transmissions.append(t)
        else:
            self.recovery = None
        self.next += 1
        self.sent_items = max(self.sent_items, self.next)
        if oldest == self.next - 1 or not self.timer_runs:
            self.progress = self.clock.now
        self._start_timer()
        return t

    def _start_timer(self):
        if not self.timer_runs:
            self.timer_runs = True
            self.clock.at(self.progress + self.behavior.timeout, self._timer)

    def _timer(self):
        self.timer_runs = False
        if self.dead or self.oldest_unacked >= self._sent_seqs():
            return
        due = max(self.progress + self.behavior.timeout, self.resume_at)
        if self.going_back or self.clock.now < due:
            self.timer_runs = True
            self.clock.at(max(due, self.clock.now + self.behavior.nak_reaction), self._timer)
            return
        self.attempts += 1
        if self.attempts > self.behavior.retries:
            self.dead = True
            return
        self._start_recovery("timeout", None)
        self._start_timer()

    def _sent_seqs(self):
        return self.items[self.sent_items - 1].seq + self.items[self.sent_items - 1].span if self.sent_items else 0

    def _schedule_recovery(self, cause, by, wait):
        if self.going_back:
            return
        self.going_back = True
        self.clock.after(wait, self._recover, cause, by)

    def _recover(self, cause, by):
        self.going_back = False
        if not self.dead:
            self._start_recovery(cause, by)

    def _start_recovery(self, cause, by):
        self.progress = self.clock.now
        if self.oldest_unacked < self._sent_seqs():
            index = self.index_of(self.oldest_unacked)
            if index < self.next:
                self.next = index
                self.recovery = Recovery(self.number, cause, by, self.oldest_unacked, self.clock.now)
                self.recoveries.append(self.recovery)
        self.pump()

    def _advance(self, seq):
        if seq > self.oldest_unacked:
            self.oldest_unacked, self.progress, self.attempts = seq, self.clock.now, 0

    def _oldest_incomplete_response(self):
        """Return the sequence number of the next response of the oldest incomplete READ or atomic, or None."""
        if self.oldest_unacked >= self.planned:
            return None
        for item in self.items[self.index_of(self.oldest_unacked):self.sent_items]:
            if item.needs_data_response:
                return max(self.oldest_unacked, item.seq)
        return None

    def _handle_response(self, t):
        incomplete = self._oldest_incomplete_response()
        if t.kind in ("read_response", "atomic_response"):
            if incomplete is None or t.seq < incomplete:
                return
            if t.seq == incomplete:
                self._advance(t.seq + 1)
            else:
                self._advance(incomplete)
                self._on_implied_nak(incomplete, t)
            return
        upto = t.seq if t.kind == "ack" else t.seq - 1
        if upto >= self._sent_seqs():
            return  # unsolicited
        if incomplete is not None and incomplete <= upto:
            self._advance(incomplete)
            self._on_implied_nak(incomplete, t)
            return
        self._advance(upto + 1)
        if t.kind == "nak":
            if t.code == "psn_sequence_error":
                self._schedule_recovery("sequence_error_nak", t, self.behavior.nak_reaction)
            else:
                self.dead = True
        elif t.kind == "rnr_nak":
            wait = max(wire.RNR_TIMERS[t.code], self.connection.rnr_wait or 0)
            wait += wait // 50 + self.connection.random.randrange(1_000, 5_000)
            self.resume_at = self.clock.now + wait
            self._schedule_recovery("rnr", t, wait)

    def _on_implied_nak(self, seq, by):
        if self.implied_at != seq:
            self.implied_at = seq
            self._schedule_recovery("implied_nak", by, self.behavior.nak_reaction)

    # -- responder

    def receive(self, t):
        if t.role == "request":
            self._handle_request(t)
        elif t.role == "response" and not self.dead:
            self._handle_response(t)
            self.pump()

    def _handle_request(self, t):
        if self.out_of_service:
            return
        if t.seq == self.expected:
            self._execute(t)
            while self.expected in self.buffered:
                self._execute(self.buffered.pop(self.expected))
        elif t.seq < self.expected:
            self._duplicate(t)
        elif self.behavior.accepts_out_of_order:
            self.buffered[t.seq] = t
        elif not self.nak_sent:
            self.nak_sent = True
            self._nak("psn_sequence_error")

    def _nak(self, code):
        self._flush_ack()
        n = Transmission(self.number, "response", "nak", wire.ACKNOWLEDGE, self.expected)
        n.code, n.msn = code, self.msn
        n.headers = wire.aeth(wire.NAK | wire.NAK_CODES[code], self.msn)
        self._respond_with(n)

    def _execute(self, t):
        if self.rejects and t.seq >= self.rejects[0]:
            self.out_of_service = True
            self._nak(self.rejects[1])
            return
        takes_receive = t.kind == "send" and t.opcode in (wire.SEND_FIRST, *_SEND_ONLY) or t.opcode in _WRITE_IMMEDIATE
        if takes_receive and self.not_ready:
            self.not_ready -= 1
            self.nak_sent = True  # following requests are dropped until the retransmission
            self._flush_ack()
            n = Transmission(self.number, "response", "rnr_nak", wire.ACKNOWLEDGE, self.expected)
            n.code, n.msn = self.rnr_timer, self.msn
            n.headers = wire.aeth(wire.RNR_NAK | self.rnr_timer, self.msn)
            self._respond_with(n)
            return
        self.nak_sent = False
        if t.kind == "read":
            self._flush_ack()
            self.msn += 1
            self.expected += t.span
            self._send_read_responses(t)
        elif t.kind in ("compare_swap", "fetch_add"):
            self._flush_ack()
            self.msn += 1
            self.expected += 1
            a = Transmission(self.number, "response", "atomic_response", wire.ATOMIC_ACKNOWLEDGE, t.seq)
            a.msn, a.message = self.msn, t.message
            a.headers = wire.aeth(self._credits(), self.msn) + struct.pack("!Q", self.connection.random.getrandbits(64))
            self.atomic_responses[t.seq] = a.headers
            self._respond_with(a)
        else:
            self.last_send = self.expected
            self.expected += 1
            self.msn += t.item.last
            if t.flags["ack_request"]:
                self._ack()

    def _duplicate(self, t):
        if t.kind == "read":
            self._flush_ack()
            self._send_read_responses(t)
        elif t.kind in ("compare_swap", "fetch_add"):
            self._flush_ack()
            a = Transmission(self.number, "response", "atomic_response", wire.ATOMIC_ACKNOWLEDGE, t.seq)
            a.headers, a.msn, a.message = self.atomic_responses[t.seq], self.msn, t.message
            self._respond_with(a)
        elif self.behavior.acknowledges_every_duplicate:
            self._respond_with(self._acknowledgement())
        elif t.flags["ack_request"]:
            self._ack()

    def _send_read_responses(self, t):
        message, mtu = t.message, self.behavior.mtu
        begin = t.seq - message.first_seq
        for i in range(t.span):
            opcode = (wire.RESPONSE_ONLY if t.span == 1 else wire.RESPONSE_FIRST if i == 0 else
                      wire.RESPONSE_LAST if i == t.span - 1 else wire.RESPONSE_MIDDLE)
            r = Transmission(self.number, "response", "read_response", opcode, t.seq + i)
            r.msn, r.message = self.msn, message
            if opcode != wire.RESPONSE_MIDDLE:
                r.headers = wire.aeth(self._credits(), self.msn)
            offset = (begin + i) * mtu
            r.payload = content(message, offset, max(0, min(mtu, message.size - offset)))
            self._respond_with(r)

    def _credits(self):
        return 0 if self.no_credits else self.behavior.credits

    def _acknowledgement(self):
        seq = self.last_send if self.ACKNOWLEDGES_ONLY_SENDS else self.expected - 1
        a = Transmission(self.number, "response", "ack", wire.ACKNOWLEDGE, seq)
        a.msn = self.msn
        a.headers = wire.aeth(self._credits(), self.msn)
        return a

    def _respond_with(self, transmission):
        """Send a response after the response delay, in order."""
        due = self.clock.now + self.behavior.response_delay + self.extra_response_delay
        self.respond_at = max(due, self.respond_at)
        self.clock.at(self.respond_at, self._queue, transmission)

    def _queue(self, transmission):
        self.responses.append(lambda: transmission)
        self.pump()

    def _ack(self):
        """Schedule an acknowledgement. When sent, it covers all requests received until then."""
        if self.pending_ack:
            return
        self.pending_ack = {"fixed": None, "canceled": False}
        due = self.clock.now + self.behavior.response_delay + self.extra_response_delay + self.behavior.ack_delay
        self.respond_at = max(due, self.respond_at)
        self.clock.at(self.respond_at, self._ack_due, self.pending_ack)

    def _flush_ack(self):
        """Send or cancel the delayed ACK before a data response or a NAK, so that it does not cover later requests."""
        if self.pending_ack:
            if self.behavior.read_response_replaces_ack:
                self.pending_ack["canceled"] = True
            else:
                self.pending_ack["fixed"] = self._acknowledgement()
            self.pending_ack = None

    def _ack_due(self, waiting):
        if waiting is self.pending_ack:
            self.pending_ack = None
        if not waiting["canceled"]:
            self._queue(waiting["fixed"] or self._acknowledgement())

    def send_stray(self, transmission):
        """Send an unsolicited response, as a faulty responder does."""
        self._respond_with(transmission)


_SEND_ONLY = (wire.SEND_ONLY, wire.SEND_ONLY_IMMEDIATE, wire.SEND_ONLY_INVALIDATE)
_WRITE_IMMEDIATE = (wire.WRITE_LAST_IMMEDIATE, wire.WRITE_ONLY_IMMEDIATE)


class UnreliableEndpoint:
    """One endpoint of a UC connection or of two UD QPs. It only sends."""

    def __init__(self, number, connection, behavior, datagrams=False, qkey=0):
        self.number, self.connection, self.behavior = number, connection, behavior
        self.clock, self.datagrams, self.qkey = connection.clock, datagrams, qkey
        self.planned = 0
        self.free_at = 0
        self.recoveries = []
        self.dead = False

    @property
    def idle(self):
        return self.free_at < self.clock.now

    def post(self, messages):
        for message in messages:
            message.first_seq, message.phase = self.planned, self.connection.phase
            self.connection.messages.append((self.number, message))
            for opcode, offset, length, last in segment(message, self.behavior.mtu):
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
                self.free_at = max(self.free_at, self.clock.now) + self.behavior.packet_time
                self.clock.at(self.free_at, self.connection.send, self, t)
                self.planned += 1
            message.last_seq = self.planned - 1

    def receive(self, transmission):
        pass


class Connection:
    """Two endpoints and the network between them. `bytes()` returns the bytes of a captured frame."""

    def __init__(self, random, service, hosts, qps, first_psns, behavior, begin, source_ports, path, evidence=None):
        self.random, self.service, self.hosts, self.qps, self.first_psns = random, service, hosts, qps, first_psns
        self.clock = Clock(begin)
        self.begin = begin
        # path: (ns from host 0 to the capture point, ns from there to host 1)
        self.network = Network(self.clock, random, path, (path[1], path[0]))
        self.messages = []
        self.phase = 0
        self.rnr_wait = None
        self.source_ports = list(source_ports)
        self.evidence = evidence
        self.identifications = [random.randrange(1 << 16), random.randrange(1 << 16)]
        self.extra_frames = []  # (time, bytes, sender) of the exchange that establishes or closes the connection
        self.injected = []         # InjectedEvents: expected events that truth.py cannot derive
        self.name = service
        self.clean = False  # the connection has no fault
        self.one_direction = None  # the capture contains only packets of this endpoint
        self.rewritten = None  # (end, address): the capture contains this address instead of the endpoint's
        self.replaces = None  # the connection that previously used its QPs
        if service == "rc":
            self.ends = [ReliableEndpoint(i, self, behavior[i]) for i in (0, 1)]
        else:
            qkey = random.getrandbits(31)
            self.ends = [UnreliableEndpoint(i, self, behavior[i], service == "ud", qkey) for i in (0, 1)]
        self.network.endpoints = self.ends

    def send(self, end, t):
        """Send a packet of an endpoint."""
        t.phase = self.phase
        requester = end.number if t.role == "request" else 1 - end.number
        t.psn = (self.first_psns[requester] + t.seq) % wire.PSNS
        t.qp = self.qps[1 - end.number]
        t.source_port = self.source_ports[end.number]
        if end.behavior.increments_identification:
            self.identifications[end.number] = (self.identifications[end.number] + 1) & 0xFFFF
            t.identification = self.identifications[end.number]
        t.traffic_class = end.behavior.traffic_class if t.role == "request" else end.behavior.ack_traffic_class
        self.network.carry(t)

    def cnp(self, sender):
        """Send a CNP to the other endpoint. IBTA vol 1, A17.9.3."""
        t = Transmission(sender, "notification", "cnp", wire.CNP, 0)
        t.payload = bytes(16)
        t.flags = {"becn": True, "migrated": False}
        self.send(self.ends[sender], t)
        t.psn = 0
        t.traffic_class = 48 << 2
        return t

    def settle(self):
        """Run until every request is complete or given up and no packet is in flight."""
        while not self._settled() and self.clock.step():
            pass

    def _settled(self):
        return self.network.in_flight == 0 and all(end.idle for end in self.ends)

    def bytes(self, captured):
        t = captured.transmission
        behavior = self.ends[t.sender].behavior
        fields = {"pkey": behavior.pkey, "migrated": behavior.migrated, "ttl": behavior.ttl, **t.flags, **t.overrides}
        headers, payload = fields.pop("headers", t.headers), fields.pop("payload", t.payload)
        opcode, psn = fields.pop("opcode", t.opcode), fields.pop("psn", t.psn)
        frame = wire.Roce(self.hosts[t.sender], self.hosts[1 - t.sender], opcode, t.qp, psn, t.source_port, headers,
                          payload, identification=t.identification, traffic_class=t.traffic_class, **fields).bytes()
        return captured.change(frame) if captured.change else frame
