"""Analysis of captures on a Dask cluster.

Each file is surveyed once, then divided into shards by endpoint pair. Workers track each shard in the order of the
capture, and the analyses are merged. The report is identical to that of ``rdmawire.analyze`` unless table limits were
reached.

    from dask.distributed import Client
    import rdmawire.distributed

    with Client("scheduler:8786") as client:
        files = ["ring-1.pcapng", "ring-2.pcapng"]
        report = rdmawire.distributed.analyze(files, client, filter="not icrc.status == bad")
        events = rdmawire.distributed.tables(files, client, kinds="events")["events"]

All workers require the same build of rdmawire, and access to the files under the same names.
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
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmawire._core import CaptureError, UsageError
from rdmawire._core import distributed as _core
from rdmawire._loading import optional
from rdmawire.progress import Progress, bar_of
from rdmawire.report import Report
from rdmawire.tables import Table

if TYPE_CHECKING:
    import pyarrow
    from distributed import Client, Future

__all__ = ["KINDS", "analyze", "tables", "to_parquet"]

_Path = str | os.PathLike[str]
#: (name, packets, bytes, packets lost by the capture, read error, time of the first packet, minimum, maximum time)
_Survey = tuple[str, int, int, "int | None", str, int, int, int]
#: Batches of one shard: bytes, or the paths of files with the bytes.
_Bytes = Sequence["bytes | str"]
#: Analysis of a shard, and number of packets dropped because a table was full.
_ShardResult = tuple[bytes, int]
#: Frame and time of a packet. Frame 0: no packet.
_Moment = tuple[int, int]
#: Endpoints of a connection, each address as two numbers.
_Ends = tuple[int, int, int, int]

#: The tables, and the columns by which their rows are sorted.
_ORDER = {
    "messages": ("first_frame", "connection", "message"),
    "events": ("frame", "connection"),
    "connections": ("connection", "last_frame"),
    "packets": ("frame", "connection"),
}
#: The tables of :func:`tables` and :func:`to_parquet`.
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
    shards: int | None = None,
    portion_bytes: int = 64 << 20,
    scratch: _Path | None = None,
    progress: Progress = None,
    retries: int = 3,
) -> Report:
    """Analyze captures on the cluster of `client` and return the report.

    The options are those of :func:`rdmawire.analyze`, except `threads`. The caller reads `counters`. The report has no
    tables, see :func:`tables` and :func:`to_parquet`.

    :param client: a ``dask.distributed.Client``. Default: the current client.
    :param filter: analyze only packets that match. Shards exchange data of matching packets, so each frame is dissected
        twice.
    :param connection: analyze only this connection. The captures are tracked twice.
    :param shards: number of shards. Default: two per thread of the cluster, and at most 256 MiB of frames per shard if
        possible. One endpoint pair is always in one shard.
    :param portion_bytes: bytes of frames that one task divides.
    :param scratch: directory that all workers can access. Divided frames are stored there instead of in memory, and
        removed at the end.
    :param progress: called with the stage ("survey", "divide", "filter" with a filter, "find" with a connection,
        "track"), the finished tasks, and all tasks. Its exceptions end the analysis. True or False: a progress bar or
        none. Default: a bar on a terminal and in a notebook, if tqdm is installed.
    :param retries: number of retries of a failed task. Tasks of lost workers are repeated in addition.
    :raises CaptureError: no file could be read, or the connection is unknown. ``report.read_errors`` lists files with
        errors.
    :raises UsageError: invalid option, no files, or no client.
    """
    options = _Options(filter, connection, tuple(ignore), roce_port, verify_crcs)
    paths = [counters] if isinstance(counters, (str, os.PathLike)) else list(counters)
    with _divided(files, client, options, begin, end, shards, portion_bytes, scratch, progress, retries) as divided:
        tracked = [divided.run.submit(_track, *work, options) for work in divided.shards()]
        results: list[_ShardResult] = divided.run.gather("track", tracked)
        report = _core.merge(results, divided.surveys, begin, end, options.core(), [os.fspath(path) for path in paths])
        return Report.from_json(report, divided.read_errors)


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
    shards: int | None = None,
    portion_bytes: int = 64 << 20,
    scratch: _Path | None = None,
    progress: Progress = None,
    retries: int = 3,
    partial: bool = False,
) -> dict[str, pyarrow.Table]:
    """Create tables on the cluster and return them as pyarrow.Table by kind.

    The tables are those of ``rdmawire.analyze(...).messages``, ``.events``, ``.connections`` and ``.packets``. The rows
    are sorted by frame (messages: first frame), and rows without frame are last. Packets can have time, PSN and bytes
    that are missing in the tables of one process, which only keeps the last 131,072 packets.

    The options are those of :func:`analyze`. Requires pyarrow for the caller and the workers.

    :param partial: if a file cannot be read completely, warn, and use the readable part of all files.
    :raises CaptureError: as for :func:`analyze`, and without `partial` if a file cannot be read completely.
    """
    wanted = _kinds(kinds)
    pyarrow = _pyarrow()
    options = _Options(filter, connection, tuple(ignore), roce_port, verify_crcs)
    with _divided(files, client, options, begin, end, shards, portion_bytes, scratch, progress, retries) as divided:
        _report(divided.read_errors, partial)
        works = list(divided.shards())
        tracked = [divided.run.submit(_rows, *work, options, kind) for kind in wanted for work in works]
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
    shards: int | None = None,
    portion_bytes: int = 64 << 20,
    scratch: _Path | None = None,
    progress: Progress = None,
    retries: int = 3,
    partial: bool = False,
) -> dict[str, int]:
    """Write tables as Parquet files from the workers, and return the numbers of rows by kind.

    All workers must have access to ``directory``. It contains one folder per kind with one file per shard
    (``messages/part-00000.parquet``). pandas, Polars, DuckDB, Dask and pyarrow read a folder as one table. The files
    have the rows of :func:`tables`, each file in this order. Files are renamed when they are complete. Existing folders
    must be empty.

    The options are those of :func:`tables`. Requires pyarrow on the workers. The rows of one shard must fit into
    memory.

    :raises CaptureError: as for :func:`tables`, before files are written, or if a file cannot be written.
    """
    wanted = _kinds(kinds)
    target = Path(directory).absolute()
    for kind in wanted:
        folder = target / kind
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"to_parquet: {folder} is not empty; remove its files")
    options = _Options(filter, connection, tuple(ignore), roce_port, verify_crcs)
    with _divided(files, client, options, begin, end, shards, portion_bytes, scratch, progress, retries) as divided:
        _report(divided.read_errors, partial)
        tracked = [
            divided.run.submit(
                _write_rows, *work, options, kind, str(target / kind / f"part-{shard:05}.parquet"), compression
            )
            for kind in wanted
            for shard, work in enumerate(divided.shards())
        ]
        counts = divided.run.gather("track", tracked)
        each = len(counts) // len(wanted)
        return {kind: sum(counts[i * each : (i + 1) * each]) for i, kind in enumerate(wanted)}


#: Arguments of a task that tracks a shard.
_Work = tuple["list[Future]", "list[Future]", _Moment, "_Ends | None"]


@dataclasses.dataclass(frozen=True)
class _Options:
    """Analysis options of the shards. Can be pickled."""

    filter: str
    connection: int
    ignore: tuple[str, ...]
    roce_port: int
    verify_crcs: bool

    def core(self) -> _core.ShardOptions:
        return _core.ShardOptions(self.filter, self.connection, list(self.ignore), self.roce_port, self.verify_crcs)


@dataclasses.dataclass
class _Divided:
    """Divided captures: the tasks with the data of each shard."""

    run: _Run
    surveys: list[_Survey]
    read_errors: list[str]
    batches: list[list[Future]]  #: frames of each shard, in order
    filtered: list[list[Future]]  #: data of other shards that each shard needs to apply the filter
    last: _Moment  #: the last packet with a BTH
    ends: _Ends | None  #: endpoints of the requested connection

    def shards(self) -> Iterator[_Work]:
        """Return the arguments for tracking each shard."""
        for batches, filtered in zip(self.batches, self.filtered, strict=True):
            yield batches, filtered, self.last, self.ends


@contextlib.contextmanager
def _divided(
    files: _Path | Iterable[_Path],
    client: Client | None,
    options: _Options,
    begin: str,
    end: str,
    shards: int | None,
    portion_bytes: int,
    scratch: _Path | None,
    progress: Progress,
    retries: int,
) -> Iterator[_Divided]:
    names = [os.fspath(files)] if isinstance(files, (str, os.PathLike)) else [os.fspath(name) for name in files]
    if not names:
        raise UsageError("analyze: expected at least one file")
    if shards is not None and not 1 <= shards <= 65536:
        raise UsageError(f"analyze: shards={shards}: expected 1 to 65536")
    if portion_bytes < 1:
        raise UsageError(f"analyze: portion_bytes={portion_bytes}: expected a number above 0")
    options.core()  # reports invalid options before tasks start
    _core.check_boundaries(begin, end)
    with contextlib.ExitStack() as stack:
        run = _Run(client or _current_client(), progress, retries)
        stack.callback(run.cancel)
        surveys, read_errors = _order(run.gather("survey", [run.submit(_survey, name) for name in names]))
        if not surveys:
            raise CaptureError(read_errors[0])
        data = sum(survey[2] for survey in surveys)
        if shards is None:
            threads = sum(run.client.nthreads().values())
            shards = min(4096, max(2 * max(threads, 1), math.ceil(data / (256 << 20))))
        folder = _scratch(scratch, stack)
        portions = []
        before = 0
        for survey in surveys:
            name, packets = survey[0], survey[1]
            step = max(1, min(packets, portion_bytes * packets // max(survey[2], 1)))
            for first in range(1, packets + 1, step):
                portion = (name, first, min(packets, first + step - 1), before)
                portions.append(run.submit(_divide, portion, shards, begin, end, surveys[0][5], options, folder))
            before += packets
        run.wait("divide", portions)
        last = max(run.gather_of(portions, "last"), default=(0, 0))
        batches = [[run.submit(_item, portion, shard) for portion in portions] for shard in range(shards)]
        divided = _Divided(run, surveys, read_errors, batches, [[] for _ in batches], last, None)
        if options.filter:
            _filter_shards(divided, options, folder)
        if options.connection:
            found = run.gather("find", [run.submit(_find, *work, options) for work in divided.shards()])
            divided.ends = next((ends for ends in found if ends is not None), None)
            if divided.ends is None:
                raise CaptureError(
                    f"unknown connection {options.connection}; connections are identified by their first frame"
                )
        yield divided


def _filter_shards(divided: _Divided, options: _Options, folder: str | None) -> None:
    run, shards = divided.run, len(divided.batches)
    filtered = [
        run.submit(_filter_shard, batches, shard, shards, options, folder)
        for shard, batches in enumerate(divided.batches)
    ]
    run.wait("filter", filtered)
    divided.last = max(run.gather_of(filtered, "last"))
    # Most pairs of shards share no data.
    for theirs, receivers in zip(filtered, run.gather_of(filtered, "shards"), strict=True):
        for shard in receivers:
            divided.filtered[shard].append(run.submit(_item, theirs, shard))


class _Run:
    """The tasks of one analysis. Reports progress, and cancels the tasks at the end."""

    def __init__(self, client: Client, progress: Progress, retries: int) -> None:
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

        with bar_of(self._progress, stage, len(futures), "task") as show:
            for done, future in enumerate(as_completed(futures), 1):
                if future.status == "error":
                    future.result()  # raises the exception of the task
                show(done, "", stage, done, len(futures))

    def gather(self, stage: str, futures: Sequence[Future]) -> list[Any]:
        self.wait(stage, futures)
        results = self.client.gather(list(futures))
        return list(results)

    def gather_of(self, futures: Sequence[Future], member: str) -> list[Any]:
        """Return an attribute of each _Batches object."""
        results = self.client.gather([self.submit(getattr, one, member) for one in futures])
        return list(results)

    def cancel(self) -> None:
        with contextlib.suppress(Exception):  # the cluster may have failed
            self.client.cancel(self._futures)
        self._futures.clear()


def _report(read_errors: Sequence[str], partial: bool) -> None:
    """Raise CaptureError for read errors, or warn."""
    if read_errors and not partial:
        raise CaptureError("\n".join(read_errors))
    for error in read_errors:
        warnings.warn(error, stacklevel=3)


def _current_client() -> Client:
    distributed = optional("clusters", "distributed", "distributed")
    try:
        client: Client = distributed.get_client()
        return client
    except ValueError as error:
        raise UsageError("analyze: there is no current client; pass a dask.distributed.Client") from error


def _pyarrow() -> Any:
    return optional("tables", "parquet", "pyarrow", "pyarrow.compute", "pyarrow.parquet")


def _kinds(kinds: str | Sequence[str]) -> list[str]:
    wanted = [kinds] if isinstance(kinds, str) else list(kinds)
    for kind in wanted:
        if kind not in _ORDER:
            raise UsageError(f"unknown table {kind}; expected {', '.join(KINDS)}")
    if not wanted:
        raise UsageError(f"kinds is empty; expected {', '.join(KINDS)}")
    return wanted


def _in_order(table: Any, kind: str) -> Any:
    """Sort the rows by frame. The sort is stable, and rows of one frame are from one shard, which has them in order."""
    import pyarrow.compute

    keys = [(name, "ascending") for name in _ORDER[kind]]
    return table.take(pyarrow.compute.sort_indices(table, keys)).combine_chunks()


def _order(surveyed: Sequence[_Survey | str]) -> tuple[list[_Survey], list[str]]:
    """Return the surveys in the order of the first packets, and the read errors."""
    surveys = [survey for survey in surveyed if not isinstance(survey, str)]
    read_errors = [survey for survey in surveyed if isinstance(survey, str)]
    surveys.sort(key=lambda survey: survey[5])
    read_errors += [survey[4] for survey in surveys if survey[4]]
    return surveys, read_errors


def _scratch(scratch: _Path | None, stack: contextlib.ExitStack) -> str | None:
    if scratch is None:
        return None
    folder = tempfile.mkdtemp(prefix="rdmawire-", dir=os.fspath(scratch))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


# Functions that run on the workers.


def _survey(name: str) -> _Survey | str:
    try:
        return _core.survey(name)
    except CaptureError as error:
        return str(error)


def _divide(
    portion: tuple[str, int, int, int],
    shards: int,
    begin: str,
    end: str,
    origin: int,
    options: _Options,
    folder: str | None,
) -> _Batches:
    batches, last = _core.divide(*portion, shards, begin, end, origin, options.roce_port, bool(options.filter))
    return _Batches(batches, last, folder)


class _Batches:
    """The nonempty batches of each shard (bytes, or paths of files), and the last packet with a BTH."""

    def __init__(self, batches: list[bytes], last: _Moment, folder: str | None) -> None:
        self.last = last
        self._batches: dict[int, bytes | str] = {shard: batch for shard, batch in enumerate(batches) if batch}
        if folder is not None:
            # Unique names, since a task may run twice at the same time.
            for shard, batch in self._batches.items():
                path = Path(folder) / f"{uuid.uuid4().hex}.batch"
                path.write_bytes(batch)  # type: ignore[arg-type]
                self._batches[shard] = str(path)

    @property
    def shards(self) -> list[int]:
        """Shards with data."""
        return list(self._batches)

    def of(self, shard: int) -> bytes | str:
        return self._batches.get(shard, b"")

    def __sizeof__(self) -> int:
        """Return the approximate size, which Dask uses for scheduling."""
        return object.__sizeof__(self) + sum(len(batch) for batch in self._batches.values())


def _item(batches: _Batches, shard: int) -> bytes | str:
    return batches.of(shard)


@contextlib.contextmanager
def _opened(batch: bytes | str) -> Iterator[bytes | mmap.mmap]:
    if isinstance(batch, str):
        with open(batch, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data
    else:
        yield batch


def _filter_shard(
    batches: Sequence[bytes | str], shard: int, shards: int, options: _Options, folder: str | None
) -> _Batches:
    shard_filter = _core.ShardFilter(options.core(), shard, shards)
    for batch in batches:
        with _opened(batch) as data:
            shard_filter.add(data)
    theirs, last = shard_filter.finish()
    return _Batches(theirs, last, folder)


def _tracked(
    batches: _Bytes, filtered: _Bytes, last: _Moment, ends: _Ends | None, options: _Options, rows: str = ""
) -> tuple[_core.Tracker, _ShardResult]:
    tracker = _core.Tracker(options.core(), rows)
    if ends is not None:
        tracker.narrow_to(ends)
    with contextlib.ExitStack() as stack:
        tracker.add_filtered([stack.enter_context(_opened(batch)) for batch in filtered])
        for batch in batches:
            with _opened(batch) as data:
                tracker.add(data)
        return tracker, tracker.finish(last)


def _track(batches: _Bytes, filtered: _Bytes, last: _Moment, ends: _Ends | None, options: _Options) -> _ShardResult:
    return _tracked(batches, filtered, last, ends, options)[1]


def _find(
    batches: _Bytes, filtered: _Bytes, last: _Moment, ends: _Ends | None, options: _Options
) -> _Ends | None:
    return _tracked(batches, filtered, last, ends, options)[0].wanted


def _rows_of_shard(
    batches: _Bytes, filtered: _Bytes, last: _Moment, ends: _Ends | None, options: _Options, kind: str
) -> Any:
    tracker = _tracked(batches, filtered, last, ends, options, kind)[0]
    return _in_order(_pyarrow().table(Table(tracker.table(kind))), kind)


def _rows(
    batches: _Bytes, filtered: _Bytes, last: _Moment, ends: _Ends | None, options: _Options, kind: str
) -> bytes:
    pyarrow = _pyarrow()
    table = _rows_of_shard(batches, filtered, last, ends, options, kind)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _write_rows(
    batches: _Bytes,
    filtered: _Bytes,
    last: _Moment,
    ends: _Ends | None,
    options: _Options,
    kind: str,
    path: str,
    compression: str,
) -> int:
    pyarrow = _pyarrow()
    table = _rows_of_shard(batches, filtered, last, ends, options, kind)
    # A task may run twice. Only complete files get the final name. Readers of folders skip names that start with a dot.
    unfinished = Path(path).with_name(f".{uuid.uuid4().hex}.parquet")
    try:
        pyarrow.parquet.write_table(table, unfinished, compression=compression)
        unfinished.replace(path)
    except OSError as error:
        raise CaptureError(f"cannot write {path}: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return int(table.num_rows)
