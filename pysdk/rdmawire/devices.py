"""Devices as context managers: queue pairs, memory and completions at the device, and the wire to its port.

    with rdmawire.reference() as device, device.rc_qp(access="remote_write") as qp:
        qp.wire.send(qp.frame() / RETH(va=qp.mr.addr, rkey=qp.mr.rkey ^ 1, length=4) / b"evil")
        assert qp.wire.receive(timeout=1)[AETH].syndrome == Syndrome.NAK_REMOTE_ACCESS_ERROR
        assert qp.mr.read(4) == bytes(4)

Every device is driven as the active tester drives it (docs/how-to/test-a-nic.md): verbs through the agent's protocol, frames over
a wire. What is made at a device is released in the right order, whatever the order in which it is closed or forgotten.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmawire import _core
from rdmawire.closing import Closes
from rdmawire.wires import Wire

if TYPE_CHECKING:
    from rdmawire._core import Frame
    from rdmawire.iwarp import Expectation, Heard, Stimulus

__all__ = [
    "Completion",
    "CompletionQueue",
    "Device",
    "MemoryRegion",
    "MemoryWindow",
    "ProtectionDomain",
    "QueuePair",
    "Stream",
    "StreamQueuePair",
    "agent",
    "faults",
    "lab",
    "open_device",
    "reference",
]

PSNS = 1 << 24


@dataclasses.dataclass(frozen=True)
class Completion:
    """What was asked for and is done. IBTA vol 1, 11.4.2.1."""

    wr_id: int  #: of the work request
    status: str  #: "success", "rem_access_err", "wr_flush_err", …
    vendor_err: int
    qp_num: int
    opcode: str | None  #: "send", "write", "recv", …; None where it failed
    byte_len: int
    imm: int | None  #: immediate data
    invalidated_rkey: int | None
    src_qp: int | None  #: of a datagram

    @property
    def good(self) -> bool:
        """Whether the status is "success"."""
        return self.status == "success"


class MemoryRegion:
    """Memory that is registered at the device, all zeros at first."""

    def __init__(self, core: _core._Region) -> None:
        self._core = core

    @property
    def addr(self) -> int:
        """Its virtual address at the device."""
        return self._core.addr

    @property
    def lkey(self) -> int:
        """The key for work requests of the device itself."""
        return self._core.lkey

    @property
    def rkey(self) -> int:
        """The key for remote access; with iWARP the STag."""
        return self._core.rkey

    @property
    def handle(self) -> int:
        """Its number in the agent's protocol."""
        return self._core.handle

    def __len__(self) -> int:
        return self._core.size

    def read(self, length: int | None = None, offset: int = 0) -> bytes:
        """What the memory holds now: ``length`` bytes from ``offset`` on, to its end without one."""
        return self._core.read(offset, len(self) - offset if length is None else length)

    def write(self, data: Any, offset: int = 0) -> None:
        """Puts bytes there, as the device's consumer would."""
        self._core.write(offset, data)

    def fill(self, pattern: str = "byte", value: int = 0) -> None:
        """Fills all of it: "byte", each is ``value``; "counter", they count up from it; "random", it is the seed."""
        self._core.fill(pattern, value)

    def checksum(self, length: int | None = None, offset: int = 0) -> int:
        """CRC-32 as zlib has it, computed at the device."""
        return self._core.checksum(offset, len(self) - offset if length is None else length)

    def release(self) -> None:
        """Deregisters it now. Refused as long as others use it."""
        self._core.release()

    def __repr__(self) -> str:
        try:
            return f"<MemoryRegion {self.addr:#x}, {len(self)} bytes, lkey {self.lkey:#x}, rkey {self.rkey:#x}>"
        except _core.ClosedError:
            return "<MemoryRegion (closed)>"


class MemoryWindow:
    """A right to a part of a region, bound as a window of type 2."""

    def __init__(self, core: _core._Window) -> None:
        self._core = core

    @property
    def rkey(self) -> int:
        """The key that it was bound with."""
        return self._core.rkey

    def release(self) -> None:
        """Takes the right away."""
        self._core.release()


