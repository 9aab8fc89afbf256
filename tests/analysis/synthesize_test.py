"""The synthesizer by itself: its bytes against real captures and tshark, its story against what the frames show."""

import collections
import gzip
import json
import struct
import subprocess

import pytest

from synthesize import cases, joining, running, truth, wire
from synthesize.capture import save
from synthesize.running import ROOT, SEED

needs_tshark = pytest.mark.skipif(bool(running.no_tshark()), reason=running.no_tshark() or "")
needs_rdmawire = pytest.mark.skipif(bool(running.no_rdmawire()), reason=running.no_rdmawire() or "")


def real_frames():
    """RoCEv2 frames of the real sample captures, without what Ethernet adds behind them."""
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
            total = struct.unpack_from("!H", frame, 16)[0] if header == 20 else 40 + struct.unpack_from("!H", frame, 18)[0]
            yield frame[:14 + total]


def test_the_icrc_is_that_of_real_captures():
    kinds = collections.Counter()
    for frame in real_frames():
        assert struct.pack("<I", wire.icrc(frame)) == frame[-4:]
        kinds[wire.ip_header_length(frame)] += 1
    assert kinds[20] > 4000 and kinds[40] > 90


def test_a_packet_is_built_as_a_real_one_was():
    """Taken apart and built again: IPv4 and IPv6, requests, responses and acknowledgements, UD."""
    built = 0
    for frame in list(real_frames())[::7]:
        header = wire.ip_header_length(frame)
        at = 14 + header
        v4 = header == 20
        length = 4 if v4 else 16
        addresses = frame[26:34] if v4 else frame[22:54]
        bth = frame[at + 8:at + 20]
        opcode, flags, pkey, becn, qp, ask = *struct.unpack("!BBHB", bth[:5]), int.from_bytes(bth[5:8], "big"), bth[8] >> 7
        pad = flags >> 4 & 3
        content = frame[at + 20:len(frame) - 4 - pad]
        packet = wire.Roce(
            wire.Host(frame[6:12], addresses[:length]), wire.Host(frame[:6], addresses[length:]), opcode, qp,
            int.from_bytes(bth[9:12], "big"), struct.unpack_from("!H", frame, at)[0], b"", content, bool(flags >> 7),
            bool(flags >> 6 & 1), bool(ask), pkey, bool(becn >> 6 & 1), struct.unpack_from("!H", frame, 18)[0] if v4 else 0,
            frame[15] if v4 else frame[14] << 4 & 0xF0 | frame[15] >> 4, frame[22] if v4 else frame[21])
        made = packet.bytes()
        if v4 or frame[15:18] == made[15:18] and frame[at + 6:at + 8] == b"\0\0":  # else flow label or UDP checksum
            assert made == frame
            built += 1
    assert built > 500


def test_icrc_leaves_unmasked_what_it_is_told_to():
    a, b = wire.Host(b"\x02\0\0\0\0\1", bytes((10, 0, 0, 1))), wire.Host(b"\x02\0\0\0\0\2", bytes((10, 0, 0, 2)))
    frame = wire.Roce(a, b, wire.SEND_ONLY, 17, 5, payload=b"abcd", ttl=64).bytes()
    hop = bytearray(frame)
    hop[22] -= 1
    hop = wire.with_ip_checksum(bytes(hop))
    assert wire.icrc(hop) == wire.icrc(frame)
    for name in ("ttl", "traffic_class", "ip_checksum", "udp_checksum", "bth_reserved"):
        assert wire.icrc(frame, frozenset([name])) != wire.icrc(frame)
    assert wire.icrc(hop, frozenset(["ttl"])) != wire.icrc(frame, frozenset(["ttl"]))


# ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """600 cases: every act alone, and mixed ones. (path, manifest, fields of tshark or None)"""
    folder = tmp_path_factory.mktemp("mixed")
    print(f"seed {SEED}")
    manifest = save(cases.make(600, SEED), folder / "mixed.pcap", folder / "mixed.json", seed=SEED)
    return folder / "mixed.pcap", manifest


