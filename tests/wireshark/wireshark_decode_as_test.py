"""Selects the dissector by preference, Decode As, tshark's -d and a profile. The plugin's tree is always present."""

import struct

import pytest
from made_frames import A, B, MACS, bth, roce, dissect  # noqa: F401 (dissect is a fixture)
from tshark_runs import SAMPLES, Home, dissected, needs_tshark, plugin_tree, with_plugin

pytestmark = needs_tshark

MAIN = ("-o", "rdmawire.main_dissector:TRUE")


def roce_v1():
    """Return a RoCEv1 frame: a GRH after the EtherType."""
    transport = bth(4) + b"abcd" + bytes(4)
    grh = struct.pack(">IHBB", 0x60000000, len(transport), 0x1B, 64) + bytes(10) + b"\xff\xff" + A + bytes(10) + b"\xff\xff" + B
    return MACS + b"\x89\x15" + grh + transport


# Arguments, and the expected dissector: "infiniband" is built-in, "" is the plugin.
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


def dissector_of(packet):
    """Return the dissector of the packet ("infiniband" or ""), and the list of protocols."""
    names = [proto.get("name") for proto in packet.findall("proto")]
    layers = next(field.get("show") for field in packet.iter("field") if field.get("name") == "frame.protocols")
    assert names[-1] == "rdmawire" and plugin_tree(packet) is not None
    return "infiniband" if "infiniband" in names else "", layers


@pytest.mark.parametrize("frame, selector", [(roce(bth(4) + b"abcd"), "udp.port==4791"), (roce_v1(), "ethertype==0x8915")],
                         ids=["RoCEv2", "RoCEv1"])
@pytest.mark.parametrize("arguments, expected", CHOICES, ids=lambda part: " ".join(part) if isinstance(part, tuple) else "")
def test_dissector_selection_for_roce(dissect, frame, selector, arguments, expected):  # noqa: F811
    packet, = dissect([frame], *(part.format(selector) for part in arguments))
    dissector, layers = dissector_of(packet)
    assert dissector == expected
    # No other dissector is called in between.
    assert not expected or layers.split(":").count(expected) == 1 and "rdmawire" not in layers.split(expected)[0]


def test_preference_takes_precedence_over_low_source_port(dissect):  # noqa: F811
    """Wireshark tries the dissector of the lower UDP port first, unless another one is selected."""
    frame = roce(bth(4) + b"abcd", port=69)
    packet, = dissect([frame], *MAIN)
    assert "tftp" not in [proto.get("name") for proto in packet.findall("proto")]


def test_decode_as_entry_of_profile_is_used():
    """Wireshark saves Decode As entries in the profile and loads them at startup."""
    home = Home(plugin=True)
    entries = home.path / ".config/wireshark/decode_as_entries"
    entries.parent.mkdir(parents=True)
    entries.write_text("decode_as_entry: udp.port,4791,(none),rdmawire\n")
    for path in (entries, entries.parent, entries.parent.parent):
        path.chmod(0o755)
    capture = SAMPLES / "rping.pcap"
    packets = home.packets(capture)
    frames = [frame for frame in dissected(capture) if {"bth"} <= {layer["protocol"] for layer in frame["layers"]}
             and not {"mad"} & {layer["protocol"] for layer in frame["layers"]}]
    assert len(frames) > 5
    for frame in frames:
        names, _ = dissector_of(packets[frame["frame"] - 1])
        assert names == "", f"frame {frame['frame']}"


@pytest.mark.parametrize("arguments, built_in", [
    ((), True), (MAIN, False), (("-d", "tcp.port=={},rdmawire"), False),
    ((*MAIN, "--disable-heuristic", "rdmawire_tcp"), True)],
    ids=["default", "preference", "Decode As", "heuristic off"])
def test_dissector_selection_for_iwarp(arguments, built_in):
    """The built-in iWARP dissector is heuristic. The plugin's heuristic is enabled by the preference."""
    capture = SAMPLES / "siw-rping.pcap"
    frames = [frame for frame in dissected(capture) if frame.get("pdus")]
    ports = {layer["fields"][name] for frame in frames for layer in frame["layers"] if layer["protocol"] == "tcp"
             for name in ("src_port", "dst_port") if layer["fields"][name] < 32768}
    assert len(ports) == 1 and len(frames) > 10
    packets = with_plugin().packets(capture, *(part.format(*ports) for part in arguments))
    built_in_count = 0
    for frame in frames:
        packet = packets[frame["frame"] - 1]
        assert plugin_tree(packet) is not None
        built_in_count += any((proto.get("name") or "").startswith("iwarp") for proto in packet.findall("proto"))
    assert built_in_count == 0 if not built_in else built_in_count > len(frames) // 2
