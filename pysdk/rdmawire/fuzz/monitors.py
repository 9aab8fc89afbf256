"""Monitors for :class:`rdmawire.fuzz.MessageSession`: conformance rules, responses, processes."""

from __future__ import annotations

import collections
import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from rdmawire import _core
from rdmawire._core import Frame
from rdmawire.fuzz.messages import Exchange, Monitor, ProbeError, Target

__all__ = ["Alive", "Process", "Rules"]


class Rules(Monitor):
    """Reports rules of ``rdmawire check`` that the frames of the target violate (docs/reference/rules.md).

    Frames are Ethernet frames. ``only``: ids of rules. ``ignore``: ids that are not reported.
    """

    name = "rules"

    def __init__(self, only: Sequence[str] = (), ignore: Sequence[str] = ()) -> None:
        self._only, self._ignore = frozenset(only), frozenset(ignore)

    def rules(self, exchange: Exchange) -> Sequence[str]:
        """Return the ids of the violated rules."""
        frames = [(one.sent, one.step, one.time_ns, one.data) for one in exchange.transfers]
        violated = set(_core.fuzz.broken_rules(frames)) - self._ignore
        return sorted(violated & self._only if self._only else violated)

    def after(self, exchange: Exchange) -> str | None:
        """Return the violated rules."""
        violated = self.rules(exchange)
        return f"violates {', '.join(violated)}" if violated else None


class Alive(Monitor):
    """Sends a valid message after each execution, and reports a target without a response.

    ``probe``: Frame, bytes, or a function that returns one. ``accept(response)`` selects the responses that count.
    ``reset``: whether the target is reset before the probe, since a connection may have ended correctly. False detects
    a target that stops answering until it is reset.
    """

    name = "alive"

    def __init__(
        self,
        target: Target,
        probe: Frame | bytes | Callable[[], Frame | bytes],
        *,
        timeout: float = 1.0,
        reset: bool = True,
        accept: Callable[[Any], bool] = lambda response: True,
        attempts: int = 2,
    ) -> None:
        self._target, self._probe, self._timeout = target, probe, timeout
        self._reset, self._accept, self._attempts = reset, accept, attempts

    def after(self, exchange: Exchange) -> str | None:
        """Send the probe and wait for a response."""
        if self._reset:
            self._call(self._target.reset)
        for _ in range(self._attempts):
            probe = self._probe() if callable(self._probe) else self._probe
            self._call(self._target.send, bytes(probe))
            until = time.monotonic() + self._timeout
            while (left := until - time.monotonic()) > 0:
                response = self._call(self._target.receive, left)
                if response is None:
                    break
                if self._accept(response):
                    return None
        return f"no response to a valid message within {self._timeout} s"

    @staticmethod
    def _call(method: Callable[..., Any], *arguments: Any) -> Any:
        """Call the target. Raises ProbeError for its exceptions, to distinguish them from those of ``probe`` and
        ``accept``."""
        try:
            return method(*arguments)
        except Exception as error:
            raise ProbeError(error) from error


class Process(Monitor):
    """Starts a program and reports its end: a crash by its signal, and the last lines of its standard error.

    ``start()`` starts the program if it does not run. Call it in ``reset()`` of the target, before the connection.
    ``pattern``: a text in standard error that is a finding although the program continues, for example ``"ERROR: "``.
    ``settle``: seconds to wait for a crash after an execution. A program that crashes later is reported by the next one.
    ``ready(process)``: called after the start, to wait until the program accepts connections.
    """

    name = "process"

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        environment: Mapping[str, str] | None = None,
        ready: Callable[[Process], object] | None = None,
        pattern: str | None = None,
        settle: float = 0.02,
    ) -> None:
        self._command = [os.fspath(one) for one in command]
        self._environment = None if environment is None else {**os.environ, **environment}
        self._ready, self._pattern, self._settle = ready, pattern, settle
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._lines: collections.deque[str] = collections.deque(maxlen=200)
        self._matched: str | None = None
        self.starts = 0
        """Number of starts."""

    def start(self) -> None:
        """Start the program if it does not run."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        self._lines.clear()
        self._matched = None
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            errors="replace", env=self._environment,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=[self._process.stderr], daemon=True)
        self._reader.start()
        self.starts += 1
        if self._ready is not None:
            self._ready(self)

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self._lines.append(line.rstrip())
            if self._pattern is not None and self._pattern in line:
                self._matched = line.strip()

    @property
    def errors(self) -> list[str]:
        """The last lines of standard error."""
        return list(self._lines)

    @property
    def pid(self) -> int | None:
        """Process id, or None before the start."""
        return None if self._process is None else self._process.pid

    def after(self, exchange: Exchange) -> str | None:
        """Return the end of the program, or the line with the pattern."""
        if self._process is None:
            return None
        try:
            status = self._process.wait(self._settle)
        except subprocess.TimeoutExpired:
            self._await_reader()
            matched, self._matched = self._matched, None
            return matched
        if self._reader is not None:
            self._reader.join(1)
        with contextlib.suppress(ValueError):
            if status < 0:
                return f"ended by {signal.Signals(-status).name}{self._last_line()}"
        return f"ended with status {status}{self._last_line()}"

    def _await_reader(self) -> None:
        """Wait until the thread has read the lines that the program has written."""
        assert self._process is not None and self._process.stderr is not None
        for _ in range(50):
            if not select.select([self._process.stderr], [], [], 0)[0]:
                break
            time.sleep(0.001)
        time.sleep(0.001)  # until the thread has stored the last line

    def _last_line(self) -> str:
        lines = [line for line in self._lines if line.strip()]
        return f": {lines[-1].strip()}" if lines else ""

    def close(self) -> None:
        """End the program."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            if self._reader is not None:
                self._reader.join(1)
            if self._process.stderr is not None:
                self._process.stderr.close()
            self._process = None

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
