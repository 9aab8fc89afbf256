"""Compares `rdmawire analyze` with the ground truth. `python3 comparison.py FILE…` prints the differences."""

import csv
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from truth import infiniband, iwarp, packets

ROOT = Path(__file__).resolve().parents[2]
RDMAWIRE = os.environ.get("RDMAWIRE", str(ROOT / "build" / "dev" / "bin" / "rdmawire"))
COUNTS = ("packets", "payload_bytes", "requests", "responses", "message_bytes", "retransmitted_packets",
          "recoveries", "acks", "rnr_naks", "cnps", "ecn_capable", "ecn_marked")  # fmt: skip


@dataclasses.dataclass
class Analysis:
    report: dict
    messages: list
    events: list


def missing_program():
    """Return why rdmawire cannot run, or ""."""
    if not Path(RDMAWIRE).exists():
        return f"requires {RDMAWIRE}: run cmake --build --preset dev, or set RDMAWIRE to another program"
        return ""


def analyze(path, folder):
    done = subprocess.run([RDMAWIRE, "analyze", "--json", "--csv", str(folder), str(path)],
                          capture_output=True, text=True, check=True, timeout=60)  # fmt: skip
    return Analysis(json.loads(done.stdout), _table(folder, "messages.csv"), _table(folder, "events.csv"))


