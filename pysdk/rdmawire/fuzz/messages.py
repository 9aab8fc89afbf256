"""Fuzzing of any target: an object that sends and receives, a list of messages, and monitors.

The fuzzer mutates messages of a conversation. The monitors decide whether the target behaved correctly::

    from rdmawire import fuzz

    session = fuzz.MessageSession(target, [hello, request], monitors=[fuzz.Rules()], directory="build/mine")
    session.run(executions=1000)
    print(session.report())

docs/how-to/python-fuzz-your-target.md describes it with examples.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import random
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar, Union, cast

from rdmawire import _core
from rdmawire._core import DeviceError, Frame, Header, UsageError, WireError, parse
from rdmawire.captures import create_capture
from rdmawire.fuzz.corpus import smallest_cover
from rdmawire.fuzz.mutations import Mutation, Unsendable, Values, chosen_of, mutate, mutated, names_of
from rdmawire.fuzz.statefiles import lock_directory, read_state, refuse_other_files, write_state, write_text
from rdmawire.fuzz.targets import WireTarget
from rdmawire.progress import Progress, bar_of
from rdmawire.wires import Wire

__all__ = [
    "Case",
    "Exchange",
    "FindingGroup",
    "Message",
    "MessageFinding",
    "MessageSession",
    "MessageStatistics",
    "Monitor",
    "Target",
    "Transfer",
]

Content = Union[Frame, bytes]
F = TypeVar("F")
MonitorFunction = Callable[["Exchange"], "str | None"]

#: Errors of a target that count as a finding. Other exceptions are errors of the program and end the run.
TARGET_ERRORS = (OSError, EOFError, WireError, DeviceError)


class Target(Protocol):
    """A device or program that the fuzzer can reach.

    Exceptions that are an OSError, EOFError, WireError or DeviceError mean that the target is gone. They are findings.
    """

    def send(self, data: bytes, /) -> object:
        """Send one message."""

    def receive(self, timeout: float, /) -> Frame | bytes | None:
        """Return the next message of the target, or None after ``timeout`` seconds."""

    def reset(self) -> object:
        """Restore the initial state: connect again, or restart the target. Called before each execution."""


@dataclasses.dataclass(frozen=True)
class Transfer:
    """A message that was sent or received."""

    sent: bool
    """True if the message was sent to the target, False if the target sent it."""
    step: int
    """Index of the message in the conversation."""
    time_ns: int
    data: bytes = dataclasses.field(repr=False)
    link: str = ""
    """Link type of a frame. Empty: bytes."""

    def __str__(self) -> str:
        if not self.link:
            return repr(self.data[:64]) + ("…" if len(self.data) > 64 else "")
        try:
            return parse(self.data, self.link).summary()
        except ValueError:
            return self.data[:32].hex(" ")


class Exchange:
    """The messages of one execution, in order."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.transfers: list[Transfer] = []
        self.mutations: list[Mutation] = []
        self.step = 0
        """Index of the last message that the execution reached."""

    @property
    def sent(self) -> list[bytes]:
        """The messages to the target."""
        return [one.data for one in self.transfers if one.sent]

    @property
    def received(self) -> list[bytes]:
        """The messages from the target."""
        return [one.data for one in self.transfers if not one.sent]

    @property
    def frames(self) -> list[Frame]:
        """The messages from the target as frames. Bytes are decoded with the link type of the sent message."""
        return [self.frame(one) for one in self.transfers if not one.sent]

    def frame(self, transfer: Transfer) -> Frame:
        """Return a message as a frame."""
        return parse(transfer.data, transfer.link or "ethernet")

    def responses(self, step: int) -> list[Frame]:
        """Return the messages that the target sent after the message with this index."""
        return [self.frame(one) for one in self.transfers if not one.sent and one.step == step]

    def __repr__(self) -> str:
        return f"<Exchange {self.conversation}: {len(self.sent)} sent, {len(self.received)} received>"


class Monitor:
    """A check of the target. Subclasses replace the methods that they need."""

    #: The first word of the signature of its findings. Default: the name of the class.
    name = ""

    def before(self, exchange: Exchange) -> None:
        """Prepare for an execution. The target has been reset, and no message has been sent."""

    def after(self, exchange: Exchange) -> str | None:
        """Return a description of invalid behavior, or None."""
        return None

    def rules(self, exchange: Exchange) -> Sequence[str]:
        """Return the ids of the violated rules of a failed execution."""
        return ()


class _FunctionMonitor(Monitor):
    def __init__(self, function: MonitorFunction) -> None:
        self._function = function
        self.name = getattr(function, "__name__", "monitor").strip("<>")

    def after(self, exchange: Exchange) -> str | None:
        return self._function(exchange)


@dataclasses.dataclass(frozen=True)
class Message:
    """A message of a conversation.

    ``content`` is a Frame, bytes, or a function of the exchange that returns one, so that a message can contain values
    of earlier responses. A function may return None to omit the message.
    """

    content: Any
    name: str = ""
    """Name in reports. Default: the opcode, or the number of the message."""
    fuzz: bool = True
    """Whether the message may be mutated."""
    only: Any = ()
    """Headers (``BTH``) and fields (``RETH.va`` or ``"reth.va"``) that may be mutated: one or a sequence. Empty: all
    except link-layer and IP addresses."""
    responses: int = 1
    """Number of responses to wait for. 0: only receive responses that have arrived."""


