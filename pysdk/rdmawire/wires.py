"""Wires send and receive frames with timestamps.

>>> a, b = wire_pair()
>>> with a, b:
...     a.send(bytes(64))
...     len(bytes(b.expect(timeout=1)))
1
64

Any thread may use a wire. Ctrl-C ends waiting calls. Times are integer nanoseconds of the wire's clock,
:meth:`Wire.now`. Timeouts are seconds of this clock, None is unlimited. docs/reference/wires.md lists the kinds of
wires.
"""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rdmawire import _core
from rdmawire._core import Header, UsageError, header_table
from rdmawire.closing import Closes, made_by
from rdmawire.outputs import refuse_inputs
from rdmawire.sendables import several, without_scapy
from rdmawire.sources import native

if TYPE_CHECKING:
    import asyncio

    from typing_extensions import Self

    from rdmawire._core import Frame

__all__ = ["Wire", "WireCapabilities", "WireCounters", "open_wire", "wire_pair"]

#: A frame, or its bytes.
Sendable = Any


@dataclasses.dataclass(frozen=True)
class WireCapabilities:
    """Capabilities of a wire."""

    link: str  #: "ethernet", "infiniband", …
    max_bytes: int  #: maximum bytes of a frame with link header, without frame check sequence. 0: unlimited
    min_bytes: int  #: minimum bytes of a frame
    batch: int  #: recommended number of frames for one send()
    sends: bool
    receives: bool
    sees_own: bool  #: receive(own=True) also returns frames sent by this host
    hardware_times: bool  #: the device sets the timestamps
    paces: bool  #: the wire delays frames until their time
    virtual_time: bool  #: now() advances only in receive(); runs are reproducible
    bits_per_second: int  #: link speed; 0: unknown
    how: str  #: description of the selected mode


@dataclasses.dataclass(frozen=True)
class WireCounters:
    """Counters of a wire since it was opened."""

    sent: int
    sent_bytes: int
    received: int
    received_bytes: int
    dropped: int  #: received frames lost because receive() was called too late


