"""Reports of ``rdmawire analyze`` and ``rdmawire check`` as objects."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Union, overload

from rdmawire import _core
from rdmawire._core import UsageError
from rdmawire.captures import Capture
from rdmawire.json_report import JsonReport, Row
from rdmawire.outputs import refuse_inputs, write_text
from rdmawire.plots import Plots
from rdmawire.progress import Progress, bytes_bar
from rdmawire.sources import Source, files_of, native, on_disk
from rdmawire.tables import Table

__all__ = ["CheckReport", "Comparison", "Report", "Row", "analyze", "check", "compare", "explain"]

#: A capture: a path, a URL of fsspec, bytes, a file object, or an open Capture.
File = Union[Source, Capture]
"""A function of the packets so far, processed and total bytes of the file (0: unknown), and the file name."""


class Report(JsonReport):
    """The result of :func:`analyze`.

    The keys of ``rdmawire analyze --json`` (docs/reference/analyze-report.md) are attributes: ``report.summary``,
    ``report.findings``, ``report.flows``, ``report.latency``, … ``report.messages``, ``report.events``,
    ``report.connections`` and ``report.packets`` are complete tables. ``print(report)`` prints the output of the
    command. A notebook shows the findings.
    """

    def __init__(
        self, text: str, read_errors: Sequence[str] = (), run: _core.AnalysisRun | None = None, title: str = ""
    ) -> None:
        super().__init__(text, read_errors)
        self._run = run
        self._title = title or "capture"
        self._inputs: list[str] = []
        self._held: object = None  # temporary copies of captures that are not files

    @classmethod
    def from_json(cls, text: str, read_errors: Sequence[str] = ()) -> Report:
        """Return a report of the output of ``--json``. It has no tables, since they require the packets."""
        return cls(text, read_errors, title=_title([file["name"] for file in json.loads(text)["input"]["files"]]))

    def __reduce__(self) -> tuple[Any, ...]:
        return Report, (self._text, self.read_errors, None, self._title)

    @property
    def summary(self) -> Row:
        """Summary of the capture."""
        return Row(self._dict["summary"])

    @property
    def findings(self) -> list[Row]:
        """Findings, most severe first: ``severity``, ``kind``, ``title``, ``frames``, ``meaning``, ``next``, …"""
        return [Row(finding) for finding in self._dict["findings"]]

    @property
    def messages(self) -> Table:
        """All messages, with the columns of ``messages.csv``. The files are read when the rows are read."""
        return self._table("messages")

    @property
    def events(self) -> Table:
        """All events, with the columns of ``events.csv``. ``report["events"]`` has the first events of each kind."""
        return self._table("events")

    @property
    def connections(self) -> Table:
        """All connections, with the columns of ``connections.csv``. ``report["connections"]`` has them as in JSON."""
        return self._table("connections")

    @property
    def packets(self) -> Table:
        """All packets of connections, with the columns of ``packets.csv``."""
        return self._table("packets")

    @property
    def mrc_connections(self) -> list[Row]:
        """MRC connections: the WRITEs to a QP. Most bytes first: ``from``, ``to_qp``, ``packets``, ``nacks``, …"""
        return [Row(connection) for connection in self._dict["mrc"]["connections"]]

    @property
    def mrc_paths(self) -> list[Row]:
        """Paths of the MRC connections: ``connection``, ``flow_label``, ``source_port``, ``state``, ``packets``, …"""
        return [Row(path) for path in self._dict["mrc"]["paths"]]

    @property
    def plot(self) -> Plots:
        """Plots with matplotlib: ``report.plot.throughput()``, ``psn()``, ``latency()``, ``percentiles()``."""
        return Plots(self, lambda: self.packets)

    def text(self, *, width: int = 100, colors: bool = False, rows: int = 10, tables: bool = True) -> str:
        """Return the output of ``rdmawire analyze``: summary, findings, and tables of up to `rows` rows."""
        return _core.analysis_text(self._text, width, colors, rows, tables)

    @overload
    def to_html(self, path: None = None, *, title: str | None = None) -> str: ...
    @overload
    def to_html(self, path: str | os.PathLike[str], *, title: str | None = None) -> Path: ...
    def to_html(self, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> str | Path:
        """Write the page of ``rdmawire analyze --html`` to `path`, and return the path. Without `path`, return the page.

        The page is one HTML file with plots, sequence diagrams and tables. Reads the files a second time. The page of a
        report of :meth:`from_json` has no sequence diagrams and PSN plots. Raises UsageError if `path` is one of the
        captures.
        """
        if path is not None:
            refuse_inputs(path, self._inputs)
        name = self._title if title is None else title
        page = _core.analysis_page(self._text, name) if self._run is None else self._run.html(name)
        return page if path is None else _written(path, page, self._inputs)

    def to_csv(self, directory: str | os.PathLike[str], *, packets: bool = False) -> None:
        """Write connections, flows, messages and events as CSV files, as ``rdmawire analyze --csv`` does.

        `packets` adds packets.csv. Reads the files a second time.
        """
        if self._run is None:
            raise UsageError("to_csv() requires the packets, which this report does not have; analyze the files")
        for table in ("connections", "flows", "messages", "events", "mrc_connections", "mrc_paths", "packets"):
            refuse_inputs(Path(directory) / f"{table}.csv", self._inputs)
        self._run.csv(native(directory), packets)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        summary = self.summary
        return (
            f"<rdmawire.Report {self._title}: {summary.packets} packets, {summary.connections} connections, "
            f"{len(self.findings)} findings>"
        )

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the summary and the findings."""
        summary = self.summary
        head = (
            f"{summary.packets} packets, {summary.connections} connections, {summary.messages} messages, "
            f"{summary.retransmitted_packets} packets retransmitted, {summary.crcs_bad} bad CRCs"
        )
        rows = [(f.severity, f.flow, f.title, f.cause, f.first_frame, f.next) for f in self.findings]
        columns = ("severity", "flow", "finding", "cause", "frame", "next")
        return _html(self._title, head, columns, rows, self.read_errors)

    def _table(self, kind: str) -> Table:
        if self._run is None:
            raise UsageError(f"{kind} requires the packets, which this report does not have; analyze the files")
        return Table(self._run.table(kind), inputs=self._inputs, held=self._held)


