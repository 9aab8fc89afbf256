"""Stateful protocol fuzzer for RDMA devices.

It mutates one field at a time on a live connection, and compares the device with a reference device that receives the
same packets::

    from rdmawire import fuzz

    with fuzz.Session("reference:bounds-off-by-one", seed=7, stop_at_first=True) as session:
        session.run(executions=20_000)
        print(session.findings[0])

``python3 -m rdmawire.fuzz`` is the same as a command. See docs/how-to/fuzz-a-device.md.

:class:`MessageSession` fuzzes any other target: an object with send, receive and reset, or a wire. See
docs/how-to/python-fuzz-your-target.md. :func:`mutated_frames` returns mutated copies of a frame, without a target.
"""

from __future__ import annotations

import json
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TextIO

from rdmawire import _core
from rdmawire._core import ClosedError, Error, UsageError
from rdmawire.fuzz.corpus import edit_corpus, scripts_in, smallest_cover
from rdmawire.fuzz.messages import (
    Case,
    Exchange,
    FindingGroup,
    Message,
    MessageFinding,
    MessageSession,
    MessageStatistics,
    Monitor,
    Target,
    Transfer,
)
from rdmawire.fuzz.monitors import Alive, Process, Rules
from rdmawire.fuzz.mutations import Mutation, mutated_frames
from rdmawire.fuzz.statefiles import lock_directory
from rdmawire.fuzz.targets import TcpTarget, UdpTarget, WireTarget
from rdmawire.names import did_you_mean
from rdmawire.progress import Progress, bar_of

__all__ = [
    "FEEDBACK",
    "Alarm",
    "Alive",
    "Case",
    "Exchange",
    "Fault",
    "Finding",
    "FindingGroup",
    "Frame",
    "Message",
    "MessageFinding",
    "MessageSession",
    "MessageStatistics",
    "Monitor",
    "Mutation",
    "Process",
    "Replayed",
    "Rules",
    "Script",
    "Session",
    "Statistics",
    "Target",
    "TcpTarget",
    "Transfer",
    "UdpTarget",
    "WireTarget",
    "faults",
    "merge_corpus",
    "minimize_corpus",
    "mutated_frames",
    "reference",
    "replay",
    "reproduce",
    "status",
]

FEEDBACK = ("answers", "code", "monitors")
"""The kinds of feedback."""

Step = dict[str, Any]
"""A step as in JSON: ``{"do": "request", "opcode": 10, "psn": 0, …}``. Members that are 0 are omitted."""


class Script:
    """Steps of a test case. Queue pairs, keys and addresses are symbolic."""

    def __init__(self, steps: Iterable[Mapping[str, Any]], seed: int = 1, family: str = "roce") -> None:
        """Create a script. Raises UsageError for invalid steps.

        ``seed``: seed of the reference device. ``family``: transport family, ``roce`` or ``iwarp``.
        """
        self.seed = seed
        self.family = family
        self.steps: list[Step] = [dict(step) for step in steps]
        self.texts  # noqa: B018 - checks the steps

    @classmethod
    def from_json(cls, text: str) -> Script:
        """Return the script in the ``script.json`` of a finding."""
        try:
            value = json.loads(text)
            return cls(value["steps"], value.get("seed", 1), value.get("family", "roce"))
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"script: expected an object with the list steps: {error}") from None

    def to_json(self) -> str:
        """Return the script as JSON."""
        return json.dumps({"family": self.family, "seed": self.seed, "steps": self.steps})

    @property
    def texts(self) -> list[str]:
        """A line of text for each step."""
        try:
            return list(_core.fuzz.texts_of(self.to_json()))
        except TypeError as error:
            raise UsageError(f"script: {error}") from None

    def __len__(self) -> int:
        return len(self.steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Script) and (
            (self.family, self.seed, self.steps) == (other.family, other.seed, other.steps)
        )

    def __str__(self) -> str:
        return "\n".join(f"{number:4}  {text}" for number, text in enumerate(self.texts, 1))


@dataclass(frozen=True)
class Alarm:
    """A report of an oracle."""

    oracle: str
    """``device gone``, ``kernel message``, ``protected memory``, ``memory``, ``state``, ``completion``, ``answer`` or
    ``custom``."""
    expected: str
    actual: str
    signature: str
    """Identifies a finding. It contains no numbers that differ between runs."""


