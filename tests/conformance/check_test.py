"""`rdmawire check`: what it says of real captures, that it blames nobody who behaves, and its command line.

expected.json holds every deviation that is known of each capture (docs/deviations.md explains them); anything else that
is found fails, and so does one that is no longer found. `python3 tests/conformance/check_test.py` writes it anew: read
the difference before it is committed.

Captures without end come from tests/analysis/synthesize, whose devices behave as the specification says but where a case
makes them not: then the violations must be those of that fault, on that connection, and no others.
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
from synthesize.connection import ReliableEnd  # noqa: E402
from synthesize.running import FULL, RDMAWIRE, SEED, no_rdmawire  # noqa: E402

pytestmark = pytest.mark.skipif(bool(no_rdmawire()), reason=no_rdmawire() or "")

EXPECTED = Path(__file__).with_name("expected.json")
VALIDATOR = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "check.schema.json").read_text()))
CAPTURES = list(all_captures())


def run(*arguments):
    done = subprocess.run([RDMAWIRE, "check", *map(str, arguments)], capture_output=True, text=True, timeout=600,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def report(*arguments):
    status, out, err = run("--json", *arguments)
    assert status in (0, 1), err
    return json.loads(out)


def deviations(found):
    """{rule's alias: [how many ends of connections, how often]}."""
    rows = {}
    for violation in found["violations"]:
        row = rows.setdefault(violation["alias"] or violation["rule"], [0, 0])
        row[0] += 1
        row[1] += violation["count"]
    return dict(sorted(rows.items()))


# ---------------------------------------------------------------------------------------------------------------------
# Real captures


@pytest.mark.parametrize("capture", [pytest.param(c, id=c.name) for c in CAPTURES])
def test_only_known_deviations_are_found(capture):
    found = report(capture.path)
    VALIDATOR.validate(found)
    assert deviations(found) == json.loads(EXPECTED.read_text()).get(capture.name, {})


def test_over_clean_captures_little_is_inconclusive():
    """At most 2 % of all evaluations on what was captured whole, without loss."""
    clean = [c for c in CAPTURES if c.name.startswith(("samples/", "linux-")) and "loss" not in c.name and "siw" not in c.name]
    total = Counter()
    for capture in clean:
        total.update(report(capture.path)["summary"]["evaluations"])
    print(total)
    assert total["inconclusive"] <= 0.02 * sum(total.values())


def test_the_result_is_the_same_for_any_number_of_threads():
    for capture in CAPTURES:
        if "nvme" in capture.name or "srq" in capture.name or "nccl" in capture.name:
            reports = [report("--threads", threads, capture.path) for threads in (1, 2, 5)]
            assert reports[0] == reports[1] == reports[2], capture.name


# ---------------------------------------------------------------------------------------------------------------------
# Captures without end

# What a case makes devices, or the network's last hop, do wrong, and which rules say so.
FAULTS = {
    "wrong_pkey": {"REQ-041"},
    "wrong_segment": {"REQ-006"},
    "wrong_opcode": {"REQ-005"},
    "counts_wrongly": {"RSP-005", "RSP-006", "RSP-007", "RSP-004"},
    "too_many_reads": {"REQ-032"},
    "path_changes": {"HDR-010"},
    "sender_ttl_not_masked": {"HDR-014", "HDR-015"},
    "sender_traffic_class_not_masked": {"HDR-014", "HDR-015"},
    "sender_checksum_not_masked": {"HDR-014", "HDR-015"},
    "sender_bth_reserved_not_masked": {"HDR-014", "HDR-015"},
}


def allowed(name):
    return set().union(*(rules for fault, rules in FAULTS.items() if fault in name))


@pytest.mark.parametrize("seed", range(SEED, SEED + (20 if FULL else 2)))
def test_nobody_is_blamed_who_behaves(seed, tmp_path, monkeypatch):
    monkeypatch.setattr(ReliableEnd, "ACKNOWLEDGES_SENDS_ALONE", True)
    manifest = save(cases.make(1_500, seed), tmp_path / "x.pcap", tmp_path / "x.json", seed=seed)
    found = report(tmp_path / "x.pcap")
    names = {c["number"]: c["name"] for c in manifest["connections"]}
    blamed = []
    for violation in found["violations"]:
        owner = manifest["owners"][violation["frame"] - 1]
        case = names.get(owner, "none")
        if violation["alias"] not in allowed(case):
            blamed.append((violation["alias"], case, violation["frame"], violation["expected"], violation["actual"]))
    assert not blamed, blamed[:10]
    seen = {violation["alias"] for violation in found["violations"]}
    assert {"REQ-005", "REQ-006", "REQ-032", "RSP-005", "HDR-010", "HDR-014"} <= seen


# ---------------------------------------------------------------------------------------------------------------------
# The command line

SAMPLE = ROOT / "captures" / "samples" / "rping.pcap"


def test_exit_status_is_1_for_what_a_device_shall_do():
    assert run(SAMPLE)[0] == 1
    assert run("--rule", "RSP-*", SAMPLE)[0] == 0
    assert run("--rule", "nonsense", SAMPLE)[0] == 2
    assert run("/nonexistent.pcap")[0] == 3


def test_a_file_that_ends_early_is_trouble_and_still_reported(tmp_path):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(SAMPLE.read_bytes()[:20_000])
    status, out, err = run(cut)
    assert status == 3
    assert "cut.pcap" in err and "evaluations" in out


def test_rules_are_chosen_and_taken_away():
    found = report("--rule", "rc.responder.*", "--rule", "!RSP-005", SAMPLE)
    judged = {rule["alias"] for rule in found["rules"] if rule["evaluated"]}
    assert "RSP-001" in judged and "RSP-005" not in judged and "REQ-001" not in judged
    should = {rule["level"] for rule in report("--level", "shall", SAMPLE)["rules"] if rule["evaluated"]}
    assert should == {"shall"}


def test_one_connection_is_judged_alone():
    capture = ROOT / "captures" / "samples" / "rc-send.pcap.gz"
    whole = report(capture)
    connections = {v["connection"] for v in whole["violations"] if v["connection"]}
    one = min(connections)
    found = report("--connection", one, capture)
    assert {v["connection"] for v in found["violations"]} == {one}
    assert found["summary"]["connections"] == 1


def test_the_text_shows_rule_clause_ladder_and_that_it_is_no_certification():
    _, out, _ = run("--color", "never", "--list-exercised", SAMPLE)
    assert "bth.sender.migration.state-constant" in out and "17.2.8" in out and "as we read it" in out
    assert "a ──▶ b" in out and "a ◀── b" in out
    assert "no certification" in " ".join(out.split())
    assert "RSP-005" in out
    quiet = run("--quiet", "--color", "never", SAMPLE)[1]
    assert len(quiet.splitlines()) == report(SAMPLE)["summary"]["violations"]


def test_help_says_that_it_certifies_nothing():
    out = run("--help")[1]
    assert "no certification" in " ".join(out.split()) and "UNH-IOL" in out


def test_standard_input_is_read():
    done = subprocess.run([RDMAWIRE, "check", "--json", "-"], input=SAMPLE.read_bytes(), capture_output=True, timeout=60,
                          check=False)
    assert deviations(json.loads(done.stdout)) == deviations(report(SAMPLE))


if __name__ == "__main__":
    known = {c.name: deviations(report(c.path)) for c in CAPTURES}
    lines = [f" {json.dumps(name)}: {json.dumps(rows)}" for name, rows in sorted(known.items()) if rows]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
