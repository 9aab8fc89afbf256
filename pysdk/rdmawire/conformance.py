"""Conformance from Python: the cases of docs/how-to/test-a-nic.md listed and run, and cases of one's own.

>>> from rdmawire import conformance
>>> conformance.certify(only="rc.responder.psn.sequence-error", seed=1).counts
{'pass': 1}

A case is a function that gets a :class:`Bench`, and the vocabulary that the C++ cases have:

>>> from rdmawire.conformance import nak, psn, sequence_error, silence
>>> @conformance.case("rc.responder.psn.sequence-error", variant="three packets missing")
... def three_missing(bench):
...     qp = bench.rc(receives=4)
...     bench >> qp.send_only(psn(+3))
...     bench << nak(sequence_error, psn(+0)) << silence()
>>> conformance.certify(only=three_missing, seed=1).counts
{'pass': 1}

No certification by IBTA, UNH-IOL or any other body: clauses are named as we read them.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import inspect
import linecache
import os
import textwrap
import traceback
import types
from collections.abc import Callable, Iterable, Mapping
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

if TYPE_CHECKING:
    from rdmawire.devices import Device

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
    "rnr_nak",
    "rules",
    "sequence_error",
    "silence",
]

#: What a case or a test can need of a device, by name, as bits.
NEEDS: Mapping[str, int] = types.MappingProxyType(_core._needs())

_codes = _core._nak_codes()
sequence_error: int = _codes["psn_sequence_error"]  #: NAK code. IBTA vol 1, 9.7.5.2.2
invalid_request: int = _codes["invalid_request"]  #: NAK code
remote_access_error: int = _codes["remote_access_error"]  #: NAK code
remote_operational_error: int = _codes["remote_operational_error"]  #: NAK code


def psn(relative: int) -> int:
    """A PSN from the first one of its direction: ``psn(+1)`` is the second request's. For who reads the case."""
    return relative


def nak_sequence_error(psn: int) -> Expectation:
    """A NAK of code PSN sequence error."""
    return nak(sequence_error, psn)


def nak_invalid_request(psn: int) -> Expectation:
    """A NAK of code invalid request."""
    return nak(invalid_request, psn)


def nak_remote_access(psn: int) -> Expectation:
    """A NAK of code remote access error."""
    return nak(remote_access_error, psn)


def nak_remote_operational(psn: int) -> Expectation:
    """A NAK of code remote operational error."""
    return nak(remote_operational_error, psn)


