"""Conformance tests: list and run the cases of docs/how-to/test-a-nic.md, and add cases.

>>> from rdmawire import conformance
>>> conformance.certify(only="rc.responder.psn.sequence-error", seed=1).counts
{'pass': 1}

A case is a function of a :class:`Bench`. It uses the same functions as the C++ cases:

>>> from rdmawire.conformance import nak, psn, sequence_error, silence
>>> @conformance.case("rc.responder.psn.sequence-error", variant="three packets missing")
... def three_missing(bench):
...     qp = bench.rc(receives=4)
...     bench >> qp.send_only(psn(+3))
...     bench << nak(sequence_error, psn(+0)) << silence()
>>> conformance.certify(only=three_missing, seed=1).counts
{'pass': 1}

Results reflect our reading of the specification and are not a certification by IBTA, UNH-IOL or anyone else.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rdmawire import _core
from rdmawire._core import (
    Bench,
    CaseEnd,
    CaseQueuePair,
    Expectation,
    Seen,
    Stimulus,
    a_fetch_add,
    a_read,
    a_send,
    a_write,
    ack,
    acknowledged,
    atomic_acknowledge,
    cnp,
    expect,
    nak,
    pattern_bytes,
    read_response,
    rnr_nak,
    silence,
)
from rdmawire.devices import Device, agent_program
from rdmawire.names import did_you_mean
from rdmawire.needs import NEEDS, needs_mask
from rdmawire.progress import bar_of, shows_bar

if TYPE_CHECKING:
    from typing import Unpack

    from rdmawire.options import DeviceOptions, TargetOptions
    import ast

__all__ = [
    "NEEDS",
    "Bench",
    "Case",
    "CaseEnd",
    "CaseQueuePair",
    "CaseResult",
    "Expectation",
    "Finding",
    "Report",
    "Rule",
    "Seen",
    "Stimulus",
    "a_fetch_add",
    "a_read",
    "a_send",
    "a_write",
    "ack",
    "acknowledged",
    "atomic_acknowledge",
    "case",
    "cases",
    "certify",
    "cnp",
    "expect",
    "invalid_request",
    "nak",
    "nak_invalid_request",
    "nak_remote_access",
    "nak_remote_operational",
    "nak_sequence_error",
    "pattern_bytes",
    "preflight",
    "psn",
    "read_response",
    "remote_access_error",
    "remote_operational_error",
    "remove_case",
    "rnr_nak",
    "rules",
    "sequence_error",
    "silence",
    "temporary_cases",
]

_codes = _core._nak_codes()
sequence_error: int = _codes["psn_sequence_error"]  #: NAK code. IBTA vol 1, 9.7.5.2.2
invalid_request: int = _codes["invalid_request"]  #: NAK code
remote_access_error: int = _codes["remote_access_error"]  #: NAK code
remote_operational_error: int = _codes["remote_operational_error"]  #: NAK code


def psn(relative: int) -> int:
    """Return `relative`, to mark relative PSNs in cases: ``psn(+1)`` is the second request's PSN."""
    return relative


def nak_sequence_error(psn: int) -> Expectation:
    """Expect a NAK with code PSN sequence error."""
    return nak(sequence_error, psn)


def nak_invalid_request(psn: int) -> Expectation:
    """Expect a NAK with code invalid request."""
    return nak(invalid_request, psn)


def nak_remote_access(psn: int) -> Expectation:
    """Expect a NAK with code remote access error."""
    return nak(remote_access_error, psn)


