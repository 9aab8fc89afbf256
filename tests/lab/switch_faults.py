"""Compares the faults that the switch injected into a recording with the events of `rdmawire analyze`.

The recording is the reference: the switch adds a comment to each modified frame and also records dropped frames. The
expected events follow from comments, addresses, QPs, PSNs and TCP sequence numbers:

exact, per frame        ecn_marked, crc_bad (ICRC), duplicate, nak, out_of_order (requests that were held until a later
                        one passed), tcp_retransmission and RC retransmission. Retransmissions are compared by their
                        first frames. Duplicates of the switch are not retransmissions. A recovery starts where the
                        numbers decrease
retransmission cause    sequence_error_nak if a NAK names a PSN of the recovery and no earlier recovery followed it, or
                        corrupted if the recovery begins with a corrupted packet. Not
                        checked for READs, because the requester repeats the READ request
lost_in_network         correct if it refers to a frame that the switch dropped or corrupted (after_capture), or to PSNs
                        missing from a direction (before_capture: netem in a guest). Required if a NAK names a
                        dropped PSN

`python3 switch_faults.py FILE…` prints the scores.
"""

import collections
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RDMAWIRE = os.environ.get("RDMAWIRE",
                          str(ROOT / "build" / os.environ.get("RDMAWIRE_PRESET", "dev") / "bin" / "rdmawire"))
FAULTS = {"dropped by": "dropped", "flipped": "corrupted", "marked CE": "marked", "times by": "duplicated",
        "held until": "held", "delayed by": "delayed"}  # fmt: skip
# Events of normal operation, and events that other tests check.
NOT_COMPARED = {"opened", "closed", "stall", "replaced"}


@dataclass
class Frame:
    number: int
    stream: tuple  # sender, receiver, QP or ports. Requests and responses are separate streams
    kind: str      # "request", "response", "datagram", "tcp"
    seq: int       # PSN or TCP sequence number
    length: int    # number of PSNs or bytes
    name: str
    comment: str
    nak: int | None

    def has(self, text):
        return text in self.comment

    @property
    def corrupted(self):
        return self.has("flipped") and not self.has("dropped by")


def frames_of(path):
    done = subprocess.run([RDMAWIRE, "dissect", "--json", str(path)], capture_output=True, text=True, check=True,
                          timeout=120)  # fmt: skip
    frames, iwarp = [], set()
    for line in done.stdout.splitlines():
        document = json.loads(line)
        layers = {layer["protocol"]: layer["fields"] for layer in document["layers"]}
        ip, bth, tcp = layers.get("ip") or layers.get("ipv6") or {}, layers.get("bth"), layers.get("tcp")
        comment = "; ".join(document.get("comments", []))
        ends = ip.get("src"), ip.get("dst")
        if bth:
            name, aeth = bth["opcode_name"], layers.get("aeth", {})
            response = name.endswith("Acknowledge") or "Response" in name
            kind = "response" if response else "request" if name.startswith(("RC ", "UC ")) else "datagram"
            nak = aeth.get("syndrome.nak_code") if aeth.get("syndrome.kind") == 3 else None
            stream = (*ends, bth["dest_qp"], kind)
            frames.append(Frame(document["frame"], stream, kind, bth["psn"], 1, name, comment, nak))
        elif tcp and document.get("payload"):
            stream = (*ends, tcp["src_port"], tcp["dst_port"])
            if "pdus" in document:
                iwarp.add(stream)
            length = document["payload"]["length"]
            frames.append(Frame(document["frame"], stream, "tcp", tcp["seq"], length, "TCP", comment, None))
    return [frame for frame in frames if frame.kind != "tcp" or frame.stream in iwarp]


