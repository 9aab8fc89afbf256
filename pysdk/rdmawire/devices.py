"""Devices as context managers: queue pairs, memory and completions at the device, and the wire to its port.

    with rdmawire.reference() as device, device.rc_qp(access="remote_write") as qp:
        qp.wire.send(qp.frame() / RETH(va=qp.mr.addr, rkey=qp.mr.rkey ^ 1, length=4) / b"evil")
        assert qp.wire.receive(timeout=1)[AETH].syndrome == Syndrome.NAK_REMOTE_ACCESS_ERROR
        assert qp.mr.read(4) == bytes(4)

Every device is driven as the active tester drives it (docs/certify.md): verbs through the agent's protocol, frames over
a wire. What is made at a device is released in the right order, whatever the order in which it is closed or forgotten.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rdmawire import _core
from rdmawire.wires import Wire

if TYPE_CHECKING:
    from typing_extensions import Self

    from rdmawire._core import Frame

__all__ = [
    "Completion",
    "CompletionQueue",
    "Device",
    "MemoryRegion",
    "MemoryWindow",
    "QueuePair",
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
        """What the memory holds now: ``length`` octets from ``offset`` on, to its end without one."""
        return self._core.read(offset, len(self) - offset if length is None else length)

    def write(self, octets: Any, offset: int = 0) -> None:
        """Puts octets there, as the device's consumer would."""
        self._core.write(offset, octets)

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
            return f"<MemoryRegion {self.addr:#x}, {len(self)} octets, lkey {self.lkey:#x}, rkey {self.rkey:#x}>"
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


class CompletionQueue:
    """Where a queue pair's completions go."""

    def __init__(self, core: _core._QueuePair) -> None:
        self._core = core

    @property
    def handle(self) -> int:
        """Its number in the agent's protocol."""
        return self._core.cq_handle

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