def _table(folder, name):
    with open(Path(folder) / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _end(row):
    """Return an endpoint of the report in the format of the ground truth."""
    address = str(row.get("address"))
    if address.lower().startswith("lid"):
        address = f"lid {int(address[3:].strip(' :'), 0)}"
    return address, row.get("qp")


def _pairs(frames, analysis):
    """Return ([(reference connection, reported connection, whether a and b are swapped)], unpaired connections)."""
    truth = infiniband.connections(frames, packets.infiniband_packets(frames))
    # Management QPs are not reported as connections.
    truth = [c for c in truth if c.service != "ud" or c.b[1] > 1] + iwarp.streams(frames)
    remaining = list(analysis.report["connections"])
    pairs, differences = [], []
    for reference in truth:
        match = next((c for c in remaining if {_end(c["a"]), _end(c["b"])} == {reference.a, reference.b}
                      and (reference.a != reference.b or c["connection"] == reference.first_frame)), None)  # fmt: skip
        if match is None:
            differences.append(f"not reported: {reference.first_frame}: {reference.a} - {reference.b}")
            continue
        remaining.remove(match)
        pairs.append((reference, match, _end(match["a"]) != reference.a))
    differences += [f"not expected: {c['connection']} {c.get('service')}: {_end(c['a'])} - {_end(c['b'])}"
                    for c in remaining]  # fmt: skip
    return pairs, differences


def _may_end_in(frame, frames):
    """Return whether a message may end in this frame. A retransmitted middle packet can follow the last packet, so
    either can be the last frame."""
    return min(frames) <= frame <= max(frames)


def differences_of_connections(frames, analysis):
    pairs, differences = _pairs(frames, analysis)
    for reference, match, swapped in pairs:
        name = f"{reference.first_frame} {reference.a} - {reference.b}"
        if swapped:
            differences.append(f"{name}: a and b are exchanged")
        is_stream = isinstance(reference, iwarp.Stream)
        service = "iwarp" if is_stream else reference.service
        if str(match.get("service")).lower() != service:
            differences.append(f"{name}: service {match.get('service')}, expected {service}")
        if not is_stream and reference.paired_by != "nothing" and match.get("paired_by") != reference.paired_by:
            differences.append(f"{name}: paired by {match.get('paired_by')}, expected {reference.paired_by}")
        for end in "ab":
            expected_counts = reference.sent[end]
            found_counts = match["sent"][end if not swapped else "ba"["ab".index(end)]]
            expected = {"messages": dict(expected_counts.messages)}
            found = {"messages": _counted(found_counts.get("messages", {}))}
            if is_stream:
                expected["message_bytes"] = expected_counts.message_bytes
                found["message_bytes"] = found_counts.get("message_bytes", 0)
            else:
                expected |= {count: getattr(expected_counts, count) for count in COUNTS}
                expected["naks"] = dict(expected_counts.naks)
                found |= {count: found_counts.get(count, 0) or 0 for count in COUNTS}
                found["naks"] = _counted(found_counts.get("naks", {}))
            for field, value in expected.items():
                if found[field] != value:
                    differences.append(f"{name}: {end} {field} {found[field]}, expected {value}")
    return differences


def _counted(value):
    return {name: count for name, count in (value or {}).items() if count} if isinstance(value, dict) else value


def _match_messages(found, expected, by_frame):
    """Pair reported and expected messages: by first frame if `by_frame`, the others by order."""
    remaining, pairs, unmatched = list(expected), [], []
    for row in found:
        match = next((m for m in remaining if row[0] in m.first_frames), None) if by_frame else None
        if match is None:
            unmatched.append(row)
        else:
            remaining.remove(match)
            pairs.append((row, match))
    return pairs + list(zip(unmatched, remaining, strict=True))


def differences_of_messages(frames, analysis):
    pairs, differences = _pairs(frames, analysis)[0], []  # differences_of_connections() reports unpaired connections
    for reference, match, swapped in pairs:
        for end in "ab":
            label = end if not swapped else "ba"["ab".index(end)]
            rows = [row for row in analysis.messages
                    if row["connection"] == str(match["connection"]) and row["end"] == label]  # fmt: skip
            found = sorted((int(row["first_frame"]), int(row["last_frame"]), row["operation"], int(row["size"]))
                           for row in rows)  # fmt: skip
            expected = sorted(reference.messages[end],
                              key=lambda m: (max(m.first_frames), min(m.last_frames), m.kind, m.size))
            name = f"{reference.first_frame} {end}"
            if len(found) != len(expected):
                differences.append(f"{name}: {len(found)} messages, expected {len(expected)}")
                continue
            # If TCP segments are lost, tshark shows the FPDUs in the frame that filled the gap.
            frames_count = not (isinstance(reference, iwarp.Stream) and reference.sent[end].tcp_fills)
            for (first, last, kind, size), message in _match_messages(found, expected, frames_count):
                if (kind, size) != (message.kind, message.size):
                    differences.append(f"{name}: {kind} of {size} in {first}, expected {message}")
                elif frames_count and not (first in message.first_frames and _may_end_in(last, message.last_frames)):
                    differences.append(f"{name}: {kind} of {size} in {first} to {last}, expected {message}")
    return sorted(differences)


def differences_of_retransmissions(frames, analysis, causes):
    """`causes`: {frame of a recovery: (end, causes separated by |, frame of the cause)}, instead of the computed
    causes."""
    pairs, differences = _pairs(frames, analysis)[0], []  # differences_of_connections() reports unpaired connections
    for reference, match, swapped in pairs:
        if isinstance(reference, iwarp.Stream):
            continue
        rows = [row for row in analysis.events
                if row["kind"] == "retransmission" and row["connection"] == str(match["connection"])]  # fmt: skip
        for end in "ab":
            label = end if not swapped else "ba"["ab".index(end)]
            rows_by_frame = {int(row["frame"]): row for row in rows if row["end"] == label}
            for one in reference.recoveries[end]:
                # The event starts at the recovery's first frame. If that frame fills a gap, it may start at the first
                # frame whose original was captured.
                row = next((rows_by_frame.pop(frame) for frame in [one.frame, *one.retransmitted[:1]]
                            if frame in rows_by_frame), None)
                expected = causes.get(one.frame, (end, one.cause, one.cause_frame))
                if row is None:
                    differences.append(f"{one.frame}: no retransmission of {end} reported ({expected[1]})")
                elif row["cause"] not in expected[1].split("|"):
                    differences.append(f"{one.frame}: cause {row['cause']}, expected {expected[1]}")
                elif expected[2] and int(row["cause_frame"] or 0) != expected[2]:
                    differences.append(f"{one.frame}: cause in frame {row['cause_frame']}, expected {expected[2]}")
            differences += [f"{frame}: retransmission of {end} ({row['cause']}) was not expected"
                            for frame, row in rows_by_frame.items()]
    return differences


# Kinds of events that no capture contains. Reporting such an event is an error.
ABSENT_KINDS = ("lost_in_capture", "psn_gap", "out_of_order", "duplicate", "rnr_nak", "ghost_acknowledgement",
         "unsolicited_response", "msn_jump", "segmentation", "opcode_sequence", "read_limit", "ecn_marked", "cnp",
         "path_change", "replaced")  # fmt: skip


def differences_of_events(frames, analysis, real=()):
    """`real`: (kind, frame) of events of ABSENT_KINDS that the capture does contain."""
    sent = packets.infiniband_packets(frames)
    differences = [f"{row['frame']}: {row['kind']} {row['cause']} was not expected" for row in analysis.events
                  if row["kind"] in ABSENT_KINDS and (row["kind"], int(row["frame"])) not in real]  # fmt: skip
    sent_naks = {p.frame: infiniband.NAK_CODES[p.syndrome & 31] for p in sent
               if p.operation == "acknowledge" and p.syndrome >> 5 == 3}  # fmt: skip
    reported = {int(row["frame"]): row["cause"] for row in analysis.events if row["kind"] == "nak"}
    if reported != sent_naks:
        differences.append(f"NAKs {reported}, expected {sent_naks}")
    filled = sum(c.sent[end].filled for c in infiniband.connections(frames, sent) for end in "ab")
    lost = [row for row in analysis.events if row["kind"] == "lost_in_network"]
    if sum(int(row["packets"]) for row in lost) < filled:
        differences.append(f"{len(lost)} loss events, expected at least {filled} lost packets")
    # Both hosts dropped packets on transmission, before the capture point.
    differences += [f"{row['frame']}: loss {row['cause']}, expected before_capture" for row in lost
                   if row["cause"] != "before_capture"]  # fmt: skip
    file = analysis.report["input"]["files"][0]
    if lost and not any("loss" in name for name in file.values() if isinstance(name, str)):
        differences.append(f"{lost[0]['frame']}: loss in a capture without losses")
    # One event can cover several segments of one recovery.
    filled_frames = sorted(frame for s in iwarp.streams(frames) for end in "ab" for frame in s.sent[end].tcp_fills)
    repairs = [row for row in analysis.events if row["kind"] == "tcp_retransmission"]
    reported = [(int(row["frame"]), int(row["last_frame"])) for row in repairs]
    covered = all(any(first <= frame <= last for first, last in reported) for frame in filled_frames)
    if not covered or sum(int(row["packets"]) for row in repairs) != len(filled_frames):
        differences.append(f"TCP retransmissions {reported}, expected {filled_frames}")
    return differences


def main(paths):
    reason = missing_program()
    if reason:
        sys.exit(reason)
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            analysis = analyze(path, folder)
        frames = packets.rows(path)
        for compare in (differences_of_connections, differences_of_messages, differences_of_events):
            for line in compare(frames, analysis):
                print(f"{Path(path).name}: {line}")
        for line in differences_of_retransmissions(frames, analysis, {}):
            print(f"{Path(path).name}: {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