@dataclass(frozen=True)
class Finding(Alarm):
    """Invalid behavior of a device, with the minimized script that reproduces it."""

    script: Script
    found: Script
    """The original script."""
    rules: Sequence[str]
    """Ids of violated rules (see ``rdmawire.explain``): ``shown``, and the rules that the faults in ``like`` violate."""
    shown: Sequence[str]
    """Ids of rules that the frames violate."""
    like: Sequence[str]
    """Injected faults with which the reference device behaves in the same way."""
    reproduced: bool
    """Whether the minimized script causes the same alarm."""
    trials: int
    """Number of scripts run for minimization. 0: not minimized."""
    restarts: int
    """Number of device restarts during minimization."""
    whole: bool
    """Whether minimization is complete. Otherwise it reached its limit of time or restarts."""
    execution: int
    """Number of the mutated step in which it occurred first."""
    times: int
    """Number of occurrences."""
    directory: str
    """Directory of its files, relative to the report's directory."""

    def __str__(self) -> str:
        return (
            f"{self.signature} (seen {self.times}×, first at execution {self.execution})\n"
            f"  expected  {self.expected}\n  actual    {self.actual}\n{self.script}"
        )


@dataclass(frozen=True)
class Statistics:
    """Counters of a session."""

    executions: int
    """Mutated steps that were compared, on a live connection."""
    steps: int
    scripts: int
    """Scripts that were run, each with new queue pairs."""
    connections: int
    edges: int
    """Number of distinct combinations of the queue pair's state, the step and the response."""
    code_edges: int | None
    """Number of distinct pairs of consecutive basic blocks of the device's code. None: not counted, or unavailable for
    the target."""
    monitor_edges: int | None
    """Number of distinct monitor edges: state changes of a monitor of ``rdmawire.check`` with the opcode that caused
    them, tracker events with their causes, and results of rules. None: not counted."""
    corpus: int
    findings: int
    alarms: int
    restarts: int
    """Restarts of a lost device."""
    seconds: float

    @property
    def rate(self) -> float:
        """Executions per second."""
        return self.executions / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Fault:
    """A fault that can be injected into a reference device: ``Session(fault.target)``."""

    name: str
    sentence: str
    family: str
    """``roce`` or ``iwarp``."""
    rules: Sequence[str]
    concern: str | None
    """``memory safety``, ``authorization``, ``state``, or None for other faults."""
    out_of_reach: str | None
    """Why the fuzzer cannot detect the fault, or None."""

    @property
    def target(self) -> str:
        """Name of the reference device with this fault."""
        return f"{reference(self.family)}:{self.name}"


@dataclass(frozen=True)
class Frame:
    """A frame of a replayed script."""

    sent: bool
    """True if the frame was sent to the device, False if the device sent it."""
    step: int
    time: int
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Replayed:
    """Result of a script."""

    alarm: Alarm | None
    step: int
    """Index of the last step, which caused the alarm if there is one."""
    frames: Sequence[Frame] = field(repr=False)


Mutator = Callable[[Step], "Step | None"]
Oracle = Callable[[Step, list[bytes], list[str]], "str | None"]