def nak_remote_operational(psn: int) -> Expectation:
    """Expect a NAK with code remote operational error."""
    return nak(remote_operational_error, psn)


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule of the catalog (docs/reference/rules.md)."""

    id: str
    alias: str  #: "RSP-009", or empty
    level: str  #: "shall", "should" or "may"
    sentence: str
    clauses: str


@dataclasses.dataclass(frozen=True)
class Case:
    """A test case of a rule."""

    id: str  #: id of the rule, and after a slash the variant
    rule: str
    alias: str
    level: str
    sentence: str
    clauses: str
    variant: str
    role: str  #: role of the device: "responder", "requester", "verbs" or "wire"
    family: str  #: "roce" or "iwarp"
    run_policy: str  #: "none", "slow" or "dangerous"
    needs: tuple[str, ...]  #: required capabilities of the device, see NEEDS
    python: bool  #: whether case() added it


class CaseResult(Mapping[str, Any]):
    """Result of a case: a mapping with the keys of docs/reference/certify-report.md. Common keys are attributes."""

    def __init__(self, json: dict[str, Any]) -> None:
        self._json = json

    @property
    def id(self) -> str:
        """Id of the case."""
        return str(self._json["id"])

    @property
    def verdict(self) -> str:
        """"pass", "fail", "fail-wrong-code", "may", "unsupported", "inconclusive" or "error"."""
        return str(self._json["verdict"])

    @property
    def expected(self) -> str:
        """Requirement of the clause, or empty if the device meets it."""
        return str(self._json.get("expected", ""))

    @property
    def actual(self) -> str:
        """Actual behavior of the device, or the reason of the verdict."""
        return str(self._json.get("actual", ""))

    @property
    def seed(self) -> int:
        """Seed of the random numbers."""
        return int(self._json["seed"])

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Transcript: kind, time_ns, text, and frame as hexadecimal digits."""
        return list(self._json["steps"])

    def __getitem__(self, key: str) -> Any:
        return self._json[key]

    def __iter__(self) -> Any:
        return iter(self._json)

    def __len__(self) -> int:
        return len(self._json)

    def __repr__(self) -> str:
        return f"<CaseResult {self.id}: {self.verdict}>"


