"""Reports: what ``rdmawire analyze`` and ``rdmawire check`` say of captures, as objects."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from rdmawire import _core
from rdmawire._core import UsageError
from rdmawire.captures import Capture
from rdmawire.tables import Table

if TYPE_CHECKING:
    from rdmawire.plots import Plots

__all__ = ["CheckReport", "Comparison", "Report", "Row", "analyze", "check", "compare", "explain"]

File = Union[str, "os.PathLike[str]", Capture]
Progress = Callable[[int, int, int, str], object]
"""Takes packets so far, bytes of the file done and in all (0: not known), and its name."""


class Row(Mapping[str, Any]):
    """One of a report's objects: a mapping with the keys of the JSON, which are attributes too.

    ``finding["title"]`` and ``finding.title`` are the same; ``docs/reference/analyze-report.md`` and ``docs/reference/check-report.md`` name the keys.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> Any:
        return _seen(self._values[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return _seen(self._values[name])
        except KeyError:
            raise AttributeError(f"there is no {name}; there are {', '.join(self._values)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return f"Row({self._values!r})"

    def __reduce__(self) -> tuple[type[Row], tuple[dict[str, Any]]]:
        return Row, (self._values,)

    def to_dict(self) -> dict[str, Any]:
        """The values as JSON has them."""
        return self._values


def _seen(value: Any) -> Any:
    """Objects of JSON as rows, whether alone or in a list."""
    if isinstance(value, dict):
        return Row(value)
    if isinstance(value, list):
        return [_seen(one) for one in value]
    return value


class _JsonReport:
    """What both reports have in common: they are made from the command's JSON."""

    def __init__(self, text: str, troubles: Sequence[str]) -> None:
        self._text = text
        self._values: dict[str, Any] | None = None
        self.troubles: list[str] = list(troubles)
        """Files that could not be read, or not to their end: one sentence each. The report is of what could be read."""

    @property
    def _dict(self) -> dict[str, Any]:
        if self._values is None:
            self._values = json.loads(self._text)
        return self._values

    def to_dict(self) -> dict[str, Any]:
        """What the command prints with ``--json``, as a dict."""
        return json.loads(self._text)  # type: ignore[no-any-return]

    def to_json(self) -> str:
        """The same as text."""
        return self._text

    def __getitem__(self, key: str) -> Any:
        return _seen(self._dict[key])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        values = self._dict
        if name not in values:
            raise AttributeError(f"the report has no {name}; it has {', '.join(values)}")
        return _seen(values[name])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._dict]



class Report(_JsonReport):
    """What :func:`analyze` found.

    The keys of ``rdmawire analyze --json`` (docs/reference/analyze-report.md) are attributes: ``report.summary``, ``report.findings``,
    ``report.flows``, ``report.latency``, … ``report.messages``, ``report.events``, ``report.connections`` and
    ``report.packets`` are tables of all of them. ``print(report)`` prints what the command prints, and a notebook shows
    the findings.
    """

    def __init__(
        self, text: str, troubles: Sequence[str] = (), run: _core.AnalysisRun | None = None, title: str = ""
    ) -> None:
        super().__init__(text, troubles)
        self._run = run
        self._title = title or "capture"

    @classmethod
    def from_json(cls, text: str, troubles: Sequence[str] = ()) -> Report:
        """A report from what ``--json`` printed. It has no tables, as it does not know where the packets are."""
        return cls(text, troubles, title=_title([file["name"] for file in json.loads(text)["input"]["files"]]))

    def __reduce__(self) -> tuple[Any, ...]:
        return Report, (self._text, self.troubles, None, self._title)

    @property
    def summary(self) -> Row:
        """The capture in numbers."""
        return Row(self._dict["summary"])

    @property
    def findings(self) -> list[Row]:
        """What is wrong, worst first: ``severity``, ``kind``, ``who``, ``title``, ``frames``, ``meaning``, ``next``, …"""
        return [Row(finding) for finding in self._dict["findings"]]

    @property
    def messages(self) -> Table:
        """Every message, with the columns of ``messages.csv`` (docs/reference/analyze-report.md). The files are read anew."""
        return self._table("messages")

    @property
    def events(self) -> Table:
        """Every event, with the columns of ``events.csv``; ``report["events"]`` has the first ones of each kind."""
        return self._table("events")

    @property
    def connections(self) -> Table:
        """Every connection, with the columns of ``connections.csv``; ``report["connections"]`` has them as JSON does."""
        return self._table("connections")

    @property
    def packets(self) -> Table:
        """Every packet of a connection and what it is to it, with the columns of ``packets.csv``."""
        return self._table("packets")

    @property
    def plot(self) -> Plots:
        """Plots by matplotlib: ``report.plot.throughput()``, ``psn()``, ``latency()``, ``percentiles()``."""
        from rdmawire.plots import Plots

        return Plots(self)

    def text(self, *, width: int = 100, colors: bool = False, rows: int = 10, tables: bool = True) -> str:
        """What ``rdmawire analyze`` prints: summary, findings, and tables of so many rows at most."""
        return _core.analysis_text(self._text, width, colors, rows, tables)

    def to_html(self, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> str:
        """The page of ``rdmawire analyze --html``: one file with plots, ladders and tables that needs nothing else.

        Written to `path` where one is given. The files are read once more; a report from elsewhere
        (:meth:`from_json`) gives the page without ladders and PSNs.
        """
        name = self._title if title is None else title
        page = _core.analysis_page(self._text, name) if self._run is None else self._run.html(name)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def to_csv(self, directory: str | os.PathLike[str], *, packets: bool = False) -> None:
        """Writes connections, flows, messages and events as CSV into a directory, as ``rdmawire analyze --csv`` does.

        With `packets`, packets.csv too. The files are read anew.
        """
        if self._run is None:
            raise UsageError("this report does not know where the packets are: analyze the files to have them as CSV")
        self._run.csv(os.fspath(directory), packets)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        summary = self.summary
        return (
            f"<rdmawire.Report {self._title}: {summary.packets} packets, {summary.connections} connections, "
            f"{len(self.findings)} findings>"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: a line about the capture, and the findings."""
        summary = self.summary
        head = (
            f"{summary.packets} packets, {summary.connections} connections, {summary.messages} messages, "
            f"{summary.retransmitted_packets} packets retransmitted, {summary.crcs_bad} bad CRCs"
        )
        rows = [(f.severity, f.flow, f.title, f.cause, f.first_frame, f.next) for f in self.findings]
        return _html(self._title, head, ("severity", "flow", "finding", "cause", "frame", "next"), rows, self.troubles)

    def _table(self, kind: str) -> Table:
        if self._run is None:
            raise UsageError(f"this report does not know where the packets are: analyze the files to have {kind}")
        return Table(self._run.table(kind))


class CheckReport(_JsonReport):
    """What :func:`check` found.

    The keys of ``rdmawire check --json`` (docs/reference/check-report.md) are attributes. ``print(report)`` prints what the command
    prints, and a notebook shows the violations.
    """

    def __init__(self, text: str, troubles: Sequence[str] = (), violated: bool = False, title: str = "") -> None:
        super().__init__(text, troubles)
        self._violated = violated
        self._title = title or "capture"

    def __reduce__(self) -> tuple[Any, ...]:
        return CheckReport, (self._text, self.troubles, self._violated, self._title)

    @property
    def passed(self) -> bool:
        """Nothing that a device shall do was seen not to be done. It is no certification."""
        return not self._violated

    @property
    def summary(self) -> Row:
        """The evaluations in numbers."""
        return Row(self._dict["summary"])

    @property
    def violations(self) -> list[Row]:
        """The violations: ``rule``, ``clause``, ``sentence``, ``frame``, ``expected``, ``actual``, ``sequence``, …"""
        return [Row(violation) for violation in self._dict["violations"]]

    @property
    def rules(self) -> list[Row]:
        """The rules with their counters ``passed``, ``violated`` and ``inconclusive``, and the reasons."""
        return [Row(rule) for rule in self._dict["rules"]]

    def text(
        self, *, width: int = 100, colors: bool = False, coverage: bool = False, quiet: bool = False, rows: int = 50
    ) -> str:
        """What ``rdmawire check`` prints. `coverage`: how often each rule was judged, too; `quiet`: a line each."""
        return _core.check_text(self._text, width, colors, coverage, quiet, rows)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One page with the violations; written to `path` where one is given."""
        page = (
            f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{html.escape(self._title)}</title>'
            f"<body>{self._repr_html_()}</body></html>\n"
        )
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<rdmawire.CheckReport {self._title}: {len(self.violations)} violations>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the evaluations in numbers, and the violations."""
        evaluations = self.summary.evaluations
        head = f"evaluations: {evaluations.passed} passed, {evaluations.violated} violated, {evaluations.inconclusive} inconclusive"
        rows = [
            (v.level, v.alias or v.rule, v["from"].address, v.frame, v.expected, v.actual, v.clause)
            for v in self.violations
        ]
        columns = ("level", "rule", "from", "frame", "expected", "actual", "clause")
        return _html(self._title, head, columns, rows, self.troubles)


class Comparison(_JsonReport):
    """What :func:`compare` found: which packets were lost, marked, changed or delayed on which hop.

    The keys below ``capture_points`` of ``rdmawire analyze --capture-points --json`` (docs/reference/analyze-report.md) are attributes:
    ``comparison.points``, ``comparison.hops``, ``comparison.findings``, … ``print(comparison)`` prints what the command
    prints.
    """

    def __init__(self, text: str, troubles: Sequence[str] = (), title: str = "") -> None:
        super().__init__(text, troubles)
        self._title = title or "captures"

    @property
    def _dict(self) -> dict[str, Any]:
        values: dict[str, Any] = super()._dict["capture_points"]
        return values

    def __reduce__(self) -> tuple[Any, ...]:
        return Comparison, (self._text, self.troubles, self._title)

    @property
    def findings(self) -> list[Row]:
        """What is wrong on which hop, worst first."""
        return [Row(finding) for finding in self._dict["findings"]]

    def text(self, *, width: int = 100, colors: bool = False, rows: int = 10) -> str:
        """What ``rdmawire analyze --capture-points`` prints."""
        return _core.compare_text(self._text, width, colors, rows)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<rdmawire.Comparison of {self._title}: {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the findings."""
        rows = [(f.severity, f.title, f.meaning, f.next) for f in self.findings]
        head = f"{len(self._dict['points'])} capture points"
        return _html(self._title, head, ("severity", "what", "meaning", "next"), rows, self.troubles)


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
    progress: Progress | None = None,
) -> Report:
    """Reports what captures show: which connection suffers, why, and since which frame.

    Several files are read as one capture, in the order of their first packets. The options are those of ``rdmawire
    analyze``: `filter` takes only packets that match (docs/reference/filters.md); `begin` and `end` (``--from``, ``--to``) are
    seconds since the first packet, a date, or ``frame:N``; `connection` takes only the one that begins with this frame;
    `threads` is how many at most (0: one a core); `counters` are files with host counters, after or before and after;
    `ignore` names evidence for joining not to be used (``cm``, ``text``, ``source-port``); `roce_port` is a further UDP
    port that carries RoCEv2.

    `progress` is called now and then with packets, bytes done, bytes in all and the file's name; what it raises ends
    the work and is raised, as is Ctrl-C. The interpreter's lock is free meanwhile.

    Raises CaptureError when no file could be read; ``report.troubles`` names those that could not, of several.
    """
    names = _files(files)
    paths = [counters] if isinstance(counters, (str, os.PathLike)) else counters
    run = _core.AnalysisRun(
        names,
        filter,
        begin,
        end,
        connection,
        threads,
        [os.fspath(path) for path in paths],
        list(ignore),
        roce_port,
        verify_crcs,
    )
    text = run.work(progress)
    return Report(text, run.troubles, run, _title(names))


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
    progress: Progress | None = None,
) -> CheckReport:
    """Holds what devices said on the wire against the rules of the specification, clause by clause.

    The options are those of ``rdmawire check``: `rules` are ids or aliases with ``*`` and ``?``, with ``!`` before it not
    these; `level` takes rules that ask at least so strongly (``shall``, ``should``, ``may``); `at` names addresses at
    whose port the capture was taken without a loss; `complete` says that nothing is lost or changes its order anywhere
    but before the capture's eyes. `filter`, `connection`, `threads`, `roce_port` and `progress` are as for
    :func:`analyze`.

    Raises CaptureError when no file could be read; ``report.troubles`` names those that could not, of several.
    """
    names = _files(files)
    text, troubles, violated = _core.check(
        names, _texts(rules), level, filter, connection, _texts(at), complete, threads, roce_port, progress
    )
    return CheckReport(text, troubles, violated, _title(names))


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
    progress: Progress | None = None,
) -> Comparison:
    """Compares captures of the same traffic that were taken at several places, one file a place: ``analyze --capture-points``.

    Each packet is followed through them, and what became of it on each hop is told. `order` names the files along the
    way (by the ends of their names), where it is not to be found out; `synchronized` says that their clocks agree;
    `window` is how many seconds a packet may take between two places (0: the usual). The others are as for
    :func:`analyze`. The files are read twice.

    Raises CaptureError when fewer than two files could be read; UsageError for files that cannot be compared.
    """
    names = _files(files)
    text, troubles = _core.compare_captures(
        names, _texts(order), synchronized, window, filter, threads, roce_port, verify_crcs, progress
    )
    return Comparison(text, troubles, _title(names))


def explain(what: object, *, colors: bool = False) -> str:
    """What a header, field, opcode, syndrome, code, event or rule means: as ``rdmawire explain`` prints it.

    ``explain("bth.psn")``, ``explain("syndrome 0x60")``, ``explain("RSP-009")``. Raises UsageError, with the nearest
    names, where nothing is called so.
    """
    return _core.explain(str(what), False, colors)


def _texts(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _files(files: File | Iterable[File]) -> list[str]:
    some: Iterable[File] = [files] if isinstance(files, (str, os.PathLike, Capture)) else files
    return [file._path() if isinstance(file, Capture) else os.fspath(file) for file in some]


def _title(names: Sequence[str]) -> str:
    if not names:
        return "capture"
    return Path(names[0]).name + (f" and {len(names) - 1} more" if len(names) > 1 else "")


_COLORS = {"error": "#c0392b", "shall": "#c0392b", "warning": "#b9770e", "should": "#b9770e"}


def _html(
    title: str, head: str, columns: Sequence[str], rows: Sequence[Sequence[object]], troubles: Sequence[str]
) -> str:
    def cell(value: object) -> str:
        text = "" if value is None else str(value)
        color = _COLORS.get(text)
        style = f' style="color:{color};font-weight:bold"' if color else ""
        return f"<td{style}>{html.escape(text)}</td>"

    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    names = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    table = f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>" if rows else "<p>Nothing found.</p>"
    said = "".join(f"<p>{html.escape(trouble)}</p>" for trouble in troubles)
    return f"<div><b>{html.escape(title)}</b>: {html.escape(head)}{said}{table}</div>"