def test_one_seed_gives_one_capture(tmp_path):
    made = []
    for name in ("one", "two"):
        save(cases.make(120, 7), tmp_path / f"{name}.pcap", tmp_path / f"{name}.json", seed=7)
        made.append((tmp_path / f"{name}.pcap").read_bytes() + (tmp_path / f"{name}.json").read_bytes())
    assert made[0] == made[1]
    save(cases.make(120, 8), tmp_path / "three.pcap", tmp_path / "three.json", seed=7)
    assert (tmp_path / "three.pcap").read_bytes() != (tmp_path / "one.pcap").read_bytes()


@pytest.mark.parametrize("kind", ["clean", "uc_clean", "ud_clean"])
def test_a_clean_run_has_no_event_that_must_be_found(kind):
    frames = cases.make(100, SEED, kind)
    for c in frames.connections:
        assert c.clean
        assert not [event for event in truth.events_of(c) if event.required], c.name
        for t in c.network.transmissions:
            assert not t.again and not t.lost and not t.refused and t.arrived, "nothing is lost or sent again"
        for end in c.ends:
            assert end.at_rest and not end.dead


def test_all_that_can_go_wrong_does():
    """Every kind and cause that a RoCEv2 capture can show stands in the manifests of a run."""
    manifest = cases.make(600, SEED).manifest()
    seen = {(event["kind"], cause) for event in manifest["events"] if event["required"] for cause in event["causes"]}
    wanted = {("retransmission", c) for c in ("sequence_error_nak", "timeout", "rnr", "implied_nak", "spurious")}
    wanted |= {("lost_in_network", "before_capture"), ("lost_in_network", "after_capture")}
    wanted |= {("nak", code) for code in wire.NAK_CODES}
    wanted |= {("crc_bad", cause) for cause in (*cases.CRC_CHANGES, *cases.CRC_SENDERS, "address")}
    wanted |= {("stall", cause) for cause in ("nothing_outstanding", "credit", "rnr", "peer")}
    wanted |= {("cnp", "rate_fell"), ("cnp", "rate_unchanged")}
    wanted |= {(kind, "none") for kind in (
        "lost_in_capture", "psn_gap", "out_of_order", "duplicate", "rnr_nak", "ghost_acknowledgement",
        "unsolicited_response", "unanswered", "msn_jump", "truncated", "pkey_mismatch", "qkey_mismatch", "segmentation",
        "opcode_sequence", "ecn_marked", "replaced", "path_change",
        "read_limit")}
    assert wanted <= seen, wanted - seen


def test_kinds_and_causes_are_those_of_the_product():
    """The names in the manifest are the ones that the product's table declares."""
    table = (ROOT / "dissectors" / "tracking" / "event.cpp").read_text()
    for event in cases.make(400, SEED).manifest()["events"]:
        assert f'"{event["kind"]}"' in table
        for cause in event["causes"]:
            assert f'"{cause}"' in table


def test_psns_wrap_often():
    frames = cases.make(300, SEED)
    wrapped = sum(any(first + end.planned > wire.PSNS for first, end in zip(c.first_psns, c.ends))
                  for c in frames.connections)
    assert wrapped > 60


# ---------------------------------------------------------------------------------------------------------------------
# What the ends did, by the specification


def requests(c, end):
    return [t for t in c.network.transmissions if t.role == "request" and t.sender == end]


def answers(c, end):
    return [t for t in c.network.transmissions if t.role == "answer" and t.sender == end]


@pytest.mark.parametrize("name", [*cases.RECOVERING, *cases.LONG])
def test_a_connection_recovers(name):
    """Whatever was lost on the way, everything arrives in the end, in order, and is acknowledged; nothing is left over."""
    for c in cases.make(25, SEED, name).connections:
        for one, other in ((0, 1), (1, 0)):
            end = c.ends[one]
            assert end.at_rest, f"{c.name} is stuck"
            if not end.dead:
                assert end.unanswered == end.planned == c.ends[other].expected


@pytest.mark.parametrize("name", ["loses_requests_before", "loses_requests_after", "reorders_requests", "storm"])
def test_one_sequence_error_nak_a_gap_then_silence(name):
    for c in cases.make(25, SEED, name).connections:
        for end in (0, 1):
            named = [t.place for t in answers(c, end) if t.kind == "nak"]
            assert len(named) == len(set(named)), "each gap is named once"


