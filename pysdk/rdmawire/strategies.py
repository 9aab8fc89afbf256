"""Hypothesis strategies for headers of the tables, and for exchanges that conform to the specification.

`Frame.command()` prints failing examples as Python expressions. This module requires the package hypothesis.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

try:
    from hypothesis import strategies as st
except ImportError as _error:
    raise ImportError(
        "rdmawire.strategies requires the package hypothesis: pip install 'rdmawire[hypothesis]'"
    ) from _error

from rdmawire import _core
from rdmawire._core import (
    AETH,
    BTH,
    DDP,
    FPDU,
    RDMAP,
    RETH,
    UDP,
    AtomicAckETH,
    AtomicETH,
    DDPQueueNumber,
    DDPTagged,
    DDPUntagged,
    Ether,
    Field,
    Frame,
    Header,
    ImmDt,
    IPv4,
    IPv6,
    Opcode,
    RDMAPOpcode,
    RDMAPReadRequest,
    Syndrome,
)

__all__ = [
    "Exchange",
    "fpdu_exchanges",
    "headers",
    "headers_of",
    "rc_exchanges",
    "roce_frames",
    "values",
]

H = TypeVar("H", bound=Header)

MTUS = (256, 512, 1024, 2048, 4096)
_PSNS = 1 << 24
_TEXT = st.characters(min_codepoint=0x20, max_codepoint=0x7E)


def values(of: Field) -> st.SearchStrategy[Any]:
    """Return valid values of a field: named values of the specification, limits, and any others."""
    data = of.width // 8
    if of.form == "text":
        return st.text(_TEXT, max_size=data)
    if of.form == "bytes":
        return st.binary(min_size=data, max_size=data)
    most = (1 << of.width) - 1
    numbers = st.integers(0, most)
    if of.form != "number":
        return numbers.map(lambda number: number.to_bytes(data, "big"))
    if of.enumeration is not None:
        named = [member for member in of.enumeration if member <= most]
        return st.sampled_from(named) | numbers if named else numbers
    return numbers | st.sampled_from([most, most >> 1, (most >> 1) + 1])


def headers_of(header: type[H], *, everything: bool = False, **given: Any) -> st.SearchStrategy[H]:
    """Return headers of a class. Each field has a valid value or is not set. Fields in `given` are fixed.

    `everything` also sets reserved, constant and computed fields, so that headers can be invalid.
    """
    table = _core.header_table(header)
    can = [f for f in table.fields if not f.part and (everything or not (f.computed or f.reserved or f.constant))]
    chosen = {f.attribute: values(f) for f in can if f.attribute not in given}
    fixed = {name: value if isinstance(value, st.SearchStrategy) else st.just(value) for name, value in given.items()}
    if table.tail is not None and table.tail not in given:
        unit = table.unit
        sizes = st.integers(0, 40 // unit).map(lambda n: n * unit)
        chosen[table.tail] = sizes.flatmap(lambda size: st.binary(min_size=size, max_size=size))
    return st.fixed_dictionaries(fixed, optional=chosen).map(lambda fields: header(**fields))


def headers(*, everything: bool = False) -> st.SearchStrategy[Header]:
    """Return headers of all classes."""
    return st.sampled_from(_core.HEADERS).flatmap(lambda header: headers_of(header, everything=everything))


@st.composite
def _paths(draw: st.DrawFn) -> tuple[Frame, Frame]:
    """Draw headers from Ethernet to UDP for both directions between two hosts."""
    data = draw(st.tuples(st.integers(1, 254), st.integers(1, 254)).filter(lambda pair: pair[0] != pair[1]))
    port = draw(st.integers(0xC000, 0xFFFF))
    v6 = draw(st.booleans())

    def path(a: int, b: int) -> Frame:
        ether = Ether(src=0x525400000000 + a, dst=0x525400000000 + b)
        if v6:
            return ether / IPv6(src=f"fd00::{a:x}", dst=f"fd00::{b:x}") / UDP(src_port=port)
        # RoCEv2 packets are not fragmented. IBTA vol 1, annex A17.
        return ether / IPv4(src=0x0A000000 + a, dst=0x0A000000 + b, df=1) / UDP(src_port=port)

    return path(*data), path(*reversed(data))


@st.composite
def roce_frames(draw: st.DrawFn) -> Frame:
    """Draw valid RoCEv2 frames with any defined opcode, its headers, and payload if the opcode permits it."""
    opcode = draw(st.sampled_from(Opcode))
    row = _core.opcode_row(opcode)
    queue_pair = draw(st.integers(2, _PSNS - 1))  # QPs 0 and 1 are reserved for management
    frame = draw(_paths())[0] / draw(headers_of(BTH, opcode=opcode, dest_qp=queue_pair, tver=0))
    for header in row.headers:
        frame /= draw(headers_of(header))
    return frame / draw(st.binary(max_size=64)) if row.payload else frame


@dataclass
class Exchange:
    """Frames of one connection in wire order, and descriptions of their messages."""

    frames: list[Frame] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def command(self) -> str:
        """Return a Python expression that creates the list of frames."""
        return "[\n" + "".join(f"    {frame.command()},\n" for frame in self.frames) + "]"

    def __repr__(self) -> str:
        return f"# {', '.join(self.messages)}\n{self.command()}"


_RC = ("SEND", "SEND with immediate", "RDMA WRITE", "RDMA WRITE with immediate", "RDMA READ", "CmpSwap", "FetchAdd")


@st.composite
def rc_exchanges(draw: st.DrawFn, max_messages: int = 5, max_bytes: int = 10_000) -> Exchange:
    """Draw exchanges of an RC requester and responder: SEND, RDMA WRITE, RDMA READ and atomics.

    PSNs and path MTUs are arbitrary. Each message is acknowledged before the next one. IBTA vol 1, 9.7.
    """
    there, back = draw(_paths())
    requester, responder = draw(st.integers(2, _PSNS - 1)), draw(st.integers(2, _PSNS - 1))
    mtu = draw(st.sampled_from(MTUS))
    psn = draw(st.sampled_from([0, _PSNS - 1]) | st.integers(0, _PSNS - 1))
    msn = 0
    made = Exchange()

    def request(opcode: Opcode, *parts: Header, payload: bytes = b"") -> int:
        """Add a message and return its number of packets."""
        frame = there / BTH(opcode=opcode, dest_qp=responder, psn=psn, ack_request=1)
        for part in parts:
            frame /= part
        frame.payload = payload
        packets = _core.segment(frame, mtu) if _core.opcode_row(opcode).payload else [frame]
        made.frames += packets
        return len(packets)

    def respond(opcode: Opcode, at: int, *parts: Header) -> Frame:
        frame = back / BTH(opcode=opcode, dest_qp=requester, psn=at % _PSNS)
        for part in parts:
            frame /= part
        return frame

    for _ in range(draw(st.integers(1, max_messages))):
        kind = draw(st.sampled_from(_RC))
        credits = draw(st.integers(0, 31))
        msn = (msn + 1) % _PSNS
        va, rkey = draw(st.integers(0, (1 << 64) - 1)), draw(st.integers(0, (1 << 32) - 1))
        near_mtu = st.sampled_from([mtu - 1, mtu, mtu + 1]).filter(lambda n: n <= max_bytes)
        data = draw(st.integers(0, max_bytes) | near_mtu)
        acknowledged = AETH(syndrome=Syndrome.ACK | credits, msn=msn)
        if kind in ("CmpSwap", "FetchAdd"):
            opcode = Opcode.RC_CMPSWAP if kind == "CmpSwap" else Opcode.RC_FETCHADD
            operands = draw(headers_of(AtomicETH, va=va & ~7, rkey=rkey))
            count = request(opcode, operands)
            original = draw(headers_of(AtomicAckETH))
            made.frames.append(respond(Opcode.RC_ATOMIC_ACKNOWLEDGE, psn, acknowledged, original))
        elif kind == "RDMA READ":
            request(Opcode.RC_RDMA_READ_REQUEST, RETH(va=va, rkey=rkey, length=data))
            response = respond(Opcode.RC_RDMA_READ_RESPONSE_ONLY, psn, acknowledged)
            response.payload = draw(_payloads(data))
            packets = _core.segment(response, mtu)
            made.frames += packets
            count = len(packets)
        else:
            opcode = Opcode.RC_RDMA_WRITE_ONLY if kind.startswith("RDMA WRITE") else Opcode.RC_SEND_ONLY
            parts: list[Header] = [RETH(va=va, rkey=rkey, length=data)] if kind.startswith("RDMA WRITE") else []
            if kind.endswith("immediate"):
                opcode = Opcode[opcode.name + "_WITH_IMMEDIATE"]
                parts.append(draw(headers_of(ImmDt)))
            count = request(opcode, *parts, payload=draw(_payloads(data)))
            made.frames.append(respond(Opcode.RC_ACKNOWLEDGE, psn + count - 1, acknowledged))
        made.messages.append(f"{kind} of {8 if kind in ('CmpSwap', 'FetchAdd') else data} bytes")
        psn = (psn + count) % _PSNS
    return made


def _payloads(data: int) -> st.SearchStrategy[bytes]:
    """Draw payloads of `data` bytes that repeat a short pattern."""
    pattern = st.binary(min_size=1, max_size=8)
    return pattern.map(lambda one: (one * (data // len(one) + 1))[:data])


@st.composite
def fpdu_exchanges(draw: st.DrawFn, max_messages: int = 5, max_bytes: int = 4000) -> Exchange:
    """Draw exchanges of an iWARP connection in Full Operation Phase, with one FPDU per frame (link "fpdu").

    One side sends Sends, RDMA Writes and RDMA Read Requests in DDP segments of any size. The other side sends RDMA Read
    Responses. RFC 5040, 5041, 5044.
    """
    segment = draw(st.integers(16, 1400))
    made = Exchange()
    numbers = {queue: 0 for queue in DDPQueueNumber}  # MSN of the last message

    def untagged(opcode: RDMAPOpcode, queue: DDPQueueNumber, *parts: Header, payload: bytes = b"") -> None:
        numbers[queue] += 1
        for offset in range(0, max(len(payload), 1), segment):
            frame = FPDU() / DDP(tagged=0, last=offset + segment >= len(payload), dv=1) / RDMAP(opcode=opcode, rv=1)
            frame /= DDPUntagged(qn=queue, msn=numbers[queue], mo=offset)
            for part in parts:
                frame /= part
            made.frames.append(frame / payload[offset : offset + segment])

    def tagged(opcode: RDMAPOpcode, payload: bytes, stag: int, to: int) -> None:
        for offset in range(0, max(len(payload), 1), segment):
            frame = FPDU() / DDP(tagged=1, last=offset + segment >= len(payload), dv=1)
            frame = frame / RDMAP(opcode=opcode, rv=1) / DDPTagged(stag=stag, to=(to + offset) % (1 << 64))
            made.frames.append(frame / payload[offset : offset + segment])

    for _ in range(draw(st.integers(1, max_messages))):
        kind = draw(st.sampled_from(["Send", "RDMA Write", "RDMA Read"]))
        data = draw(st.integers(0, max_bytes))
        stag, to = draw(st.integers(0, (1 << 32) - 1)), draw(st.integers(0, (1 << 64) - 1))
        if kind == "Send":
            untagged(RDMAPOpcode.SEND, DDPQueueNumber.SEND, payload=draw(_payloads(data)))
        elif kind == "RDMA Write":
            tagged(RDMAPOpcode.RDMA_WRITE, draw(_payloads(data)), stag, to)
        else:
            sink, place = draw(st.integers(0, (1 << 32) - 1)), draw(st.integers(0, (1 << 64) - 1))
            read = RDMAPReadRequest(sink_stag=sink, sink_to=place, size=data, src_stag=stag, src_to=to)
            untagged(RDMAPOpcode.RDMA_READ_REQUEST, DDPQueueNumber.RDMA_READ_REQUEST, read)
            tagged(RDMAPOpcode.RDMA_READ_RESPONSE, draw(_payloads(data)), sink, place)
        made.messages.append(f"{kind} of {data} bytes")
    return made
