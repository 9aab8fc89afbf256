"""Reading of capture files as frames, packets, columns and tables, and writing of capture files."""

from __future__ import annotations

import itertools
import json
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, Union, overload

from rdmawire import _core
from rdmawire._core import CaptureError, UsageError
from rdmawire.closing import Closes, made_by
from rdmawire.outputs import refuse_inputs
from rdmawire.sendables import several, without_scapy
from rdmawire.sources import BytesLike, Source, is_url, native, read_source
from rdmawire.tables import Table

if TYPE_CHECKING:
    import numpy as np

Path = Union[str, "os.PathLike[str]"]


class Interface(NamedTuple):
    """An interface as described by a capture file."""

    name: str
    description: str
    link: str
    """The link type: ``ethernet``, ``infiniband``, …"""
    snap_length: int
    """Maximum captured bytes of a packet. 0: unlimited."""
    filter: str
    """The capture filter."""
    os: str
    hardware: str
    comments: list[str]
    received: int | None
    """Number of packets that the interface received, according to the file, or None."""
    lost_by_capture: int | None
    """Number of packets that the capture lost, according to the file, or None."""


class Facts(NamedTuple):
    """Facts about a complete capture."""

    packets: int
    first_time: int | None
    """Nanoseconds since 1970, or None without packets."""
    last_time: int | None
    error: str | None
    """Why the capture could not be read completely, or None."""
    interfaces: list[Interface]