class CompletionQueue(Closes):
    """Where completions go: a queue pair's own, or one that :meth:`Device.completion_queue` made for several.

    One of a queue pair's own ends with it, and close() does nothing; another one goes when those that use it have gone.
    """

    def __init__(self, core: _core._CompletionQueue | _core._QueuePairPart) -> None:
        self._core: Any = core
        self._own = not isinstance(core, _core._CompletionQueue)

    @property
    def handle(self) -> int:
        """Its number in the agent's protocol."""
        handle: int = self._core.cq_handle if self._own else self._core.handle
        return handle

    def close(self) -> None:
        """Lets go of one that was made for several: what uses it goes on. Later use raises ClosedError."""
        if not self._own:
            self._core.close()

    def poll(self, count: int = 1, timeout: float | None = 1.0) -> list[Completion]:
        """Waits until ``count`` completions are there, and gives them; fewer, or none, after ``timeout`` seconds.

        With the reference device seconds of virtual time: nobody waits.
        """
        return [Completion(**one) for one in self._core.poll(count, timeout)]

    def wait(self, timeout: float | None = 1.0) -> Completion:
        """The next completion; DeviceError, kind "timeout", when none comes for ``timeout`` seconds."""
        for completion in self.poll(1, timeout):
            return completion
        error = _core.DeviceError(f"no completion came for {timeout} s")
        error.kind = "timeout"
        raise error


class _QueuePairBase(Closes):
    """What queue pairs of RoCE and of iWARP have: memory, completions and work at the device."""

    def __init__(self, core: _core._QueuePairPart, device: Device, cq: CompletionQueue | None) -> None:
        self._core: Any = core
        self.device = device
        #: The registered memory for what reads and writes from afar, of both sides.
        self.mr = MemoryRegion(core.region)
        #: Receive request n has the bytes from n * receive_bytes on.
        self.inbox = MemoryRegion(core.inbox)
        #: Of its sends and receives.
        self.cq = CompletionQueue(core) if cq is None else cq

    @property
    def qpn(self) -> int:
        """The device's queue pair number."""
        qpn: int = self._core.device_qpn
        return qpn

    @property
    def handle(self) -> int:
        """Its number in the agent's protocol."""
        handle: int = self._core.handle
        return handle

    def _post_send(self, opcode: str, length: int, offset: int, more: dict[str, Any], to_tester: bool = False) -> None:
        if "sges" not in more and opcode not in ("local_inv", "bind_mw", "flush"):
            more["sges"] = [{"mr": self.mr.handle, "offset": offset, "length": length}]
        self._core.post_send({"opcode": opcode} | more, to_tester)

    # The device's side.

    def post_recv(self, count: int = 1) -> None:
        """Posts further receive requests; their wr_id counts from 0, and so do their places in :attr:`inbox`."""
        self._core.post_receives(count)

    def poll(self, count: int = 1, timeout: float | None = 1.0) -> list[Completion]:
        """As :meth:`CompletionQueue.poll` of its own queue."""
        return self.cq.poll(count, timeout)

    def query(self) -> dict[str, Any]:
        """Every attribute, as verbs tell (docs/reference/agent-protocol.md, query_qp)."""
        attributes: dict[str, Any] = self._core.query()
        return attributes

    @property
    def state(self) -> str:
        """"reset", "init", "rtr", "rts", "sqd", "sqe" or "err", as the device says."""
        state: str = self._core.state()
        return state

    def modify(self, state: str | None = None, **attributes: Any) -> None:
        """Changes exactly these attributes (docs/reference/agent-protocol.md, modify_qp): ``modify("err")``, ``modify(min_rnr_timer=1)``."""
        self._core.modify(({} if state is None else {"state": state}) | attributes)

    def region(self, size: int, access: str | Iterable[str] = ("local_write",)) -> MemoryRegion:
        """Further memory of this queue pair, in its protection domain. ``access``: "local_write", "remote_read", …"""
        return MemoryRegion(self._core.new_region(size, _names(access)))

    def window(self, offset: int, length: int, access: str | Iterable[str]) -> MemoryWindow:
        """A memory window of type 2 onto a part of :attr:`mr`, bound through this queue pair."""
        return MemoryWindow(self._core.bind_window(offset, length, _names(access)))

    def close(self) -> None:
        """Releases it and its memory at the device. Later use raises ClosedError. A second call does nothing."""
        self._core.close()