class QueuePair:
    """A queue pair of the device, connected to the tester, with its memory; and the tester's end of it.

    :meth:`Device.rc_qp`, :meth:`Device.uc_qp` and :meth:`Device.ud_qp` make one. A context manager.
    """

    def __init__(self, core: _core._QueuePair, device: Device, service: str) -> None:
        self._core = core
        self.device = device
        self.service = service  #: "rc", "uc" or "ud"
        #: The registered memory for READs, WRITEs and atomics of both sides.
        self.mr = MemoryRegion(core.region)
        #: Receive request n has the octets from n * receive_octets on.
        self.inbox = MemoryRegion(core.inbox)
        #: Of its sends and receives.
        self.cq = CompletionQueue(core)
        #: The absolute PSN that the next frame() gets; each takes one.
        self.psn: int = core.first_psn
        self._wire = Wire(device._core.wire.of_queue_pair(core.tester_qpn))

    @property
    def qpn(self) -> int:
        """The device's queue pair number."""
        return self._core.device_qpn

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
        """Octets of payload that a packet carries at most."""
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

    def frame(self, opcode: int | None = None, *, psn: int | None = None) -> _ToDevice:
        """Headers from the tester to the device, from Ethernet to the BTH: right addresses, QPN and the next PSN.

        ``frame() / RETH(…) / b"data"``: without ``opcode`` what follows decides, as a packet that is a whole message:
        RETH an RDMA WRITE Only, AtomicETH a Compare & Swap, AETH an Acknowledge, anything else a SEND Only. The BTH asks
        for an acknowledgement where it is a request. ``psn``: an absolute one, in place of the next.
        """
        if psn is None:
            psn = self.psn
            self.psn = (psn + 1) % PSNS
        return _ToDevice(self._core, opcode, psn % PSNS, self.service)

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
        """Posts a send request at the device: ``length`` octets of :attr:`mr` from ``offset`` on.

        ``opcode`` is "send", "write", "read", "compare_swap", "fetch_add", … (docs/agent.md, post_send, which has the
        members of ``more`` as well: imm, add, compare, swap, …). Writes, reads and atomics name the tester's memory by
        ``remote_addr`` and ``rkey``, which nobody but the tester looks at. One of UD goes to the tester.
        """
        request: dict[str, Any] = {"opcode": opcode, "wr_id": wr_id, "flags": _names(flags)}
        if "sges" not in more and opcode not in ("local_inv", "bind_mw", "flush"):
            request["sges"] = [{"mr": self.mr.handle, "offset": offset, "length": length}]
        if remote_addr is not None or opcode not in ("send", "send_imm", "send_inv", "local_inv", "bind_mw"):
            request["remote_addr"] = 0x10000 if remote_addr is None else remote_addr
            request["rkey"] = 0x4321 if rkey is None else rkey
        if self.service == "ud":
            request |= {"remote_qpn": self.tester_qpn, "remote_qkey": self.qkey}
        self._core.post_send(request | more, self.service == "ud" and "ah" not in more)

    def post_recv(self, count: int = 1) -> None:
        """Posts further receive requests; their wr_id counts from 0, and so do their places in :attr:`inbox`."""
        self._core.post_receives(count)

    def poll(self, count: int = 1, timeout: float | None = 1.0) -> list[Completion]:
        """As :meth:`CompletionQueue.poll` of its own queue."""
        return self.cq.poll(count, timeout)

    def query(self) -> dict[str, Any]:
        """Every attribute, as verbs tell (docs/agent.md, query_qp)."""
        attributes: dict[str, Any] = self._core.query()
        return attributes

    @property
    def state(self) -> str:
        """"reset", "init", "rtr", "rts", "sqd", "sqe" or "err", as the device says."""
        return self._core.state()

    def modify(self, state: str | None = None, **attributes: Any) -> None:
        """Changes exactly these attributes (docs/agent.md, modify_qp): ``modify("err")``, ``modify(min_rnr_timer=1)``."""
        self._core.modify(({} if state is None else {"state": state}) | attributes)

    def move(self, state: str) -> None:
        """To that state with the attributes that its connection to the tester needs there: INIT, RTR or RTS."""
        self._core.modify(self._core.attributes_to(state))

    def region(self, octets: int, access: str | Iterable[str] = ("local_write",)) -> MemoryRegion:
        """Further memory, in this queue pair's protection domain. ``access``: "local_write", "remote_read", …"""
        return MemoryRegion(self._core.new_region(octets, _names(access)))

    def window(self, offset: int, length: int, access: str | Iterable[str]) -> MemoryWindow:
        """A memory window of type 2 onto a part of :attr:`mr`, bound through this queue pair."""
        return MemoryWindow(self._core.bind_window(offset, length, _names(access)))

    @property
    def handle(self) -> int:
        """Its number in the agent's protocol."""
        return self._core.handle

    @property
    def closed(self) -> bool:
        """It was closed, or its device was."""
        return self._core.closed

    def close(self) -> None:
        """Releases it and its memory at the device. Later use raises ClosedError. A second call does nothing."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return f"<QueuePair {self.service} (closed)>"
        return f"<QueuePair {self.service} {self.qpn:#x} of {self.device.name}, tester {self.tester_qpn:#x}>"


class _ToDevice:
    """A Frame up to the BTH whose opcode follows from what is put behind it; whatever else is asked is the Frame's."""

    def __init__(self, core: _core._QueuePair, opcode: int | None, psn: int, service: str) -> None:
        self._core, self._opcode, self._psn, self._service = core, opcode, psn, service

    def _made(self, operation: str) -> Frame:
        opcode = self._opcode
        if opcode is None:
            opcode = self._core.opcode(self._service, operation)
        frame: Frame = self._core.headers(int(opcode), self._psn)
        return frame

    @property
    def frame(self) -> Frame:
        """As it stands."""
        return self._made("send")

    def __truediv__(self, layer: Any) -> Frame:
        operation = {"RETH": "write", "AtomicETH": "compare_swap", "AETH": "acknowledge"}.get(type(layer).__name__, "send")
        frame: Frame = self._made(operation) / layer
        return frame

    def __bytes__(self) -> bytes:
        return bytes(self.frame)

    def __getitem__(self, layer: Any) -> Any:
        return self.frame[layer]

    def __contains__(self, layer: Any) -> bool:
        return layer in self.frame

    def __getattr__(self, name: str) -> Any:
        return getattr(self.frame, name)

    def __repr__(self) -> str:
        return repr(self.frame)