class Report:
    """Report of a run. ``json`` is the output of ``rdmawire certify --json`` as Python objects."""

    def __init__(self, core: _core._Ran) -> None:
        self._core = core
        self.json: dict[str, Any] = core.json()
        self.results = [CaseResult(one) for one in self.json["cases"]]

    @property
    def counts(self) -> dict[str, int]:
        """Number of cases by verdict."""
        return dict(collections.Counter(result.verdict for result in self.results))

    @property
    def ok(self) -> bool:
        """Whether all results are as expected. Without a known result, a deviation or an error is unexpected.

        After a run of all cases, rules that are known to be violated must not pass.
        """
        return not self._core.is_unexpected

    @property
    def unexpected(self) -> list[CaseResult]:
        """Unexpected results."""
        ids = set(self._core.unexpected)
        return [result for result in self.results if result.id in ids]

    def __getitem__(self, id: str | Callable[..., Any]) -> CaseResult:
        """Return the result of the case with this id or function."""
        wanted = id if isinstance(id, str) else _id_of(id)
        for result in self.results:
            if result.id == wanted:
                return result
        raise KeyError(wanted)

    def __iter__(self) -> Any:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def text(self, steps: bool = False) -> str:
        """Return the text report: cases that did not pass, or with ``steps`` all transcripts, and the summary."""
        shown = [one for one in self.results if steps or one.verdict != "pass"]
        return "".join(self._core.text(one.id, steps) for one in shown) + self._core.summary()

    def junit(self) -> str:
        """Return the report as JUnit XML."""
        return self._core.junit()

    def html(self) -> str:
        """Return the report as one HTML page."""
        return self._core.html()

    def _repr_html_(self) -> str:
        page = self.html().replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write report.json, junit.xml, index.html and one capture per case. Creates the directory."""
        self._core.write(os.fspath(directory))

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items())
        return f"<Report {self.json['device']}: {counts}>"


class Finding(NamedTuple):
    """One check of :func:`preflight`."""

    status: str
    """"pass", "warn" or "fail"."""
    what: str
    """"path MTU"."""
    found: str
    """"1024 bytes"."""
    advice: str
    """Recommended action, or empty if the check passes."""


def preflight(device: str | Device = "reference", **options: Unpack[DeviceOptions]) -> list[Finding]:
    """Check a device, the path to it and the tester without running cases, as ``rdmawire certify --preflight`` does.

    ``device`` and ``options`` are those of :func:`certify`. An unreachable device is reported as a finding.
    """
    core, target = _target(device, options)
    return [Finding(*one) for one in _core._preflight(core, target)]


_F = TypeVar("_F", bound=Callable[..., Any])


def case(
    rule: str,
    *,
    variant: str = "",
    needs: Iterable[str] = (),
    role: str = "responder",
    run_policy: str = "none",
    possible_problems: str = "",
) -> Callable[[_F], _F]:
    """Add the decorated function as a case of a rule (id or alias). cases() lists it, and certify() runs it.

    - ``variant``: distinguishes cases of one rule.
    - ``needs``: required capabilities, see :data:`NEEDS`. Devices without them get the verdict "unsupported".
    - ``role``: role of the device: "responder", "requester", "verbs" or "wire".
    - ``run_policy``: "slow" or "dangerous" cases run on physical devices only if permitted.
    - ``possible_problems``: reasons for which a deviation can be a false positive.

    The function receives a :class:`Bench`, or an :class:`rdmawire.iwarp.IwarpBench` for rules of iWARP. The verdict is
    "pass" when the function returns, "fail" for a failed assert, and "error" for other exceptions. Failed expectations
    set the verdict as in C++. The function may run in several threads at once, each with its own bench. A new
    definition of a function with the same name, for example in a notebook, replaces the previous one, with its options.
    :func:`remove_case` removes a case, and :func:`temporary_cases` those of a block.
    """
    if not isinstance(rule, str):
        raise TypeError('case() requires the id or alias of a rule: @case("RSP-009")')
    mask = needs_mask([needs] if isinstance(needs, str) else needs)
    import inspect

    def add(function: _F) -> _F:
        if not callable(function):
            raise TypeError(f"case(): expected a function of a bench, got {type(function).__name__}")
        lazy = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        if any(is_lazy(function) for is_lazy in lazy):
            raise _core.UsageError(
                f"{getattr(function, '__name__', function)}: a case must be a plain function, without async and yield"
            )
        id = _core._add_case(rule, variant, role, mask, run_policy, possible_problems, function)
        if blocks := _temporary.__dict__.get("blocks"):
            blocks[-1].add(id)
        try:
            function.__rdmawire_case__ = id  # type: ignore[attr-defined]
        except AttributeError:
            pass  # bound methods are found only by their id
        return function

    return add


def remove_case(*cases: str | Callable[..., Any]) -> None:
    """Remove cases that case() added: functions, or ids. cases() and certify() no longer find them.

    Their ids can be used again. A run that uses a case completes it. Raises UsageError for built-in and unknown cases.
    """
    for one in cases:
        id = one if isinstance(one, str) else _id_of(one)
        if not _core._remove_case(id):
            known = [known["id"] for known in _core._cases()]
            reason = "is built in" if id in known else f"does not exist{did_you_mean(id, known)}"
            raise _core.UsageError(f"cannot remove the case {id}: it {reason}")


@contextlib.contextmanager
def temporary_cases() -> Iterator[None]:
    """Remove the cases that this thread adds in this block when the block ends, for example those of one test.

    Cases of other threads remain, and so does a case that existed before the block and was replaced in it.

    >>> with conformance.temporary_cases():
    ...     @conformance.case("RSP-009", variant="only here")
    ...     def only_here(bench):
    ...         pass
    >>> len(conformance.cases("rc.responder.psn.sequence-error/only here"))
    0
    """
    before, added = _added_cases(), set[str]()
    blocks: list[set[str]] = _temporary.__dict__.setdefault("blocks", [])
    blocks.append(added)
    try:
        yield
    finally:
        blocks[:] = [block for block in blocks if block is not added]
        for id in added - before:
            _core._remove_case(id)


_temporary = threading.local()


def _added_cases() -> set[str]:
    return {str(one["id"]) for one in _core._cases() if one["python"]}


def cases(only: str | Callable[..., Any] | Iterable[str | Callable[..., Any]] | None = None) -> list[Case]:
    """Return the cases that match `only`, including those of case().

    `only` contains case ids, rule ids or rule aliases (with ``*`` and ``?``), or functions decorated with case(). None
    matches all cases. An empty collection matches no case.
    """
    patterns = _patterns(only)
    if only is not None and not patterns:
        return []
    chosen = set(_core._matching(patterns))
    return [Case(**one) for one in _core._cases() if one["id"] in chosen]


def rules() -> list[Rule]:
    """Return all rules of the catalog."""
    return [Rule(**one) for one in _core._rules()]


def certify(
    device: str | Device | None = None,
    only: str | Callable[..., Any] | Iterable[str | Callable[..., Any]] | None = None,
    *,
    report: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    resume: str | os.PathLike[str] | None = None,
    seed: int = 0,
    jobs: int = 0,
    repeat: int = 1,
    strength: int = 0,
    row: str | None = None,
    budget: float | None = None,
    case_timeout: float | None = None,
    timeout: float = 0,
    max_device_losses: int | None = None,
    strict: bool = False,
    known: bool = True,
    expected: str | os.PathLike[str] | None = None,
    waivers: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    ics: str | os.PathLike[str] | None = None,
    clauses: str | os.PathLike[str] | None = None,
    shard: str | None = None,
    on_result: Callable[[CaseResult], Any] | None = None,
    progress: bool | None = None,
    **options: Unpack[TargetOptions],
) -> Report:
    """Run cases against a device, as ``rdmawire certify`` does, and return the report.

    - ``device``: "reference", "lab:rxe", "lab:siw", "agent:ADDRESS" with ``wire=…``, or an open
      :class:`rdmawire.Device`. Default: that of ``ics``, otherwise "reference". The cases run one by one on an open device, and other users of the device wait. It stays
      open, unless a case hangs, which ends the run.
    - ``only``: ids or aliases of rules with ``*`` and ``?``, ids of cases, or functions of case(). Default: all cases.
    - ``report``: directory for report.json, junit.xml, index.html and one capture per case.
    - ``overwrite``: replace the report of another run in ``report``. Default: raise UsageError.
    - ``resume``: report directory of an interrupted run that is continued.
    - ``shard``: "1/4" runs the first of four disjoint parts of the selection. ``rdmawire certify merge`` merges the
      reports.
    - ``strength``: 1 runs each case with rows that contain each value of its parameters, 2 each pair, 3 each triple. 0
      runs the default values only.
    - ``row``: run each case only with these values of its parameters: "path MTU=256,history=NAK".
    - ``budget``: maximum seconds for all rows. The rows that cover the most combinations run first.
    - ``ics``: file with the declared capabilities of the device, and values for options that are not specified
      (docs/reference/ics.md).
    - ``waivers``: file with known failures that have an end date.
    - ``clauses``: file with clause numbers, for all later texts of this process (docs/how-to/complete-clause-numbers.md).
    - ``seed``: 0 picks a new seed, which is in the report.
    - ``on_result``: function called with each result, in any order. Its exceptions end the run.
    - ``progress``: True shows a progress bar, False none. Default: a bar on a terminal and in a notebook, if tqdm is
      installed.
    - ``known=False``: ignore the built-in known results, as ``--no-expected`` does.
    - ``options``: the options of :func:`rdmawire.open_device`.

    ``expected``, ``baseline``, ``strict``, ``repeat``, ``jobs``, ``max_device_losses`` and the timeouts are those of
    the command (docs/how-to/test-a-nic.md).
    """
    patterns = _patterns(only)
    if only is not None and not patterns:
        raise _core.UsageError("only= is empty; omit it to run all cases")
    ids = _core._matching(patterns)
    if not ids:
        raise _core.UsageError(f"no case matches{_similar_cases(patterns)}. rdmawire.conformance.cases() lists all cases")
    core, target = _target("reference" if device is None else device, options)
    run: dict[str, Any] = {
        "seed": seed,
        "jobs": jobs,
        "repeat": repeat,
        "strength": strength,
        "timeout": timeout,
        "strict": strict,
        "known": known,
        "overwrite": overwrite,
        "all_cases": not patterns,
        "patterns": patterns,
    }
    # The IXIT of an ICS replaces only options that are not specified.
    for option, value in (("max_device_losses", max_device_losses), ("case_timeout", case_timeout), ("shard", shard), ("row", row), ("budget", budget)):
        if value is not None:
            run[option] = value
    if row is not None and strength:
        raise _core.UsageError("row= excludes strength=, because it selects one row")
    if device is not None:
        run["device"] = True
    files = {
        "report": report,
        "resume": resume,
        "expected": expected,
        "waivers": waivers,
        "baseline": baseline,
        "ics": ics,
        "clauses": clauses,
    }
    run |= {name: os.fspath(path) for name, path in files.items() if path is not None}
    done = failed = 0
    shards = int(shard.rpartition("/")[2]) if shard and shard.rpartition("/")[2].isdecimal() else 1
    with bar_of(progress, "certify", -(-len(ids) // max(shards, 1)) * repeat, "case") as show:

        def report_result(result: Any) -> None:
            nonlocal done, failed
            done += 1
            case = CaseResult(result)
            failed += case.verdict == "fail"
            show(done, f"{failed} failed")
            if on_result is not None:
                on_result(case)

        callback = report_result if on_result is not None or shows_bar(progress) else None
        return Report(_core._certify(ids, core, target, run, callback))


def _target(device: str | Device, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the name or the C++ object of a device, and the options for C++."""
    target: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    for key in ("faults", "allow"):
        if isinstance(target.get(key), str):
            target[key] = [target[key]]
    if isinstance(device, str) and device.startswith("lab:") and "agent" not in target:
        target["agent"] = agent_program()
    if isinstance(device, str):
        return device, target
    if not isinstance(device, Device):
        raise TypeError(f"device: expected a name or an open Device, got {type(device).__name__}")
    return device._core, target


