"""The synthesizer: its bytes compared with real captures and tshark, and the behavior of its endpoints."""

import collections
import gzip
import json
import struct
import subprocess

import pytest

from synthesize import cases, pairing, programs, truth, wire
from synthesize.capture import save
from synthesize.programs import ROOT, SEED

needs_tshark = pytest.mark.skipif(bool(programs.no_tshark()), reason=programs.no_tshark() or "")
needs_rdmawire = pytest.mark.skipif(bool(programs.no_rdmawire()), reason=programs.no_rdmawire() or "")


def real_frames():
    """Yield the RoCEv2 frames of the sample captures, without Ethernet padding."""
    for path in sorted((ROOT / "captures" / "samples").glob("*.pcap*")):
        if path.suffix == ".gz":
            data = gzip.decompress(path.read_bytes())
        elif path.suffix == ".pcap":
            data = path.read_bytes()
        else:
            continue
        if data[:4] != b"\xd4\xc3\xb2\xa1":
            continue
        at = 24
        while at < len(data):
            captured = struct.unpack_from("<I", data, at + 8)[0]
            frame, at = data[at + 16:at + 16 + captured], at + 16 + captured
            if len(frame) < 60 or frame[12:14] not in (b"\x08\x00", b"\x86\xdd"):
                continue
            header = wire.ip_header_length(frame)
            if frame[14 + (9 if header == 20 else 6)] != 17 or frame[14 + header + 2:14 + header + 4] != b"\x12\xb7":
                continue
            total = (struct.unpack_from("!H", frame, 16)[0] if header == 20 else
                     40 + struct.unpack_from("!H", frame, 18)[0])
            yield frame[:14 + total]


def test_icrc_equals_that_of_real_captures():
    kinds = collections.Counter()
    for frame in real_frames():
        assert struct.pack("<I", wire.icrc(frame)) == frame[-4:]
        kinds[wire.ip_header_length(frame)] += 1
    assert kinds[20] > 4000 and kinds[40] > 90


def test_rebuilt_packets_equal_real_packets():
    """Parses and rebuilds IPv4, IPv6 and UD packets: requests, READ responses and acknowledgements."""
    built = 0
    for frame in list(real_frames())[::7]:
        header = wire.ip_header_length(frame)
        at = 14 + header
        v4 = header == 20
        length = 4 if v4 else 16
        addresses = frame[26:34] if v4 else frame[22:54]
        bth = frame[at + 8:at + 20]
        opcode, flags, pkey, becn = struct.unpack("!BBHB", bth[:5])
        qp, ack_request = int.from_bytes(bth[5:8], "big"), bth[8] >> 7
        pad = flags >> 4 & 3
        content = frame[at + 20:len(frame) - 4 - pad]
        packet = wire.Roce(
            wire.Host(frame[6:12], addresses[:length]), wire.Host(frame[:6], addresses[length:]), opcode, qp,
            int.from_bytes(bth[9:12], "big"), struct.unpack_from("!H", frame, at)[0], b"", content, bool(flags >> 7),
            bool(flags >> 6 & 1), bool(ack_request), pkey, bool(becn >> 6 & 1),
            struct.unpack_from("!H", frame, 18)[0] if v4 else 0,
            frame[15] if v4 else frame[14] << 4 & 0xF0 | frame[15] >> 4, frame[22] if v4 else frame[21])
        made = packet.bytes()
        if v4 or frame[15:18] == made[15:18] and frame[at + 6:at + 8] == b"\0\0":  # else flow label or checksum
            assert made == frame
            built += 1
    assert built > 500


def test_icrc_depends_on_unmasked_fields():
    a, b = wire.Host(b"\x02\0\0\0\0\1", bytes((10, 0, 0, 1))), wire.Host(b"\x02\0\0\0\0\2", bytes((10, 0, 0, 2)))
    frame = wire.Roce(a, b, wire.SEND_ONLY, 17, 5, payload=b"abcd", ttl=64).bytes()
    forwarded = bytearray(frame)
    forwarded[22] -= 1
    forwarded = wire.with_ip_checksum(bytes(forwarded))
    assert wire.icrc(forwarded) == wire.icrc(frame)
    for name in ("ttl", "traffic_class", "ip_checksum", "udp_checksum", "bth_reserved"):
        assert wire.icrc(frame, frozenset([name])) != wire.icrc(frame)
    assert wire.icrc(forwarded, frozenset(["ttl"])) != wire.icrc(frame, frozenset(["ttl"]))


# ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed_capture(tmp_path_factory):
    """600 cases, which include every phase: (path, manifest)."""
    folder = tmp_path_factory.mktemp("mixed_capture")
    print(f"seed {SEED}")
    manifest = save(cases.make(600, SEED), folder / "mixed_capture.pcap", folder / "mixed_capture.json", seed=SEED)
    return folder / "mixed_capture.pcap", manifest


def test_same_seed_gives_the_same_capture(tmp_path):
    made = []
    for name in ("one", "two"):
        save(cases.make(120, 7), tmp_path / f"{name}.pcap", tmp_path / f"{name}.json", seed=7)
        made.append((tmp_path / f"{name}.pcap").read_bytes() + (tmp_path / f"{name}.json").read_bytes())
    assert made[0] == made[1]
    save(cases.make(120, 8), tmp_path / "three.pcap", tmp_path / "three.json", seed=7)
    assert (tmp_path / "three.pcap").read_bytes() != (tmp_path / "one.pcap").read_bytes()


@pytest.mark.parametrize("kind", ["clean", "uc_clean", "ud_clean"])
def test_connections_without_faults_have_no_required_event(kind):
    frames = cases.make(100, SEED, kind)
    for c in frames.connections:
        assert c.clean
        assert not [event for event in truth.events_of(c) if event.required], c.name
        for t in c.network.transmissions:
            assert not t.retransmission and not t.lost and not t.dropped and t.arrived, "lost or retransmitted"
        for end in c.ends:
            assert end.idle and not end.dead


def test_every_kind_and_cause_is_generated():
    """The manifests contain every kind and cause that a RoCEv2 capture can show."""
    manifest = cases.make(600, SEED).manifest()
    seen = {(event["kind"], cause) for event in manifest["events"] if event["required"] for cause in event["causes"]}
    expected = {("retransmission", c) for c in ("sequence_error_nak", "timeout", "rnr", "implied_nak", "spurious")}
    expected |= {("lost_in_network", "before_capture"), ("lost_in_network", "after_capture")}
    expected |= {("nak", code) for code in wire.NAK_CODES}
    expected |= {("crc_bad", cause) for cause in (*cases.CRC_CHANGES, *cases.CRC_SENDERS, "address")}
    expected |= {("stall", cause) for cause in ("nothing_outstanding", "credit", "rnr", "peer")}
    expected |= {("cnp", "rate_fell"), ("cnp", "rate_unchanged")}
    expected |= {(kind, "none") for kind in (
        "lost_in_capture", "psn_gap", "out_of_order", "duplicate", "rnr_nak", "ghost_acknowledgement",
        "unsolicited_response", "unanswered", "msn_jump", "truncated", "pkey_mismatch", "qkey_mismatch", "segmentation",
        "opcode_sequence", "ecn_marked", "replaced", "path_change",
        "read_limit")}
    assert expected <= seen, expected - seen


def test_kinds_and_causes_are_those_of_rdmawire():
    """Looks up the names of the manifest in rdmawire's table of events."""
    table = (ROOT / "dissectors" / "tracking" / "event.cpp").read_text()
    for event in cases.make(400, SEED).manifest()["events"]:
        assert f'"{event["kind"]}"' in table
        for cause in event["causes"]:
            assert f'"{cause}"' in table


def test_psns_wrap_in_many_connections():
    frames = cases.make(300, SEED)
    wrapped = sum(any(first + end.planned > wire.PSNS for first, end in zip(c.first_psns, c.ends))
                  for c in frames.connections)
    assert wrapped > 60


# ---------------------------------------------------------------------------------------------------------------------
# Behavior of the endpoints


def requests(c, end):
    return [t for t in c.network.transmissions if t.role == "request" and t.sender == end]


def responses(c, end):
    return [t for t in c.network.transmissions if t.role == "response" and t.sender == end]