@dataclasses.dataclass(frozen=True)
class Case:
    """The input of one execution: the conversation, its mutations, and the messages that are omitted."""

    conversation: str
    mutations: Sequence[Mutation] = ()
    omitted: Sequence[int] = ()

    def to_json(self) -> str:
        """Return the case as JSON."""
        return json.dumps(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the case as a dict."""
        return {
            "conversation": self.conversation,
            "omitted": list(self.omitted),
            "mutations": [one.to_dict() for one in self.mutations],
        }

    @classmethod
    def from_json(cls, text: str) -> Case:
        """Return the case in ``case.json`` of a finding. Raises UsageError for other texts."""
        try:
            value = json.loads(text)
            mutations = tuple(Mutation.from_dict(one) for one in value["mutations"])
            return cls(str(value["conversation"]), mutations, tuple(int(one) for one in value["omitted"]))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"case: expected an object with conversation, mutations and omitted: {error}") from None

    def __str__(self) -> str:
        lines = [str(one) for one in self.mutations]
        if self.omitted:
            several = "" if len(self.omitted) == 1 else "s"
            lines.append(f"without the message{several} {', '.join(str(one + 1) for one in self.omitted)}")
        return "\n".join(lines) or "no mutations"


@dataclasses.dataclass(frozen=True)
class MessageFinding:
    """Invalid behavior of a target, with the smallest case that reproduces it."""

    monitor: str
    """Name of the monitor that reported it. ``target``: sending, receiving or reset() raised an exception."""
    description: str
    signature: str
    """Identifies a finding: kind and mutated fields."""
    kind: str
    """Monitor and description. Numbers are replaced by N."""
    case: Case
    found: Case
    """The original case."""
    messages: Sequence[str]
    """A line of text for each message of the minimized case."""
    rules: Sequence[str]
    """Ids of violated rules, if the monitor knows them (``Rules`` does)."""
    reproduced: bool
    trials: int
    """Number of executions for minimization."""
    execution: int
    """Number of the execution in which it occurred first, from 1."""
    times: int
    """Number of occurrences."""
    directory: str
    """Directory of its files, relative to the session's directory. Empty without one."""

    @property
    def cause(self) -> str:
        """The violated rules, or if there are none the kind. The key of :attr:`MessageSession.groups`."""
        return ", ".join(self.rules) or self.kind

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a dict."""
        value = dataclasses.asdict(self)
        value["case"], value["found"] = self.case.to_dict(), self.found.to_dict()
        value["messages"], value["rules"] = list(self.messages), list(self.rules)
        return value

    @classmethod
    def _from_dict(cls, value: dict[str, Any]) -> MessageFinding:
        value = dict(value)
        for name in ("case", "found"):
            value[name] = Case.from_json(json.dumps(value[name]))
        return cls(**value)

    def __str__(self) -> str:
        lines = [f"{self.signature} (seen {self.times}×, first at execution {self.execution})", f"  {self.description}"]
        lines += [f"  {line}" for line in str(self.case).splitlines()]
        return "\n".join([*lines, *(f"    {line}" for line in self.messages)])


@dataclasses.dataclass(frozen=True)
class FindingGroup(Generic[F]):
    """Findings that probably have the same cause."""

    cause: str
    rules: Sequence[str]
    """Ids of the violated rules."""
    findings: Sequence[F]


@dataclasses.dataclass(frozen=True)
class MessageStatistics:
    """Counters of a session."""

    executions: int = 0
    sent: int = 0
    received: int = 0
    resets: int = 0
    """Calls of reset() for executions. Minimization is not counted here."""
    skipped: int = 0
    """Executions whose mutation could not be encoded or sent."""
    edges: int = 0
    """Distinct combinations of a message and the kind of the response to it."""
    corpus: int = 0
    findings: int = 0
    failures: int = 0
    """Executions with invalid behavior."""
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Executions per second."""
        return self.executions / self.seconds if self.seconds > 0 else 0.0


class ProbeError(Exception):
    """An exception of the target in a call by a monitor."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _Failure(Exception):
    """Invalid behavior in an execution."""

    def __init__(self, monitor: str, description: str, rules: Sequence[str] = ()) -> None:
        super().__init__(description)
        self.monitor, self.description, self.rules = monitor, description, tuple(rules)


Conversations = Union[Sequence[Any], Mapping[str, Sequence[Any]]]


class MessageSession:
    """A run of the fuzzer against any target.

    - ``target``: an object with send(data), receive(timeout) and reset(), or a :class:`rdmawire.Wire`.
    - ``messages``: the messages of a conversation: Frames, bytes, functions of the :class:`Exchange`, or
      :class:`Message` objects. A mapping names several conversations. Each execution sends one of them after reset(),
      with mutations of one message.
    - ``monitors``: functions of the exchange that return a description of invalid behavior or None, or
      :class:`Monitor` objects.
    - ``directory``: findings and the state of the session, written as they occur. A directory contains one session.
    - ``resume``: continue the session of the directory. ``seed`` must then be that of the session, or None.
    - ``seed``: executions with the same number, seed and responses are equal. Default: 1.
    - ``timeout``: seconds to wait for a response. 0: only receive messages that have arrived.
    - ``feedback``: a function of the exchange that returns further edges, for example covered lines. A case with a new
      edge is added to the corpus, and later executions add mutations to it.
    - ``max_mutations``: maximum number of new mutations of an execution.
    - ``crashes``: further exceptions of the target that are findings, for example ``(ValueError,)`` or ``Exception`` for
      a target that is a Python program. All other exceptions, also those of monitors, end the run.
    - ``restarts``: number of attempts of reset() after the target was lost, with ``pause`` seconds before each.
    """

    def __init__(
        self,
        target: Target | Wire,
        messages: Conversations,
        *,
        monitors: Iterable[Monitor | MonitorFunction] = (),
        seed: int | None = None,
        directory: str | os.PathLike[str] | None = None,
        resume: bool = False,
        timeout: float = 0.2,
        feedback: Callable[[Exchange], Iterable[Hashable]] | None = None,
        minimize: bool = True,
        max_trials: int = 200,
        max_findings: int = 64,
        max_mutations: int = 3,
        stop_at_first: bool = False,
        crashes: type[Exception] | Iterable[type[Exception]] = (),
        restarts: int = 5,
        pause: float = 0.2,
    ) -> None:
        self._target: Target = WireTarget(target) if isinstance(target, Wire) else target
        for method in ("send", "receive", "reset"):
            if not callable(getattr(self._target, method, None)):
                raise TypeError(f"target: {type(target).__name__} has no method {method}()")
        self._conversations = _conversations(messages)
        self._monitors = [one if isinstance(one, Monitor) else _FunctionMonitor(_callable(one)) for one in monitors]
        if seed is not None and not 0 <= seed < 1 << 64:
            raise UsageError(f"seed={seed}: expected a number of 64 bits")
        if resume and directory is None:
            raise UsageError("resume requires directory")
        if max_mutations < 1:
            raise UsageError(f"max_mutations={max_mutations}: expected a number above 0")
        self._seed = 1 if seed is None else seed
        self._timeout, self._feedback = timeout, feedback
        self._minimize, self._max_trials, self._max_findings = minimize, max_trials, max_findings
        self._max_mutations, self._stop_at_first = max_mutations, stop_at_first
        self._restarts, self._pause = max(restarts, 1), pause
        self._crashes: tuple[type[Exception], ...] = (*TARGET_ERRORS, *_exceptions(crashes))
        self._fuzzed = Values(self._seed)
        self._values: dict[str, float] = {field.name: 0 for field in dataclasses.fields(MessageStatistics)}
        self._findings: dict[str, MessageFinding] = {}
        self._times: dict[str, int] = {}
        self._aliases: dict[str, str] = {}  # signature of an original case: signature of its minimized case
        self._edges: set[str] = set()
        self._corpus: list[Case] = []
        self._next = 1
        self._last_save = 0.0
        self._running = threading.Lock()
        self._is_running = False
        self._lock: IO[str] | None = None
        self._directory = None if directory is None else Path(directory)
        if self._directory is not None:
            self._open_directory(self._directory, seed, resume)

    # Execution.

    def run(self, executions: int = 0, seconds: float = 0.0, progress: Progress = None) -> MessageStatistics:
        """Run for a number of executions or seconds, whichever ends first. 0: unlimited.

        ``progress``: a function of the statistics, True or False for a progress bar. Default: a bar on a terminal and in
        a notebook, if tqdm is installed. Ctrl-C ends the run, and the session can be continued. Raises DeviceError if
        the target is lost permanently.
        """
        if executions < 0 or seconds < 0:
            raise UsageError(f"executions={executions}, seconds={seconds}: expected numbers from 0")
        if executions == 0 and seconds == 0:
            raise UsageError("run() requires executions or seconds")
        unit = "exec" if executions else "s"
        with self._exclusive(), bar_of(progress, "fuzz", executions or seconds, unit) as show:
            return self._run(executions, seconds, show)

    def _run(self, executions: int, seconds: float, show: Callable[..., None]) -> MessageStatistics:
        began, before = time.monotonic(), self._values["seconds"]
        first, found = self._next, len(self._findings)
        shown = began
        self._is_running = True
        try:
            while not (executions and self._next - first >= executions):
                now = time.monotonic()
                self._values["seconds"] = before + now - began
                if seconds and now - began >= seconds:
                    break
                if self._stop_at_first and len(self._findings) > found:
                    break
                if now - shown > 0.1:
                    shown = now
                    done = self._next - first if executions else now - began
                    show(done, f"{len(self._findings)} findings", self.statistics)
                if now - self._last_save > 1:
                    self._save()
                self._execute_next()
        finally:
            self._values["seconds"] = before + time.monotonic() - began
            self._is_running = False
            self._save()
            if self._directory is not None and self._lock is not None:
                self.write(self._directory)
        return self.statistics

    def _execute_next(self) -> None:
        """Execute the case with the next number. The number and the counters change together, for resumption."""
        chance = random.Random(f"{self._seed}:{self._next}")
        case = chance.choice(self._corpus) if self._corpus and chance.random() < 0.25 else None
        if case is None:
            case = Case(chance.choice(list(self._conversations)))
        used = dict(self._fuzzed.used)
        try:
            exchange, failure = self._attempt(case, chance)
            if failure is None and exchange.transfers:
                self._learn(exchange)
        except BaseException:
            self._fuzzed.used = used  # the next run repeats this execution
            raise
        self._next += 1
        self._values["executions"] += 1
        if failure is not None:
            self._record(exchange, failure)

    def _attempt(self, case: Case, chance: random.Random | None) -> tuple[Exchange, _Failure | None]:
        """Execute a case, with new mutations if ``chance`` is given."""
        exchange = Exchange(case.conversation)
        exchange.mutations = list(case.mutations)
        counted = chance is not None
        try:
            self._reset(counted)
            for monitor in self._monitors:
                monitor.before(exchange)
            self._converse(exchange, case, chance)
            self._judge(exchange)
        except _Failure as failure:
            return exchange, failure
        except Unsendable:
            if counted:
                self._values["skipped"] += 1
        finally:
            if counted:
                self._values["sent"] += len(exchange.sent)
                self._values["received"] += len(exchange.received)
        return exchange, None

    def _reset(self, counted: bool) -> None:
        """Reset the target. Raises DeviceError if it is lost permanently."""
        self._values["resets"] += counted
        error: BaseException | None = None
        for attempt in range(self._restarts):
            if attempt:
                time.sleep(self._pause * attempt)
            try:
                self._target.reset()
                return
            except self._crashes as one:
                error = one
        raise DeviceError(f"the target is lost, reset() failed {self._restarts} times: {error}") from error

    def _converse(self, exchange: Exchange, case: Case, chance: random.Random | None) -> None:
        messages = self._conversations[case.conversation]
        mutable = [i for i, message in enumerate(messages) if message.fuzz]
        changed = chance.choice(mutable) if chance is not None else -1
        for step, message in enumerate(messages):
            if step in case.omitted:
                continue
            exchange.step = step
            content = _content_of(message, exchange)
            if content is None:
                continue
            mine = [one for one in exchange.mutations if one.step == step]
            if chance is not None and step == changed:
                values = self._fuzzed.of(case.conversation)
                new = mutate(content, step, message.only, chance, 1 + _few(chance, self._max_mutations), mine, values)
                if not new:  # all fields are mutated: replace one
                    new = mutate(content, step, message.only, chance, 1, (), values)
                    exchange.mutations = [one for one in exchange.mutations if not _same_place(one, new)]
                    mine = [one for one in mine if not _same_place(one, new)]
                exchange.mutations += new
                mine += new
            link = content.link if isinstance(content, Frame) else ""
            self._transfer(exchange, message, mutated(content, mine), link)

    def _transfer(self, exchange: Exchange, message: Message, units: list[bytes], link: str) -> None:
        """Send the messages of a step, and receive the responses."""
        step = exchange.step
        for data in units:
            # Recorded before send(), which raises an exception if the message crashes the target.
            exchange.transfers.append(Transfer(True, step, time.time_ns(), data, link))
            self._send(exchange, data)
        missing = message.responses if units else 0
        while True:
            received = self._receive(self._timeout if missing > 0 else 0)
            if received is None:
                return
            missing -= 1
            its_link = received.link if isinstance(received, Frame) else link
            exchange.transfers.append(Transfer(False, step, time.time_ns(), bytes(received), its_link))
            if len(exchange.transfers) > 10_000:
                raise _Failure("target", "more than 10000 messages in one execution")

    # Only exceptions of the target's own methods are findings.

    def _send(self, exchange: Exchange, data: bytes) -> None:
        try:
            self._target.send(data)
        except self._crashes as error:
            if isinstance(error, WireError) and getattr(error, "kind", "") == "frame":
                exchange.transfers.pop()
                raise Unsendable from error
            raise _Failure("target", f"{type(error).__name__}: {error}") from error

    def _receive(self, timeout: float) -> Frame | bytes | None:
        try:
            received: Any = self._target.receive(timeout)
        except self._crashes as error:
            raise _Failure("target", f"{type(error).__name__}: {error}") from error
        if isinstance(received, (int, str)):
            raise TypeError(f"target: receive() must return a Frame, bytes or None, got {type(received).__name__}")
        return cast("Frame | bytes | None", received)

    def _judge(self, exchange: Exchange) -> None:
        for monitor in self._monitors:
            try:
                text = monitor.after(exchange)
            except ProbeError as probe:
                unsendable = isinstance(probe.error, WireError) and getattr(probe.error, "kind", "") == "frame"
                if unsendable or not isinstance(probe.error, self._crashes):
                    raise probe.error from None
                text = f"{type(probe.error).__name__}: {probe.error}"
            except TARGET_ERRORS as error:
                text = f"{type(error).__name__}: {error}"
            if text is None:
                continue
            if not isinstance(text, str):
                raise UsageError(f"a monitor must return a str or None, not {text!r:.40}")
            raise _Failure(monitor.name or type(monitor).__name__, text, monitor.rules(exchange))

    # Feedback and findings.

    def _edges_of(self, exchange: Exchange) -> set[str]:
        edges = {f"{exchange.conversation}/{step}/{kind}" for step, kind in _kinds_of(exchange)}
        if self._feedback is not None:
            edges |= {f"own/{edge!r}" for edge in self._feedback(exchange)}
        return edges

    def _learn(self, exchange: Exchange) -> None:
        edges = self._edges_of(exchange)
        if edges <= self._edges:
            return
        self._edges |= edges
        self._values["edges"] = len(self._edges)
        if exchange.mutations and len(exchange.mutations) <= 8:
            self._corpus.append(Case(exchange.conversation, tuple(exchange.mutations)))
            self._values["corpus"] = len(self._corpus)

    def _record(self, exchange: Exchange, failure: _Failure) -> None:
        self._values["failures"] += 1
        found = Case(exchange.conversation, tuple(exchange.mutations))
        kind = _general(failure)
        alias = self._signature(kind, found)
        signature = self._aliases.get(alias)
        if signature is not None and signature in self._findings:
            self._count(signature)
            return
        if len(self._findings) >= self._max_findings:
            return
        case, shown, trials = found, exchange, 0
        reproduced = False
        interrupted: BaseException | None = None
        if self._minimize:
            try:
                case, smallest, trials = self._minimized(found, kind)
                reproduced = smallest is not None
                shown = smallest or exchange
            except BaseException as error:  # Ctrl-C, or the target is lost permanently: record the original case
                interrupted = error
        self._add(failure, kind, alias, found, case, shown, reproduced, trials)
        if interrupted is not None:
            raise interrupted

    def _add(
        self,
        failure: _Failure,
        kind: str,
        alias: str,
        found: Case,
        case: Case,
        shown: Exchange,
        reproduced: bool,
        trials: int,
    ) -> None:
        """Add a finding, or count it if the minimized case is known."""
        signature = self._signature(kind, case)
        self._aliases[alias] = self._aliases[signature] = signature
        self._count(signature)
        if signature in self._findings:
            return
        directory = f"findings/{len(self._findings) + 1:02}-{_slug(signature)}" if self._directory else ""
        finding = MessageFinding(
            failure.monitor, failure.description, signature, kind, case, found, tuple(self._texts(shown)), failure.rules,
            reproduced, trials, self._next - 1, self._times[signature], directory,
        )  # fmt: skip
        self._findings[signature] = finding
        self._values["findings"] = len(self._findings)
        self._write_finding(finding, shown)
        self._save()

    def _count(self, signature: str) -> None:
        times = self._times[signature] = self._times.get(signature, 0) + 1
        known = self._findings.get(signature)
        if known is not None:
            self._findings[signature] = dataclasses.replace(known, times=times)

    def _signature(self, kind: str, case: Case) -> str:
        """Return the kind of failure with the mutated fields, without their values."""
        messages = self._conversations[case.conversation]
        names = {f"{messages[one.step].name} {one.field or one.kind}" for one in case.mutations}
        return f"{kind} ({', '.join(sorted(names)) or 'without mutations'})"

    def _minimized(self, case: Case, kind: str) -> tuple[Case, Exchange | None, int]:
        """Return the smallest case with this kind of failure, its exchange (None: not reproduced), and the number of
        trials."""
        trials = 0
        best: Exchange | None = None

        def fails(candidate: Case) -> bool:
            nonlocal trials, best
            if trials >= self._max_trials:
                return False
            trials += 1
            exchange, failure = self._attempt(candidate, None)
            if failure is None or _general(failure) != kind:
                return False
            best = exchange
            return True

        if not fails(case):
            return case, None, trials
        for smaller in _smaller_cases(case, len(self._conversations[case.conversation])):
            candidate = smaller(case)
            if candidate is not None and candidate != case and fails(candidate):
                case = candidate
        return case, best, trials

    def _texts(self, exchange: Exchange) -> Iterator[str]:
        messages = self._conversations[exchange.conversation]
        for one in exchange.transfers:
            yield f"{'→' if one.sent else '←'} {messages[one.step].name}: {one}"

    def replay(self, case: Case | str | os.PathLike[str]) -> tuple[Exchange, str | None]:
        """Execute a case once: a Case, or the path of a ``case.json``. Returns the exchange, and the description.

        The description is None if no monitor reports invalid behavior.
        """
        if not isinstance(case, Case):
            case = Case.from_json(Path(case).read_text(encoding="utf-8"))
        if case.conversation not in self._conversations:
            raise UsageError(f"unknown conversation {case.conversation!r}; known: {', '.join(self._conversations)}")
        exchange, failure = self._attempt(case, None)
        return exchange, None if failure is None else failure.description

    # Results. Every thread may read them while the session runs.

    @property
    def seed(self) -> int:
        """Seed of this session, or of the resumed one."""
        return self._seed

    @property
    def statistics(self) -> MessageStatistics:
        """Counters of the session."""
        return MessageStatistics(
            **{name: value if name == "seconds" else int(value) for name, value in self._values.items()}  # type: ignore[arg-type]
        )

    @property
    def findings(self) -> list[MessageFinding]:
        """Distinct findings, in the order of their first occurrence."""
        return list(self._findings.values())

    @property
    def groups(self) -> list[FindingGroup[MessageFinding]]:
        """The findings by violated rules and cause, in the order of their first occurrence."""
        return _groups_of(self.findings)

    @property
    def corpus(self) -> list[Case]:
        """The cases that reached new edges."""
        return list(self._corpus)

    def report(self) -> str:
        """Return the report as text."""
        s = self.statistics
        lines = [
            f"seed {self._seed}: {s.executions} executions in {s.seconds:.1f} s ({s.rate:.0f} a second), {s.sent} messages "
            f"sent, {s.received} received, {s.edges} edges, {s.corpus} cases in the corpus"
        ]
        if s.sent and not s.received:
            lines.append("no message of the target was received: check receive() and the timeout")
        if s.skipped:
            lines.append(f"{s.skipped} executions could not be sent")
        found = self.findings
        if not found:
            lines.append("no findings")
        for group in _groups_of(found):
            lines += ["", f"{group.cause}: {len(group.findings)} finding{'' if len(group.findings) == 1 else 's'}"]
            lines += [f"  {line}" for finding in group.findings for line in str(finding).splitlines()]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dict, with the keys of ``report.json`` (docs/how-to/python-fuzz-your-target.md)."""
        found = self.findings  # read only once: the running thread can replace findings
        index = {finding.signature: number for number, finding in enumerate(found)}
        rules = {rule for finding in found for rule in finding.rules}
        return {
            "format": 1,
            "program": f"rdmawire {_core.__version__}",
            "kind": "messages",
            "id": f"{self._seed}",
            "running": self._is_running,
            "target": type(self._target).__name__,
            "seed": self._seed,
            "statistics": dataclasses.asdict(self.statistics),
            "rules": {name: text for name, text in _rules_by_id().items() if name in rules} if rules else {},
            "groups": [
                {
                    "cause": group.cause,
                    "rules": list(group.rules),
                    "findings": [index[one.signature] for one in group.findings],
                }
                for group in _groups_of(found)
            ],
            "findings": [_finding_dict(finding) for finding in found],
        }

    def write(self, directory: str | os.PathLike[str]) -> Path:
        """Write report.json, report.txt and index.html, and return the directory.

        A session with a directory writes them at the end of each run.
        """
        path = Path(directory)
        path.mkdir(parents=True, exist_ok=True)
        report = self.to_dict()
        write_state(path / "report.json", report)
        write_text(path / "report.txt", self.report())
        write_text(path / "index.html", _core.fuzz.html_of(json.dumps(report), report["target"]))
        return path

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self.report())}</pre>"

    # Corpus.

    def merge_corpus(self, *directories: str | os.PathLike[str]) -> tuple[int, int]:
        """Add the cases of other sessions that reach new edges. Returns the numbers of cases before and after.

        The directories are those of sessions with the same messages, or of jobs. Each case is executed once. Findings of
        these executions are not recorded.
        """
        before = len(self._corpus)
        with self._exclusive():
            for directory in directories:
                for case in _cases_in(Path(directory), self._fingerprint()):
                    exchange, failure = self._attempt(case, None)
                    if failure is None and exchange.transfers:
                        self._learn(exchange)
            self._save()
        return before, len(self._corpus)

    def minimize_corpus(self) -> tuple[int, int]:
        """Remove cases that reach no edge of their own. Returns the numbers of cases before and after.

        Each case is executed once. The known edges are kept.
        """
        before = len(self._corpus)
        with self._exclusive():
            edges = []
            for case in self._corpus:
                exchange, failure = self._attempt(case, None)
                edges.append(frozenset() if failure is not None else frozenset(self._edges_of(exchange)))
            kept = smallest_cover([case.to_json() for case in self._corpus], edges)
            self._corpus = [Case.from_json(text) for text in kept]
            self._values["corpus"] = len(self._corpus)
            self._save()
        return before, len(self._corpus)

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Refuse a second call that executes cases."""
        if not self._running.acquire(blocking=False):
            raise UsageError("the session is running; wait until the call has returned")
        try:
            yield
        finally:
            self._running.release()

    # Files.

    def _open_directory(self, directory: Path, seed: int | None, resume: bool) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = lock_directory(directory)
        try:
            state = read_state(directory / "session.json")
            if state is None:
                if resume:
                    raise UsageError(f"{directory} contains no session to resume")
                if (directory / "findings").exists():
                    raise UsageError(f"{directory} contains findings without a session; use another directory")
                refuse_other_files(directory)
            elif not resume:
                raise UsageError(f"{directory} contains a session; set resume=True to continue it, or use another directory")
            else:
                self._load(directory, state, seed)
        except BaseException:
            self.close()
            raise

    def _load(self, directory: Path, state: dict[str, Any], seed: int | None) -> None:
        try:
            if state["conversations"] != self._fingerprint():
                raise UsageError(f"{directory} is a session with other messages: {state['conversations']}")
            if seed is not None and seed != state["seed"]:
                raise UsageError(f"{directory} is a session with seed {state['seed']}, not {seed}; omit the seed")
            self._seed, self._next = int(state["seed"]), int(state["next"])
            self._fuzzed = Values(self._seed, {str(name): int(number) for name, number in state["values"].items()})
            self._values.update({name: state["statistics"][name] for name in self._values})
            self._times = {str(name): int(times) for name, times in state["times"].items()}
            self._edges = set(state["edges"])
            self._corpus = [Case.from_json(json.dumps(one)) for one in state["corpus"]]
            # Findings after the last saved state are found again.
            for path in sorted((directory / "findings").glob("*/finding.json")):
                finding = MessageFinding._from_dict(json.loads(path.read_text(encoding="utf-8")))
                times = self._times.get(finding.signature, 0)
                self._findings[finding.signature] = dataclasses.replace(finding, times=times)
            aliases = {str(name): str(other) for name, other in state["aliases"].items()}
            self._aliases = {name: other for name, other in aliases.items() if other in self._findings}
            self._values["findings"] = len(self._findings)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise UsageError(f"{directory}: invalid session: {error!r}; use another directory") from error

    def _fingerprint(self) -> dict[str, list[str]]:
        return {name: [one.name for one in messages] for name, messages in self._conversations.items()}

    def _save(self) -> None:
        self._last_save = time.monotonic()
        if self._directory is None or self._lock is None:
            return
        state = {
            "format": 1,
            "seed": self._seed,
            "next": self._next,
            "values": self._fuzzed.used,
            "conversations": self._fingerprint(),
            "statistics": self._values,
            "times": self._times,
            "aliases": self._aliases,
            "edges": sorted(self._edges),
            "corpus": [one.to_dict() for one in self._corpus],
        }
        write_state(self._directory / "session.json", state)
        write_state(self._directory / "report.json", self.to_dict())

    def _write_finding(self, finding: MessageFinding, exchange: Exchange) -> None:
        if self._directory is None:
            return
        own = self._directory / finding.directory
        own.mkdir(parents=True, exist_ok=True)
        (own / "case.json").write_text(finding.case.to_json() + "\n", encoding="utf-8")
        if all(one.link for one in exchange.transfers):
            with contextlib.suppress(_core.Error), create_capture(own / "capture.pcapng") as capture:
                for one in exchange.transfers:
                    comment = "to the target" if one.sent else "from the target"
                    capture.write(one.data, time_ns=one.time_ns, link=one.link, comments=[comment])
        else:
            messages = [{"sent": one.sent, "time_ns": one.time_ns, "data": one.data.hex()} for one in exchange.transfers]
            write_state(own / "messages.json", messages)
        write_state(own / "finding.json", finding.to_dict())  # written last: without it, a finding is incomplete

    def close(self) -> None:
        """Save the state and release the directory. A second call has no effect. The target stays open."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> MessageSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _finding_dict(finding: MessageFinding) -> dict[str, Any]:
    """Return a finding with the keys of the report of :class:`rdmawire.fuzz.Session`."""
    return {
        "oracle": finding.monitor,
        "signature": finding.signature,
        "actual": finding.description,
        "rules": list(finding.rules),
        "like": [],
        "execution": finding.execution,
        "times": finding.times,
        "reproduced": finding.reproduced,
        "minimized": {"trials": finding.trials, "restarts": 0, "whole": True},
        "directory": finding.directory,
        "steps": [*str(finding.case).splitlines(), *finding.messages],
        "case": finding.case.to_dict(),
    }


