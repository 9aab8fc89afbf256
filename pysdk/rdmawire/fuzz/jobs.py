"""Several sessions in parallel processes, with one report. Each process has its own seed, corpus and report."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

import rdmawire
from rdmawire import _core
from rdmawire._core import Error, UsageError
from rdmawire.fuzz.statefiles import lock_directory, read_state, refuse_other_files, write_state, write_text

__all__ = ["Terminated", "combined", "report_text", "run_jobs", "status"]

#: Seconds that a job has to end after SIGINT.
PATIENCE = 30.0

#: Counters that are not added: jobs reach the same edges and findings, and run at the same time.
NOT_ADDED = ("edges", "code_edges", "monitor_edges", "findings", "seconds")


def job_directories(directory: Path) -> list[Path]:
    """Return the directories of the jobs below a report or a corpus, in the order of their numbers."""
    found = [path for path in directory.glob("job-*") if path.name[4:].isdecimal() and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name[4:]))


def combined(jobs: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return one report of several sessions: counters added, and each finding once.

    ``jobs``: reports by the name of the directory of their job.
    """
    reports = list(jobs.values())
    findings: dict[str, dict[str, Any]] = {}
    for directory, report in jobs.items():
        for finding in report["findings"]:
            own = {**finding, "directory": f"{directory}/{finding['directory']}"}
            known = findings.setdefault(finding["signature"], own)
            if known is not own:
                known["times"] += finding["times"]
                # Keep the shortest script, and its files.
                if (finding["reproduced"], -len(finding["steps"])) > (known["reproduced"], -len(known["steps"])):
                    findings[finding["signature"]] = {**own, "times": known["times"]}
    merged = list(findings.values())
    groups: dict[str, dict[str, Any]] = {}
    for report in reports:
        for group in report["groups"]:
            one = groups.setdefault(group["cause"], {"cause": group["cause"], "rules": [], "findings": []})
            one["rules"] = sorted({*one["rules"], *group["rules"]})
            for index in group["findings"]:
                place = list(findings).index(report["findings"][index]["signature"])
                if not any(place in other["findings"] for other in groups.values()):
                    one["findings"].append(place)
    counters: dict[str, Any] = {}
    for name in reports[0]["statistics"]:
        values = [report["statistics"][name] for report in reports if report["statistics"][name] is not None]
        # Jobs reach the same edges: the largest number is a lower bound of all.
        counters[name] = max(values, default=None) if name in NOT_ADDED else sum(values)
    counters["findings"] = len(merged)
    rules = {name: text for report in reports for name, text in report["rules"].items()}
    first = reports[0]
    return {
        **{name: first[name] for name in ("format", "program", "kind", "target", "plain", "feedback") if name in first},
        "running": any(report["running"] for report in reports),
        "jobs": len(reports),
        "seeds": [report["seed"] for report in reports],
        "statistics": counters,
        "rules": rules,
        "groups": [group for group in groups.values() if group["findings"]],
        "findings": merged,
    }


def is_messages(report: dict[str, Any]) -> bool:
    """Return whether a report is that of a MessageSession."""
    return report.get("kind") == "messages"


def report_text(report: dict[str, Any]) -> str:
    """Return a combined report as text."""
    s = report["statistics"]
    lines = [
        f"{report['target']}, {report['jobs']} jobs with the seeds {', '.join(map(str, report['seeds']))}: "
        f"{s['executions']} executions in {s['seconds']:.1f} s ({s['executions'] / max(s['seconds'], 1e-9):.0f} a second), "
        f"{s['corpus']} {'cases' if is_messages(report) else 'scripts'} in the corpora"
    ]
    if not report["findings"]:
        return lines[0] + "\nno findings\n"
    found, causes = len(report["findings"]), len(report["groups"])
    lines.append(f"{found} finding{'' if found == 1 else 's'}, probably of {causes} cause{'' if causes == 1 else 's'}:")
    for group in report["groups"]:
        lines += ["", group["cause"]]
        for index in group["findings"]:
            finding = report["findings"][index]
            lines.append(f"  {finding['signature']}   seen {finding['times']}×, {finding['directory']}")
            lines += [f"     expected  {finding['expected']}"] if "expected" in finding else []
            lines += [f"     actual    {finding['actual']}"]
            lines += [f"     {number:5}  {step}" for number, step in enumerate(finding["steps"], 1)]
    return "\n".join(lines) + "\n"


def _reports(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the reports of jobs by the names of their directories."""
    found = {path.name: read_state(path / "report.json") for path in job_directories(directory)}
    return {name: report for name, report in found.items() if report is not None}


def status(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the report in a report directory of a session or of jobs, also while it runs.

    ``running`` in the result stays true if the process was killed. Raises UsageError if there is no report.
    """
    path = Path(directory)
    reports = _reports(path)
    if reports:
        return combined(reports)
    report = read_state(path / "report.json")
    if report is None:
        raise UsageError(f"{path} contains no report of the fuzzer")
    return report


class Terminated(BaseException):
    """SIGTERM of this process while jobs run."""


class _Job:
    """A process of a job. A thread reads its standard error, so that the job never waits for this process."""

    MOST = 65536

    def __init__(self, number: int, options: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = f"job-{number + 1}"
        self.stopped = False
        """Whether this process ended the job."""
        self._tail = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rdmawire.fuzz", *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env=environment, start_new_session=True,
        )  # fmt: skip
        assert self.process.stderr is not None
        # A program that the job started can keep the pipe open after the end of the job.
        self._reader = threading.Thread(target=self._read, args=[self.process.stderr], daemon=True)
        self._reader.start()

    def _read(self, file: IO[bytes]) -> None:
        with file:
            while data := file.read1(self.MOST):  # type: ignore[attr-defined]
                self._tail = (self._tail + data)[-self.MOST :]

    @property
    def errors(self) -> str:
        """The last part of the job's standard error, after the job has ended."""
        self._reader.join(1)
        return self._tail.decode(errors="replace")

    def interrupt(self) -> None:
        """Request the end of the job."""
        if self.process.poll() is None:
            self.stopped = True
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGINT)

    def failed(self, report: Mapping[str, Any] | None) -> bool:
        """Return whether the job did not run as requested. Its report must exist and be complete."""
        if self.process.returncode in (0, 1):
            return report is None or bool(report["running"])
        # A job that is interrupted during its start has no report.
        return not (self.stopped and self.process.returncode in (130, -signal.SIGINT))


