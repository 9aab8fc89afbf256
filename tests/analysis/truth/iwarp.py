"""iWARP streams: their messages and TCP losses, from tshark's fields."""

import dataclasses
from collections import Counter

from .infiniband import Message

# RDMAP opcodes, RFC 5040, 4.3, by message kind. A READ response belongs to the READ of the peer.
KINDS = {0: "write", 1: "read", 3: "send", 4: "send", 5: "send", 6: "send", 7: "terminate"}
READ_RESPONSE = 2
TAGGED_HEADER, UNTAGGED_HEADER = 14, 18  # bytes of DDP and RDMAP in a ULPDU


@dataclasses.dataclass
class Fpdu:
    frame: int
    opcode: int
    tagged: bool
    last: bool
    payload: int  # bytes of DDP payload
    queue: int | None
    msn: int | None
    read_size: int | None


@dataclasses.dataclass
class Sent:
    fpdus: int = 0
    payload_bytes: int = 0
    messages: Counter = dataclasses.field(default_factory=Counter)
    message_bytes: int = 0
    response_bytes: int = 0
    tcp_retransmissions: list = dataclasses.field(default_factory=list)  # frames that tshark marks as retransmissions
    tcp_fills: list = dataclasses.field(default_factory=list)  # frames with sequence numbers below an earlier frame's


@dataclasses.dataclass
class Stream:
    """`a` sent the MPA request. An endpoint is (address, TCP port)."""

    a: tuple
    b: tuple
    first_frame: int
    request_frame: int
    sent: dict
    messages: dict


def _is_true(text):
    return text in ("1", "True")


def fpdus(row):
    """Yield the FPDUs that tshark shows in a frame."""
    tagged_list = [_is_true(text) for text in row.get("iwarp_ddp.tagged_flag", [])]
    last_list = [_is_true(text) for text in row.get("iwarp_ddp.last_flag", [])]
    opcodes = [int(text, 0) for text in row.get("iwarp_rdma.opcode", [])]
    lengths = [int(text, 0) for text in row.get("iwarp_mpa.ulpdulength", [])]
    queues = [int(text, 0) for text in row.get("iwarp_ddp.qn", [])]
    numbers = [int(text, 0) for text in row.get("iwarp_ddp.msn", [])]
    read_sizes = [int(text, 0) for text in row.get("iwarp_rdma.rdmardsz", [])]
    assert len(tagged_list) == len(last_list) == len(opcodes) == len(lengths), row["frame.number"]
    untagged, reads = zip(queues, numbers, strict=True), iter(read_sizes)
    for tagged, last, opcode, length in zip(tagged_list, last_list, opcodes, lengths, strict=True):
        queue, msn = (None, None) if tagged else next(untagged)
        header = TAGGED_HEADER if tagged else UNTAGGED_HEADER
        yield Fpdu(int(row["frame.number"][0]), opcode, tagged, last, length - header, queue, msn,
                   next(reads) if opcode == 1 else None)  # fmt: skip


def _messages(segments):
    """Return the messages of one direction and the number of READ response bytes."""
    messages, open_messages, responses = [], {}, 0
    for fpdu in segments:
        if fpdu.opcode == READ_RESPONSE:
            responses += fpdu.payload
            continue
        kind = KINDS.get(fpdu.opcode, "other")
        key = "tagged" if fpdu.tagged else (fpdu.queue, fpdu.msn)
        message = open_messages.get(key)
        if message is None:
            message = open_messages[key] = Message(kind, 0, {fpdu.frame}, set(), complete=False)
            messages.append(message)
        message.size += fpdu.read_size if kind == "read" else fpdu.payload
        message.last_frames = {fpdu.frame}
        if fpdu.last:
            message.complete = True
            del open_messages[key]
    return messages, responses


def streams(frames):
    """Return every TCP connection that carries MPA, in order of the first frame."""
    by_stream = {}
    for row in frames:
        if "tcp.stream" in row:
            by_stream.setdefault(row["tcp.stream"][0], []).append(row)
    found = []
    for rows in by_stream.values():
        request = next((row for row in rows if "iwarp_mpa.req" in row), None)
        if request is None and not any("iwarp_ddp.last_flag" in row for row in rows):
            continue
        opening = request or rows[0]
        a = (_address(opening, "src"), int(opening["tcp.srcport"][0]))
        b = (_address(opening, "dst"), int(opening["tcp.dstport"][0]))
        sent, messages = {}, {}
        for name, end in (("a", a), ("b", b)):
            mine = [row for row in rows if (_address(row, "src"), int(row["tcp.srcport"][0])) == end]
            segments = [fpdu for row in mine if "iwarp_ddp.last_flag" in row for fpdu in fpdus(row)]
            messages[name], responses = _messages(segments)
            _add_previous_frames(messages[name], mine)
            sent[name] = Sent(
                fpdus=len(segments),
                payload_bytes=sum(fpdu.payload for fpdu in segments if fpdu.opcode != 1),
                messages=Counter(message.kind for message in messages[name]),
                message_bytes=sum(message.size for message in messages[name]),
                response_bytes=responses,
                tcp_retransmissions=[int(r["frame.number"][0]) for r in mine if "tcp.analysis.retransmission" in r],
                tcp_fills=_tcp_fills(mine),
            )
        found.append(Stream(a, b, int(rows[0]["frame.number"][0]),
                            int(request["frame.number"][0]) if request else 0, sent, messages))  # fmt: skip
    return found


def _add_previous_frames(messages, rows):
    """Add the previous frame to the first frames: tshark shows an FPDU only in its last segment."""
    before, previous = {}, None
    for row in rows:
        if row.get("tcp.len", ["0"])[0] != "0":
            frame = int(row["frame.number"][0])
            before[frame], previous = previous, frame
    begun = set()
    for message in messages:
        frame = min(message.first_frames)
        if frame not in begun and before.get(frame):
            message.first_frames.add(before[frame])
        begun.add(frame)


def _tcp_fills(rows):
    """Return the frames that fill gaps. For tshark, gaps filled within 3 ms are out-of-order; here they are losses."""
    found, following = [], None
    for row in rows:
        length = int(row.get("tcp.len", ["0"])[0])
        if length == 0:
            continue
        sequence = int(row["tcp.seq_raw"][0])
        ahead = 0 if following is None else (sequence - following + (1 << 31)) % (1 << 32) - (1 << 31)
        if ahead < 0:
            found.append(int(row["frame.number"][0]))
        if following is None or ahead + length > 0:
            following = (sequence + length) % (1 << 32)
    return found


def _address(row, side):
    return row[f"ip.{side}"][0] if f"ip.{side}" in row else row[f"ipv6.{side}"][0]