class Device:
    """A device that can be reached: its verbs, and the wire to its port. A context manager.

    :func:`reference`, :func:`lab`, :func:`agent` and :func:`open_device` open one. From any thread. A device that dies,
    or whose agent does, ends what waits for it with DeviceError, kind "lost".
    """

    def __init__(self, core: _core._Device, options: Mapping[str, Any] | None = None) -> None:
        self._core = core
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
            raise _core.UsageError(f"{self.name}: a device of iWARP is reached over TCP; its port is no wire here")
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
        self, service: str, access: str | Iterable[str] | None = None, *, seed: int | None = None, **options: Any
    ) -> QueuePair:
        """A queue pair of "rc", "uc" or "ud".

        Options, as the C++ cases have them: mtu, receives (receive requests that are posted), receive_octets,
        region_octets, region_access, reads_at_once, own_reads, timeout, retry_cnt, rnr_retry, min_rnr_timer, send_wr,
        send_ops, inline_octets, completions, shared_receives, qkey, state ("reset", "init", "rtr", "rts"), hop_limit,
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
        if seed is None:
            self._made += 1
            seed = int(self._options.get("seed", 1)) * 1_000_003 + self._made
        return QueuePair(self._core.queue_pair(service, options, seed & (1 << 64) - 1), self, service)

    # What else verbs tell and do.

    def call(self, command: str, timeout: float | None = 5.0, /, **arguments: Any) -> Any:
        """Any command of the agent's protocol (docs/agent.md), with its answer: ``call("describe", device=d.handle)``."""
        return self._core.call(command, arguments, timeout)

    @property
    def handle(self) -> int:
        """Its number in the agent's protocol."""
        return self._core.handle

    def describe(self) -> dict[str, Any]:
        """What verbs say of the device: limits, capabilities, ports (docs/agent.md, describe)."""
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

    # Its end.

    @property
    def closed(self) -> bool:
        """It was closed, or this process is a fork of the one that opened it."""
        return self._core.closed

    def close(self) -> None:
        """Ends everything that was made at it, then the device: a lab's guest goes. A second call does nothing."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Device {self.name}>"


def _names(names: str | Iterable[str]) -> list[str]:
    if isinstance(names, str):
        return names.replace(",", " ").replace("|", " ").split()
    return list(names)


def _agent_program() -> str:
    """The agent's program for the lab: RDMAWIRE_AGENT, else beside the package, else beside the command on the path."""
    given = os.environ.get("RDMAWIRE_AGENT")
    if given:
        return given
    beside = Path(_core.__file__).resolve().parent / "rdmawire-agent"
    if beside.exists():
        return str(beside)
    for folder in os.environ.get("PATH", "").split(os.pathsep) + [os.path.dirname(sys.executable)]:
        program = Path(folder or ".") / "rdmawire-agent"
        if program.exists():
            return str(program)
    return ""


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
    if name.startswith("lab:"):
        given.setdefault("agent", _agent_program())
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
    """Linux's rxe or siw in a virtual machine under emulation (docs/lab.md); booting takes seconds.

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
    """A device on a bench: the agent beside it (docs/agent.md), and the wire that leads to its port.

    ``address``: "HOST:PORT", or as docs/agent.md has them, "tcp:HOST:PORT", "unix:PATH", "serial:PATH". ``allow`` names
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
