"""A fuzzer that knows the protocol.

It walks the states of a live connection, says one thing wrong in one way at a time, and compares what comes of it with
a sound reference device that was told the same::

    from rdmawire import fuzz

    with fuzz.Session("reference:bounds-off-by-one", seed=7, stop_at_first=True) as session:
        session.run(executions=20_000)
        print(session.findings[0])

``python3 -m rdmawire.fuzz --help`` is the same as a command. docs/how-to/fuzz-a-device.md has the rest.
"""

from __future__ import annotations

import json
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from rdmawire import ClosedError, UsageError, _core

__all__ = [
    "FEEDBACK",
    "Alarm",
    "Fault",
    "Finding",
    "Frame",
    "Replayed",
    "Script",
    "Session",
    "Statistics",
    "faults",
    "reference",
    "replay",
    "reproduce",
]

FEEDBACK = ("answers", "code", "monitors")
"""The kinds of feedback that a session has."""

Step = dict[str, Any]
"""A step as JSON has it: ``{"do": "request", "opcode": 10, "psn": 0, …}``; members that are 0 are left out."""


class Script:
    """What is done to a device, step by step; queue pairs, keys and addresses are named by what they are."""

    def __init__(self, steps: Iterable[Mapping[str, Any]], seed: int = 1, family: str = "roce") -> None:
        """``seed``: of the device's own numbers, where it has a seed; ``family``: of devices, ``roce`` or ``iwarp``.
        Raises UsageError where a step makes no sense."""
        self.seed = seed
        self.family = family
        self.steps: list[Step] = [dict(step) for step in steps]
        self.texts  # noqa: B018 - is checked

    @classmethod
    def from_json(cls, text: str) -> Script:
        """The script that a finding's ``script.json`` holds."""
        try:
            value = json.loads(text)
            return cls(value["steps"], value.get("seed", 1), value.get("family", "roce"))
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"a script: an object with the list steps is needed: {error}") from None

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps({"family": self.family, "seed": self.seed, "steps": self.steps})

    @property
    def texts(self) -> list[str]:
        """A line for each step, for people."""
        try:
            return list(_core.fuzz.texts_of(self.to_json()))
        except TypeError as error:
            raise UsageError(f"a script: {error}") from None

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
    """What an oracle found."""

    oracle: str
    """``device gone``, ``kernel message``, ``protected memory``, ``memory``, ``state``, ``completion``, ``answer`` or
    ``custom``."""
    expected: str
    actual: str
    signature: str
    """Without numbers that differ from run to run: findings with the same one are one."""


@dataclass(frozen=True)
class Finding(Alarm):
    """Something that a device did and should not have, with the shortest script that makes it do so."""

    script: Script
    found: Script
    """As it was found, before it was cut down."""
    rules: Sequence[str]
    """Ids of the rules that the device broke (``rdmawire.explain`` tells what they say): those of ``shown``, and those
    that the faults of ``like`` break."""
    shown: Sequence[str]
    """Ids of rules that the frames alone show broken."""
    like: Sequence[str]
    """Seeded faults with which the reference device does the same, as far as was seen."""
    reproduced: bool
    """The script, run again, alarms in the same way."""
    trials: int
    """Scripts that were run to cut it down; 0: it was not tried."""
    restarts: int
    """Of the device, which a trial had ended."""
    whole: bool
    """Nothing more can be left out of the script; else the time or the restarts that this may cost ended first."""
    execution: int
    """The mutated step that showed it first."""
    times: int
    """That it was seen."""
    directory: str
    """Where its files are, below the report's directory."""

    def __str__(self) -> str:
        return (
            f"{self.signature} (seen {self.times}×, first at execution {self.execution})\n"
            f"  expected  {self.expected}\n  actual    {self.actual}\n{self.script}"
        )


@dataclass(frozen=True)
class Statistics:
    """What a session did until now."""

    executions: int
    """Mutated steps, each with its oracles, on a live connection."""
    steps: int
    lives: int
    connections: int
    edges: int
    """States of the queue pair × what was said × what was answered."""
    code_edges: int | None
    """Pairs of basic blocks of the device's code that ran one after the other; None: not counted, or the target does not
    tell them."""
    monitor_edges: int | None
    """Where the monitors of ``rdmawire.check`` stood × a frame × where they stood then, and how rules were judged; None:
    not counted."""
    corpus: int
    findings: int
    alarms: int
    restarts: int
    """Of a device that was gone."""
    seconds: float

    @property
    def rate(self) -> float:
        """Executions a second."""
        return self.executions / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Fault:
    """A way in which the reference device of RoCE or of iWARP can be broken on purpose: ``Session(fault.target)``."""

    name: str
    sentence: str
    family: str
    """``roce`` or ``iwarp``."""
    rules: Sequence[str]
    concern: str | None
    """``memory safety``, ``authorization`` or ``state``; None: it is about none of these."""
    out_of_reach: str | None
    """Why the fuzzer has no way to it; None: it has one."""

    @property
    def target(self) -> str:
        """The name of the device that is broken so."""
        return f"{reference(self.family)}:{self.name}"