class QueuePair(_QueuePairBase):
    """A queue pair of the device, connected to the tester, with its memory; and the tester's end of it.

    :meth:`Device.rc_qp`, :meth:`Device.uc_qp` and :meth:`Device.ud_qp` make one. A context manager.
    """

    def __init__(
        self, core: _core._QueuePair, device: Device, service: str, cq: CompletionQueue | None = None
    ) -> None:
        super().__init__(core, device, cq)
        self._core: _core._QueuePair = core
        self.service = service  #: "rc", "uc" or "ud"
        #: The absolute PSN that the next frame() gets; each takes one.
        self.psn: int = core.first_psn
        self._wire = Wire(device._core.wire.of_queue_pair(core.tester_qpn))

    @property
    def tester_qpn(self) -> int:
        """The tester's queue pair number, which the device sends to."""
        return self._core.tester_qpn

    @property
    def first_psn(self) -> int:
        """The PSN that the tester's requests begin with."""
        return self._core.first_psn

    @property
    def device_first_psn(self) -> int:
        """The PSN that the device's requests begin with."""
        return self._core.device_first_psn

    @property
    def mtu(self) -> int:
        """Bytes of payload that a packet carries at most."""
        return self._core.mtu

    @property
    def qkey(self) -> int:
        """Of UD: what datagrams to it must carry."""
        return self._core.qkey

    @property
    def path(self) -> dict[str, Any]:
        """Addresses of both ends: tester_mac, device_address, vlan, roce_v1, …"""
        return self._core.path

    @property
    def wire(self) -> Wire:
        """The wire to the device's port; receive() gives the frames to the tester's end of this queue pair alone.

        What comes for others meanwhile is kept for them; ``device.wire`` gives everything.
        """
        return self._wire

    # The tester's side.

    def frame(self, opcode: int | None = None, *, psn: int | None = None) -> Frame:
        """Headers from the tester to the device, from Ethernet to the BTH: right addresses, QPN and the next PSN.

        ``frame() / RETH(…) / b"data"``: without ``opcode`` what follows decides, as a packet that is a whole message:
        RETH an RDMA WRITE Only, AtomicETH a Compare & Swap, AETH an Acknowledge, anything else a SEND Only. The BTH asks
        for an acknowledgement where it is a request. ``psn``: an absolute one, in place of the next.
        """
        if psn is None:
            psn = self.psn
            self.psn = (psn + 1) % PSNS
        if opcode is not None:
            frame: Frame = self._core.headers(int(opcode), psn % PSNS)
            return frame
        frame = self._core.headers(self._core.opcode(self.service, "send"), psn % PSNS)
        _core._let_follow(frame, _OfFollower(self.service))
        return frame

    # The device's side.

    def post_send(
        self,
        opcode: str = "send",
        *,
        length: int = 8,
        offset: int = 0,
        wr_id: int = 0,
        remote_addr: int | None = None,
        rkey: int | None = None,
        flags: str | Iterable[str] = ("signaled",),
        **more: Any,
    ) -> None:
        """Posts a send request at the device: ``length`` bytes of :attr:`mr` from ``offset`` on.

        ``opcode`` is "send", "write", "read", "compare_swap", "fetch_add", … (docs/reference/agent-protocol.md, post_send, which has the
        members of ``more`` as well: imm, add, compare, swap, …). Writes, reads and atomics name the tester's memory by
        ``remote_addr`` and ``rkey``, which nobody but the tester looks at. One of UD goes to the tester.
        """
        request: dict[str, Any] = {"wr_id": wr_id, "flags": _names(flags)}
        if remote_addr is not None or opcode not in ("send", "send_imm", "send_inv", "local_inv", "bind_mw"):
            request["remote_addr"] = 0x10000 if remote_addr is None else remote_addr
            request["rkey"] = 0x4321 if rkey is None else rkey
        if self.service == "ud":
            request |= {"remote_qpn": self.tester_qpn, "remote_qkey": self.qkey}
        self._post_send(opcode, length, offset, request | more, self.service == "ud" and "ah" not in more)

    def move(self, state: str) -> None:
        """To that state with the attributes that its connection to the tester needs there: INIT, RTR or RTS."""
        self._core.modify(self._core.attributes_to(state))

    def __repr__(self) -> str:
        if self.closed:
            return f"<QueuePair {self.service} (closed)>"
        return f"<QueuePair {self.service} {self.qpn:#x} of {self.device.name}, tester {self.tester_qpn:#x}>"


def _follower(part: Any) -> Any:
    """The header that comes first in what is put behind a frame; bytes as they are."""
    if isinstance(part, _core.Frame):
        return part.layers[0] if part.layers else None
    return part


class _OfFollower:
    """What frame() / part becomes where the opcode of frame() was not given."""

    _operations = ((_core.RETH, "write"), (_core.AtomicETH, "compare_swap"), (_core.AETH, "acknowledge"))

    def __init__(self, service: str) -> None:
        self._service = service

    def __call__(self, frame: Frame, part: Any) -> Frame:
        first = _follower(part)
        for header, operation in self._operations:
            if isinstance(first, header):
                frame[_core.BTH].opcode = _core._QueuePair.opcode(self._service, operation)
                if operation == "acknowledge":
                    frame[_core.BTH].ack_request = 0
        return frame


