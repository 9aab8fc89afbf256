"""scripts/blind-faults: the score of faults with a small program instead of rdmawire."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "blind-faults"

PROGRAM = '''#!{python}
import json, pathlib, sys
FAULTS = [("eats-bytes", "RoCE", "memory"), ("hides-well", "RoCE", "memory"), ("cuts-fpdus", "iWARP", "MPA")]
with pathlib.Path({calls!r}).open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
arguments = sys.argv[2:]
fault = arguments[arguments.index("--fault") + 1] if "--fault" in arguments else ""
if fault == "list":
    print(json.dumps({{"seeded": [], "blind": [
        {{"name": name, "family": family, "area": area, "behavior": "b", "trigger": "t", "round": 1, "date": "2026-11-28"}}
        for name, family, area in FAULTS]}}))
    sys.exit(0)
if fault == "cuts-fpdus" and {broken}:
    print("no device", file=sys.stderr)
    sys.exit(3)
fails = {{"eats-bytes": "rc.one", "cuts-fpdus": "fpdu.one"}}.get(fault)
verdict = lambda case: "fail" if case in (fails, "rc.always") else "inconclusive" if fault and case == "rc.two" else "pass"
print(json.dumps({{"cases": [{{"id": case, "rule": case, "verdict": verdict(case), "observed": []}}
                            for case in ("rc.one", "rc.two", "rc.always", "mpa.one", "fpdu.one")]}}))
'''


class Run:
    def __init__(self, directory, broken=False):
        self.calls, self.output, self.program = directory / "calls", directory / "results.json", directory / "program"
        self.calls.write_text("")
        self.write(broken)

    def write(self, broken):
        self.program.write_text(PROGRAM.format(python=sys.executable, calls=str(self.calls), broken=broken))
        os.chmod(self.program, 0o755)

    def __call__(self, *arguments, status=0):
        done = subprocess.run([sys.executable, SCRIPT, "--program", self.program, "--output", self.output, *arguments],
                              capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        return done

    def results(self):
        return json.loads(self.output.read_text())


def test_counts_only_new_failures(tmp_path):
    run = Run(tmp_path)
    assert "2 of 3 blind faults found" in run("--jobs", "2").stdout
    results = run.results()
    assert results["score"] == {"faults": 3, "found": 2}
    assert results["areas"] == {"memory": {"faults": 2, "found": 1}, "MPA": {"faults": 1, "found": 1}}
    assert {fault["name"]: fault["cases"] for fault in results["faults"]} == {
        "eats-bytes": ["rc.one"], "hides-well": [], "cuts-fpdus": ["fpdu.one"]}
    calls = run.calls.read_text()
    assert "--fault cuts-fpdus --only fpdu.* --only mpa.*" in calls and "--fault eats-bytes --only rc.*" in calls


def test_continues_interrupted_run(tmp_path):
    run = Run(tmp_path)
    run("--name", "eats-bytes")
    run.calls.write_text("")
    run()
    calls = run.calls.read_text()
    assert "--fault eats-bytes" not in calls and "--fault hides-well" in calls
    assert run.results()["score"] == {"faults": 3, "found": 2}
    run.calls.write_text("")
    run("--", "--repeat", "2")  # other options: all faults run again
    assert "--repeat 2 --fault eats-bytes" in run.calls.read_text()


def test_reports_fault_that_did_not_run(tmp_path):
    run = Run(tmp_path, broken=True)
    done = run(status=1)
    assert "cuts-fpdus" in done.stderr and "no device" in done.stderr
    assert run.results()["score"] == {"faults": 2, "found": 1}
    assert run.results()["table"] == 3


@pytest.mark.parametrize(("arguments", "message"), [
    (["--name", "nothing"], "unknown blind fault nothing"),
    (["--area", "nowhere"], "unknown area nowhere"),
    (["--program", "/none"], "/none is missing"),
    (["--jobs", "0"], "--jobs must be at least 1"),
    (["--seed", "0"], "--seed must be at least 1"),
])
def test_bad_arguments_exit_with_status_2(tmp_path, arguments, message):
    assert message in Run(tmp_path)(*arguments, status=2).stderr


def test_damaged_results_exit_with_status_2(tmp_path):
    run = Run(tmp_path)
    for content, message in (("{", "cannot read"), ("[]", "not a result file")):
        run.output.write_text(content)
        assert message in run(status=2).stderr
