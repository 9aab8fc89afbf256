"""Wires: frames leave and arrive, each with its time.

>>> a, b = wire_pair()
>>> with a, b:
...     a.send(bytes(64))
...     len(bytes(b.receive(timeout=1)))
1
64

A wire is used from any thread; ctrl-C ends what waits. Times are integer nanoseconds of the wire's own clock,
:meth:`Wire.now`; timeouts are seconds of it, None is without end. docs/reference/wires.md says which wires there are.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rdmawire import _core
from rdmawire.closing import Closes

if TYPE_CHECKING:
    from typing_extensions import Self

    from rdmawire._core import Frame

__all__ = ["Wire", "WireCapabilities", "WireCounters", "open_wire", "wire_pair"]

#: What send() takes: a frame, or bytes of one.
Sendable = Any


@dataclasses.dataclass(frozen=True)
class WireCapabilities:
    """What a wire is able to do."""

    link: str  #: "ethernet", "infiniband", …
    max_bytes: int  #: of a frame, its link header included, a frame check sequence not; 0: no limit
    min_bytes: int  #: shorter frames are refused
    batch: int  #: frames that are handed over best in one call
    sends: bool
    receives: bool
    sees_own: bool  #: receive(own=True) gives what this machine sent, too
    hardware_times: bool  #: times of frames are the device's own
    paces: bool  #: the wire itself holds a frame back until its time
    virtual_time: bool  #: now() goes on in receive() alone: nobody waits, and a run can be repeated
    bits_per_second: int  #: of the line; 0: not known
    how: str  #: what it settled for where there was a choice, for people


@dataclasses.dataclass(frozen=True)
class WireCounters:
    """What a wire counted since it was opened."""

    sent: int
    sent_bytes: int
    received: int
    received_bytes: int
    dropped: int  #: arrived, and were lost because receive() came too late


class Wire(Closes):
    """One end of something that carries frames: :func:`open_wire`, :func:`wire_pair` and devices give one.

    A context manager, and an iterator over what arrives.
    """

    def __init__(self, core: _core._Wire) -> None:
        self._core: _core._Wire = core
        self._back: collections.deque[Frame] = collections.deque()  # what a canceled areceive() had taken already

    # How it is named, what it is able to do.

    @property
    def name(self) -> str:
        """How it was named: "unix:/run/lab/eth0"."""
        return self._core.name

    @property
    def capabilities(self) -> WireCapabilities:
        """What it is able to do."""
        return WireCapabilities(**self._core.capabilities)

    @property
    def counters(self) -> WireCounters:
        """What it counted since it was opened."""
        return WireCounters(**self._core.counters)

    def now(self) -> int:
        """The wire's clock: nanoseconds since 1970, from 0 in virtual time."""
        return self._core.now()

    def fileno(self) -> int:
        """For select and poll: readable as soon as a receive(timeout=0) that had given None would give a frame.

        Raises WireError, kind "unsupported", where there is no such thing.
        """
        descriptor = self._core.descriptor
        if descriptor < 0:
            error = _core.WireError(f"{self.name}: it has no descriptor to wait on; receive() waits")
            error.kind, error.errno = "unsupported", 0
            raise error
        return descriptor

    # Frames.

    def send(self, frames: Sendable | Iterable[Sendable], *, at: int = 0, timeout: float | None = 5.0) -> int:
        """Hands over a frame, bytes, or several of them in their order, and gives how many.

        ``at``: they leave not before this time of the wire's clock. Where the wire's queue is full it waits up to
        ``timeout`` seconds, and then raises WireError, kind "full"; what went before is in the message.
        """
        return self._core.send(_listed(frames), at, timeout)

    def receive(self, timeout: float | None = 1.0, *, own: bool = False) -> Frame | Any:  # Any: None, too rare to ask
        """The next frame in the order of arrival, or None when none came for ``timeout`` seconds.

        ``timeout`` 0 asks only for what is there, None waits without end; in virtual time None comes back with None
        when nothing will ever come. A file that is over is WireError, kind "down"; iterating ends there. ``own``: what
        this machine itself sent, too.
        """
        if self._back:
            return self._back.popleft()
        frame: Frame | None = self._core.receive(timeout, own)
        return frame

    def sniff(
        self,
        count: int | None = None,
        timeout: float | None = None,
        filter: str | Callable[[Frame], bool] | None = None,
        *,
        own: bool = False,
    ) -> Iterator[Frame]:
        """Frames as they arrive: at most ``count``, for ``timeout`` seconds in all, those that ``filter`` takes.

        ``filter`` is an expression of docs/reference/filters.md, or a function.
        """
        matches = self._matcher(filter)  # at once, so that a wrong filter raises here
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
                    return  # a file that is over
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
        raise TypeError(f"a filter is an expression or a function, not {type(filter).__name__}")

    def __iter__(self) -> Iterator[Frame]:
        """Frames as they arrive, without end; in virtual time until nothing will ever come."""
        return self.sniff()

    def flush(self, timeout: float | None = 5.0) -> bool:
        """Waits until what was handed over has left, which counters then tell; False when it has not in time."""
        return self._core.flush(timeout)

    # The same for asyncio.

    async def asend(self, frames: Sendable | Iterable[Sendable], *, at: int = 0, timeout: float | None = 5.0) -> int:
        """As send(); where the queue is full, other tasks go on meanwhile."""
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

    async def areceive(self, timeout: float | None = 1.0, *, own: bool = False) -> Frame | Any:  # as receive()
        """As receive(), waiting on the wire's descriptor in the running loop, or in a thread where it has none."""
        if self._core.capabilities["virtual_time"]:
            return self.receive(timeout, own=own)  # nobody waits
        frame = self.receive(0, own=own)
        if frame is not None or timeout == 0:
            return frame
        until = None if timeout is None else self.now() + int(timeout * 1e9)
        if self._core.descriptor < 0:
            return await self._areceive_by_thread(until, own)
        # A descriptor of this call's own: several tasks may wait for one wire.
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
                frame = self.receive(0, own=own)  # raises where the wire was closed meanwhile
                if frame is not None or (until is not None and self.now() >= until):
                    return frame
        finally:
            os.close(descriptor)

    async def _areceive_by_thread(self, until: int | None, own: bool) -> Frame | None:
        loop = asyncio.get_running_loop()
        while True:
            left = 0.1 if until is None else min(0.1, max(0.0, (until - self.now()) / 1e9))
            waits = loop.run_in_executor(None, self._core.receive, left, own)
            try:
                frame = await asyncio.shield(waits)
            except asyncio.CancelledError:
                waits.add_done_callback(self._give_back)
                raise
            if frame is not None or (until is not None and self.now() >= until):
                given: Frame | None = frame
                return given

    def _give_back(self, done: asyncio.Future[Frame | None]) -> None:
        if not done.cancelled() and done.exception() is None and (frame := done.result()) is not None:
            self._back.append(frame)

    def __aiter__(self) -> AsyncIterator[Frame]:
        """Frames as they arrive, without end; in virtual time until nothing will ever come."""
        return self._frames()

    async def _frames(self) -> AsyncIterator[Frame]:
        if self._core.capabilities["virtual_time"]:
            for frame in self:
                yield frame
            return
        while (came := await self.areceive(None)) is not None:
            yield came

    # Its end.

    def close(self) -> None:
        """Sends what waits and lets go of everything. Later calls raise ClosedError. A second call does nothing."""
        self._core.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Wire {self.name}{' (closed)' if self.closed else ''}>"

    # What goes over it, kept.

    def record(self, most: int = 65536) -> None:
        """Keeps what is sent and received from now on, the newest ``most`` frames; 0: no more, and forgets it."""
        self._core.record(most)

    def save(self, path: str | os.PathLike[str], comments: Iterable[str] = ()) -> int:
        """Writes what was recorded to a pcapng, a comment "sent" or "received" at each frame; gives how many."""
        return _core._save_recorded(os.fspath(path), {self.name: self._core}, list(comments))


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _listed(frames: Any) -> list[Any]:
    # What has bytes is one frame, even where one could iterate over it. What is nothing of all that goes on as it is:
    # the module says what it wants instead.
    if isinstance(frames, str) or hasattr(frames, "__bytes__"):
        return [frames]
    try:
        memoryview(frames)
    except TypeError:
        pass
    else:
        return [frames]
    try:
        return list(frames)
    except TypeError:
        return [frames]


def open_wire(name: str) -> Wire:
    """Opens a wire by name: "packet:veth0", "unix:/run/x", "file:x.pcapng", "null" (docs/reference/wires.md).

    ``file:PATH`` writes a capture anew, ``file:PATH,read`` reads one.

    Raises WireError, whose kind says what was wrong: "specification", "missing", "forbidden", "unsupported", …
    """
    return Wire(_core._open_wire(name))


def wire_pair(name: str = "pair", *, frames: int = 1024, max_bytes: int = 65536) -> tuple[Wire, Wire]:
    """Two ends in this process, in real time: what is sent at one arrives at the other.

    ``frames`` wait in each direction at most; ``max_bytes`` is the longest frame.
    """
    a, b = _core._wire_pair(name, frames, max_bytes)
    return Wire(a), Wire(b)
