"""Analysis of captures on many machines, by Dask.

Files are read once for what everybody has to know, then divided by endpoint pair; each share is tracked in the
capture's order, wherever that happens, and the shares' analyses are merged. What comes out is what
``rdmawire.analyze`` gives on one machine, exactly, as long as nothing had to be evicted there or here.

    from dask.distributed import Client
    import rdmawire.distributed

    with Client("scheduler:8786") as client:
        report = rdmawire.distributed.analyze(["ring-1.pcapng", "ring-2.pcapng"], client, filter="not icrc.status == bad")
        events = rdmawire.distributed.tables(["ring-1.pcapng", "ring-2.pcapng"], client, kinds="events")["events"]

Every worker needs the same build of rdmawire, and the files under the same names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import mmap
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmawire import CaptureError, UsageError
from rdmawire._core import distributed as _core
from rdmawire._loading import optional
from rdmawire.report import Report
from rdmawire.tables import Table

if TYPE_CHECKING:
    import pyarrow
    from distributed import Client, Future

__all__ = ["KINDS", "analyze", "tables", "to_parquet"]

_Path = str | os.PathLike[str]
#: (name, packets, bytes, packets lost by the capture, why reading stopped, first packet's, least, greatest time)
_Survey = tuple[str, int, int, "int | None", str, int, int, int]
#: Parcels of one share: the bytes, or the files that have them.
_Bytes = Sequence["bytes | str"]
#: A share's analysis, and how many packets found no room while it was tracked.
_Share = tuple[bytes, int]
#: The frame and the time of a packet; frame 0: there is none.
_Moment = tuple[int, int]
#: The ends of a connection, each address as two numbers.
_Ends = tuple[int, int, int, int]

#: The tables there are, and by which of their columns the rows are put in order.
_ORDER = {
    "messages": ("first_frame", "connection", "message"),
    "events": ("frame", "connection"),
    "connections": ("connection", "last_frame"),
    "packets": ("frame", "connection"),
}
#: The tables that :func:`tables` and :func:`to_parquet` know.
KINDS: tuple[str, ...] = tuple(_ORDER)


def analyze(
    files: _Path | Iterable[_Path],
    client: Client | None = None,
    *,
    filter: str = "",
    begin: str = "",
    end: str = "",
    connection: int = 0,
    counters: _Path | Sequence[_Path] = (),
    ignore: Sequence[str] = (),
    roce_port: int = 0,
    verify_crcs: bool = True,
    shares: int | None = None,
    portion_bytes: int = 64 << 20,
    scratch: _Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    retries: int = 3,
) -> Report:
    """The report of these captures, read as one, worked out by the cluster of `client`.

    What :func:`rdmawire.analyze` takes means the same here, but for `threads`: the workers are the threads. `counters`
    are read by the caller. The report has no tables; :func:`tables` and :func:`to_parquet` make them.

    :param client: a ``dask.distributed.Client``; not given: the current one.
    :param filter: only packets that match. Every frame is dissected once more for it, since what shares have to tell
        each other is what the filter takes.
    :param connection: only this one. The captures are tracked twice, as on one machine.
    :param shares: how many parts the endpoint pairs are divided into; not given: two for each thread of the cluster,
        and enough for each to have 256 MiB of frames at most (what one pair says stays together, however much).
    :param portion_bytes: of frames that one task divides; larger files are divided by several.
    :param scratch: a directory that all workers share: divided frames are put there, instead of into the workers'
        memory, and removed at the end.
    :param progress: called with the stage ("survey", "divide", with a filter "sift", with a connection "find",
        "track"), tasks done, and tasks in all. What it raises ends the analysis.
    :param retries: how often a task that failed is tried again; what a lost worker had is worked out anew besides.
    :raises CaptureError: no file could be read, or there is no such connection. Files that could not be read, of
        several, are in the report's ``troubles``.
    :raises UsageError: an option that makes no sense, no files, no client.
    """
    asked = _Asked(filter, connection, tuple(ignore), roce_port, verify_crcs)
    paths = [counters] if isinstance(counters, (str, os.PathLike)) else list(counters)
    with _divided(files, client, asked, begin, end, shares, portion_bytes, scratch, progress, retries) as divided:
        tracked = [divided.run.submit(_track, *work, asked) for work in divided.shares()]
        results: list[_Share] = divided.run.gather("track", tracked)
        report = _core.merge(results, divided.surveys, begin, end, asked.made(), [os.fspath(path) for path in paths])
        return Report.from_json(report, divided.troubles)


def tables(
    files: _Path | Iterable[_Path],
    client: Client | None = None,
    kinds: str | Sequence[str] = KINDS,
    *,
    filter: str = "",
    begin: str = "",
    end: str = "",
    connection: int = 0,
    ignore: Sequence[str] = (),
    roce_port: int = 0,
    verify_crcs: bool = True,
    shares: int | None = None,
    portion_bytes: int = 64 << 20,
    scratch: _Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    retries: int = 3,
) -> dict[str, pyarrow.Table]:
    """The tables behind the report, worked out by the cluster, in the caller's memory: of each kind a pyarrow.Table.

    The rows are those of ``rdmawire.analyze(...).messages``, ``.events``, ``.connections`` and ``.packets``, with the
    same columns. There they stand in the order in which things became known, which a cluster has not: here messages
    are ordered by their first frame, events and packets by their frame, connections by theirs; what has none comes last.
    Of packets, time, PSN and bytes may be known here where one machine no longer knew them: it remembers 131,072.

    The options are those of :func:`analyze`. Needs pyarrow, here and on the workers.

    :raises CaptureError: as :func:`analyze`, and where a file cannot be read to its end: the tables would lack rows.
    """
    wanted = _kinds(kinds)
    pyarrow = _pyarrow()
    asked = _Asked(filter, connection, tuple(ignore), roce_port, verify_crcs)
    with _divided(files, client, asked, begin, end, shares, portion_bytes, scratch, progress, retries) as divided:
        if divided.troubles:
            raise CaptureError("\n".join(divided.troubles))
        works = list(divided.shares())
        tracked = [divided.run.submit(_rows, *work, asked, kind) for kind in wanted for work in works]
        parts = divided.run.gather("track", tracked)
        made = {}
        for i, kind in enumerate(wanted):
            of_kind = [pyarrow.ipc.open_stream(one).read_all() for one in parts[i * len(works) : (i + 1) * len(works)]]
            made[kind] = _in_order(pyarrow.concat_tables(of_kind), kind)
        return made


def to_parquet(
    files: _Path | Iterable[_Path],
    directory: _Path,
    client: Client | None = None,
    kinds: str | Sequence[str] = KINDS,
    *,
    compression: str = "zstd",
    filter: str = "",
    begin: str = "",
    end: str = "",
    connection: int = 0,
    ignore: Sequence[str] = (),
    roce_port: int = 0,
    verify_crcs: bool = True,
    shares: int | None = None,
    portion_bytes: int = 64 << 20,
    scratch: _Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    retries: int = 3,
) -> dict[str, int]:
    """Writes the tables behind the report as Parquet, each worker what it worked out, and gives the numbers of rows.

    ``directory`` is one that all workers share. Of each kind it gets a folder of its name, with one file for each share
    (``messages/part-00000.parquet``), which pandas, Polars, DuckDB, Dask and pyarrow read as one table. All files
    together have the rows of :func:`tables`; in each file they are in that order. A file is whole as soon as it has its
    name. Folders that are there already must be empty.

    The options are those of :func:`analyze`. Needs pyarrow on the workers. Nothing but one share's rows has to fit into
    memory.

    :raises CaptureError: as :func:`tables`, before anything is written; a file that cannot be written.
    """
    wanted = _kinds(kinds)
    target = Path(directory).absolute()
    for kind in wanted:
        folder = target / kind
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"to_parquet: {folder} is not empty: rows would be read twice; remove what is there")
    asked = _Asked(filter, connection, tuple(ignore), roce_port, verify_crcs)
    with _divided(files, client, asked, begin, end, shares, portion_bytes, scratch, progress, retries) as divided:
        if divided.troubles:
            raise CaptureError("\n".join(divided.troubles))
        tracked = [
            divided.run.submit(_write_rows, *work, asked, kind, str(target / kind / f"part-{share:05}.parquet"), compression)
            for kind in wanted
            for share, work in enumerate(divided.shares())
        ]
        counts = divided.run.gather("track", tracked)
        each = len(counts) // len(wanted)
        return {kind: sum(counts[i * each : (i + 1) * each]) for i, kind in enumerate(wanted)}


#: What of a share travels to who tracks it.
_Work = tuple["list[Future]", "list[Future]", _Moment, "_Ends | None"]


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What is asked of each share, as it travels."""

    filter: str
    connection: int
    ignore: tuple[str, ...]
    roce_port: int
    verify_crcs: bool

    def made(self) -> _core.Asked:
        return _core.Asked(self.filter, self.connection, list(self.ignore), self.roce_port, self.verify_crcs)


