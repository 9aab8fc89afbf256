"""Devices as context managers: queue pairs, memory and completions at the device, and the wire to its port.

    with rdmawire.reference() as device, device.rc_qp(access="remote_write") as qp:
        qp.wire.send(qp.frame() / RETH(va=qp.mr.addr, rkey=qp.mr.rkey ^ 1, length=4) / b"evil")
        assert qp.wire.expect(AETH, timeout=1)[AETH].syndrome == Syndrome.NAK_REMOTE_ACCESS_ERROR
        assert qp.mr.read(4) == bytes(4)

Devices are controlled as in conformance tests (docs/how-to/test-a-nic.md): verbs through the agent's protocol, frames
through a wire. Objects at a device are released in the required order, regardless of the order in which they are
closed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rdmawire import _core
from rdmawire.closing import Closes, made_by
from rdmawire.memory import MemoryRegion, MemoryWindow
from rdmawire.names import list_of_access, list_of_faults, list_of_names, require_known
from rdmawire.needs import needs_mask
from rdmawire.outputs import refuse_inputs
from rdmawire.sources import native
from rdmawire.queue_pairs import Completion, CompletionQueue, QueuePair
from rdmawire.streams import Stream, StreamQueuePair
from rdmawire.wires import Wire

if TYPE_CHECKING:  # evaluated only by type checkers: typing.Unpack is slow to import
    from typing import Unpack

    from rdmawire.options import DeviceOptions, QueuePairOptions, StreamOptions

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


class ProtectionDomain(Closes):
    """A protection domain for several queue pairs, made by :meth:`Device.domain`. A context manager.

    close() also closes the objects of the domain.
    """

    def __init__(self, core: _core._Domain, device: Device) -> None:
        self._core: _core._Domain = made_by(core, _core._Domain, "Device.domain()")
        self.device = device

    @property
    def handle(self) -> int:
        """Handle in the agent's protocol."""
        return self._core.handle

    def region(self, size: int, access: str | Iterable[str] = ("local_write",)) -> MemoryRegion:
        """Create a region in the domain. ``access``: "local_write", "remote_read", …"""
        return MemoryRegion(self._core.region(size, list_of_access(access)))

    def __repr__(self) -> str:
        if self.closed:
            return "<ProtectionDomain (closed)>"
        return f"<ProtectionDomain {self.handle} of {self.device.name}>"