class Stream:
    """The tester's end of a queue pair's stream: what it says, FPDU by FPDU or byte by byte, and what it hears.

    ``stream >> frame`` says, ``stream << a_terminate(0, 1, 2)`` waits for what is expected (:mod:`rdmawire.iwarp`), and
    raises DeviceError, kind "failed", where something else comes.
    """

    def __init__(self, core: _core._StreamPair) -> None:
        self._core = core

    # What it says.

    def send(self, what: Any, *more: Any, segment_bytes: int | None = None) -> None:
        """Says a Frame that begins with an FPDU, a Stimulus, or bytes as they stand; several as one TCP segment.

        An FPDU is framed as the stream is: with markers where the device asked for them, its length, pad and CRC
        computed unless they are given. What does not fit in one TCP segment goes in several; ``segment_bytes`` cuts it
        in pieces of so many.
        """
        if segment_bytes is not None:
            for one in (what, *more):
                self._core.in_pieces(one, segment_bytes)
        elif more:
            self._core.together([what, *more])
        else:
            self._core.send(what)

    def __rshift__(self, what: Any) -> Stream:
        self._core.send(what)
        return self

    def fpdu(self, what: Any) -> bytes:
        """The bytes of that FPDU as the next of the stream, markers included: to be changed, and then sent."""
        return self._core.fpdu(what)

    def finish(self) -> None:
        """The tester's FIN: it says nothing more."""
        self._core.finish()

    def reset(self) -> None:
        """A reset of TCP: the stream is over."""
        self._core.reset()

    # What it hears.

    def receive(self, timeout: float | None = 1.0) -> Heard | Any:  # Any: None, too rare to ask
        """What came next, or None when nothing did for ``timeout`` seconds.

        That is an FPDU, but also the device's MPA frame (kind "setup"), its FIN ("fin"), a reset ("reset"), and bytes
        that are no whole FPDU before the end ("torn"). Behind a reset nothing comes. Other threads go on meanwhile, and
        ctrl-C ends it. With the reference endpoint seconds of virtual time: nobody waits.
        """
        heard: Heard | None = self._core.receive(timeout)
        return heard

    def __lshift__(self, expected: Expectation | _core.Silence) -> Stream:
        self._core << expected
        return self

    def wait(self, expected: Expectation, timeout: float = 0) -> Heard:
        """What came next, which is as expected, or DeviceError; ``timeout`` 0: as long as the device is usually given."""
        heard: Heard = self._core.wait(expected, timeout)
        return heard

    def sniff(self, count: int | None = None, timeout: float | None = 1.0) -> Iterator[Heard]:
        """What comes, until its end, until nothing did for ``timeout`` seconds, or until there were ``count``."""
        while count is None or count > 0:
            heard = self.receive(timeout)
            if heard is None:
                return
            yield heard
            if heard.kind in ("fin", "reset"):
                return
            count = None if count is None else count - 1

    # Its set-up.

    @property
    def setup(self) -> Heard | None:
        """The device's MPA frame; None before it came."""
        heard: Heard | None = self._core.setup
        return heard

    @property
    def operating(self) -> bool:
        """It is in Full Operation Phase."""
        return self._core.operating

    @property
    def mss(self) -> int:
        """Bytes that one of the tester's TCP segments carries at most."""
        return self._core.mss

    @property
    def port(self) -> int:
        """The device's TCP port."""
        return self._core.port

    @property
    def mpa_frame(self) -> bytes:
        """The tester's MPA frame as the options make it: a request, or a reply where the device initiates."""
        return self._core.mpa_frame

    def __repr__(self) -> str:
        try:
            return f"<Stream to port {self.port}{'' if self.operating else ', not set up'}>"
        except _core.ClosedError:
            return "<Stream (closed)>"