def _rules_by_id() -> dict[str, dict[str, str]]:
    return {str(one["id"]): {"alias": str(one["alias"]), "sentence": str(one["sentence"])} for one in _core._rules()}


def _cases_in(directory: Path, conversations: dict[str, list[str]]) -> Iterator[Case]:
    """Yield the cases in the corpus of a session or of jobs. Raises UsageError for sessions with other messages."""
    found = False
    for path in (directory, *sorted(directory.glob("job-*"))):
        state = read_state(path / "session.json")
        if state is None:
            continue
        found = True
        if state.get("conversations") != conversations:
            raise UsageError(f"{path} is a session with other messages: {state.get('conversations')}")
        cases = state.get("corpus", [])
        if not isinstance(cases, list):
            raise UsageError(f"{path}: invalid session: corpus must be a list")
        for one in cases:
            yield Case.from_json(json.dumps(one))
    if not found:
        raise UsageError(f"{directory} contains no session")


def _exceptions(crashes: Any) -> tuple[type[Exception], ...]:
    """Return the classes in ``crashes``. Raises TypeError for others, and for classes that end a program."""
    try:
        several = (crashes,) if isinstance(crashes, type) else tuple(crashes)
    except TypeError:
        several = (crashes,)
    for one in several:
        if not (isinstance(one, type) and issubclass(one, Exception)):
            raise TypeError(f"crashes: expected subclasses of Exception, got {one!r:.60}")
    return several


