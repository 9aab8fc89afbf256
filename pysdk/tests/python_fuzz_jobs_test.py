"""Jobs of the fuzzer with user-defined targets: python3 -m rdmawire.fuzz --session FILE --jobs N."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rdmawire
from rdmawire import fuzz
from rdmawire.fuzz.statefiles import lock_directory

ENVIRONMENT = dict(os.environ, PYTHONPATH=str(Path(rdmawire.__file__).parents[1]))
SESSION = """
import os
import sys
import time
from pathlib import Path
from rdmawire import fuzz

class Echo:
    def __init__(self, job):
        self.job = job

    def reset(self):
        self.answers = []

    def send(self, data):
        if len(data) < 4:
            raise ConnectionResetError("too short")
        self.answers.append(data)

    def receive(self, timeout):
        return self.answers.pop() if self.answers else None

def session(job, **options):
    Path(__file__).with_name(f"started-{job}").touch()
    return fuzz.MessageSession(Echo(job), [b"abcdef"], timeout=0, **options)

class Silent(Echo):
    def send(self, data):
        pass

def silent(job, **options):
    return fuzz.MessageSession(Silent(job), [b"abcdef"], timeout=0, **options)

class Failing:
    # A monitor with an error at one execution.
    def __init__(self, error, execution=20):
        self.error, self.left = error, execution

    def __call__(self, exchange):
        self.left -= 1
        if self.left == 0:
            raise self.error

def crashing(job, **options):
    return fuzz.MessageSession(Silent(job), [b"abcdef"], timeout=0, monitors=[Failing(KeyError("mine"))], **options)

def leaving(job, **options):
    return fuzz.MessageSession(Silent(job), [b"abcdef"], timeout=0, monitors=[Failing(SystemExit(0))], **options)

def vanishing(job, **options):
    def vanish(exchange):
        os._exit(0)
    return fuzz.MessageSession(Silent(job), [b"abcdef"], timeout=0, monitors=[vanish], **options)

def invalid(job, **options):
    raise ValueError("no such target")

def loud(job, **options):
    def log(exchange):
        print("x" * 200, file=sys.stderr)
    return fuzz.MessageSession(Silent(job), [b"abcdef"], timeout=0, monitors=[log], **options)

class Broken(Echo):
    def send(self, data):
        raise ConnectionResetError("always")

def slow(job, **options):
    if job:
        time.sleep(60)
    return fuzz.MessageSession(Broken(job), [b"abcdef"], timeout=0, **options)

def several(job, **options):
    return fuzz.MessageSession((Broken if job == 9 else Silent)(job), [b"abcdef"], timeout=0, **options)

def third(job, **options):
    if job == 1 and not Path(__file__).with_name("ready").exists():
        raise OSError("not ready")
    return fuzz.MessageSession(Silent(job), [b"abcdef"], timeout=0, **options)

def wrong(job, **options):
    return 5

def broken(job, **options):
    raise OSError(f"job {job} has no target")
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(SESSION)
    return path


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "rdmawire.fuzz", *map(str, arguments)],
        capture_output=True, text=True, env=ENVIRONMENT, timeout=300,
    )  # fmt: skip


def test_jobs_of_an_own_target_have_one_report(source, tmp_path):
    report = tmp_path / "report"
    done = command("--session", source, "--jobs", 3, "--executions", 601, "--seed", 7, "--report", report)
    assert done.returncode == 1, done.stderr
    assert "Echo, 3 jobs with the seeds 7, 8, 9: 601 executions" in done.stdout
    assert "cases in the corpora" in done.stdout
    assert [(tmp_path / f"started-{job}").exists() for job in range(3)] == [True] * 3
    total = json.loads((report / "report.json").read_text())
    assert total["seeds"] == [7, 8, 9] and not total["running"]
    jobs = [json.loads((report / f"job-{number}" / "report.json").read_text()) for number in (1, 2, 3)]
    assert [one["statistics"]["executions"] for one in jobs] == [201, 200, 200]
    signatures = {finding["signature"] for one in jobs for finding in one["findings"]}
    assert {finding["signature"] for finding in total["findings"]} == signatures
    for finding in total["findings"]:
        assert finding["times"] == sum(
            one["times"] for job in jobs for one in job["findings"] if one["signature"] == finding["signature"]
        )
        assert (report / finding["directory"] / "case.json").exists()
    assert "Fuzzing Echo" in (report / "index.html").read_text()
    assert len(total["groups"]) == 1
    again = command("--session", source, "--jobs", 3, "--executions", 30, "--report", report)
    assert again.returncode == 2 and "another session" in again.stderr
    resumed = command("--session", source, "--jobs", 3, "--executions", 30, "--report", report, "--resume")
    assert resumed.returncode == 1 and "631 executions" in resumed.stdout
    other = command("--session", source, "--jobs", 2, "--executions", 30, "--report", report, "--resume")
    assert other.returncode == 2 and "session with 3 jobs, not 2" in other.stderr


