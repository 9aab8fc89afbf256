"""Analysis of captures on many machines, by Dask.

Files are read once for what everybody has to know, then divided by endpoint pair; each share is tracked in the
capture's order, wherever that happens, and the shares' analyses are merged. What comes out is what
``rdmawire.analyze(files)`` gives on one machine, exactly, as long as nothing had to be evicted there or here.

    from dask.distributed import Client
    import rdmawire.distributed

    with Client("scheduler:8786") as client:
        report = rdmawire.distributed.analyze(["ring-1.pcapng", "ring-2.pcapng"], client)

Every worker needs the same build of rdmawire, and the files under the same names.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmawire import CaptureError, UsageError
from rdmawire._core import distributed as _core
from rdmawire.report import Report

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["analyze"]

#: (name, packets, octets, packets lost by the capture, why reading stopped, first packet's, least, greatest time)
_Survey = tuple[str, int, int, "int | None", str, int, int, int]
#: A share's analysis, and how many packets found no room while it was tracked.
_Share = tuple[bytes, int]


def analyze(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    client: Client | None = None,
    *,
    shares: int | None = None,
    portion_octets: int = 64 << 20,
    begin: str = "",
    end: str = "",
    verify_crcs: bool = True,
    roce_port: int = 0,
    scratch: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    retries: int = 3,
) -> Report:
    """The report of these captures, read as one, worked out by the cluster of `client`.

    :param client: a ``dask.distributed.Client``; not given: the current one.
    :param shares: how many parts the endpoint pairs are divided into; not given: two for each thread of the cluster,
        and enough for each to have 256 MiB of frames at most (what one pair says stays together, however much).
    :param portion_octets: of frames that one task divides; larger files are divided by several.
    :param begin, end: boundaries, as ``--from`` and ``--to`` of ``rdmawire analyze`` take them.
    :param scratch: a directory that all workers share: divided frames are put there, instead of into the workers'
        memory, and removed at the end.
    :param progress: called with the stage ("survey", "divide", "track"), tasks done, and tasks in all. What it raises
        ends the analysis.
    :param retries: how often a task that failed is tried again; what a lost worker had is worked out anew besides.
    :raises CaptureError: no file could be read. Those that could not, of several, are in the report's ``troubles``.
    :raises UsageError: a boundary that is none, no files, no client.
    """
    names = [os.fspath(files)] if isinstance(files, (str, os.PathLike)) else [os.fspath(name) for name in files]
    if not names:
        raise UsageError("analyze: there are no files to read")
    if shares is not None and not 1 <= shares <= 65536:
        raise UsageError(f"analyze: {shares} shares; from 1 to 65536 make sense")
    if portion_octets < 1:
        raise UsageError(f"analyze: portions of {portion_octets} octets; a portion has at least one")
    with contextlib.ExitStack() as stack:
        run = _Run(client or _current_client(), progress, retries)
        stack.callback(run.cancel)
        surveys, troubles = _order(run.gather("survey", [run.submit(_survey, name) for name in names]))
        if not surveys:
            raise CaptureError(troubles[0])
        octets = sum(survey[2] for survey in surveys)
        if shares is None:
            threads = sum(run.client.nthreads().values())
            shares = min(4096, max(2 * max(threads, 1), math.ceil(octets / (256 << 20))))
        folder = _scratch(scratch, stack)
        divided = []
        before = 0
        for survey in surveys:
            name, packets = survey[0], survey[1]
            step = max(1, min(packets, portion_octets * packets // max(survey[2], 1)))
            for first in range(1, packets + 1, step):
                last = min(packets, first + step - 1)
                divided.append(
                    run.submit(_divide, (name, first, last, before), shares, begin, end, surveys[0][5], roce_port,
                               folder)
                )
            before += packets
        run.wait("divide", divided)
        tracked = [
            run.submit(_track, [run.submit(_parcel, parcels, share) for parcels in divided], verify_crcs, roce_port)
            for share in range(shares)
        ]
        results: list[_Share] = run.gather("track", tracked)
        return Report.from_json(_core.merge(results, surveys, begin, end), troubles)


class _Run:
    """The tasks of one analysis: handed in, waited for with progress, and taken back when it ends early."""

    def __init__(self, client: Client, progress: Callable[[str, int, int], None] | None, retries: int) -> None:
        self.client = client
        self._progress = progress
        self._retries = retries
        self._futures: list[Future] = []

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        future = self.client.submit(function, *arguments, retries=self._retries, pure=False)
        self._futures.append(future)
        return future

    def wait(self, stage: str, futures: Sequence[Future]) -> None:
        from distributed import as_completed

        for done, future in enumerate(as_completed(futures), 1):
            if future.status == "error":
                future.result()  # raises what the task raised
            if self._progress:
                self._progress(stage, done, len(futures))

    def gather(self, stage: str, futures: Sequence[Future]) -> list[Any]:
        self.wait(stage, futures)
        results = self.client.gather(list(futures))
        return list(results)

    def cancel(self) -> None:
        with contextlib.suppress(Exception):  # the cluster may be gone, which is why we are here
            self.client.cancel(self._futures)
        self._futures.clear()


def _current_client() -> Client:
    try:
        from distributed import get_client
    except ImportError as error:
        raise UsageError(
            "rdmawire.distributed needs dask.distributed: pip install 'rdmawire[distributed]'"
        ) from error
    try:
        return get_client()
    except ValueError as error:
        raise UsageError("analyze: there is no current client; give one: dask.distributed.Client(…)") from error


def _order(surveyed: Sequence[_Survey | str]) -> tuple[list[_Survey], list[str]]:
    """The files in the order of their first packets, and what is to be said of those that cannot be read."""
    surveys = [survey for survey in surveyed if not isinstance(survey, str)]
    troubles = [survey for survey in surveyed if isinstance(survey, str)]
    surveys.sort(key=lambda survey: survey[5])
    troubles += [survey[4] for survey in surveys if survey[4]]
    return surveys, troubles


def _scratch(scratch: str | os.PathLike[str] | None, stack: contextlib.ExitStack) -> str | None:
    if scratch is None:
        return None
    folder = tempfile.mkdtemp(prefix="rdmawire-", dir=os.fspath(scratch))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


# What runs on the workers.


def _survey(name: str) -> _Survey | str:
    try:
        return _core.survey(name)
    except CaptureError as error:
        return str(error)


def _divide(
    portion: tuple[str, int, int, int],
    shares: int,
    begin: str,
    end: str,
    origin: int,
    roce_port: int,
    folder: str | None,
) -> list[bytes] | list[str]:
    parcels = _core.divide(*portion, shares, begin, end, origin, roce_port)
    if folder is None:
        return parcels
    # Under names of its own: where a task runs twice, both may write, and what one of them tells is whole.
    paths = [Path(folder) / f"{uuid.uuid4().hex}.parcel" for _ in parcels]
    for path, parcel in zip(paths, parcels, strict=True):
        path.write_bytes(parcel)
    return [str(path) for path in paths]


def _parcel(parcels: Sequence[bytes] | Sequence[str], share: int) -> bytes | str:
    return parcels[share]


def _track(parcels: Sequence[bytes | str], verify_crcs: bool, roce_port: int) -> _Share:
    tracker = _core.Tracker(verify_crcs, roce_port)
    for parcel in parcels:
        if isinstance(parcel, str):
            if os.path.getsize(parcel):
                with open(parcel, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as octets:
                    tracker.add(octets)
        else:
            tracker.add(parcel)
    return tracker.finish()
