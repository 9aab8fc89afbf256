"""Who dissects: Wireshark's own dissectors or ours, by preference, by Decode As (tshark's -d, and what a profile keeps of
it), in both directions. Whoever does, our tree is there."""

import struct

import pytest
from made_frames import A, B, MACS, bth, roce, see  # noqa: F401 (see is a fixture)
from tshark_runs import SAMPLES, Home, dissected, needs_tshark, ours, with_plugin

pytestmark = needs_tshark

MAIN = ("-o", "rdmawire.main_dissector:TRUE")


def roce_v1():
    """A GRH behind the Ethernet type."""
    transport = bth(4) + b"abcd" + bytes(4)
    grh = struct.pack(">IHBB", 0x60000000, len(transport), 0x1B, 64) + bytes(10) + b"\xff\xff" + A + bytes(10) + b"\xff\xff" + B
    return MACS + b"\x89\x15" + grh + transport


# What dissects the frame then: "infiniband", the built-in; "", ours.
CHOICES = [
    ((), "infiniband"),
    (MAIN, ""),
    (("-d", "{},rdmawire"), ""),
    (("-d", "{},infiniband"), "infiniband"),
    ((*MAIN, "-d", "{},rdmawire"), ""),
    ((*MAIN, "-d", "{},infiniband"), "infiniband"),
    ((*MAIN, "-d", "{},rdmawire_by_preference"), ""),
    (("-d", "{},rdmawire_by_preference"), "infiniband"),
]


def who(packet):
    """Of the dissectors behind the place."""
    said = [proto.get("name") for proto in packet.findall("proto")]
    layers = next(field.get("show") for field in packet.iter("field") if field.get("name") == "frame.protocols")
    assert said[-1] == "rdmawire" and ours(packet) is not None
    return "infiniband" if "infiniband" in said else "", layers


@pytest.mark.parametrize("made, place", [(roce(bth(4) + b"abcd"), "udp.port==4791"), (roce_v1(), "ethertype==0x8915")],
                         ids=["RoCEv2", "RoCEv1"])
@pytest.mark.parametrize("arguments, expected", CHOICES, ids=lambda part: " ".join(part) if isinstance(part, tuple) else "")
def test_roce(see, made, place, arguments, expected):  # noqa: F811
    packet, = see([made], *(part.format(place) for part in arguments))
    dissector, layers = who(packet)
    assert dissector == expected
    # Nobody stands in between.
    assert not expected or layers.split(":").count(expected) == 1 and "rdmawire" not in layers.split(expected)[0]


def test_the_users_choice_holds_for_low_source_ports(see):  # noqa: F811
    """UDP asks the dissector of the lower port first, but where the other one was chosen."""
    frame = roce(bth(4) + b"abcd", port=69)
    packet, = see([frame], *MAIN)
    assert "tftp" not in [proto.get("name") for proto in packet.findall("proto")]


def test_what_a_profile_keeps():
    """The window writes what was chosen into the profile, and reads it when it starts."""
    home = Home(plugin=True)
    kept = home.path / ".config/wireshark/decode_as_entries"
    kept.parent.mkdir(parents=True)
    kept.write_text("decode_as_entry: udp.port,4791,(none),rdmawire\n")
    for path in (kept, kept.parent, kept.parent.parent):
        path.chmod(0o755)
    capture = SAMPLES / "rping.pcap"
    packets = home.packets(capture)
    there = [frame for frame in dissected(capture) if {"bth"} <= {layer["protocol"] for layer in frame["layers"]}
             and not {"mad"} & {layer["protocol"] for layer in frame["layers"]}]
    assert len(there) > 5
    for frame in there:
        said, _ = who(packets[frame["frame"] - 1])
        assert said == "", f"frame {frame['frame']}"


@pytest.mark.parametrize("arguments, built_in", [
    ((), True), (MAIN, False), (("-d", "tcp.port=={},rdmawire"), False),
    ((*MAIN, "--disable-heuristic", "rdmawire_tcp"), True)],
    ids=["as it is", "preference", "Decode As", "heuristic off"])
def test_iwarp(arguments, built_in):
    """Wireshark's own has no entry in Decode As: it guesses, and so does ours by preference; either can be turned off."""
    capture = SAMPLES / "siw-rping.pcap"
    frames = [frame for frame in dissected(capture) if frame.get("pdus")]
    ports = {layer["fields"][name] for frame in frames for layer in frame["layers"] if layer["protocol"] == "tcp"
             for name in ("src_port", "dst_port") if layer["fields"][name] < 32768}
    assert len(ports) == 1 and len(frames) > 10
    packets = with_plugin().packets(capture, *(part.format(*ports) for part in arguments))
    theirs = 0
    for frame in frames:
        packet = packets[frame["frame"] - 1]
        assert ours(packet) is not None
        theirs += any((proto.get("name") or "").startswith("iwarp") for proto in packet.findall("proto"))
    assert theirs == 0 if not built_in else theirs > len(frames) // 2
