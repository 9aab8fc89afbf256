"""The scorer: the truth itself scores 1.0, and each way of being wrong scores less."""

import collections
import csv
import random

import pytest

from synthesize import cases, joining, scoring
from synthesize.running import SEED

COLUMNS = ("kind", "cause", "severity", "connection", "end", "frame", "last_frame", "origin_frame", "cause_frame", "time",
           "duration_ns", "packets", "bytes", "psn", "value", "observed")


def perfect(manifest):
    """The rows that a faultless analysis would write."""
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
def scored(manifest, tmp_path):
    def of(rows):
        write(tmp_path / "events.csv", rows)
        return scoring.score(manifest, scoring.read_events(tmp_path / "events.csv"))

    return of


def test_the_truth_scores_one(manifest, scored):
    result = scored(perfect(manifest))
    print(result.table())
    assert not result.failures(1.0) and not result.wrong and not result.missed and not result.clean_findings
    assert sum(result.required.values()) == sum(event["required"] for event in manifest["events"])
    assert result.matched == result.required


def test_what_is_not_found_lowers_recall(manifest, scored):
    rows = [row for row in perfect(manifest) if row["kind"] != "out_of_order"]
    result = scored(rows)
    assert {row[0] for row in result.failures()} == {"out_of_order"}
    assert result.missed


def test_what_was_not_there_lowers_precision(manifest, scored):
    rows = perfect(manifest)
    clean = next(c for c in manifest["connections"] if c["clean"])
    rows.append(rows[0] | {"kind": "msn_jump", "cause": "none", "connection": clean["first_frame"],
                           "frame": clean["first_frame"], "severity": "warning"})
    result = scored(rows)
    assert [(row[0], row[3] == 1.0) for row in result.failures(1.0)] == [("msn_jump", True)]
    assert len(result.wrong) == len(result.clean_findings) == 1


@pytest.mark.parametrize("kind, damage", [
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
def test_each_way_of_being_wrong_is_seen(manifest, scored, kind, damage):
    rows = perfect(manifest)
    touched = 0
    for row in rows:
        if row["kind"] == kind and all(row[name] != "" for name in damage):
            row |= {name: change(row[name]) for name, change in damage.items()}
            touched += 1
    result = scored(rows)
    assert touched and len(result.missed) >= touched * .9
    assert result.failures()


def test_the_table_of_connections_says_who_is_a(manifest, tmp_path):
    """Where the second end is called a there, events that call it a are right, and the others are not."""
    rows = [{"connection": str(c["first_frame"]), "a_address": c["ends"][1]["address"], "a_qp": str(c["ends"][1]["qp"]),
             "b_address": c["ends"][0]["address"], "b_qp": str(c["ends"][0]["qp"])} for c in manifest["connections"]]
    swap = {"a": "b", "b": "a"}
    sent_by_0 = {str(c["first_frame"]) for c in manifest["connections"]
                 if manifest["senders"][c["first_frame"] - 1] == "0"}
    events = [row | ({"end": swap[row["end"]]} if str(row["connection"]) in sent_by_0 else {})
              for row in perfect(manifest)]
    write(tmp_path / "events.csv", events)
    found = scoring.read_events(tmp_path / "events.csv")
    assert not scoring.score(manifest, found, rows).failures(1.0)
    assert scoring.score(manifest, found).failures()


def test_an_event_counts_once(manifest, scored):
    """Reporting everything twice is not more right."""
    rows = perfect(manifest)
    result = scored(rows + rows)
    assert result.matched == result.required
    assert sum(result.false.values()) >= len(rows) * .9


def test_marks_may_be_told_together(manifest, scored):
    marks = [event for event in manifest["events"] if event["kind"] == "ecn_marked"]
    connection = collections.Counter(event["connection"] for event in marks).most_common(1)[0][0]
    mine = sorted(event["frame"] for event in marks if event["connection"] == connection)
    assert len(mine) > 1
    rows = [row for row in perfect(manifest) if not (row["kind"] == "ecn_marked" and row["frame"] in mine)]
    one = next(row for row in perfect(manifest) if row["kind"] == "ecn_marked" and row["frame"] == mine[0])
    together = one | {"last_frame": mine[-1], "packets": len(mine)}
    assert not scored([*rows, together]).failures(1.0)
    assert scored([*rows, together | {"packets": len(mine) + 1}]).failures(1.0)


# ---------------------------------------------------------------------------------------------------------------------


def rows_of(manifest):
    rows = []
    for c in manifest["connections"]:
        a, b = c["ends"] if manifest["senders"][c["first_frame"] - 1] == "0" else reversed(c["ends"])
        rows.append({"connection": str(c["first_frame"]), "a_address": a["address"], "a_qp": str(a["qp"]),
                     "b_address": b["address"], "b_qp": str(b["qp"]), "confidence": "high", "paired_by": "answers"})
    return rows


@pytest.mark.parametrize("kind", joining.KINDS)
def test_the_true_pairs_score_all_right(kind):
    manifest = joining.make(100, SEED, 8, kind).manifest()
    result = scoring.score_joining(manifest, rows_of(manifest))
    assert result.true == result.right == result.high > 60 and not result.wrong


def test_wrong_pairs_and_halves_are_seen():
    manifest = joining.make(100, SEED, 8, "random").manifest()
    rows = rows_of(manifest)
    shuffled = random.Random(SEED)
    for row in rows[:10]:  # halves
        row |= {"b_qp": "", "confidence": "none"}
    for row, other in zip(rows[10:20], shuffled.sample(rows[20:], 10)):
        row["b_qp"] = str(int(other["b_qp"]) + 100_000)
    result = scoring.score_joining(manifest, rows)
    assert result.right == result.true - 20 == 80
    assert len(result.wrong) == len(result.high_wrong) == 10 and len(result.missing) == 20
