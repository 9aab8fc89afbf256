"""Queue pairs of RoCE devices, completions, and the common part of queue pairs of both transport families."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rdmawire import _core
from rdmawire.closing import Closes, made_by
from rdmawire.memory import MemoryRegion, MemoryWindow
from rdmawire.names import list_of_access, list_of_names
from rdmawire.wires import Wire

if TYPE_CHECKING:
    from rdmawire._core import Frame
    from rdmawire.devices import Device

__all__ = ["Completion", "CompletionQueue", "QueuePair"]

PSNS = 1 << 24


@dataclasses.dataclass(frozen=True)
class Completion:
    """A work completion. IBTA vol 1, 11.4.2.1."""

    wr_id: int  #: id of the work request
    status: str  #: "success", "rem_access_err", "wr_flush_err", …
    vendor_err: int
    qp_num: int
    opcode: str | None  #: "send", "write", "recv", …; None after an error
    byte_len: int
    imm: int | None  #: immediate data
    invalidated_rkey: int | None
    src_qp: int | None  #: source QP of a datagram

    @property
    def good(self) -> bool:
        """Whether the status is "success"."""
        return self.status == "success"


class CompletionQueue(Closes):
    """The completion queue of a queue pair, or a shared one made by :meth:`Device.completion_queue`.

    The queue that belongs to a queue pair is closed with it, and its close() has no effect. A shared queue is destroyed
    at the device when it and all its queue pairs are closed.
    """

    def __init__(self, core: _core._CompletionQueue | _core._QueuePairPart) -> None:
        self._core: Any = core
        self._own = not isinstance(core, _core._CompletionQueue)

    @property
    def handle(self) -> int:
        """Handle in the agent's protocol."""
        handle: int = self._core.cq_handle if self._own else self._core.handle
        return handle

    def close(self) -> None:
        """Close a shared queue. Its queue pairs still use it. Later calls raise ClosedError."""
        if not self._own:
            self._core.close()

    def poll(self, count: int = 1, timeout: float | None = 1.0) -> list[Completion]:
        """Wait for ``count`` completions and return them. Returns fewer after ``timeout`` seconds.

        Reference devices use seconds of virtual time and do not block.
        """
        return [Completion(**one) for one in self._core.poll(count, timeout)]

    def wait(self, timeout: float | None = 1.0) -> Completion:
        """Return the next completion. Raises DeviceError with kind "timeout" after ``timeout`` seconds."""
        for completion in self.poll(1, timeout):
            return completion
        error = _core.DeviceError(f"no completion for {timeout} s")
        error.kind = "timeout"
        raise error


class QueuePairBase(Closes):
    """Common part of RoCE and iWARP queue pairs: memory, completions and work requests at the device."""

    def __init__(self, core: _core._QueuePairPart, device: Device, cq: CompletionQueue | None) -> None:
        self._core: Any = core
        self.device = device
        #: Registered memory for remote and local access.
        self.mr = MemoryRegion(core.region)
        #: Memory of receive requests. Request n uses the bytes from n * receive_bytes.
        self.inbox = MemoryRegion(core.inbox)
        #: Completion queue of sends and receives.
        self.cq = CompletionQueue(core) if cq is None else cq

    @property
    def qpn(self) -> int:
        """QP number of the device."""
        qpn: int = self._core.device_qpn
        return qpn

    @property
    def handle(self) -> int:
        """Handle in the agent's protocol."""
        handle: int = self._core.handle
        return handle

    def _post_send(self, opcode: str, length: int, offset: int, more: dict[str, Any], to_tester: bool = False) -> None:
        if "sges" not in more and opcode not in ("local_inv", "bind_mw", "flush"):
            more["sges"] = [{"mr": self.mr.handle, "offset": offset, "length": length}]
        self._core.post_send({"opcode": opcode} | more, to_tester)

    def post_recv(self, count: int = 1) -> None:
        """Post up to 65,536 receive requests. Their wr_id and their position in :attr:`inbox` count from 0."""
        self._core.post_receives(count)

    def poll(self, count: int = 1, timeout: float | None = 1.0) -> list[Completion]:
        """Poll the queue pair's completion queue, see :meth:`CompletionQueue.poll`."""
        return self.cq.poll(count, timeout)

    def query(self) -> dict[str, Any]:
        """Return all attributes (docs/reference/agent-protocol.md, query_qp)."""
        attributes: dict[str, Any] = self._core.query()
        return attributes

    @property
    def state(self) -> str:
        """State reported by the device: "reset", "init", "rtr", "rts", "sqd", "sqe" or "err"."""
        state: str = self._core.state()
        return state

    def modify(self, state: str | None = None, **attributes: Any) -> None:
        """Change exactly these attributes: ``modify("err")``, ``modify(min_rnr_timer=1)``.

        docs/reference/agent-protocol.md, modify_qp, lists them.
        """
        self._core.modify(({} if state is None else {"state": state}) | attributes)

    def region(self, size: int, access: str | Iterable[str] = ("local_write",)) -> MemoryRegion:
        """Create another region in the protection domain. ``access``: "local_write", "remote_read", …"""
        return MemoryRegion(self._core.new_region(size, list_of_access(access)))

    def window(self, offset: int, length: int, access: str | Iterable[str]) -> MemoryWindow:
        """Bind a memory window of type 2 to a part of :attr:`mr` through this queue pair."""
        return MemoryWindow(self._core.bind_window(offset, length, list_of_access(access)))

    def close(self) -> None:
        """Release the queue pair and its memory. Later use raises ClosedError. A second call has no effect."""
        self._core.close()