@dataclass(frozen=True)
class Frame:
    """One frame of a script that was replayed."""

    sent: bool
    """To the device; else from it."""
    step: int
    time: int
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Replayed:
    """What came of a script."""

    alarm: Alarm | None
    step: int
    """The last step that was made, counted from 0: that which alarmed, if one did."""
    frames: Sequence[Frame] = field(repr=False)


Mutator = Callable[[Step], "Step | None"]
Oracle = Callable[[Step, list[bytes], list[str]], "str | None"]


class Session:
    """A run of the fuzzer against one target.

    ``target``: ``reference``, ``reference:FAULT``, ``reference:iwarp``, ``reference:iwarp:FAULT``, ``lab:rxe``,
    ``lab:siw`` or ``agent:ADDRESS`` (then ``wire`` and ``allow`` say how
    it is reached, and that it may be). ``plain``: random changes of packets that fit the beginning of a connection, and
    nothing else: what to compare with. ``corpus``: a directory for interesting scripts; with ``resume`` the session goes
    on where the one before it ended. The same seed makes the same session, as long as the corpus is the same.

    ``feedback``: for which kind, or kinds, of new edges a life's script is interesting: those of ``answers``, of the device's
    ``code``, where the target tells them, and of the ``monitors``. Other kinds are not counted, unless ``count_all``.

    ``mutator(step)`` gives a changed step, or None; ``oracle(step, frames, states)`` says what is wrong, or gives None:
    ``frames`` is what the device sent for the step, ``states`` are those of its two queue pairs.
    """

    def __init__(
        self,
        target: str = "reference",
        *,
        seed: int = 1,
        plain: bool = False,
        minimize: bool = True,
        most_findings: int = 64,
        stop_at_first: bool = False,
        corpus: str | os.PathLike[str] | None = None,
        resume: bool = False,
        feedback: str | Iterable[str] = FEEDBACK,
        count_all: bool = False,
        mutator: Mutator | None = None,
        oracle: Oracle | None = None,
        wire: str = "",
        kernel: str = "debian",
        agent: str | os.PathLike[str] = "",
        allow: Sequence[str] = (),
        secret_file: str | os.PathLike[str] = "",
    ) -> None:
        # Held here alone: the collector does not see into the module's session, which would keep for ever what refers
        # back to this one.
        self._mutator, self._oracle = mutator, oracle
        itself = weakref.ref(self)

        def mutate(text: str) -> str | None:
            session = itself()
            return None if session is None else session._mutated(text)

        def judge(text: str, frames: list[bytes], states: list[str]) -> str | None:
            session = itself()
            return None if session is None else session._judged(text, frames, states)

        if not isinstance(target, str):
            raise TypeError(f"target= is the name of a device, not {type(target).__name__}")
        for name, callback in (("mutator", mutator), ("oracle", oracle)):
            if callback is not None and not callable(callback):
                raise TypeError(f"{name}= is a function or None, not {type(callback).__name__}")
        if not 0 <= seed < 1 << 64:
            raise UsageError(f"seed {seed}: a number of 64 bits is needed")
        self._session: Any = _core.fuzz.Session(
            target,
            seed=seed,
            plain=plain,
            minimize=minimize,
            most_findings=most_findings,
            stop_at_first=stop_at_first,
            corpus=os.fspath(corpus) if corpus is not None else "",
            resume=resume,
            feedback=[feedback] if isinstance(feedback, str) else list(feedback),
            count_all=count_all,
            mutator=None if mutator is None else mutate,
            oracle=None if oracle is None else judge,
            wire=wire,
            kernel=kernel,
            agent=os.fspath(agent) or _agent(target),
            allow=list(allow),
            secret_file=os.fspath(secret_file),
        )

    def _mutated(self, text: str) -> str | None:
        assert self._mutator is not None
        step = self._mutator(json.loads(text))
        if step is None:
            return None
        if not isinstance(step, Mapping):
            raise UsageError(f"a mutator gives a changed step, or None, not {type(step).__name__}")
        return json.dumps(dict(step))

    def _judged(self, text: str, frames: list[bytes], states: list[str]) -> str | None:
        assert self._oracle is not None
        said = self._oracle(json.loads(text), frames, states)
        if said is not None and not isinstance(said, str):
            raise UsageError(f"an oracle says what is wrong as a str, or gives None, not {said!r:.40}")
        return said

    def _open(self) -> Any:
        if self._session is None:
            raise ClosedError("the session is closed; make a new one")
        return self._session

    def run(
        self,
        executions: int = 0,
        seconds: float = 0.0,
        progress: Callable[[Statistics], None] | None = None,
    ) -> Statistics:
        """Runs until so many executions or seconds are over, what comes first; 0: no such end.

        ``progress`` is called a few times a second. ctrl-C ends the run, and the session can go on afterwards. Raises
        DeviceError when the device is lost and does not come back.
        """
        if executions < 0 or seconds < 0:
            raise UsageError("executions and seconds are not negative")
        if executions >= 1 << 64:
            raise UsageError("executions is a number of 64 bits")
        if executions == 0 and seconds == 0:
            raise UsageError("how long? executions or seconds is needed")
        told = (lambda values: progress(Statistics(**values))) if progress else None
        return Statistics(**self._open().run(executions, float(seconds), told))

    @property
    def statistics(self) -> Statistics:
        """What was done until now."""
        return Statistics(**self._open().statistics())

    @property
    def findings(self) -> list[Finding]:
        """Different ones, in the order in which they were found."""
        found = []
        for values in self._open().findings():
            del values["steps"]
            values["script"] = Script.from_json(values["script"])
            values["found"] = Script.from_json(values["found"])
            found.append(Finding(**values))
        return found

    @property
    def offers_code(self) -> bool:
        """Whether the target tells which of its code runs: the reference devices do."""
        return bool(self._open().offers_code)

    @property
    def seed(self) -> int:
        """Of this session; of the one that it goes on with, after ``resume``."""
        return int(self._open().seed)

    def report(self) -> str:
        """The report as text."""
        return str(self._open().text())

    def to_dict(self) -> dict[str, Any]:
        """The report as values; docs/how-to/fuzz-a-device.md has its keys."""
        return dict(json.loads(self._open().json()))

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self.report())}</pre>"

    def write(self, directory: str | os.PathLike[str]) -> Path:
        """Writes report.json, report.txt and index.html, and for each finding script.json, reproduce.py and
        capture.pcapng. Gives the directory."""
        self._open().write(os.fspath(directory))
        return Path(directory)

    def close(self) -> None:
        """Lets go of the device; a second call does nothing."""
        self._session = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _agent(target: str) -> str:
    """The agent's program for the lab: RDMAWIRE_AGENT, or what stands beside the package's build tree."""
    if not target.startswith("lab:"):
        return ""
    named = os.environ.get("RDMAWIRE_AGENT")
    if named:
        return named
    beside = Path(_core.__file__).resolve().parents[2] / "bin" / "rdmawire-agent"
    return str(beside) if beside.exists() else ""