@pytest.mark.parametrize("name", [*cases.RECOVERABLE, *cases.LONG_PHASES])
def test_connection_recovers_from_fault(name):
    """All requests arrive in order and are acknowledged despite the impairments."""
    for c in cases.make(25, SEED, name).connections:
        for number, other in ((0, 1), (1, 0)):
            end = c.ends[number]
            assert end.idle, f"{c.name} is stuck"
            if not end.dead:
                assert end.oldest_unacked == end.planned == c.ends[other].expected


@pytest.mark.parametrize("name", ["lose_requests_before", "lose_requests_after", "reorder_requests", "storm"])
def test_one_sequence_error_nak_per_gap(name):
    for c in cases.make(25, SEED, name).connections:
        for end in (0, 1):
            nak_seqs = [t.seq for t in responses(c, end) if t.kind == "nak"]
            assert len(nak_seqs) == len(set(nak_seqs)), "one NAK per gap"


@pytest.mark.parametrize("name", ["clean", "storm", "reorder_requests", "receiver_not_ready", "lose_responses_before"])
def test_acknowledged_psn_never_decreases(name):
    """Until the first retransmission, the acknowledged PSN never decreases."""
    for c in cases.make(25, SEED, name).connections:
        if c.service != "rc" or c.clean and name != "clean":
            continue
        for end in (0, 1):
            highest = -1
            for t in responses(c, end):
                if any(r.time < t.sent for r in c.ends[1 - end].recoveries):
                    break
                acknowledged_seq = t.seq - 1 if t.kind in ("nak", "rnr_nak") else t.seq
                assert acknowledged_seq >= highest, (c.name, t.kind)
                highest = acknowledged_seq


def test_nak_causes_go_back_n():
    for c in cases.make(40, SEED, "lose_requests_before").connections:
        for end in c.ends:
            for r in end.recoveries:
                seqs = [t.seq for t in r.transmissions]
                assert r.cause == "sequence_error_nak" and seqs[0] == r.by.seq
                assert seqs == sorted(seqs) and len(set(seqs)) == len(seqs)


def test_timeout_follows_milliseconds_without_packets():
    for name in ("lose_tail_before", "lose_tail_after", "lose_acknowledgement_after"):
        for c in cases.make(20, SEED, name).connections:
            for end in c.ends:
                for r in end.recoveries:
                    assert r.cause == "timeout"
                    before = max(t.sent for t in c.network.transmissions if t.sent < r.time)
                    assert r.time - before >= 4_000_000


def test_rnr_retransmission_waits_for_the_timer():
    for c in cases.make(40, SEED, "receiver_not_ready").connections:
        for end in c.ends:
            for r in end.recoveries:
                assert r.cause == "rnr"
                waited = r.transmissions[0].sent - r.by.sent
                assert waited >= wire.RNR_TIMERS[r.by.code]


def test_read_is_retried_from_the_missing_response():
    seen = 0
    for c in cases.make(40, SEED, "lose_responses_before").connections:
        for end in c.ends:
            for r in end.recoveries:
                first = r.transmissions[0]
                message, mtu = first.message, end.behavior.mtu
                skipped = first.seq - message.first_seq
                assert r.cause == "implied_nak" and skipped > 0
                address, key, length = struct.unpack("!QII", first.headers)
                assert (address, key) == (message.address + skipped * mtu, message.key)
                assert length == message.size - skipped * mtu
                seen += 1
    assert seen >= 30


def test_msn_counts_completed_messages():
    for c in cases.make(60, SEED, "clean").connections:
        if c.service != "rc":
            continue
        for end in (0, 1):
            ended = [(m.last_seq, m) for number, m in c.messages if number == end]
            begun = [(m.first_seq, m) for number, m in c.messages if number == end]
            for t in responses(c, 1 - end):
                if t.headers:
                    done = sum(seq <= t.seq for seq, m in ended if m.kind != "read")
                    done += sum(seq <= t.seq for seq, m in begun if m.kind == "read")
                    assert t.msn == done


# ---------------------------------------------------------------------------------------------------------------------
# The frames as tshark and rdmawire dissect them


def bad_and_truncated(manifest):
    """Return the frames with an invalid ICRC, and the truncated frames."""
    bad = {event["frame"] for event in manifest["events"] if event["kind"] == "crc_bad" and event["required"]}
    truncated = {event["frame"] for event in manifest["events"] if event["kind"] == "truncated"}
    return bad, truncated


