"""Pairs the two directions of each connection.

A direction is (source address, destination address, destination QP). Evidence, strongest first: CM REQ and REP, the
text that programs exchange, the UDP source port that two Linux hosts compute from both QPs, responses.
"""

import collections
import re

CM_CLASS, CM_QP = 7, 1
# lid:qpn:psn:gid of ibv_*_pingpong; lid:reads:qpn:psn:rkey:address:gid of perftest, the GID in bytes.
PINGPONG = re.compile(rb"([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):([0-9a-f]{32})\0")
PERFTEST = re.compile(
    rb"([0-9a-f]{4}):([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):([0-9a-f]{8}):([0-9a-f]{16}):((?:[0-9a-f]{2}:){16})"
)


def flow_label_port(one, other):
    """Return the UDP source port that Linux computes from both QPs if no flow label is set."""
    label = (one * other) & (2**64 - 1)
    label ^= label >> 20
    label ^= label >> 40
    label &= 0xFFFFF
    return ((label & 0x3FFF) ^ ((label & 0xFC000) >> 14)) | 0xC000


def by_connection_manager(frames):
    """Return pairs of (address, QP): the active and the passive side."""
    requests, pairs = {}, []
    for row in frames:
        if "infiniband.bth.destqp" not in row or int(row["infiniband.bth.destqp"][0], 0) != CM_QP:
            continue
        if int(row.get("infiniband.mad.mgmtclass", ["0"])[0], 0) != CM_CLASS:
            continue
        address = _source(row)
        if "infiniband.cm.req.localqpn" in row:
            requests[row["infiniband.cm.req"][0]] = (address, int(row["infiniband.cm.req.localqpn"][0], 0))
        elif "infiniband.cm.rep.localqpn" in row:
            active = requests.get(row["infiniband.cm.rep.remotecommid"][0])
            passive = (address, int(row["infiniband.cm.rep.localqpn"][0], 0))
            if active and (active, passive) not in pairs:
                pairs.append((active, passive))
    return pairs


def _source(row):
    if "infiniband.lrh.slid" in row:
        return f"lid {int(row['infiniband.lrh.slid'][0], 0)}"
    return row["ip.src"][0] if "ip.src" in row else row["ipv6.src"][0]


def _gid_text(data):
    if data[:12] == bytes(10) + b"\xff\xff":
        return ".".join(str(byte) for byte in data[12:])
    groups = [f"{int.from_bytes(data[at : at + 2], 'big'):x}" for at in range(0, 16, 2)]
    text = ":".join(groups)
    longest = max(re.findall(r"(?:^|:)0(?::0)+(?=:|$)", text), key=len, default="")
    return text.replace(longest, ":", 1) if longest else text


def by_text(frames):
    """Return pairs of (address, QP): the client and the server."""
    streams = collections.defaultdict(lambda: {"client": None, "sides": collections.defaultdict(bytes)})
    for row in frames:
        if "tcp.payload" not in row or "tcp.stream" not in row:
            continue
        stream = streams[row["tcp.stream"][0]]
        side = (_source(row), row["tcp.srcport"][0])
        if stream["client"] is None:  # the client sends first in both programs
            stream["client"] = side
        stream["sides"][side] += bytes.fromhex(row["tcp.payload"][0])
    pairs = []
    for stream in streams.values():
        endpoints = {}
        for side, data in stream["sides"].items():
            ends = [(_gid_text(bytes.fromhex(gid.decode())), int(qp, 16)) for _, qp, _, gid in PINGPONG.findall(data)]
            ends += [
                (_gid_text(bytes.fromhex(gid.decode().replace(":", ""))), int(qp, 16))
                for _, _, qp, _, _, _, gid in PERFTEST.findall(data)
            ]
            endpoints[side == stream["client"]] = [end for end in dict.fromkeys(ends) if end[1]]
        pairs += zip(endpoints.get(True, []), endpoints.get(False, []))
    return pairs


def pair(frames, packets):
    """Return [(a, b, evidence)] of RC and UC connections. An endpoint is (address, QP or None if unknown).

    a is the active side of the CM exchange, or else the sender of the first packet.
    """
    directions = {}
    for packet in packets:
        if packet.service in ("rc", "uc", "xrc", "vendor"):
            directions.setdefault((packet.source, packet.destination, packet.qp), []).append(packet)
    left = dict(directions)
    connections = []

    def add(a, b, by):
        forward, backward = (a[0], b[0], b[1]), (b[0], a[0], a[1])
        if forward in left or backward in left:
            begun = [key for key in directions if key in (forward, backward)]
            connections.append((b, a, by) if by != "connection_manager" and begun[0] == backward else (a, b, by))
            left.pop(forward, None)
            left.pop(backward, None)

    for name, pairs in (("connection_manager", by_connection_manager(frames)), ("text", by_text(frames))):
        for a, b in pairs:
            add(a, b, name)
    for (source, destination, qp), sent in list(left.items()):
        for backward in list(left):
            if (source, destination, qp) not in left:
                break
            if backward[:2] == (destination, source) and sent[0].port == flow_label_port(qp, backward[2]) != 0xC000:
                if left[backward][0].port == sent[0].port:
                    add((source, backward[2]), (destination, qp), "source_port")
    for (source, destination, qp), sent in list(left.items()):
        requests = {packet.psn for packet in sent if not packet.is_response}
        candidates = {}
        for backward, answers in left.items():
            if backward[:2] == (destination, source) and (source, destination, qp) in left:
                candidates[backward] = sum(packet.is_response and packet.psn in requests for packet in answers)
        best = max(candidates, key=candidates.get, default=None)
        if best and candidates[best]:
            add((source, best[2]), (destination, qp), "answers")
    for source, destination, qp in left:
        connections.append(((source, None), (destination, qp), "nothing"))
    return connections
