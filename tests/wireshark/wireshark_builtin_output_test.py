"""The plugin does not change the output of the built-in dissectors: protocols, fields, values, order and columns.

Two preferences change it by default, and are off here: text in the column Info, and the check before the RPC dissector.
"""

import pytest
from tshark_runs import ALL, SOME, needs_tshark, with_plugin, without_plugin

pytestmark = needs_tshark
UNCHANGED = ("-o", "rdmawire.info_prefixes:FALSE", "-o", "rdmawire.only_plausible_rpc:FALSE")


def built_in_fields(packet):
    """Return all fields of the built-in dissectors in a PDML packet, in order."""
    rows = []
    for proto in packet.findall("proto"):
        if proto.get("name") == "rdmawire":
            continue
        for field in proto.iter():
            rows.append((field.tag, field.get("name"), field.get("show"), field.get("showname"), field.get("pos"),
                         field.get("size"), field.get("value")))
    return rows


@pytest.mark.parametrize("capture, passes", [(path, []) for path in ALL] + [(path, ["-2"]) for path in SOME],
                         ids=lambda part: getattr(part, "name", None) or "".join(part))
def test_plugin_keeps_all_built_in_fields(capture, passes):
    before = without_plugin().packets(capture, *passes)
    after = with_plugin().packets(capture, *passes, *UNCHANGED)
    assert len(before) == len(after) > 0
    for number, (one, other) in enumerate(zip(before, after), 1):
        without_fields, with_fields = built_in_fields(one), built_in_fields(other)
        if without_fields == with_fields:
            continue
        missing = [row for row in without_fields if row not in with_fields]
        assert not missing, f"frame {number}: {missing[:5]}"
        additional = [row for row in with_fields if row not in without_fields]
        assert without_fields == with_fields, f"frame {number}: {additional[:5]}"


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_plugin_keeps_the_columns(capture):
    before = without_plugin().tshark("-n", "-r", without_plugin().place(capture)).stdout
    after = with_plugin().tshark("-n", "-r", with_plugin().place(capture), *UNCHANGED).stdout
    assert before and before == after
