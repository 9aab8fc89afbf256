"""Holds what `rdmawire analyze --csv` found against what the manifest says truly happened.

Rules of matching
-----------------
1. A found event belongs to a connection of the manifest by its frames: `connection` is the number of a frame, and that
   frame's connection is the one. Events that speak of one frame by itself (crc_bad, truncated, ecn_marked,
   pkey_mismatch, qkey_mismatch) and events without a connection belong to the connection of their `frame`.
   An end "a" is the one that connections.csv gives as a for that connection; without that table, who sent the frame that
   `connection` names. "b" is the other.
2. A found event *matches* a true one when all of these hold that the manifest gives: same connection, same kind, one of
   the accepted causes, same end, `frame` exactly the given one or between the two given ones, `packets` between the two
   given numbers, and equal `psn`, `last_frame`, `origin_frame`, `cause_frame`, `value`, and `observed` in its range.
3. Each found event matches at most one true event and the other way round; required events choose first, those with an
   exact frame before those with a range. Where several `origin_frames` are given, any of them is right.
4. ecn_marked, crc_bad, truncated: one true event a frame. A found event that says `packets` N > 1 stands for all true ones
   of its kind and cause between `frame` and `last_frame`, if they are exactly N.
5. What is left of the found events: right when it matches an allowed event (kind, cause if given, frames; an allowed
   event takes any number), else false. Kinds of a connection's normal life (opened, closed) are not judged.
6. recall = matched required / required; precision = matched required / (matched required + false), per kind and cause. A
   false event counts for the kind and cause that it claims.
"""

import csv
from collections import Counter, defaultdict
from dataclasses import dataclass, field

BY_FRAME = {"crc_bad", "truncated", "ecn_marked", "pkey_mismatch", "qkey_mismatch"}
GATHERED = {"crc_bad", "truncated", "ecn_marked"}
NOT_JUDGED = {"opened", "closed"}
EXACT = ("last_frame", "origin_frame", "cause_frame", "psn", "value")


@dataclass
class Found:
    """A row of events.csv."""
    kind: str
    cause: str
    severity: str
    end: str
    numbers: dict
    connection: int | None = None  # the manifest's number
    sender: int | None = None      # its end, as the manifest counts ends
    row: dict = field(default_factory=dict)


@dataclass
class Score:
    required: Counter
    matched: Counter
    false: Counter
    missed: list
    wrong: list         # Found
    clean_findings: list  # Found: warnings and errors on clean connections

    def rows(self):
        """(kind, cause, required, recall, precision)."""
        for key in sorted(set(self.required) | set(self.false)):
            required, matched, false = self.required[key], self.matched[key], self.false[key]
            recall = matched / required if required else None
            precision = matched / (matched + false) if matched + false else None
            yield *key, required, recall, precision

    def failures(self, least=.99):
        """Rows where recall or precision is below `least`. A cause that nothing was injected with counts against all of
        its kind."""
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
    """Several captures' scores as one."""
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
                "connection", "frame", "last_frame", "origin_frame", "cause_frame", "packets", "psn", "value", "observed")}
            found.append(Found(row["kind"], row["cause"] or "none", row["severity"], row.get("end", ""), numbers, row=row))
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


def _who_is_a(manifest, rows):
    """Connections as connections.csv names them, to the manifest's number of the end that is a there."""
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
    """Why the found event is not this true one (rule 2); None: it is."""
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
    """`manifest`: as capture.save gives it (or read back from JSON); `found`: read_events(); `rows`: read_connections()."""
    firsts = _who_is_a(manifest, rows)
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
    taken = set()
    _gathered(required, found, taken, result)
    for event in sorted(required, key=lambda event: "frame" not in event):
        key = (event["kind"], "|".join(event["causes"]) or "any")
        if id(event) in taken:
            continue
        result.required[key] += 1
        candidates = by_connection[event["connection"]]
        if event.get("other_connection") is not None:
            candidates = candidates + by_connection[event["other_connection"]]
        match = next((one for one in candidates if id(one) not in taken and not mismatch(event, one)), None)
        if match:
            taken.add(id(match))
            result.matched[key] += 1
        else:
            near = [f"{mismatch(event, one)}" for one in candidates
                    if id(one) not in taken and one.kind == event["kind"]]
            result.missed.append((event, near))
    for one in found:
        if id(one) not in taken and one.kind not in NOT_JUDGED and not any(
                _allows(event, one) for event in allowed[one.connection]):
            result.false[one.kind, one.cause] += 1
            result.wrong.append(one)
    clean = {connection["number"] for connection in manifest["connections"] if connection["clean"]}
    result.clean_findings = [one for one in found if one.severity in ("warning", "error") and one.connection in clean]
    return result