class Wire(Closes):
    """An endpoint of a wire, made by :func:`open_wire`, :func:`wire_pair` and devices.

    A context manager, and an iterator over received frames.
    """

    def __init__(self, core: _core._Wire) -> None:
        self._core: _core._Wire = made_by(core, _core._Wire, "open_wire(), wire_pair() or Device.wire")
        self._back: collections.deque[Frame] = collections.deque()  # frames of canceled areceive() calls

    # Properties.

    @property
    def name(self) -> str:
        """Name of the wire: "unix:/run/lab/eth0"."""
        return self._core.name

    @property
    def capabilities(self) -> WireCapabilities:
        """Capabilities of the wire."""
        return WireCapabilities(**self._core.capabilities)

    @property
    def counters(self) -> WireCounters:
        """Counters since the wire was opened."""
        return WireCounters(**self._core.counters)

    def now(self) -> int:
        """Return the time of the wire's clock: nanoseconds since 1970, or from 0 in virtual time."""
        return self._core.now()

    def fileno(self) -> int:
        """Return a descriptor for select and poll, which is readable when receive(timeout=0) would return a frame.

        Raises WireError with kind "unsupported" if the wire has no descriptor.
        """
        descriptor = self._core.descriptor
        if descriptor < 0:
            error = _core.WireError(f"{self.name}: the wire has no descriptor; use receive()")
            error.kind, error.errno = "unsupported", 0
            raise error
        return descriptor

    # Frames.

    def send(self, frames: Sendable | Iterable[Sendable], *, at: int = 0, timeout: float | None = 5.0) -> int:
        """Send a frame, bytes, a scapy packet, or several of them in order, and return their number.

        ``at``: earliest send time on the wire's clock. If the wire's queue is full, waits for up to ``timeout``
        seconds, then raises WireError with kind "full". The error message contains the number of frames that were sent.
        Raises UsageError for a frame with another link type than the wire, for example one that starts with IPv4.
        """
        return self._core.send(_listed(frames), at, timeout)

    def receive(self, timeout: float | None = 1.0, *, own: bool = False) -> Frame | None:
        """Return the next frame, or None if no frame arrives for ``timeout`` seconds. See also :meth:`expect`.

        ``timeout`` 0 does not wait, and None waits without limit. The clock of ``file:PATH,read`` starts at the first
        frame and advances to the time of each returned frame. In virtual time, ``timeout=None`` returns None if no
        frame will arrive. At the end of a file, raises WireError with kind "down". ``own``: also return frames sent by
        other programs of this host.
        """
        if self._back:
            return self._back.popleft()
        frame: Frame | None = self._core.receive(timeout, own)
        return frame

    def expect(
        self,
        what: type[Any] | str | Callable[[Frame], bool] | None = None,
        timeout: float | None = 1.0,
        *,
        own: bool = False,
    ) -> Frame:
        """Return the next frame that matches ``what``. Other frames are discarded.

        ``what`` is a class of headers that the frame contains, a filter expression (docs/reference/filters.md), or a
        function. None: any frame. If no such frame arrives for ``timeout`` seconds, raises WireError with kind
        "timeout", which lists the frames that arrived.
        """
        matches, wanted = self._wanted(what)
        others = _Others()
        for frame in self._sniff(None, timeout, lambda frame: True, own):
            if matches(frame):
                return frame
            others.add(frame)
        raise others.error(self.name, wanted, timeout)

    def _wanted(
        self, what: type[Any] | str | Callable[[Frame], bool] | None
    ) -> tuple[Callable[[Frame], bool], str]:
        """Return the predicate and the description of an expected frame."""
        if isinstance(what, type):
            header = what
            if not issubclass(header, Header):
                raise TypeError(f"what: expected a class of headers, got {header.__name__}")
            return (lambda frame: header in frame), f"a frame with {header.__name__}"
        if what is None:
            return (lambda frame: True), "a frame"
        if not isinstance(what, str) and not callable(what):
            hint = f": use {type(what).__name__}, or \"{header_table(type(what)).name}.…\"" if isinstance(what, Header) else ""
            kinds = "a class of headers, an expression or a function"
            raise TypeError(f"what: expected {kinds}, got {type(what).__name__}{hint}")
        return self._matcher(what), f"a frame that matches {what if isinstance(what, str) else 'the function'}"

    def sniff(
        self,
        count: int | None = None,
        timeout: float | None = None,
        filter: str | Callable[[Frame], bool] | None = None,
        *,
        own: bool = False,
    ) -> Iterator[Frame]:
        """Return an iterator over up to ``count`` received frames, for ``timeout`` seconds.

        ``filter`` selects frames: a filter expression (docs/reference/filters.md) or a function.
        """
        if count is not None and count < 1:
            raise UsageError(f"count={count}: expected a number above 0, or None for no limit")
        if timeout is not None and timeout < 0:
            raise UsageError(f"timeout={timeout}: expected seconds, or None for no timeout")
        matches = self._matcher(filter)  # reports invalid filters before the iteration
        return self._sniff(count, timeout, matches, own)

    def _sniff(
        self, count: int | None, timeout: float | None, matches: Callable[[Frame], bool], own: bool
    ) -> Iterator[Frame]:
        until = None if timeout is None else self.now() + int(timeout * 1e9)
        given = 0
        while count is None or given < count:
            left = None if until is None else max(0, until - self.now()) / 1e9
            try:
                frame = self.receive(left, own=own)
            except _core.WireError as error:
                if error.kind == "down" and self._core.capabilities["virtual_time"]:
                    return  # end of the file
                raise
            if frame is None:
                return
            if matches(frame):
                given += 1
                yield frame

    def _matcher(self, filter: str | Callable[[Frame], bool] | None) -> Callable[[Frame], bool]:
        if filter is None:
            return lambda frame: True
        if isinstance(filter, str):
            return _core._FrameFilter(filter, self._core).matches
        if callable(filter):
            return filter
        raise TypeError(f"filter: expected an expression or a function, got {type(filter).__name__}")

    def __iter__(self) -> Iterator[Frame]:
        """Return an iterator over received frames. In virtual time it ends when no more frames will arrive."""
        return self.sniff()

    def flush(self, timeout: float | None = 5.0) -> bool:
        """Wait until all frames are sent and counted. Returns False after ``timeout`` seconds."""
        return self._core.flush(timeout)

    # Methods for asyncio.

    async def asend(self, frames: Sendable | Iterable[Sendable], *, at: int = 0, timeout: float | None = 5.0) -> int:
        """Send like send(). Other tasks run while the queue is full."""
        import asyncio  # imported here, because asyncio doubles the time to import the package

        everything = _listed(frames)
        until = None if timeout is None else self.now() + int(timeout * 1e9)
        sent = 0
        pause = 0.0005
        while sent < len(everything):
            try:
                sent += self._core.send(everything[sent : sent + 64], at, 0)
                pause = 0.0005
            except _core.WireError as error:
                if error.kind != "full" or (until is not None and self.now() >= until):
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, 0.05)
        return sent

    async def areceive(self, timeout: float | None = 1.0, *, own: bool = False) -> Frame | None:
        """Receive like receive(). Waits for the wire's descriptor in the running loop, otherwise in a thread."""
        import asyncio

        if self._core.capabilities["virtual_time"]:
            return self.receive(timeout, own=own)  # does not block
        frame = self.receive(0, own=own)
        if frame is not None or timeout == 0:
            return frame
        until = None if timeout is None else self.now() + int(timeout * 1e9)
        if self._core.descriptor < 0:
            return await self._areceive_by_thread(until, own)
        # Each call uses its own descriptor, since several tasks may wait for one wire.
        descriptor = os.dup(self._core.descriptor)
        loop = asyncio.get_running_loop()
        try:
            while True:
                came = loop.create_future()
                loop.add_reader(descriptor, _settle, came)
                try:
                    left = 0.1 if until is None else min(0.1, max(0.0, (until - self.now()) / 1e9))
                    await asyncio.wait([came], timeout=left)
                finally:
                    loop.remove_reader(descriptor)
                frame = self.receive(0, own=own)  # raises if the wire was closed
                if frame is not None or (until is not None and self.now() >= until):
                    return frame
        finally:
            os.close(descriptor)

    async def aexpect(
        self,
        what: type[Any] | str | Callable[[Frame], bool] | None = None,
        timeout: float | None = 1.0,
        *,
        own: bool = False,
    ) -> Frame:
        """Wait like :meth:`expect`. Other tasks run while no frame arrives."""
        matches, wanted = self._wanted(what)
        others = _Others()
        until = None if timeout is None else self.now() + int(timeout * 1e9)
        while True:
            left = None if until is None else max(0, until - self.now()) / 1e9
            frame = await self.areceive(left, own=own)
            if frame is None:
                raise others.error(self.name, wanted, timeout)
            if matches(frame):
                return frame
            others.add(frame)

    async def _areceive_by_thread(self, until: int | None, own: bool) -> Frame | None:
        import asyncio

        loop = asyncio.get_running_loop()
        while True:
            left = 0.1 if until is None else min(0.1, max(0.0, (until - self.now()) / 1e9))
            waits: asyncio.Future[Frame | None] = loop.run_in_executor(None, self._core.receive, left, own)
            try:
                frame = await asyncio.shield(waits)
            except asyncio.CancelledError:
                waits.add_done_callback(self._give_back)
                raise
            if frame is not None or (until is not None and self.now() >= until):
                return frame

    def _give_back(self, done: asyncio.Future[Frame | None]) -> None:
        if not done.cancelled() and done.exception() is None and (frame := done.result()) is not None:
            self._back.append(frame)

    def __aiter__(self) -> AsyncIterator[Frame]:
        """Return an iterator over received frames. In virtual time it ends when no more frames will arrive."""
        return self._frames()

    async def _frames(self) -> AsyncIterator[Frame]:
        if self._core.capabilities["virtual_time"]:
            for frame in self:
                yield frame
            return
        while (came := await self.areceive(None)) is not None:
            yield came

    # Closing.

    def close(self) -> None:
        """Send queued frames and close the wire. Later calls raise ClosedError. A second call has no effect."""
        self._core.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Wire {self.name}{' (closed)' if self.closed else ''}>"

    # Recording.

    def record(self, max_frames: int = 65536) -> None:
        """Record sent and received frames and keep the newest ones. 0: stop recording and discard the frames.

        The time of a sent frame is taken before it is sent, so that a response has a later time. :meth:`save` orders
        the frames by time.
        """
        self._core.record(max_frames)

    def save(self, path: str | os.PathLike[str], comments: Iterable[str] = ()) -> int:
        """Write recorded frames to a pcapng file with comments "sent" or "received", and return their number."""
        refuse_inputs(path)
        return _core._save_recorded(native(path), {self.name: self._core}, list(comments))