class CheckReport(JsonReport):
    """The result of :func:`check`.

    The keys of ``rdmawire check --json`` (docs/reference/check-report.md) are attributes. ``print(report)`` prints the
    output of the command. A notebook shows the violations.
    """

    def __init__(self, text: str, read_errors: Sequence[str] = (), violated: bool = False, title: str = "") -> None:
        super().__init__(text, read_errors)
        self._violated = violated
        self._title = title or "capture"
        self._inputs: list[str] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return CheckReport, (self._text, self.read_errors, self._violated, self._title)

    @property
    def passed(self) -> bool:
        """Whether no mandatory rule is violated. This is not a certification."""
        return not self._violated

    @property
    def summary(self) -> Row:
        """Numbers of evaluations."""
        return Row(self._dict["summary"])

    @property
    def violations(self) -> list[Row]:
        """The violations: ``rule``, ``clause``, ``sentence``, ``frame``, ``expected``, ``actual``, ``sequence``, …"""
        return [Row(violation) for violation in self._dict["violations"]]

    @property
    def rules(self) -> list[Row]:
        """The rules with the counters ``passed``, ``violated`` and ``inconclusive``, and the reasons."""
        return [Row(rule) for rule in self._dict["rules"]]

    def text(
        self, *, width: int = 100, colors: bool = False, coverage: bool = False, quiet: bool = False, rows: int = 50
    ) -> str:
        """Return the output of ``rdmawire check``.

        `coverage` adds the evaluations of each rule. `quiet` prints one line per violation.
        """
        return _core.check_text(self._text, width, colors, coverage, quiet, rows)

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | os.PathLike[str]) -> Path: ...
    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """Write an HTML page with the violations to `path`, and return the path. Without `path`, return the page."""
        page = (
            f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{_escape(self._title)}</title>'
            f"<body>{self._repr_html_()}</body></html>\n"
        )
        return page if path is None else _written(path, page, self._inputs)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<rdmawire.CheckReport {self._title}: {len(self.violations)} violations>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: numbers of evaluations, and the violations."""
        evaluations = self.summary.evaluations
        head = (
            f"evaluations: {evaluations.passed} passed, {evaluations.violated} violated, "
            f"{evaluations.inconclusive} inconclusive"
        )
        rows = [
            (v.level, v.alias or v.rule, v["from"].address, v.frame, v.expected, v.actual, v.clause)
            for v in self.violations
        ]
        columns = ("level", "rule", "from", "frame", "expected", "actual", "clause")
        return _html(self._title, head, columns, rows, self.read_errors)


class Comparison(JsonReport):
    """The result of :func:`compare`: packets lost, ECN-marked, modified or delayed on each hop.

    The keys below ``capture_points`` of ``rdmawire analyze --capture-points --json`` (docs/reference/analyze-report.md) are
    attributes: ``comparison.points``, ``comparison.hops``, ``comparison.findings``, … ``print(comparison)`` prints the
    output of the command.
    """

    def __init__(self, text: str, read_errors: Sequence[str] = (), title: str = "") -> None:
        super().__init__(text, read_errors)
        self._title = title or "captures"

    @property
    def _dict(self) -> dict[str, Any]:
        values: dict[str, Any] = super()._dict["capture_points"]
        return values

    def __reduce__(self) -> tuple[Any, ...]:
        return Comparison, (self._text, self.read_errors, self._title)

    @property
    def findings(self) -> list[Row]:
        """Findings of all hops, most severe first."""
        return [Row(finding) for finding in self._dict["findings"]]

    def text(self, *, width: int = 100, colors: bool = False, rows: int = 10) -> str:
        """Return the output of ``rdmawire analyze --capture-points``."""
        return _core.compare_text(self._text, width, colors, rows)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<rdmawire.Comparison of {self._title}: {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the findings."""
        rows = [(f.severity, f.title, f.meaning, f.next) for f in self.findings]
        head = f"{len(self._dict['points'])} capture points"
        return _html(self._title, head, ("severity", "finding", "meaning", "next"), rows, self.read_errors)


