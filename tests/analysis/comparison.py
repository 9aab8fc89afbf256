"""What `rdmawire analyze` says of a capture beside the truth. python3 comparison.py FILE… prints what differs."""

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
COUNTS = ("packets", "payload_bytes", "requests", "responses", "message_bytes", "retransmitted_packets", "recoveries", "acks",
          "rnr_naks", "cnps", "ecn_capable", "ecn_marked")  # fmt: skip


@dataclasses.dataclass
class Said:
    report: dict
    messages: list
    events: list


def cannot_run():
    """Why the comparison cannot be made; "" where it can."""
    if not Path(RDMAWIRE).exists():
        return f"needs {RDMAWIRE}: build it with cmake --build --preset dev, or name another in RDMAWIRE"
    done = subprocess.run([RDMAWIRE, "--help"], capture_output=True, text=True, check=False)
    return "" if "\n  analyze " in done.stdout else f"{RDMAWIRE} has no command analyze"


def analyze(path, folder):
    done = subprocess.run([RDMAWIRE, "analyze", "--json", "--csv", str(folder), str(path)],
                          capture_output=True, text=True, check=True, timeout=60)  # fmt: skip
    return Said(json.loads(done.stdout), _table(folder, "messages.csv"), _table(folder, "events.csv"))


def _table(folder, name):
    with open(Path(folder) / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _end(said):
    """An end of the report as the truth writes it."""
    address = str(said.get("address"))
    if address.lower().startswith("lid"):
        address = f"lid {int(address[3:].strip(' :'), 0)}"
    return address, said.get("qp")


def _pairs(frames, said):
    """[(true connection, connection of the report, whether its a is the truth's b)], and what has no partner."""
    truth = infiniband.connections(frames, packets.infiniband_packets(frames))
    # Management (QP 0 and 1) is no connection: what it sets up is reported.
    truth = [c for c in truth if c.service != "ud" or c.b[1] > 1] + iwarp.streams(frames)
    left = list(said.report["connections"])
    pairs, complaints = [], []
    for true in truth:
        match = next((c for c in left if {_end(c["a"]), _end(c["b"])} == {true.a, true.b}
                      and (true.a != true.b or c["connection"] == true.first_frame)), None)  # fmt: skip
        if match is None:
            complaints.append(f"not reported: {true.first_frame}: {true.a} - {true.b}")
            continue
        left.remove(match)
        pairs.append((true, match, _end(match["a"]) != true.a))
    complaints += [f"not there: {c['connection']} {c.get('service')}: {_end(c['a'])} - {_end(c['b'])}" for c in left]
    return pairs, complaints


def _ends_in(frame, frames):
    """Its last packet may have come before one of its middle, which was lost at first: it ends with either."""
    return min(frames) <= frame <= max(frames)


def differences_of_connections(frames, said):
    pairs, complaints = _pairs(frames, said)
    for true, match, swapped in pairs:
        name = f"{true.first_frame} {true.a} - {true.b}"
        if swapped:
            complaints.append(f"{name}: a and b are exchanged")
        is_stream = isinstance(true, iwarp.Stream)
        service = "iwarp" if is_stream else true.service
        if str(match.get("service")).lower() != service:
            complaints.append(f"{name}: service {match.get('service')}, truly {service}")
        if not is_stream and true.paired_by != "nothing" and match.get("paired_by") != true.paired_by:
            complaints.append(f"{name}: joined by {match.get('paired_by')}, truly {true.paired_by}")
        for end in "ab":
            mine, theirs = true.sent[end], match["sent"][end if not swapped else "ba"["ab".index(end)]]
            expected = {"messages": dict(mine.messages)}
            found = {"messages": _counted(theirs.get("messages", {}))}
            if is_stream:
                expected["message_bytes"] = mine.message_bytes
                found["message_bytes"] = theirs.get("message_bytes", 0)
            else:
                expected |= {count: getattr(mine, count) for count in COUNTS} | {"naks": dict(mine.naks)}
                found |= {count: theirs.get(count, 0) or 0 for count in COUNTS} | {"naks": _counted(theirs.get("naks", {}))}
            for field, value in expected.items():
                if found[field] != value:
                    complaints.append(f"{name}: {end} {field} {found[field]}, truly {value}")
    return complaints


def _counted(value):
    return {name: count for name, count in (value or {}).items() if count} if isinstance(value, dict) else value


def _in_pairs(found, expected, by_frame):
    """Each message that is told beside the true one: the one that begins in that frame, where frames count; what is left
    by its order, so that one that is told otherwise does not make all behind it seem wrong."""
    left, pairs, alone = list(expected), [], []
    for row in found:
        match = next((m for m in left if row[0] in m.first_frames), None) if by_frame else None
        if match is None:
            alone.append(row)
        else:
            left.remove(match)
            pairs.append((row, match))
    return pairs + list(zip(alone, left, strict=True))


def differences_of_messages(frames, said):
    pairs, complaints = _pairs(frames, said)[0], []  # what has no partner is told with the connections
    for true, match, swapped in pairs:
        for end in "ab":
            label = end if not swapped else "ba"["ab".index(end)]
            rows = [row for row in said.messages
                    if row["connection"] == str(match["connection"]) and row["end"] == label]  # fmt: skip
            found = sorted((int(row["first_frame"]), int(row["last_frame"]), row["operation"], int(row["size"])) for row in rows)
            expected = sorted(true.messages[end], key=lambda m: (max(m.first_frames), min(m.last_frames), m.kind, m.size))
            name = f"{true.first_frame} {end}"
            if len(found) != len(expected):
                complaints.append(f"{name}: {len(found)} messages, truly {len(expected)}")
                continue
            # Where TCP lost segments, tshark shows FPDUs in the frame that filled the hole before them.
            frames_count = not (isinstance(true, iwarp.Stream) and true.sent[end].tcp_behind)
            for (first, last, kind, size), message in _in_pairs(found, expected, frames_count):
                if (kind, size) != (message.kind, message.size):
                    complaints.append(f"{name}: {kind} of {size} in {first}, truly {message}")
                elif frames_count and not (first in message.first_frames and _ends_in(last, message.last_frames)):
                    complaints.append(f"{name}: {kind} of {size} in {first} to {last}, truly {message}")
    return sorted(complaints)


def differences_of_retransmissions(frames, said, causes):
    """`causes`: frame of a round to (end, causes divided by |, frame of the cause)."""
    pairs, complaints = _pairs(frames, said)[0], []  # what has no partner is told with the connections
    for true, match, swapped in pairs:
        if isinstance(true, iwarp.Stream):
            continue
        rows = [row for row in said.events
                if row["kind"] == "retransmission" and row["connection"] == str(match["connection"])]  # fmt: skip
        for end in "ab":
            label = end if not swapped else "ba"["ab".index(end)]
            mine = {int(row["frame"]): row for row in rows if row["end"] == label}
            for one in true.recoveries[end]:
                # It begins with what fills a hole (its first sending was not captured), or with what was seen before.
                row = next((mine.pop(frame) for frame in [one.frame, *one.again[:1]] if frame in mine), None)
                expected = causes.get(one.frame, (end, one.cause, one.cause_frame))
                if row is None:
                    complaints.append(f"{one.frame}: no retransmission of {end} reported ({expected[1]})")
                elif row["cause"] not in expected[1].split("|"):
                    complaints.append(f"{one.frame}: cause {row['cause']}, truly {expected[1]}")
                elif expected[2] and int(row["cause_frame"] or 0) != expected[2]:
                    complaints.append(f"{one.frame}: cause in frame {row['cause_frame']}, truly {expected[2]}")
            complaints += [f"{frame}: retransmission of {end} ({row['cause']}) is not there" for frame, row in mine.items()]
    return complaints


# What no capture of ours has: whoever reports one has misread.
NEVER = ("lost_in_capture", "psn_gap", "out_of_order", "duplicate", "rnr_nak", "ghost_acknowledgement",
         "unsolicited_response", "msn_jump", "segmentation", "opcode_sequence", "read_limit", "ecn_marked", "cnp",
         "path_change", "replaced")  # fmt: skip


def differences_of_events(frames, said, there=()):
    """`there`: (kind, frame) of what is there, though nearly no capture has it."""
    sent = packets.infiniband_packets(frames)
    complaints = [f"{row['frame']}: {row['kind']} {row['cause']} is not there" for row in said.events
                  if row["kind"] in NEVER and (row["kind"], int(row["frame"])) not in there]  # fmt: skip
    refused = {p.frame: infiniband.NAK_CODES[p.syndrome & 31] for p in sent
               if p.operation == "acknowledge" and p.syndrome >> 5 == 3}  # fmt: skip
    told = {int(row["frame"]): row["cause"] for row in said.events if row["kind"] == "nak"}
    if told != refused:
        complaints.append(f"NAKs {told}, truly {refused}")
    filled = sum(c.sent[end].filled for c in infiniband.connections(frames, sent) for end in "ab")
    lost = [row for row in said.events if row["kind"] == "lost_in_network"]
    if sum(int(row["packets"]) for row in lost) < filled:
        complaints.append(f"{len(lost)} events of loss, truly at least {filled} packets were lost")
    # Both machines lost packets as they sent them, before they came by the capturing point.
    complaints += [f"{row['frame']}: loss {row['cause']}, truly before_capture" for row in lost
                   if row["cause"] != "before_capture"]  # fmt: skip
    if lost and not any("loss" in name for name in said.report["input"]["files"][0].values() if isinstance(name, str)):
        complaints.append(f"{lost[0]['frame']}: loss where nothing was lost")
    # One event can hold several segments of one repair.
    behind = sorted(frame for s in iwarp.streams(frames) for end in "ab" for frame in s.sent[end].tcp_behind)
    repairs = [row for row in said.events if row["kind"] == "tcp_retransmission"]
    told = [(int(row["frame"]), int(row["last_frame"])) for row in repairs]
    covered = all(any(first <= frame <= last for first, last in told) for frame in behind)
    if not covered or sum(int(row["packets"]) for row in repairs) != len(behind):
        complaints.append(f"TCP retransmissions {told}, truly {behind}")
    return complaints


def main(paths):
    reason = cannot_run()
    if reason:
        sys.exit(reason)
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            said = analyze(path, folder)
        frames = packets.rows(path)
        for what in (differences_of_connections, differences_of_messages, differences_of_events):
            for line in what(frames, said):
                print(f"{Path(path).name}: {line}")
        for line in differences_of_retransmissions(frames, said, {}):
            print(f"{Path(path).name}: {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