class _Others:
    """Frames that arrived instead of an expected one."""

    _shown = 10

    def __init__(self) -> None:
        self._count = 0
        self._lines: list[str] = []

    def add(self, frame: Frame) -> None:
        self._count += 1
        if len(self._lines) < self._shown:
            self._lines.append(f"\n  {frame.summary()}")

    def error(self, wire: str, wanted: str, timeout: float | None) -> _core.WireError:
        waited = "" if timeout is None else f" within {timeout} s"
        arrived = "no frame arrived"
        if self._count:
            arrived = f"{self._count} other frame{'' if self._count == 1 else 's'} arrived:{''.join(self._lines)}"
        if self._count > len(self._lines):
            arrived += f"\n  and {self._count - len(self._lines)} more"
        error = _core.WireError(f"{wire}: expected {wanted}{waited}; {arrived}")
        error.kind, error.errno = "timeout", 0
        return error


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _listed(frames: Any) -> list[Any]:
    them = several(frames)
    return [without_scapy(frame) for frame in ([frames] if them is None else them)]


def open_wire(name: str) -> Wire:
    """Open a wire by name: "packet:veth0", "unix:/run/x", "file:x.pcapng", "null" (docs/reference/wires.md).

    ``file:PATH`` writes a new capture, ``file:PATH,read`` reads one.

    Raises WireError with kind "specification", "missing", "forbidden", "unsupported", …
    """
    return Wire(_core._open_wire(name))


def wire_pair(name: str = "pair", *, frames: int = 1024, max_bytes: int = 65536) -> tuple[Wire, Wire]:
    """Return two connected wires of this process in real time. Each receives the frames that the other sends.

    ``frames``: maximum number of queued frames per direction. ``max_bytes``: maximum frame length.
    """
    a, b = _core._wire_pair(name, frames, max_bytes)
    return Wire(a), Wire(b)
