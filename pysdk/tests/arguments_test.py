"""Errors for arguments of the wrong type or size name the argument and hide internals of the binding."""

from pathlib import Path

import pytest
import rdmawire
from rdmawire import BTH, UsageError, analyze, conformance, open_capture, open_wire, parse, segment, wire_pair
from rdmawire.arguments import describe

RPING = Path(__file__).resolve().parents[2] / "captures" / "samples" / "rping.pcap"


@pytest.fixture(scope="module")
def qp():
    with rdmawire.reference() as device, device.rc_qp() as made:
        yield made


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda qp: analyze(RPING, threads=-1), UsageError, "threads=-1 is too small"),
        (lambda qp: analyze(RPING, begin=1), TypeError, "begin: expected a str, got 1"),
        (lambda qp: open_capture(RPING).columns(["bth.psn"], filter=5), TypeError, "filter: expected a str, got 5"),
        (lambda qp: open_capture(RPING).frames(roce_port=70000), UsageError, "roce_port=70000 is too large"),
        (lambda qp: open_wire(5), TypeError, r"open_wire\(\): name: expected a str, got 5"),
        (lambda qp: wire_pair(frames=-1), UsageError, "frames=-1 is too small"),
        (lambda qp: qp.mr.read(-1), UsageError, "length=-1 is too small"),
        (lambda qp: qp.mr.read(4, offset=-3), UsageError, "offset=-3 is too small"),
        (lambda qp: qp.cq.poll(-1), UsageError, "count=-1 is too small"),
        (lambda qp: qp.region(size=-1), UsageError, "size=-1 is too small"),
        (lambda qp: qp.region(size=10**30), UsageError, f"size={10**30} is too large"),
        (lambda qp: qp.region(size=1.5), TypeError, "size: expected an int, got 1.5"),
        (lambda qp: segment(BTH() / b"x", -5), UsageError, "mtu=-5 is too small"),
        (lambda qp: conformance.nak("x", 1), TypeError, "code: expected an int, got 'x'"),
        (lambda qp: qp.device.completion_queue(qp), TypeError, "entries: expected an int, got a QueuePair"),
        (lambda qp: parse(), TypeError, "missing argument data"),
        (lambda qp: parse(b"x", color=5), TypeError, "unknown argument color; expected data, link, strict"),
        (lambda qp: parse(b"x", "ethernet", 5), TypeError, "too many arguments; expected data, link"),
        (lambda qp: analyze(RPING).text(rows=-1), UsageError, "rows=-1 is too small"),
    ],
)
def test_invalid_argument_error_names_the_argument(qp, call, kind, message):
    with pytest.raises(kind, match=message) as error:
        call(qp)
    assert "_core" not in str(error.value) and "incompatible" not in str(error.value) and len(str(error.value)) < 200


def test_writer_rejects_invalid_time_and_length(tmp_path):
    with rdmawire.create_capture(tmp_path / "made.pcap") as writer:
        with pytest.raises(TypeError, match="time_ns: expected an int or None, got 1.5"):
            writer.write(BTH() / b"x", time_ns=1.5)
        with pytest.raises(UsageError, match="wire_length=-1 is too small"):
            writer.write(BTH() / b"x", wire_length=-1)


def test_read_beyond_memory_error_contains_requested_length(qp):
    with pytest.raises(rdmawire.DeviceError, match="must be 0 to 8192, got 1000000000") as refused:
        qp.mr.read(10**9)
    assert refused.value.kind == "refused"


def test_overload_mismatch_error_names_no_parameter():
    text = "f(): incompatible function arguments. …:\n    1. (a: int) -> None\n    2. (a: str, b: int = 1) -> None\n\nInvoked"
    error = describe(text, (2.5,), {})
    assert isinstance(error, TypeError) and str(error) == "f(): invalid arguments: 2.5"
    assert isinstance(describe(text, ("x",), {"b": -1}), UsageError)


def test_signature_defaults_with_commas_and_brackets_are_parsed():
    text = "f(): incompatible function arguments.\n    1. (a: Optional[str] = 'x, (y', b: Dict[str, List[int]] = {}, *, c: List[str]) -> None\n"
    assert str(describe(text, (None,), {"c": "abc"})) == "f(): c: expected a list of items that are a str, got 'abc'"
    assert str(describe(text, (5,), {"c": []})) == "f(): a: expected a str or None, got 5"