class Session:
    """A run of the fuzzer against one target.

    - ``target``: ``reference``, ``reference:FAULT``, ``reference:iwarp``, ``reference:iwarp:FAULT``, ``lab:rxe``,
      ``lab:siw``, or ``agent:ADDRESS`` with ``wire`` and ``allow``.
    - ``seed``: sessions with the same seed, corpus and number of executions produce the same results. Default: 1.
    - ``plain``: send random bytes in frames that are valid at the start of a connection, for comparison.
    - ``max_findings``: maximum number of stored findings. Further findings are only counted.
    - ``corpus``: directory for scripts that reach new edges, and for the state of the session, which is saved every
      second and after each finding. ``resume`` continues the last session of the corpus, with its seed. One session
      uses a corpus at a time.
    - ``report``: directory for the files of :meth:`write`. Each finding is written when it occurs, and report.json
      every second. A directory contains one session.
    - ``feedback``: kinds of edges that add a script to the corpus: ``answers`` (responses), ``code`` (if the target
      reports code coverage), ``monitors``. ``count_all`` also counts the other kinds.
    - ``mutator(step)``: returns a mutated step, or None.
    - ``oracle(step, frames, states)``: returns a description of invalid behavior, or None. ``frames`` are those sent by
      the device for the step, ``states`` those of its two queue pairs.
    """

    def __init__(
        self,
        target: str = "reference",
        *,
        seed: int | None = None,
        plain: bool = False,
        minimize: bool = True,
        max_findings: int = 64,
        stop_at_first: bool = False,
        corpus: str | os.PathLike[str] | None = None,
        resume: bool = False,
        report: str | os.PathLike[str] | None = None,
        feedback: str | Iterable[str] = FEEDBACK,
        count_all: bool = False,
        mutator: Mutator | None = None,
        oracle: Oracle | None = None,
        wire: str = "",
        kernel: str = "debian",
        agent: str | os.PathLike[str] = "",
        allow: Sequence[str] = (),
        credentials: str | os.PathLike[str] = "",
    ) -> None:
        # The C++ session has only a weak reference to this object, since the garbage collector cannot find cycles
        # through C++ objects.
        self._mutator, self._oracle = mutator, oracle
        itself = weakref.ref(self)

        def mutate(text: str) -> str | None:
            session = itself()
            return None if session is None else session._mutated(text)

        def check(text: str, frames: list[bytes], states: list[str]) -> str | None:
            session = itself()
            return None if session is None else session._checked(text, frames, states)

        if not isinstance(target, str):
            raise TypeError(f"target: expected the name of a device, got {type(target).__name__}")
        for name, callback in (("mutator", mutator), ("oracle", oracle)):
            if callback is not None and not callable(callback):
                raise TypeError(f"{name}: expected a function or None, got {type(callback).__name__}")
        if seed is not None and not 0 <= seed < 1 << 64:
            raise UsageError(f"seed={seed}: expected a number of 64 bits")
        self._session: Any = None
        self._lock: IO[str] | None = None
        if corpus is not None:
            try:
                Path(corpus).mkdir(parents=True, exist_ok=True)
                self._lock = lock_directory(Path(corpus))
            except OSError as error:
                raise Error(f"{os.fspath(corpus)}: {os.strerror(error.errno or 0)}") from error
        try:
            self._session = self._opened(
                target, seed, plain, minimize, max_findings, stop_at_first, corpus, resume, report, feedback, count_all,
                None if mutator is None else mutate, None if oracle is None else check, wire, kernel, agent, allow,
                credentials,
            )  # fmt: skip
        except UsageError as error:
            self.close()
            raise UsageError(f"{error}{_similar_target(target)}") from None
        except BaseException:
            self.close()
            raise

    def _opened(
        self, target: str, seed: int | None, plain: bool, minimize: bool, max_findings: int, stop_at_first: bool,
        corpus: str | os.PathLike[str] | None, resume: bool, report: str | os.PathLike[str] | None,
        feedback: str | Iterable[str], count_all: bool, mutate: Callable[[str], str | None] | None,
        check: Callable[[str, list[bytes], list[str]], str | None] | None, wire: str, kernel: str,
        agent: str | os.PathLike[str], allow: Sequence[str], credentials: str | os.PathLike[str],
    ) -> Any:  # fmt: skip
        session = _core.fuzz.Session(
            target,
            seed=1 if seed is None else seed,
            plain=plain,
            minimize=minimize,
            max_findings=max_findings,
            stop_at_first=stop_at_first,
            corpus=os.fspath(corpus) if corpus is not None else "",
            resume=resume,
            feedback=[feedback] if isinstance(feedback, str) else list(feedback),
            count_all=count_all,
            mutator=mutate,
            oracle=check,
            wire=wire,
            kernel=kernel,
            agent=os.fspath(agent) or _agent(target),
            allow=list(allow),
            credentials=os.fspath(credentials),
            report=os.fspath(report) if report is not None else "",
        )
        if seed is not None and session.seed != seed:
            raise UsageError(f"{corpus} is a session with seed {session.seed}, not {seed}; omit the seed")
        return session

    def _mutated(self, text: str) -> str | None:
        assert self._mutator is not None
        step = self._mutator(json.loads(text))
        if step is None:
            return None
        if not isinstance(step, Mapping):
            raise UsageError(f"a mutator must return a step or None, not {type(step).__name__}")
        return json.dumps(dict(step))

    def _checked(self, text: str, frames: list[bytes], states: list[str]) -> str | None:
        assert self._oracle is not None
        error = self._oracle(json.loads(text), frames, states)
        if error is not None and not isinstance(error, str):
            raise UsageError(f"an oracle must return a str or None, not {error!r:.40}")
        return error

    def _open(self) -> Any:
        if self._session is None:
            raise ClosedError("the session was closed")
        return self._session

    def run(
        self,
        executions: int = 0,
        seconds: float = 0.0,
        progress: Progress = None,
    ) -> Statistics:
        """Run for a number of executions or seconds, whichever ends first. 0: unlimited.

        ``progress``: a function of the statistics, called several times per second, or True or False for a progress
        bar. Default: a bar on a terminal and in a notebook, if tqdm is installed. Ctrl-C ends the run, and the session
        can be continued. Raises DeviceError if the device is lost permanently.
        """
        if executions < 0 or seconds < 0:
            raise UsageError(f"executions={executions}, seconds={seconds}: expected numbers from 0")
        if executions >= 1 << 64:
            raise UsageError(f"executions={executions}: expected a number of 64 bits")
        if executions == 0 and seconds == 0:
            raise UsageError("run() requires executions or seconds")
        session = self._open()
        before = session.statistics()
        with bar_of(progress, "fuzz", executions or seconds, "exec" if executions else "s") as show:

            def callback(values: dict[str, Any]) -> None:
                name = "executions" if executions else "seconds"
                show(values[name] - before[name], f"{values['findings']} findings", Statistics(**values))

            return Statistics(**session.run(executions, float(seconds), callback))

    @property
    def statistics(self) -> Statistics:
        """Counters of the session. Other threads may read them while the session runs."""
        return Statistics(**self._open().statistics())

    @property
    def findings(self) -> list[Finding]:
        """Distinct findings, in the order of their first occurrence. Other threads may read them during a run."""
        found = []
        for values in self._open().findings():
            del values["steps"]
            values["script"] = Script.from_json(values["script"])
            values["found"] = Script.from_json(values["found"])
            found.append(Finding(**values))
        return found

    @property
    def groups(self) -> list[FindingGroup[Finding]]:
        """Findings that probably have the same cause: an injected fault with the same effect, or violated rules."""
        findings = self.findings
        return [
            FindingGroup(cause, tuple(rules), [findings[index] for index in indexes if index < len(findings)])
            for cause, rules, indexes in self._open().groups()
        ]

    def edges_of(self, script: Script) -> frozenset[int]:
        """Run a script once and return the edges that it reaches. For the minimization of a corpus."""
        return frozenset(self._open().edges_of(script.to_json()))

    @property
    def offers_code(self) -> bool:
        """Whether the target reports code coverage, as reference devices do."""
        return bool(self._open().offers_code)

    @property
    def seed(self) -> int:
        """Seed of this session, or of the resumed one."""
        return int(self._open().seed)

    def report(self) -> str:
        """Return the report as text."""
        return str(self._open().text())

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dict. docs/how-to/fuzz-a-device.md lists the keys."""
        return dict(json.loads(self._open().json()))

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self.report())}</pre>"

    def write(self, directory: str | os.PathLike[str]) -> Path:
        """Write report.json, report.txt, index.html, and script.json, reproduce.py and capture.pcapng of each finding.

        Returns the directory.
        """
        self._open().write(os.fspath(directory))
        return Path(directory)

    def close(self) -> None:
        """Release the device and the corpus. A second call has no effect."""
        self._session = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _similar_target(target: str) -> str:
    """Return "; did you mean …?" for a target with an unknown fault or a misspelled name, or ""."""
    device, _, names = target.rpartition(":")
    if device in ("reference", "reference:iwarp"):
        known = [fault.name for fault in faults() if reference(fault.family) == device]
        unknown = [name for name in names.split(",") if name not in known and name != "iwarp"]
        return did_you_mean(unknown[0], known) if unknown else ""
    targets = ["reference", "reference:iwarp", "lab:rxe", "lab:siw"]
    return "" if target in targets or target.startswith("agent:") else did_you_mean(target, targets)


def _agent(target: str) -> str:
    """Return the path of rdmawire-agent for the lab: RDMAWIRE_AGENT, otherwise in the build tree, otherwise empty."""
    if not target.startswith("lab:"):
        return ""
    named = os.environ.get("RDMAWIRE_AGENT")
    if named:
        return named
    built = Path(_core.__file__).resolve().parents[2] / "bin" / "rdmawire-agent"
    return str(built) if built.exists() else ""


def minimize_corpus(corpus: str | os.PathLike[str], target: str = "reference", **options: Any) -> tuple[int, int]:
    """Remove scripts that reach no edge of their own. Returns the numbers of scripts before and after.

    Each script runs once on the target. ``options`` are those of :class:`Session` for the target (``wire``, ``agent``,
    …) and ``feedback``. The state of the session is kept.
    """

    def smaller(texts: list[str]) -> list[str]:
        with Session(target, **options) as session:
            return smallest_cover(texts, [session.edges_of(Script.from_json(text)) for text in texts])

    return edit_corpus(Path(corpus), smaller)


def merge_corpus(
    corpus: str | os.PathLike[str],
    sources: Iterable[str | os.PathLike[str]],
    target: str = "reference",
    **options: Any,
) -> tuple[int, int]:
    """Add the scripts of other corpora that reach new edges. Returns the numbers of scripts before and after.

    The sources are not changed. ``options`` are those of :func:`minimize_corpus`.
    """
    new = [text for source in sources for text in scripts_in(Path(source))]

    def larger(texts: list[str]) -> list[str]:
        others = [text for text in dict.fromkeys(new) if text not in set(texts)]
        with Session(target, **options) as session:
            reached = [session.edges_of(Script.from_json(text)) for text in texts]
            edges = [session.edges_of(Script.from_json(text)) for text in others]
        return texts + smallest_cover(others, edges, frozenset().union(*reached))

    return edit_corpus(Path(corpus), larger)


def status(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the report in a report directory, also while its session runs. See docs/how-to/fuzz-a-device.md.

    ``running`` in the result stays true if the process was killed. Raises UsageError if there is no report.
    """
    from rdmawire.fuzz import jobs

    return jobs.status(directory)