def _groups_of(findings: Iterable[MessageFinding]) -> list[FindingGroup[MessageFinding]]:
    groups: dict[str, list[MessageFinding]] = {}
    for finding in findings:
        groups.setdefault(finding.cause, []).append(finding)
    return [FindingGroup(cause, several[0].rules, several) for cause, several in groups.items()]


def _callable(function: object) -> MonitorFunction:
    if not callable(function):
        raise TypeError(f"monitors: expected functions or Monitor objects, got {type(function).__name__}")
    return cast(MonitorFunction, function)


def _conversations(messages: Conversations) -> dict[str, list[Message]]:
    several = messages if isinstance(messages, Mapping) else {"messages": messages}
    result: dict[str, list[Message]] = {}
    for name, steps in several.items():
        if isinstance(steps, (str, bytes, Frame)):
            raise TypeError(f"messages: expected a list of messages, got {type(steps).__name__}")
        result[str(name)] = [_message(step, number) for number, step in enumerate(steps, 1)]
        if not any(message.fuzz for message in result[str(name)]):
            raise UsageError(f"messages: the conversation {name!r} has no message that may be mutated")
    if not result:
        raise UsageError("messages: expected at least one conversation")
    return result


def _message(step: Any, number: int) -> Message:
    message = step if isinstance(step, Message) else Message(step)
    content = message.content
    if not callable(content) and not isinstance(content, Frame):
        try:
            message = dataclasses.replace(message, content=bytes(memoryview(content)))
        except TypeError:
            raise TypeError(
                f"messages: message {number}: expected a Frame, bytes or a function, got {type(content).__name__}"
            ) from None
    message = dataclasses.replace(message, only=chosen_of(message.only))
    for one in message.only:
        names_of(one)  # reports unknown names
    if message.name:
        return message
    name = getattr(content, "__name__", "").strip("<>") if callable(content) else ""
    if isinstance(content, Frame):
        name = _name_of_frame(content)
    return dataclasses.replace(message, name=name if name not in ("", "lambda") else f"message {number}")


