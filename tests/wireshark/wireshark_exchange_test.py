"""Fields without a column in `analyze`: windows, acknowledgements, RNR waits and congestion.

Compared with handmade frames, and with synthesized captures whose events are known (tests/analysis/synthesize).
"""

import json
import struct
import subprocess
import sys
from decimal import Decimal

import pytest
from made_frames import A, B, bth, roce, dissect  # noqa: F401 (dissect is a fixture)
from tshark_runs import ROOT, needs_tshark, plugin_tree, with_plugin

pytestmark = needs_tshark

A_QP, B_QP = 0x11, 0x22
SEND_ONLY, WRITE_FIRST, WRITE_LAST, READ_REQUEST, READ_FIRST, READ_LAST, ACK = 4, 6, 8, 12, 13, 15, 17


def from_a(opcode, psn, data=b"", headers=b""):
    return roce(bth(opcode, B_QP, psn) + headers + data, source=A, destination=B)


def from_b(opcode, psn, data=b"", headers=b""):
    return roce(bth(opcode, A_QP, psn) + headers + data, port=49193, source=B, destination=A)


def reth(length):
    return struct.pack(">QII", 0x7F0000000000, 0x1234, length)


def aeth(msn, credit=4):
    """Return the AETH of an ACK. Credit code 4 means 4 credits. IBTA vol 1, 9.7.7.2."""
    return struct.pack(">I", credit << 24 | msn)


EXCHANGE = [
    from_a(WRITE_FIRST, 100, bytes(1024), reth(1524)),            # 1
    from_a(WRITE_LAST, 101, bytes(500)),                          # 2
    from_a(SEND_ONLY, 102, bytes(100)),                           # 3
    from_b(ACK, 102, headers=aeth(2)),                            # 4: acknowledges three packets and two messages
    from_a(READ_REQUEST, 103, headers=reth(2048)),                # 5: two PSNs
    from_b(READ_FIRST, 103, bytes(1024), aeth(2)),                # 6
    from_b(READ_LAST, 104, bytes(1024), aeth(3)),                 # 7
    from_a(SEND_ONLY, 105, bytes(100)),                           # 8
    from_b(ACK, 105, headers=aeth(4)),                            # 9
    from_b(ACK, 102, headers=aeth(2)),                            # 10: acknowledges packets acknowledged before
    from_b(ACK, 107, headers=aeth(6)),                            # 11: acknowledges packets that were not captured
    from_a(WRITE_LAST, 101, bytes(500)),                          # 12: retransmitted although acknowledged
    from_a(SEND_ONLY, 102, bytes(100)),                           # 13
]
# Frame: packets and bytes in flight, acknowledged packets, completed messages, outstanding READs, credits.
WINDOW = {
    1: ("1", "1024", "", "", "", ""), 2: ("2", "1524", "", "", "", ""), 3: ("3", "1624", "", "", "", ""),
    4: ("0", "", "3", "2", "", "4"), 5: ("2", "", "", "", "1", "3"), 6: ("2", "", "", "", "1", "3"),
    7: ("0", "", "2", "1", "", "3"), 8: ("1", "100", "", "", "", "2"), 9: ("0", "", "1", "1", "", "4"),
    10: ("0", "", "", "", "", "4"),
}


def analysis(packet, *names):
    tree = plugin_tree(packet)
    assert tree is not None, "no tree"
    found = {field.get("name"): field.get("show") for field in tree.iter("field")}
    return tuple(found.get("rdmawire.analysis." + name, "") for name in names)


def test_window_fields(dissect):  # noqa: F811
    packets = dissect(EXCHANGE, "-2")
    found = {number: analysis(packets[number - 1], "outstanding", "outstanding_bytes", "acknowledges", "completes",
                             "reads_outstanding", "credits") for number in WINDOW}
    assert found == WINDOW


def test_duplicate_acknowledgement_and_unseen_request(dissect):  # noqa: F811
    packets = dissect(EXCHANGE, "-2")
    flags = [analysis(packet, "duplicate_acknowledgement", "unseen_request") for packet in packets]
    assert [number for number, (before, _) in enumerate(flags, 1) if before] == [10]
    assert [number for number, (_, unseen) in enumerate(flags, 1) if unseen] == [11]


def test_retransmissions_show_original_and_recovery(dissect):  # noqa: F811
    packets = dissect(EXCHANGE, "-2")
    fields = ("first_sent_in", "go_back_n", "go_back_n.starts_in", "go_back_n.ends_in", "go_back_n.goes_back_to",
                "go_back_n.packets", "go_back_n.bytes")
    assert analysis(packets[11], *fields) == ("2", "1", "12", "13", "2", "2", "600")
    assert analysis(packets[12], *fields) == ("3", "1", "12", "13", "2", "2", "600")
    assert [analysis(packets[number - 1], "retransmitted_in") for number in (2, 3, 8)] == [("12",), ("13",), ("",)]
    assert analysis(packets[7], "go_back_n") == ("",)


class SynthesizedCapture:
    """A synthesized capture with its expected events, and tshark's fields of its frames."""

    def __init__(self):
        self.home = with_plugin()
        stem = self.home.path / "made"
        subprocess.run([sys.executable, "-m", "synthesize", stem, "--cases", "300", "--seed", "7"], check=True,
                       timeout=120, capture_output=True, cwd=ROOT / "tests/analysis")
        self.capture = stem.with_suffix(".pcap")
        self.capture.chmod(0o644)
        truth = json.loads(stem.with_suffix(".json").read_text())
        self.connections = {one["number"]: one for one in truth["connections"]}
        self.events = [event for event in truth["events"] if event["required"]]

    def of_kind(self, kind):
        return [event for event in self.events if event["kind"] == kind]

    def fields_of(self, display, *fields):
        """Return {frame: fields} of the frames that match a display filter, with two passes."""
        out = self.home.tshark("-n", "-2", "-r", self.capture, "-Y", display, "-T", "fields", "-e", "frame.number",
                               *(part for field in fields for part in ("-e", field))).stdout.decode()
        return {int(line.split("\t")[0]): line.split("\t")[1:] for line in out.splitlines()}


