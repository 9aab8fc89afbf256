"""What each end of a connection sent, its messages, and why it sent again. Pure functions on packets of one capture."""

import dataclasses
from collections import Counter

from . import joining

PSNS = 1 << 24
NAK_CODES = ("psn_sequence_error", "invalid_request", "remote_access_error", "remote_operational_error",
             "invalid_rd_request")  # fmt: skip
REQUESTS = ("send", "write", "read", "compare_swap", "fetch_add")


@dataclasses.dataclass
class Message:
    """`first_frames`, `last_frames`: where its first and last packet can be said to be: what was lost on its first way
    to the capture shows when it is sent again."""

    kind: str
    size: int
    first_frames: set
    last_frames: set
    whole: bool = True


@dataclasses.dataclass
class Round:
    """A going back: `frame` is the first of its packets, `back_to` its PSN; frames of those that were seen before."""

    frame: int
    back_to: int
    again: list
    cause: str = "unknown"
    cause_frame: int = 0
    silence: float = 0.0  # seconds since the requester's packet before


@dataclasses.dataclass
class Sent:
    """What one end sent, by the names of the report."""

    packets: int = 0
    payload_bytes: int = 0
    requests: int = 0
    responses: int = 0
    messages: Counter = dataclasses.field(default_factory=Counter)
    message_bytes: int = 0
    retransmitted_packets: int = 0  # seen before, or of a round that fills what was lost on its first way to the capture
    recoveries: int = 0
    acks: int = 0
    rnr_naks: int = 0
    naks: Counter = dataclasses.field(default_factory=Counter)
    cnps: int = 0
    ecn_capable: int = 0
    ecn_marked: int = 0
    read_requests_again: int = 0
    filled: int = 0  # sent after a higher PSN, and not seen before: the first sending was not captured
    missing: int = 0  # PSNs of requests between first and last that were never captured


@dataclasses.dataclass
class Connection:
    service: str
    a: tuple  # (address, queue pair or None)
    b: tuple
    paired_by: str
    first_frame: int
    sent: dict  # "a", "b": Sent
    messages: dict  # "a", "b": [Message], as requester
    recoveries: dict  # "a", "b": [Round], as requester


