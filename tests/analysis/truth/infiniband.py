"""Packets and messages of each endpoint, and the causes of its retransmissions, from the packets of one capture."""

import dataclasses
from collections import Counter

from . import pairing

PSNS = 1 << 24
NAK_CODES = ("psn_sequence_error", "invalid_request", "remote_access_error", "remote_operational_error",
             "invalid_rd_request")  # fmt: skip
REQUESTS = ("send", "write", "read", "compare_swap", "fetch_add")


@dataclasses.dataclass
class Message:
    """`first_frames`, `last_frames`: possible frames of the first and last packet.

    A packet that was lost before the capture point is only visible as a retransmission.
    """

    kind: str
    size: int
    first_frames: set
    last_frames: set
    complete: bool = True


@dataclasses.dataclass
class Recovery:
    """One go-back-N episode. `frame`: its first frame. `retransmitted`: frames of packets that were captured before."""

    frame: int
    first_psn: int
    retransmitted: list
    cause: str = "unknown"
    cause_frame: int = 0
    silence: float = 0.0  # seconds since the requester's previous packet


@dataclasses.dataclass
class Sent:
    """Counters of one endpoint, with the names of the report."""

    packets: int = 0
    payload_bytes: int = 0
    requests: int = 0
    responses: int = 0
    messages: Counter = dataclasses.field(default_factory=Counter)
    message_bytes: int = 0
    retransmitted_packets: int = 0  # of packets captured earlier, or lost before the capture point
    recoveries: int = 0
    acks: int = 0
    rnr_naks: int = 0
    naks: Counter = dataclasses.field(default_factory=Counter)
    cnps: int = 0
    ecn_capable: int = 0
    ecn_marked: int = 0
    retransmitted_reads: int = 0
    filled: int = 0  # PSN below an earlier one, captured for the first time: the original was not captured
    missing: int = 0  # request PSNs between the first and the last one that were never captured


@dataclasses.dataclass
class Connection:
    service: str
    a: tuple  # (address, queue pair or None)
    b: tuple
    paired_by: str
    first_frame: int
    sent: dict  # "a", "b": Sent
    messages: dict  # "a", "b": [Message], as requester
    recoveries: dict  # "a", "b": [Recovery], as requester


