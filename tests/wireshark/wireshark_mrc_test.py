"""MRC in Wireshark: filters on its headers, the fields of the tracker, and the preference."""

import json
import subprocess

from tshark_runs import COMMAND, SAMPLES, needs_tshark, with_plugin

pytestmark = needs_tshark

SAMPLE = SAMPLES / "mrc.pcap"


def rows(filter_text, *fields, options=()):
    home = with_plugin()
    arguments = [part for field in fields for part in ("-e", field)]
    done = home.tshark("-n", "-r", home.place(SAMPLE), *options, "-Y", filter_text, "-T", "fields", *arguments)
    return [line.split("\t") for line in done.stdout.decode().splitlines()]


def frames_of(filter_text, *options):
    done = subprocess.run([COMMAND, "dissect", "--json", "--filter", filter_text, *options, SAMPLE],
                          capture_output=True, text=True, check=True, timeout=60)
    return [str(json.loads(line)["frame"]) for line in done.stdout.splitlines()]


def test_filters_select_the_frames_of_dissect():
    for shared in ("mrc", "mrc.opcode == 0xdd", "mrc.rtx == 1", "seth.path_state != 0", "reth"):
        wanted = frames_of(shared)
        assert wanted, shared
        assert [row[0] for row in rows("rdmawire." + shared, "frame.number")] == wanted, shared


def test_tracker_fields_equal_the_report():
    done = subprocess.run([COMMAND, "analyze", "--json", SAMPLE], capture_output=True, text=True, check=True, timeout=60)
    report = json.loads(done.stdout)
    (connection,) = report["mrc"]["connections"]
    fields = ("rdmawire.analysis.mrc.connection", "udp.srcport", "rdmawire.analysis.mrc.path_state",
              "rdmawire.analysis.mrc.path_state_frame")
    found = rows("rdmawire.analysis.mrc.retransmission", "frame.number", *fields)
    assert len(found) == connection["retransmitted"]
    assert {row[1] for row in found} == {str(connection["connection"])}
    assert len(rows("rdmawire.analysis.mrc.out_of_order", "frame.number")) == connection["out_of_order"]
    # The state of each path in its last WRITE or probe cannot be older than the report's.
    names = ["good", "congested", "failed"]
    trimmed = rows("rdmawire.analysis.mrc.path_state && rdmawire.finding", "frame.number", *fields)
    assert len(trimmed) == connection["trimmed"]
    for frame, _, _, state, since in trimmed:
        assert names[int(state)] == "congested" and int(since) <= int(frame)


def test_preference_disables_mrc():
    off = ("-o", "rdmawire.mrc:FALSE")
    assert rows("rdmawire.mrc || rdmawire.analysis.mrc.connection", "frame.number", options=off) == []
    plain = rows("rdmawire.bth", "frame.number", options=off)
    assert [row[0] for row in plain] == frames_of("bth", "--disable-protocol", "mrc")
    assert len(plain) > 200
