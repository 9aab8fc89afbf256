"""Capture files: read as frames, packets, columns and tables; and written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Union

from rdmawire import _core
from rdmawire._core import CaptureError, UsageError
from rdmawire.closing import Closes
from rdmawire.tables import Table

if TYPE_CHECKING:
    import numpy as np

Path = Union[str, "os.PathLike[str]"]
BytesLike = Union[bytes, bytearray, memoryview]


class Interface(NamedTuple):
    """What a capture file says of an interface that packets were captured on."""

    name: str
    description: str
    link: str
    """The link type: ``ethernet``, ``infiniband``, …"""
    snap_length: int
    """Bytes kept of a packet at most; 0: no limit."""
    filter: str
    """The capture filter, as text."""
    os: str
    hardware: str
    comments: list[str]
    received: int | None
    """Packets that arrived, as the file says; None: it does not."""
    lost_by_capture: int | None
    """Packets that the capture itself lost, as the file says; None: it does not."""


class Facts(NamedTuple):
    """What is known of a capture when all of it was looked through."""

    packets: int
    first_time: int | None
    """Nanoseconds since 1970; None: there is no packet."""
    last_time: int | None
    trouble: str | None
    """Why it could not be read to its end; None: it could."""
    interfaces: list[Interface]


class Capture(Closes):
    """An open capture; made by :func:`open_capture`.

    Whoever reads begins at the first packet, each with a reader of its own; so a capture can be read several times, and
    by several threads at once. A stream (standard input, a pipe) can be read once.
    """

    def __init__(self, core: _core.CaptureSource) -> None:
        self._core: _core.CaptureSource = core

    @property
    def name(self) -> str:
        """What errors call it."""
        return self._core.name

    def close(self) -> None:
        """Closes it. Whoever still reads gets ClosedError; frames, arrays and batches that were given stay valid."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<rdmawire.Capture {self.name!r}{', closed' if self.closed else ''}>"

    def _path(self) -> str:
        """Where analyze() and check() read it."""
        if self._core.in_memory:
            raise UsageError(f"{self.name} is in memory: analyze and check read files")
        return self._core.path

    def __iter__(self) -> Iterator[_core.Frame]:
        """Gives the frames, from the first on. Each holds its bytes, and is decoded when somebody asks."""
        return self.frames()

    def frames(self, *, filter: str = "", roce_port: int = 0) -> Iterator[_core.Frame]:
        """Gives the frames that match `filter` (docs/reference/filters.md), from the first on.

        A frame knows its ``number``, ``time_ns``, ``interface`` and ``comments``, and stays valid when the capture is closed. After the last one that
        can be read, CaptureError says why a capture ends early. ``roce_port`` is a further UDP port that carries RoCEv2
        for the filter.
        """
        return _core.captured_frames(self._core, filter, roce_port)

    def packets(
        self, *, filter: str = "", roce_port: int = 0, verify_crcs: bool = True
    ) -> Iterator[_core.Packet]:
        """Gives the packets that match `filter`, each with what its connection makes of it.

        That is what ``rdmawire dissect`` shows: iWARP's PDUs found through TCP (``packet.pdus``, as Frames), the upper
        layer, notes, and the comments and the interface of the capture file. ``packet.frame`` is the frame. Without
        `verify_crcs` packets say nothing of their CRCs, which costs less.
        """
        return _core.captured_packets(self._core, filter, roce_port, verify_crcs)

    def counts(self, *, filter: str = "", roce_port: int = 0, verify_crcs: bool = True) -> dict[str, Any]:
        """What the capture consists of: packets and bytes by protocol and operation, CRCs judged, findings.

        The keys are those of ``rdmawire dissect --count --json``: packets, bytes, first, last, protocols, units, icrc,
        vcrc, mpa_crc, findings, cut, lost.
        """
        counts: dict[str, Any] = json.loads(self._core.counts(filter, roce_port, verify_crcs))
        return counts

    def facts(self) -> Facts:
        """Looks through the whole capture, without dissecting: its packets, times, interfaces, and what is wrong."""
        known: dict[str, Any] = self._core.facts()
        known["interfaces"] = [Interface(**interface) for interface in known["interfaces"]]
        return Facts(**known)

    def table(
        self, columns: Sequence[str], *, filter: str = "", roce_port: int = 0, batch_rows: int = 65536
    ) -> Table:
        """The packets as a table with these columns; see :meth:`columns` for the names."""
        return Table(self._core.table(_names(columns), filter, roce_port), batch_rows)

    def columns(
        self, columns: Sequence[str], *, filter: str = "", roce_port: int = 0, partial: bool = False
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Reads these fields of all packets (that match `filter`) into NumPy arrays.

        A name is a field of the header tables (``bth.psn``), Wireshark's name for it (``infiniband.bth.psn``), a header
        (``aeth``: whether the packet has one), or what a packet has beyond its headers (``frame.number``,
        ``frame.time``, ``frame.len``, ``payload.length``, ``icrc.status``, … docs/reference/filters.md has all). With ``_name``
        behind it an enumerated field gives the specification's word (``bth.opcode_name``).

        Of a header that a packet has several times the first counts, as ``frame[BTH]`` does; of the PDUs that end in a
        packet, the first. ``roce_port`` is a further UDP port that
        carries RoCEv2. See :meth:`rdmawire.Table.columns` for the types of the arrays, and for `partial`.
        """
        return self.table(columns, filter=filter, roce_port=roce_port).columns(partial=partial)


def _names(columns: Sequence[str]) -> list[str]:
    if isinstance(columns, str):
        raise UsageError(f"columns are a list of names, not one text: [{columns!r}]")
    names = list(columns)
    if not names:
        raise UsageError("a table has at least one column; docs/reference/headers.md has the names")
    return names


def open_capture(source: Path | BytesLike | BinaryIO) -> Capture:
    """Opens a capture: pcap or pcapng, plain or compressed with gzip or zstd.

    `source` is a path, ``-`` for standard input, the bytes of a file, or a file object open for reading bytes (of
    which the rest is read into memory). A plain file is mapped, and nothing of it is copied but what you ask for.

    Raises CaptureError when there is no capture: missing, empty, of another format.
    """
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        return Capture(_core.CaptureSource(path, None))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Capture(_core.CaptureSource("memory", source))
    if hasattr(source, "read"):
        data = source.read()
        if not isinstance(data, (bytes, bytearray)):
            raise UsageError("a capture is read from a file object that gives bytes: open it with 'rb'")
        return Capture(_core.CaptureSource(str(getattr(source, "name", "memory")), data))
    raise TypeError(f"a capture is opened from a path, bytes or a file object, not {type(source).__name__}")


def open_live(
    device: str,
    *,
    filter: str = "",
    snap_length: int = 262144,
    promiscuous: bool = True,
    immediate: bool = True,
) -> _core.LiveCapture:
    """Captures from a device of libpcap: an iterator of frames, and a context manager.

    `filter` is in libpcap's language, `snap_length` the bytes kept of a packet, `promiscuous` takes packets for others
    too, `immediate` hands packets over at once and not in bunches. ``receive(timeout)`` waits for one frame, ``close()``
    ends the iteration from any thread. :func:`live_devices` names the devices.

    Raises CaptureError: no such device, not permitted, a wrong filter.
    """
    return _core.LiveCapture(device, filter, snap_length, promiscuous, immediate)


def live_devices() -> list[str]:
    """The names of the devices that this process may capture from."""
    return _core.live_devices()


class CaptureWriter(Closes):
    """A capture that is written; made by :func:`create_capture`."""

    def __init__(self, core: _core.CaptureWriter) -> None:
        self._core: _core.CaptureWriter = core

    @property
    def name(self) -> str:
        """What errors call it."""
        return self._core.name

    @property
    def records(self) -> int:
        """Packets written so far."""
        return self._core.records

    def add_interface(
        self, link: str = "ethernet", *, name: str = "", description: str = "", snap_length: int = 0
    ) -> int:
        """Describes a further interface and gives its index for :meth:`write`. A pcap file holds one link type."""
        return self._core.add_interface(link, name, description, snap_length)

    def write(
        self,
        frame: Any,
        *,
        time_ns: int | None = None,
        interface: int | None = None,
        link: str | None = None,
        wire_length: int | None = None,
        comments: Iterable[str] | None = None,
    ) -> None:
        """Writes one packet: a Frame, or bytes.

        What is not given is the frame's own: its time (else now), its link type (else Ethernet), its length on the
        wire, its comments. `interface` is an index that :meth:`add_interface` gave; without it, the first one of the link type, which
        is described when there is none. pcap keeps no comments. Times are nanoseconds since 1970.
        """
        if comments is None:
            comments = getattr(frame, "comments", ())
        elif isinstance(comments, str):
            comments = [comments]
        if time_ns is None:
            time_ns = getattr(frame, "time_ns", None)
        if link is None:
            link = getattr(frame, "link", None)
        if wire_length is None:
            wire_length = getattr(frame, "wire_length", None)
        self._core.write(frame, time_ns, interface, link, wire_length or 0, list(comments))

    def flush(self) -> None:
        """Hands over what is buffered, so that a reader of the file sees it."""
        self._core.flush()

    def close(self) -> None:
        """Ends the file. A second call does nothing."""
        self._core.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except CaptureError:
            if error is None:
                raise  # else what went wrong first is said, and by whom

    def __repr__(self) -> str:
        return f"<rdmawire.CaptureWriter {self.name!r}, {self.records} packets{', closed' if self.closed else ''}>"


def create_capture(
    path: Path,
    *,
    format: str | None = None,
    compression: str | None = None,
    level: int = 0,
    nanoseconds: bool = True,
    application: str = "rdmawire",
    comments: Iterable[str] = (),
) -> CaptureWriter:
    """Creates a capture file, or writes over it.

    `format` is ``pcap`` or ``pcapng`` (else by the name: pcap for .pcap and .cap), `compression` ``none``, ``gzip`` or
    ``zstd`` (else by the name's ending .gz or .zst), `level` the compression's (0: its default). Times have nanoseconds
    unless `nanoseconds` is False. `application` and `comments` describe a pcapng file as a whole.
    """
    return CaptureWriter(
        _core.CaptureWriter(os.fspath(path), format, compression, level, nanoseconds, application, list(comments))
    )
