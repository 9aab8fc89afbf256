"""Compares the events of `rdmawire analyze --csv` with the expected events of the manifest.

Matching
--------
1. An event belongs to the connection of the manifest that contains its frame `connection`. Events of a single frame
   (crc_bad, truncated, ecn_marked, pkey_mismatch, qkey_mismatch) and events without `connection` use `frame` instead.
   Endpoint a is the one in connections.csv, or without that file the sender of the frame `connection`.
2. A reported event *matches* an expected one if it has the same connection and kind, one of the accepted causes, and
   each given value: end, `psn`, `last_frame`, `origin_frame`, `cause_frame`, `value`, and `frame`, `packets` and
   `observed` in their ranges.
3. Each reported event matches at most one expected event and vice versa. Required events precede allowed ones, and
   events with an exact frame precede those with a range. Any of several `origin_frames` matches.
4. ecn_marked, crc_bad, truncated: one expected event per frame. A reported event with `packets` N > 1 matches all
   expected events of its kind and cause from `frame` to `last_frame` if their number is N.
5. Each other reported event is correct if it matches an allowed event by kind, cause and frames, else it is false. An
   allowed event matches any number of events. The kinds `opened` and `closed` are not scored.
6. recall = matched required / required; precision = matched required / (matched required + false), per kind and cause.
   A false event counts for its reported kind and cause.
"""

import csv
from collections import Counter, defaultdict
from dataclasses import dataclass, field

BY_FRAME = {"crc_bad", "truncated", "ecn_marked", "pkey_mismatch", "qkey_mismatch"}
COMBINED = {"crc_bad", "truncated", "ecn_marked"}
NOT_SCORED = {"opened", "closed"}
EXACT = ("last_frame", "origin_frame", "cause_frame", "psn", "value")


@dataclass
class Found:
    """A row of events.csv."""
    kind: str
    cause: str
    severity: str
    end: str
    numbers: dict
    connection: int | None = None  # number in the manifest
    sender: int | None = None  # index of the endpoint in the manifest
    row: dict = field(default_factory=dict)


@dataclass
class Score:
    required: Counter
    matched: Counter
    false: Counter
    missed: list
    wrong: list         # Found
    clean_findings: list  # Found: warnings and errors on connections without faults

    def rows(self):
        """Yield (kind, cause, required, recall, precision)."""
        for key in sorted(set(self.required) | set(self.false)):
            required, matched, false = self.required[key], self.matched[key], self.false[key]
            recall = matched / required if required else None
            precision = matched / (matched + false) if matched + false else None
            yield *key, required, recall, precision

    def failures(self, least=.99):
        """Return the rows whose recall or precision is below `least`.

        False events of a cause without required events count against all events of the kind.
        """
        of_kind = Counter()
        for (kind, _), count in self.required.items():
            of_kind[kind] += count
        return [row for row in self.rows()
                if (row[3] is not None and row[3] < least) or
                (row[2] and row[4] is not None and row[4] < least) or
                (not row[2] and self.false[row[0], row[1]] > (1 - least) * of_kind[row[0]])]

    def table(self):
        lines = [f"{'kind':24}{'cause':28}{'required':>9}{'recall':>9}{'precision':>11}{'false':>7}"]
        for kind, cause, required, recall, precision in self.rows():
            shown = ["-" if value is None else f"{value:.4f}" for value in (recall, precision)]
            lines.append(f"{kind:24}{cause:28}{required:9}{shown[0]:>9}{shown[1]:>11}{self.false[kind, cause]:7}")
        return "\n".join(lines)


def total(scores):
    """Return the sum of several scores."""
    result = Score(Counter(), Counter(), Counter(), [], [], [])
    for score_ in scores:
        for name in ("required", "matched", "false"):
            getattr(result, name).update(getattr(score_, name))
        for name in ("missed", "wrong", "clean_findings"):
            getattr(result, name).extend(getattr(score_, name))
    return result


def integer(text):
    return int(text, 0) if text not in (None, "") else None


def read_events(path):
    found = []
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            numbers = {name: integer(row.get(name)) for name in (
                "connection", "frame", "last_frame", "origin_frame", "cause_frame", "packets", "psn", "value",
                "observed")}
            found.append(Found(row["kind"], row["cause"] or "none", row["severity"], row.get("end", ""), numbers,
                               row=row))
    return found


