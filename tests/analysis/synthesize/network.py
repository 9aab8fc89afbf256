"""Time, and the way between two hosts with the capturing point on it."""

import heapq
from dataclasses import dataclass

MICROSECOND, MILLISECOND, SECOND = 1_000, 1_000_000, 1_000_000_000


class Clock:
    """Runs what is due in order of time; what is due at the same time, in the order in which it was asked for."""

    def __init__(self, now):
        self.now = now
        self._due = []
        self._asked = 0

    def at(self, time, what, *arguments):
        self._asked += 1
        heapq.heappush(self._due, (max(time, self.now), self._asked, what, arguments))

    def after(self, delay, what, *arguments):
        self.at(self.now + delay, what, *arguments)

    def step(self):
        """Whether anything was due."""
        if not self._due:
            return False
        self.now, _, what, arguments = heapq.heappop(self._due)
        what(*arguments)
        return True

    def run(self, until):
        while self._due and self._due[0][0] <= until:
            self.step()
        self.now = max(self.now, until)


class Transmission:
    """One packet as it was sent once. `place` is its PSN counted from the first of its requests, without end."""

    __slots__ = ("sender", "role", "kind", "opcode", "place", "span", "psn", "qp", "headers", "payload", "flags", "act",
                 "sent", "lost", "arrived", "refused", "captures", "again", "round", "item", "msn", "code", "overrides",
                 "index", "source_port", "identification", "traffic_class", "message")

    def __init__(self, sender, role, kind, opcode, place, span=1):
        self.sender, self.role, self.kind, self.opcode, self.place, self.span = sender, role, kind, opcode, place, span
        self.headers = self.payload = b""
        self.flags = {}          # of wire.Roce: solicited, ack_request, …
        self.overrides = {}      # likewise, of a faulty sender
        self.act = 0             # which part of the connection's story it belongs to
        self.lost = None         # "before", "after": the capturing point; "capture": by the capture alone
        self.arrived = None      # when the receiver took it
        self.refused = None      # why the receiver drops it without a word
        self.captures = []
        self.again, self.round = False, None
        self.item = self.message = None
        self.msn = self.code = 0
        self.psn = self.qp = 0
        self.identification = self.source_port = self.traffic_class = 0
        self.index = 0
        self.sent = 0


class Captured:
    """A transmission where the capture has it. `change` makes other bytes of it, as damage after the sender does."""

    __slots__ = ("time", "transmission", "change", "number", "copy")

    def __init__(self, time, transmission, change=None, copy=False):
        self.time, self.transmission, self.change, self.copy = time, transmission, change, copy
        self.number = 0


@dataclass
class Fate:
    """What happens to one transmission on its way."""
    lost: str | None = None
    late_before: int = 0      # ns; does not hold up those behind it
    late_in_capture: int = 0  # ns; the capture's order is wrong, the receiver's is not
    late_after: int = 0       # ns; holds up those behind it: a queue
    copies_captured: int = 0  # further copies that the capture alone has
    copies: int = 0           # further copies that the network makes before the capturing point
    change: object = None     # bytes → bytes, on the way before the capturing point
    change_in_capture: object = None  # the same, on the way to the capture only
    refused: str | None = None  # the receiver drops it: bad CRC, wrong P_Key
    mark: bool = False        # a switch before the capturing point marks it: congestion experienced


class Network:
    """Two directions, each first in, first out. `before` and `after`: ns from the sender to the capturing point and
    from there to the receiver, by sender."""

    def __init__(self, clock, random, before, after):
        self.clock, self.random, self.before, self.after = clock, random, before, after
        self.rules = []        # transmission → Fate or None; the first that says something holds
        self.endpoints = []    # two, by number
        self.transmissions = []
        self.in_flight = 0
        self._captured_until, self._arrived_until = [0, 0], [0, 0]

    def carry(self, transmission):
        sender, now = transmission.sender, self.clock.now
        transmission.index = len(self.transmissions)
        self.transmissions.append(transmission)
        transmission.sent = now
        fate = None
        for rule in self.rules:
            fate = rule(transmission)
            if fate:
                break
        fate = fate or Fate()
        transmission.lost, transmission.refused = fate.lost, fate.refused
        if fate.lost == "before":
            return
        seen = now + self.before[sender] + self.random.randrange(20)
        if fate.late_before:
            seen += fate.late_before
        else:
            seen = self._captured_until[sender] = max(seen, self._captured_until[sender] + 1)
        if fate.mark:
            transmission.traffic_class |= 3
        change = fate.change_in_capture or fate.change
        if fate.lost != "capture":
            for copy in range(1 + fate.copies + fate.copies_captured):
                transmission.captures.append(Captured(seen + fate.late_in_capture + copy * 90, transmission, change, copy > 0))
            if fate.copies + fate.copies_captured:
                self._captured_until[sender] = max(self._captured_until[sender], transmission.captures[-1].time)
        if fate.lost == "after":
            return
        arrival = seen + self.after[sender] + fate.late_after
        if not fate.late_before:
            arrival = self._arrived_until[sender] = max(arrival, self._arrived_until[sender] + 1)
        for copy in range(1 + fate.copies):
            self.in_flight += 1
            self.clock.at(arrival + copy * 90, self._deliver, transmission)

    def _deliver(self, transmission):
        self.in_flight -= 1
        if transmission.arrived is None:
            transmission.arrived = self.clock.now
        if not transmission.refused:
            self.endpoints[1 - transmission.sender].receive(transmission)
