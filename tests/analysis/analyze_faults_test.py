"""`rdmawire analyze` against captures whose truth is known: events found with their causes, halves joined, cuts.

RDMAWIRE_SEED draws other captures, RDMAWIRE_FULL=1 more and larger ones. The tables are printed (pytest -s shows them).
"""

import json
import random

import pytest

from synthesize import cases, joining, running, scoring
from synthesize.capture import HEADER, records, save
from synthesize.running import FULL, RDMAWIRE, SEED

pytestmark = pytest.mark.skipif(bool(running.no_analyze()), reason=running.no_analyze() or "")

CASES = 1_500
SEEDS = range(SEED, SEED + (10 if FULL else 1))
CONNECTIONS = 10_000 if FULL else 1_000


def analyze(folder, path, *options):
    """The folder with the tables."""
    running.run(RDMAWIRE, "analyze", path, "--csv", folder, *options)
    return folder


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """Of each seed: the folder with the capture, its manifest, what was found of it."""
    results = []
    for seed in SEEDS:
        folder = tmp_path_factory.mktemp(f"faults{seed}-")
        manifest = save(cases.make(CASES, seed), folder / "faults.pcap", folder / "faults.json", seed=seed)
        tables = analyze(folder / "tables", folder / "faults.pcap")
        results.append((folder, manifest, scoring.score(manifest, scoring.read_events(tables / "events.csv"),
                                                        scoring.read_connections(tables / "connections.csv"))))
    return results


def test_every_injected_fault_is_found_with_its_cause_and_nothing_else(faults):
    """Over all seeds together: of some kinds a seed has a few dozen, where one alone is more than a hundredth."""
    total = scoring.total(result for _, _, result in faults)
    for folder, manifest, result in faults:
        print(f"\nseed {manifest['seed']}: {len(manifest['connections'])} connections, {manifest['packets']} packets, "
              f"kept in {folder}")
        for event, near in result.missed[:10]:
            case = next(c["name"] for c in manifest["connections"] if c["number"] == event["connection"])
            print("missed", case, event, near)
        for found in result.wrong[:10]:
            print("wrong", found.connection, found.row)
    print(total.table())
    assert not total.failures()


def test_clean_connections_have_no_finding(faults):
    for folder, manifest, result in faults:
        assert not result.clean_findings, (
            f"seed {manifest['seed']}, kept in {folder}", [found.row for found in result.clean_findings[:10]])


def test_a_clean_capture_has_no_finding(tmp_path):
    save(cases.make(CASES // 5, SEED, "clean"), tmp_path / "clean.pcap", tmp_path / "clean.json")
    report = json.loads(running.run(RDMAWIRE, "analyze", "--json", tmp_path / "clean.pcap"))
    assert not [finding for finding in report["findings"] if finding["severity"] in ("warning", "error")]


@pytest.mark.parametrize("kind", joining.KINDS)
def test_halves_are_joined_without_being_told(kind, tmp_path):
    manifest = save(joining.make(CONNECTIONS, SEED, 8, kind), tmp_path / "j.pcap", tmp_path / "j.json", messages=False)
    tables = analyze(tmp_path / "tables", tmp_path / "j.pcap", "--ignore", "cm,text,source-port")
    result = scoring.score_joining(manifest, scoring.read_connections(tables / "connections.csv"))
    print(f"\n{kind}: {result}")
    assert result.right >= .99 * result.true, result
    assert result.high >= .95 * result.true, result
    assert not result.high_wrong, result.high_wrong[:10]


@pytest.mark.parametrize("kind", ["cm", "text"])
def test_evidence_tells_all(kind, tmp_path):
    manifest = save(joining.make(CONNECTIONS // 2, SEED, 8, kind), tmp_path / "j.pcap", tmp_path / "j.json", messages=False)
    result = scoring.score_joining(
        manifest, scoring.read_connections(analyze(tmp_path / "tables", tmp_path / "j.pcap") / "connections.csv"))
    assert result.right == result.true and not result.wrong, result


def test_cuts_change_nothing(tmp_path):
    """The capture cut at random places into files gives the same report but for `input`."""
    draw = random.Random(SEED)
    save(cases.make(CASES // 10, SEED + 1), tmp_path / "whole.pcap", tmp_path / "whole.json")
    whole = list(records(tmp_path / "whole.pcap"))

    def report(*paths):
        said = json.loads(running.run(RDMAWIRE, "analyze", "--json", *paths))
        del said["input"]
        return said

    expected = report(tmp_path / "whole.pcap")
    for attempt in range(20 if FULL else 4):
        cuts = sorted(draw.sample(range(1, len(whole)), draw.choice((1, 2, 5, 20))))
        paths = []
        for begin, end in zip([0, *cuts], [*cuts, len(whole)]):
            paths.append(tmp_path / f"{attempt}-{len(paths):03}.pcap")
            paths[-1].write_bytes(HEADER + b"".join(whole[begin:end]))
        assert report(*paths) == expected, f"seed {SEED}: cut before records {cuts}"
        for path in paths:
            path.unlink()
