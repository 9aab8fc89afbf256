"""Simulated time, and the path between two hosts with the capture point."""

import heapq
from dataclasses import dataclass

MICROSECOND, MILLISECOND, SECOND = 1_000, 1_000_000, 1_000_000_000


class Clock:
    """Runs callbacks in order of time. Callbacks for the same time run in the order of registration."""

    def __init__(self, now):
        self.now = now
        self._due = []
        self._registered = 0

    def at(self, time, callback, *arguments):
        self._registered += 1
        heapq.heappush(self._due, (max(time, self.now), self._registered, callback, arguments))

    def after(self, delay, callback, *arguments):
        self.at(self.now + delay, callback, *arguments)

    def step(self):
        """Run the next callback. Return False if none is left."""
        if not self._due:
            return False
        self.now, _, callback, arguments = heapq.heappop(self._due)
        callback(*arguments)
        return True

    def run(self, until):
        while self._due and self._due[0][0] <= until:
            self.step()
        self.now = max(self.now, until)


class Transmission:
    """One transmission of a packet. `seq` is its PSN relative to the first PSN, without wraparound."""

    __slots__ = ("sender", "role", "kind", "opcode", "seq", "span", "psn", "qp", "headers", "payload", "flags", "phase",
                 "sent", "lost", "arrived", "dropped", "captures", "retransmission", "recovery", "item", "msn", "code",
                 "overrides",
                 "index", "source_port", "identification", "traffic_class", "message")

    def __init__(self, sender, role, kind, opcode, seq, span=1):
        self.sender, self.role, self.kind, self.opcode, self.seq, self.span = sender, role, kind, opcode, seq, span
        self.headers = self.payload = b""
        self.flags = {}  # arguments of wire.Roce: solicited, ack_request, …
        self.overrides = {}  # arguments that a faulty sender changes
        self.phase = 0           # the phase of the connection
        self.lost = None  # lost "before" or "after" the capture point, or only in the "capture"
        self.arrived = None  # time of reception
        self.dropped = None  # the reason why the receiver drops it silently
        self.captures = []
        self.retransmission, self.recovery = False, None
        self.item = self.message = None
        self.msn = self.code = 0
        self.psn = self.qp = 0
        self.identification = self.source_port = self.traffic_class = 0
        self.index = 0
        self.sent = 0


class Captured:
    """A captured transmission. `change` modifies its bytes, like corruption after the sender."""

    __slots__ = ("time", "transmission", "change", "number", "duplicate")

    def __init__(self, time, transmission, change=None, duplicate=False):
        self.time, self.transmission, self.change, self.duplicate = time, transmission, change, duplicate
        self.number = 0


@dataclass
class Impairment:
    """The impairment of one transmission."""
    lost: str | None = None
    delay_before: int = 0           # ns, does not delay later packets
    delay_in_capture: int = 0       # ns, only the capture is reordered
    queue_delay_after: int = 0      # ns, delays later packets too
    duplicates_in_capture: int = 0  # additional captures of the packet
    duplicates: int = 0             # additional packets, created before the capture point
    change: object = None           # bytes → bytes, before the capture point
    change_in_capture: object = None  # bytes → bytes, only in the capture
    dropped: str | None = None  # the reason why the receiver drops it: invalid CRC, wrong P_Key
    mark: bool = False              # a switch before the capture point ECN-marks the packet (CE)


class Network:
    """Two FIFO directions. `before` and `after`: ns from each sender to the capture point, and from there to the
    receiver."""

    def __init__(self, clock, random, before, after):
        self.clock, self.random, self.before, self.after = clock, random, before, after
        self.rules = []  # transmission → Impairment or None. The first Impairment applies
        self.endpoints = []    # the two endpoints, by number
        self.transmissions = []
        self.in_flight = 0
        self._captured_until, self._arrived_until = [0, 0], [0, 0]

    def carry(self, transmission):
        sender, now = transmission.sender, self.clock.now
        transmission.index = len(self.transmissions)
        self.transmissions.append(transmission)
        transmission.sent = now
        impairment = None
        for rule in self.rules:
            impairment = rule(transmission)
            if impairment:
                break
        impairment = impairment or Impairment()
        transmission.lost, transmission.dropped = impairment.lost, impairment.dropped
        if impairment.lost == "before":
            return
        seen = now + self.before[sender] + self.random.randrange(20)
        if impairment.delay_before:
            seen += impairment.delay_before
        else:
            seen = self._captured_until[sender] = max(seen, self._captured_until[sender] + 1)
        if impairment.mark:
            transmission.traffic_class |= 3
        change = impairment.change_in_capture or impairment.change
        if impairment.lost != "capture":
            for duplicate in range(1 + impairment.duplicates + impairment.duplicates_in_capture):
                time = seen + impairment.delay_in_capture + duplicate * 90
                transmission.captures.append(Captured(time, transmission, change, duplicate > 0))
            if impairment.duplicates + impairment.duplicates_in_capture:
                self._captured_until[sender] = max(self._captured_until[sender], transmission.captures[-1].time)
        if impairment.lost == "after":
            return
        arrival = seen + self.after[sender] + impairment.queue_delay_after
        if not impairment.delay_before:
            arrival = self._arrived_until[sender] = max(arrival, self._arrived_until[sender] + 1)
        for duplicate in range(1 + impairment.duplicates):
            self.in_flight += 1
            self.clock.at(arrival + duplicate * 90, self._deliver, transmission)

    def _deliver(self, transmission):
        self.in_flight -= 1
        if transmission.arrived is None:
            transmission.arrived = self.clock.now
        if not transmission.dropped:
            self.endpoints[1 - transmission.sender].receive(transmission)