class StreamQueuePair(_QueuePairBase):
    """A queue pair of a device of iWARP with its memory, and the tester's end of its stream: :meth:`Device.stream`.

    A context manager. Where it was made without a stream, the steps of a set-up are its methods, in this order:

    - the tester initiates: :meth:`listen`, :meth:`dial`, ``stream.send(stream.mpa_frame)``, :meth:`accept`,
      :meth:`operate`;
    - the device does: :meth:`device_dial`, :meth:`answer`, :meth:`operate`.
    """

    def __init__(self, core: _core._StreamPair, device: Device, cq: CompletionQueue | None = None) -> None:
        super().__init__(core, device, cq)
        self._core: _core._StreamPair = core
        self.stream = Stream(core)
        #: The MSN that the next message of each untagged queue gets: 0 Sends, 1 RDMA Read Requests, 2 Terminate, 3 Atomic
        #: Responses. frame() takes one.
        self.msns: dict[int, int] = {0: 1, 1: 1, 2: 1, 3: 1}

    @property
    def stag(self) -> int:
        """The STag of :attr:`mr`."""
        return self.mr.rkey

    # The tester's side.

    def frame(self, opcode: int | None = None, *, msn: int | None = None) -> Frame:
        """Headers of an FPDU that is a whole message, up to DDP's: right queue and next MSN.

        ``frame() / DDPTagged(stag=…, to=…) / b"data"``: without ``opcode`` what follows decides. DDPTagged makes an RDMA
        Write, RDMAPReadRequest an RDMA Read Request, Terminate a Terminate, the headers of RFC 7306 what they are of,
        anything else a Send. ``msn``: another one than the next.
        """
        follower = _OfStreamsFollower(self.msns, msn)
        return follower.begin() if opcode is None else follower.headers(int(opcode))

    def listen(self) -> None:
        """The device waits for a stream, at :attr:`Stream.port`."""
        self._core.listens()

    def dial(self) -> None:
        """The tester connects TCP to where the device waits."""
        self._core.dials()

    def device_dial(self) -> None:
        """The device asks the tester for a stream, and TCP is connected; its MPA Request Frame follows."""
        self._core.device_dials()

    def accept(self) -> None:
        """The device's consumer is told of the request, and accepts: the device's reply follows."""
        self._core.accepts()

    def answer(self) -> None:
        """Waits for the device's MPA Request Frame, and says the reply that the options make."""
        self._core.answers()

    def operate(self, established: bool = True) -> None:
        """Waits for the device's MPA frame, unless it came, and goes to Full Operation Phase by what both frames say.

        ``established``: and the device's consumer is told of that.
        """
        self._core.operates()
        if established:
            self._core.expect_event("established")

    # The device's side.

    def post_send(
        self,
        opcode: str = "send",
        *,
        length: int = 8,
        offset: int = 0,
        wr_id: int = 0,
        remote_addr: int | None = None,
        rkey: int | None = None,
        flags: str | Iterable[str] = ("signaled",),
        **more: Any,
    ) -> None:
        """Posts a send request at the device: ``length`` bytes of :attr:`mr` from ``offset`` on.

        ``opcode`` is "send", "write", "read", … (docs/reference/agent-protocol.md, post_send). Writes and reads name the tester's memory by
        ``remote_addr`` (the TO) and ``rkey`` (the STag), which nobody but the tester looks at. Before the tester has said
        its first FPDU a device that accepted the stream may not send. RFC 5044, 7.1.2 rule 4.
        """
        request: dict[str, Any] = {"wr_id": wr_id, "flags": _names(flags)}
        if remote_addr is not None or opcode in ("write", "read", "compare_swap", "fetch_add"):
            request["remote_addr"] = 0x10000 if remote_addr is None else remote_addr
            request["rkey"] = 0x4321 if rkey is None else rkey
        self._post_send(opcode, length, offset, request | more)

    def __repr__(self) -> str:
        if self.closed:
            return "<StreamQueuePair (closed)>"
        return f"<StreamQueuePair {self.qpn:#x} of {self.device.name}, {self.stream!r}>"


#: What the headers behind DDP's say that a message is.
_OPCODES = (
    (_core.DDPTagged, 0),  # RDMA Write
    (_core.RDMAPReadRequest, 1),
    (_core.Terminate, 7),
    (_core.RDMAPImmediateData, 8),
    (_core.RDMAPAtomicRequest, 10),
    (_core.RDMAPAtomicResponse, 11),
)
_SEND = 3


class _OfStreamsFollower:
    """What frame() / part of a stream becomes where the opcode of frame() was not given; each MSN is taken once."""

    def __init__(self, msns: dict[int, int], msn: int | None) -> None:
        # Not the queue pair itself: a frame that it is kept in is one that the collector does not see into.
        self._msns, self._given = msns, msn
        self._taken: dict[int, int] = {}

    def begin(self) -> Frame:
        """A Send's headers, until something else follows."""
        self._begun = self.headers(_SEND)
        frame: Frame = _core._let_follow(self._begun.copy(), self)
        return frame

    def __call__(self, frame: Frame, part: Any) -> Frame:
        first = _follower(part)
        opcode = next((number for header, number in _OPCODES if isinstance(first, header)), _SEND)
        if opcode != _SEND:
            self._give_back()
        wanted = self.headers(opcode)
        if _core.DDPUntagged not in wanted:
            frame = frame.without(_core.DDPUntagged)
        for header in (_core.DDP, _core.RDMAP, _core.DDPUntagged):
            if header in wanted:
                self._change(frame[header], self._begun[header], wanted[header])
        return frame

    def headers(self, opcode: int) -> Frame:
        """Of a message of that RDMAP opcode."""
        queue = _core.iwarp.queue_of(opcode)
        msn = self._given or 0
        if self._given is None and queue is not None:
            if queue not in self._taken:
                self._taken[queue] = self._msns[queue]
                self._msns[queue] = (self._taken[queue] + 1) & 0xFFFFFFFF
            msn = self._taken[queue]
        frame: Frame = _core.iwarp.headers(opcode, msn)
        return frame

    def _give_back(self) -> None:
        """The Send's MSN, where it is no Send after all and no later one was taken."""
        msn = self._taken.get(0)
        if msn is not None and self._msns[0] == (msn + 1) & 0xFFFFFFFF:
            self._msns[0] = self._taken.pop(0)

    @staticmethod
    def _change(header: Any, begun: Any, wanted: Any) -> None:
        """What nobody has changed since it was begun becomes as it is wanted."""
        for name in ("tagged", "opcode", "qn", "msn"):
            if hasattr(header, name) and getattr(header, name) == getattr(begun, name):
                setattr(header, name, getattr(wanted, name))