def analyze(
    files: File | Iterable[File],
    *,
    filter: str = "",
    begin: str = "",
    end: str = "",
    connection: int = 0,
    threads: int = 0,
    counters: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    ignore: Sequence[str] = (),
    roce_port: int = 0,
    verify_crcs: bool = True,
    memory: int | str = "1G",
    disable_protocol: str | Sequence[str] = (),
    progress: Progress = None,
) -> Report:
    """Analyze captures: report affected connections, the causes, and the first frame of each problem.

    A capture is a path, bytes, a file object, a URL of fsspec, or an open Capture. Captures that are not files are
    written to a temporary directory. Multiple files are merged in the order of their first packets. The options are
    those of ``rdmawire analyze``:

    - `filter`: analyze only packets that match (docs/reference/filters.md).
    - `begin`, `end` (``--from``, ``--to``): seconds since the first packet, a date, or ``frame:N``.
    - `connection`: analyze only the connection that starts at this frame number.
    - `threads`: maximum number of threads. 0: one per core.
    - `counters`: files with host counters: after the capture, or before and after.
    - `ignore`: do not use ``cm``, ``text`` or ``source-port`` to pair the directions of connections.
    - `roce_port`: decode this UDP port as RoCEv2, in addition to 4791.
    - `memory`: limit of the analysis in bytes, or as text such as ``"512M"``. When it is reached, connections are
      evicted, and ``report["input"]["exact"]`` is False.
    - `disable_protocol`: do not decode these protocols: ``mrc``, whose opcodes other manufacturers can use.

    `progress` is a function that is called regularly with the packets, the processed and total bytes, and the file
    name. True shows a progress bar, False none. Default: a bar on a terminal and in a notebook, if tqdm is installed.
    Exceptions of the function and Ctrl-C end the analysis. The interpreter's lock is released during the analysis.

    Raises CaptureError if no file could be read. ``report.read_errors`` lists the other files with errors.
    """
    names, held = on_disk(files)
    paths = [counters] if isinstance(counters, (str, os.PathLike)) else counters
    run = _core.AnalysisRun(
        names,
        filter,
        begin,
        end,
        connection,
        threads,
        [native(path) for path in paths],
        list(ignore),
        roce_port,
        verify_crcs,
        str(memory),
        _texts(disable_protocol),
    )
    with bytes_bar(progress, "analyze") as show:
        text = run.work(show)
    report = Report(text, run.read_errors, run, _title(names))
    report._inputs = [os.path.abspath(os.fsdecode(name)) for name in names]
    report._held = held
    return report


