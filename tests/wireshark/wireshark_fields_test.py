"""The plugin's fields equal `rdmawire dissect --json` for every packet of every sample.

Compares headers, fields, parts, CRCs, PDUs, notes and findings, with offsets and lengths.
"""

import ipaddress
from decimal import Decimal

import pytest
from tshark_runs import ALL, SOME, dissected, needs_tshark, plugin_tree, with_plugin

pytestmark = needs_tshark

STATUS = {"absent": 0, "good": 1, "bad": 2, "unverifiable": 3}
KINDS = ["truncated", "malformed", "unknown", "limit"]


def same(shown, value):
    """Return whether a field value of Wireshark equals a JSON value."""
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
    assert len(found) <= 1, f"{name} occurs {len(found)} times"
    return found[0] if found else None


def shown(element, name):
    found = child(element, name)
    return None if found is None else found.get("show")


def starts_at(element, offset, parent):
    """Return whether the element starts at `offset`. PDML adds the parent's position if it is larger."""
    return int(element.get("pos")) == (offset + parent if offset < parent else offset)


def check_layers(element, layers, where, parent=0):
    """Check that the headers directly below `element`, which starts at `parent`, are `layers`, in order."""
    names = {layer["protocol"] for layer in layers}
    headers = [field for field in element.findall("field")
               if local(field.get("name")) in names and "." not in local(field.get("name"))]
    assert [local(h.get("name")) for h in headers] == [layer["protocol"] for layer in layers], where
    for header, layer in zip(headers, layers):
        check_layer(header, layer, where + " " + layer["protocol"], parent)


def check_layer(header, layer, where, parent):
    assert starts_at(header, layer["offset"], parent), where
    assert int(header.get("size")) == layer["length"], where
    prefix = header.get("name") + "."
    fields = {field.get("name").removeprefix(prefix): field.get("show") for field in header.iter("field")
              if field.get("name").startswith(prefix)}
    parts = layer.get("parts", [])
    expected = {key: value for key, value in layer["fields"].items() if not key.endswith("_name")}
    nested = [part["protocol"] for part in parts]
    # A nested header of the same type (an extension of an extension) has the same field names.
    assert set(fields) == set(expected) or layer["protocol"] in nested, f"{where}: {set(fields) ^ set(expected)}"
    for key, value in expected.items():
        assert same(fields[key], value), f"{where}.{key}: Wireshark has {fields[key]}, JSON {value}"
    if parts:
        check_layers(header, parts, where, layer["offset"])


def check_crc(element, name, crc, where):
    value = child(element, name)
    if crc is None:
        assert value is None and shown(element, name + ".status") is None, f"{where}: {name} was not expected"
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
    shown_findings = children(element, "finding")
    assert [field.get("show") for field in shown_findings] == [finding["what"] for finding in findings], where
    for field, finding in zip(shown_findings, findings):
        assert int(shown(field, "finding.kind")) == KINDS.index(finding["kind"]), where
        assert int(shown(field, "finding.offset")) == finding["offset"], where


def check_range(element, name, piece, where, base=0, parent=0):
    field = child(element, name)
    assert (field is None) == (piece is None), f"{where}: {name}"
    if piece:
        assert starts_at(field, piece["offset"] + base, parent), where
        assert int(field.get("size")) == piece["length"], where


def check_pdu(element, pdu, where):
    assert int(shown(element, "pdu.offset")) == pdu["offset"], where
    assert int(shown(element, "pdu.length")) == pdu["length"], where
    assert (shown(element, "pdu.reassembled") in ("1", "True")) == pdu["reassembled"], where
    assert int(shown(element, "pdu.markers") or 0) == pdu.get("markers", 0), where
    assert (child(element, "pdu.wrong_marker") is not None) == pdu.get("wrong_marker", False), where
    # Offsets are relative to the PDU. A reassembled PDU has its own data source.
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
def test_fields_equal_dissect_json(capture, passes):
    packets = with_plugin().packets(capture, *passes, "-o", "rdmawire.lower_layers:TRUE", "-J", "rdmawire")
    expected = dissected(capture)
    assert len(packets) == len(expected)
    compared = 0
    for packet, expected_packet in zip(packets, expected):
        tree = plugin_tree(packet)
        if tree is None:
            assert not expected_packet.get("wire") and not expected_packet.get("pdus"), (
                f"frame {expected_packet['frame']} has no tree")
            continue
        check(tree, expected_packet)
        compared += 1
    assert compared, "no packet of the capture has a tree"