@needs_rdmawire
def test_dissector_reports_only_the_injected_bad_icrcs(mixed_capture):
    path, manifest = mixed_capture
    bad, truncated = bad_and_truncated(manifest)
    lines = programs.run(programs.RDMAWIRE, "dissect", "--json", path).splitlines()
    assert len(lines) == manifest["packets"]
    for number, line in enumerate(lines, 1):
        packet = json.loads(line)
        protocols = [layer["protocol"] for layer in packet["layers"]]
        if "bth" not in protocols:
            assert "tcp" in protocols, number
            continue
        status = packet.get("icrc", {}).get("status")
        assert status == ("bad" if number in bad else "unverifiable" if number in truncated else "good"), number


FIELDS = ("frame.number", "ip.src", "ipv6.src", "ip.dsfield.ecn", "ipv6.tclass.ecn", "infiniband.bth.opcode",
          "infiniband.bth.psn", "infiniband.bth.destqp", "infiniband.bth.p_key", "infiniband.aeth.syndrome",
          "infiniband.deth.q_key", "udp.srcport", "_ws.expert.message")


@pytest.fixture(scope="module")
def seen(mixed_capture):
    if programs.no_tshark():
        pytest.skip(programs.no_tshark())
    frames = programs.tshark_fields(mixed_capture[0], *FIELDS)
    for frame in frames:
        frame["source"] = frame["ip.src"] or frame["ipv6.src"]
        frame["flow"] = frame["source"], frame["infiniband.bth.destqp"]
        for name, short in (("infiniband.bth.opcode", "opcode"), ("infiniband.bth.psn", "psn"),
                            ("infiniband.aeth.syndrome", "syndrome")):
            frame[short] = int(frame[name], 0) if frame[name] else None
    return frames


def is_request(frame):
    return (frame["opcode"] is not None and frame["opcode"] & 0x1F not in (13, 14, 15, 16, 17, 18) and
            frame["opcode"] < 0x80)


@needs_tshark
def test_tshark_dissects_every_frame(mixed_capture, seen):
    _, manifest = mixed_capture
    assert len(seen) == manifest["packets"]
    for number, frame in enumerate(seen, 1):
        assert int(frame["frame.number"]) == number
        assert frame["opcode"] is not None or not frame["infiniband.bth.psn"]
    assert sum(frame["opcode"] is None for frame in seen) < 30 * len(seen) // 1000  # TCP, and truncated frames


