"""Queue pairs of iWARP devices and their streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from rdmawire import _core
from rdmawire.names import list_of_names
from rdmawire.queue_pairs import CompletionQueue, QueuePairBase, first_header

if TYPE_CHECKING:
    from rdmawire._core import Frame
    from rdmawire.devices import Device
    from rdmawire.iwarp import Expectation, Received

__all__ = ["Stream", "StreamQueuePair"]


class Stream:
    """The tester's endpoint of a stream. Sends and receives FPDUs or bytes.

    ``stream >> frame`` sends. ``stream << a_terminate(0, 1, 2)`` waits for an expectation (:mod:`rdmawire.iwarp`) and
    raises DeviceError with kind "failed" if another item arrives.
    """

    def __init__(self, core: _core._StreamPair) -> None:
        self._core = core

    # Sending.

    def send(self, what: Any, *more: Any, segment_bytes: int | None = None) -> None:
        """Send a Frame that starts with an FPDU, a Stimulus, or bytes. Several objects are sent as one TCP segment.

        FPDUs get markers if the device requested them, and a computed length, pad and CRC unless these are set. Data
        that exceeds a TCP segment is sent in several segments. ``segment_bytes``: size of the TCP segments.
        """
        if segment_bytes is not None:
            for one in (what, *more):
                self._core.send_in_segments(one, segment_bytes)
        elif more:
            self._core.send_together([what, *more])
        else:
            self._core.send(what)

    def __rshift__(self, what: Any) -> Stream:
        self._core.send(what)
        return self

    def fpdu(self, what: Any) -> bytes:
        """Return an FPDU as bytes for the current position of the stream, with markers. The caller can change and send
        the bytes."""
        return self._core.fpdu(what)

    def finish(self) -> None:
        """Send the tester's FIN."""
        self._core.finish()

    def reset(self) -> None:
        """Reset the TCP connection."""
        self._core.reset()

    # Receiving.

    # Any instead of None, to avoid checks in user code.
    def receive(self, timeout: float | None = 1.0) -> Received | Any:
        """Return the next item, or None if no item arrives for ``timeout`` seconds.

        An item is an FPDU, the device's MPA frame (kind "setup"), its FIN ("fin"), a reset ("reset"), or bytes that are
        an incomplete FPDU ("torn"). No items follow a reset. Other threads can run, and Ctrl-C ends the call. The
        reference endpoint uses seconds of virtual time and does not block.
        """
        received: Received | None = self._core.receive(timeout)
        return received

    def __lshift__(self, expected: Expectation | _core.Silence) -> Stream:
        self._core << expected
        return self

    def wait(self, expected: Expectation, timeout: float = 0) -> Received:
        """Return the next item if it is as expected, otherwise raise DeviceError. ``timeout`` 0: the default
        timeout."""
        received: Received = self._core.wait(expected, timeout)
        return received

    def sniff(self, count: int | None = None, timeout: float | None = 1.0) -> Iterator[Received]:
        """Return an iterator over received items.

        It ends after ``count`` items, after ``timeout`` seconds without an item, or at the end of the stream.
        """
        while count is None or count > 0:
            received = self.receive(timeout)
            if received is None:
                return
            yield received
            if received.kind in ("fin", "reset"):
                return
            count = None if count is None else count - 1

    # Connection setup.

    @property
    def setup(self) -> Received | None:
        """The device's MPA frame, or None before it arrives."""
        received: Received | None = self._core.setup
        return received

    @property
    def operating(self) -> bool:
        """Whether the stream is in Full Operation Phase."""
        return self._core.operating

    @property
    def mss(self) -> int:
        """Maximum payload, in bytes, of the TCP segments that the tester sends."""
        return self._core.mss

    @property
    def port(self) -> int:
        """TCP port of the device."""
        return self._core.port

    @property
    def mpa_frame(self) -> bytes:
        """The tester's MPA frame defined by the options: a request, or a reply if the device initiates."""
        return self._core.mpa_frame

    def __repr__(self) -> str:
        try:
            return f"<Stream to port {self.port}{'' if self.operating else ', not established'}>"
        except _core.ClosedError:
            return "<Stream (closed)>"


