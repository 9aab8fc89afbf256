"""State of fuzzer sessions: killed processes, resumption, report directories, groups, jobs, corpora."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import rdmawire
from rdmawire import fuzz

ENVIRONMENT = dict(os.environ, PYTHONPATH=str(Path(rdmawire.__file__).parents[1]))


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "rdmawire.fuzz", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip


def command(*arguments):
    running = start(*arguments)
    out, error = running.communicate(timeout=120)
    return running.returncode, out, error


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "the condition was not met"
        time.sleep(0.05)


def test_killed_session_keeps_findings_and_is_resumed(tmp_path):
    corpus, report = tmp_path / "corpus", tmp_path / "report"
    target = "reference:accepts-bad-icrc"
    running = start("--target", target, "--time", 60, "--seed", 1, "--corpus", corpus, "--report", report)
    saved = report / "report.json"
    wait_for(lambda: saved.exists() and json.loads(saved.read_text())["statistics"]["findings"] >= 2)
    running.kill()
    running.communicate()
    killed = json.loads(saved.read_text())
    assert killed["running"] is True
    for finding in killed["findings"]:
        files = {path.name for path in (report / finding["directory"]).iterdir()}
        assert files == {"script.json", "reproduce.py", "capture.pcapng"}
    state = json.loads((corpus / "session.json").read_text())
    assert {one["signature"] for one in killed["findings"]} <= {one["signature"] for one in state["found"]}
    with fuzz.Session(target, corpus=corpus, resume=True, report=report) as session:
        assert session.seed == 1
        assert session.statistics.executions == state["executions"] > 0
        assert {one["signature"] for one in killed["findings"]} <= {one.signature for one in session.findings}
        session.run(executions=200)
        assert fuzz.status(report)["running"] is False
        session.write(report)
    assert json.loads(saved.read_text())["running"] is False


def test_state_is_saved_while_a_session_without_findings_runs(tmp_path):
    running = start("--time", 60, "--seed", 1, "--corpus", tmp_path)
    state = tmp_path / "session.json"
    wait_for(lambda: state.exists() and json.loads(state.read_text())["executions"] > 0)
    running.kill()
    running.communicate()
    with fuzz.Session(corpus=tmp_path, resume=True) as session:
        assert session.statistics.executions > 0


def test_resume_rejects_another_seed(tmp_path):
    with fuzz.Session(seed=5, corpus=tmp_path) as session:
        session.run(executions=20)
    with pytest.raises(rdmawire.UsageError, match="is a session with seed 5, not 6; omit the seed"):
        fuzz.Session(seed=6, corpus=tmp_path, resume=True)
    status, _, error = command("--corpus", tmp_path, "--resume", "--seed", 6, "--executions", 10)
    assert (status, "with seed 5" in error) == (2, True)
    assert command("--corpus", tmp_path, "--resume", "--executions", 10)[0] == 0


def test_corpus_is_used_by_one_session_at_a_time(tmp_path):
    with fuzz.Session(seed=1, corpus=tmp_path) as session:
        session.run(executions=10)
        with pytest.raises(rdmawire.UsageError, match="is used by another session"):
            fuzz.Session(seed=2, corpus=tmp_path)
        assert command("--corpus", tmp_path, "--executions", 10)[0] == 2
    fuzz.Session(seed=2, corpus=tmp_path).close()


def test_report_directory_contains_one_session(tmp_path):
    with fuzz.Session(seed=1) as session:
        session.run(executions=10)
        session.write(tmp_path)
        session.write(tmp_path)
    before = (tmp_path / "report.json").read_bytes()
    with fuzz.Session(seed=1) as session:
        session.run(executions=10)
        with pytest.raises(rdmawire.UsageError, match="contains the report of another session"):
            session.write(tmp_path)
    with pytest.raises(rdmawire.UsageError, match="contains the report of another session"):
        fuzz.Session(seed=1, report=tmp_path)
    assert command("--executions", 10, "--report", tmp_path)[0] == 2
    assert (tmp_path / "report.json").read_bytes() == before


def test_results_are_readable_during_a_run():
    seen = []

    def read():
        while not done.is_set():
            seen.append((session.statistics.executions, len(session.findings), len(session.groups)))
            time.sleep(0.01)

    done = threading.Event()
    with fuzz.Session("reference:accepts-bad-icrc", seed=1) as session:
        reader = threading.Thread(target=read)
        reader.start()
        session.run(seconds=3)
        done.set()
        reader.join()
        last = session.statistics.executions
    assert 0 < seen[len(seen) // 2][0] <= last
    assert any(0 < findings for executions, findings, _ in seen if executions < last)


def test_status_of_a_running_session(tmp_path):
    running = start("--time", 60, "--seed", 1, "--target", "reference:naks-every-packet", "--report", tmp_path)
    wait_for(lambda: (tmp_path / "report.json").exists() and fuzz.status(tmp_path)["findings"])
    status, out, _ = command("--status", tmp_path)
    assert (status, "running" in out, "01-" in out) == (0, True, True)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=120)
    assert fuzz.status(tmp_path)["running"] is False
    with pytest.raises(rdmawire.UsageError, match="contains no report"):
        fuzz.status(tmp_path / "none")


def test_findings_of_four_faults_form_four_groups():
    faults = ["accepts-bad-icrc", "bounds-off-by-one", "executes-duplicates", "naks-every-packet"]
    with fuzz.Session(f"reference:{','.join(faults)}", seed=1) as session:
        session.run(executions=6_000)
        groups, findings = session.groups, session.findings
        report, text = session.to_dict(), session.report()
    assert len(findings) >= 13
    assert sorted(group.cause for group in groups) == [f"like the fault {fault}" for fault in faults]
    assert sum(len(group.findings) for group in groups) == len(findings)
    assert all(group.rules for group in groups)
    assert [group["cause"] for group in report["groups"]] == [group.cause for group in groups]
    assert f"{len(findings)} findings, probably of 4 causes" in text


def test_jobs_write_one_report(tmp_path):
    report, corpus = tmp_path / "report", tmp_path / "corpus"
    options = ["--target", "reference:bounds-off-by-one", "--jobs", 2, "--report", report, "--corpus", corpus]
    status, out, error = command(*options, "--executions", 3_000, "--seed", 3)
    assert status == 1, error
    total = json.loads((report / "report.json").read_text())
    assert total["statistics"]["executions"] == 3_000
    assert total["seeds"] == [3, 4]
    signatures = [finding["signature"] for finding in total["findings"]]
    assert len(set(signatures)) == len(signatures)
    for finding in total["findings"]:
        assert (report / finding["directory"] / "script.json").exists()
        assert finding["signature"] in out
    assert sorted(index for group in total["groups"] for index in group["findings"]) == list(range(len(signatures)))
    assert command(*options, "--executions", 100)[0] == 2  # the report belongs to another session
    assert command(*options, "--executions", 100, "--resume")[0] == 1
    assert fuzz.status(report)["statistics"]["executions"] == 3_100
    status, _, error = command("--target", "reference:nix", "--jobs", 2, "--executions", 10)
    assert (status, "unknown fault" in error) == (2, True)


def corpus_files(directory):
    return sorted(path.name for path in directory.glob("[0-9]*.json"))


def test_corpora_are_merged_and_minimized(tmp_path):
    one, two, both = tmp_path / "one", tmp_path / "two", tmp_path / "both"
    for seed, corpus in ((1, one), (2, two)):
        with fuzz.Session(seed=seed, corpus=corpus) as session:
            session.run(executions=150)
    before, after = fuzz.merge_corpus(both, [one, two])
    assert before == 0
    assert after > len(corpus_files(one))
    assert corpus_files(both) == [f"{number:06}.json" for number in range(1, after + 1)]
    assert fuzz.merge_corpus(both, [one, two]) == (after, after)
    # A script that is the beginning of another script reaches no additional edge.
    longest = max((json.loads(path.read_text()) for path in both.glob("0*.json")), key=lambda one: len(one["steps"]))
    start = {**longest, "steps": longest["steps"][:2]}
    (both / f"{after + 1:06}.json").write_text(json.dumps(start))
    assert fuzz.minimize_corpus(both) == (after + 1, after)
    assert len(corpus_files(both)) == after

    def all_edges(corpus):
        with fuzz.Session() as session:
            scripts = [fuzz.Script.from_json((corpus / name).read_text()) for name in corpus_files(corpus)]
            return frozenset().union(*map(session.edges_of, scripts))

    assert all_edges(one) | all_edges(two) == all_edges(both)
    status, out, error = command("--corpus", both, "--merge", one, "--minimize-corpus")
    assert status == 0, error
    assert f"{after} scripts before, {after} after" in out
    with pytest.raises(rdmawire.UsageError, match="is not a directory"):
        fuzz.merge_corpus(both, [tmp_path / "none"])