def reference(family: str) -> str:
    """Return the name of the reference device of a family, ``roce`` or ``iwarp``."""
    return "reference:iwarp" if family == "iwarp" else "reference"


def faults() -> list[Fault]:
    """Return the faults of the reference devices: first RoCE, then iWARP, each in the order of its table."""
    return [Fault(**values) for values in _core.fuzz.faults()]


def replay(
    script: Script,
    target: str | None = None,
    *,
    wire: str = "",
    kernel: str = "debian",
    agent: str | os.PathLike[str] = "",
    allow: Sequence[str] = (),
    credentials: str | os.PathLike[str] = "",
) -> Replayed:
    """Run a script once with new objects of the target. Default: the reference device of the script's family."""
    target = target or reference(script.family)
    values = _core.fuzz.replay(
        script.to_json(),
        target,
        wire,
        kernel,
        os.fspath(agent) or _agent(target),
        list(allow),
        os.fspath(credentials),
    )
    alarm = Alarm(**values["alarm"]) if values["alarm"] else None
    return Replayed(alarm, values["step"], [Frame(*one) for one in values["frames"]])


def reproduce(script: Script, target: str | None = None, out: TextIO | None = None, **options: Any) -> int:
    """Run a script, and print its steps and frames. Returns 1 after an alarm, otherwise 0.

    ``options`` are those of :func:`replay`.
    """
    target = target or reference(script.family)
    out = out or sys.stdout
    replayed = replay(script, target, **options)
    for number, text in enumerate(script.texts[: replayed.step + 1]):
        print(f"{number + 1:4}  {text}", file=out)
        for frame in replayed.frames:
            if frame.step == number:
                print(f"      {'→' if frame.sent else '←'} {len(frame.data)} bytes", file=out)
    if replayed.alarm is None:
        print(f"{target}: no alarm", file=out)
        return 0
    print(f"{target}: {replayed.alarm.signature}", file=out)
    print(f"  expected  {replayed.alarm.expected}\n  actual    {replayed.alarm.actual}", file=out)
    return 1
