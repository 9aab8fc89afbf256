"""The score: a perfect report scores 1.0, and each kind of error lowers the score."""

import collections
import csv
import random

import pytest

from synthesize import cases, pairing, scoring
from synthesize.programs import SEED

COLUMNS = ("kind", "cause", "severity", "connection", "end", "frame", "last_frame", "origin_frame", "cause_frame",
           "time", "duration_ns", "packets", "bytes", "psn", "value", "observed")


def perfect_report(manifest):
    """Return the rows of a faultless report."""
    first = {c["number"]: c["first_frame"] for c in manifest["connections"]}
    rows = []
    for event in manifest["events"]:
        if not event["required"]:
            continue
        named = first[event["connection"]]
        sender = int(manifest["senders"][named - 1])
        row = dict.fromkeys(COLUMNS, "")
        row |= {"kind": event["kind"], "cause": event["causes"][0] if event["causes"] else "unknown",
                "severity": "warning", "connection": named, "end": "a" if event.get("end", 0) == sender else "b",
                "frame": event.get("frame") or event["frames"][1]}
        for name in scoring.EXACT:
            row[name] = event.get(name, "")
        if "origin_frames" in event:
            row["origin_frame"] = event["origin_frames"][0]
        for name in ("packets", "observed"):
            row[name] = event[name][0] if name in event else "1" if name == "packets" else ""
        rows.append(row)
    return rows


