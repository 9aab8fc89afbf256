"""The fuzzer from Python: sessions, findings, the command, and the detection of injected faults."""

import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import rdmawire
from rdmawire import fuzz

FULL = bool(os.environ.get("RDMAWIRE_FULL"))
CONCERNS = [fault for fault in fuzz.faults() if fault.concern and not fault.out_of_reach]


def command(*arguments, **options):
    """Run python3 -m rdmawire.fuzz with the package under test."""
    environment = dict(os.environ, PYTHONPATH=str(Path(rdmawire.__file__).parents[1]))
    return subprocess.run(
        [sys.executable, "-m", "rdmawire.fuzz", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, env=environment, **options,
    )


def first_found(fault, seed, executions, plain=False):
    """Return the number of the execution with the first finding, or None."""
    with fuzz.Session(fault.target, seed=seed, plain=plain, stop_at_first=True, minimize=False) as session:
        session.run(executions)
        return session.findings[0].execution if session.findings else None


@pytest.mark.parametrize("target", ["reference", "reference:iwarp"])
def test_conforming_device_gives_no_finding(target):
    for seed in range(1, 11 if FULL else 3):
        with fuzz.Session(target, seed=seed) as session:
            statistics = session.run(executions=200_000 if FULL else 15_000)
            assert session.findings == []
            assert statistics.executions == (200_000 if FULL else 15_000)


def test_finding_is_minimized_and_reproduces():
    with fuzz.Session("reference:ignores-queue-pair-rights", seed=1, stop_at_first=True) as session:
        session.run(executions=50_000)
        (finding,) = session.findings
    assert finding.reproduced
    assert len(finding.script) < len(finding.found)
    assert len(finding.script) <= 4
    replayed = fuzz.replay(finding.script, "reference:ignores-queue-pair-rights")
    assert replayed.alarm is not None
    assert replayed.alarm.signature == finding.signature
    assert fuzz.replay(finding.script).alarm is None
    assert any(frame.sent for frame in replayed.frames)


@pytest.mark.parametrize("family", ["roce", "iwarp"])
@pytest.mark.parametrize("concern", ["memory safety", "authorization", "state"])
def test_most_faults_are_found_within_8000_executions(concern, family):
    """Quick form with one seed. RDMAWIRE_FULL=1 runs test_every_fault_is_found_within_200000_executions."""
    faults = [fault for fault in CONCERNS if (fault.concern, fault.family) == (concern, family)]
    assert len(faults) >= 8
    missed = [fault.name for fault in faults if first_found(fault, 1, 8_000) is None]
    assert len(missed) <= len(faults) // 5, missed


@pytest.mark.skipif(not FULL, reason="takes minutes: RDMAWIRE_FULL=1")
@pytest.mark.parametrize("fault", CONCERNS, ids=lambda fault: fault.target)
def test_every_fault_is_found_within_200000_executions(fault):
    limit = 200_000
    found = sorted(first_found(fault, seed, limit) or limit + 1 for seed in range(1, 11))
    assert (found[4] + found[5]) / 2 <= limit
    with fuzz.Session(fault.target, seed=1, stop_at_first=True) as session:
        session.run(executions=10 * limit)
        assert session.findings[0].reproduced


def test_findings_name_the_violated_rules():
    """Quick form with every sixth fault of the figures in docs/how-to/fuzz-a-device.md."""
    named, right, all_names = 0, 0, 0
    for fault in [fault for fault in CONCERNS if fault.family == "roce"][::6]:
        with fuzz.Session(fault.target, seed=1, stop_at_first=True) as session:
            session.run(executions=8_000)
            for finding in session.findings:
                named += bool(set(finding.rules) & set(fault.rules))
                right += len(set(finding.rules) & set(fault.rules))
                all_names += len(finding.rules)
                assert fault.name in finding.like
    assert named >= 15
    assert right >= 0.9 * all_names


def test_time_limit_includes_minimization():
    with fuzz.Session("reference:naks-every-packet", seed=1) as session:
        assert session.run(seconds=1).seconds < 3
        assert session.findings
        assert all(finding.trials > 0 or not finding.whole for finding in session.findings)


def test_same_seed_gives_the_same_findings():
    def run(seed):
        with fuzz.Session("reference:accepts-bad-icrc", seed=seed) as session:
            session.run(executions=1_000)
            return [(finding.signature, finding.execution, finding.script.to_json()) for finding in session.findings]

    assert run(3) == run(3)


def test_python_mutator_and_oracle():
    seen = []

    def mutator(step):
        return {**step, "psn": 77} if step["do"] == "request" else None

    def oracle(step, frames, states):
        seen.append((step["do"], len(frames), states[0]))
        return "psn 77" if step.get("psn") == 77 else None

    with fuzz.Session(seed=1, mutator=mutator, oracle=oracle, stop_at_first=True) as session:
        session.run(executions=1_000)
        (finding,) = session.findings
    assert finding.oracle == "custom"
    assert finding.actual == "psn 77"
    assert ("connect", 0, "RTS") in seen


def test_python_mutator_and_oracle_for_iwarp():
    def mutator(step):
        return {**step, "msn": 77} if step["do"] == "segment" else None

    def oracle(step, frames, states):
        assert all(isinstance(data, bytes) for data in frames)
        return "msn 77" if step.get("msn") == 77 and states[step.get("at", 0)] != "RTS" else None

    with fuzz.Session("reference:iwarp", seed=1, mutator=mutator, oracle=oracle, stop_at_first=True) as session:
        session.run(executions=1_000)
        (finding,) = session.findings
    assert finding.actual == "msn 77"
    assert finding.script.family == "iwarp"
    assert fuzz.replay(finding.script).alarm is None  # replay() uses only the built-in oracles
    with fuzz.Session("reference:iwarp", mutator=lambda step: {"do": "request"}, minimize=False) as session:
        with pytest.raises(rdmawire.UsageError, match="request is not a step of iwarp"):
            session.run(executions=1_000)


def test_script_of_another_family_is_rejected():
    script = fuzz.Script([{"do": "connect", "depth": 4}, {"do": "segment", "opcode": 3}], family="iwarp")
    assert fuzz.Script.from_json(script.to_json()) == script
    assert "Send" in str(script)
    assert fuzz.replay(script).alarm is None
    with pytest.raises(rdmawire.UsageError, match="reference is roce"):
        fuzz.replay(script, "reference")
    with pytest.raises(rdmawire.UsageError, match="segment is not a step of roce"):
        fuzz.Script([{"do": "segment"}])


def test_callback_exception_is_raised_by_run():
    def oracle(step, frames, states):
        raise ZeroDivisionError("mine")

    with fuzz.Session(seed=1, oracle=oracle, minimize=False) as session, pytest.raises(ZeroDivisionError, match="mine"):
        session.run(executions=100_000)
    with fuzz.Session(seed=1, mutator=lambda step: 3, minimize=False) as session, pytest.raises(rdmawire.UsageError):
        session.run(executions=100_000)


@pytest.mark.parametrize("returned", [True, 5, b"wrong"])
def test_oracle_result_of_wrong_type_is_rejected(returned):
    with fuzz.Session(seed=1, oracle=lambda *_: returned, minimize=False) as session:
        with pytest.raises(rdmawire.UsageError, match="an oracle must return a str or None, not"):
            session.run(executions=500)


def test_session_referenced_by_its_callback_is_freed():
    freed = []

    class Rig:
        def oracle(self, step, frames, states):
            return None

    def run_session(**callbacks):
        rig = Rig()
        rig.session = fuzz.Session(seed=1, oracle=rig.oracle, mutator=lambda step: rig and None)
        rig.session.run(executions=50)
        weakref.finalize(rig.session, freed.append, rig.session.seed)

    for _ in range(3):
        run_session()
    gc.collect()
    assert freed == [1, 1, 1]


def test_single_feedback_kind_can_be_a_string():
    with fuzz.Session(seed=1, feedback="answers") as session:
        assert session.run(executions=50).code_edges is None
    with pytest.raises(rdmawire.UsageError, match='feedback="color"'):
        fuzz.Session(feedback="color")


def test_session_rejects_use_from_its_callback():
    def progress(statistics):
        session.run(executions=1)

    with fuzz.Session(seed=1) as session, pytest.raises(rdmawire.UsageError, match="is running"):
        session.run(seconds=20, progress=progress)


def test_corpus_is_saved_and_resumed(tmp_path):
    with fuzz.Session(seed=5, corpus=tmp_path) as session:
        session.run(executions=300)
    assert list(tmp_path.glob("0*.json"))
    with fuzz.Session(corpus=tmp_path, resume=True) as session:
        assert session.seed == 5
        assert session.run(executions=300).executions == 600
    (tmp_path / "000000.json").write_text("{")
    with pytest.raises(rdmawire.Error, match=r"000000\.json.*remove it"):
        fuzz.Session(seed=5, corpus=tmp_path)


def test_invalid_arguments_are_rejected(tmp_path):
    with pytest.raises(rdmawire.UsageError, match="unknown target"):
        fuzz.Session("nix")
    with pytest.raises(rdmawire.UsageError, match="unknown fault"):
        fuzz.Session("reference:nix")
    with pytest.raises(rdmawire.UsageError, match="requires executions or seconds"):
        fuzz.Session().run()
    with pytest.raises(rdmawire.UsageError, match="64 bits"):
        fuzz.Session(seed=-1)
    with pytest.raises(rdmawire.UsageError, match="64 bits"):
        fuzz.Session().run(executions=10**30)
    with pytest.raises(TypeError, match="target: "):
        fuzz.Session(5)
    with pytest.raises(TypeError, match="oracle: "):
        fuzz.Session(oracle=5)
    with pytest.raises(rdmawire.UsageError, match="unknown step"):
        fuzz.Script([{"do": "fly"}])
    with pytest.raises(rdmawire.UsageError):
        fuzz.Script.from_json("[]")
    session = fuzz.Session()
    session.close()
    session.close()
    with pytest.raises(rdmawire.ClosedError):
        session.run(executions=1)


@pytest.mark.parametrize("reference", ["reference", "reference:iwarp"])
def test_finding_files_of_the_command_reproduce(tmp_path, reference):
    target = f"{reference}:takes-long-responses"
    done = command("--target", target, "--executions", 30_000, "--seed", 1, "--stop-at-first", "--report", tmp_path)
    assert done.returncode == 1, done.stderr
    assert "expected" in done.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["target"] == target
    (finding,) = report["findings"]
    own = tmp_path / finding["directory"]
    environment = dict(os.environ, PYTHONPATH=str(Path(rdmawire.__file__).parents[1]))

    def reproduce(*arguments):
        script = [sys.executable, str(own / "reproduce.py"), *arguments]
        return subprocess.run(script, env=environment, capture_output=True, text=True, timeout=60).returncode

    assert reproduce() == 1
    assert reproduce(reference) == 0
    assert command("--replay", own / "script.json", "--target", target).returncode == 1
    service = "iWARP" if "iwarp" in target else "RC"
    assert f"connections    1 (1 {service})" in str(rdmawire.analyze(own / "capture.pcapng"))
    page = (tmp_path / "index.html").read_text()
    assert f"Fuzzing {target}" in page


def test_exit_status_of_the_command():
    assert command("--executions", 500, "--seed", 1).returncode == 0
    assert command("--target", "nix", "--time", 1).returncode == 2
    assert command("--resume").returncode == 2
    assert command("--replay", "/nonexistent").returncode == 3
    assert "\nreference:bounds-off-by-one " in command("--faults").stdout
    assert "\nreference:iwarp:bounds-off-by-one " in command("--faults").stdout
    assert command("--target", "reference:iwarp", "--executions", 500, "--seed", 1).returncode == 0


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("reference:bounds-off-by-on", "unknown fault .*did you mean bounds-off-by-one"),
        ("reference:ignores-pkey,bounds-off-by-on", "unknown fault .*did you mean bounds-off-by-one"),
        ("referenc", "unknown target .*did you mean reference"),
    ],
)
def test_wrong_target_names_a_similar_one(target, message):
    with pytest.raises(rdmawire.UsageError, match=message):
        fuzz.Session(target)


def test_interrupted_command_prints_the_report():
    import signal
    import time

    environment = dict(os.environ, PYTHONPATH=str(Path(rdmawire.__file__).parents[1]))
    running = subprocess.Popen(
        [sys.executable, "-m", "rdmawire.fuzz", "--time", "60", "--seed", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )
    time.sleep(2)
    running.send_signal(signal.SIGINT)
    out, error = running.communicate(timeout=120)
    assert running.returncode == 0, error
    assert "executions in" in out


def test_examples_of_the_documentation_run():
    text = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "fuzz-a-device.md").read_text(encoding="utf-8")
    examples = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    assert len(examples) == 2
    for example in examples:
        exec(compile(example, "docs/how-to/fuzz-a-device.md", "exec"), {})


def test_rxe_and_siw_findings_pass_on_reference_devices():
    found = sorted((Path(__file__).resolve().parents[2] / "conformance" / "fuzzer" / "found").rglob("*.json"))
    assert len(found) >= 12
    for path in found:
        script = fuzz.Script.from_json(path.read_text(encoding="utf-8"))
        assert fuzz.replay(script).alarm is None, path.name
