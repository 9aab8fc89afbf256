"""Finds differences between rdmawire and tshark, and compares them with the known differences.

    python tests/differential/differences.py                  print a summary of the unknown differences
    python tests/differential/differences.py REASON FIELD...  add the differences of these fields as known, for REASON
                                                              (FIELD@CAPTURE: only of one capture)

known.toml lists frames and values for each reason, capture and field:

    [reasons]
    some-name = "One sentence: why rdmawire is correct."

    [known.some-name."samples/rping.pcap"]
    "ip.version" = ["2, 5-9: absent | 6"]     # frames: rdmawire | tshark

Frame numbers are complete, without wildcards. Several values of a field in a frame are separated by commas.
"""

import collections
import concurrent.futures
import dataclasses
import json
import sys
import tomllib
from pathlib import Path

import programs
from captures import Capture, all_captures

KNOWN = Path(__file__).with_name("known.toml")
ABSENT = "absent"


@dataclasses.dataclass(frozen=True)
class Difference:
    """One difference of a field: the frames (numbers and ranges) and both values."""

    capture: str
    field: str
    frames: str
    rdmawire: str
    tshark: str
    reason: str = ""

    def key(self):
        return (self.capture, self.field, self.frames, self.rdmawire, self.tshark)

    def __str__(self):
        return f"{self.capture} {self.field} frames {self.frames}: rdmawire {self.rdmawire}, tshark {self.tshark}"


@dataclasses.dataclass
class Comparison:
    capture: Capture
    frames: int
    tshark_frames: int
    equal: collections.Counter  # number of equal values, by field
    differences: list


@dataclasses.dataclass
class Known:
    reasons: dict
    entries: list


def write_frames(numbers):
    """Return [1, 2, 3, 7] as "1-3, 7"."""
    ranges = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def count_frames(text):
    """Return the number of frames in "1-3, 7"."""
    return sum(int(part.split("-")[-1]) - int(part.split("-")[0]) + 1 for part in text.split(", "))


def _write_values(values):
    return ABSENT if values is None else ",".join(str(value) for value in values)


def compare(capture):
    """Compare the output of both programs for a capture."""
    rdmawire = [programs.rdmawire_values(packet) for packet in programs.dissect(capture.path)]
    tshark = programs.tshark_values(capture.path)
    equal = collections.Counter()
    frames_of = {}
    for number, (here, there) in enumerate(zip(rdmawire, tshark), 1):
        for name in sorted(here.keys() | there.keys()):
            if name not in programs.compared_fields():
                continue
            if here.get(name) == there.get(name):
                equal[name] += len(here[name])
            else:
                key = (name, _write_values(here.get(name)), _write_values(there.get(name)))
                frames_of.setdefault(key, []).append(number)
    found = [Difference(capture.name, name, write_frames(frames), here, there)
             for (name, here, there), frames in frames_of.items()]
    return Comparison(capture, len(rdmawire), len(tshark), equal, found)


def compare_all(captures):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(compare, captures))


def read_known():
    document = tomllib.loads(KNOWN.read_text())
    entries = []
    for reason, captures in document.get("known", {}).items():
        for capture, fields in captures.items():
            for field, lines in fields.items():
                for line in lines:
                    frames, _, values = line.partition(": ")
                    rdmawire, _, tshark = values.partition(" | ")
                    entries.append(Difference(capture, field, frames, rdmawire, tshark, reason))
    return Known(document.get("reasons", {}), entries)


def write_known(known):
    tree = {}
    for entry in known.entries:
        fields = tree.setdefault(entry.reason, {}).setdefault(entry.capture, {})
        fields.setdefault(entry.field, []).append(f"{entry.frames}: {entry.rdmawire} | {entry.tshark}")
    lines = ["# Differences between rdmawire and tshark 4.0, and why rdmawire is correct. Format: see differences.py.",
             "", "[reasons]"]
    lines += [f"{reason} = {json.dumps(text, ensure_ascii=False)}" for reason, text in known.reasons.items()]
    for reason in known.reasons:
        for capture, fields in sorted(tree.get(reason, {}).items()):
            lines += ["", f"[known.{reason}.{json.dumps(capture)}]"]
            for field, differing in sorted(fields.items()):
                if len(differing) == 1:
                    lines.append(f"{json.dumps(field)} = [{json.dumps(differing[0], ensure_ascii=False)}]")
                else:
                    lines.append(f"{json.dumps(field)} = [")
                    lines += [f"  {json.dumps(line, ensure_ascii=False)}," for line in differing]
                    lines.append("]")
    KNOWN.write_text("\n".join(lines) + "\n")


def totals(compared, checked, known):
    """Return a summary of the comparison."""
    equal = sum((c.equal for c in compared), collections.Counter())
    fields_of_tshark = collections.Counter(protocol for _, protocol in programs.tshark_fields().values())
    lines = [f"{len(compared)} captures, {sum(c.frames for c in compared)} frames: {len(programs.compared_fields())} "
             f"fields compared, {len(equal)} of them present, {equal.total()} values equal, "
             f"{len(checked)} known differences"]
    by_reason = collections.Counter()
    for entry in checked.values():
        by_reason[entry.reason] += count_frames(entry.frames)
    for reason, count in by_reason.most_common():
        lines.append(f"  {count:6} values  {reason}: {known.reasons.get(reason)}")
    named = collections.Counter(name.split(".")[0] for name in programs.compared_fields())
    lines.append("tshark fields with a field in rdmawire's tables: " + ", ".join(
        f"{family} {named[family]} of {sum(1 for n in programs.tshark_fields() if n.split('.')[0] == family)}"
        for family in ("infiniband", "iwarp_mpa", "iwarp_ddp", "iwarp_rdma") if fields_of_tshark))
    return "\n".join(lines)


def main(arguments):
    compared = compare_all(all_captures())
    known = read_known() if KNOWN.exists() else Known({}, [])
    found = {difference.key(): difference for c in compared for difference in c.differences}
    known.entries = [entry for entry in known.entries if entry.key() in found]
    for entry in known.entries:
        del found[entry.key()]
    if arguments:
        reason, *fields = arguments
        known.reasons.setdefault(reason, "")
        known.entries += [dataclasses.replace(d, reason=reason) for d in found.values()
                          if d.field in fields or f"{d.field}@{d.capture}" in fields]
        write_known(known)
        return
    by_field = {}
    for difference in found.values():
        by_field.setdefault(difference.field, []).append(difference)
    for field, differing in sorted(by_field.items()):
        frames = sum(count_frames(d.frames) for d in differing)
        print(f"{field}: {frames} frames of {len({d.capture for d in differing})} captures")
        for difference in differing[:3]:
            print(f"    {difference}")
    print(f"{len(found)} unknown differences")


if __name__ == "__main__":
    main(sys.argv[1:])