def _name_of_frame(frame: Frame) -> str:
    """Return the name of a message: its opcode, or its last header."""
    for layer in reversed(frame.layers):
        opcode = getattr(layer, "opcode", None)
        if opcode is not None:
            return str(getattr(opcode, "name", opcode)).replace("_", " ")
    return type(frame.layers[-1]).__name__ if frame.layers else ""


def _content_of(message: Message, exchange: Exchange) -> Content | None:
    content = message.content(exchange) if callable(message.content) else message.content
    if content is None or isinstance(content, Frame):
        return content
    if isinstance(content, Header):
        return Frame(content)
    try:
        return bytes(memoryview(content))
    except TypeError:
        raise TypeError(f"{message.name}: expected a Frame, bytes or None, got {type(content).__name__}") from None


def _same_place(one: Mutation, others: Iterable[Mutation]) -> bool:
    """Return whether one of the other mutations replaces this one."""
    return any((one.step, one.kind, one.field, one.layer) == (m.step, m.kind, m.field, m.layer) for m in others)


def _few(chance: random.Random, most: int) -> int:
    """Return 0 in most cases, otherwise a number below ``most``."""
    return chance.randrange(most) if chance.random() < 0.25 else 0


def _kinds_of(exchange: Exchange) -> Iterator[tuple[int, str]]:
    """Yield the kind of response to each message."""
    answered: set[int] = set()
    for one in exchange.transfers:
        if one.sent:
            continue
        answered.add(one.step)
        parts = []
        for layer in exchange.frame(one).layers if one.link else ():
            parts.append(type(layer).__name__)
            for name in ("opcode", "syndrome", "error_code", "etype", "reason", "status"):
                value = getattr(layer, name, None)
                if isinstance(value, int):
                    parts.append(f"{name}={int(value)}")
        yield one.step, " ".join(parts) or f"{one.data[:2].hex()} {len(one.data).bit_length()}"
    for one in exchange.transfers:
        if one.sent and one.step not in answered:
            yield one.step, "no response"