def _place(found, manifest):
    """Rule 1."""
    owners = manifest["owners"]
    number = found.numbers["connection"]
    if found.kind in BY_FRAME or not number:
        number = found.numbers["frame"]
    found.connection = owners[number - 1] if number and number <= len(owners) else None


def _orient(found, manifest, firsts):
    number = found.numbers["connection"]
    if number and found.end in ("a", "b"):
        first = firsts.get(number, int(manifest["senders"][number - 1]))
        found.sender = first if found.end == "a" else 1 - first


def _endpoint_a(manifest, rows):
    """Return the manifest's index of endpoint a of each connection in connections.csv."""
    ends = {c["number"]: [(end["address"], str(end["qp"])) for end in c["ends"]] for c in manifest["connections"]}
    firsts = {}
    for row in rows:
        number = int(row["connection"])
        mine = ends.get(manifest["owners"][number - 1], [])
        a, b = (row["a_address"], row["a_qp"]), (row["b_address"], row["b_qp"])
        if a in mine:
            firsts[number] = mine.index(a)
        elif b in mine:
            firsts[number] = 1 - mine.index(b)
    return firsts


def mismatch(event, found):
    """Return why the reported event is not this expected event (rule 2), or None if it matches."""
    numbers = found.numbers
    if event["kind"] != found.kind:
        return "kind"
    if found.connection not in (event["connection"], event.get("other_connection", event["connection"])):
        return "connection"
    if event["causes"] and found.cause not in event["causes"]:
        return f"cause: {found.cause}, not {event['causes']}"
    if event.get("end") is not None and found.sender not in (event["end"], None):
        return "end"
    if "frame" in event and numbers["frame"] != event["frame"]:
        return f"frame: {numbers['frame']}, not {event['frame']}"
    if "frames" in event and not event["frames"][0] <= (numbers["frame"] or 0) <= event["frames"][1]:
        return f"frame: {numbers['frame']}, not in {event['frames']}"
    for name, fallback in (("packets", 1), ("observed", None)):
        value = fallback or 0 if numbers[name] is None else numbers[name]
        if name in event and not event[name][0] <= value <= event[name][1]:
            return f"{name}: {numbers[name]}, not in {event[name]}"
    if "origin_frames" in event and numbers["origin_frame"] not in event["origin_frames"]:
        return f"origin_frame: {numbers['origin_frame']}, not in {event['origin_frames']}"
    for name in EXACT:
        if name in event and numbers[name] != event[name]:
            return f"{name}: {numbers[name]}, not {event[name]}"
    return None


def score(manifest, found, rows=()):
    """Score events. `found`: from read_events(); `rows`: from read_connections()."""
    firsts = _endpoint_a(manifest, rows)
    result = Score(Counter(), Counter(), Counter(), [], [], [])
    by_connection = defaultdict(list)
    for one in found:
        _place(one, manifest)
        _orient(one, manifest, firsts)
        by_connection[one.connection].append(one)
    required = [event for event in manifest["events"] if event["required"]]
    allowed = defaultdict(list)
    for event in manifest["events"]:
        if not event["required"]:
            allowed[event["connection"]].append(event)
    used = set()
    _match_combined(required, found, used, result)
    for event in sorted(required, key=lambda event: "frame" not in event):
        key = _key(event)
        if id(event) in used:
            continue
        result.required[key] += 1
        candidates = by_connection[event["connection"]]
        if event.get("other_connection") is not None:
            candidates = candidates + by_connection[event["other_connection"]]
        match = next((one for one in candidates if id(one) not in used and not mismatch(event, one)), None)
        if match:
            used.add(id(match))
            result.matched[key] += 1
        else:
            near = [f"{mismatch(event, one)}" for one in candidates
                    if id(one) not in used and one.kind == event["kind"]]
            result.missed.append((event, near))
    for one in found:
        if id(one) not in used and one.kind not in NOT_SCORED and not any(
                _allows(event, one) for event in allowed[one.connection]):
            result.false[one.kind, one.cause] += 1
            result.wrong.append(one)
    clean = {connection["number"] for connection in manifest["connections"] if connection["clean"]}
    result.clean_findings = [one for one in found if one.severity in ("warning", "error") and one.connection in clean]
    return result