def _patterns(only: str | Callable[..., Any] | Iterable[str | Callable[..., Any]] | None) -> list[str]:
    if only is None:
        return []
    if isinstance(only, str) or callable(only):
        only = [only]
    return [one if isinstance(one, str) else _id_of(one) for one in only]


def _similar_cases(patterns: list[str]) -> str:
    """Return " NAME. Similar names: …" with names of rules and cases, or ""."""
    import difflib

    names = {str(one[key]) for one in _core._cases() for key in ("id", "rule", "alias")}
    near = [name for pattern in patterns for name in difflib.get_close_matches(pattern, names, n=3, cutoff=0.7)]
    return f" {', '.join(patterns)}. Similar names: {', '.join(near)}" if near else ""


def _id_of(function: Callable[..., Any]) -> str:
    id = getattr(function, "__rdmawire_case__", None)
    if id is None:
        raise _core.UsageError(f"{function!r} is not a case; decorate it with rdmawire.conformance.case")
    return str(id)


# Verdicts of exceptions.


def _judgment(
    kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
) -> tuple[str, str, str]:
    """Return verdict, expected and actual for an exception of a case. Called from C++."""
    if isinstance(error, AssertionError):
        asserted, values = _asserted(trace)
        return "fail", asserted, str(error) or values
    if isinstance(error, SystemExit):
        return "error", "", "the case was interrupted"
    import traceback

    return "error", "", "".join(traceback.format_exception(kind, error, trace)).rstrip()