def _smaller_cases(case: Case, steps: int) -> Iterator[Callable[[Case], Case | None]]:
    """Yield functions that make the present case smaller: fewer mutations, fewer messages, smaller numbers."""

    def without_mutation(one: Mutation) -> Callable[[Case], Case | None]:
        return lambda now: dataclasses.replace(now, mutations=tuple(m for m in now.mutations if m != one))

    def without_message(step: int) -> Callable[[Case], Case | None]:
        def smaller(now: Case) -> Case | None:
            if any(one.step == step for one in now.mutations):
                return None
            return dataclasses.replace(now, omitted=tuple(sorted({*now.omitted, step})))

        return smaller

    def with_value(one: Mutation, value: int) -> Callable[[Case], Case | None]:
        def smaller(now: Case) -> Case | None:
            if one not in now.mutations:
                return None
            changed = dataclasses.replace(one, value=value)
            return dataclasses.replace(now, mutations=tuple(changed if m == one else m for m in now.mutations))

        return smaller

    for one in case.mutations:
        yield without_mutation(one)
    for step in reversed(range(steps)):
        yield without_message(step)
    for one in case.mutations:
        if one.kind == "field" and isinstance(one.value, int) and one.value > 1:
            yield with_value(one, 0)
            yield with_value(one, 1)


def _general(failure: _Failure) -> str:
    """Return monitor and description without numbers."""
    return f"{failure.monitor}: {re.sub(r'0x[0-9a-fA-F]+|[0-9]+([.][0-9]+)?', 'N', failure.description)}"


def _slug(signature: str) -> str:
    text = re.sub(r"[^a-z0-9]+", "-", signature.lower()).strip("-")[:40].strip("-")
    return f"{text}-{hashlib.sha256(signature.encode()).hexdigest()[:6]}"
