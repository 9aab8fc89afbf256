"""`rdmawire certify --device lab:rxe`: the complete suite with real kernels, compared with their known results.

RDMAWIRE_LAB=1 uses the kernel of the Debian release. RDMAWIRE_FULL=1 also uses the newest kernel and compares both with
the kernel's history.
"""

import json
import os
import pathlib
import re
import subprocess

import pytest

import switch_faults

ROOT = pathlib.Path(__file__).resolve().parents[2]
RDMAWIRE = switch_faults.RDMAWIRE
FULL = os.environ.get("RDMAWIRE_FULL") == "1"
LAB = FULL or os.environ.get("RDMAWIRE_LAB") == "1"

pytestmark = [
    pytest.mark.skipif(not pathlib.Path(RDMAWIRE).exists(), reason=f"requires the command, built at {RDMAWIRE}"),
    pytest.mark.skipif(not LAB, reason="requires RDMAWIRE_LAB=1, because it boots virtual machines"),
]
needs_full = pytest.mark.skipif(not FULL, reason="requires RDMAWIRE_FULL=1, because it runs all cases on two kernels")

DEVIATIONS = {"fail", "fail-wrong-code"}
KNOWN = {"debian": "rxe-6.1", "newest": "rxe-7.2"}
# embargo/expected contains results that are not published yet, by kernel. Without this directory, they are unexpected.
WITHHELD = ROOT / "embargo" / "expected"
WITHHELD_COUNT = 5
# Changes between 6.1.192 and 7.2.13 according to linux-rdma (docs/reference/known-deviations.md): rules whose violations
# were all fixed, rules of new features, and rules with a new violation.
FIXED = ["RSP-026", "RSP-027", "RSP-028", "RSP-030", "RSP-038", "RSP-069", "REQ-044", "UD-007"]
ADDED = ["RSP-061", "RSP-062", "RSP-063", "RSP-064"]
BROKEN = ["QPS-010"]


def certify(*arguments, timeout=7200):
    return subprocess.run([RDMAWIRE, "certify", "--device", "lab:rxe", *arguments],
                          capture_output=True, text=True, timeout=timeout)  # fmt: skip


class Runs:
    """Runs of the complete suite, one per kernel, started at first use."""

    def __init__(self, directory):
        self.directory, self.reports = directory, {}

    def of(self, kernel):
        if kernel not in self.reports:
            directory = self.directory / kernel
            withheld = WITHHELD / f"{KNOWN[kernel]}.json"
            run = certify("--kernel", kernel, "--report", str(directory), *(["--dangerous"] if FULL else []),
                          *(["--expected", str(withheld)] if withheld.exists() else []))  # fmt: skip
            assert run.returncode in (0, 1), run.stderr[-4000:]
            report = json.loads((directory / "report.json").read_text())
            self.reports[kernel] = (run, report)
        return self.reports[kernel]

    def verdicts(self, kernel, alias):
        return {case["verdict"] for case in self.of(kernel)[1]["cases"] if case["alias"] == alias}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("certify"))


def unexpected_results(text):
    return len(re.findall(r"^(?: +|certify: )UNEXPECTED", text, re.MULTILINE))


def check_known_results(run, report):
    unexpected = unexpected_results(run.stdout)
    assert unexpected <= (0 if WITHHELD.exists() else WITHHELD_COUNT), run.stdout[-8000:] + run.stderr[-2000:]
    assert run.returncode == (1 if unexpected else 0), run.stderr[-2000:]
    assert len(report["cases"]) > 500
    counts = {}
    for case in report["cases"]:
        counts[case["verdict"]] = counts.get(case["verdict"], 0) + 1
    assert counts["pass"] > 350, counts
    assert "error" not in counts, counts


def test_release_kernel_has_known_results(runs):
    check_known_results(*runs.of("debian"))


@needs_full
def test_newest_kernel_has_known_results(runs):
    run, report = runs.of("newest")
    if "nothing is known of" in run.stderr:
        pytest.skip("Debian has a newer kernel by now: " + report["details"])
    check_known_results(run, report)


@needs_full
def test_verdicts_change_with_kernel_history(runs):
    for alias in FIXED:
        assert runs.verdicts("debian", alias) & DEVIATIONS, alias
        assert not runs.verdicts("newest", alias) & DEVIATIONS, alias
    for alias in ADDED:
        assert runs.verdicts("debian", alias) == {"unsupported"}, alias
        assert runs.verdicts("newest", alias) == {"pass"}, alias
    for alias in BROKEN:
        assert runs.verdicts("debian", alias) == {"pass"}, alias
        assert runs.verdicts("newest", alias) & DEVIATIONS, alias


def test_known_results_can_be_disabled_and_overridden(tmp_path):
    def expecting(cases):
        path = tmp_path / "expected.json"
        path.write_text(json.dumps({"format": 1, "device": "rxe", "cases": cases}))
        return ["--expected", str(path)]

    reserved = ["--only", "HDR-038", "--only", "rc.responder.length.receive-too-small"]
    assert certify(*reserved).returncode == 0
    without = certify(*reserved, "--no-expected")
    assert without.returncode == 1
    assert unexpected_results(without.stdout) == 5, without.stdout
    # User-specified results take precedence. An unexpected pass is also reported.
    overruled = certify(*reserved, *expecting({"HDR-038": {"verdict": "pass", "reason": "recomputed here"}}))
    assert overruled.returncode == 1
    assert overruled.stdout.count("UNEXPECTED: the known result is pass: recomputed here") == 3, overruled.stdout
    passes = certify("--only", "rc.responder.psn.sequence-error",
                     *expecting({"RSP-009": {"verdict": "fail", "reason": "never seen"}}))  # fmt: skip
    assert passes.returncode == 1, passes.stdout