class Device(Closes):
    """An open device: its verbs, and the wire to its port. A context manager.

    Made by :func:`reference`, :func:`lab`, :func:`agent` and :func:`open_device`. Any thread may use it. If the device
    or its agent crashes, waiting calls raise DeviceError with kind "lost".
    """

    def __init__(self, core: _core._Device, options: Mapping[str, Any] | None = None) -> None:
        wire = made_by(core, _core._Device, "reference(), lab(), agent() or open_device()").wire
        self._core: _core._Device = core
        self._options = dict(options or {})
        self._made = 0
        self._wire = None if wire is None else Wire(wire)

    @property
    def name(self) -> str:
        """"reference", "lab:rxe", "agent:…"."""
        return "a device (closed)" if self._core.closed else self._core.name

    @property
    def details(self) -> str:
        """Description of the device and its host in one line."""
        return self._core.details

    @property
    def family(self) -> str:
        """"roce" or "iwarp"."""
        return self._core.family

    @property
    def virtual_time(self) -> bool:
        """Whether time advances only while a call waits, as for reference devices."""
        return self._core.virtual_time

    @property
    def wire(self) -> Wire:
        """The wire to the port, without frames of address resolution. Raises UsageError for iWARP devices."""
        if self._wire is None:
            raise _core.UsageError(f"{self.name}: an iWARP device has no wire; use stream()")
        return self._wire

    @property
    def path(self) -> dict[str, Any]:
        """Addresses of the tester and the device: tester_mac, device_address, …"""
        return self._core.path

    # Queue pairs.

    def rc_qp(
        self,
        access: str | Iterable[str] | None = None,
        *,
        domain: ProtectionDomain | None = None,
        cq: CompletionQueue | None = None,
        seed: int | None = None,
        **options: Unpack[QueuePairOptions],
    ) -> QueuePair:
        """Create an RC queue pair in RTS, connected to the tester, with registered memory (:attr:`QueuePair.mr`).

        ``access``: rights of the tester, "remote_write", "remote_read", "remote_atomic", separated by blanks or in a
        list. Default: all. ``seed``: seed of PSNs and of the tester's QP number. The options are those of :meth:`qp`.
        """
        return self.qp("rc", access, domain=domain, cq=cq, seed=seed, **options)

    def uc_qp(
        self,
        access: str | Iterable[str] | None = None,
        *,
        domain: ProtectionDomain | None = None,
        cq: CompletionQueue | None = None,
        seed: int | None = None,
        **options: Unpack[QueuePairOptions],
    ) -> QueuePair:
        """Create a UC queue pair. Arguments: as for :meth:`rc_qp`."""
        return self.qp("uc", access, domain=domain, cq=cq, seed=seed, **options)

    def ud_qp(
        self,
        *,
        domain: ProtectionDomain | None = None,
        cq: CompletionQueue | None = None,
        seed: int | None = None,
        **options: Unpack[QueuePairOptions],
    ) -> QueuePair:
        """Create a UD queue pair in RTS. Datagrams require its :attr:`QueuePair.qkey`."""
        return self.qp("ud", domain=domain, cq=cq, seed=seed, **options)

    def qp(
        self,
        service: str,
        access: str | Iterable[str] | None = None,
        *,
        domain: ProtectionDomain | None = None,
        cq: CompletionQueue | None = None,
        seed: int | None = None,
        **options: Unpack[QueuePairOptions],
    ) -> QueuePair:
        """Create a queue pair of service "rc", "uc" or "ud". ``domain`` and ``cq``: shared objects to use.

        The options are those of C++ cases: mtu, receives (number of posted receive requests), receive_bytes,
        region_bytes, region_access, reads_at_once, own_reads, timeout, retry_cnt, rnr_retry, min_rnr_timer, send_wr,
        send_ops, inline_bytes, completions, shared_receives, qkey, state ("reset", "init", "rtr", "rts"), hop_limit,
        traffic_class, over ("ipv4", "ipv6", "vlan", "roce_v1"), notifies, first_psn, device_psn.
        """
        require_known("service", service, ("rc", "uc", "ud"))
        given: dict[str, Any] = {**options}
        if access is not None:
            names = list_of_access(access)
            given["access"] = names
            given.setdefault("region_access", ["local_write", *names])
        for name in ("region_access", "send_ops"):
            if name in given:
                given[name] = list_of_names(given[name])
        of = (None if domain is None else domain._core, None if cq is None else cq._core)
        return QueuePair(_core._QueuePair(self._core, service, given, self._seed(seed), *of), self, service, cq)

    def stream(
        self,
        access: str | Iterable[str] | None = None,
        *,
        connected: bool = True,
        domain: ProtectionDomain | None = None,
        cq: CompletionQueue | None = None,
        seed: int | None = None,
        **options: Unpack[StreamOptions],
    ) -> StreamQueuePair:
        """Create a queue pair of an iWARP device with a stream to the tester in Full Operation Phase.

        The tester is the MPA initiator, or with ``device_initiates=True`` the responder. ``connected=False``: create
        the queue pair without a stream. ``access``: rights of the tester for :attr:`StreamQueuePair.mr`,
        "remote_write", "remote_read", "remote_atomic". Default: all. ``domain`` and ``cq``: shared objects to use.

        The options are those of C++ cases:

        - tester's MPA frame: revision, markers (in data from the device), crc, private_data, enhanced (True, or a
          dictionary with ird, ord, a, b, c, d)
        - device: mss (of its TCP segments), device_private_data, reads_at_once (IRD), own_reads (ORD)
        - wishes: MPA setup of the reference endpoint, a dictionary with revision, markers, crc, enhanced, peer_to_peer,
          rtr_send, rtr_write, rtr_read, rdmac
        - receives (number of posted receive requests), receive_bytes, region_bytes, region_access, send_wr, completions
        """
        given: dict[str, Any] = {**options}
        if access is not None:
            given.setdefault("region_access", ["local_write", *list_of_access(access)])
        if "region_access" in given:
            given["region_access"] = list_of_names(given["region_access"])
        of = (None if domain is None else domain._core, None if cq is None else cq._core)
        core = _core._StreamPair(self._core, given, self._seed(seed), connected, *of)
        return StreamQueuePair(core, self, cq)

    def domain(self, *, seed: int | None = None) -> ProtectionDomain:
        """Create a protection domain for several queue pairs: ``rc_qp(domain=…)``, ``stream(domain=…)``."""
        return ProtectionDomain(self._core.domain(self._seed(seed)), self)

    def completion_queue(self, entries: int = 256) -> CompletionQueue:
        """Create a completion queue for several queue pairs: ``rc_qp(cq=…)``, ``stream(cq=…)``."""
        return CompletionQueue(self._core.completion_queue(entries))

    def _seed(self, given: int | None) -> int:
        if given is None:
            self._made += 1
            given = int(self._options.get("seed", 1)) * 1_000_003 + self._made
        return given & (1 << 64) - 1

    # Other verbs.

    def call(self, command: str, timeout: float | None = 5.0, /, **arguments: Any) -> Any:
        """Run a command of docs/reference/agent-protocol.md: ``call("describe", device=d.handle)``."""
        return self._core.call(command, arguments, timeout)

    @property
    def handle(self) -> int:
        """Handle in the agent's protocol."""
        return self._core.handle

    def describe(self) -> dict[str, Any]:
        """Return limits, capabilities and ports of the device (docs/reference/agent-protocol.md, describe)."""
        description: dict[str, Any] = self.call("describe", device=self.handle)
        return description

    def counters(self) -> dict[str, int]:
        """Return the counters of the port by name: "rcvd_pkts", …"""
        return self._core.counters()

    def lacks(self, *needs: str) -> str | None:
        """Return which of these capabilities the device lacks, as text, or None.

        The names are those of :data:`rdmawire.conformance.NEEDS`: "atomics", "xrc", "memory_windows", …
        """
        return self._core.lacking(needs_mask(needs)) or None

    def kernel_messages(self) -> list[str]:
        """Return the warnings of the device's kernel since the last call."""
        return self._core.kernel_messages()

    def gone(self) -> str | None:
        """Return why the device was lost, or None while it is usable."""
        return self._core.gone()

    # Injected faults.

    @property
    def faults(self) -> frozenset[str]:
        """Active faults of a reference device by name (:func:`faults` lists them)."""
        return frozenset(self._core.faults)

    @faults.setter
    def faults(self, names: str | Iterable[str]) -> None:
        self._core.set_faults(list_of_faults(names, faults(self.family)))

    # Recording.

    def record(self, max_frames: int = 65536) -> None:
        """Record frames to and from the device and keep the newest ones. 0: stop recording and discard the frames.

        For iWARP, the TCP frames of a stream are recorded from its next operation on.
        """
        self._recorder().record(max_frames)

    def save(self, path: str | os.PathLike[str], comments: Iterable[str] = ()) -> int:
        """Write recorded frames to a pcapng file with comments "sent" or "received", and return their number."""
        refuse_inputs(path)
        return _core._save_recorded(native(path), {self.name: self._recorder()}, list(comments))

    def _recorder(self) -> _core._Wire:
        return self._core.recorder if self._wire is None else self._wire._core

    # Closing.

    def close(self) -> None:
        """Close all objects at the device, then the device. Stops the guest of a lab. A second call has no effect."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<Device {self.name}>"


def agent_program() -> str:
    """Return the path of rdmawire-agent: RDMAWIRE_AGENT, otherwise in the package, otherwise on the path."""
    given = os.environ.get("RDMAWIRE_AGENT")
    candidates = [Path(given)] if given else [Path(_core.__file__).resolve().parent / "bin" / "rdmawire-agent"]
    if not given:
        folders = [*os.environ.get("PATH", "").split(os.pathsep), os.path.dirname(sys.executable)]
        candidates += [Path(folder or ".") / "rdmawire-agent" for folder in folders]
    for program in candidates:
        if program.is_file() and os.access(program, os.X_OK):
            return str(program)
    error = _core.DeviceError(
        f"lab: RDMAWIRE_AGENT={given} is not an executable file"
        if given
        else f"lab: cannot find rdmawire-agent in {candidates[0].parent} or on the path; set RDMAWIRE_AGENT"
    )
    error.kind = "unreachable"
    raise error


def open_device(name: str, **options: Unpack[DeviceOptions]) -> Device:
    """Open a device by its name for ``rdmawire certify --device``: "reference", "lab:rxe", "agent:ADDRESS".

    Options of reference devices: seed, faults, family ("roce", "iwarp"). Options of the lab: kernel, modules. Options of
    an agent: wire, allow, credentials, multicast, frames_per_second. Raises DeviceError with kind "unreachable" if the
    device cannot be opened, UsageError for invalid names and options. Ctrl-C cancels the boot of a lab.
    """
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    if "allow" in given:
        given["allow"] = [given["allow"]] if isinstance(given["allow"], str) else list(given["allow"])
    if "faults" in given:
        known = {**faults("roce"), **faults("iwarp")} if "family" not in given else faults(given["family"])
        given["faults"] = list_of_faults(given["faults"], known)
    if name.startswith("lab:") and "agent" not in given:
        given["agent"] = agent_program()
    return Device(_core._open_device(name, given), given)


def reference(
    *, seed: int = 1, faults: str | Iterable[str] = (), family: Literal["roce", "iwarp"] = "roce"
) -> Device:
    """Open the reference device in this process, in virtual time. Runs are reproducible.

    ``faults``: names of injected faults (:func:`faults` lists them), or lines of ``rdmawire certify --fault list``.
    ``family``: "roce", or "iwarp" for the iWARP reference endpoint.
    """
    require_known("family", family, ("roce", "iwarp"))
    return open_device("reference", seed=seed, faults=faults, family=family)


def lab(device: str = "rxe", *, kernel: str = "debian", modules: str | None = None) -> Device:
    """Boot Linux with rxe or siw in an emulated virtual machine (docs/how-to/lab-recipes.md). The boot takes seconds.

    ``kernel``: "debian", "newest", or the path of a kernel. ``modules``: directory lib/modules/RELEASE of the kernel,
    if ``kernel`` is a path.
    """
    require_known("device of the lab", device, ("rxe", "siw"))
    return open_device(f"lab:{device}", kernel=kernel, modules=modules)


def agent(
    address: str,
    *,
    wire: str,
    allow: str | Iterable[str] = (),
    credentials: str | os.PathLike[str] | None = None,
    multicast: bool = False,
    frames_per_second: int = 10_000,
) -> Device:
    """Open a physical device with an agent on its host (docs/reference/agent-protocol.md), and the wire to its port.

    ``address``: "HOST:PORT", "tcp:HOST:PORT", "unix:PATH" or "serial:PATH". ``allow``: addresses to which frames may be
    sent. They must include the device's address. The error message contains this address.
    """
    if not address.startswith(("tcp:", "unix:", "serial:")):
        address = f"tcp:{address}"
    return open_device(
        f"agent:{address}",
        wire=wire,
        allow=allow,
        credentials=None if credentials is None else os.fspath(credentials),
        multicast=multicast,
        frames_per_second=frames_per_second,
    )


def faults(family: str = "roce") -> dict[str, str]:
    """Return the faults that a reference device can have: name and description."""
    return _core._faults(family)