class QueuePair(QueuePairBase):
    """A RoCE queue pair of the device with its memory, connected to the tester, and the tester's endpoint.

    Made by :meth:`Device.rc_qp`, :meth:`Device.uc_qp` and :meth:`Device.ud_qp`. A context manager.
    """

    def __init__(
        self, core: _core._QueuePair, device: Device, service: str, cq: CompletionQueue | None = None
    ) -> None:
        super().__init__(made_by(core, _core._QueuePair, "Device.qp()"), device, cq)
        self._core: _core._QueuePair = core
        self.service = service  #: "rc", "uc" or "ud"
        #: Absolute PSN of the next frame(), which increments it.
        self.psn: int = core.first_psn
        self._wire = Wire(device._core.wire.of_queue_pair(core.tester_qpn))

    @property
    def tester_qpn(self) -> int:
        """QP number of the tester, to which the device sends."""
        return self._core.tester_qpn

    @property
    def first_psn(self) -> int:
        """First PSN of the tester's requests."""
        return self._core.first_psn

    @property
    def device_first_psn(self) -> int:
        """First PSN of the device's requests."""
        return self._core.device_first_psn

    @property
    def mtu(self) -> int:
        """Maximum payload bytes of a packet."""
        return self._core.mtu

    @property
    def qkey(self) -> int:
        """Q_Key of datagrams to a UD queue pair."""
        return self._core.qkey

    @property
    def path(self) -> dict[str, Any]:
        """Addresses of both endpoints: tester_mac, device_address, vlan, roce_v1, …"""
        return self._core.path

    @property
    def wire(self) -> Wire:
        """The wire to the device's port. receive() returns only frames for this queue pair of the tester.

        Frames for other queue pairs are kept for their wires. ``device.wire`` returns all frames.
        """
        return self._wire

    # The tester's side.

    def frame(self, opcode: int | None = None, *, psn: int | None = None) -> Frame:
        """Return headers from the tester to the device, from Ethernet to the BTH, with the next PSN.

        Complete the frame with ``/``: ``frame() / RETH(…) / b"data"``. Without ``opcode``, the appended header
        determines the opcode of a single-packet message: RETH is an RDMA WRITE Only, AtomicETH a Compare & Swap, AETH
        an Acknowledge, all others are a SEND Only. Requests have AckReq = 1. ``psn``: absolute PSN instead of the next
        one.
        """
        if psn is None:
            psn = self.psn
            self.psn = (psn + 1) % PSNS
        if opcode is not None:
            frame: Frame = self._core.headers(int(opcode), psn % PSNS)
            return frame
        frame = self._core.headers(self._core.opcode(self.service, "send"), psn % PSNS)
        _core._let_follow(frame, _OpcodeChoice(self.service))
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
        """Post a send request at the device with ``length`` bytes of :attr:`mr` from ``offset``.

        ``opcode`` is "send", "write", "read", "compare_swap", "fetch_add", … (docs/reference/agent-protocol.md,
        post_send). ``more`` contains other members of the request: imm, add, compare, swap, … ``remote_addr`` and
        ``rkey`` identify the tester's memory and can be arbitrary. Datagrams are sent to the tester.
        """
        request: dict[str, Any] = {"wr_id": wr_id, "flags": list_of_names(flags)}
        if remote_addr is not None or opcode not in ("send", "send_imm", "send_inv", "local_inv", "bind_mw"):
            request["remote_addr"] = 0x10000 if remote_addr is None else remote_addr
            request["rkey"] = 0x4321 if rkey is None else rkey
        if self.service == "ud":
            request |= {"remote_qpn": self.tester_qpn, "remote_qkey": self.qkey}
        self._post_send(opcode, length, offset, request | more, self.service == "ud" and "ah" not in more)

    def move(self, state: str) -> None:
        """Change to state INIT, RTR or RTS with the attributes of the connection to the tester."""
        self._core.modify(self._core.attributes_to(state))

    def __repr__(self) -> str:
        if self.closed:
            return f"<QueuePair {self.service} (closed)>"
        return f"<QueuePair {self.service} {self.qpn:#x} of {self.device.name}, tester {self.tester_qpn:#x}>"


def first_header(part: Any) -> Any:
    """Return the first header of a part that is appended to a frame. Other objects are returned unchanged."""
    if isinstance(part, _core.Frame):
        return part.layers[0] if part.layers else None
    return part


class _OpcodeChoice:
    """Sets the opcode of a frame according to the appended header."""

    _operations = ((_core.RETH, "write"), (_core.AtomicETH, "compare_swap"), (_core.AETH, "acknowledge"))

    def __init__(self, service: str) -> None:
        self._service = service

    def __call__(self, frame: Frame, part: Any) -> Frame:
        first = first_header(part)
        for header, operation in self._operations:
            if isinstance(first, header):
                frame[_core.BTH].opcode = _core._QueuePair.opcode(self._service, operation)
                if operation == "acknowledge":
                    frame[_core.BTH].ack_request = 0
        return frame