def reference(family: str) -> str:
    """The name of the sound reference device of a family, ``roce`` or ``iwarp``."""
    return "reference:iwarp" if family == "iwarp" else "reference"


def faults() -> list[Fault]:
    """The faults of the reference devices, RoCE's before iWARP's, each in its table's order."""
    return [Fault(**values) for values in _core.fuzz.faults()]


def replay(
    script: Script,
    target: str | None = None,
    *,
    wire: str = "",
    kernel: str = "debian",
    agent: str | os.PathLike[str] = "",
    allow: Sequence[str] = (),
    secret_file: str | os.PathLike[str] = "",
) -> Replayed:
    """Runs a script once, on fresh objects of the target, by default those of its family's sound reference device."""
    target = target or reference(script.family)
    values = _core.fuzz.replay(
        script.to_json(),
        target,
        wire,
        kernel,
        os.fspath(agent) or _agent(target),
        list(allow),
        os.fspath(secret_file),
    )
    alarm = Alarm(**values["alarm"]) if values["alarm"] else None
    return Replayed(alarm, values["step"], [Frame(*one) for one in values["frames"]])


def reproduce(script: Script, target: str | None = None, out: TextIO | None = None, **reached: Any) -> int:
    """Runs a script, and prints its steps and what came of them. 1 when an oracle was alarmed, else 0. ``reached``: as
    ``replay`` takes it."""
    target = target or reference(script.family)
    out = out or sys.stdout
    replayed = replay(script, target, **reached)
    for number, text in enumerate(script.texts[: replayed.step + 1]):
        print(f"{number + 1:4}  {text}", file=out)
        for frame in replayed.frames:
            if frame.step == number:
                print(f"      {'→' if frame.sent else '←'} {len(frame.data)} bytes", file=out)
    if replayed.alarm is None:
        print(f"{target}: nothing is wrong", file=out)
        return 0
    print(f"{target}: {replayed.alarm.signature}", file=out)
    print(f"  expected  {replayed.alarm.expected}\n  actual    {replayed.alarm.actual}", file=out)
    return 1