def _asserted(trace: types.TracebackType | None) -> tuple[str, str]:
    """Return the expression of a failed assert, and the values of its parts."""
    import ast
    import linecache
    import textwrap

    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "the assertion is true", "it is false"
    frame = trace.tb_frame
    first = trace.tb_lineno
    place = f"{os.path.basename(frame.f_code.co_filename)}:{first}"
    lines: list[str] = []
    for number in range(first, first + 20):  # an assert can have several lines
        lines.append(linecache.getline(frame.f_code.co_filename, number, frame.f_globals))
        try:
            statement = ast.parse(textwrap.dedent("".join(lines))).body[0]
        except (SyntaxError, IndexError):
            continue
        if isinstance(statement, ast.Assert):
            return ast.unparse(statement.test), _operand_values(statement.test, frame) or f"it is false ({place})"
        break
    return f"the assertion at {place} is true", "it is false"


def _operand_values(test: ast.expr, frame: types.FrameType) -> str:
    """Return the values of both sides of a comparison, or "" if their evaluation could have side effects."""
    import ast

    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return ""
    names = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Load)
    harmless = (*names, ast.UnaryOp, ast.USub, ast.BinOp, ast.operator)
    sides = []
    for side in (test.left, test.comparators[0]):
        if not all(isinstance(node, harmless) for node in ast.walk(side)):
            return ""
        try:
            value = eval(compile(ast.Expression(side), "<assert>", "eval"), frame.f_globals, frame.f_locals)
            sides.append(f"{ast.unparse(side)} is {value!r}" if not isinstance(side, ast.Constant) else "")
        except Exception:
            return ""
    return ", ".join(side for side in sides if side)