def events_of(path):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([RDMAWIRE, "analyze", "--csv", folder, str(path)], capture_output=True, check=True, timeout=120)
        with open(Path(folder) / "events.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


def distance(a, b, bits):
    """Return the distance from b to a, modulo 2^bits."""
    half = 1 << bits - 1
    return (a - b + half) % (2 * half) - half


@dataclass
class Score:
    injected: collections.Counter = field(default_factory=collections.Counter)
    correct: collections.Counter = field(default_factory=collections.Counter)
    missed: list = field(default_factory=list)
    unexpected: list = field(default_factory=list)

    def compare(self, kind, reference, found):
        reference, found = collections.Counter(reference), collections.Counter(found)
        self.correct[kind] += sum((reference & found).values())
        self.missed += [f"{kind}: {one}" for one in (reference - found).elements()]
        self.unexpected += [f"{kind}: {one}" for one in (found - reference).elements()]

    @property
    def perfect(self):
        return not self.missed and not self.unexpected

    def __str__(self):
        injected = ", ".join(f"{count} {fault}" for fault, count in sorted(self.injected.items()) if count) or "none"
        correct = ", ".join(f"{count} {kind}" for kind, count in sorted(self.correct.items()) if count) or "none"
        return (f"injected: {injected}\n  correct: {correct}\n  missed: {', '.join(self.missed) or 'none'}\n"
                f"  unexpected: {', '.join(self.unexpected) or 'none'}")


def expand(rows, reference):
    """Yield the frames of events.

    An event with several packets yields the expected frames in its range if it has as many packets, otherwise a text
    with the difference.
    """
    for row in rows:
        first, last, count = int(row["frame"]), int(row["last_frame"] or row["frame"]), int(row["packets"] or 1)
        inside = [frame for frame in reference if first <= frame <= last]
        if count <= 1:
            yield first
        elif len(inside) == count:
            yield from inside
        else:
            yield f"{first} to {last}: {count} packets, expected {len(inside)}"


@dataclass
class ExpectedEvents:
    """The expected events of a direction."""
    recoveries: list = field(default_factory=list)   # (first frame, its PSN, whether a NAK caused it)
    overtaken: list = field(default_factory=list)   # frames that arrived after later ones
    copies: list = field(default_factory=list)   # duplicates created by the switch
    skipped: set = field(default_factory=set)   # PSNs that are missing at their position in the order


def expected_events_of(stream, frames):
    """Return the expected events of one direction.

    `frames` includes the other directions, which contain the NAKs.
    """
    expectation, bits = ExpectedEvents(), 32 if stream[-1] not in ("request", "response", "datagram") else 24
    seen, top, expected, in_recovery, nak, copies_seen = {}, None, None, False, None, collections.Counter()
    for frame in frames:
        if frame.kind == "response" and frame.nak == 0 and frame.stream[:2] == (stream[1], stream[0]):
            nak = frame
        if frame.stream != stream:
            continue
        copies = re.search(r"sent (\d+) times", frame.comment)
        if copies and not frame.has("dropped by"):
            copies_seen[frame.seq, frame.comment] += 1
            if copies_seen[frame.seq, frame.comment] % int(copies[1]) != 1:
                expectation.copies.append(frame.number)
                continue
        late = (frame.has("held until") or frame.has("delayed by")) and frame.seq not in seen
        if top is not None and distance(frame.seq, top, bits) < 0 and late:
            expectation.overtaken.append(frame.number)
            expectation.skipped.discard(frame.seq)
            seen[frame.seq] = frame.number
            continue
        old = top is not None and distance(frame.seq, top, bits) < 0
        if old and (not in_recovery or distance(frame.seq, expected, bits) < 0):
            by_nak = nak is not None and 0 <= distance(frame.seq, nak.seq, bits) < 64
            expectation.recoveries.append((frame.number, frame.seq, by_nak))
            in_recovery, nak = True, None
        elif expected is not None and (missing := distance(frame.seq, expected, bits)) > 0:
            expectation.skipped.update([expected] if bits == 32 else
                                  [(expected + i) % (1 << bits) for i in range(missing)])
        in_recovery = in_recovery and old
        seen[frame.seq] = frame.number
        end = (frame.seq + frame.length) % (1 << bits)
        expected = end
        if top is None or distance(end, top, bits) > 0:
            top = end
    return expectation


def score(path):
    frames, events = frames_of(path), events_of(path)
    found = collections.defaultdict(list)
    for event in events:
        found[event["kind"]].append(event)
    result = Score()
    for frame in frames:
        for text, fault in FAULTS.items():
            result.injected[fault] += frame.has(text)
    infiniband = [f for f in frames if f.kind != "tcp"]
    reads = any("READ" in f.name or "COMPARE" in f.name.upper() or "FETCH" in f.name.upper() for f in infiniband)

    marked = [f.number for f in frames if f.has("marked CE") and not f.has("dropped by")]
    result.compare("ecn_marked", marked, expand(found["ecn_marked"], marked))
    corrupted = [f.number for f in infiniband if f.corrupted]
    result.compare("crc_bad", corrupted, expand(found["crc_bad"], corrupted))
    naks = [f for f in infiniband if f.nak is not None and not f.corrupted]
    result.compare("nak", [f.number for f in naks], [int(row["frame"]) for row in found["nak"]])

    expectations = {stream: expected_events_of(stream, frames) for stream in dict.fromkeys(f.stream for f in frames)}
    request_directions = [s for stream, s in expectations.items() if stream[-1] == "request"]
    tcp_directions = [s for stream, s in expectations.items() if isinstance(stream[-1], int)]
    copies = [number for expectation in expectations.values() for number in expectation.copies]
    result.compare("duplicate", copies, [int(row["frame"]) for row in found["duplicate"]])
    overtaken = [number for expectation in request_directions for number in expectation.overtaken]
    result.compare("out_of_order", overtaken, [int(row["frame"]) for row in found["out_of_order"]])
    for kind, directions in (("retransmission", request_directions), ("tcp_retransmission", tcp_directions)):
        result.compare(kind, [number for expectation in directions for number, _, _ in expectation.recoveries],
                       [int(row["frame"]) for row in found[kind]])
    causes = {int(row["frame"]): row["cause"] for row in found["retransmission"]}
    corrupted = {f.seq for f in frames if f.corrupted and f.kind == "request"}
    for number, psn, by_nak in [one for expectation in request_directions for one in expectation.recoveries]:
        if by_nak and psn in corrupted and causes.get(number) == "corrupted":
            continue
        if number in causes and not reads and (causes[number] == "sequence_error_nak") != by_nak:
            result.unexpected.append(f"retransmission: {number} cause {causes[number]}, expected "
                                   f"{'a NAK' if by_nak else 'no NAK'}")

    lost = [f for f in frames if f.has("dropped by") or f.corrupted]
    skipped = set().union(*(expectation.skipped for expectation in expectations.values()))
    reported = set()
    for row in found["lost_in_network"]:
        begin, count = int(row["psn"] or 0), max(1, int(row["packets"] or 1))
        data = int(row["bytes"] or 0)
        matching = [f for f in lost if f.number <= int(row["frame"]) and
                    0 <= distance(f.seq, begin, 32 if f.kind == "tcp" else 24) <
                    (max(data, 1) if f.kind == "tcp" else count)]
        reported |= {f.seq for f in matching}
        if matching if row["cause"] == "after_capture" else begin in skipped:
            result.correct["lost_in_network"] += 1
        else:
            result.unexpected.append(f"lost_in_network {row['cause']}: {row['frame']}, from {begin}, {count} packets")
    named_by_nak = {f.seq for f in naks if f.nak == 0}
    for frame in lost:
        if frame.has("dropped by") and frame.kind == "request" and frame.seq in named_by_nak - reported:
            result.missed.append(f"lost_in_network: {frame.number}, PSN {frame.seq}")

    compared = {"ecn_marked", "crc_bad", "nak", "duplicate", "out_of_order", "retransmission", "tcp_retransmission",
              "lost_in_network"}  # fmt: skip
    for kind in set(found) - compared - NOT_COMPARED:
        if kind == "psn_gap" and any(f.name.startswith("UC ") for f in lost):
            continue
        result.unexpected += [f"{kind}: {row['frame']} {row['cause']}" for row in found[kind]]
    return result


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{Path(name).name}\n  {score(name)}")
