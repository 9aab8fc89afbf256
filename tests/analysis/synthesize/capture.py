"""A capture of many connections, ordered by time, written as pcap with nanosecond timestamps, and its manifest."""

import json
import struct
from pathlib import Path

from . import truth

SCHEMA = "rdmawire.synthesized/1"


class Frames:
    """The frames of several connections in order of time, numbered from 1.

    `begin`: frames before this time (ns since 1970) are not captured.
    """

    def __init__(self, connections, begin=None):
        self.connections = connections
        entries = []
        for number, c in enumerate(connections):
            for t in c.network.transmissions:
                if c.one_direction is not None and t.sender != c.one_direction:
                    t.captures.clear()
                entries += [(captured.time, number, captured) for captured in t.captures]
            entries += [(time, number, (content, sender)) for time, content, sender in c.extra_frames]
        entries = [entry for entry in entries if begin is None or entry[0] >= begin]
        entries.sort(key=lambda entry: entry[:2])  # the sort is stable, so duplicates stay after the original
        for i, (_, _, item) in enumerate(entries, 1):
            if not isinstance(item, tuple):
                item.number = i
        self.entries = entries

    def __len__(self):
        return len(self.entries)

    def bytes(self):
        """Yield (time, bytes) of each frame."""
        for time, number, item in self.entries:
            yield time, item[0] if isinstance(item, tuple) else self.connections[number].bytes(item)

    def write(self, path):
        with open(path, "wb") as file:
            file.write(HEADER)
            for time, content in self.bytes():
                file.write(record(time, content))

    def manifest(self, messages=True, **about):
        """Return the connections and expected events. `messages`: include every message of every connection."""
        owners, senders = [], []
        for _, number, item in self.entries:
            owners.append(number)
            senders.append(item[1] if isinstance(item, tuple) else item.transmission.sender)
        numbers = {id(c): i for i, c in enumerate(self.connections)}
        frames = {}
        for i, owner in enumerate(owners, 1):
            frames.setdefault(owner, []).append(i)
        connections, events = [], []
        for i, c in enumerate(self.connections):
            mine = frames.get(i)
            if not mine:
                continue
            connections.append(self._connection(i, c, mine, numbers, messages))
            for event in truth.events_of(c):
                event.connection = i
                if event.kind == "replaced":
                    event.other_connection = numbers[id(c.replaces)]
                events.append(event.as_dict())
        return {"schema": SCHEMA, **about, "packets": len(self.entries), "connections": connections, "events": events,
                "owners": owners, "senders": "".join(map(str, senders))}

    @staticmethod
    def _connection(i, c, frames, numbers, with_messages):
        seen = [sorted((cap for t in c.network.transmissions if t.sender == end for cap in t.captures if cap.number),
                       key=lambda cap: cap.number) for end in (0, 1)]
        responses = [sum(cap.transmission.role == "response" and any(
            request.transmission.role == "request" and request.transmission.seq <= cap.transmission.seq and
            request.number < cap.number for request in seen[1 - end][:3]) for cap in seen[end]) for end in (0, 1)]
        addresses = [host.text for host in c.hosts]
        if c.rewritten:
            addresses[c.rewritten[0]] = c.rewritten[1]
        messages = [{"end": end, "kind": m.kind, "size": m.size,
                     "first_psn": (c.first_psns[end] + m.first_seq) % (1 << 24),
                     "frames": [truth.frame_number(t) for t in m.transmissions if truth.frame_number(t)]}
                    for end, m in c.messages if with_messages]
        return {"number": i, "name": c.name, "transport": c.service, "clean": c.clean,
                "ends": [{"address": addresses[end], "qp": c.qps[end], "first_psn": c.first_psns[end],
                          "first_frame": seen[end][0].number if seen[end] else None,
                          "requests": sum(cap.transmission.role == "request" for cap in seen[end]),
                          "responses": responses[end]} for end in (0, 1)],
                "mtu": c.ends[0].behavior.mtu, "evidence": c.evidence,
                "first_frame": frames[0], "last_frame": frames[-1], "frames": len(frames),
                "replaces": numbers.get(id(c.replaces)) if c.replaces else None, "messages": messages}


# pcap file header: nanosecond timestamps, version 2.4, Ethernet.
HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)


def record(time, content):
    return struct.pack("<IIII", time // 1_000_000_000, time % 1_000_000_000, len(content), len(content)) + content


def records(path):
    """Yield the records of a file that write() created, each with its header."""
    data = Path(path).read_bytes()
    at = len(HEADER)
    while at < len(data):
        length = 16 + struct.unpack_from("<I", data, at + 8)[0]
        yield data[at:at + length]
        at += length


def save(frames, pcap, manifest_path, **about):
    """Write the capture and the manifest. Return the manifest."""
    frames.write(pcap)
    manifest = frames.manifest(**about)
    Path(manifest_path).write_text(json.dumps(manifest))
    return manifest