def _gathered(required, found, taken, result):
    """Rule 4."""
    frames = defaultdict(dict)
    for event in required:
        if event["kind"] in GATHERED:
            frames[event["kind"], event["connection"]][event["frame"]] = event
    for one in found:
        packets = one.numbers["packets"] or 1
        if one.kind not in GATHERED or packets == 1:
            continue
        first, last = one.numbers["frame"], one.numbers["last_frame"] or one.numbers["frame"]
        covered = [event for frame, event in frames[one.kind, one.connection].items() if first <= frame <= last and
                   (not event["causes"] or one.cause in event["causes"])]
        if len(covered) == packets:
            taken.add(id(one))
            for event in covered:
                key = (event["kind"], "|".join(event["causes"]) or "any")
                if id(event) not in taken:
                    taken.add(id(event))
                    result.required[key] += 1
                    result.matched[key] += 1


def _allows(event, one):
    """Rule 5."""
    return event["kind"] == one.kind and (not event["causes"] or one.cause in event["causes"]) and (
        "frames" not in event or event["frames"][0] <= (one.numbers["frame"] or 0) <= event["frames"][1]) and (
        "frame" not in event or event["frame"] == one.numbers["frame"])


# ---------------------------------------------------------------------------------------------------------------------
# Joining

COLUMNS = {name: (name, name.replace("_", "."), ) for name in ("a_address", "a_qp", "b_address", "b_qp")}
HIGH = ("high", "certain")


@dataclass
class Joined:
    """How the found connections compare with the true ones."""
    true: int = 0           # connections of which the capture has both directions, with an answer
    right: int = 0
    high: int = 0           # right, at confidence high or certain
    high_wrong: list = field(default_factory=list)  # rows that join what does not belong together, at such a confidence
    wrong: list = field(default_factory=list)       # likewise, at any confidence
    missing: list = field(default_factory=list)     # true ones that no row has

    def __str__(self):
        def share(n):
            return f"{n} ({100 * n / self.true:.2f} %)" if self.true else str(n)
        return (f"{self.true} connections: joined rightly {share(self.right)}, at confidence high or certain "
                f"{share(self.high)}; joined wrongly {len(self.wrong)}, of these at high or certain {len(self.high_wrong)}")


def read_connections(path):
    """The rows of connections.csv, with a_address, a_qp, b_address, b_qp under these names."""
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


def score_joining(manifest, rows):
    """A row is right when its two ends are those of the true connection whose frame it is named by. Rows of one end only
    join nothing, and are neither right nor wrong; the CM's own queue pair 1 is not judged."""
    result, joined = Joined(), {}
    true = {c["number"]: c for c in manifest["connections"]}
    for row in rows:
        if not row["a_qp"] or not row["b_qp"] or "1" in (row["a_qp"], row["b_qp"]) or row.get("confidence") == "none":
            continue
        if row.get("service") == "iwarp":
            continue
        ends = {(row["a_address"], int(row["a_qp"], 0)), (row["b_address"], int(row["b_qp"], 0))}
        number = manifest["owners"][int(row["connection"]) - 1]
        if ends == {(end["address"], end["qp"]) for end in true[number]["ends"]}:
            if joined.get(number) not in HIGH:
                joined[number] = row.get("confidence")
        else:
            result.wrong.append(row)
            if row.get("confidence") in HIGH:
                result.high_wrong.append(row)
    for number, c in true.items():
        a, b = c["ends"]
        if not a["answers"] and not b["answers"]:
            continue
        result.true += 1
        if number in joined:
            result.right += 1
            result.high += joined[number] in HIGH
        else:
            result.missing.append(c)
    return result
