#!/usr/bin/python3
"""Writes a report and its details like `rdmawire analyze`, with random data, to test and demonstrate the page.

usage: synthetic.py FOLDER [--connections N] [--findings N] [--seed N]

Writes FOLDER/report.json and FOLDER/details.json with the keys of docs/reference/analyze-report.md. The same seed gives
the same files.
"""

import argparse
import json
import math
import random
from pathlib import Path

START = 1732163000
SECOND = 10**9

KINDS = [
    ("error", "nak", "remote_access_error", "NAK: the responder does not permit this access",
     "The responder rejected a request because of its R_Key, address or access rights. The QP enters the Error state.",
     "whether the memory region was still registered when the request arrived, and with which access rights"),
    ("error", "crc_bad", "payload", "Corrupted packets",
     "The ICRC is invalid, and no change that a router may make explains it.",
     "cables and memory on the path, and the symbol error counters of the switch"),
    ("warning", "retransmission", "sequence_error_nak", "Retransmissions after a sequence error NAK",
     "The responder detected a PSN gap and requested all packets from there on (go-back-N).",
     "packet loss in the network: the lost packets were captured. Check the switch between the hosts"),
    ("warning", "retransmission", "timeout", "Retransmissions after a timeout",
     "The last packet of a message or its acknowledgement was lost. Only the requester's timer detected this.",
     "the ACK timeout of the QP, and packet loss in the reverse direction"),
    ("warning", "rnr_nak", "rnr", "Receiver not ready",
     "A SEND arrived while no receive was posted. The requester waits for the RNR timer.",
     "how many receives the application posts, and when it posts new ones"),
    ("warning", "stall", "credit", "The sender waits for credits",
     "The sender was idle for longer than usual, and the last acknowledgement contained no credits.",
     "the activity of the receiving application in this time"),
    ("info", "ecn_marked", "none", "ECN-marked packets", "A switch's queue exceeded its ECN threshold.",
     "incast at this receiver, and the ECN thresholds of the switch"),
]  # fmt: skip
EVENTS = ["retransmission", "nak", "rnr_nak", "lost_in_network", "out_of_order", "duplicate", "ecn_marked", "cnp", "stall",
          "opened", "closed", "crc_bad"]
MESSAGES = ["send", "write", "read", "compare_swap", "fetch_add"]


def time_text(ns):
    """Format a time as in the report: seconds since the epoch with nine decimals. `ns`: nanoseconds since the start of the capture."""
    return f"{START + ns // SECOND}.{ns % SECOND:09d}"


def address(number):
    return f"10.{number // 62500 % 250}.{number // 250 % 250}.{number % 250 + 2}"