@needs_tshark
def test_frames_match_the_events_of_the_manifest(mixed_capture, seen):
    """Checks the frame of each event with tshark's fields, independently of the synthesizer."""
    _, manifest = mixed_capture
    flows = collections.defaultdict(list)
    for number, frame in enumerate(seen, 1):
        if frame["opcode"] is not None:
            flows[frame["flow"]].append(number)
    checked = collections.Counter()

    def earlier(number, predicate):
        frame = seen[number - 1]
        owner = manifest["owners"][number - 1]
        return [n for n in flows[frame["flow"]] if n < number and manifest["owners"][n - 1] == owner and
                predicate(seen[n - 1])]

    for event in manifest["events"]:
        if not event["required"]:
            continue
        kind, frame = event["kind"], seen[event["frame"] - 1] if "frame" in event else None
        if kind == "nak":
            assert frame["opcode"] == 17 and frame["syndrome"] >> 5 == 3
            assert frame["syndrome"] & 31 == wire.NAK_CODES[event["causes"][0]] and frame["psn"] == event["psn"]
        elif kind == "rnr_nak":
            assert frame["opcode"] == 17 and frame["syndrome"] >> 5 == 1
            assert wire.RNR_TIMERS[frame["syndrome"] & 31] == event["value"]
        elif kind == "retransmission":
            assert is_request(frame) and frame["psn"] == event["psn"]
            before = earlier(event["frame"], is_request)
            highest = seen[before[0] - 1]["psn"]
            for n in before:  # the highest PSN so far, modulo 2^24
                if (seen[n - 1]["psn"] - highest) & 0xFFFFFF < 1 << 23:
                    highest = seen[n - 1]["psn"]
            ahead = (frame["psn"] - highest) & 0xFFFFFF
            # Only the request for the remaining part of a READ can have a PSN above the highest one, because a READ
            # request covers several PSNs.
            assert ahead == 0 or ahead >= 1 << 23 or seen[event["origin_frames"][0] - 1]["opcode"] == 12
            assert set(event.get("origin_frames", ())) <= set(before)
            if "sequence_error_nak" in event["causes"] and "cause_frame" in event:
                assert seen[event["cause_frame"] - 1]["syndrome"] == 0x60
            if event["causes"] == ["rnr"]:
                assert seen[event["cause_frame"] - 1]["syndrome"] >> 5 == 1
                assert seen[event["cause_frame"] - 1]["psn"] == frame["psn"]
        elif kind == "lost_in_network" and event.get("end") is not None:
            first, last = event["frames"]
            retransmitted = [n for n in flows[seen[last - 1]["flow"]]
                             if n >= last and seen[n - 1]["psn"] == event["psn"]]
            assert retransmitted, "no retransmission"
            captured_before = earlier(last, lambda f: is_request(f) and f["psn"] == event["psn"])
            assert bool(captured_before) == (event["causes"] == ["after_capture"])
        elif kind == "out_of_order":
            request = is_request(frame)
            before = earlier(event["frame"], lambda f: is_request(f) == request and f["opcode"] < 0x80)
            assert 0 < (seen[before[-1] - 1]["psn"] - frame["psn"]) & 0xFFFFFF < 64
        elif kind == "duplicate":
            assert seen[event["origin_frame"] - 1] | {"frame.number": 0} == frame | {"frame.number": 0}
        elif kind == "ecn_marked":
            assert int(frame["ip.dsfield.ecn"] or frame["ipv6.tclass.ecn"], 0) == 3
        elif kind == "cnp":
            assert frame["opcode"] == 0x81
        elif kind == "path_change":
            before = earlier(event["frame"], lambda f: True)
            assert before and seen[before[-1] - 1]["udp.srcport"] != frame["udp.srcport"]
        elif kind == "pkey_mismatch":
            before = earlier(event["frame"], lambda f: True)
            assert {seen[n - 1]["infiniband.bth.p_key"] for n in before} != {frame["infiniband.bth.p_key"]}
        elif kind == "qkey_mismatch":
            before = earlier(event["frame"], lambda f: True)
            assert frame["infiniband.deth.q_key"] not in {seen[n - 1]["infiniband.deth.q_key"] for n in before}
        elif kind in ("ghost_acknowledgement", "unsolicited_response"):
            assert frame["psn"] == event["psn"] and not is_request(frame)
        else:
            continue
        checked[kind] += 1
    assert len(checked) >= 13 and min(checked.values()) >= 3, checked


@needs_tshark
def test_tshark_dissects_cm_and_text_exchanges(tmp_path):
    for kind in ("cm", "text"):
        manifest = save(pairing.make(20, SEED, 4, kind), tmp_path / "x.pcap", tmp_path / "x.json")
        if kind == "cm":
            names = ("infiniband.cm.req.local_qpn", "infiniband.cm.req.starting_psn", "infiniband.cm.rep.localqpn",
                     "infiniband.cm.rep.startingpsn")
            known = subprocess.run(["tshark", "-G", "fields"], capture_output=True, text=True, check=True).stdout
            names = tuple(name for name in names if f"\t{name}\t" in known)
            assert names
            frames = programs.tshark_fields(tmp_path / "x.pcap", *names)
            qps = {int(frame[name], 0) for frame in frames for name in names if "qpn" in name and frame[name]}
            expected = {c["ends"][end]["qp"] for c in manifest["connections"] for end in (0, 1)}
            assert qps <= expected and qps
        else:
            payloads = [bytes.fromhex(frame["tcp.payload"].replace(":", ""))
                    for frame in programs.tshark_fields(tmp_path / "x.pcap", "tcp.payload") if frame["tcp.payload"]]
            for c in manifest["connections"]:
                for end in c["ends"]:
                    assert any(line.startswith(f"0000:{end['qp']:06x}:{end['first_psn']:06x}:".encode())
                               for line in payloads)