def _key(event):
    """Return the row of the table: kind and first cause. Other accepted causes have no separate rows."""
    return event["kind"], event["causes"][0] if event["causes"] else "any"


def _match_combined(required, found, used, result):
    """Rule 4."""
    frames = defaultdict(dict)
    for event in required:
        if event["kind"] in COMBINED:
            frames[event["kind"], event["connection"]][event["frame"]] = event
    for one in found:
        packets = one.numbers["packets"] or 1
        if one.kind not in COMBINED or packets == 1:
            continue
        first, last = one.numbers["frame"], one.numbers["last_frame"] or one.numbers["frame"]
        covered = [event for frame, event in frames[one.kind, one.connection].items() if first <= frame <= last and
                   (not event["causes"] or one.cause in event["causes"])]
        if len(covered) == packets:
            used.add(id(one))
            for event in covered:
                key = _key(event)
                if id(event) not in used:
                    used.add(id(event))
                    result.required[key] += 1
                    result.matched[key] += 1


def _allows(event, one):
    """Rule 5."""
    return event["kind"] == one.kind and (not event["causes"] or one.cause in event["causes"]) and (
        "frames" not in event or event["frames"][0] <= (one.numbers["frame"] or 0) <= event["frames"][1]) and (
        "frame" not in event or event["frame"] == one.numbers["frame"])


# ---------------------------------------------------------------------------------------------------------------------
# Pairing

COLUMNS = {name: (name, name.replace("_", "."), ) for name in ("a_address", "a_qp", "b_address", "b_qp")}
HIGH = ("high", "certain")


@dataclass
class PairingScore:
    """Comparison of the reported connections with the manifest's."""
    true: int = 0  # connections with captured packets of both directions, including a response
    correct: int = 0
    high: int = 0  # correct, with confidence high or certain
    high_wrong: list = field(default_factory=list)  # incorrect pairs, with confidence high or certain
    wrong: list = field(default_factory=list)  # incorrect pairs, with any confidence
    missing: list = field(default_factory=list)  # connections without a row

    def __str__(self):
        def percent(n):
            return f"{n} ({100 * n / self.true:.2f} %)" if self.true else str(n)
        return (f"{self.true} connections. Correct pairs: {percent(self.correct)}, with confidence high or certain: "
                f"{percent(self.high)}. Incorrect pairs: {len(self.wrong)}, with confidence high or certain: "
                f"{len(self.high_wrong)}")


def read_connections(path):
    """Return the rows of connections.csv, with the column names a_address, a_qp, b_address, b_qp."""
    rows = []
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        names = {}
        for name, spellings in COLUMNS.items():
            names[name] = next((s for s in spellings if s in (reader.fieldnames or ())), None)
            if names[name] is None:
                raise ValueError(f"{path}: no column {' or '.join(spellings)}; there are {reader.fieldnames}")
        for row in reader:
            rows.append({**row, **{name: row[spelling] for name, spelling in names.items()}})
    return rows


def score_pairing(manifest, rows):
    """Compare each row with the connection of the frame that identifies the row.

    A row is correct if its endpoints are those of the connection. Rows with one endpoint, and QP 1, are not scored.
    """
    result, paired = PairingScore(), {}
    true = {c["number"]: c for c in manifest["connections"]}
    for row in rows:
        if not row["a_qp"] or not row["b_qp"] or "1" in (row["a_qp"], row["b_qp"]) or row.get("confidence") == "none":
            continue
        if row.get("service") == "iwarp":
            continue
        ends = {(row["a_address"], int(row["a_qp"], 0)), (row["b_address"], int(row["b_qp"], 0))}
        number = manifest["owners"][int(row["connection"]) - 1]
        if ends == {(end["address"], end["qp"]) for end in true[number]["ends"]}:
            if paired.get(number) not in HIGH:
                paired[number] = row.get("confidence")
        else:
            result.wrong.append(row)
            if row.get("confidence") in HIGH:
                result.high_wrong.append(row)
    for number, c in true.items():
        a, b = c["ends"]
        if not a["responses"] and not b["responses"]:
            continue
        result.true += 1
        if number in paired:
            result.correct += 1
            result.high += paired[number] in HIGH
        else:
            result.missing.append(c)
    return result