@dataclasses.dataclass
class _Divided:
    """Captures that were divided: what each share consists of, as tasks."""

    run: _Run
    surveys: list[_Survey]
    troubles: list[str]
    parcels: list[list[Future]]  #: of each share, in order
    sifted: list[list[Future]]  #: of each share what others have for it
    last: _Moment  #: the last packet with a BTH
    ends: _Ends | None  #: of the connection that was asked for

    def shares(self) -> Iterator[_Work]:
        """What tracking each share takes."""
        for parcels, sifted in zip(self.parcels, self.sifted, strict=True):
            yield parcels, sifted, self.last, self.ends


@contextlib.contextmanager
def _divided(
    files: _Path | Iterable[_Path],
    client: Client | None,
    asked: _Asked,
    begin: str,
    end: str,
    shares: int | None,
    portion_bytes: int,
    scratch: _Path | None,
    progress: Callable[[str, int, int], None] | None,
    retries: int,
) -> Iterator[_Divided]:
    names = [os.fspath(files)] if isinstance(files, (str, os.PathLike)) else [os.fspath(name) for name in files]
    if not names:
        raise UsageError("analyze: there are no files to read")
    if shares is not None and not 1 <= shares <= 65536:
        raise UsageError(f"analyze: {shares} shares; from 1 to 65536 make sense")
    if portion_bytes < 1:
        raise UsageError(f"analyze: portions of {portion_bytes} bytes; a portion has at least one")
    asked.made()  # what makes no sense is said here, and not by a worker
    _core.check_boundaries(begin, end)
    with contextlib.ExitStack() as stack:
        run = _Run(client or _current_client(), progress, retries)
        stack.callback(run.cancel)
        surveys, troubles = _order(run.gather("survey", [run.submit(_survey, name) for name in names]))
        if not surveys:
            raise CaptureError(troubles[0])
        data = sum(survey[2] for survey in surveys)
        if shares is None:
            threads = sum(run.client.nthreads().values())
            shares = min(4096, max(2 * max(threads, 1), math.ceil(data / (256 << 20))))
        folder = _scratch(scratch, stack)
        cut = []
        before = 0
        for survey in surveys:
            name, packets = survey[0], survey[1]
            step = max(1, min(packets, portion_bytes * packets // max(survey[2], 1)))
            for first in range(1, packets + 1, step):
                portion = (name, first, min(packets, first + step - 1), before)
                cut.append(run.submit(_divide, portion, shares, begin, end, surveys[0][5], asked, folder))
            before += packets
        run.wait("divide", cut)
        last = max(run.gather_of(cut, "last"), default=(0, 0))
        parcels = [[run.submit(_item, parcels, share) for parcels in cut] for share in range(shares)]
        divided = _Divided(run, surveys, troubles, parcels, [[] for _ in parcels], last, None)
        if asked.filter:
            _sift(divided, asked, folder)
        if asked.connection:
            found = run.gather("find", [run.submit(_find, *work, asked) for work in divided.shares()])
            divided.ends = next((ends for ends in found if ends is not None), None)
            if divided.ends is None:
                raise CaptureError(
                    f"there is no connection {asked.connection}: connections are named by the number of their first frame"
                )
        yield divided


def _sift(divided: _Divided, asked: _Asked, folder: str | None) -> None:
    run, shares = divided.run, len(divided.parcels)
    sifted = [
        run.submit(_sift_share, parcels, share, shares, asked, folder) for share, parcels in enumerate(divided.parcels)
    ]
    run.wait("sift", sifted)
    divided.last = max(run.gather_of(sifted, "last"))
    # Few shares have anything for a given other one, where there are many.
    for theirs, receivers in zip(sifted, run.gather_of(sifted, "shares"), strict=True):
        for share in receivers:
            divided.sifted[share].append(run.submit(_item, theirs, share))


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

    def gather_of(self, parcels: Sequence[Future], member: str) -> list[Any]:
        """Of each _Parcels what stands there."""
        results = self.client.gather([self.submit(getattr, one, member) for one in parcels])
        return list(results)

    def cancel(self) -> None:
        with contextlib.suppress(Exception):  # the cluster may be gone, which is why we are here
            self.client.cancel(self._futures)
        self._futures.clear()


def _current_client() -> Client:
    distributed = optional("clusters", "distributed", "distributed")
    try:
        client: Client = distributed.get_client()
        return client
    except ValueError as error:
        raise UsageError("analyze: there is no current client; give one: dask.distributed.Client(…)") from error


def _pyarrow() -> Any:
    return optional("tables", "parquet", "pyarrow", "pyarrow.compute", "pyarrow.parquet")


def _kinds(kinds: str | Sequence[str]) -> list[str]:
    wanted = [kinds] if isinstance(kinds, str) else list(kinds)
    for kind in wanted:
        if kind not in _ORDER:
            raise UsageError(f"there is no table {kind}; there are {', '.join(KINDS)}")
    if not wanted:
        raise UsageError(f"kinds is empty; there are {', '.join(KINDS)}")
    return wanted


def _in_order(table: Any, kind: str) -> Any:
    """The rows by frames; what shares a frame stays as it is, since that is one share's, which has it in order."""
    import pyarrow.compute

    keys = [(name, "ascending") for name in _ORDER[kind]]
    return table.take(pyarrow.compute.sort_indices(table, keys)).combine_chunks()


def _order(surveyed: Sequence[_Survey | str]) -> tuple[list[_Survey], list[str]]:
    """The files in the order of their first packets, and what is to be said of those that cannot be read."""
    surveys = [survey for survey in surveyed if not isinstance(survey, str)]
    troubles = [survey for survey in surveyed if isinstance(survey, str)]
    surveys.sort(key=lambda survey: survey[5])
    troubles += [survey[4] for survey in surveys if survey[4]]
    return surveys, troubles


def _scratch(scratch: _Path | None, stack: contextlib.ExitStack) -> str | None:
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
    asked: _Asked,
    folder: str | None,
) -> _Parcels:
    parcels, last = _core.divide(*portion, shares, begin, end, origin, asked.roce_port, bool(asked.filter))
    return _Parcels(parcels, last, folder)


class _Parcels:
    """Bytes by share, or the files that have them: those that are not empty. And the last packet with a BTH."""

    def __init__(self, parcels: list[bytes], last: _Moment, folder: str | None) -> None:
        self.last = last
        self._parcels: dict[int, bytes | str] = {share: parcel for share, parcel in enumerate(parcels) if parcel}
        if folder is not None:
            # Under names of its own: where a task runs twice, both may write, and what one of them tells is whole.
            for share, parcel in self._parcels.items():
                path = Path(folder) / f"{uuid.uuid4().hex}.parcel"
                path.write_bytes(parcel)  # type: ignore[arg-type]
                self._parcels[share] = str(path)

    @property
    def shares(self) -> list[int]:
        """For whom there is anything."""
        return list(self._parcels)

    def of(self, share: int) -> bytes | str:
        return self._parcels.get(share, b"")

    def __sizeof__(self) -> int:
        """By which Dask plans: the bytes, mostly."""
        return object.__sizeof__(self) + sum(len(parcel) for parcel in self._parcels.values())


def _item(parcels: _Parcels, share: int) -> bytes | str:
    return parcels.of(share)


@contextlib.contextmanager
def _opened(parcel: bytes | str) -> Iterator[bytes | mmap.mmap]:
    if isinstance(parcel, str):
        with open(parcel, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data
    else:
        yield parcel


def _sift_share(
    parcels: Sequence[bytes | str], share: int, shares: int, asked: _Asked, folder: str | None
) -> _Parcels:
    sifter = _core.Sifter(asked.made(), share, shares)
    for parcel in parcels:
        with _opened(parcel) as data:
            sifter.add(data)
    theirs, last = sifter.finish()
    return _Parcels(theirs, last, folder)


def _tracked(
    parcels: _Bytes, sifted: _Bytes, last: _Moment, ends: _Ends | None, asked: _Asked, rows: str = ""
) -> tuple[_core.Tracker, _Share]:
    tracker = _core.Tracker(asked.made(), rows)
    if ends is not None:
        tracker.narrow_to(ends)
    with contextlib.ExitStack() as stack:
        tracker.hear([stack.enter_context(_opened(parcel)) for parcel in sifted])
        for parcel in parcels:
            with _opened(parcel) as data:
                tracker.add(data)
        return tracker, tracker.finish(last)


def _track(parcels: _Bytes, sifted: _Bytes, last: _Moment, ends: _Ends | None, asked: _Asked) -> _Share:
    return _tracked(parcels, sifted, last, ends, asked)[1]


def _find(
    parcels: _Bytes, sifted: _Bytes, last: _Moment, ends: _Ends | None, asked: _Asked
) -> _Ends | None:
    return _tracked(parcels, sifted, last, ends, asked)[0].wanted


def _rows_of_share(
    parcels: _Bytes, sifted: _Bytes, last: _Moment, ends: _Ends | None, asked: _Asked, kind: str
) -> Any:
    tracker = _tracked(parcels, sifted, last, ends, asked, kind)[0]
    return _in_order(_pyarrow().table(Table(tracker.table(kind))), kind)


def _rows(
    parcels: _Bytes, sifted: _Bytes, last: _Moment, ends: _Ends | None, asked: _Asked, kind: str
) -> bytes:
    pyarrow = _pyarrow()
    table = _rows_of_share(parcels, sifted, last, ends, asked, kind)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _write_rows(
    parcels: _Bytes,
    sifted: _Bytes,
    last: _Moment,
    ends: _Ends | None,
    asked: _Asked,
    kind: str,
    path: str,
    compression: str,
) -> int:
    pyarrow = _pyarrow()
    table = _rows_of_share(parcels, sifted, last, ends, asked, kind)
    # A task that runs twice writes the same twice; a name is only ever given to what is whole. The name of what is not
    # begins with a dot, which readers of folders leave out.
    unfinished = Path(path).with_name(f".{uuid.uuid4().hex}.parquet")
    try:
        pyarrow.parquet.write_table(table, unfinished, compression=compression)
        unfinished.replace(path)
    except OSError as error:
        raise CaptureError(f"{path} cannot be written: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return int(table.num_rows)