def run_jobs(
    jobs: int,
    arguments: Sequence[str],
    *,
    report: Path,
    corpus: Path | None = None,
    own: bool = False,
    seed: int | None,
    resume: bool,
    executions: int,
    stop_at_first: bool,
    show: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[dict[str, Any], int]:
    """Run the command in ``jobs`` processes and return the combined report and the exit status.

    ``arguments``: options of the command without those of the other parameters. ``own``: the jobs are MessageSessions,
    whose report directory contains their state. Ctrl-C and SIGTERM end all processes, and the report covers their
    completed part. The status is 3 if a job failed, otherwise 1 if there are findings.
    """
    if executions and executions < jobs:
        raise UsageError(f"{executions} executions for {jobs} jobs: each job needs at least one")
    report.mkdir(parents=True, exist_ok=True)
    with lock_directory(report):
        if not job_directories(report):
            refuse_other_files(report)
        elif not resume:
            raise UsageError(f"{report} contains the report of another session; use another directory")
        corpus = report if own else corpus
        if resume and corpus is not None and (known := len(job_directories(corpus))) not in (0, jobs):
            raise UsageError(f"{corpus} is a session with {known} jobs, not {jobs}")
        first = random.SystemRandom().getrandbits(32) if seed is None else seed
        options = [
            _options(number, jobs, arguments, report, corpus, own, seed, first, resume, executions) for number in range(jobs)
        ]
        return _run(options, report, stop_at_first, show)


def _options(
    number: int,
    jobs: int,
    arguments: Sequence[str],
    report: Path,
    corpus: Path | None,
    own: bool,
    seed: int | None,
    first: int,
    resume: bool,
    executions: int,
) -> list[str]:
    """Return the options of one job."""
    options = [*arguments, "--report", str(report / f"job-{number + 1}")]
    state = None if corpus is None else corpus / f"job-{number + 1}"
    started = state is not None and (state / "session.json").exists()
    if own:
        options += ["--job", str(number)]
        # All directories exist from the start, so that their number is the number of jobs.
        (report / f"job-{number + 1}").mkdir(exist_ok=True)
    elif state is not None:
        options += ["--corpus", str(state)]
    if resume and state is not None and (started or not own):
        options += ["--resume"]
    if seed is not None or not (resume and started):
        options += ["--seed", str((first + number) % (1 << 64))]
    if executions:
        options += ["--executions", str(executions // jobs + (number < executions % jobs))]
    return options


def _run(
    options: Sequence[Sequence[str]],
    report: Path,
    stop_at_first: bool,
    show: Callable[[dict[str, Any]], None] | None,
) -> tuple[dict[str, Any], int]:
    environment = dict(os.environ)
    package = str(Path(rdmawire.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    running: list[_Job] = []
    terminated = False
    with _terminable():
        try:
            try:
                for number, one in enumerate(options):
                    running.append(_Job(number, one, environment))
                _wait(running, report, stop_at_first, show)
            except Terminated:
                terminated = True
            finally:
                _end(running)
        except Terminated:
            _kill(running)
            terminated = True
    reports = _reports(report)
    failed = [job for job in running if job.failed(reports.get(job.name))]
    message = _last_line([job.errors for job in failed]) if failed else "interrupted"
    if terminated and not reports:
        raise Terminated
    if not reports:
        raise (UsageError if any(job.process.returncode == 2 for job in running) else Error)(message)
    total = combined(reports)
    write_state(report / "report.json", total)
    write_text(report / "report.txt", report_text(total))
    write_text(report / "index.html", _core.fuzz.html_of(json.dumps(total), total["target"]))
    if failed:
        print(f"rdmawire.fuzz: {len(failed)} of {len(options)} jobs failed: {message}", file=sys.stderr)
    return total, 143 if terminated else 3 if failed else int(bool(total["findings"]))


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Raise Terminated for SIGTERM in this block, so that the jobs end, too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(running: Sequence[_Job]) -> None:
    """End the jobs with SIGINT, and after some time with SIGKILL."""
    for job in running:
        job.interrupt()
    until = time.monotonic() + PATIENCE
    try:
        for job in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.process.wait(max(until - time.monotonic(), 0))
    finally:
        _kill(running)


def _kill(running: Sequence[_Job]) -> None:
    for job in running:
        job.process.kill()  # no effect on an ended process
        job.process.wait()


def _last_line(errors: Sequence[str]) -> str:
    lines = [line for error in errors for line in error.splitlines() if line.strip()]
    return lines[-1].removeprefix("rdmawire.fuzz: ") if lines else "no message"


def _wait(
    running: Sequence[_Job],
    report: Path,
    stop_at_first: bool,
    show: Callable[[dict[str, Any]], None] | None,
) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        while any(job.process.poll() is None for job in running):
            if stop_at_first and any(job.process.poll() == 1 for job in running):
                return
            reports = _reports(report)
            if show is not None and reports:
                show(combined(reports))
            time.sleep(0.2)