class ProtectionDomain(Closes):
    """A protection domain that several queue pairs are made in: :meth:`Device.domain`. A context manager.

    Closed, it ends what was made in it.
    """

    def __init__(self, core: _core._Domain, device: Device) -> None:
        self._core: _core._Domain = core
        self.device = device

    @property
    def handle(self) -> int:
        """Its number in the agent's protocol."""
        return self._core.handle

    def region(self, size: int, access: str | Iterable[str] = ("local_write",)) -> MemoryRegion:
        """Memory in it, all zeros. ``access``: "local_write", "remote_read", …"""
        return MemoryRegion(self._core.region(size, _names(access)))

    def __repr__(self) -> str:
        return "<ProtectionDomain (closed)>" if self.closed else f"<ProtectionDomain {self.handle} of {self.device.name}>"


class Device(Closes):
    """A device that can be reached: its verbs, and the wire to its port. A context manager.

    :func:`reference`, :func:`lab`, :func:`agent` and :func:`open_device` open one. From any thread. A device that dies,
    or whose agent does, ends what waits for it with DeviceError, kind "lost".
    """

    def __init__(self, core: _core._Device, options: Mapping[str, Any] | None = None) -> None:
        self._core: _core._Device = core
        self._options = dict(options or {})
        self._made = 0
        wire = core.wire
        self._wire = None if wire is None else Wire(wire)

    @property
    def name(self) -> str:
        """"reference", "lab:rxe", "agent:…"."""
        return "a device (closed)" if self._core.closed else self._core.name

    @property
    def details(self) -> str:
        """What the device and its host say of themselves, one line."""
        return self._core.details

    @property
    def family(self) -> str:
        """"roce" or "iwarp"."""
        return self._core.family

    @property
    def virtual_time(self) -> bool:
        """Time goes on only where something waits for it: the reference devices."""
        return self._core.virtual_time

    @property
    def wire(self) -> Wire:
        """The wire to its port: every frame that is not the address resolution's. Of iWARP there is none: UsageError."""
        if self._wire is None:
            raise _core.UsageError(f"{self.name}: a device of iWARP is reached over TCP: stream() makes queue pairs with streams")
        return self._wire

    @property
    def path(self) -> dict[str, Any]:
        """Addresses of the tester and the device: tester_mac, device_address, …"""
        return self._core.path

    # Queue pairs.

    def rc_qp(self, access: str | Iterable[str] | None = None, *, seed: int | None = None, **options: Any) -> QueuePair:
        """A queue pair of RC, connected to the tester and in RTS, with registered memory (:attr:`QueuePair.mr`).

        ``access``: what the tester may do, "remote_write", "remote_read", "remote_atomic", several with blanks between
        or in a list; all of them without one. ``seed``: of its PSNs and the tester's number. Options are those of
        :meth:`qp`.
        """
        return self.qp("rc", access, seed=seed, **options)

    def uc_qp(self, access: str | Iterable[str] | None = None, *, seed: int | None = None, **options: Any) -> QueuePair:
        """As :meth:`rc_qp`, of UC."""
        return self.qp("uc", access, seed=seed, **options)

    def ud_qp(self, *, seed: int | None = None, **options: Any) -> QueuePair:
        """A queue pair of UD in RTS; its :attr:`QueuePair.qkey` is what datagrams to it must carry."""
        return self.qp("ud", seed=seed, **options)

    def qp(
        self,
        service: str,
        access: str | Iterable[str] | None = None,
        *,
        domain: ProtectionDomain | None = None,
        cq: CompletionQueue | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> QueuePair:
        """A queue pair of "rc", "uc" or "ud". ``domain`` and ``cq``: in place of its own.

        Options, as the C++ cases have them: mtu, receives (receive requests that are posted), receive_bytes,
        region_bytes, region_access, reads_at_once, own_reads, timeout, retry_cnt, rnr_retry, min_rnr_timer, send_wr,
        send_ops, inline_bytes, completions, shared_receives, qkey, state ("reset", "init", "rtr", "rts"), hop_limit,
        traffic_class, over ("ipv4", "ipv6", "vlan", "roce_v1"), notifies, first_psn, device_psn.
        """
        if service not in ("rc", "uc", "ud"):
            raise _core.UsageError(f"service={service!r}: a queue pair is of rc, uc or ud")
        if access is not None:
            names = _names(access)
            options.setdefault("access", names)
            options.setdefault("region_access", ["local_write", *names])
        for name in ("region_access", "send_ops"):
            if name in options:
                options[name] = _names(options[name])
        of = (None if domain is None else domain._core, None if cq is None else cq._core)
        return QueuePair(_core._QueuePair(self._core, service, options, self._seed(seed), *of), self, service, cq)

    def stream(
        self,
        access: str | Iterable[str] | None = None,
        *,
        connected: bool = True,
        domain: ProtectionDomain | None = None,
        cq: CompletionQueue | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> StreamQueuePair:
        """A queue pair of a device of iWARP whose stream to the tester is in Full Operation Phase.

        The tester is the MPA initiator, and the device its responder; with ``device_initiates=True`` the other way round.
        ``connected=False`` leaves the set-up to you, step by step. ``access``: what the tester may do with
        :attr:`StreamQueuePair.mr`, "remote_write", "remote_read", "remote_atomic"; all of them without one. ``domain``
        and ``cq``: in place of its own.

        Options, as the C++ cases have them: of the tester's MPA frame revision, markers (in what the device sends), crc,
        private_data, enhanced (True, or its ird, ord, a, b, c, d); mss (of the device's TCP segments);
        device_private_data, reads_at_once (its IRD), own_reads (its ORD), wishes (of the device's set-up, of the
        reference endpoint alone: revision, markers, crc, enhanced, peer_to_peer, rtr_send, rtr_write, rtr_read, rdmac);
        receives (receive requests that are posted), receive_bytes, region_bytes, region_access, send_wr, completions.
        """
        if access is not None:
            options.setdefault("region_access", ["local_write", *_names(access)])
        if "region_access" in options:
            options["region_access"] = _names(options["region_access"])
        of = (None if domain is None else domain._core, None if cq is None else cq._core)
        core = _core._StreamPair(self._core, options, self._seed(seed), connected, *of)
        return StreamQueuePair(core, self, cq)

    def domain(self, *, seed: int | None = None) -> ProtectionDomain:
        """A protection domain, for queue pairs that share it: ``rc_qp(domain=…)``, ``stream(domain=…)``."""
        return ProtectionDomain(self._core.domain(self._seed(seed)), self)

    def completion_queue(self, entries: int = 256) -> CompletionQueue:
        """A completion queue, for queue pairs that share it: ``rc_qp(cq=…)``, ``stream(cq=…)``."""
        return CompletionQueue(self._core.completion_queue(entries))

    def _seed(self, given: int | None) -> int:
        if given is None:
            self._made += 1
            given = int(self._options.get("seed", 1)) * 1_000_003 + self._made
        return given & (1 << 64) - 1

    # What else verbs tell and do.

    def call(self, command: str, timeout: float | None = 5.0, /, **arguments: Any) -> Any:
        """Any command of the agent's protocol (docs/reference/agent-protocol.md), with its answer: ``call("describe", device=d.handle)``."""
        return self._core.call(command, arguments, timeout)

    @property
    def handle(self) -> int:
        """Its number in the agent's protocol."""
        return self._core.handle

    def describe(self) -> dict[str, Any]:
        """What verbs say of the device: limits, capabilities, ports (docs/reference/agent-protocol.md, describe)."""
        description: dict[str, Any] = self.call("describe", device=self.handle)
        return description

    def counters(self) -> dict[str, int]:
        """The port's counters by name: "rcvd_pkts", …"""
        return self._core.counters()

    def lacks(self, *needs: str) -> str | None:
        """Why it has not all of these, in words; None where it has, or does not say that it lacks one.

        Names are those of :data:`rdmawire.conformance.NEEDS`: "atomics", "xrc", "memory_windows", …
        """
        from rdmawire.conformance import needs_mask

        return self._core.lacking(needs_mask(needs)) or None

    def complaints(self) -> list[str]:
        """What the device itself complained of since this was asked last: a kernel's warnings."""
        return self._core.complaints()

    def gone(self) -> str | None:
        """Why it cannot be used any more; None while it can."""
        return self._core.gone()

    # What it does wrong.

    @property
    def faults(self) -> frozenset[str]:
        """The ways in which a reference device breaks the specification now, by name (:func:`faults` lists them)."""
        return frozenset(self._core.faults)

    @faults.setter
    def faults(self, names: str | Iterable[str]) -> None:
        self._core.set_faults([names] if isinstance(names, str) else list(names))

    # What goes over its wire, or its streams, kept.

    def record(self, most: int = 65536) -> None:
        """Keeps the frames that go to the device and come from it, the newest ``most``; 0: no more, and forgets them.

        Of iWARP those of the streams' TCP, from the next step of a stream on.
        """
        self._recorder().record(most)

    def save(self, path: str | os.PathLike[str], comments: Iterable[str] = ()) -> int:
        """Writes what was recorded to a pcapng, a comment "sent" or "received" at each frame; gives how many."""
        return _core._save_recorded(os.fspath(path), {self.name: self._recorder()}, list(comments))

    def _recorder(self) -> _core._Wire:
        return self._core.recorder if self._wire is None else self._wire._core

    # Its end.

    def close(self) -> None:
        """Ends everything that was made at it, then the device: a lab's guest goes. A second call does nothing."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<Device {self.name}>"


def _names(names: str | Iterable[str]) -> list[str]:
    if isinstance(names, str):
        return names.replace(",", " ").replace("|", " ").split()
    return list(names)


def _agent_program() -> str:
    """Find the agent's program for the lab: RDMAWIRE_AGENT, else in the package, else on the path."""
    given = os.environ.get("RDMAWIRE_AGENT")
    candidates = [Path(given)] if given else [Path(_core.__file__).resolve().parent / "bin" / "rdmawire-agent"]
    if not given:
        folders = [*os.environ.get("PATH", "").split(os.pathsep), os.path.dirname(sys.executable)]
        candidates += [Path(folder or ".") / "rdmawire-agent" for folder in folders]
    for program in candidates:
        if program.is_file() and os.access(program, os.X_OK):
            return str(program)
    error = _core.DeviceError(
        f"lab: the guest needs the agent's program, and {given} is none"
        if given
        else f"lab: the guest needs the agent's program, and there is no rdmawire-agent in {candidates[0].parent} nor on "
        "the path; RDMAWIRE_AGENT says where it is"
    )
    error.kind = "unreachable"
    raise error


def open_device(name: str, **options: Any) -> Device:
    """Opens a device by the name that ``rdmawire certify --device`` takes: "reference", "lab:rxe", "agent:ADDRESS".

    Options: seed, faults and family ("roce", "iwarp") of the reference device; kernel of the lab; wire, allow,
    secret_file, multicast and frames_per_second of an agent. Raises DeviceError, kind "unreachable", where it cannot be
    opened, and UsageError where the name or an option makes no sense. Ctrl-C ends a lab that boots.
    """
    given = {key: value for key, value in options.items() if value is not None}
    for key in ("faults", "allow"):
        if key in given:
            given[key] = [given[key]] if isinstance(given[key], str) else list(given[key])
    if name.startswith("lab:") and "agent" not in given:
        given["agent"] = _agent_program()
    return Device(_core._open_device(name, given), given)


def reference(*, seed: int = 1, faults: str | Iterable[str] = (), family: str = "roce") -> Device:
    """The reference device in this process and in virtual time: nobody waits, and a run can be repeated.

    ``faults``: ways to break the specification, by name (:func:`faults` lists them). ``family`` "iwarp" is the
    reference endpoint of iWARP.
    """
    if family not in ("roce", "iwarp"):
        raise _core.UsageError(f"family={family!r}: there are roce and iwarp")
    return open_device("reference", seed=seed, faults=faults, family=family)


def lab(device: str = "rxe", *, kernel: str = "debian") -> Device:
    """Linux's rxe or siw in a virtual machine under emulation (docs/how-to/lab-recipes.md); booting takes seconds.

    ``kernel``: "debian", "newest", or the path of one.
    """
    if device not in ("rxe", "siw"):
        raise _core.UsageError(f"lab({device!r}): there are rxe and siw")
    return open_device(f"lab:{device}", kernel=kernel)


def agent(
    address: str,
    *,
    wire: str,
    allow: str | Iterable[str] = (),
    secret_file: str | os.PathLike[str] | None = None,
    multicast: bool = False,
    frames_per_second: int = 10_000,
) -> Device:
    """A device on a bench: the agent beside it (docs/reference/agent-protocol.md), and the wire that leads to its port.

    ``address``: "HOST:PORT", or as docs/reference/agent-protocol.md has them, "tcp:HOST:PORT", "unix:PATH", "serial:PATH". ``allow`` names
    the addresses that crafted frames may go to: without the device's own it is not opened, and the error names it.
    """
    if not address.startswith(("tcp:", "unix:", "serial:")):
        address = f"tcp:{address}"
    return open_device(
        f"agent:{address}",
        wire=wire,
        allow=allow,
        secret_file=None if secret_file is None else os.fspath(secret_file),
        multicast=multicast,
        frames_per_second=frames_per_second,
    )


def faults(family: str = "roce") -> dict[str, str]:
    """The ways in which the reference device of that family can be broken on purpose, each with what it then does."""
    return _core._faults(family)
