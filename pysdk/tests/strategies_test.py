"""The Hypothesis strategies: valid frames and exchanges, and short failing examples."""

import json
import os
import subprocess

import pytest
import rdmawire
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from rdmawire import AETH, BTH, DDP, RETH, UDP, Ether, Frame, Header, IPv4, Opcode, header_table, parse
from rdmawire.strategies import fpdu_exchanges, headers, headers_of, rc_exchanges, roce_frames
from sample_frames import ROOT

NAMES = vars(rdmawire)
EXAMPLES = 1000 if os.environ.get("RDMAWIRE_FULL") else 60
some = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.mark.parametrize("header", rdmawire.HEADERS, ids=lambda header: header.__name__)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_every_header_has_a_strategy(header, data):
    made = data.draw(headers_of(header, everything=data.draw(st.booleans())))
    assert type(made) is header
    assert eval(repr(made), NAMES) == made


@some
@given(st.lists(headers(everything=True), min_size=1, max_size=6), st.binary(max_size=20))
def test_command_of_random_frame_creates_the_same_bytes(parts, payload):
    frame = Frame(*parts, payload=payload)
    assert bytes(eval(frame.command(), NAMES)) == bytes(frame)
    assert bytes(parse(frame)) == bytes(frame)


@some
@given(roce_frames())
def test_roce_frames_are_valid(frame):
    parsed = parse(bytes(frame), strict=True)
    assert parsed.icrc_status == "good" and parsed.wire == "roce_v2"
    assert [type(h) for h in parsed.layers] == [type(h) for h in frame.layers]


@some
@given(rc_exchanges())
def test_rc_exchanges_have_consecutive_psns(exchange):
    for frame in exchange.frames:
        assert parse(bytes(frame), strict=True).icrc_status == "good"
    # PSNs of the requests are consecutive. A READ uses one PSN per response.
    destination = exchange.frames[0][BTH].dest_qp, exchange.frames[0][Ether].src
    requests = [f for f in exchange.frames if (f[BTH].dest_qp, f[Ether].src) == destination]
    psn = requests[0][BTH].psn
    for frame in requests:
        if rdmawire.opcode_row(frame[BTH].opcode).request:
            assert frame[BTH].psn == psn
            reads = -(-frame[RETH].length // 256) if frame[BTH].opcode == Opcode.RC_RDMA_READ_REQUEST else 1
            psn = psn + 1 if reads == 1 else None
            if psn is None:
                break
            psn %= 1 << 24
    assert [type(e) for e in eval(exchange.command(), NAMES)] == [Frame] * len(exchange.frames)


def rdmawire_command():
    built = os.environ.get("RDMAWIRE_BIN", str(ROOT / "build" / "dev" / "bin" / "rdmawire"))
    if not os.path.exists(built):
        pytest.skip(f"{built} is not built")
    return built


@settings(max_examples=EXAMPLES // 4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(exchange=rc_exchanges(max_messages=20))
def test_check_finds_no_violation_in_generated_exchange(tmp_path_factory, exchange):
    """`rdmawire check` of the frames reports no violation."""
    path = tmp_path_factory.mktemp("exchange") / "x.pcap"
    with rdmawire.create_capture(path) as capture:
        for i, frame in enumerate(exchange.frames):
            capture.write(frame, time_ns=1_000_000_000 + i * 10_000)
    done = subprocess.run([rdmawire_command(), "check", path, "--complete", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, ([(v["rule"], v) for v in json.loads(done.stdout)["violations"]], exchange)
    assert json.loads(done.stdout)


@some
@given(fpdu_exchanges())
def test_fpdu_exchanges_are_valid(exchange):
    for frame in exchange.frames:
        parsed = parse(bytes(frame), "fpdu", strict=True)
        assert parsed.mpa_crc_status == "good" and parsed.wire == "iwarp" and DDP in parsed
    assert eval(exchange.command(), NAMES) == exchange.frames


def test_failing_example_shrinks_to_a_short_command():
    frame = find(roce_frames(), lambda frame: AETH in frame)
    assert len(frame.command()) < 330
    exchange = find(rc_exchanges(max_messages=2, max_bytes=1500), lambda c: any(f[BTH].opcode == Opcode.RC_RDMA_WRITE_LAST for f in c.frames))
    assert len(exchange.frames) <= 4, exchange


def test_specified_field_is_kept():
    header = find(headers_of(BTH, opcode=Opcode.UD_SEND_ONLY, psn=st.integers(5, 9)), lambda h: True)
    assert header.opcode == Opcode.UD_SEND_ONLY and header.psn == 5
    assert isinstance(header, Header) and header_table(BTH).name == "bth"
    assert UDP not in Frame(header, IPv4())
