"""Several sessions in parallel processes, with one report. Each process has its own seed, corpus and report."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import rdmawire
from rdmawire import _core
from rdmawire._core import Error, UsageError
from rdmawire.fuzz.statefiles import read_state, write_state

__all__ = ["combined", "report_text", "run_jobs", "status"]

#: Counters that are not added: jobs reach the same edges and findings, and run at the same time.
NOT_ADDED = ("edges", "code_edges", "monitor_edges", "findings", "seconds")


def job_directories(directory: Path) -> list[Path]:
    """Return the directories of the jobs below a report or a corpus."""
    return sorted(path for path in directory.glob("job-*") if path.is_dir())


def combined(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one report of several sessions: counters added, and each finding once."""
    findings: dict[str, dict[str, Any]] = {}
    for number, report in enumerate(reports, 1):
        for finding in report["findings"]:
            own = {**finding, "directory": f"job-{number}/{finding['directory']}"}
            known = findings.setdefault(finding["signature"], own)
            if known is not own:
                known["times"] += finding["times"]
                # The shortest script, and its files.
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


def _reports(directory: Path) -> list[dict[str, Any]]:
    found = [read_state(path / "report.json") for path in job_directories(directory)]
    return [report for report in found if report is not None]


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
    """Run the command in ``jobs`` processes and return the combined report and the highest exit status.

    ``arguments``: options of the command without those of the other parameters. ``own``: the jobs are MessageSessions,
    whose report directory contains their state. Ctrl-C ends all processes, and the report covers their completed part.
    """
    report.mkdir(parents=True, exist_ok=True)
    if not resume and ((report / "report.json").exists() or job_directories(report)):
        raise UsageError(f"{report} contains the report of another session; use another directory")
    corpus = report if own else corpus
    if resume and corpus is not None and (known := len(job_directories(corpus))) not in (0, jobs):
        raise UsageError(f"{corpus} is a session with {known} jobs, not {jobs}")
    first = random.SystemRandom().getrandbits(32) if seed is None else seed
    environment = dict(os.environ)
    package = str(Path(rdmawire.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    running: list[subprocess.Popen[str]] = []
    try:
        for number in range(jobs):
            options = [*arguments, "--report", str(report / f"job-{number + 1}")]
            options += ["--job", str(number)] if own else []
            state = None if corpus is None else corpus / f"job-{number + 1}"
            if state is not None:
                options += [] if own else ["--corpus", str(state)]
                options += ["--resume"] if resume else []
            if seed is not None or state is None or not (resume and (state / "session.json").exists()):
                options += ["--seed", str((first + number) % (1 << 64))]
            if executions:
                options += ["--executions", str(executions // jobs + (number < executions % jobs))]
            running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "rdmawire.fuzz", *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True,
                )  # fmt: skip
            )
        _wait(running, report, stop_at_first, show)
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
        errors = [process.communicate()[1] for process in running]
    failed = [error for process, error in zip(running, errors, strict=True) if process.returncode not in (0, 1)]
    reports = _reports(report)
    if not reports:
        raise (UsageError if any(process.returncode == 2 for process in running) else Error)(_last_line(failed))
    total = combined(reports)
    write_state(report / "report.json", total)
    (report / "report.txt").write_text(report_text(total), encoding="utf-8")
    (report / "index.html").write_text(_core.fuzz.html_of(json.dumps(total), total["target"]), encoding="utf-8")
    if failed:
        print(f"rdmawire.fuzz: {len(failed)} of {jobs} jobs failed: {_last_line(failed)}", file=sys.stderr)
    return total, 3 if failed else int(bool(total["findings"]))


def _last_line(errors: Sequence[str]) -> str:
    lines = [line for error in errors for line in error.splitlines() if line.strip()]
    return lines[-1].removeprefix("rdmawire.fuzz: ") if lines else "no message"


def _wait(
    running: Sequence[subprocess.Popen[str]],
    report: Path,
    stop_at_first: bool,
    show: Callable[[dict[str, Any]], None] | None,
) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        while any(process.poll() is None for process in running):
            if stop_at_first and any(process.poll() == 1 for process in running):
                return
            reports = _reports(report)
            if show is not None and reports:
                show(combined(reports))
            time.sleep(0.2)