class ReportBuilder:
    def __init__(self, connections, findings, seed):
        self.random = random.Random(seed)
        self.count, self.finding_count = connections, findings
        self.duration = 12 * SECOND
        self.connections = [self.connection(at) for at in range(connections)]
        ranked = sorted((self.random.choice(KINDS) for _ in range(findings)),
                        key=lambda kind: ["error", "warning", "info"].index(kind[0]))
        self.findings = [self.finding(rank, kind) for rank, kind in enumerate(ranked, 1)] if connections else []

    def sent(self, heavy):
        r = self.random
        packets = int(r.paretovariate(1.1) * (40 if heavy else 4))
        payload = packets * r.choice([64, 1024, 4096])
        retransmitted = r.choice([0, 0, 0, 0, 0, 1, 3, packets // 20])
        return {
            "packets": packets, "wire_bytes": payload + packets * 70, "payload_bytes": payload,
            "requests": packets * 3 // 4, "responses": packets // 4,
            "messages": {"send": packets // 8, "write": packets // 9, "read": packets // 40},
            "message_bytes": payload, "messages_completed": packets // 5, "messages_refused": 0,
            "retransmitted_packets": retransmitted, "retransmitted_bytes": retransmitted * 1024,
            "recoveries": min(retransmitted, 4),
            "lost_in_network": min(retransmitted, 2), "lost_in_capture": 0, "out_of_order": 0, "duplicates": 0,
            "acks": packets // 4, "rnr_naks": 0, "naks": [min(retransmitted, 4), 0, 0, 0, 0],
            "cnps": r.choice([0, 0, 0, 2]),
            "ecn_capable": packets, "ecn_marked": packets // 50, "crc_bad": 0, "truncated": 0,
            "request_dscp": 26, "response_dscp": 26, "latency_count": packets // 5,
            "latency_sum": packets * 2400, "latency_max": int(r.lognormvariate(9.5, 1.2)),
        }  # fmt: skip

    def connection(self, at):
        r = self.random
        first, last = sorted(r.randrange(self.duration) for _ in range(2))
        hosts = max(8, self.count // 200)
        source = r.randrange(hosts)
        destination = (source + 1 + r.randrange(hosts - 1)) % hosts
        return {
            "connection": at * 37 + 1, "service": r.choice(["rc"] * 8 + ["uc", "ud"]), "wire": "roce_v2",
            "a": {"address": address(source), "qp": 0x11 + at},
            "b": {"address": address(destination), "qp": 0x8011 + at},
            "paired_by": r.choice(["connection_manager", "answers", "source_port"]),
            "confidence": r.choice(["certain", "high", "high", "low"]), "mtu": 1024, "mtu_negotiated": at % 3 == 0,
            "upper": r.choice(["none", "none", "nvme_of", "smb_direct"]), "service_port": 4420 if at % 5 == 0 else None,
            "first_frame": at * 37 + 1, "last_frame": at * 37 + 36, "first_time": time_text(first),
            "last_time": time_text(last), "opened_frame": at * 37 + 1, "closed_frame": None, "replaced": False,
            "sent": {"a": self.sent(True), "b": self.sent(False)},
        }  # fmt: skip

    def finding(self, rank, kind):
        severity, name, cause, title, meaning, next_check = kind
        r = self.random
        row = self.connections[r.randrange(min(len(self.connections), max(3, self.finding_count // 3)))]
        count = max(1, int(r.paretovariate(0.8)))
        frames = sorted({row["first_frame"] + r.randrange(5000) for _ in range(min(10, count))})
        first = r.randrange(self.duration // 2)
        a, b = row["a"], row["b"]
        return {
            "rank": rank, "severity": severity, "kind": name, "cause": cause, "connection": row["connection"],
            "end": "a", "flow": f"QP {a['qp']:#x} → {b['qp']:#x}  {a['address']} → {b['address']}", "title": title,
            "count": count, "packets": count * 9, "bytes": count * 9216, "cost_ns": int(count * r.uniform(2e5, 7e7)),
            "first_frame": frames[0], "last_frame": frames[-1], "first_time": time_text(first),
            "last_time": time_text(first + r.randrange(self.duration // 2)), "frames": frames,
            "share": round(r.uniform(0.0005, 0.09), 4), "meaning": meaning, "next": next_check,
        }  # fmt: skip

    def flows(self):
        for row in self.connections:
            for end, other in (("a", "b"), ("b", "a")):
                sent, back = row["sent"][end], row["sent"][other]
                yield {
                    "connection": row["connection"], "from": end, "ip_src": row[end]["address"],
                    "ip_dst": row[other]["address"], "ip_dscp": 26, "src_qp": row[end]["qp"],
                    "dest_qp": row[other]["qp"], "frames_tx": sent["packets"], "frames_rx": back["packets"],
                    "frames_retransmitted": sent["retransmitted_packets"], "frame_sequence_error": sent["recoveries"],
                    "nak_tx": back["naks"][0], "nak_rx": sent["naks"][0], "ecn_ce_rx": back["ecn_marked"],
                    "cnp_tx": sent["cnps"], "cnp_rx": back["cnps"], "message_complete_rx": back["messages_completed"],
                    "message_fail": 0, "flow_completion_time": self.random.randrange(self.duration),
                    "latency_max": sent["latency_max"],
                }  # fmt: skip

    def wave(self, at, steps):
        dip = 0.25 if 0.55 < at / steps < 0.63 else 1
        noise = self.random.uniform(0.9, 1.05)
        return (0.55 + 0.35 * math.sin(at / steps * 9) ** 2) * dip * noise * min(1, at / 6) * min(1, (steps - at) / 4)

    def series(self):
        steps, step = 240, self.duration // 240
        load = [self.wave(at, steps) for at in range(steps)]
        busy = lambda at: 0.53 < at / steps < 0.66
        packets = [int(value * step / 1000 * 11) for value in load]
        return {
            "start": time_text(0), "step_ns": step, "payload_bytes": [int(value * step * 11.5) for value in load],
            "packets": packets, "messages": [value // 9 for value in packets],
            "retransmitted": [self.random.randrange(40, 400) if busy(at) else int(self.random.random() < 0.05)
                              for at in range(steps)],
            "ecn_marked": [self.random.randrange(300) if busy(at) else self.random.randrange(12) for at in range(steps)],
            "cnps": [self.random.randrange(90) if busy(at) else 0 for at in range(steps)],
        }  # fmt: skip

    def latency(self):
        for operation in MESSAGES:
            phases = (["request_to_first_response", "request_to_last_response"] if operation == "read"
                      else ["request_to_acknowledgement"])
            for size_from, size_to in ((1, 4096), (4097, 65536), (65537, 1048576)):
                if operation in ("compare_swap", "fetch_add") and size_from > 1:
                    continue
                for phase in phases:
                    base = 2500 * (1 + size_to / 60000) * (1.4 if phase.endswith("last_response") else 1)
                    row = {"operation": operation, "size_from": size_from, "size_to": size_to, "phase": phase,
                           "count": self.random.randrange(100, 90000), "min_ns": int(base * 0.7), "p50_ns": int(base),
                           "p90_ns": int(base * 1.7), "p99_ns": int(base * 4.4), "p999_ns": int(base * 31),
                           "max_ns": int(base * 2600)}  # fmt: skip
                    yield row | {"buckets": self.buckets(row)}

    def report(self):
        r, rows = self.random, self.connections
        totals = [sent for row in rows for sent in row["sent"].values()]
        total = lambda name: sum(sent[name] for sent in totals)
        packets, data = total("packets"), total("wire_bytes")
        severities = [finding["severity"] for finding in self.findings]
        hosts = sorted({row[end]["address"] for row in rows for end in "ab"})
        pairs = {}
        for row in rows:
            pair = pairs.setdefault((row["a"]["address"], row["b"]["address"]), [0, 0, 0, 0])
            for at, value in enumerate((row["sent"]["a"]["packets"], row["sent"]["a"]["wire_bytes"],
                                        row["sent"]["a"]["payload_bytes"], 1)):
                pair[at] += value
        events = {kind: int(r.paretovariate(0.5)) % 4000 for kind in EVENTS} if self.findings else {}
        return {
            "schema": "rdmawire.analysis/2", "program": "rdmawire 0.1.0",
            "input": {"files": [{"name": "leaf3-port17.pcapng", "packets": packets * 2 // 3, "bytes": data * 2 // 3,
                                 "first_frame": 1, "lost_by_capture": 0},
                                {"name": "leaf3-port17.1.pcapng", "packets": packets - packets * 2 // 3,
                                 "bytes": data - data * 2 // 3, "first_frame": packets * 2 // 3 + 1,
                                 "lost_by_capture": 12 if self.findings else 0}],
                      "filter": None, "from": None, "to": None, "exact": True,
                      "evicted": {"connections": 0, "packets": 0}},
            "summary": {"packets": packets, "bytes": data, "first_time": time_text(0),
                        "last_time": time_text(self.duration), "duration_ns": self.duration,
                        "wires": {"roce_v2": packets}, "connections": len(rows),
                        "messages": total("messages_completed"), "message_bytes": total("message_bytes"),
                        "retransmitted_packets": total("retransmitted_packets"), "events": events,
                        "findings": {name: severities.count(name) for name in ("error", "warning", "info")}},
            "findings": self.findings, "connections": rows, "flows": list(self.flows()),
            "operations": [{"operation": name, "messages": 90000 - at * 17000, "bytes": (90000 - at * 17000) * 9000,
                            "completed": 90000 - at * 17000 - at, "refused": at, "size_min": 8, "size_max": 1 << 20,
                            "sizes": [{"from": 1 << bit, "to": (2 << bit) - 1, "messages": 1000 * bit}
                                      for bit in range(3, 9)]} for at, name in enumerate(MESSAGES)],
            "latency": list(self.latency()),
            "retransmissions": {cause: {"recoveries": 31 * at, "packets": 287 * at, "bytes": 290000 * at,
                                        "duration_ns": 61000000 * at}
                                for at, cause in enumerate(("sequence_error_nak", "timeout", "rnr"), 1)},
            "naks": {"psn_sequence_error": 211, "remote_access_error": 3},
            "regions": [{"responder": r.choice(hosts), "key": f"0x{r.getrandbits(32):x}",
                         "address_from": f"0x{0x55d0c0de0000 + at * 65536:x}",
                         "address_to": f"0x{0x55d0c0de0000 + at * 65536 + 65535:x}", "read_bytes": r.randrange(10**9),
                         "written_bytes": r.randrange(10**9), "atomics": r.randrange(9), "refused": 0,
                         "messages": r.randrange(10**5)} for at in range(min(500, self.count))],
            "talkers": [{"from": a, "to": b, "packets": value[0], "bytes": value[1], "payload_bytes": value[2],
                         "queue_pairs": value[3], "source_ports": value[3]} for (a, b), value in pairs.items()][:500],
            "endpoints": [{"address": host, "queue_pairs": sum(row[end]["address"] == host for row in rows for end in "ab"),
                           "sent_packets": r.randrange(10**6), "sent_bytes": r.randrange(10**9),
                           "received_packets": r.randrange(10**6), "received_bytes": r.randrange(10**9)}
                          for host in hosts],
            "crc_errors": [{"from": hosts[0], "to": hosts[1], "count": 7, "cause": "payload", "first_frame": 4711}],
            "congestion": {"ecn_capable": packets, "ecn_marked": total("ecn_marked"), "cnps": total("cnps"),
                           "ce_to_cnp_ns": {"p50": 5300, "p99": 48000}, "rate_fell": 17, "rate_unchanged": 3,
                           "classes": [{"dscp": dscp, "ecn": ecn, "kind": "request", "packets": r.randrange(10**6)}
                                       for dscp in (0, 26, 48) for ecn in ("ect0", "ce")]},
            "pauses": [{"source": "0c:42:a1:00:00:01", "priority": 3, "frames": 812, "pause_ns": 5300000,
                        "first_frame": 90}],
            "incast": [{"receiver": hosts[0], "time": time_text(6600000000), "window_ns": 100000, "senders": 7,
                        "bytes": 1400000}],
            "series": self.series(),
            "events": [{"kind": r.choice(EVENTS), "cause": "unknown", "severity": r.choice(["warning", "info", "note"]),
                        "connection": row["connection"], "end": "a", "frame": at * 91 + 5, "last_frame": at * 91 + 9,
                        "origin_frame": at * 91 + 1, "cause_frame": at * 91 + 3, "time": time_text(at * 20000000),
                        "duration_ns": r.randrange(10**8), "packets": r.randrange(1, 40), "bytes": 4096, "psn": at,
                        "value": 0, "observed": 0} for at, row in enumerate(r.choices(rows, k=500))],
        } if rows else self.empty()  # fmt: skip

    def empty(self):
        """Return the report of a capture without RDMA."""
        return {
            "schema": "rdmawire.analysis/2", "program": "rdmawire 0.1.0",
            "input": {"files": [{"name": "web.pcap", "packets": 812, "bytes": 90210, "first_frame": 1,
                                 "lost_by_capture": None}], "exact": True},
            "summary": {"packets": 812, "bytes": 90210, "first_time": time_text(0), "last_time": time_text(SECOND),
                        "duration_ns": SECOND, "wires": {}, "connections": 0, "messages": 0, "message_bytes": 0,
                        "retransmitted_packets": 0, "events": {}, "findings": {"error": 0, "warning": 0, "info": 0}},
            "findings": [], "connections": [], "flows": [], "operations": [], "latency": [], "regions": [],
        }  # fmt: skip

    def points(self, most):
        """Return packets: a sends WRITEs, b acknowledges every fourth. Some losses cause a NAK and go-back-N."""
        r, time, psn, reached, frame, points = self.random, start_time(self.random), 0, 0, 100, []
        while len(points) < most:
            burst = r.randrange(8, 65)
            lost = psn + r.randrange(burst) if r.random() < 0.05 else None
            for at in range(burst):
                points.append([time, 0, 1 if psn + at < reached else 7 if r.random() < 0.01 else 0, psn + at, frame, 1082])
                time, frame = time + r.randrange(300, 900), frame + 1
                if at % 4 == 3 and (lost is None or psn + at < lost):
                    points.append([time + 2600, 1, 2, psn + at, frame, 62])
                    frame += 1
            reached = max(reached, psn + burst)
            if lost is None:
                points.append([time + 2700, 1, 2, psn + burst - 1, frame, 62])
                psn, time = psn + burst, time + r.randrange(4000, 60000)
            else:
                points.append([time + 2500, 1, 5 if r.random() < 0.2 else 4, lost, frame, 62])
                psn, time = lost, time + r.randrange(60000, 400000)
            if r.random() < 0.02:
                points.append([time, 1, 6, None, frame, 74])
            frame += 1
        return sorted(points[:most])

    def details(self):
        connections_with_findings = {finding["connection"] for finding in self.findings}
        busiest = sorted(self.connections, key=lambda row: -row["sent"]["a"]["packets"])
        rows = ([row for row in self.connections if row["connection"] in connections_with_findings] + busiest)[:50]
        rows = list({row["connection"]: row for row in rows}.values())
        steps = 120
        plots = []
        for at, row in enumerate(rows):
            load = [self.wave(step, steps) for step in range(steps)]
            step_ns = self.duration // steps
            plots.append({
                "connection": row["connection"], "sampled": at == 0, "points": self.points(20000 if at < 3 else 1500),
                "series": {"start": time_text(0), "step_ns": step_ns,
                           "bytes_a": [int(value * step_ns * 3) for value in load],
                           "bytes_b": [int(value * step_ns * 0.2) for value in load],
                           "messages_a": [int(value * 900) for value in load], "messages_b": [0] * steps},
            })  # fmt: skip
        return {
            "schema": "rdmawire.page/2", "connections": plots,
            "sequences": [{"finding": finding["rank"], "connection": finding["connection"],
                           "frames": self.sequence(finding)}
                        for finding in self.findings],
        }  # fmt: skip

    def sequence(self, finding):
        time, frames = 10**6 + finding["rank"] * 31337, []
        for at in range(20):
            psn = 0x10 + at if at < 12 else 0x14 + at - 12
            acknowledgement = at in (3, 7, 11, 19)
            frames.append({
                "frame": finding["first_frame"] + at, "time": time_text(time), "from": "b" if acknowledgement else "a",
                "text": "Acknowledge, NAK PSN sequence error, psn 0x14" if at == 11
                        else f"Acknowledge psn {psn:#x}, msn 3" if acknowledgement
                        else f"RDMA WRITE {'First' if at == 0 else 'Middle'} psn {psn:#x}, 1024 bytes",
                "mark": "cause" if at == 11 else "event" if at == 12 else "retransmitted" if 12 < at < 19 else "",
            })  # fmt: skip
            time += self.random.randrange(400, 3000) if at != 11 else 61000
        return frames

    def buckets(self, row):
        buckets, low = [], row["min_ns"]
        while low < row["max_ns"]:
            high = int(low * 1.26) + 1
            count = int(row["count"] * math.exp(-(math.log(low / row["p50_ns"]) ** 2) * 2.2))
            buckets.append([low, high, max(count, int(self.random.random() < 0.3))])
            low = high
        return buckets


def start_time(source):
    return source.randrange(10**8)


def make(folder, connections=40, findings=12, seed=1):
    """Write both files into the folder. Return (report, details)."""
    builder = ReportBuilder(connections, findings, seed)
    report, details = builder.report(), builder.details()
    for name, value in (("report", report), ("details", details)):
        (Path(folder) / f"{name}.json").write_text(json.dumps(value, ensure_ascii=False))
    return report, details


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--connections", type=int, default=40)
    parser.add_argument("--findings", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    make(options.folder, options.connections, options.findings, options.seed)


if __name__ == "__main__":
    main()