@pytest.mark.parametrize("name", ["clean", "storm", "reorders_requests", "not_ready", "loses_responses_before"])
def test_a_responder_never_takes_back_what_it_said(name):
    """Until something is sent again, what its answers acknowledge only grows."""
    for c in cases.make(25, SEED, name).connections:
        if c.service != "rc" or c.clean and name != "clean":
            continue
        for end in (0, 1):
            furthest = -1
            for t in answers(c, end):
                if any(r.time < t.sent for r in c.ends[1 - end].recoveries):
                    break
                says = t.place - 1 if t.kind in ("nak", "rnr_nak") else t.place
                assert says >= furthest, (c.name, t.kind)
                furthest = says


def test_after_a_nak_everything_from_there_on_is_sent_again():
    for c in cases.make(40, SEED, "loses_requests_before").connections:
        for end in c.ends:
            for r in end.recoveries:
                places = [t.place for t in r.transmissions]
                assert r.cause == "sequence_error_nak" and places[0] == r.by.place
                assert places == sorted(places) and len(set(places)) == len(places)


def test_a_timer_lets_milliseconds_pass():
    """A timeout is decided by the silence before it."""
    for name in ("loses_tail_before", "loses_tail_after", "loses_acknowledgement_after"):
        for c in cases.make(20, SEED, name).connections:
            for end in c.ends:
                for r in end.recoveries:
                    assert r.cause == "timeout"
                    before = max(t.sent for t in c.network.transmissions if t.sent < r.time)
                    assert r.time - before >= 4_000_000


def test_an_rnr_nak_is_waited_out():
    for c in cases.make(40, SEED, "not_ready").connections:
        for end in c.ends:
            for r in end.recoveries:
                assert r.cause == "rnr"
                waited = r.transmissions[0].sent - r.by.sent
                assert waited >= wire.RNR_TIMERS[r.by.code]


def test_a_read_is_asked_for_again_from_the_missing_response_on():
    seen = 0
    for c in cases.make(40, SEED, "loses_responses_before").connections:
        for end in c.ends:
            for r in end.recoveries:
                first = r.transmissions[0]
                message, mtu = first.message, end.manners.mtu
                skipped = first.place - message.first_place
                assert r.cause == "implied_nak" and skipped > 0
                address, key, length = struct.unpack("!QII", first.headers)
                assert (address, key) == (message.address + skipped * mtu, message.key)
                assert length == message.size - skipped * mtu
                seen += 1
    assert seen >= 30


def test_the_msn_counts_messages():
    for c in cases.make(60, SEED, "clean").connections:
        if c.service != "rc":
            continue
        for end in (0, 1):
            ended = [(m.last_place, m) for number, m in c.messages if number == end]
            begun = [(m.first_place, m) for number, m in c.messages if number == end]
            for t in answers(c, 1 - end):
                if t.headers:
                    done = sum(place <= t.place for place, m in ended if m.kind != "read")
                    done += sum(place <= t.place for place, m in begun if m.kind == "read")
                    assert t.msn == done


# ---------------------------------------------------------------------------------------------------------------------
# What others see in the frames


def allowed_to_be_bad(manifest):
    """Frames whose ICRC is wrong, and those that are cut."""
    bad = {event["frame"] for event in manifest["events"] if event["kind"] == "crc_bad" and event["required"]}
    cut = {event["frame"] for event in manifest["events"] if event["kind"] == "truncated"}
    return bad, cut


@needs_rdmawire
def test_the_dissector_finds_just_the_injected_crcs_bad(mixed):
    path, manifest = mixed
    bad, cut = allowed_to_be_bad(manifest)
    lines = running.run(running.RDMAWIRE, "dissect", "--json", path).splitlines()
    assert len(lines) == manifest["packets"]
    for number, line in enumerate(lines, 1):
        packet = json.loads(line)
        protocols = [layer["protocol"] for layer in packet["layers"]]
        if "bth" not in protocols:
            assert "tcp" in protocols, number
            continue
        status = packet.get("icrc", {}).get("status")
        assert status == ("bad" if number in bad else "unverifiable" if number in cut else "good"), number


FIELDS = ("frame.number", "ip.src", "ipv6.src", "ip.dsfield.ecn", "ipv6.tclass.ecn", "infiniband.bth.opcode",
          "infiniband.bth.psn", "infiniband.bth.destqp", "infiniband.bth.p_key", "infiniband.aeth.syndrome",
          "infiniband.deth.q_key", "udp.srcport", "_ws.expert.message")


