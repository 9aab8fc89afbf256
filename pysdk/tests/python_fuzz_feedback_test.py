"""Feedback of the fuzzer: responses, code coverage of the device, monitors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import rdmawire
from rdmawire import fuzz

TARGETS = ["reference", "reference:iwarp"]


def run_elsewhere(target, corpus):
    """Run a session in another process, where addresses differ. Return its counters."""
    program = (
        "import sys\nfrom rdmawire import fuzz\n"
        "with fuzz.Session(sys.argv[1], seed=9, corpus=sys.argv[2]) as s:\n"
        "    t = s.run(executions=600)\n"
        "    print(t.edges, t.code_edges, t.monitor_edges, t.corpus)\n"
    )
    environment = dict(os.environ, PYTHONPATH=str(Path(rdmawire.__file__).parents[1]))
    done = subprocess.run(
        [sys.executable, "-c", program, target, str(corpus)],
        capture_output=True, text=True, timeout=120, env=environment, check=True,
    )
    return done.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_coverage_grows_and_is_reported(target):
    with fuzz.Session(target, seed=1) as session:
        assert session.offers_code
        early = session.run(executions=100)
        late = session.run(executions=2_000)
        assert early.code_edges > 1_000
        assert late.code_edges > early.code_edges
        assert late.monitor_edges > early.monitor_edges > 0
        report = session.to_dict()
        assert f"{late.code_edges} edges of the device's code" in session.report()
    assert report["statistics"]["code_edges"] == late.code_edges
    assert report["statistics"]["monitor_edges"] == late.monitor_edges
    assert report["feedback"] == {"answers": True, "code": True, "monitors": True, "code_offered": True}


@pytest.mark.parametrize("target", TARGETS)
def test_same_seed_reaches_the_same_edges_in_each_process(target, tmp_path):
    counters = {run_elsewhere(target, tmp_path / str(i)) for i in range(2)}
    with fuzz.Session(target, seed=9, corpus=tmp_path / "here") as session:
        s = session.run(executions=600)
        counters.add(f"{s.edges} {s.code_edges} {s.monitor_edges} {s.corpus}\n")
    assert len(counters) == 1, counters
    sessions = [json.loads((tmp_path / name / "session.json").read_text()) for name in ("0", "1", "here")]
    for session in sessions:
        assert session.pop("seconds") > 0  # only the duration and the ID differ
        assert session.pop("id")
    assert sessions[0] == sessions[1] == sessions[2]
    scripts = [sorted(path.read_text() for path in (tmp_path / name).glob("0*.json")) for name in ("0", "here")]
    assert scripts[0] == scripts[1] != []


def test_each_kind_of_feedback_can_be_disabled():
    def run(**options):
        with fuzz.Session(seed=1, **options) as session:
            return session.run(executions=3_000)

    none = run(feedback=[])
    assert (none.corpus, none.code_edges, none.monitor_edges) == (0, None, None)
    assert none.edges > 0
    code = run(feedback=["code"])
    assert 0 < code.corpus < run().corpus
    assert code.monitor_edges is None
    counted = run(feedback=["code"], count_all=True)
    assert counted.corpus == code.corpus
    assert counted.code_edges == code.code_edges
    assert counted.monitor_edges > 0
    with pytest.raises(rdmawire.UsageError, match="expected answers, code or monitors"):
        fuzz.Session(feedback=["luck"])


def test_resumed_session_has_the_saved_edges(tmp_path):
    with fuzz.Session(seed=5, corpus=tmp_path) as session:
        before = session.run(executions=300)
    with fuzz.Session(corpus=tmp_path, resume=True) as session:
        after = session.statistics
        assert (after.edges, after.code_edges, after.monitor_edges) == (
            before.edges, before.code_edges, before.monitor_edges,
        )
        assert session.run(executions=2_000).code_edges >= before.code_edges


def test_feedback_option_of_the_command():
    environment = dict(os.environ, PYTHONPATH=str(Path(rdmawire.__file__).parents[1]))

    def command(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "rdmawire.fuzz", "--executions", "200", "--seed", "1", *arguments],
            capture_output=True, text=True, timeout=120, env=environment,
        )

    assert "edges of the device's code; " in command().stdout
    code_only = command("--feedback", "code").stdout
    assert "edges of the device's code; the monitors: not counted" in code_only
    assert " 0 scripts in the corpus" in command("--feedback", "none").stdout
    assert command("--feedback", "luck").returncode == 2
