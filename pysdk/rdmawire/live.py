"""Analysis of captures while they grow, as ``rdmawire analyze --follow`` does it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence

from rdmawire import _core
from rdmawire._core import CaptureError, UsageError
from rdmawire.closing import Closes
from rdmawire.report import Report

__all__ = ["LiveAnalysis", "follow"]


class LiveAnalysis(Closes):
    """An analysis of a growing capture, made by :func:`follow`.

    An iterator of reports. Each report covers all packets so far. The last one also covers connections that are still
    open. One thread reads. Any thread may call :meth:`stop` and :meth:`close`.
    """

    def __init__(
        self, core: _core.FollowRun, name: str, every: float, idle: float | None, seconds: float | None
    ) -> None:
        self._core: _core.FollowRun = core
        self.name = name  #: the file or the interface
        self._every, self._idle, self._seconds = every, idle, seconds
        self.read_errors: list[str] = []
        """Errors that ended the analysis, one sentence each."""

    @property
    def packets(self) -> int:
        """Number of packets so far."""
        return self._core.packets

    def report(self) -> Report:
        """Return a report of the packets so far."""
        return Report.from_json(self._core.report())

    def __iter__(self) -> Iterator[Report]:
        """Return a report every `every` seconds if packets have arrived, and the last report at the end.

        The analysis ends after :meth:`stop`, after `idle` seconds without packets, after `seconds`, if the file is
        removed, or if the device fails.
        """
        now = began = quiet_since = time.monotonic()
        seen = self.packets
        while (left := min(self._every, *self._bounds(now - began, now - quiet_since))) > 0:
            more = self._core.take(left)
            now = time.monotonic()
            if not more:
                break
            if self.packets != seen:
                seen, quiet_since = self.packets, now
                if min(self._bounds(now - began, 0)) > 0:  # if 0, the last report follows immediately
                    yield self.report()
        yield self.finish()

    def _bounds(self, running: float, quiet: float) -> tuple[float, float]:
        """Return the seconds until each of the two limits is reached."""
        return (
            math.inf if self._seconds is None else self._seconds - running,
            math.inf if self._idle is None else self._idle - quiet,
        )

    def stop(self) -> None:
        """End the iteration in any thread. The last report is still returned."""
        self._core.stop()

    def finish(self) -> Report:
        """End the analysis and return the last report, which includes open connections.

        Later calls raise ClosedError. Raises CaptureError if no packet could be read.
        """
        text = self._core.finish()
        self.read_errors = self._core.read_errors
        self._core.close()
        report = Report.from_json(text, self.read_errors)
        if self.read_errors and not report.to_dict()["input"]["files"]:
            raise CaptureError("\n".join(self.read_errors))
        return report

    def close(self) -> None:
        """Release the capture without a last report. A second call has no effect."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<rdmawire.LiveAnalysis {self.name!r}{', closed' if self.closed else f', {self.packets} packets'}>"


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
) -> LiveAnalysis:
    """Analyze a file that is still written, or packets of an `interface`.

        with rdmawire.follow("ring.pcapng", every=5) as analysis:
            for report in analysis:
                print(report.text(tables=False))

    `capture_filter` is a libpcap filter expression for an interface. `every` is the interval of reports in seconds. The
    analysis ends after `idle` seconds without packets, or after `seconds`. None: unlimited. The other options are those
    of :func:`rdmawire.analyze`. The reports have no tables.

    Raises CaptureError if the file or interface does not exist or is not permitted, or if the filter is invalid.
    """
    if (file is None) == (not interface):
        raise UsageError("follow: expected either a file or interface=")
    if capture_filter and not interface:
        raise UsageError("follow: capture_filter requires interface=; use filter for files")
    if not every > 0:
        raise UsageError(f"follow: every={every}: expected seconds above 0")
    name = interface if file is None else os.fspath(file)
    core = _core.FollowRun(
        "" if file is None else name, interface, capture_filter, filter, list(ignore), roce_port, verify_crcs
    )
    return LiveAnalysis(core, name, every, idle, seconds)
