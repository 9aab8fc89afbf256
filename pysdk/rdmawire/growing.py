"""Captures while they grow, as ``rdmawire analyze --follow`` has them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence

from rdmawire import _core
from rdmawire._core import CaptureError, UsageError
from rdmawire.closing import Closes
from rdmawire.report import Report

__all__ = ["Following", "follow"]


class Following(Closes):
    """A capture that is analyzed while it grows; made by :func:`follow`.

    An iterator of reports: each is of all packets so far. The last one, which comes when the following ends, is of
    connections that are over. One thread reads; :meth:`stop` and :meth:`close` may be called from any.
    """

    def __init__(
        self, core: _core.FollowRun, name: str, every: float, idle: float | None, seconds: float | None
    ) -> None:
        self._core: _core.FollowRun = core
        self.name = name  #: the file, or the interface
        self._every, self._idle, self._seconds = every, idle, seconds
        self.troubles: list[str] = []
        """Why it ended, where it ended by itself: one sentence each."""

    @property
    def packets(self) -> int:
        """Packets so far."""
        return self._core.packets

    def report(self) -> Report:
        """How things are at this moment."""
        return Report.from_json(self._core.report())

    def __iter__(self) -> Iterator[Report]:
        """Gives a report whenever `every` seconds have passed and packets have come, and a last one at the end.

        It ends after :meth:`stop`, after `idle` seconds without a packet, after `seconds`, and when the file goes away
        or the device fails.
        """
        now = began = quiet_since = time.monotonic()
        seen = self.packets
        while (left := min(self._every, *self._bounds(now - began, now - quiet_since))) > 0:
            goes_on = self._core.take(left)
            now = time.monotonic()
            if not goes_on:
                break
            if self.packets != seen:
                seen, quiet_since = self.packets, now
                if min(self._bounds(now - began, 0)) > 0:  # else the last report comes at once
                    yield self.report()
        yield self.finish()

    def _bounds(self, running: float, quiet: float) -> tuple[float, float]:
        """Seconds until it ends, by each of its bounds."""
        return (
            math.inf if self._seconds is None else self._seconds - running,
            math.inf if self._idle is None else self._idle - quiet,
        )

    def stop(self) -> None:
        """Ends the iteration, whichever thread is in it; the last report still comes."""
        self._core.stop()

    def finish(self) -> Report:
        """Ends it, and gives the last report: what no connection goes on with is told. Once; later use raises ClosedError.

        Raises CaptureError where nothing could be read at all.
        """
        text = self._core.finish()
        self.troubles = self._core.troubles
        self._core.close()
        report = Report.from_json(text, self.troubles)
        if self.troubles and not report.to_dict()["input"]["files"]:
            raise CaptureError("\n".join(self.troubles))
        return report

    def close(self) -> None:
        """Lets go of it without a last report. A second call does nothing."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<rdmawire.Following {self.name!r}{', closed' if self.closed else f', {self.packets} packets'}>"


def follow(
    file: str | os.PathLike[str] | None = None,
    *,
    interface: str = "",
    capture_filter: str = "",
    every: float = 1.0,
    idle: float | None = None,
    seconds: float | None = None,
    filter: str = "",
    ignore: Sequence[str] = (),
    roce_port: int = 0,
    verify_crcs: bool = True,
) -> Following:
    """Analyzes a file that somebody still writes, or what comes to an `interface`, while it comes.

        with rdmawire.follow("ring.pcapng", every=5) as following:
            for report in following:
                print(report.text(tables=False))

    `capture_filter` is in libpcap's language, for an interface. `every`: seconds between reports. It ends after `idle`
    seconds without a packet, or after `seconds`; None: never. What else there is, is as for :func:`rdmawire.analyze`; the
    reports have no tables.

    Raises CaptureError: no such file or interface, not permitted, a wrong capture filter.
    """
    if (file is None) == (not interface):
        raise UsageError("follow: a file, or interface=, and not both")
    if capture_filter and not interface:
        raise UsageError("follow: capture_filter is of an interface; filter takes packets of a file")
    if not every > 0:
        raise UsageError(f"follow: every={every}; give seconds above 0")
    name = interface if file is None else os.fspath(file)
    core = _core.FollowRun(
        "" if file is None else name, interface, capture_filter, filter, list(ignore), roce_port, verify_crcs
    )
    return Following(core, name, every, idle, seconds)
