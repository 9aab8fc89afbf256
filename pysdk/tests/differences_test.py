"""Differences between frames, also in failed assertions of pytest."""

import os
import sys

import pytest
import rdmawire
from rdmawire import AETH, BTH, VLAN, Ether, IPv4, UDP, differences

pytest_plugins = ["pytester"]
FRAME = Ether() / IPv4(src="192.0.2.1", dst="192.0.2.2", ttl=64) / UDP() / BTH(opcode="RC_SEND_ONLY", psn=7) / b"hello"


def changed(**fields):
    frame = FRAME.copy()
    for name, value in fields.items():
        setattr(frame[BTH], name, value)
    return frame


def test_equal_frames_have_no_differences():
    assert differences(FRAME, FRAME.copy()) == []
    other = rdmawire.parse(bytes(FRAME))
    other.time_ns = 5
    assert differences(FRAME, other) == []


def test_differences_name_fields_and_values():
    found = differences(FRAME, changed(psn=8, opcode="RC_SEND_LAST"))
    assert [one.name for one in found] == ["bth.opcode", "bth.psn", "icrc"]
    assert (found[1].left, found[1].right) == (7, 8)
    assert str(found[0]) == "bth.opcode: RC_SEND_ONLY ≠ RC_SEND_LAST"


def test_other_headers_are_one_difference():
    acknowledged = Ether() / IPv4(src="192.0.2.1", dst="192.0.2.2", ttl=64) / UDP() / BTH(psn=7) / AETH()
    found = differences(FRAME, acknowledged)
    assert str(found[0]) == "headers: eth / ip / udp / bth ≠ eth / ip / udp / bth / aeth"
    assert "payload: 5 bytes 68 65 6c 6c 6f ≠ 0 bytes " in [str(one) for one in found]


def test_second_header_of_a_kind_has_a_number():
    left = Ether() / VLAN(id=1) / VLAN(id=2) / IPv4()
    right = Ether() / VLAN(id=1) / VLAN(id=3) / IPv4()
    assert [str(one) for one in differences(left, right)] == ["vlan#2.id: 2 ≠ 3"]


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match="expected frames, got bytes"):
        differences(FRAME, bytes(FRAME))


def test_failed_comparison_in_pytest_names_the_fields(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(
        """
        from rdmawire import BTH, Ether, IPv4, UDP

        def request(psn):
            return Ether() / IPv4() / UDP() / BTH(psn=psn) / b"hello"

        def test_differs():
            assert request(1) == request(2)

        def test_other_type():
            assert request(1) == b"hello"
        """
    )
    result = pytester.runpytest_subprocess("-p", "rdmawire.pytest_plugin")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*bth.psn: 1 ≠ 2"])