def needs_mask(names: Iterable[str]) -> int:
    """The bits of those needs; UsageError for a name that is none."""
    mask = 0
    for name in names:
        if name not in NEEDS:
            raise _core.UsageError(f"there is no need {name!r}; there are {', '.join(NEEDS)}")
        mask |= NEEDS[name]
    return mask


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule of the catalog (docs/reference/rules.md)."""

    id: str
    alias: str  #: "RSP-009"; empty where the catalog gives none
    level: str  #: "shall", "should" or "may"
    sentence: str
    clauses: str


@dataclasses.dataclass(frozen=True)
class Case:
    """A case: the rule that its verdict is about, and what it needs."""

    id: str  #: the rule's, and behind a slash the variant
    rule: str
    alias: str
    level: str
    sentence: str
    clauses: str
    variant: str
    role: str  #: the device's part: "responder", "requester", "verbs" or "wire"
    family: str  #: "roce" or "iwarp"
    caution: str  #: "none", "slow" or "dangerous"
    needs: tuple[str, ...]  #: what a device must have, of NEEDS
    python: bool  #: it was added by case()


class CaseResult(Mapping[str, Any]):
    """How a case ended: the keys of docs/how-to/test-a-nic.md, and the usual ones as attributes."""

    def __init__(self, json: dict[str, Any]) -> None:
        self._json = json

    @property
    def id(self) -> str:
        """Of the case."""
        return str(self._json["id"])

    @property
    def verdict(self) -> str:
        """"pass", "fail", "fail-wrong-code", "may", "unsupported", "inconclusive" or "error"."""
        return str(self._json["verdict"])

    @property
    def expected(self) -> str:
        """What the clause asks for; empty where nothing deviates."""
        return str(self._json.get("expected", ""))

    @property
    def actual(self) -> str:
        """What the device did; else the reason."""
        return str(self._json.get("actual", ""))

    @property
    def seed(self) -> int:
        """What its numbers were chosen by."""
        return int(self._json["seed"])

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The conversation: kind, time_ns, text, and frame as hexadecimal digits."""
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
    """What is left of a run. ``json`` is what ``rdmawire certify --json`` prints, as Python has it."""

    def __init__(self, core: _core._Ran) -> None:
        self._core = core
        self.json: dict[str, Any] = core.json()
        self.results = [CaseResult(one) for one in self.json["cases"]]

    @property
    def counts(self) -> dict[str, int]:
        """How many cases ended how."""
        return dict(collections.Counter(result.verdict for result in self.results))

    @property
    def ok(self) -> bool:
        """Every case ended as one had to expect: as is known of the device, else without deviation and error.

        Where all cases ran, no rule that is known to be broken was seen to hold, either.
        """
        return not self._core.is_unexpected

    @property
    def unexpected(self) -> list[CaseResult]:
        """Those that did not."""
        ids = set(self._core.unexpected)
        return [result for result in self.results if result.id in ids]

    def __getitem__(self, id: str | Callable[..., Any]) -> CaseResult:
        """The result of the case of that id, or of that function."""
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
        """As a terminal has it: what deviates, or with ``steps`` every case as a ladder; then the summary."""
        told = [one for one in self.results if steps or one.verdict != "pass"]
        return "".join(self._core.text(one.id, steps) for one in told) + self._core.summary()

    def junit(self) -> str:
        """As JUnit's XML, for CI."""
        return self._core.junit()

    def html(self) -> str:
        """One page that needs nothing else."""
        return self._core.html()

    def _repr_html_(self) -> str:
        page = self.html().replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes report.json, junit.xml, index.html and a capture a case there; the directory is made."""
        self._core.write(os.fspath(directory))

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items())
        return f"<Report {self.json['device']}: {counts}>"


class Finding(NamedTuple):
    """One thing that :func:`preflight` looked at."""

    status: str
    """"pass", "warn" or "fail"."""
    what: str
    """"path MTU"."""
    found: str
    """"1024 bytes"."""
    advice: str
    """What to do; empty where it passes."""


def preflight(device: str | Device = "reference", **options: Any) -> list[Finding]:
    """Looks at a device, the way to it and the tester, and judges nothing: ``rdmawire certify --preflight``.

    ``device`` and ``options`` are as for :func:`certify`. A device that cannot be reached is a finding, not an error.
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
    caution: str = "none",
    possible_problems: str = "",
) -> Callable[[_F], _F]:
    """Makes a function a case of that rule (id or alias): cases() has it from now on, and certify() runs it.

    ``variant`` tells it from other cases of the rule. ``needs``: of :data:`NEEDS`; what a device lacks makes the verdict
    "unsupported". ``role``: the device's part, "responder", "requester", "verbs" or "wire". ``caution``: "slow" or
    "dangerous", which a real device is asked only when that is allowed. ``possible_problems``: when a deviation says
    less than it seems.

    The function gets a :class:`Bench`, or where the rule is one of iWARP an :class:`rdmawire.iwarp.IwarpBench`. It passes
    when it comes back. A failed assert is the verdict "fail", with the asserted expression as what was expected; any
    other exception is "error", with its traceback; the vocabulary's own deviations are as in C++. It may run in several
    threads at once, each with a bench of its own. Defined again under the same name, as where a cell of a
    notebook runs again, it takes the place of the one before.
    """
    if not isinstance(rule, str):
        raise TypeError('case() takes the rule: @case("RSP-009"), with its id or alias')
    mask = needs_mask([needs] if isinstance(needs, str) else needs)

    def add(function: _F) -> _F:
        if not callable(function):
            raise TypeError(f"a case is a function that takes a bench, not {type(function).__name__}")
        lazy = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        if any(is_lazy(function) for is_lazy in lazy):
            raise _core.UsageError(
                f"{getattr(function, '__name__', function)}: a case is a plain function, without async and without yield: "
                "nobody would go on with it"
            )
        id = _core._add_case(rule, variant, role, mask, caution, possible_problems, function)
        try:
            function.__rdmawire_case__ = id  # type: ignore[attr-defined]
        except AttributeError:
            pass  # a bound method or the like: it is known by its id alone
        return function

    return add


def cases(only: str | Callable[..., Any] | Iterable[str | Callable[..., Any]] | None = None) -> list[Case]:
    """All cases, ours and those of case(); or those whose rule's id or alias, or own id, matches (``*`` and ``?``).

    Of an empty collection none match.
    """
    patterns = _patterns(only)
    if only is not None and not patterns:
        return []
    chosen = set(_core._matching(patterns))
    return [Case(**one) for one in _core._cases() if one["id"] in chosen]


def rules() -> list[Rule]:
    """All rules of the catalog."""
    return [Rule(**one) for one in _core._rules()]


