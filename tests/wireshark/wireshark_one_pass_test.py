"""A frame shows in one pass (without -2) what the packets before it decide, like Wireshark's analysis of TCP."""

import re

import pytest
from tshark_runs import SAMPLES, needs_tshark, with_plugin

pytestmark = needs_tshark
LOSS = SAMPLES / "rc-pingpong-loss.pcap.gz"
# Captures with retransmissions, whose connections are paired before their first data packet.
LOSSES = [LOSS, SAMPLES / "rc-read-loss.pcap.zst", SAMPLES / "siw-write-loss.pcap.gz"]


def rows(capture, passes, display_filter, *fields, arguments=()):
    home = with_plugin()
    out = home.tshark("-n", *passes, "-r", home.place(capture), "-Y", display_filter, "-T", "fields",
                      *(part for field in fields for part in ("-e", field)), *arguments).stdout.decode()
    return [line.split("\t") for line in out.splitlines()]


def frames(capture, passes, display_filter):
    return {int(row[0]) for row in rows(capture, passes, display_filter, "frame.number")}


@pytest.mark.parametrize("capture", LOSSES, ids=lambda path: path.name)
def test_one_pass_finds_the_retransmissions_of_two_passes(capture):
    name = "rdmawire.analysis.tcp_retransmission" if capture.name.startswith("siw") else "rdmawire.analysis.retransmission"
    one, two = frames(capture, [], name), frames(capture, ["-2"], name)
    assert len(two) > 5
    # Later packets can show that a packet was late and not retransmitted.
    assert len(one ^ two) <= len(two) / 20, sorted(one ^ two)


def test_one_pass_shows_cause_and_start_of_each_burst():
    fields = [f"rdmawire.analysis.go_back_n{part}" for part in ("", ".starts_in", ".cause", ".cause_frame",
                                                                ".reaction_time")]
    one, two = ({row[0]: row[1:] for row in rows(LOSS, passes, "rdmawire.analysis.go_back_n", "frame.number", *fields)}
                for passes in ([], ["-2"]))
    assert set(one) == set(two) and len(two) == 90
    assert one == two


@pytest.mark.parametrize("kind", ["nak", "rnr_nak", "duplicate", "out_of_order", "opened", "crc_bad", "cnp"])
def test_events_of_single_packets_are_shown_in_one_pass(kind):
    for capture in LOSSES:
        assert frames(capture, [], f"rdmawire.analysis.{kind}") == frames(capture, ["-2"], f"rdmawire.analysis.{kind}")


def test_gap_in_one_pass_is_a_loss_with_two():
    """The packet after a gap has a gap in one pass. Later packets show that its packets were lost in the network."""
    one = frames(LOSS, [], "rdmawire.analysis.psn_gap")
    lost = rows(LOSS, ["-2"], 'rdmawire.event.kind == "lost_in_network"', "rdmawire.event.packets")
    assert len(one) == len(lost) == 15
    assert not frames(LOSS, ["-2"], "rdmawire.analysis.psn_gap")


def test_fields_that_need_later_packets_are_documented():
    """These fields exist only with two passes, and the page lists each of them."""
    page = (SAMPLES.parents[1] / "docs/how-to/use-wireshark-plugin.md").read_text()
    section = page.split("### One pass", 1)[1].split("\n## ", 1)[0]
    documented = set(re.findall(r"`(analysis\.[a-z_.]+|event)`", section))
    names = ["analysis.retransmitted_in", "analysis.go_back_n.ends_in", "analysis.go_back_n.packets",
             "analysis.acknowledged_in", "analysis.response_in", "analysis.closed_in"]
    for name in names:
        with_later = frames(LOSS, ["-2"], f"rdmawire.{name}") or frames(SAMPLES / "rping.pcap", ["-2"], f"rdmawire.{name}")
        assert with_later, name
        assert name in documented, name


def test_time_delta_equals_the_difference_of_frame_times_in_both_modes():
    fields = ("frame.time_epoch", "rdmawire.stream", "rdmawire.time_delta", "rdmawire.time_relative")
    one, two = (rows(SAMPLES / "nvme-over-rdma.pcap.zst", passes, "rdmawire.stream", *fields) for passes in ([], ["-2"]))
    assert one == two
    first, previous, streams = {}, {}, set()
    for time, stream, delta, relative in one:
        now = int(time.replace(".", ""))
        first.setdefault(stream, now)
        assert int(delta.replace(".", "")) == now - previous.get(stream, now), time
        assert int(relative.replace(".", "")) == now - first[stream], time
        previous[stream] = now
        streams.add(int(stream))
    assert streams == set(range(len(streams))) and len(streams) > 1
