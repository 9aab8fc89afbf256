"""MRC in the commands: reports of analyze, and --disable-protocol."""

import csv
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))
SAMPLE = ROOT / "captures" / "samples" / "mrc.pcap"
DISABLED = ("--disable-protocol", "mrc")

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason=f"needs the command: {COMMAND} is not built")


def run(*arguments, status=0):
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stderr
    return done


def report(*arguments):
    return json.loads(run("analyze", "--json", *arguments, SAMPLE).stdout)


def test_text_reports_connection_paths_and_findings():
    text = run("analyze", SAMPLE).stdout
    assert "1 MRC connection" in text
    assert "MRC QP 0x11 → 0x22" in text
    assert "switches trimmed 8 of" in text
    assert "MRC paths (entropy values), failed and congested ones first" in text


def test_each_finding_has_frames():
    findings = [finding for finding in report()["findings"] if finding["kind"].startswith("mrc_")]
    assert findings
    for finding in findings:
        assert 1 <= finding["first_frame"] <= finding["last_frame"] <= 223, finding
        assert finding["frames"][0] == finding["first_frame"]
        assert ("(unverified)" in finding["title"]) == bool(finding["unverified"]) == (finding["confidence"] == "likely")


def test_csv_tables_equal_json(tmp_path):
    run("analyze", "--csv", tmp_path, SAMPLE)
    mrc = report()["mrc"]
    tables = {name: list(csv.DictReader((tmp_path / f"{name}.csv").open(newline="")))
              for name in ("mrc_connections", "mrc_paths")}
    for row, path in zip(tables["mrc_paths"], mrc["paths"], strict=True):
        assert row == {key: "" if value is None else str(value) for key, value in path.items()}
    (row,), (connection,) = tables["mrc_connections"], mrc["connections"]
    assert row["to_qp"] == str(connection["to_qp"]) == "34"
    assert row["nacks"] == str(sum(nack["count"] for nack in connection["nacks"]))
    assert row["nack_reasons"] == "trimmed: 8"
    assert row["endpoint_operations_from_port_status"] == "0xff"


def test_page_contains_the_tables(tmp_path):
    page = tmp_path / "page.html"
    run("analyze", "--html", page, SAMPLE)
    text = page.read_text()
    assert "mrc_connections" in text and "mrc_paths" in text


def test_fail_on_accepts_kinds_of_mrc():
    run("analyze", "--fail-on", "mrc_trimmed", SAMPLE, status=1)
    run("analyze", "--fail-on", "mrc_error", SAMPLE)
    assert "mrc_trimmed" in run("explain", "events").stdout


def test_disabled_protocol_is_decoded_as_plain_roce():
    assert report(*DISABLED)["mrc"] == {"connections": [], "paths": []}
    frames = len(run("dissect", SAMPLE).stdout.splitlines())
    assert len(run("dissect", "--filter", "mrc", SAMPLE).stdout.splitlines()) == frames == 223
    assert run("dissect", "--filter", "mrc", *DISABLED, SAMPLE).stdout == ""
    assert len(run("dissect", "--filter", "bth", *DISABLED, SAMPLE).stdout.splitlines()) == 223
    rules = json.loads(run("check", "--json", "--complete", *DISABLED, SAMPLE).stdout)["rules"]
    assert not any(rule["passed"] + rule["violated"] for rule in rules if rule["rule"].startswith("mrc."))
    rules = json.loads(run("check", "--json", "--complete", SAMPLE).stdout)["rules"]
    assert all(rule["passed"] for rule in rules if rule["rule"].startswith("mrc."))


def test_extract_filters_without_the_disabled_protocol(tmp_path):
    run("extract", "--filter", "mrc", SAMPLE, "-o", tmp_path / "mrc.pcap")
    run("extract", "--filter", "bth", *DISABLED, SAMPLE, "-o", tmp_path / "bth.pcap")
    assert (tmp_path / "mrc.pcap").read_bytes() == (tmp_path / "bth.pcap").read_bytes()


def test_unknown_protocol_is_a_usage_error():
    done = run("analyze", "--disable-protocol", "mcr", SAMPLE, status=2)
    assert 'expected mrc, got "mcr"' in done.stderr
