"""The plugin's fields are those of `rdmawire dissect --json`: every header, field, part, CRC, PDU, note and finding of
every packet of every sample capture, with offsets and lengths."""

import ipaddress
from decimal import Decimal

import pytest
from tshark_runs import ALL, SOME, dissected, needs_tshark, ours, with_plugin

pytestmark = needs_tshark

STATUS = {"absent": 0, "good": 1, "bad": 2, "unverifiable": 3}
KINDS = ["truncated", "malformed", "unknown", "limit"]


def same(shown, value):
    """Whether Wireshark's text of a field means the value of JSON."""
    if isinstance(value, int):
        if shown in ("True", "False"):
            return value == (shown == "True")
        if "." in shown:
            return int(Decimal(shown) * 1_000_000_000) == value
        return int(shown, 0) == value
    if shown == value or shown.replace(":", "") == value.replace(":", ""):
        return True
    try:
        return ipaddress.ip_address(shown) == ipaddress.ip_address(value)
    except ValueError:
        return False


def local(name):
    return name.removeprefix("rdmawire.")


def children(element, name):
    return [field for field in element.findall("field") if field.get("name") == "rdmawire." + name]


def child(element, name):
    found = children(element, name)
    assert len(found) <= 1, f"{name} is there {len(found)} times"
    return found[0] if found else None


def shown(element, name):
    found = child(element, name)
    return None if found is None else found.get("show")


def begins_at(element, offset, parent):
    """Whether the element begins at `offset`. PDML adds its parent's position where that is larger."""
    return int(element.get("pos")) == (offset + parent if offset < parent else offset)


def check_layers(element, layers, where, parent=0):
    """The headers right below `element`, which begins at `parent`, are `layers`, in order."""
    names = {layer["protocol"] for layer in layers}
    headers = [field for field in element.findall("field")
               if local(field.get("name")) in names and "." not in local(field.get("name"))]
    assert [local(h.get("name")) for h in headers] == [layer["protocol"] for layer in layers], where
    for header, layer in zip(headers, layers):
        check_layer(header, layer, where + " " + layer["protocol"], parent)


def check_layer(header, layer, where, parent):
    assert begins_at(header, layer["offset"], parent), where
    assert int(header.get("size")) == layer["length"], where
    prefix = header.get("name") + "."
    fields = {field.get("name").removeprefix(prefix): field.get("show") for field in header.iter("field")
              if field.get("name").startswith(prefix)}
    parts = layer.get("parts", [])
    wanted = {key: value for key, value in layer["fields"].items() if not key.endswith("_name")}
    nested = [part["protocol"] for part in parts]
    # A part that is the same header again (an extension of an extension) has the same names below it.
    assert set(fields) == set(wanted) or layer["protocol"] in nested, f"{where}: {set(fields) ^ set(wanted)}"
    for key, value in wanted.items():
        assert same(fields[key], value), f"{where}.{key}: Wireshark has {fields[key]}, JSON {value}"
    if parts:
        check_layers(header, parts, where, layer["offset"])


def check_crc(element, name, crc, where):
    value = child(element, name)
    if crc is None:
        assert value is None and shown(element, name + ".status") is None, f"{where}: {name} out of nowhere"
        return
    inside = element if crc["status"] == "unverifiable" else value
    assert inside is not None, f"{where}: {name} is missing"
    assert int(shown(inside, name + ".status")) == STATUS[crc["status"]], f"{where}: {name}"
    if "value" in crc:
        assert int(value.get("show"), 0) == int(crc["value"], 0), f"{where}: {name}"
    computed = shown(inside, name + ".computed")
    assert (computed and int(computed, 0)) == (int(crc["computed"], 0) if "computed" in crc else None), where
    port = shown(inside, name + ".source_port")
    assert (port and int(port)) == crc.get("source_port"), where


def check_findings(element, findings, where):
    there = children(element, "finding")
    assert [field.get("show") for field in there] == [finding["what"] for finding in findings], where
    for field, finding in zip(there, findings):
        assert int(shown(field, "finding.kind")) == KINDS.index(finding["kind"]), where
        assert int(shown(field, "finding.offset")) == finding["offset"], where


def check_range(element, name, piece, where, base=0, parent=0):
    field = child(element, name)
    assert (field is None) == (piece is None), f"{where}: {name}"
    if piece:
        assert begins_at(field, piece["offset"] + base, parent), where
        assert int(field.get("size")) == piece["length"], where


def check_pdu(element, pdu, where):
    assert int(shown(element, "pdu.offset")) == pdu["offset"], where
    assert int(shown(element, "pdu.length")) == pdu["length"], where
    assert (shown(element, "pdu.reassembled") in ("1", "True")) == pdu["reassembled"], where
    assert int(shown(element, "pdu.markers") or 0) == pdu.get("markers", 0), where
    assert (child(element, "pdu.wrong_marker") is not None) == pdu.get("wrong_marker", False), where
    # Offsets count in the PDU: in the frame it begins somewhere, in a data source of its own at 0.
    base = 0 if pdu["reassembled"] else pdu["offset"]
    check_layers(element, moved(pdu["layers"], base), where, pdu["offset"])
    check_range(element, "payload", pdu.get("payload"), where, base, pdu["offset"])
    check_range(element, "pad", pdu.get("pad"), where, base, pdu["offset"])
    check_crc(element, "crc", pdu.get("crc"), where)
    check_findings(element, pdu.get("findings", []), where)


def moved(layers, base):
    return [{**layer, "offset": layer["offset"] + base,
             **({"parts": moved(layer["parts"], base)} if "parts" in layer else {})} for layer in layers]


def check(tree, packet):
    where = f"frame {packet['frame']}"
    check_layers(tree, packet["layers"], where)
    if not packet.get("pdus") and packet.get("wire") not in (None, "iwarp"):
        check_range(tree, "payload", packet.get("payload"), where)
    check_range(tree, "pad", packet.get("pad"), where)
    check_crc(tree, "icrc", packet.get("icrc"), where)
    check_crc(tree, "vcrc", packet.get("vcrc"), where)
    pdus = children(tree, "pdu")
    assert len(pdus) == len(packet.get("pdus", [])), where
    for number, (element, pdu) in enumerate(zip(pdus, packet.get("pdus", [])), 1):
        check_pdu(element, pdu, f"{where} pdu {number}")
    upper = child(tree, "upper")
    assert (upper is None) == ("upper" not in packet), where
    if upper is not None:
        assert shown(upper, "upper.reason") == packet["upper"]["reason"], where
        assert int(shown(upper, "upper.frame")) == packet["upper"]["frame"], where
    assert [field.get("show") for field in children(tree, "note")] == packet.get("notes", []), where
    check_findings(tree, packet.get("findings", []), where)


@pytest.mark.parametrize("capture, passes", [(path, ["-2"]) for path in ALL] + [(path, []) for path in SOME],
                         ids=lambda part: getattr(part, "name", None) or "".join(part))
def test_fields_are_those_of_dissect(capture, passes):
    packets = with_plugin().packets(capture, *passes, "-o", "rdmawire.lower_layers:TRUE", "-J", "rdmawire")
    expected = dissected(capture)
    assert len(packets) == len(expected)
    compared = 0
    for packet, wanted in zip(packets, expected):
        tree = ours(packet)
        if tree is None:
            assert not wanted.get("wire") and not wanted.get("pdus"), f"frame {wanted['frame']} has no tree"
            continue
        check(tree, wanted)
        compared += 1
    assert compared, "no packet of the capture has a tree"
