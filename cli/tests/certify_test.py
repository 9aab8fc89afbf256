"""certify as its users meet it, against the reference device: sound, and broken on purpose."""

import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason=f"needs the command: {COMMAND} is not built")

GAP = "rc.responder.psn.sequence-error"


def certify(*arguments, status=0):
    done = subprocess.run([COMMAND, "certify", *map(str, arguments)], timeout=120, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def test_help():
    text = certify("--help").stdout
    assert "Examples:" in text and "Exit status" in text and "No certification by IBTA" in text


def test_the_list_names_rules_and_clauses():
    text = certify("--list", "--only", "RSP-009").stdout
    assert GAP in text and "9.7.5.2.2" in text and "shall" in text


def test_the_reference_device_passes_and_the_report_says_so(tmp_path):
    text = certify("--only", "RSP-009", "--only", "RSP-011", "--seed", 5, "--report", tmp_path / "out").stdout
    assert re.search(r"^\d+ cases? in .* s: \d+ pass; reference, seed 5$", text, re.M), text
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["format"] == 1 and report["seed"] == 5
    assert {case["verdict"] for case in report["cases"]} == {"pass"}
    assert all((tmp_path / "out" / "captures" / f"{GAP}.pcapng").stat().st_size for case in report["cases"])
    suites = ElementTree.parse(tmp_path / "out" / "junit.xml").getroot()
    assert sum(int(suite.get("tests")) for suite in suites) == len(report["cases"])
    assert not list(suites.iter("failure"))


def test_the_same_seed_says_the_same(tmp_path):
    first, second = (json.loads(certify("--only", "RSP-009", "--seed", 9, "--json").stdout) for _ in range(2))
    assert first == second


def test_a_broken_device_deviates_and_its_capture_shows_where(tmp_path):
    text = certify("--only", "RSP-009", "--fault", "naks-every-packet", "--report", tmp_path, status=1).stdout
    assert "deviates from" in text and "as we read it" in text
    assert "expected  silence" in text and "NAK PSN sequence error" in text and "UNEXPECTED" in text
    shown = subprocess.run(
        [COMMAND, "dissect", "-V", tmp_path / "captures" / f"{GAP}.pcapng"], timeout=60, capture_output=True, text=True
    ).stdout
    assert "DEVIATES: expected silence" in shown


def test_what_is_known_is_no_news_and_an_unexpected_pass_is(tmp_path):
    known = tmp_path / "known.json"
    known.write_text(json.dumps({"format": 1, "cases": {"RSP-009": {"verdict": "fail", "reason": "a second NAK"}}}))
    text = certify("--only", "RSP-009", "--fault", "naks-every-packet", "--expected", known).stdout
    assert "known     a second NAK" in text
    assert "UNEXPECTED" in certify("--only", "RSP-009", "--expected", known, status=1).stdout


def test_two_runs_are_compared(tmp_path):
    certify("--only", "RSP-009", "--report", tmp_path)
    text = certify(
        "--only", "RSP-009", "--fault", "naks-every-packet", "--baseline", tmp_path / "report.json", status=1
    ).stdout
    assert f"worse     {GAP}: pass → fail" in text


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--only", "RSP-999"], "no case has such a name"),
        (["--device", "mlx5"], 'there is no device "mlx5"'),
        (["--device", "agent:unix:/nowhere"], "--wire names it"),
        (["--fault", "nonsense"], 'there is no fault "nonsense"'),
        (["--expected", "/nowhere"], "/nowhere: could not be read"),
        (["--only", "RSP-009", "--baseline", "/nowhere"], "/nowhere: could not be read"),
    ],
)
def test_wrong_usage(arguments, complaint):
    assert complaint in certify(*arguments, status=2).stderr


def test_an_agent_that_is_not_there():
    done = certify("--device", "agent:unix:/nowhere/agent", "--wire", "unix:/nowhere/port", status=3)
    assert "/nowhere/agent" in done.stderr


def test_faults_are_listed_with_the_rules_they_break():
    text = certify("--fault", "list").stdout
    assert re.search(rf"^naks-every-packet +.* \[{re.escape(GAP)}\]$", text, re.M)