def certify(
    device: str | Device = "reference",
    only: str | Callable[..., Any] | Iterable[str | Callable[..., Any]] | None = None,
    *,
    report: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    seed: int = 0,
    jobs: int = 0,
    repeat: int = 1,
    case_timeout: float = 0,
    timeout: float = 0,
    losses: int = 5,
    strict: bool = False,
    known: bool = True,
    expected: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    on_result: Callable[[CaseResult], Any] | None = None,
    **options: Any,
) -> Report:
    """Runs cases against a device, as ``rdmawire certify`` does, and gives the report.

    ``device`` is "reference", "lab:rxe", "lab:siw" or "agent:ADDRESS" with ``wire=…``; what else open_device() takes are
    ``options``. Or it is a :class:`rdmawire.Device` that is open already: the cases run on it one after the other, it
    stays open, and nobody else uses it meanwhile; a case that hangs ends it, and the run. ``only``: rules by id or alias
    with ``*`` and ``?``, ids of cases, or functions of case(); without it all of them. ``report``: a
    directory for report.json, junit.xml, index.html and a capture a case; ``resume``: that of a run that was cut off,
    which goes on. ``seed`` 0 is another one each time; the
    report tells it. ``on_result`` is called with each result as it comes, in any order; what it raises ends the run.
    ``expected``, ``baseline``, ``known``, ``strict``, ``repeat``, ``losses`` and the times are those of the command
    (docs/how-to/test-a-nic.md).
    """
    patterns = _patterns(only)
    if only is not None and not patterns:
        raise _core.UsageError("only= is empty: no case would run; leave it out to run all of them")
    ids = _core._matching(patterns)
    core, target = _target(device, options)
    run: dict[str, Any] = {
        "seed": seed,
        "jobs": jobs,
        "repeat": repeat,
        "losses": losses,
        "timeout": timeout,
        "strict": strict,
        "known": known,
        "all_cases": not patterns,
        "case_timeout": case_timeout,
    }
    for name, path in (("report", report), ("resume", resume), ("expected", expected), ("baseline", baseline)):
        if path is not None:
            run[name] = os.fspath(path)
    told = None if on_result is None else lambda result: on_result(CaseResult(result))
    return Report(_core._certify(ids, core, target, run, told))


def _target(device: str | Device, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A device by name, or the module's one that is open; and the options as the module takes them."""
    from rdmawire.devices import Device, _agent_program

    target: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    for key in ("faults", "allow"):
        if isinstance(target.get(key), str):
            target[key] = [target[key]]
    if isinstance(device, str) and device.startswith("lab:") and "agent" not in target:
        target["agent"] = _agent_program()
    if isinstance(device, str):
        return device, target
    if not isinstance(device, Device):
        raise TypeError(f"device= is a name, or a Device that is open, not {type(device).__name__}")
    return device._core, target


def _patterns(only: str | Callable[..., Any] | Iterable[str | Callable[..., Any]] | None) -> list[str]:
    if only is None:
        return []
    if isinstance(only, str) or callable(only):
        only = [only]
    return [one if isinstance(one, str) else _id_of(one) for one in only]


def _id_of(function: Callable[..., Any]) -> str:
    id = getattr(function, "__rdmawire_case__", None)
    if id is None:
        raise _core.UsageError(f"{function!r} is no case: decorate it with rdmawire.conformance.case")
    return str(id)


# What a case's exceptions mean.


def _judgment(
    kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
) -> tuple[str, str, str]:
    """Verdict, expected and actual of what a case raised."""
    if isinstance(error, AssertionError):
        asserted, found = _asserted(trace)
        return "fail", asserted, str(error) or found
    if isinstance(error, SystemExit):
        return "error", "", "the case was ended from outside"
    return "error", "", "".join(traceback.format_exception(kind, error, trace)).rstrip()


def _asserted(trace: types.TracebackType | None) -> tuple[str, str]:
    """The expression of a failed assert, and what its parts were."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an assertion holds", "it does not"
    frame = trace.tb_frame
    first = trace.tb_lineno
    place = f"{os.path.basename(frame.f_code.co_filename)}:{first}"
    lines: list[str] = []
    for number in range(first, first + 20):  # an assert may take several lines
        lines.append(linecache.getline(frame.f_code.co_filename, number, frame.f_globals))
        try:
            statement = ast.parse(textwrap.dedent("".join(lines))).body[0]
        except (SyntaxError, IndexError):
            continue
        if isinstance(statement, ast.Assert):
            return ast.unparse(statement.test), _found(statement.test, frame) or f"it does not hold ({place})"
        break
    return f"the assertion at {place} holds", "it does not"


def _found(test: ast.expr, frame: types.FrameType) -> str:
    """What stood at both sides of a comparison; empty where looking again could do something."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return ""
    quiet = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Load, ast.UnaryOp, ast.USub, ast.BinOp, ast.operator)
    sides = []
    for side in (test.left, test.comparators[0]):
        if not all(isinstance(node, quiet) for node in ast.walk(side)):
            return ""
        try:
            value = eval(compile(ast.Expression(side), "<assert>", "eval"), frame.f_globals, frame.f_locals)
            sides.append(f"{ast.unparse(side)} is {value!r}" if not isinstance(side, ast.Constant) else "")
        except Exception:
            return ""
    return ", ".join(side for side in sides if side)
