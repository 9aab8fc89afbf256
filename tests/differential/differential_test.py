"""Compares rdmawire with tshark: every capture, every frame, every common field.

known.toml lists every difference with the reason why rdmawire is correct. An entry without a difference fails too.
`python tests/differential/differences.py` prints the unknown differences.
"""

import pytest

import differences
import programs
from captures import WITHOUT_SHARED, all_captures, capture_named


@pytest.fixture(scope="module")
def comparisons():
    """Return the comparison of every capture."""
    programs.require_rdmawire()
    programs.require_tshark()
    return differences.compare_all(all_captures())


def test_tshark_has_every_wireshark_field_of_the_tables(comparisons):
    del comparisons
    assert [name for name in programs.aliases() if name not in programs.tshark_fields()] == []


def test_both_programs_report_the_same_number_of_frames(comparisons):
    wrong = [f"{c.capture.name}: {c.frames} frames in rdmawire, {c.tshark_frames} in tshark"
             for c in comparisons if c.frames != c.tshark_frames or c.frames == 0]
    assert wrong == []


def test_differences_equal_the_known_differences(comparisons, capsys):
    known = differences.read_known()
    found = {difference.key(): difference for c in comparisons for difference in c.differences}
    # Without ../shared, the entries of its captures are skipped.
    checked = {entry.key(): entry for entry in known.entries if capture_named(entry.capture)}
    with capsys.disabled():
        print("\n" + differences.totals(comparisons, checked, known))
        if len(checked) < len(known.entries):
            print(f"skipped: {len(known.entries) - len(checked)} known differences of ../shared: {WITHOUT_SHARED}")
    unknown = [str(found[key]) for key in found if key not in checked]
    stale = [str(checked[key]) for key in checked if key not in found]
    assert not unknown, f"{len(unknown)} differences that known.toml does not contain:\n" + "\n".join(unknown[:40])
    assert not stale, f"{len(stale)} entries of known.toml without a difference:\n" + "\n".join(stale[:40])


def test_known_differences_are_well_formed():
    known = differences.read_known()
    used = {entry.reason for entry in known.entries}
    assert used == set(known.reasons), "reasons must be used and defined"
    assert all(reason.endswith(".") for reason in known.reasons.values())
    keys = [entry.key() for entry in known.entries]
    assert len(keys) == len(set(keys)), "duplicate entry"