@pytest.fixture(scope="module")
def synthesized():
    return SynthesizedCapture()


def test_cnp_shows_its_flow_and_the_marked_frame(synthesized):
    found = synthesized.fields_of("rdmawire.analysis.cnp.flow", "infiniband.bth.destqp", "rdmawire.analysis.cnp.flow",
                     "rdmawire.analysis.cnp.ce_frame", "rdmawire.analysis.cnp.marked", "rdmawire.analysis.cnp.latency",
                     "frame.time_epoch")
    times = {frame: Decimal(time) for frame, (time,) in synthesized.fields_of("ip.dsfield.ecn == 3 or ipv6.tclass.ecn == 3",
                                                                  "frame.time_epoch").items()}
    marks = synthesized.of_kind("ecn_marked")
    known = with_marks = 0
    for event in synthesized.of_kind("cnp"):
        to_qp, flow, ce_frame, count, latency, time = found[event["frame"]]
        connection = synthesized.connections[event["connection"]]
        notified = next(end for end, one in enumerate(connection["ends"]) if one["qp"] == int(to_qp, 0))
        texts = [f"{one['address']} QP {one['qp']:#08x}" for one in connection["ends"]]
        assert flow == f"{texts[notified]} to {texts[1 - notified]}"
        known += 1
        before = [mark["frame"] for mark in marks if mark["connection"] == event["connection"]
                  and mark["end"] == notified and mark["frame"] < event["frame"]]
        assert (ce_frame, count) == (str(before[-1]) if before else "", str(len(before)))
        if before:
            assert Decimal(latency) == Decimal(time) - times[before[-1]]
            assert synthesized.fields_of(f"frame.number == {before[-1]}", "rdmawire.analysis.ecn_marked.cnp_in") == {
                before[-1]: [str(event["frame"])]}
            with_marks += 1
    assert known > 3 and with_marks > 0


def test_rnr_wait_and_timer(synthesized):
    found = synthesized.fields_of("rdmawire.analysis.rnr_nak", "rdmawire.analysis.rnr_timer", "rdmawire.analysis.rnr_wait",
                     "rdmawire.analysis.rnr_early")
    compared = 0
    for event in synthesized.of_kind("rnr_nak"):
        timer, wait, early = found[event["frame"]]
        low, high = event["observed"] or (0, 0)
        waited = int(Decimal(wait) * 10**9) if wait else 0
        assert int(Decimal(timer) * 10**9) == event["value"]
        assert low <= waited <= high
        assert bool(early) == (0 < waited < event["value"])
        compared += 1
    assert compared > 3


def test_msn_jump_shows_expected_and_found_msn(synthesized):
    found = synthesized.fields_of("rdmawire.analysis.msn_jump", "rdmawire.analysis.msn_expected",
                                  "rdmawire.analysis.msn_found")
    jumps = synthesized.of_kind("msn_jump")
    assert len(jumps) > 3
    for event in jumps:
        expected_msn, found_msn = map(int, found[event["frame"]])
        assert expected_msn == event["value"] and event["observed"][0] <= found_msn <= event["observed"][1]


def test_nak_reaction_time(synthesized):
    """The time from the NAK to the first packet of the recovery."""
    found = synthesized.fields_of("rdmawire.analysis.go_back_n.reaction_time", "rdmawire.analysis.go_back_n.starts_in",
                     "rdmawire.analysis.go_back_n.cause_frame", "rdmawire.analysis.go_back_n.reaction_time")
    times = {frame: Decimal(time) for frame, (time,) in synthesized.fields_of("frame", "frame.time_epoch").items()}
    assert len(found) > 10
    for begins, cause, reaction in found.values():
        assert Decimal(reaction) == times[int(begins)] - times[int(cause)] > 0


def test_read_once_mode_gives_the_same_fields(synthesized):
    """The capture has more frames than the plugin keeps: discarding old frames must not change new ones."""
    stem = synthesized.home.path / "long"
    subprocess.run([sys.executable, "-m", "synthesize", stem, "--cases", "1100", "--seed", "9"], check=True,
                   timeout=180, capture_output=True, cwd=ROOT / "tests/analysis")
    stem.with_suffix(".pcap").chmod(0o644)
    arguments = ("-n", "-r", stem.with_suffix(".pcap"), "-T", "fields", "-e", "frame.number", "-e",
                 "rdmawire.analysis.connection", "-e", "rdmawire.event", "-e", "rdmawire.message.number", "-e",
                 "rdmawire.analysis.first_sent_in", "-e", "rdmawire.reassembled.length",
                 "-o", "rdmawire.kept_megabytes:1000")
    keeping = synthesized.home.tshark(*arguments).stdout.splitlines()
    discarding = synthesized.home.tshark(*arguments, "-o", "rdmawire.read_once:TRUE").stdout.splitlines()
    assert len(keeping) > 1.05 * 65536
    different = [pair for pair in zip(keeping, discarding) if pair[0] != pair[1]]
    assert len(keeping) == len(discarding) and not different, different[:3]
