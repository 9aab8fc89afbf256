"""rdmawire against tshark: every capture, every frame, every field that both know.

Whatever differs must stand in known.toml, field by field and frame by frame, with the reason why ours is right; an
entry that no longer differs fails as well. `python tests/differential/differences.py` shows what differs.
"""

import pytest

import differences
import programs
from captures import WITHOUT_SHARED, all_captures, capture_named


@pytest.fixture(scope="module")
def compared():
    """Every capture, compared once."""
    programs.require_rdmawire()
    programs.require_tshark()
    return differences.compare_all(all_captures())


def test_tshark_has_every_field_that_our_tables_name(compared):
    del compared
    assert [name for name in programs.aliases() if name not in programs.tshark_fields()] == []


def test_both_see_the_same_frames(compared):
    wrong = [f"{c.capture.name}: {c.frames} frames here, {c.tshark_frames} there"
             for c in compared if c.frames != c.tshark_frames or c.frames == 0]
    assert wrong == []


def test_every_difference_is_known_and_every_known_one_is_there(compared, capsys):
    known = differences.read_known()
    found = {difference.key(): difference for c in compared for difference in c.differences}
    # Where ../shared is missing, its entries cannot be judged.
    judged = {entry.key(): entry for entry in known.entries if capture_named(entry.capture)}
    with capsys.disabled():
        print("\n" + differences.totals(compared, judged, known))
        if len(judged) < len(known.entries):
            print(f"skipped: {len(known.entries) - len(judged)} known differences of ../shared: {WITHOUT_SHARED}")
    unknown = [str(found[key]) for key in found if key not in judged]
    stale = [str(judged[key]) for key in judged if key not in found]
    assert not unknown, f"{len(unknown)} differences that known.toml does not have:\n" + "\n".join(unknown[:40])
    assert not stale, f"{len(stale)} entries of known.toml that do not differ so:\n" + "\n".join(stale[:40])


def test_known_differences_are_well_formed():
    known = differences.read_known()
    used = {entry.reason for entry in known.entries}
    assert used == set(known.reasons), "every reason is used, and every entry's reason is written"
    assert all(reason.endswith(".") for reason in known.reasons.values())
    keys = [entry.key() for entry in known.entries]
    assert len(keys) == len(set(keys)), "an entry stands twice"
