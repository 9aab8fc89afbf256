"""Tests of `rdmawire check` with real and synthesized captures, and of its command line.

expected.json lists all known violations of each real capture (explained in docs/reference/known-deviations.md). A test fails on a
violation that is not listed and on a listed one that is missing. `python3 tests/conformance/check_test.py` regenerates
the file; review the difference before committing it.

Synthesized captures come from tests/analysis/synthesize, whose devices conform to the specification except for injected
faults. The reported violations must be exactly those of the faults.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "differential"), str(ROOT / "tests" / "analysis")]

from captures import all_captures  # noqa: E402
from synthesize import cases  # noqa: E402
from synthesize.capture import save  # noqa: E402
from synthesize.connection import ReliableEndpoint  # noqa: E402
from synthesize.programs import FULL, RDMAWIRE, SEED, no_rdmawire  # noqa: E402

pytestmark = pytest.mark.skipif(bool(no_rdmawire()), reason=no_rdmawire() or "")

EXPECTED = Path(__file__).with_name("expected.json")
VALIDATOR = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "reference" / "schemas" / "check.schema.json").read_text()))
CAPTURES = list(all_captures())


def run(*arguments):
    done = subprocess.run([RDMAWIRE, "check", *map(str, arguments)], capture_output=True, text=True, timeout=600,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def report(*arguments):
    status, out, err = run("--json", *arguments)
    assert status in (0, 1), err
    return json.loads(out)


def violation_counts(found):
    """Count violations: {alias of the rule: [number of endpoints, number of occurrences]}."""
    rows = {}
    for violation in found["violations"]:
        row = rows.setdefault(violation["alias"] or violation["rule"], [0, 0])
        row[0] += 1
        row[1] += violation["count"]
    return dict(sorted(rows.items()))


# ---------------------------------------------------------------------------------------------------------------------
# Real captures


@pytest.mark.parametrize("capture", [pytest.param(c, id=c.name) for c in CAPTURES])
def test_only_known_violations_are_reported(capture):
    found = report(capture.path)
    VALIDATOR.validate(found)
    assert violation_counts(found) == json.loads(EXPECTED.read_text()).get(capture.name, {})


def test_few_inconclusive_results_on_clean_captures():
    """No more than 2 % of the evaluations are inconclusive on complete captures without loss."""
    clean = [c for c in CAPTURES if c.name.startswith(("samples/", "linux-")) and "loss" not in c.name and "siw" not in c.name]
    total = Counter()
    for capture in clean:
        total.update(report(capture.path)["summary"]["evaluations"])
    print(total)
    assert total["inconclusive"] <= 0.02 * sum(total.values())


def test_result_is_independent_of_number_of_threads():
    for capture in CAPTURES:
        if "nvme" in capture.name or "srq" in capture.name or "nccl" in capture.name:
            reports = [report("--threads", threads, capture.path) for threads in (1, 2, 5)]
            assert reports[0] == reports[1] == reports[2], capture.name


# ---------------------------------------------------------------------------------------------------------------------
# Synthesized captures

# Faults of devices or of the last hop, by case name, with the rules that report them.
FAULTS = {
    "wrong_pkey": {"REQ-041"},
    "wrong_segment": {"REQ-006"},
    "wrong_opcode": {"REQ-005"},
    "corrupt_msn": {"RSP-005", "RSP-006", "RSP-007", "RSP-004"},
    "too_many_reads": {"REQ-032"},
    "change_path": {"HDR-010"},
    "sender_ttl_not_masked": {"HDR-014", "HDR-015"},
    "sender_traffic_class_not_masked": {"HDR-014", "HDR-015"},
    "sender_checksum_not_masked": {"HDR-014", "HDR-015"},
    "sender_bth_reserved_not_masked": {"HDR-014", "HDR-015"},
}


def allowed(name):
    return set().union(*(rules for fault, rules in FAULTS.items() if fault in name))


@pytest.mark.parametrize("seed", range(SEED, SEED + (20 if FULL else 2)))
def test_no_false_positives_on_conforming_traffic(seed, tmp_path, monkeypatch):
    monkeypatch.setattr(ReliableEndpoint, "ACKNOWLEDGES_ONLY_SENDS", True)
    manifest = save(cases.make(1_500, seed), tmp_path / "x.pcap", tmp_path / "x.json", seed=seed)
    found = report(tmp_path / "x.pcap")
    names = {c["number"]: c["name"] for c in manifest["connections"]}
    false_positives = []
    for violation in found["violations"]:
        owner = manifest["owners"][violation["frame"] - 1]
        case = names.get(owner, "none")
        if violation["alias"] not in allowed(case):
            false_positives.append((violation["alias"], case, violation["frame"], violation["expected"], violation["actual"]))
    assert not false_positives, false_positives[:10]
    seen = {violation["alias"] for violation in found["violations"]}
    assert {"REQ-005", "REQ-006", "REQ-032", "RSP-005", "HDR-010", "HDR-014"} <= seen


# ---------------------------------------------------------------------------------------------------------------------
# The command line

SAMPLE = ROOT / "captures" / "samples" / "rping.pcap"


def test_exit_status_is_1_for_mandatory_violations():
    assert run(SAMPLE)[0] == 1
    assert run("--rule", "RSP-*", SAMPLE)[0] == 0
    assert run("--rule", "nonsense", SAMPLE)[0] == 2
    assert run("/nonexistent.pcap")[0] == 3


def test_truncated_file_is_an_error_with_report(tmp_path):
    truncated = tmp_path / "truncated.pcap"
    truncated.write_bytes(SAMPLE.read_bytes()[:20_000])
    status, out, err = run(truncated)
    assert status == 3
    assert "truncated.pcap" in err and "evaluations" in out


def test_rule_patterns_select_and_exclude():
    found = report("--rule", "rc.responder.*", "--rule", "!RSP-005", SAMPLE)
    evaluated = {rule["alias"] for rule in found["rules"] if rule["evaluated"]}
    assert "RSP-001" in evaluated and "RSP-005" not in evaluated and "REQ-001" not in evaluated
    should = {rule["level"] for rule in report("--level", "shall", SAMPLE)["rules"] if rule["evaluated"]}
    assert should == {"shall"}


def test_connection_option_checks_one_connection():
    capture = ROOT / "captures" / "samples" / "rc-send.pcap.gz"
    complete = report(capture)
    connections = {v["connection"] for v in complete["violations"] if v["connection"]}
    one = min(connections)
    found = report("--connection", one, capture)
    assert {v["connection"] for v in found["violations"]} == {one}
    assert found["summary"]["connections"] == 1


def test_text_shows_rule_clause_sequence_and_disclaimer():
    _, out, _ = run("--color", "never", "--list-exercised", SAMPLE)
    assert "bth.sender.migration.state-constant" in out and "17.2.8" in out and "VIOLATION" in out
    assert "a ──▶ b" in out and "a ◀── b" in out
    assert "no certification" in " ".join(out.split())
    assert "RSP-005" in out
    quiet = run("--quiet", "--color", "never", SAMPLE)[1]
    assert len(quiet.splitlines()) == report(SAMPLE)["summary"]["violations"]


def test_help_contains_disclaimer():
    out = run("--help")[1]
    assert "not a certification" in " ".join(out.split()) and "UNH-IOL" in out


def test_reads_standard_input():
    done = subprocess.run([RDMAWIRE, "check", "--json", "-"], input=SAMPLE.read_bytes(), capture_output=True, timeout=60,
                          check=False)
    assert violation_counts(json.loads(done.stdout)) == violation_counts(report(SAMPLE))


if __name__ == "__main__":
    known = {c.name: violation_counts(report(c.path)) for c in CAPTURES}
    lines = [f" {json.dumps(name)}: {json.dumps(rows)}" for name, rows in sorted(known.items()) if rows]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
