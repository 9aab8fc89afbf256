"""Devices from Python in the lab: Linux's rxe and siw in a virtual machine. RDMAWIRE_LAB=1 boots them."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("RDMAWIRE_PYTHON", ROOT / "build" / "dev" / "python"))
LAB = os.environ.get("RDMAWIRE_FULL") == "1" or os.environ.get("RDMAWIRE_LAB") == "1"

pytestmark = [
    pytest.mark.skipif(not LAB, reason="needs RDMAWIRE_LAB=1: it boots virtual machines"),
    pytest.mark.skipif(not (BUILT / "rdmawire").exists(), reason=f"needs the Python module, built at {BUILT}"),
]
if LAB and (BUILT / "rdmawire").exists():
    sys.path.insert(0, str(BUILT))
    import rdmawire
    from rdmawire import AETH, RETH, Opcode, Syndrome, conformance
    from rdmawire.conformance import ack, nak_sequence_error, psn, silence


def programs():
    """The virtual machines that this process has started."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) == os.getpid() and b"qemu" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


@pytest.fixture(scope="module")
def rxe():
    with rdmawire.lab("rxe") as device:
        yield device
    assert not programs()


def test_a_wrong_key_is_refused_and_writes_nothing(rxe):
    with rxe.rc_qp(access="remote_write") as qp:
        qp.wire.send(qp.frame() / RETH(va=qp.mr.addr, rkey=qp.mr.rkey ^ 1, length=4) / b"evil")
        assert qp.wire.receive(timeout=5)[AETH].syndrome == Syndrome.NAK_REMOTE_ACCESS_ERROR
        assert qp.mr.read(4) == bytes(4)


def test_work_both_ways(rxe):
    with rxe.rc_qp(receives=2) as qp:
        qp.wire.send(qp.frame() / b"to the device")
        assert qp.wire.receive(timeout=5)[AETH].syndrome_kind == 0
        completion = qp.cq.wait(timeout=5)
        assert (completion.opcode, completion.byte_len) == ("recv", 13)
        assert qp.inbox.read(13) == b"to the device"
        qp.mr.write(b"from the device")
        qp.post_send("send", length=15, wr_id=3)
        came = qp.wire.receive(timeout=5)
        assert b"from the device" in bytes(came)
        qp.wire.send(qp.frame(Opcode.RC_ACKNOWLEDGE, psn=qp.device_first_psn) / AETH(syndrome=0x1F, msn=1))
        assert qp.cq.wait(timeout=5).wr_id == 3
    assert rxe.describe()["limits"]["max_qp"] > 0
    assert "rxe" in rxe.details and rxe.counters()


def test_other_services_and_addresses(rxe):
    for over in ("ipv6", "vlan"):
        with rxe.rc_qp(receives=1, over=over) as qp:
            qp.wire.send(qp.frame() / b"data")
            assert qp.wire.receive(timeout=5)[AETH].syndrome_kind == 0
    with rxe.ud_qp(receives=1) as qp:
        qp.wire.send(qp.frame() / rdmawire.DETH(qkey=qp.qkey, src_qp=qp.tester_qpn) / b"datagram")
        assert qp.cq.wait(timeout=5).src_qp == qp.tester_qpn


def test_cases_are_run_those_in_python_too(tmp_path):
    @conformance.case("rc.responder.psn.sequence-error", variant="in the lab, from Python")
    def gap(bench):
        qp = bench.rc(receives=2)
        bench >> qp.send_only(psn(+1))
        bench << nak_sequence_error(psn(+0)) << silence()
        bench >> qp.send_only(psn(+0))
        bench << ack(psn(+0)).msn(1)

    before = programs()
    report = conformance.certify("lab:rxe", only=["rc.responder.psn.sequence-error"], seed=1, report=tmp_path)
    assert report[gap].verdict == "pass" and report.ok, report.text()
    assert report.json["device"] == "lab:rxe"
    assert len(list((tmp_path / "captures").iterdir())) == len(report) == 2
    assert programs() == before


def test_a_device_that_dies_is_an_error_soon():
    before = programs()
    with rdmawire.lab("rxe") as device, device.rc_qp() as qp:
        (program,) = set(programs()) - set(before)
        errors = []

        def wait():
            try:
                qp.wire.receive(timeout=None)
            except rdmawire.DeviceError as error:
                errors.append(error)

        waits = threading.Thread(target=wait)
        waits.start()
        os.kill(program, signal.SIGKILL)
        begin = time.monotonic()
        with pytest.raises(rdmawire.DeviceError) as lost:
            while time.monotonic() - begin < 30:
                qp.mr.read(4)
        assert lost.value.kind == "lost"
        waits.join(30)
        assert errors and errors[0].kind == "lost"
        assert time.monotonic() - begin < 30
        assert device.gone()


def test_siw_has_verbs():
    with rdmawire.lab("siw") as device:
        assert device.family == "iwarp"
        assert device.describe()["limits"]["max_qp"] > 0
