"""scripts/instruction-counts and scripts/bench: comparison with accepted counts, and of two files of --json."""

import json
import sys
from pathlib import Path

import pytest
from scripts_test import load

ROOT = Path(__file__).resolve().parents[1]
counting = load("instruction-counts")
bench = load("bench")


@pytest.mark.parametrize("count, high", [(100.0, False), (101.9, False), (102.1, True), (90.0, False)])
def test_counts_above_the_tolerance_are_too_high(capsys, count, high):
    assert counting.compare({"analyze": count}, {"analyze": 100.0}) == (["analyze"] if high else [])
    assert ("too high" in capsys.readouterr().out) == high


def test_lower_counts_are_to_be_accepted(capsys):
    assert counting.compare({"analyze": 90.0}, {"analyze": 100.0}) == []
    assert "accept the count" in capsys.readouterr().out


def test_conditions_that_differ_are_named():
    accepted = {"machine": "x86_64", "compiler": "gcc 12"}
    assert counting.differences(accepted, accepted) == []
    assert counting.differences({"machine": "x86_64", "compiler": "gcc 14"}, accepted) == ["compiler: accepted gcc 12, here gcc 14"]


def test_accepted_counts_include_each_workload():
    stored = json.loads(counting.ACCEPTED.read_text())
    assert stored["counts"].keys() == counting.WORKLOADS.keys()
    assert all(count > 100 for count in stored["counts"].values())
    assert stored["conditions"].keys() == {"machine", "compiler", "build", "kernels"}


def test_first_packets_of_a_sample_are_complete(tmp_path):
    counting.first_packets("siw-send.pcap.gz", 3, tmp_path / "three.pcap")
    assert len(bench.frames_of(tmp_path / "three.pcap")[1]) == 3
    with pytest.raises(counting.Unmeasured, match="has fewer than 100000 packets"):
        counting.first_packets("siw-send.pcap.gz", 100_000, tmp_path / "all.pcap")


def test_failed_program_is_not_measured(tmp_path):
    program = tmp_path / "rdmawire"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 5\n")
    program.chmod(0o755)
    with pytest.raises((counting.Unmeasured, FileNotFoundError)):
        counting.instructions([program])


@pytest.mark.parametrize("count, status", [(100.0, 0), (110.0, 1)])
def test_exit_status_states_whether_a_count_is_too_high(tmp_path, monkeypatch, capsys, count, status):
    conditions = {"machine": "x86_64", "compiler": "gcc 12", "build": "Debug", "kernels": {}}
    for name in ("rdmawire", "make_traffic"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).touch()
    accepted = tmp_path / "accepted.json"
    accepted.write_text(json.dumps({"conditions": conditions, "counts": {"analyze": 100.0}}))
    monkeypatch.setattr(counting, "ACCEPTED", accepted)
    monkeypatch.setattr(counting, "conditions", lambda build: dict(conditions))
    monkeypatch.setattr(counting, "per_packet", lambda *arguments: count)
    monkeypatch.setattr(sys, "argv", ["instruction-counts", "--build", str(tmp_path), "--only", "analyze"])
    assert counting.main() == status
    # The counts of another compiler are only printed.
    monkeypatch.setattr(counting, "conditions", lambda build: {**conditions, "compiler": "gcc 14"})
    assert counting.main() == 0
    assert "not compared" in capsys.readouterr().out


def a_report(path, ratio, spread):
    report = bench.Report()
    report.host = {"processor": "P", "cpus": 2, "system": "S", "kernels": {}}
    report.table("Threads: analyze", "two threads", "one thread", "one/two")
    report.row("elapsed seconds", bench.seconds([1.0, 1.0 + spread]), bench.seconds([ratio]), at_least=1.6)
    report.single("memory", bench.kibibytes(2048))
    report.write(path)


def test_bench_prints_minimum_spread_ratio_and_goal(tmp_path, capsys):
    a_report(tmp_path / "a.json", 1.5, 0.25)
    out = capsys.readouterr().out
    assert "1.000 s  +25%" in out and "1.50  goal 1.6 or more" in out and "2.0 KiB" in out
    figures = json.loads((tmp_path / "a.json").read_text())["figures"]
    assert figures[0]["ratio"] == 1.5 and figures[0]["goal"] == {"at least": 1.6}
    assert figures[0]["columns"]["two threads"] == {"minimum": 1.0, "spread": 0.25, "runs": [1.0, 1.25]}


def test_bench_compares_two_files(tmp_path, capsys):
    a_report(tmp_path / "a.json", 1.5, 0.01)
    a_report(tmp_path / "b.json", 1.8, 0.01)
    a_report(tmp_path / "noisy.json", 1.8, 0.5)
    capsys.readouterr()
    bench.compare(tmp_path / "a.json", tmp_path / "b.json")
    out = capsys.readouterr().out
    assert "+20.0 %" in out and "within the spread" not in out
    bench.compare(tmp_path / "a.json", tmp_path / "noisy.json")
    assert "within the spread" in capsys.readouterr().out


def test_bench_refuses_files_without_figures(tmp_path):
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(SystemExit, match="not a file of scripts/bench --json"):
        bench.compare(tmp_path / "a.json", tmp_path / "a.json")
