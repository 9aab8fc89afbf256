"""Beside the built-in dissectors nothing of theirs is lost: with the plugin loaded, every protocol, field and value that
tshark prints without it is printed with it, in the same order, and the columns are the same."""

import pytest
from tshark_runs import ALL, SOME, needs_tshark, with_plugin, without_plugin

pytestmark = needs_tshark


def built_in(packet):
    """What the built-in dissectors say of a packet of PDML, in order."""
    said = []
    for proto in packet.findall("proto"):
        if proto.get("name") == "rdmawire":
            continue
        for field in proto.iter():
            said.append((field.tag, field.get("name"), field.get("show"), field.get("showname"), field.get("pos"),
                         field.get("size"), field.get("value")))
    return said


@pytest.mark.parametrize("capture, passes", [(path, []) for path in ALL] + [(path, ["-2"]) for path in SOME],
                         ids=lambda part: getattr(part, "name", None) or "".join(part))
def test_nothing_is_lost(capture, passes):
    before = without_plugin().packets(capture, *passes)
    after = with_plugin().packets(capture, *passes)
    assert len(before) == len(after) > 0
    for number, (one, other) in enumerate(zip(before, after), 1):
        without, having = built_in(one), built_in(other)
        if without == having:
            continue
        lost = [row for row in without if row not in having]
        assert not lost, f"frame {number}: {lost[:5]}"
        assert without == having, f"frame {number}: {[row for row in having if row not in without][:5]}"


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_columns_are_the_same(capture):
    before = without_plugin().tshark("-n", "-r", without_plugin().place(capture)).stdout
    after = with_plugin().tshark("-n", "-r", with_plugin().place(capture)).stdout
    assert before and before == after