def write(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def manifest():
    return cases.make(400, SEED).manifest()


@pytest.fixture
def score_of(manifest, tmp_path):
    def of(rows):
        write(tmp_path / "events.csv", rows)
        return scoring.score(manifest, scoring.read_events(tmp_path / "events.csv"))

    return of


def test_perfect_report_scores_one(manifest, score_of):
    result = score_of(perfect_report(manifest))
    print(result.table())
    assert not result.failures(1.0) and not result.wrong and not result.missed and not result.clean_findings
    assert sum(result.required.values()) == sum(event["required"] for event in manifest["events"])
    assert result.matched == result.required


def test_missing_event_lowers_recall(manifest, score_of):
    rows = [row for row in perfect_report(manifest) if row["kind"] != "out_of_order"]
    result = score_of(rows)
    assert {row[0] for row in result.failures()} == {"out_of_order"}
    assert result.missed


def test_additional_event_lowers_precision(manifest, score_of):
    rows = perfect_report(manifest)
    clean = next(c for c in manifest["connections"] if c["clean"])
    rows.append(rows[0] | {"kind": "msn_jump", "cause": "none", "connection": clean["first_frame"],
                           "frame": clean["first_frame"], "severity": "warning"})
    result = score_of(rows)
    assert [(row[0], row[3] == 1.0) for row in result.failures(1.0)] == [("msn_jump", True)]
    assert len(result.wrong) == len(result.clean_findings) == 1


@pytest.mark.parametrize("kind, changes", [
    ("retransmission", {"frame": lambda v: v + 1}),
    ("retransmission", {"packets": lambda v: v + 1}),
    ("retransmission", {"cause": lambda v: "unknown"}),
    ("retransmission", {"psn": lambda v: v + 1}),
    ("retransmission", {"end": lambda v: "b" if v == "a" else "a"}),
    ("retransmission", {"origin_frame": lambda v: v + 1}),
    ("retransmission", {"cause_frame": lambda v: v + 1}),
    ("nak", {"frame": lambda v: v - 1}),
    ("nak", {"cause": lambda v: "invalid_request" if v != "invalid_request" else "remote_access_error"}),
    ("rnr_nak", {"value": lambda v: v * 2}),
    ("rnr_nak", {"observed": lambda v: v * 2}),
    ("lost_in_network", {"cause": lambda v: "after_capture" if v == "before_capture" else "before_capture"}),
    ("lost_in_network", {"psn": lambda v: v + 1}),
    ("lost_in_capture", {"kind": lambda v: "lost_in_network", "cause": lambda v: "before_capture"}),
    ("msn_jump", {"observed": lambda v: v + 1}),
    ("crc_bad", {"cause": lambda v: "unknown" if v != "unknown" else "payload"}),
    ("duplicate", {"frame": lambda v: v + 1}),
    ("stall", {"cause": lambda v: "window"}),
])
def test_each_wrong_column_is_detected(manifest, score_of, kind, changes):
    rows = perfect_report(manifest)
    touched = 0
    for row in rows:
        if row["kind"] == kind and all(row[name] != "" for name in changes):
            row |= {name: change(row[name]) for name, change in changes.items()}
            touched += 1
    result = score_of(rows)
    assert touched and len(result.missed) >= touched * .9
    assert result.failures()


def test_connections_table_defines_endpoint_a(manifest, tmp_path):
    """Events that follow the table's names of the endpoints are correct. Without the table, they are not."""
    rows = [{"connection": str(c["first_frame"]), "a_address": c["ends"][1]["address"], "a_qp": str(c["ends"][1]["qp"]),
             "b_address": c["ends"][0]["address"], "b_qp": str(c["ends"][0]["qp"])} for c in manifest["connections"]]
    swap = {"a": "b", "b": "a"}
    sent_by_0 = {str(c["first_frame"]) for c in manifest["connections"]
                 if manifest["senders"][c["first_frame"] - 1] == "0"}
    events = [row | ({"end": swap[row["end"]]} if str(row["connection"]) in sent_by_0 else {})
              for row in perfect_report(manifest)]
    write(tmp_path / "events.csv", events)
    found = scoring.read_events(tmp_path / "events.csv")
    assert not scoring.score(manifest, found, rows).failures(1.0)
    assert scoring.score(manifest, found).failures()


def test_repeated_event_counts_once(manifest, score_of):
    rows = perfect_report(manifest)
    result = score_of(rows + rows)
    assert result.matched == result.required
    assert sum(result.false.values()) >= len(rows) * .9


def test_ecn_marks_can_be_one_event(manifest, score_of):
    marks = [event for event in manifest["events"] if event["kind"] == "ecn_marked"]
    connection = collections.Counter(event["connection"] for event in marks).most_common(1)[0][0]
    mine = sorted(event["frame"] for event in marks if event["connection"] == connection)
    assert len(mine) > 1
    rows = [row for row in perfect_report(manifest) if not (row["kind"] == "ecn_marked" and row["frame"] in mine)]
    first = next(row for row in perfect_report(manifest) if row["kind"] == "ecn_marked" and row["frame"] == mine[0])
    combined = first | {"last_frame": mine[-1], "packets": len(mine)}
    assert not score_of([*rows, combined]).failures(1.0)
    assert score_of([*rows, combined | {"packets": len(mine) + 1}]).failures(1.0)


# ---------------------------------------------------------------------------------------------------------------------


def rows_of(manifest):
    rows = []
    for c in manifest["connections"]:
        a, b = c["ends"] if manifest["senders"][c["first_frame"] - 1] == "0" else reversed(c["ends"])
        rows.append({"connection": str(c["first_frame"]), "a_address": a["address"], "a_qp": str(a["qp"]),
                     "b_address": b["address"], "b_qp": str(b["qp"]), "confidence": "high", "paired_by": "answers"})
    return rows


@pytest.mark.parametrize("kind", pairing.KINDS)
def test_correct_pairs_have_a_perfect_score(kind):
    manifest = pairing.make(100, SEED, 8, kind).manifest()
    result = scoring.score_pairing(manifest, rows_of(manifest))
    assert result.true == result.correct == result.high > 60 and not result.wrong


def test_incorrect_and_missing_pairs_are_detected():
    manifest = pairing.make(100, SEED, 8, "random").manifest()
    rows = rows_of(manifest)
    shuffled = random.Random(SEED)
    for row in rows[:10]:  # unpaired directions
        row |= {"b_qp": "", "confidence": "none"}
    for row, other in zip(rows[10:20], shuffled.sample(rows[20:], 10)):
        row["b_qp"] = str(int(other["b_qp"]) + 100_000)
    result = scoring.score_pairing(manifest, rows)
    assert result.correct == result.true - 20 == 80
    assert len(result.wrong) == len(result.high_wrong) == 10 and len(result.missing) == 20