def check(
    files: File | Iterable[File],
    *,
    rules: str | Sequence[str] = (),
    level: str = "",
    filter: str = "",
    connection: int = 0,
    at: str | Sequence[str] = (),
    complete: bool = False,
    threads: int = 0,
    roce_port: int = 0,
    memory: int | str = "1G",
    disable_protocol: str | Sequence[str] = (),
    progress: Progress = None,
) -> CheckReport:
    """Check captured traffic against the RDMA specifications, clause by clause. Captures are those of :func:`analyze`.

    The options are those of ``rdmawire check``:

    - `rules`: ids or aliases with ``*`` and ``?``. A leading ``!`` excludes rules.
    - `level`: minimum level of rules: ``shall``, ``should`` or ``may``.
    - `at`: assume that the capture was taken at the ports of these addresses and lost no packets.
    - `complete`: assume that all lost and reordered packets are visible in the capture.

    `filter`, `connection`, `threads`, `roce_port`, `memory`, `disable_protocol` and `progress` are those of
    :func:`analyze`.

    Raises CaptureError if no file could be read. ``report.read_errors`` lists the other files with errors.
    """
    with files_of(files) as names, bytes_bar(progress, "check") as show:
        text, read_errors, violated = _core.check(
            names,
            _texts(rules),
            level,
            filter,
            connection,
            _texts(at),
            complete,
            threads,
            roce_port,
            str(memory),
            show,
            _texts(disable_protocol),
        )
    report = CheckReport(text, read_errors, violated, _title(names))
    report._inputs = [os.path.abspath(os.fsdecode(name)) for name in names]
    return report


def compare(
    files: Iterable[File],
    *,
    order: Sequence[str] = (),
    synchronized: bool = False,
    window: float = 0,
    filter: str = "",
    threads: int = 0,
    roce_port: int = 0,
    verify_crcs: bool = True,
    progress: Progress = None,
) -> Comparison:
    """Compare captures of the same traffic at several capture points, as ``rdmawire analyze --capture-points`` does.

    Each file is a capture point. The options are:

    - `order`: the files in path order, identified by the ends of their names. Default: inferred from the packets.
    - `synchronized`: assume that the clocks of the capture points are synchronized.
    - `window`: maximum seconds between two sightings of a packet. 0: the default.

    The other options are those of :func:`analyze`. Reads the files twice.

    Raises CaptureError if fewer than two files could be read, UsageError if the files cannot be compared.
    """
    with files_of(list(files)) as names, bytes_bar(progress, "compare") as show:
        text, read_errors = _core.compare_captures(
            names, _texts(order), synchronized, window, filter, threads, roce_port, verify_crcs, show
        )
    return Comparison(text, read_errors, _title(names))


def explain(what: object, *, colors: bool = False) -> str:
    """Return the output of ``rdmawire explain`` for a header, field, opcode, syndrome, code, event or rule.

    ``explain("bth.psn")``, ``explain("syndrome 0x60")``, ``explain("RSP-009")``. Raises UsageError with similar names
    for unknown names.
    """
    return _core.explain(str(what), False, colors)


def _texts(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _written(path: str | os.PathLike[str], page: str, inputs: Sequence[str]) -> Path:
    write_text(path, page, inputs)
    return Path(path)


def _title(names: Sequence[str]) -> str:
    if not names:
        return "capture"
    first = Path(os.fsdecode(names[0])).name.encode(errors="backslashreplace").decode()
    return first + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _escape(text: str) -> str:
    import html

    return html.escape(text)


_COLORS = {"error": "#c0392b", "shall": "#c0392b", "warning": "#b9770e", "should": "#b9770e"}


def _html(
    title: str, head: str, columns: Sequence[str], rows: Sequence[Sequence[object]], read_errors: Sequence[str]
) -> str:
    def cell(value: object) -> str:
        text = "" if value is None else str(value)
        color = _COLORS.get(text)
        style = f' style="color:{color};font-weight:bold"' if color else ""
        return f"<td{style}>{_escape(text)}</td>"

    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    names = "".join(f"<th>{_escape(name)}</th>" for name in columns)
    table = f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>" if rows else "<p>No findings.</p>"
    errors = "".join(f"<p>{_escape(error)}</p>" for error in read_errors)
    return f"<div><b>{_escape(title)}</b>: {_escape(head)}{errors}{table}</div>"