class StreamQueuePair(QueuePairBase):
    """A queue pair of an iWARP device with its memory, and the tester's endpoint of its stream.

    Made by :meth:`Device.stream`. A context manager. Without a stream, these methods establish it, in this order:

    - The tester initiates: :meth:`listen`, :meth:`dial`, ``stream.send(stream.mpa_frame)``, :meth:`accept`,
      :meth:`operate`.
    - The device initiates: :meth:`device_dial`, :meth:`reply`, :meth:`operate`.
    """

    def __init__(self, core: _core._StreamPair, device: Device, cq: CompletionQueue | None = None) -> None:
        super().__init__(core, device, cq)
        self._core: _core._StreamPair = core
        self.stream = Stream(core)
        #: MSN of the next message of each untagged queue: 0 Sends, 1 RDMA Read Requests, 2 Terminate, 3 Atomic
        #: Responses. frame() increments it.
        self.msns: dict[int, int] = {0: 1, 1: 1, 2: 1, 3: 1}

    @property
    def stag(self) -> int:
        """STag of :attr:`mr`."""
        return self.mr.rkey

    # The tester's side.

    def frame(self, opcode: int | None = None, *, msn: int | None = None) -> Frame:
        """Return the headers of a single-segment message up to DDP, with queue number and next MSN.

        Complete the frame with ``/``: ``frame() / DDPTagged(stag=…, to=…) / b"data"``. Without ``opcode``, the appended
        header determines the message: DDPTagged is an RDMA Write, RDMAPReadRequest an RDMA Read Request, Terminate a
        Terminate, a header of RFC 7306 the corresponding message, all others a Send. ``msn``: MSN instead of the
        next one.
        """
        choice = _MessageChoice(self.msns, msn)
        return choice.begin() if opcode is None else choice.headers(int(opcode))

    def listen(self) -> None:
        """Make the device listen on :attr:`Stream.port`."""
        self._core.listens()

    def dial(self) -> None:
        """Connect TCP from the tester to the device's port."""
        self._core.dials()

    def device_dial(self) -> None:
        """Connect TCP from the device to the tester. The device then sends its MPA Request Frame."""
        self._core.device_dials()

    def accept(self) -> None:
        """Accept the request at the device's application. The device then sends its MPA Reply Frame."""
        self._core.accepts()

    def reply(self) -> None:
        """Wait for the device's MPA Request Frame, and send the reply defined by the options."""
        self._core.replies()

    def operate(self, established: bool = True) -> None:
        """Wait for the device's MPA frame unless it has arrived, and enter Full Operation Phase as negotiated.

        ``established``: also wait for the event ESTABLISHED at the device's application.
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
        """Post a send request at the device with ``length`` bytes of :attr:`mr` from ``offset``.

        ``opcode`` is "send", "write", "read", … (docs/reference/agent-protocol.md, post_send). ``remote_addr`` (the TO)
        and ``rkey`` (the STag) identify the tester's memory and can be arbitrary. A device that accepted the stream may
        send only after the tester's first FPDU. RFC 5044, 7.1.2 rule 4.
        """
        request: dict[str, Any] = {"wr_id": wr_id, "flags": list_of_names(flags)}
        if remote_addr is not None or opcode in ("write", "read", "compare_swap", "fetch_add"):
            request["remote_addr"] = 0x10000 if remote_addr is None else remote_addr
            request["rkey"] = 0x4321 if rkey is None else rkey
        self._post_send(opcode, length, offset, request | more)

    def __repr__(self) -> str:
        if self.closed:
            return "<StreamQueuePair (closed)>"
        return f"<StreamQueuePair {self.qpn:#x} of {self.device.name}, {self.stream!r}>"


#: RDMAP opcodes of headers after DDP.
_OPCODES = (
    (_core.DDPTagged, 0),  # RDMA Write
    (_core.RDMAPReadRequest, 1),
    (_core.Terminate, 7),
    (_core.RDMAPImmediateData, 8),
    (_core.RDMAPAtomicRequest, 10),
    (_core.RDMAPAtomicResponse, 11),
)
_SEND = 3


class _MessageChoice:
    """Sets the message of a frame according to the appended header. Each MSN is used once."""

    def __init__(self, msns: dict[int, int], msn: int | None) -> None:
        # A reference to the queue pair would be a cycle through the frame, which the garbage collector cannot find.
        self._msns, self._msn = msns, msn
        self._used: dict[int, int] = {}

    def begin(self) -> Frame:
        """Return the headers of a Send, to be changed by the appended header."""
        self._initial = self.headers(_SEND)
        frame: Frame = _core._let_follow(self._initial.copy(), self)
        return frame

    def __call__(self, frame: Frame, part: Any) -> Frame:
        first = first_header(part)
        opcode = next((number for header, number in _OPCODES if isinstance(first, header)), _SEND)
        if opcode != _SEND:
            self._return_msn()
        wanted = self.headers(opcode)
        if _core.DDPUntagged not in wanted:
            frame = frame.without(_core.DDPUntagged)
        for header in (_core.DDP, _core.RDMAP, _core.DDPUntagged):
            if header in wanted:
                self._change(frame[header], self._initial[header], wanted[header])
        return frame

    def headers(self, opcode: int) -> Frame:
        """Return the headers of a message with this RDMAP opcode."""
        queue = _core.iwarp.queue_of(opcode)
        msn = self._msn or 0
        if self._msn is None and queue is not None:
            if queue not in self._used:
                self._used[queue] = self._msns[queue]
                self._msns[queue] = (self._used[queue] + 1) & 0xFFFFFFFF
            msn = self._used[queue]
        frame: Frame = _core.iwarp.headers(opcode, msn)
        return frame

    def _return_msn(self) -> None:
        """Make the MSN of the Send available again, unless a later MSN was used."""
        msn = self._used.get(0)
        if msn is not None and self._msns[0] == (msn + 1) & 0xFFFFFFFF:
            self._msns[0] = self._used.pop(0)

    @staticmethod
    def _change(header: Any, initial: Any, wanted: Any) -> None:
        """Set the fields that still have their initial values to the wanted values."""
        for name in ("tagged", "opcode", "qn", "msn"):
            if hasattr(header, name) and getattr(header, name) == getattr(initial, name):
                setattr(header, name, getattr(wanted, name))
