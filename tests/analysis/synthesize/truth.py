"""What truly happened on a connection, as events: from what its two ends and the network did, never from the capture's
bytes.

An event is *required* where the capture holds the evidence that tells it from everything else that could have been;
else it is *allowed*: neither missed when absent nor wrong when reported. The evidence, kind by kind:

retransmission      a PSN that the capture has already (or that lies before one) is sent again. Its cause:
  sequence_error_nak  the NAK that the requester obeyed was captured, and it obeyed within microseconds
  timeout             silence of at least the ACK timeout (4 ms and more) before the sending again, no answer seen
  rnr                 the RNR NAK was captured; the time until the sending again is at least its timer's
  implied_nak         a read response, or an ACK, was captured that skips a read response; the request for the rest
                      follows within microseconds
  spurious            all that is sent again had been acknowledged before, where the capture was taken. Of a round that
                      was acknowledged in part, and of reads, `timeout` is as right
lost_in_network     PSNs that are missing, or captured and not received: a NAK, or a read request for the rest, names the
                    first. before_capture: the capture does not have them at first, as many as the gap has;
                    after_capture: it has them, and at least the named one was lost. A loss that is repaired by a
                    timeout is told by nothing (request or answer? before or after?): allowed only. So is a second loss
                    in the same flight, since go-back-N sends everything again anyway
lost_in_capture     PSNs that the capture does not have, that are acknowledged (answered) and never sent again
psn_gap             PSNs that are missing where nothing is acknowledged: UC; RC of which one direction was captured
out_of_order        one packet is captured behind later ones, microseconds late, before any NAK
duplicate           the very same bytes twice, less than a microsecond apart
nak, rnr_nak        captured; of rnr_nak `value` is the timer and `observed` the time until the sending again
ghost_acknowledgement  an ACK repeated without a duplicate that would ask for it, much later than a copy would come
unsolicited_response   an ACK, far beyond everything sent, or data that no read or atomic asks for
unanswered          requests at the capture's end without any answer, long before the last frame of the capture
msn_jump            the MSN of an answer, against the messages ended until its PSN
crc_bad             frame by frame. payload: one bit; pad: bytes that are not zero; ip_identification and source_port:
                    the field, with which put right the ICRC verifies; address: all frames of one host on the
                    connection, whose real address other connections of the capture show; the masks: what the sender
                    sent until now with one field taken into its ICRC as it is (the TTL as it left: 64 or a few more
                    than captured); unknown: the ICRC itself is anything
truncated           frame by frame: fewer bytes than the IP header says, and not snapped
pkey_mismatch, qkey_mismatch   one packet among many others of the connection
segmentation, opcode_sequence  a faulty sender's packet; the responder refuses it
read_limit          the CM's exchange names the limit; the request that goes beyond it
ecn_marked          frame by frame
cnp                 the sender's packets come at one pace for at least 400 us before it, and at another (or the same) for
                    as long after it
stall               silence of at least two seconds between two frames of the connection
replaced            other first PSNs, MSN 1 again, after a second of silence
path_change         another UDP source port
"""

from dataclasses import asdict, dataclass

from .wire import RNR_TIMERS

LOSSES = ("lost_in_network", "lost_in_capture", "psn_gap")


@dataclass
class Event:
    """As tracking::Event, with what is accepted of it. Frames are numbers in the capture."""
    kind: str
    causes: list            # any of these; ["none"] where the kind has none; [] any
    end: int | None = None  # 0 or 1; None: not asked
    frame: int | None = None           # exactly this one
    frames: tuple | None = None        # or between these two
    last_frame: int | None = None
    origin_frame: int | None = None
    origin_frames: list | None = None  # or any of these
    cause_frame: int | None = None
    packets: tuple | None = None       # between these two
    psn: int | None = None
    value: int | None = None
    observed: tuple | None = None         # between these two
    required: bool = True
    connection: int = 0     # number in the manifest
    other_connection: int | None = None  # as right: who is replaced, the old one or the new one

    def as_dict(self):
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class Told:
    """What an act states itself, about transmissions; resolved to frames when they are numbered."""
    kind: str
    causes: list
    end: int | None = None
    at: object = None         # Transmission or Captured: its frame exactly
    between: tuple | None = None  # two of these: its frame lies between
    last: object = None
    origin: object = None
    by: object = None
    packets: tuple | None = None
    psn: int | None = None
    value: int | None = None
    observed: tuple | None = None
    required: bool = True
    whole_act: int | None = None  # its frame lies anywhere in that act


def number_of(thing):
    """The frame number of a Transmission (its first capture) or Captured; None: not captured."""
    if thing is None:
        return None
    if hasattr(thing, "captures"):
        return thing.captures[0].number if thing.captures else None
    return thing.number or None


def events_of(connection):
    """Every event of a connection whose captures are numbered."""
    return _Deriver(connection).events()


