"""The package as such: that it is the build tree's, and what it raises."""

import pytest
import rdmawire


def test_every_error_is_an_error_of_ours():
    for name in ("CaptureError", "ClosedError", "DeviceError", "ParseError", "UsageError", "WireError"):
        assert issubclass(getattr(rdmawire, name), rdmawire.Error)


@pytest.mark.parametrize("name", ["ParseError", "UsageError", "ClosedError"])
def test_what_is_wrong_with_a_value_is_a_value_error(name):
    assert issubclass(getattr(rdmawire, name), ValueError)
