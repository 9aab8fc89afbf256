"""The expected events of a connection, derived from its endpoints and network instead of the capture's bytes.

An event is *required* if the capture contains enough evidence to exclude all other explanations. Otherwise it is
*allowed*: reporting it is optional. The evidence of each kind:

retransmission      a PSN at or below an earlier captured PSN is retransmitted, with cause
  sequence_error_nak  the NAK was captured, and the retransmission follows within microseconds
  timeout             no packet for the ACK timeout (at least 4 ms) before the retransmission, and no response
  rnr                 the RNR NAK was captured, and the retransmission follows after at least its timer
  reordered           a NAK as above, but a packet is captured late
  corrupted           the same, but a packet is captured with a bad ICRC
  implied_nak         a captured READ response or ACK skips a READ response, and the request for the remaining part
                      follows within microseconds
  spurious            all retransmitted packets were acknowledged before, at the capture point. `timeout` is accepted
                      too: the ACK may have been lost after the capture point
lost_in_network     missing PSNs, or captured ones that were not received. A NAK or a READ request for the rest
                    indicates the first. before_capture: the first transmissions were not captured, and the event has
                    the size of the gap. after_capture: they were captured, and at least the indicated one was lost.
                    Only allowed: a loss that a timeout repairs, because request or response could be lost, and a second
                    loss in the same flight, because go-back-N retransmits everything anyway
lost_in_capture     PSNs that were not captured, but were acknowledged and never retransmitted
psn_gap             missing PSNs without acknowledgements: UC, and RC with one captured direction
out_of_order        one packet is captured microseconds late, after later ones, before any NAK
duplicate           identical bytes, less than a microsecond apart
nak, rnr_nak        captured. The `value` of rnr_nak is the timer, `observed` the time until the retransmission
ghost_acknowledgement  a repeated ACK without a duplicate request, much later than a duplicate packet would arrive
unsolicited_response   an ACK far above all sent PSNs, or data without a READ or atomic
unanswered          requests without a response, long before the last frame of the capture
msn_jump            the MSN of a response differs from the number of completed messages
crc_bad             per frame, with cause
  payload             one bit
  pad                 nonzero bytes
  ip_identification, source_port  the ICRC is valid with the original value
  address             all frames of one host on the connection, while other connections show its real address
  the masks           the sender's ICRC covers a field that must be masked (for the TTL: 64, or slightly above the
                      captured value)
  unknown             a random ICRC
truncated           per frame, fewer bytes than the IP length, without a snap length
pkey_mismatch, qkey_mismatch   one packet among many others of the connection
segmentation, opcode_sequence  a packet of a faulty sender, which the responder rejects
read_limit          a request above the limit that the CM exchange contains
ecn_marked          per frame
cnp                 the sender's packet rate is constant for at least 400 us before the CNP, and for 400 us after it
stall               no frame of the connection for at least two seconds
replaced            other first PSNs and an MSN of 1, after a second without packets
path_change         another UDP source port
"""

from dataclasses import asdict, dataclass

from .wire import RNR_TIMERS

LOSSES = ("lost_in_network", "lost_in_capture", "psn_gap")


@dataclass
class Event:
    """An event like tracking::Event, with its accepted values. Frames are numbers in the capture."""
    kind: str
    causes: list            # accepted causes (["none"] for kinds without a cause, []: any)
    end: int | None = None  # 0 or 1 (None: any)
    frame: int | None = None           # exact frame
    frames: tuple | None = None        # or range of frames
    last_frame: int | None = None
    origin_frame: int | None = None
    origin_frames: list | None = None  # or one of these origin frames
    cause_frame: int | None = None
    packets: tuple | None = None       # range
    psn: int | None = None
    value: int | None = None
    observed: tuple | None = None      # range
    required: bool = True
    connection: int = 0     # number in the manifest
    other_connection: int | None = None  # also accepted: the replacing or the replaced connection

    def as_dict(self):
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class InjectedEvent:
    """An expected event of a phase, in terms of transmissions. Their frame numbers are not yet known."""
    kind: str
    causes: list
    end: int | None = None
    at: object = None  # Transmission or Captured of the exact frame
    between: tuple | None = None  # two of these, as a range of frames
    origin: object = None
    packets: tuple | None = None
    psn: int | None = None
    value: int | None = None
    observed: tuple | None = None
    required: bool = True