class _Deriver:
    def __init__(self, connection):
        self.c = connection
        self.captured = sorted((cap for t in connection.network.transmissions for cap in t.captures if cap.number),
                               key=lambda cap: cap.number)
        self.acts = {}
        for cap in self.captured:
            act = cap.transmission.act
            low, high = self.acts.get(act, (cap.number, cap.number))
            self.acts[act] = (min(low, cap.number), max(high, cap.number))
        # Which requests the capture had seen before, and what had been acknowledged, at each sending again.
        self.known, self.answered = {}, {}
        end_of = [0, 0]
        answered = [-1, -1]
        for cap in self.captured:
            t = cap.transmission
            if t.role == "request" and not cap.copy:
                self.known[t] = t.place < end_of[t.sender]
                self.answered[t] = answered[t.sender]
                end_of[t.sender] = max(end_of[t.sender], t.place + t.span)
            elif t.role == "answer" and not t.overrides:
                upto = t.place - 1 if t.kind in ("nak", "rnr_nak") else t.place
                answered[1 - t.sender] = max(answered[1 - t.sender], upto)

    def events(self):
        found = []
        if self.c.one_direction is not None:
            found += self._gaps()  # and whether what is not seen was there, nobody can tell
            found += [Event(kind, [], frames=(self.captured[0].number, self.captured[-1].number), required=False)
                      for kind in ("unanswered", "lost_in_capture")]
        elif self.c.service == "rc":
            found += self._naks() + self._rounds() + self._losses()
        found += self._gaps() if self.c.service == "uc" else []
        found += [self._resolve(told) for told in self.c.told]
        found += self._silences()
        return [event for event in found if event]

    def _psn(self, requester, place):
        return (self.c.first_psns[requester] + place) % (1 << 24)

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
                again = [a for a in (recoveries[t].transmissions if t in recoveries else ()) if a.captures]
                if again and again[0] is recoveries[t].transmissions[0]:
                    waited = again[0].captures[0].time - cap.time
                    event.observed = (waited, waited)
            events.append(event)
        return events

    def _rounds(self):
        events = []
        for end in self.c.ends:
            for r in end.recoveries:
                seen = [t for t in r.transmissions if t.captures and t.captures[0].number]
                if not seen:
                    continue
                again = [t for t in seen if self.known[t]]
                if not again:
                    events.append(Event("retransmission", [], end.number, required=False,
                                        frames=(number_of(seen[0]), number_of(seen[-1]))))
                    continue
                first = again[0]
                origins = self._origins(first)
                events.append(Event(
                    "retransmission", self._causes(r, again), end.number, number_of(first),
                    last_frame=number_of(seen[-1]) if len(seen) == len(again) else None,
                    origin_frames=origins or None, cause_frame=self._cause_frame(r, first),
                    packets=(len(again), len(seen)), psn=first.psn))
        return events

    def _origins(self, again):
        """Earlier captures of what is sent again: of the same PSN, or of the read request that it is a rest of."""
        frames = []
        for t in again.message.transmissions:
            if t.captures and number_of(t) < number_of(again) and (
                    t.place == again.place or t.kind == "read" and t.place <= again.place):
                if t.refused:  # some take what the receiver dropped for a sending, some do not
                    return []
                frames.append(number_of(t))
        return frames

    def _cause_frame(self, r, first):
        """The NAK that was obeyed: of several that came before the requester acted, the one that names this PSN."""
        if r.cause == "sequence_error_nak":
            for cap in reversed(self.captured):
                t = cap.transmission
                if t.kind == "nak" and t.sender != r.end and t.place == first.place and cap.number < number_of(first):
                    return cap.number
        if not r.by:
            return None
        # Which of the answers behind the missing one came, when several were captured and lost, the capture does not say.
        if r.cause == "implied_nak" and any(
                t.role == "answer" and t.sender != r.end and t.captures and t.lost and
                number_of(first) > number_of(t) >= number_of(r.by) - 64 and first.place < t.place < r.by.place
                for t in self.c.network.transmissions):
            return None
        return number_of(r.by)

    def _causes(self, r, again):
        if r.cause != "timeout":
            return [r.cause] if number_of(r.by) else []
        first, last = again[0], again[-1]
        answered = self.answered[first]
        causes = ["timeout"]
        if answered >= last.place + last.span - 1:
            causes = ["spurious"]
        elif answered >= first.place:
            causes = ["timeout", "spurious"]
        # The receiver had it all, and its answer was slower than the timer: some would say so, some not.
        if causes == ["timeout"] and self.c.ends[1 - r.end].expected >= last.place + last.span and not any(
                t.act == first.act and (t.lost or t.refused) for t in self.c.network.transmissions):
            causes = ["timeout", "spurious"]
        if any(t.kind == "read" for t in again) and answered >= first.place:
            causes = ["timeout", "spurious"]
        # A NAK that the capture has and the requester never had: the timer did what the NAK asked.
        if any(t.kind == "nak" and t.sender != r.end and t.place in (first.place, r.place) and t.captures and
               t.lost
               for t in self.c.network.transmissions):
            causes.append("sequence_error_nak")
        return causes

    # -- losses

    def _losses(self):
        events = []
        by_act = {}
        for t in self.c.network.transmissions:
            if t.lost or t.refused and t.role == "request":
                by_act.setdefault(t.act, []).append(t)
        for act, lost in by_act.items():
            if act not in self.acts:
                continue
            groups = self._groups(lost)
            required = None
            if len(groups) == 1:
                required = self._decided(groups[0], act)
            if required:
                events.append(required)
            else:
                events += [Event(kind, [], frames=self.acts[act], required=False) for kind in LOSSES]
        return events

    @staticmethod
    def _groups(lost):
        groups = []
        for t in sorted(lost, key=lambda t: t.index):
            last = groups[-1][-1] if groups else None
            if last and (last.sender, last.role, last.lost, last.again) == (t.sender, t.role, t.lost, t.again) and \
                    last.place + last.span == t.place and (last.kind == "response") == (t.kind == "response"):
                groups[-1].append(t)
            else:
                groups.append([t])
        return groups

    def _decided(self, group, act):
        """The required event of the only loss in an act, or None where the capture cannot tell."""
        first, last = group[0], group[-1]
        if first.again or first.refused:
            return None
        requester = first.sender if first.role == "request" else 1 - first.sender
        if first.role == "request" and not any(
                cap.transmission.role == "request" and cap.transmission.sender == requester and
                cap.transmission.index < first.index for cap in self.captured):
            return None  # where its PSNs begin, the capture does not tell
        psn, places = self._psn(requester, first.place), last.place + last.span - first.place
        mine = [cap for cap in self.captured if cap.transmission.act == act]
        same = [cap for cap in mine if cap.transmission.sender == first.sender and
                cap.transmission.role == first.role and not cap.transmission.again]
        low = max((cap.number for cap in same if cap.transmission.place < first.place and
                   cap.transmission.index < first.index), default=self.acts[act][0])
        recoveries = [r for r in self.c.ends[requester].recoveries if r.transmissions and r.transmissions[0].act == act]
        end = requester if first.role == "request" else None
        if first.lost == "capture":
            if recoveries:
                return None
            covering = [cap.number for cap in mine if cap.transmission.role == "answer" and
                        cap.transmission.sender != requester and cap.transmission.place >= last.place + last.span - 1
                        and (cap.transmission.kind != "nak" or cap.transmission.place > last.place)
                        and (first.role == "request" or cap.transmission.index > last.index)]
            if first.role == "answer" and first.kind == "ack" or not covering:
                return None
            after = [cap.number for cap in same if cap.transmission.index > last.index]
            return Event("lost_in_capture", ["none"], end, frames=(low, max(covering[:1] + after[:1])),
                         packets=(len(group), places), psn=psn)
        again = [number_of(r.transmissions[0]) for r in recoveries if number_of(r.transmissions[0])]
        if len(recoveries) != 1 or not again:
            return None
        named = recoveries[0].by
        if not named or not number_of(named) or recoveries[0].place != first.place:
            return None
        if recoveries[0].cause not in ("sequence_error_nak", "implied_nak"):
            return None
        if first.role == "answer" and first.kind not in ("response", "atomic_answer"):
            return None
        exact = first.lost == "before"
        return Event("lost_in_network", [f"{first.lost}_capture"], end, frames=(low, again[0]),
                     packets=(len(group), places) if exact else (1, places), psn=psn)

    def _gaps(self):
        events = []
        for sender in (0, 1):
            expected, before = None, None
            for cap in self.captured:
                t = cap.transmission
                if t.sender != sender or t.role != "request":
                    continue
                if expected is not None and t.place > expected and not cap.copy:
                    events.append(Event("psn_gap", ["none"], sender, frames=(before, cap.number),
                                        packets=(t.place - expected, t.place - expected),
                                        psn=self._psn(sender, expected)))
                expected, before = max(expected or 0, t.place + t.span), cap.number
        return events

    def _resolve(self, told):
        event = Event(told.kind, told.causes, told.end, last_frame=number_of(told.last),
                      origin_frame=number_of(told.origin), cause_frame=number_of(told.by), packets=told.packets,
                      psn=told.psn, value=told.value, observed=told.observed, required=told.required)
        if told.whole_act is not None:
            if told.whole_act not in self.acts:
                return None
            event.frames = self.acts[told.whole_act]
        elif told.between:
            event.frames = tuple(number_of(thing) for thing in told.between)
            if None in event.frames:
                return None
        else:
            event.frame = number_of(told.at)
            if event.frame is None:
                return None
        return event

    def _silences(self):
        """A stall may be reported of any connection that took 1 ms and more; the acts say where it must be."""
        events = []
        first, last = self.captured[0], self.captured[-1]
        if last.time - first.time >= 1_000_000 and not any(told.kind == "stall" for told in self.c.told):
            events.append(Event("stall", [], frames=(first.number, last.number), required=False))
        return events