def test_job_finds_the_same_as_a_session_with_its_seed(source, tmp_path):
    command("--session", source, "--jobs", 2, "--executions", 400, "--seed", 5, "--report", tmp_path / "jobs")
    command("--session", source, "--executions", 200, "--seed", 6, "--report", tmp_path / "alone")
    job = fuzz.status(tmp_path / "jobs" / "job-2")
    alone = fuzz.status(tmp_path / "alone")
    assert [one["case"] for one in job["findings"]] == [one["case"] for one in alone["findings"]] != []


def test_session_without_findings_has_status_0(source):
    done = command("--session", f"{source}:silent", "--executions", 3, "--seed", 1)
    assert (done.returncode, done.stderr) == (0, "") and "3 executions" in done.stdout


def test_status_of_running_and_killed_jobs(source, tmp_path):
    report = tmp_path / "report"
    running = subprocess.Popen(
        [sys.executable, "-m", "rdmawire.fuzz", "--session", source, "--jobs", "2", "--time", "120", "--report", report],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and len(list(report.glob("job-*/report.json"))) < 2:
            time.sleep(0.2)
        state = fuzz.status(report)
        assert state["running"] and state["jobs"] == 2
        running.send_signal(signal.SIGINT)
        out, error = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 1, error
    assert "2 jobs" in out and not fuzz.status(report)["running"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--session", "{dir}/none.py"], 3, "none.py"),
        (["--session", "{own}:nothing"], 2, "has no function nothing"),
        (["--session", "{own}:wrong"], 2, "must return a fuzz.MessageSession, got int"),
        (["--session", "{own}:broken", "--jobs", "2"], 3, "has no target"),
        (["--session", "{own}", "--target", "reference"], 2, "--session and --target exclude each other"),
        (["--session", "{own}", "--corpus", "x"], 2, "--session and --corpus exclude each other"),
        (["--session", "{own}", "--resume"], 2, "requires --report"),
    ],
)
def test_wrong_sessions_are_reported(source, arguments, status, message):
    done = command(*(one.format(own=source, dir=source.parent) for one in arguments), "--executions", 10)
    assert done.returncode == status and message in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("function", "message"),
    [("crashing", "KeyError: 'mine'"), ("leaving", "SystemExit: 0"), ("invalid", "ValueError: no such target")],
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_error_of_a_session_has_status_3(source, function, message, jobs):
    done = command("--session", f"{source}:{function}", "--jobs", jobs, "--executions", 200, "--stop-at-first")
    assert done.returncode == 3 and message in done.stderr, done
    assert ("executions in" in done.stdout) == (function != "invalid")


def test_job_that_ends_without_its_report_has_failed(source):
    done = command("--session", f"{source}:vanishing", "--jobs", 2, "--executions", 200)
    assert done.returncode == 3 and "no message" in done.stderr, done


def test_standard_error_of_jobs_does_not_block_them(source):
    done = command("--session", f"{source}:loud", "--jobs", 2, "--executions", 4000)
    assert done.returncode == 0 and "4000 executions" in done.stdout, done


def test_first_finding_ends_jobs_that_still_start(source):
    began = time.monotonic()
    done = command("--session", f"{source}:slow", "--jobs", 3, "--executions", 300, "--stop-at-first")
    assert (done.returncode, done.stderr) == (1, "") and time.monotonic() - began < 55
    assert "ConnectionResetError: always" in done.stdout