def frame_number(item):
    """Return the frame number of a Transmission (its first capture) or Captured, or None if it was not captured."""
    if item is None:
        return None
    if hasattr(item, "captures"):
        return item.captures[0].number if item.captures else None
    return item.number or None


def events_of(connection):
    """Return every event of a connection. Its captures must be numbered."""
    return _Deriver(connection).events()


class _Deriver:
    def __init__(self, connection):
        self.c = connection
        self.captured = sorted((cap for t in connection.network.transmissions for cap in t.captures if cap.number),
                               key=lambda cap: cap.number)
        self.phases = {}
        for cap in self.captured:
            phase = cap.transmission.phase
            low, high = self.phases.get(phase, (cap.number, cap.number))
            self.phases[phase] = (min(low, cap.number), max(high, cap.number))
        # For each retransmission: whether the capture contains an earlier transmission, and what was acknowledged.
        self.known, self.acknowledged = {}, {}
        end_of = [0, 0]
        acknowledged = [-1, -1]
        for cap in self.captured:
            t = cap.transmission
            if t.role == "request" and not cap.duplicate:
                self.known[t] = t.seq < end_of[t.sender]
                self.acknowledged[t] = acknowledged[t.sender]
                end_of[t.sender] = max(end_of[t.sender], t.seq + t.span)
            elif t.role == "response" and not t.overrides:
                upto = t.seq - 1 if t.kind in ("nak", "rnr_nak") else t.seq
                acknowledged[1 - t.sender] = max(acknowledged[1 - t.sender], upto)

    def events(self):
        found = []
        if self.c.one_direction is not None:
            found += self._gaps()  # unknown whether missing packets existed
            found += [Event(kind, [], frames=(self.captured[0].number, self.captured[-1].number), required=False)
                      for kind in ("unanswered", "lost_in_capture")]
        elif self.c.service == "rc":
            found += self._naks() + self._recoveries() + self._losses()
        found += self._gaps() if self.c.service == "uc" else []
        found += [self._resolve(injected) for injected in self.c.injected]
        found += self._stalls()
        return [event for event in found if event]

    def _psn(self, requester, seq):
        return (self.c.first_psns[requester] + seq) % (1 << 24)

    def _naks(self):
        events, seen = [], set()
        recoveries = {r.by: r for end in self.c.ends for r in end.recoveries if r.by}
        for cap in self.captured:
            t = cap.transmission
            if t.kind not in ("nak", "rnr_nak") or t in seen:
                continue
            seen.add(t)
            event = Event(t.kind, ["none"], 1 - t.sender, cap.number, psn=t.psn)
            if t.kind == "nak":
                event.causes = [t.code]
            else:
                event.value = RNR_TIMERS[t.code]
                retransmitted = [a for a in (recoveries[t].transmissions if t in recoveries else ()) if a.captures]
                if retransmitted and retransmitted[0] is recoveries[t].transmissions[0]:
                    waited = retransmitted[0].captures[0].time - cap.time
                    event.observed = (waited, waited)
            events.append(event)
        return events

    def _recoveries(self):
        events = []
        for end in self.c.ends:
            for r in end.recoveries:
                seen = [t for t in r.transmissions if t.captures and t.captures[0].number]
                if not seen:
                    continue
                retransmitted = [t for t in seen if self.known[t]]
                if not retransmitted:
                    events.append(Event("retransmission", [], end.number, required=False,
                                        frames=(frame_number(seen[0]), frame_number(seen[-1]))))
                    continue
                first = retransmitted[0]
                origins = self._origins(first)
                events.append(Event(
                    "retransmission", self._causes(r, retransmitted), end.number, frame_number(first),
                    last_frame=frame_number(seen[-1]) if len(seen) == len(retransmitted) else None,
                    origin_frames=origins or None, cause_frame=self._cause_frame(r, first),
                    packets=(len(retransmitted), len(seen)), psn=first.psn))
        return events

    def _origins(self, retransmitted):
        """Return earlier captures of the PSN, or of the READ request whose remaining part is requested."""
        frames = []
        for t in retransmitted.message.transmissions:
            if t.captures and frame_number(t) < frame_number(retransmitted) and (
                    t.seq == retransmitted.seq or t.kind == "read" and t.seq <= retransmitted.seq):
                if t.dropped:  # whether a dropped packet counts as sent is ambiguous
                    return []
                frames.append(frame_number(t))
        return frames

    def _cause_frame(self, r, first):
        """Return the frame of the NAK that caused the recovery: of several captured ones, the one with this PSN."""
        if r.cause == "sequence_error_nak":
            for cap in reversed(self.captured):
                t = cap.transmission
                if t.kind == "nak" and t.sender != r.end and t.seq == first.seq and cap.number < frame_number(first):
                    return cap.number
        if not r.by:
            return None
        # If several responses after the missing one were captured and lost, any of them can be the cause.
        if r.cause == "implied_nak" and any(
                t.role == "response" and t.sender != r.end and t.captures and t.lost and
                frame_number(first) > frame_number(t) >= frame_number(r.by) - 64 and first.seq < t.seq < r.by.seq
                for t in self.c.network.transmissions):
            return None
        return frame_number(r.by)

    def _causes(self, r, retransmitted):
        first, last = retransmitted[0], retransmitted[-1]
        if r.cause in ("sequence_error_nak", "implied_nak"):
            return self._causes_of_nak(r, first) if frame_number(r.by) else []
        if r.cause != "timeout":
            return [r.cause] if frame_number(r.by) else []
        acknowledged = self.acknowledged[first]
        causes = ["timeout"]
        if acknowledged >= last.seq + last.span - 1:
            causes = ["spurious", "timeout"]  # timeout: the ACK was lost after the capture point
        elif acknowledged >= first.seq:
            causes = ["timeout", "spurious"]
        # The receiver had everything, and its response was later than the timer: both causes are accepted.
        if causes == ["timeout"] and self.c.ends[1 - r.end].expected >= last.seq + last.span and not any(
                t.phase == first.phase and (t.lost or t.dropped) for t in self.c.network.transmissions):
            causes = ["timeout", "spurious"]
        if any(t.kind == "read" for t in retransmitted) and acknowledged >= first.seq:
            causes = ["timeout", "spurious"]
        # The requester did not receive the captured NAK, but its timer had the same effect.
        if any(t.kind == "nak" and t.sender != r.end and t.seq in (first.seq, r.seq) and t.captures and
               t.lost
               for t in self.c.network.transmissions):
            causes.append("sequence_error_nak")
        return causes

    def _causes_of_nak(self, r, first):
        """Return the cause of a recovery after a NAK. A late or damaged packet in the capture explains the NAK."""
        phase = [t for t in self.c.network.transmissions if t.phase == first.phase and frame_number(t)]
        if any(t.dropped == "icrc" for t in phase):
            return [r.cause, "corrupted"]
        for sender in (0, 1):
            newest = 0
            for t in phase:
                if t.sender == sender:
                    if frame_number(t) < newest:
                        return [r.cause, "reordered"]
                    newest = frame_number(t)
        return [r.cause]

    # -- packet loss

    def _losses(self):
        events = []
        by_act = {}
        for t in self.c.network.transmissions:
            if t.lost or t.dropped and t.role == "request":
                by_act.setdefault(t.phase, []).append(t)
        for phase, lost in by_act.items():
            if phase not in self.phases:
                continue
            groups = self._groups(lost)
            required = None
            if len(groups) == 1:
                required = self._required_loss(groups[0], phase)
            if required:
                events.append(required)
            else:
                events += [Event(kind, [], frames=self.phases[phase], required=False) for kind in LOSSES]
        return events

    @staticmethod
    def _groups(lost):
        groups = []
        for t in sorted(lost, key=lambda t: t.index):
            last = groups[-1][-1] if groups else None
            if last and (last.sender, last.role, last.lost, last.retransmission) == (
                    t.sender, t.role, t.lost, t.retransmission) and \
                    last.seq + last.span == t.seq and (last.kind == "read_response") == (t.kind == "read_response"):
                groups[-1].append(t)
            else:
                groups.append([t])
        return groups

    def _required_loss(self, group, phase):
        """Return the required event of the only loss in a phase, or None if the capture is ambiguous."""
        first, last = group[0], group[-1]
        if first.retransmission or first.dropped:
            return None
        requester = first.sender if first.role == "request" else 1 - first.sender
        if first.role == "request" and not any(
                cap.transmission.role == "request" and cap.transmission.sender == requester and
                cap.transmission.index < first.index for cap in self.captured):
            return None  # the capture does not contain the first PSN
        psn, seqs = self._psn(requester, first.seq), last.seq + last.span - first.seq
        mine = [cap for cap in self.captured if cap.transmission.phase == phase]
        same = [cap for cap in mine if cap.transmission.sender == first.sender and
                cap.transmission.role == first.role and not cap.transmission.retransmission]
        low = max((cap.number for cap in same if cap.transmission.seq < first.seq and
                   cap.transmission.index < first.index), default=self.phases[phase][0])
        recoveries = [r for r in self.c.ends[requester].recoveries
                      if r.transmissions and r.transmissions[0].phase == phase]
        end = requester if first.role == "request" else None
        if first.lost == "capture":
            if recoveries:
                return None
            covering = [cap.number for cap in mine if cap.transmission.role == "response" and
                        cap.transmission.sender != requester and cap.transmission.seq >= last.seq + last.span - 1
                        and (cap.transmission.kind != "nak" or cap.transmission.seq > last.seq)
                        and (first.role == "request" or cap.transmission.index > last.index)]
            if first.role == "response" and first.kind == "ack" or not covering:
                return None
            after = [cap.number for cap in same if cap.transmission.index > last.index]
            return Event("lost_in_capture", ["none"], end, frames=(low, max(covering[:1] + after[:1])),
                         packets=(len(group), seqs), psn=psn)
        retransmitted = [frame_number(r.transmissions[0]) for r in recoveries if frame_number(r.transmissions[0])]
        if len(recoveries) != 1 or not retransmitted:
            return None
        nak = recoveries[0].by
        if not nak or not frame_number(nak) or recoveries[0].seq != first.seq:
            return None
        if recoveries[0].cause not in ("sequence_error_nak", "implied_nak"):
            return None
        if first.role == "response" and first.kind not in ("read_response", "atomic_response"):
            return None
        exact = first.lost == "before"
        return Event("lost_in_network", [f"{first.lost}_capture"], end, frames=(low, retransmitted[0]),
                     packets=(len(group), seqs) if exact else (1, seqs), psn=psn)

    def _gaps(self):
        events = []
        for sender in (0, 1):
            expected, before = None, None
            for cap in self.captured:
                t = cap.transmission
                if t.sender != sender or t.role != "request":
                    continue
                if expected is not None and t.seq > expected and not cap.duplicate:
                    events.append(Event("psn_gap", ["none"], sender, frames=(before, cap.number),
                                        packets=(t.seq - expected, t.seq - expected),
                                        psn=self._psn(sender, expected)))
                expected, before = max(expected or 0, t.seq + t.span), cap.number
        return events

    def _resolve(self, injected):
        event = Event(injected.kind, injected.causes, injected.end,
                      origin_frame=frame_number(injected.origin), packets=injected.packets, psn=injected.psn,
                      value=injected.value, observed=injected.observed, required=injected.required)
        if injected.between:
            event.frames = tuple(frame_number(item) for item in injected.between)
            if None in event.frames:
                return None
        else:
            event.frame = frame_number(injected.at)
            if event.frame is None:
                return None
        return event

    def _stalls(self):
        """Allow a stall if the connection lasts 1 ms or more. Phases define the required stalls."""
        events = []
        first, last = self.captured[0], self.captured[-1]
        if last.time - first.time >= 1_000_000 and not any(injected.kind == "stall" for injected in self.c.injected):
            events.append(Event("stall", [], frames=(first.number, last.number), required=False))
        return events