class Capture(Closes):
    """An open capture, made by :func:`open_capture`.

    Each iteration starts at the first packet with its own reader. A capture can be read several times, also by several
    threads at once. A stream (standard input, a pipe) can be read once.
    """

    def __init__(self, core: _core.CaptureSource, source: Path | BytesLike | None = None) -> None:
        self._core: _core.CaptureSource = made_by(core, _core.CaptureSource, "open_capture()")
        self._source = source
        self._length: tuple[tuple[int, ...] | None, int] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path, or the bytes of a capture in memory. Streams cannot be pickled."""
        if self._source is None or not self._core.rereadable:
            raise TypeError(f"{self.name} is a stream, which cannot be pickled; save it to a file first")
        if isinstance(self._source, (str, os.PathLike)):
            return open_capture, (os.path.abspath(self._source),)
        return _open_bytes, (bytes(self._source), self.name)

    @property
    def name(self) -> str:
        """Name in error messages."""
        return self._core.name

    def close(self) -> None:
        """Close the capture. Open iterators raise ClosedError. Frames, arrays and batches stay valid."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<rdmawire.Capture {self.name!r}{', closed' if self.closed else ''}>"

    @property
    def _data(self) -> BytesLike | None:
        """The bytes of a capture in memory, or None."""
        return None if isinstance(self._source, (str, os.PathLike)) else self._source

    def __iter__(self) -> Iterator[_core.Frame]:
        """Return an iterator over the frames. Each frame owns its bytes and is decoded when needed."""
        return self.frames()

    def __len__(self) -> int:
        """Return the number of packets that can be read. The first call reads the complete file, without decoding.

        A stream has no length, since it can be read once. ``list(capture)`` also calls this method, and thus reads a
        compressed file twice. Use ``list(capture.frames())`` for large files.
        """
        if not self._core.rereadable:
            raise TypeError(f"{self.name} is a stream, which has no length: use list()")
        version = self._version()
        if self._length is None or version is None or self._length[0] != version:
            self._length = version, int(self._core.facts()["packets"])
        return self._length[1]

    def _version(self) -> tuple[int, ...] | None:
        """Return a value that changes when the file is written. None: it cannot be determined."""
        if self.closed:
            return None
        if self._core.in_memory:
            return ()
        try:
            now = os.stat(self._core.path)
        except OSError:
            return None
        return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns

    def __bool__(self) -> bool:
        """Return True, also for a capture without packets."""
        return True

    @overload
    def __getitem__(self, key: SupportsIndex) -> _core.Frame: ...
    @overload
    def __getitem__(self, key: slice[Any, Any, Any]) -> list[_core.Frame]: ...
    def __getitem__(self, key: SupportsIndex | slice[Any, Any, Any]) -> _core.Frame | list[_core.Frame]:
        """Return a frame by its index from 0, or the list of a slice. Reads the capture from its start.

        For several indices, read the frames once: ``frames = list(capture)``.
        """
        if isinstance(key, slice):
            indices = range(*key.indices(len(self)))
            wanted = indices if indices.step > 0 else indices[::-1]
            frames = list(itertools.islice(self.frames(), wanted.start, wanted.stop, wanted.step)) if wanted else []
            return frames if indices.step > 0 else frames[::-1]
        index = operator.index(key)
        at = index if index >= 0 else len(self) + index
        frame = None if at < 0 else next(itertools.islice(self.frames(), at, None), None)
        if frame is None:
            raise IndexError(f"index {index}: {self.name} has {len(self)} packets")
        return frame

    def frames(
        self, *, filter: str | Callable[[_core.Frame], object] = "", roce_port: int = 0
    ) -> Iterator[_core.Frame]:
        """Return an iterator over the frames that match `filter`.

        `filter` is an expression (docs/reference/filters.md) or a function of the frame. Expressions are faster.
        Frames have ``number``, ``time_ns``, ``interface`` and ``comments``, and stay valid after the capture is closed.
        If the capture cannot be read completely, CaptureError follows the last readable frame. `roce_port` is a UDP
        port that the filter decodes as RoCEv2, in addition to 4791.
        """
        if callable(filter):
            matches = filter
            return (frame for frame in _core.captured_frames(self._core, "", roce_port) if matches(frame))
        if not isinstance(filter, str):
            raise TypeError(f"frames(): filter: expected an expression or a function, got {type(filter).__name__}")
        return _core.captured_frames(self._core, filter, roce_port)

    def packets(
        self,
        *,
        filter: str = "",
        roce_port: int = 0,
        verify_crcs: bool = True,
        disable_protocol: str | Sequence[str] = (),
    ) -> Iterator[_core.Packet]:
        """Return an iterator over the packets that match `filter`, with the context of their connections.

        Packets contain the data of ``rdmawire dissect``: iWARP PDUs reassembled from TCP (``packet.pdus``, as Frames),
        the upper layer, notes, and the comments and interface of the capture file. ``packet.frame`` is the frame.
        ``verify_crcs=False`` is faster and omits the CRC status. `disable_protocol` is that of :func:`analyze`.
        """
        names = [disable_protocol] if isinstance(disable_protocol, str) else list(disable_protocol)
        return _core.captured_packets(self._core, filter, roce_port, verify_crcs, names)

    def counts(self, *, filter: str = "", roce_port: int = 0, verify_crcs: bool = True) -> dict[str, Any]:
        """Return counters of the capture: packets and bytes by protocol and operation, CRC status, findings.

        The keys are those of ``rdmawire dissect --count --json``: packets, bytes, first, last, protocols, units, icrc,
        vcrc, mpa_crc, findings, truncated_packets, lost.
        """
        counts: dict[str, Any] = json.loads(self._core.counts(filter, roce_port, verify_crcs))
        return counts

    def facts(self) -> Facts:
        """Read the complete capture without dissection. Returns packets, times, interfaces, and the error."""
        known: dict[str, Any] = self._core.facts()
        known["interfaces"] = [Interface(**interface) for interface in known["interfaces"]]
        return Facts(**known)

    def table(
        self, columns: Sequence[str], *, filter: str = "", roce_port: int = 0, batch_rows: int = 65536
    ) -> Table:
        """Return a table of the packets with these columns. See :meth:`columns` for the names."""
        inputs = [] if self._core.in_memory else [os.path.abspath(self._core.path)]
        return Table(self._core.table(_names(columns), filter, roce_port), batch_rows, inputs=inputs)

    def columns(
        self, columns: Sequence[str], *, filter: str = "", roce_port: int = 0, partial: bool = False
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Read fields of the packets that match `filter` into NumPy arrays.

        A name is one of (complete list: docs/reference/filters.md):

        - a field of the header tables (``bth.psn``), or its name in Wireshark (``infiniband.bth.psn``)
        - an enumerated field with the suffix ``_name``, for the name of its value (``bth.opcode_name``)
        - a header: whether the packet contains it (``aeth``)
        - a derived value: ``frame.number``, ``frame.time``, ``frame.len``, ``payload.length``, ``icrc.status``, …

        If a packet contains a header or a PDU several times, the first one is used, as in ``frame[BTH]``. `roce_port`
        is a UDP port that is decoded as RoCEv2, in addition to 4791. See :meth:`rdmawire.Table.columns` for the types
        of the arrays, and for `partial`.
        """
        return self.table(columns, filter=filter, roce_port=roce_port).columns(partial=partial)


def _names(columns: Sequence[str]) -> list[str]:
    if isinstance(columns, str):
        raise UsageError(f"columns: expected a list of names, got a str; use [{columns!r}]")
    names = list(columns)
    if not names:
        raise UsageError("columns: expected at least one name; see docs/reference/headers.md")
    return names


def open_capture(source: Source) -> Capture:
    """Open a capture: pcap or pcapng, plain or compressed with gzip or zstd.

    `source` is a path, ``-`` for standard input, the bytes of a file, a file object opened for reading bytes, or a URL
    or file of fsspec (``s3://bucket/x.pcap``). URLs, and the remaining contents of a file object, are read into memory.
    Plain files are mapped into memory, and only requested parts are copied.

    Raises CaptureError if the file is missing, empty, or of another format.
    """
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if not is_url(path):
            return Capture(_core.CaptureSource(native(path), None), path)
    name, data = read_source(source)
    return _open_bytes(data, name)


def _open_bytes(data: BytesLike, name: str) -> Capture:
    return Capture(_core.CaptureSource(name, data), data)


def open_live(
    device: str,
    *,
    filter: str = "",
    snap_length: int = 262144,
    promiscuous: bool = True,
    immediate: bool = False,
    buffer_size: int = 16 << 20,
) -> _core.LiveCapture:
    """Capture from a device with libpcap. Returns an iterator of frames that is also a context manager.

    - `filter`: libpcap filter expression.
    - `snap_length`: maximum captured bytes of a packet.
    - `promiscuous`: also capture packets for other hosts.
    - `immediate`: deliver each packet immediately instead of after up to 0.1 seconds. The buffer then often contains
      fewer packets: one per 64 KiB.
    - `buffer_size`: bytes of the kernel's buffer, from 1 MiB to 1 GiB. Packets that arrive while it is full are lost.

    ``receive(timeout)`` waits for one frame. ``close()`` ends the iteration from any thread, and issues a
    RuntimeWarning if packets were lost. ``statistics()`` returns their number. :func:`live_devices` returns the names
    of devices.

    Raises CaptureError if the device does not exist, the capture is not permitted, or the filter is invalid.
    """
    if not 1 << 20 <= buffer_size <= 1 << 30:
        raise UsageError(f"buffer_size={buffer_size}: expected bytes from 1 MiB (1048576) to 1 GiB (1073741824)")
    try:
        return _core.LiveCapture(device, filter, snap_length, promiscuous, immediate, buffer_size)
    except CaptureError as error:
        if "filter" not in str(error):
            raise
        hint = "Wire.sniff(filter=…) accepts fields such as bth.psn"
        raise CaptureError(f"{error}. {hint}") from None


def live_devices() -> list[str]:
    """Return the names of the devices that this process may capture from."""
    return _core.live_devices()


class CaptureWriter(Closes):
    """A capture file that is written, made by :func:`create_capture`."""

    def __init__(self, core: _core.CaptureWriter) -> None:
        self._core: _core.CaptureWriter = core

    @property
    def name(self) -> str:
        """Name in error messages."""
        return self._core.name

    @property
    def records(self) -> int:
        """Number of packets written."""
        return self._core.records

    def add_interface(
        self, link: str = "ethernet", *, name: str = "", description: str = "", snap_length: int = 0
    ) -> int:
        """Add an interface and return its index for :meth:`write`. A pcap file has only one link type."""
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
        """Write one packet: a Frame, bytes, or a scapy packet. An iterable of them is written in order.

        The defaults are the attributes of the frame: time (otherwise now), link type (otherwise Ethernet), wire length,
        and comments. `interface` is an index returned by :meth:`add_interface`. Default: the first interface with the
        link type, which is added if necessary. pcap files have no comments. Times are nanoseconds since 1970.
        """
        if isinstance(comments, str):
            comments = [comments]
        frames = several(frame)
        if frames is not None:
            for one in frames:
                self.write(one, time_ns=time_ns, interface=interface, link=link, wire_length=wire_length, comments=comments)
            return
        frame = without_scapy(frame)
        if comments is None:
            comments = getattr(frame, "comments", ())
        if time_ns is None:
            time_ns = getattr(frame, "time_ns", None)
        if link is None:
            link = getattr(frame, "link", None)
        if wire_length is None:
            wire_length = getattr(frame, "wire_length", None)
        self._core.write(frame, time_ns, interface, link, wire_length or 0, list(comments))

    def flush(self) -> None:
        """Write buffered packets to the file."""
        self._core.flush()

    def close(self) -> None:
        """Finish the file. A second call has no effect."""
        self._core.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except CaptureError:
            if error is None:
                raise  # the error that ended the block is more important

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
    """Create or overwrite a capture file.

    - `format`: ``pcap`` or ``pcapng``. Default: pcap for names with .pcap and .cap, otherwise pcapng.
    - `compression`: ``none``, ``gzip`` or ``zstd``. Default: according to the suffix .gz or .zst.
    - `level`: compression level. 0: the default of the compression.
    - `nanoseconds`: write times in nanoseconds instead of microseconds.
    - `application`, `comments`: section options of pcapng files.

    The packets are in the file after :meth:`CaptureWriter.flush` and after closing. Raises UsageError if the file is an
    open capture.
    """
    refuse_inputs(path)
    return CaptureWriter(
        _core.CaptureWriter(native(path), format, compression, level, nanoseconds, application, list(comments))
    )