def distance(later, earlier):
    """How far `later` is past `earlier`, modulo 2^24; negative: it lies behind."""
    return (later - earlier + PSNS // 2) % PSNS - PSNS // 2


def path_mtu(packets):
    """The payload of the packets that are not the last of their message."""
    return max((p.payload for p in packets if p.payload and p.position in ("first", "middle")), default=None)


def _responses_of(asked, mtu):
    return max(1, -(-asked // mtu)) if mtu else 1


def _requests(packets, mtu):
    """Of one direction's requests: (unwrapped PSN, count of PSNs, packet), in order."""
    base, at = None, 0
    for packet in packets:
        if packet.is_response or packet.operation not in REQUESTS:
            continue
        at = 0 if base is None else at + distance(packet.psn, (base + at) % PSNS)
        base = packet.psn if base is None else base
        yield at, _responses_of(packet.asked, mtu) if packet.operation == "read" else 1, packet


def recoveries_and_retransmissions(packets, mtu):
    """([Round], frames of requests sent again, count of filled holes, missing PSNs) of one direction."""
    recoveries, again, filled = [], [], 0
    seen, following, last_time = set(), None, 0.0
    for psn, count, packet in _requests(packets, mtu):
        before = psn in seen
        if following is not None and psn < following:
            recoveries.append(Round(packet.frame, packet.psn, [], silence=packet.time - last_time))
        if before:
            again.append(packet.frame)
            if recoveries:
                recoveries[-1].again.append(packet.frame)
        elif seen and psn < max(seen):
            filled += 1
        seen.update(range(psn, psn + count))
        following, last_time = psn + count, packet.time
    missing = (max(seen) - min(seen) + 1 - len(seen)) if seen else 0
    return recoveries, again, filled, missing


def messages_of(packets, mtu, service):
    """The messages of one direction, in the order of their PSNs; of UD, in the capture's."""
    if service == "ud":
        return [Message("send", p.payload, {p.frame}, {p.frame}) for p in packets if p.operation == "send"]
    first, last_seen = {}, {}
    covered = set()
    for psn, count, packet in _requests(packets, mtu):
        if packet.operation == "read" and psn in covered and psn not in first:
            continue  # asks again for the rest of a read
        first.setdefault(psn, packet)
        last_seen[psn] = packet
        covered.update(range(psn, psn + count))
    messages, open_message, expected = [], None, None
    for psn in sorted(first):
        packet = first[psn]
        begins = packet.position in ("first", "only")
        fits = open_message is not None and psn == expected and open_message.kind == packet.operation
        if open_message is not None and (begins or not fits):
            open_message.whole = False
            messages.append(open_message)
            open_message = None
        if open_message is None:
            open_message = Message(packet.operation, 0, {packet.frame}, set(), whole=begins)
        open_message.size += packet.asked if packet.operation == "read" else packet.payload
        open_message.first_frames |= {min(*open_message.first_frames, packet.frame)}
        open_message.last_frames |= {packet.frame, last_seen[psn].frame}
        expected = psn + 1
        if packet.position in ("last", "only"):
            ends = {packet.frame, last_seen[psn].frame}
            latest = max(open_message.last_frames)
            open_message.last_frames = ends | {latest, max(f for f in open_message.last_frames if f <= latest)}
            messages.append(open_message)
            open_message = None
    if open_message is not None:
        open_message.whole = False
        messages.append(open_message)
    for message in messages:
        if message.kind in ("compare_swap", "fetch_add"):
            message.size = 8
    return messages


def last_psns(packets, mtu):
    """The PSNs that end messages of one direction, from its first one on; a read's is that of its request."""
    found, covered, base = {}, set(), None
    for at, count, packet in _requests(packets, mtu):
        base = packet.psn if base is None else base
        if packet.position in ("last", "only") and not (packet.operation == "read" and at in covered):
            found[at] = packet.psn
        if packet.operation == "read":
            covered.update(range(at, at + count))
    return list(found.values())


def count(packets, mtu, service):
    """Sent, [Message], [Round] of one end."""
    sent = Sent()
    for packet in packets:
        sent.packets += 1
        sent.payload_bytes += packet.payload or 0
        sent.cnps += packet.service == "cnp"
        sent.ecn_marked += packet.ecn == 3
        sent.ecn_capable += packet.ecn != 0
        sent.responses += packet.is_response
        sent.requests += packet.operation in REQUESTS
        if packet.operation == "acknowledge":
            kind, value = packet.syndrome >> 5, packet.syndrome & 31
            sent.acks += kind == 0
            sent.rnr_naks += kind == 1
            if kind == 3:
                sent.naks[NAK_CODES[value]] += 1
    messages = messages_of(packets, mtu, service) if service != "vendor" else []
    for message in messages:
        sent.messages[message.kind] += 1
        sent.message_bytes += message.size
    recoveries = []
    if service in ("rc", "xrc"):
        recoveries, again, sent.filled, sent.missing = recoveries_and_retransmissions(packets, mtu)
        sent.retransmitted_packets, sent.recoveries = len(again) + sent.filled, len(recoveries)
        reads = {packet.frame for packet in packets if packet.operation == "read"}
        sent.read_requests_again = len(reads & set(again))
    return sent, messages, recoveries


def connections(frames, packets):
    """Every connection of the capture, in the order of their first frames."""
    found = []
    for a, b, by in joining.join(frames, packets):
        there = [p for p in packets if (p.source, p.destination, p.qp) == (a[0], b[0], b[1]) and p.service != "ud"]
        back = []
        if a[1] is not None:
            back = [p for p in packets if (p.source, p.destination, p.qp) == (b[0], a[0], a[1]) and p.service != "ud"]
        found.append(_connection(there, back, a, b, by))
    datagrams = {}
    for packet in packets:
        if packet.service == "ud":
            one, other = (packet.source, packet.source_qp), (packet.destination, packet.qp)
            datagrams.setdefault((one, other) if (other, one) not in datagrams else (other, one), []).append(packet)
    for (a, b), sent in datagrams.items():
        there = [p for p in sent if ((p.source, p.source_qp), (p.destination, p.qp)) == (a, b)]
        back = [p for p in sent if p not in there]
        found.append(_connection(there, back, a, b, "datagram"))
    return sorted(found, key=lambda connection: connection.first_frame)


def _connection(there, back, a, b, by):
    both = sorted(there + back, key=lambda packet: packet.frame)
    service = both[0].service
    mtu = path_mtu(both)
    sent, messages, recoveries = {}, {}, {}
    for end, mine, theirs in (("a", there, back), ("b", back, there)):
        sent[end], messages[end], recoveries[end] = count(mine, mtu, service)
        if mine and theirs:
            explain_rounds(recoveries[end], mine, theirs, mtu)
    return Connection(service, a, b, by, both[0].frame, sent, messages, recoveries)


# ---------------------------------------------------------------------------------------------------------------------
# Why it was sent again


def explain_rounds(recoveries, mine, theirs, mtu):
    """Sets the causes of one end's recoveries, from what the other end sent before each.

    Follows what the requester has taken: responses to reads and atomics count only in order, as it drops the others;
    an acknowledgement covers what came before it but no read whose response is missing.
    """
    starting = {one.frame: one for one in recoveries}
    needs_response, sent_end, taken, gap_frame, last_nak = set(), None, None, 0, None
    for packet in sorted(mine + theirs, key=lambda packet: packet.frame):
        if packet.source == mine[0].source and packet.qp == mine[0].qp and not packet.is_response:
            one = starting.get(packet.frame)
            if one is not None:
                _explain(one, taken, sent_end, gap_frame, last_nak)
                gap_frame, last_nak = 0, None
            count = _responses_of(packet.asked, mtu) if packet.operation == "read" else 1
            taken = packet.psn if taken is None else taken
            if packet.operation in ("read", "compare_swap", "fetch_add"):
                needs_response.update((packet.psn + at) % PSNS for at in range(count))
            end = (packet.psn + count) % PSNS
            sent_end = end if sent_end is None or distance(end, sent_end) > 0 else sent_end
        elif packet.is_response and packet.source == theirs[0].source and taken is not None:
            kind = 0 if packet.syndrome is None else packet.syndrome >> 5
            if kind in (1, 3):
                last_nak = packet
            covers = packet.psn if kind == 0 else (packet.psn - 1) % PSNS
            ahead = distance(covers, taken)
            if ahead < 0:
                continue
            missing = [at for at in range(ahead) if (taken + at) % PSNS in needs_response]
            if packet.operation == "acknowledge" and kind == 0 and covers in needs_response:
                missing.append(ahead)
            if missing:
                taken = (taken + missing[0]) % PSNS
                gap_frame = gap_frame or packet.frame
            else:
                taken, gap_frame = (covers + 1) % PSNS, 0


def _explain(one, taken, sent_end, gap_frame, nak):
    if nak is not None and nak.psn == one.back_to:
        one.cause = "rnr" if nak.syndrome >> 5 == 1 else "sequence_error_nak"
        one.cause_frame = nak.frame
    elif gap_frame and taken == one.back_to:
        one.cause, one.cause_frame = "implied_nak", gap_frame
    elif distance(taken, sent_end) >= 0:
        one.cause = "spurious"
    else:
        one.cause = "timeout"