@pytest.fixture(scope="module")
def seen(mixed):
    if running.no_tshark():
        pytest.skip(running.no_tshark())
    frames = running.tshark_fields(mixed[0], *FIELDS)
    for frame in frames:
        frame["source"] = frame["ip.src"] or frame["ipv6.src"]
        frame["flow"] = frame["source"], frame["infiniband.bth.destqp"]
        for name, short in (("infiniband.bth.opcode", "opcode"), ("infiniband.bth.psn", "psn"),
                            ("infiniband.aeth.syndrome", "syndrome")):
            frame[short] = int(frame[name], 0) if frame[name] else None
    return frames


def is_request(frame):
    return frame["opcode"] is not None and frame["opcode"] & 0x1F not in (13, 14, 15, 16, 17, 18) and frame["opcode"] < 0x80


@needs_tshark
def test_tshark_reads_every_frame(mixed, seen):
    _, manifest = mixed
    assert len(seen) == manifest["packets"]
    for number, frame in enumerate(seen, 1):
        assert int(frame["frame.number"]) == number
        assert frame["opcode"] is not None or not frame["infiniband.bth.psn"]
    assert sum(frame["opcode"] is None for frame in seen) < 30 * len(seen) // 1000  # TCP, and what is cut


@needs_tshark
def test_the_frames_show_what_the_manifest_says(mixed, seen):
    """By tshark's fields, never by the synthesizer's own: each event's frame is what its kind says."""
    _, manifest = mixed
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
            furthest = seen[before[0] - 1]["psn"]
            for n in before:  # the furthest so far, modulo 2^24
                if (seen[n - 1]["psn"] - furthest) & 0xFFFFFF < 1 << 23:
                    furthest = seen[n - 1]["psn"]
            ahead = (frame["psn"] - furthest) & 0xFFFFFF
            # Not behind the furthest packet: only the rest of a read, whose request stands for several PSNs.
            assert ahead == 0 or ahead >= 1 << 23 or seen[event["origin_frames"][0] - 1]["opcode"] == 12
            assert set(event.get("origin_frames", ())) <= set(before)
            if "sequence_error_nak" in event["causes"] and "cause_frame" in event:
                assert seen[event["cause_frame"] - 1]["syndrome"] == 0x60
            if event["causes"] == ["rnr"]:
                assert seen[event["cause_frame"] - 1]["syndrome"] >> 5 == 1
                assert seen[event["cause_frame"] - 1]["psn"] == frame["psn"]
        elif kind == "lost_in_network" and event.get("end") is not None:
            first, last = event["frames"]
            again = [n for n in flows[seen[last - 1]["flow"]] if n >= last and seen[n - 1]["psn"] == event["psn"]]
            assert again, "it is sent again"
            had = earlier(last, lambda f: is_request(f) and f["psn"] == event["psn"])
            assert bool(had) == (event["causes"] == ["after_capture"])
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
def test_the_exchanges_that_make_connections_are_read_by_tshark(tmp_path):
    for kind in ("cm", "text"):
        manifest = save(joining.make(20, SEED, 4, kind), tmp_path / "x.pcap", tmp_path / "x.json")
        if kind == "cm":
            names = ("infiniband.cm.req.local_qpn", "infiniband.cm.req.starting_psn", "infiniband.cm.rep.localqpn",
                     "infiniband.cm.rep.startingpsn")
            known = subprocess.run(["tshark", "-G", "fields"], capture_output=True, text=True, check=True).stdout
            names = tuple(name for name in names if f"\t{name}\t" in known)
            assert names
            frames = running.tshark_fields(tmp_path / "x.pcap", *names)
            qps = {int(frame[name], 0) for frame in frames for name in names if "qpn" in name and frame[name]}
            wanted = {c["ends"][end]["qp"] for c in manifest["connections"] for end in (0, 1)}
            assert qps <= wanted and qps
        else:
            said = [bytes.fromhex(frame["tcp.payload"].replace(":", ""))
                    for frame in running.tshark_fields(tmp_path / "x.pcap", "tcp.payload") if frame["tcp.payload"]]
            for c in manifest["connections"]:
                for end in c["ends"]:
                    assert any(line.startswith(f"0000:{end['qp']:06x}:{end['first_psn']:06x}:".encode()) for line in said)