def distance(later, earlier):
    """Return the signed distance from `earlier` to `later`, modulo 2^24."""
    return (later - earlier + PSNS // 2) % PSNS - PSNS // 2


def path_mtu(packets):
    """Return the payload length of packets that are not the last of their message."""
    return max((p.payload for p in packets if p.payload and p.position in ("first", "middle")), default=None)


def _responses_of(read_size, mtu):
    return max(1, -(-read_size // mtu)) if mtu else 1


def _requests(packets, mtu):
    """Yield (PSN relative to the first, number of PSNs, packet) of the requests of one direction."""
    base, at = None, 0
    for packet in packets:
        if packet.is_response or packet.operation not in REQUESTS:
            continue
        at = 0 if base is None else at + distance(packet.psn, (base + at) % PSNS)
        base = packet.psn if base is None else base
        yield at, _responses_of(packet.read_size, mtu) if packet.operation == "read" else 1, packet


def find_recoveries(packets, mtu):
    """Return ([Recovery], frames of retransmitted requests, number of filled gaps, missing PSNs) of one direction."""
    recoveries, retransmitted, filled = [], [], 0
    seen, following, last_time = set(), None, 0.0
    for psn, count, packet in _requests(packets, mtu):
        before = psn in seen
        if following is not None and psn < following:
            recoveries.append(Recovery(packet.frame, packet.psn, [], silence=packet.time - last_time))
        if before:
            retransmitted.append(packet.frame)
            if recoveries:
                recoveries[-1].retransmitted.append(packet.frame)
        elif seen and psn < max(seen):
            filled += 1
        seen.update(range(psn, psn + count))
        following, last_time = psn + count, packet.time
    missing = (max(seen) - min(seen) + 1 - len(seen)) if seen else 0
    return recoveries, retransmitted, filled, missing


def messages_of(packets, mtu, service):
    """Return the messages of one direction in order of PSN (UD: in order of capture)."""
    if service == "ud":
        return [Message("send", p.payload, {p.frame}, {p.frame}) for p in packets if p.operation == "send"]
    first, last_seen = {}, {}
    covered = set()
    for psn, count, packet in _requests(packets, mtu):
        if packet.operation == "read" and psn in covered and psn not in first:
            continue  # a retry of the remaining part of a READ
        first.setdefault(psn, packet)
        last_seen[psn] = packet
        covered.update(range(psn, psn + count))
    messages, open_message, expected = [], None, None
    for psn in sorted(first):
        packet = first[psn]
        begins = packet.position in ("first", "only")
        fits = open_message is not None and psn == expected and open_message.kind == packet.operation
        if open_message is not None and (begins or not fits):
            open_message.complete = False
            messages.append(open_message)
            open_message = None
        if open_message is None:
            open_message = Message(packet.operation, 0, {packet.frame}, set(), complete=begins)
        open_message.size += packet.read_size if packet.operation == "read" else packet.payload
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
        open_message.complete = False
        messages.append(open_message)
    for message in messages:
        if message.kind in ("compare_swap", "fetch_add"):
            message.size = 8
    return messages


def last_psns(packets, mtu):
    """Return the last PSN of each message of one direction. For READs, this is the PSN of the request."""
    found, covered, base = {}, set(), None
    for at, count, packet in _requests(packets, mtu):
        base = packet.psn if base is None else base
        if packet.position in ("last", "only") and not (packet.operation == "read" and at in covered):
            found[at] = packet.psn
        if packet.operation == "read":
            covered.update(range(at, at + count))
    return list(found.values())


def count(packets, mtu, service):
    """Return the Sent, [Message], [Recovery] of one endpoint."""
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
        recoveries, retransmitted, sent.filled, sent.missing = find_recoveries(packets, mtu)
        sent.retransmitted_packets, sent.recoveries = len(retransmitted) + sent.filled, len(recoveries)
        reads = {packet.frame for packet in packets if packet.operation == "read"}
        sent.retransmitted_reads = len(reads & set(retransmitted))
    return sent, messages, recoveries


def connections(frames, packets):
    """Return every connection of the capture, in order of the first frame."""
    found = []
    for a, b, by in pairing.pair(frames, packets):
        forward = [p for p in packets if (p.source, p.destination, p.qp) == (a[0], b[0], b[1]) and p.service != "ud"]
        backward = []
        if a[1] is not None:
            backward = [p for p in packets
                        if (p.source, p.destination, p.qp) == (b[0], a[0], a[1]) and p.service != "ud"]  # fmt: skip
        found.append(_connection(forward, backward, a, b, by))
    datagrams = {}
    for packet in packets:
        if packet.service == "ud":
            one, other = (packet.source, packet.source_qp), (packet.destination, packet.qp)
            datagrams.setdefault((one, other) if (other, one) not in datagrams else (other, one), []).append(packet)
    for (a, b), sent in datagrams.items():
        forward = [p for p in sent if ((p.source, p.source_qp), (p.destination, p.qp)) == (a, b)]
        backward = [p for p in sent if p not in forward]
        found.append(_connection(forward, backward, a, b, "datagram"))
    return sorted(found, key=lambda connection: connection.first_frame)


def _connection(forward, backward, a, b, by):
    both = sorted(forward + backward, key=lambda packet: packet.frame)
    service = both[0].service
    mtu = path_mtu(both)
    sent, messages, recoveries = {}, {}, {}
    for end, packets, peer_packets in (("a", forward, backward), ("b", backward, forward)):
        sent[end], messages[end], recoveries[end] = count(packets, mtu, service)
        if packets and peer_packets:
            set_causes(recoveries[end], packets, peer_packets, mtu)
    return Connection(service, a, b, by, both[0].frame, sent, messages, recoveries)


# ---------------------------------------------------------------------------------------------------------------------
# Causes of retransmissions


def set_causes(recoveries, packets, peer_packets, mtu):
    """Set the causes of one endpoint's recoveries from the preceding packets of its peer.

    Models the requester: it accepts READ and atomic responses only in order. An acknowledgement covers all earlier
    requests up to the first READ whose response is missing.
    """
    starting = {recovery.frame: recovery for recovery in recoveries}
    needs_response, sent_end, acknowledged, gap_frame, last_nak = set(), None, None, 0, None
    for packet in sorted(packets + peer_packets, key=lambda packet: packet.frame):
        if packet.source == packets[0].source and packet.qp == packets[0].qp and not packet.is_response:
            recovery = starting.get(packet.frame)
            if recovery is not None:
                _explain(recovery, acknowledged, sent_end, gap_frame, last_nak)
                gap_frame, last_nak = 0, None
            count = _responses_of(packet.read_size, mtu) if packet.operation == "read" else 1
            acknowledged = packet.psn if acknowledged is None else acknowledged
            if packet.operation in ("read", "compare_swap", "fetch_add"):
                needs_response.update((packet.psn + at) % PSNS for at in range(count))
            end = (packet.psn + count) % PSNS
            sent_end = end if sent_end is None or distance(end, sent_end) > 0 else sent_end
        elif packet.is_response and packet.source == peer_packets[0].source and acknowledged is not None:
            kind = 0 if packet.syndrome is None else packet.syndrome >> 5
            if kind in (1, 3):
                last_nak = packet
            covers = packet.psn if kind == 0 else (packet.psn - 1) % PSNS
            ahead = distance(covers, acknowledged)
            if ahead < 0:
                continue
            missing = [at for at in range(ahead) if (acknowledged + at) % PSNS in needs_response]
            if packet.operation == "acknowledge" and kind == 0 and covers in needs_response:
                missing.append(ahead)
            if missing:
                acknowledged = (acknowledged + missing[0]) % PSNS
                gap_frame = gap_frame or packet.frame
            else:
                acknowledged, gap_frame = (covers + 1) % PSNS, 0


def _explain(recovery, acknowledged, sent_end, gap_frame, nak):
    if nak is not None and nak.psn == recovery.first_psn:
        recovery.cause = "rnr" if nak.syndrome >> 5 == 1 else "sequence_error_nak"
        recovery.cause_frame = nak.frame
    elif gap_frame and acknowledged == recovery.first_psn:
        recovery.cause, recovery.cause_frame = "implied_nak", gap_frame
    elif distance(acknowledged, sent_end) >= 0:
        recovery.cause = "spurious"
    else:
        recovery.cause = "timeout"