def test_sigterm_ends_the_jobs(source, tmp_path):
    report = tmp_path / "report"
    running = subprocess.Popen(
        [sys.executable, "-m", "rdmawire.fuzz", "--session", f"{source}:silent", "--jobs", "2", "--time", "100"]
        + ["--report", report], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and len(list(report.glob("job-*/report.json"))) < 2:
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        out, error = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 143, error
    assert "2 jobs" in out and not fuzz.status(report)["running"]
    for number in (1, 2):  # the jobs have released their locks
        lock_directory(report / f"job-{number}").close()


def test_each_job_needs_an_execution(source):
    done = command("--session", source, "--jobs", 3, "--executions", 2)
    assert done.returncode == 2 and "2 executions for 3 jobs" in done.stderr


def test_reports_name_the_directories_of_eleven_jobs(source, tmp_path):
    done = command("--session", f"{source}:several", "--jobs", 11, "--executions", 11, "--seed", 1, "--report", tmp_path / "r")
    assert done.returncode == 1, done.stderr
    assert f"seeds {', '.join(map(str, range(1, 12)))}:" in done.stdout
    (finding,) = fuzz.status(tmp_path / "r")["findings"]
    assert finding["directory"].startswith("job-10/findings/")
    assert (tmp_path / "r" / finding["directory"] / "case.json").exists()


def test_resumption_starts_a_job_that_had_not_started(source, tmp_path):
    options = ["--session", f"{source}:third", "--jobs", 3, "--executions", 30, "--report", tmp_path / "report"]
    done = command(*options)
    assert done.returncode == 3 and "1 of 3 jobs failed: not ready" in done.stderr and "20 executions" in done.stdout
    (tmp_path / "ready").touch()
    done = command(*options, "--resume")
    assert done.returncode == 0 and "50 executions" in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["report.json", "report.txt", "index.html"])
def test_report_does_not_replace_other_files(source, tmp_path, name):
    site = tmp_path / "site"
    site.mkdir()
    (site / name).write_text("mine")
    for jobs in (1, 2):
        done = command("--session", f"{source}:silent", "--jobs", jobs, "--executions", 4, "--report", site)
        assert done.returncode == 2 and f"contains {name}" in done.stderr
    assert (site / name).read_text() == "mine"


def test_report_directory_of_jobs_is_locked(source, tmp_path):
    (tmp_path / "report").mkdir()
    with lock_directory(tmp_path / "report"):
        done = command("--session", source, "--jobs", 2, "--executions", 4, "--report", tmp_path / "report")
    assert done.returncode == 2 and "is used by another session" in done.stderr


CONFIGURED = """
from __future__ import annotations
import pickle
from dataclasses import dataclass
from rdmawire import fuzz

@dataclass
class Settings:
    port: int = 5

class Configured:
    def reset(self):
        assert pickle.loads(pickle.dumps(Settings())) == Settings()

    def send(self, data):
        pass

    def receive(self, timeout):
        return None

def session(job, **options):
    return fuzz.MessageSession(Configured(), [b"abcdef"], timeout=0, **options)
"""


def test_session_file_may_contain_dataclasses(tmp_path):
    (tmp_path / "configured.py").write_text(CONFIGURED)
    done = command("--session", tmp_path / "configured.py", "--executions", 4)
    assert (done.returncode, done.stderr) == (0, "")


def test_corpora_of_jobs_are_merged(tmp_path):
    jobs, merged = tmp_path / "jobs", tmp_path / "merged"
    done = command("--jobs", 2, "--executions", 400, "--corpus", jobs, "--report", tmp_path / "report", "--seed", 1)
    assert done.returncode == 0, done.stderr
    scripts = len(list(jobs.glob("job-*/[0-9]*.json")))
    done = command("--corpus", merged, "--merge", jobs)
    assert done.returncode == 0 and 0 < len(list(merged.glob("[0-9]*.json"))) <= scripts
    done = command("--corpus", jobs, "--minimize-corpus")
    assert done.returncode == 2 and "contains the corpora of jobs" in done.stderr
