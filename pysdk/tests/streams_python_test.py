"""iWARP streams from Python: exchanges with the reference endpoint, and conformance cases."""

import gc
import json
import threading
import tracemalloc
import weakref

import pytest
import rdmawire
from rdmawire import (
    BTH,
    DDP,
    FPDU,
    RDMAP,
    ClosedError,
    DDPTagged,
    DDPUntagged,
    DeviceError,
    MPAFrame,
    RDMAPOpcode,
    RDMAPReadRequest,
    Terminate,
    UsageError,
    conformance,
    open_capture,
)
from rdmawire import iwarp
from rdmawire.iwarp import (
    a_read_request,
    a_send,
    a_terminate,
    any_terminate,
    pattern_bytes,
    read_request,
    response_to,
    send,
    silence,
    stream_closed,
    write,
)


@pytest.fixture
def device():
    with rdmawire.reference(family="iwarp") as opened:
        yield opened


def test_send_completes_a_receive(device):
    with device.stream(receives=1) as qp:
        qp.stream.send(qp.frame() / b"hello")
        completion = qp.cq.wait()
        assert (completion.opcode, completion.byte_len, completion.good) == ("recv", 5, True)
        assert qp.inbox.read(5) == b"hello"


def test_write_with_wrong_stag_is_terminated_without_writing(device):
    with device.stream(access="remote_write") as qp:
        qp.stream.send(qp.frame() / DDPTagged(stag=qp.stag ^ 0x100, to=qp.mr.addr) / b"evil")
        terminate = qp.stream.receive(timeout=1)
        assert terminate.opcode == RDMAPOpcode.TERMINATE
        # RFC 5041, 7.2: DDP, tagged buffer error, invalid STag
        assert (terminate[Terminate].layer, terminate[Terminate].etype, terminate[Terminate].error_code) == (1, 1, 0)
        assert qp.stream.receive(timeout=1).kind in ("fin", "reset")
        assert qp.mr.read(4) == bytes(4)


def test_write_and_read_with_correct_stag(device):
    with device.stream() as qp:
        qp.stream.send(qp.frame() / DDPTagged(stag=qp.stag, to=qp.mr.addr + 8) / b"good")
        qp.stream.send(
            qp.frame() / RDMAPReadRequest(sink_stag=7, sink_to=64, size=4, src_stag=qp.stag, src_to=qp.mr.addr + 8)
        )
        response = qp.stream.receive(timeout=1)
        assert (response.opcode, response.payload) == (RDMAPOpcode.RDMA_READ_RESPONSE, b"good")
        assert (response[DDPTagged].stag, response[DDPTagged].to) == (7, 64)
        assert response.crc_good and response.frame.mpa_crc_status == "good"
        assert qp.mr.read(4, offset=8) == b"good"


def test_opcode_and_msn_are_set_automatically(device):
    with device.stream(receives=3) as qp:
        first, second = qp.frame() / b"1", qp.frame() / b"2"
        assert [frame[DDPUntagged].msn for frame in (first, second)] == [1, 2]
        assert first[RDMAP].opcode == RDMAPOpcode.SEND and first.link == "fpdu"
        assert (qp.frame() / RDMAPReadRequest())[DDPUntagged].msn == 1  # MSN of the queue for READ requests
        assert (qp.frame() / Terminate())[DDPUntagged].qn == 2
        assert DDPUntagged not in qp.frame() / DDPTagged()
        assert (qp.frame(RDMAPOpcode.SEND_WITH_SE) / b"x")[RDMAP].opcode == RDMAPOpcode.SEND_WITH_SE
        request = qp.frame(msn=77)
        assert request[DDPUntagged].msn == 77 and (request / b"")[DDPUntagged].msn == 77
        assert qp.msns == {0: 4, 1: 2, 2: 2, 3: 1}
        later = qp.frame()
        assert bytes(later) == bytes(later)  # an MSN is assigned once


def test_device_send_and_rdma_read(device):
    with device.stream() as qp:
        qp.stream >> write(0, 0, b"")  # the responder may send only after the initiator's first FPDU
        qp.mr.write(b"from the device")
        qp.post_send("send", length=15, wr_id=7)
        sent = qp.stream.receive(timeout=1)
        assert (sent.opcode, sent[DDPUntagged].msn, sent.payload) == (RDMAPOpcode.SEND, 1, b"from the device")
        qp.post_send("read", length=8, wr_id=8, remote_addr=0x40, rkey=0x77)
        request = qp.stream.wait(a_read_request(1, 8))
        assert (request[RDMAPReadRequest].src_stag, request[RDMAPReadRequest].src_to) == (0x77, 0x40)
        qp.stream >> response_to(request, b"response")
        assert [one.wr_id for one in qp.poll(2)] == [7, 8]
        assert qp.mr.read(8) == b"response"


@pytest.mark.parametrize("enhanced", [False, True])
def test_device_is_mpa_initiator(device, enhanced):
    with device.stream(device_initiates=True, enhanced=enhanced, receives=1) as qp:
        assert qp.stream.setup.kind == "setup" and MPAFrame in qp.stream.setup
        assert qp.stream.setup[MPAFrame].key == "MPA ID Req Frame"
        qp.stream >> send(1, b"hello")
        assert qp.cq.wait().byte_len == 5


def test_connection_setup_in_single_steps(device):
    with device.stream(connected=False, receives=1) as qp:
        assert not qp.stream.operating and qp.stream.setup is None
        with pytest.raises(UsageError, match="no stream"):
            qp.stream.send(b"too soon")
        qp.listen()
        qp.dial()
        with pytest.raises(UsageError, match="Full Operation Phase"):
            qp.stream >> send(1)
        request = qp.stream.mpa_frame
        assert rdmawire.parse(request, "mpa")[MPAFrame].revision == 1
        qp.stream.send(request[:7])
        qp.stream.send(request[7:])
        qp.accept()
        qp.operate()
        assert qp.stream.setup[MPAFrame].key == "MPA ID Rep Frame"
        qp.stream >> send(1, b"hello")
        assert qp.cq.wait().byte_len == 5


def test_markers_and_tcp_segmentation(device):
    with device.stream(markers=True, wishes={"markers": True}, receives=2, region_bytes=4096) as qp:
        qp.stream.send(qp.frame() / pattern_bytes(900), segment_bytes=100)
        assert qp.cq.wait().byte_len == 900
        assert qp.inbox.read(900) == pattern_bytes(900)
        assert len(qp.stream.fpdu(send(9, pattern_bytes(900)))) > 900 + 2 + 18 + 4  # includes a marker
        qp.stream.send(read_request(1, qp.stag, qp.mr.addr, size=2000))
        received = list(qp.stream.sniff(timeout=0.01))
        assert received and all(one.crc_good for one in received)
        assert any(one.markers for one in received)
        assert sum(len(one.payload) for one in received) == 2000


def test_explicit_invalid_crc_is_sent(device):
    with device.stream(receives=1) as qp:
        wrong = qp.frame() / b"data"
        wrong.mpa_crc = 0
        qp.stream >> wrong
        qp.stream << stream_closed()  # RFC 5044, 8: the device aborts the stream
        assert not qp.cq.wait().good


def test_failed_expectation_raises_device_error(device):
    with device.stream(receives=1) as qp:
        qp.stream >> send(1)
        qp.stream << silence(0.01)
        with pytest.raises(DeviceError, match="expected: Send, MSN 1; actual: nothing") as failed:
            qp.stream << a_send(1)
        assert failed.value.kind == "failed"


def test_finish_and_reset_of_a_stream(device):
    with device.stream(receives=1) as qp:
        qp.stream.finish()
        assert [one.kind for one in qp.stream.sniff()] == ["fin"]
        assert qp.stream.receive(timeout=0) is None
    with device.stream(receives=1) as qp:
        qp.stream.reset()
        assert qp.stream.receive(timeout=1) is None
        assert not qp.cq.wait().good


def test_received_item_has_the_accessors_of_a_frame(device):
    with device.stream() as qp:
        qp.stream >> read_request(1, qp.stag, qp.mr.addr)
        received = qp.stream.receive()
        assert DDP in received and BTH not in received and bytes(received) == bytes(received.frame)
        assert received.frame.time_ns == received.time
        with pytest.raises(IndexError, match="no BTH"):
            received[BTH]
        qp.stream.finish()
        end = qp.stream.receive()
        assert end.kind == "fin" and end.frame is None and DDP not in end and end.opcode is None
        with pytest.raises(IndexError, match="no headers"):
            end[DDP]


def test_queue_pairs_share_protection_domain_and_completion_queue(device):
    with device.domain() as domain, device.completion_queue(64) as cq:
        one, two = (device.stream(receives=1, domain=domain, cq=cq) for _ in range(2))
        more = domain.region(64, "local_write remote_write")
        one.stream >> write(more.rkey, more.addr, b"one") >> send(1, b"first")
        two.stream >> write(more.rkey, more.addr + 8, b"two") >> send(1, b"second")
        assert sorted((c.qp_num, c.byte_len) for c in cq.poll(2)) == sorted([(one.qpn, 5), (two.qpn, 6)])
        assert more.read(11) == b"one" + bytes(5) + b"two"
        # The region of another domain is not accessible.
        with device.stream() as other:
            one.stream >> write(other.stag, other.mr.addr, b"evil")
            one.stream << any_terminate()
            assert other.mr.read(4) == bytes(4)
        one.close()
        with pytest.raises(ClosedError, match="queue pair"):
            one.mr.read(1)
        two.stream >> write(more.rkey, more.addr, b"TWO")
        assert more.read(3) == b"TWO"
    with pytest.raises(ClosedError):
        two.stream.receive(timeout=0)
    with pytest.raises(ClosedError):
        more.read(1)


def test_invalid_arguments_are_rejected(device):
    with pytest.raises(UsageError, match="unknown option mtu"):
        device.stream(mtu=1024)
    with pytest.raises(UsageError, match="revision='one'"):
        device.stream(revision="one")
    with pytest.raises(UsageError, match="stream"):
        device.rc_qp()
    with rdmawire.reference() as roce:
        with pytest.raises(UsageError, match="RoCE"):
            roce.stream()
        with roce.domain() as foreign, pytest.raises(UsageError, match="another device"):
            device.stream(domain=foreign)
    with device.stream() as qp:
        with pytest.raises((TypeError, UsageError)):
            qp.stream.send(3)
        with pytest.raises(UsageError):
            qp.stream.send(b"x", segment_bytes=0)
        with pytest.raises(UsageError):
            qp.stream.receive(timeout=-1)


def test_use_after_closing_the_device_raises():
    device = rdmawire.reference(family="iwarp")
    qp = device.stream(receives=1)
    stream, region = qp.stream, qp.mr
    device.close()
    for use in (lambda: stream.receive(0), lambda: stream.send(b"x"), lambda: region.read(1), lambda: stream.operating):
        with pytest.raises(ClosedError):
            use()
    qp.close()
    assert qp.closed and "closed" in repr(qp) and "closed" in repr(stream)
    with pytest.raises(ClosedError):
        device.stream()


def test_streams_in_concurrent_threads(device):
    errors = []

    def use_streams(number):
        try:
            for _ in range(5):
                with device.stream(receives=4) as qp:
                    for message in range(4):
                        qp.stream.send(qp.frame() / bytes([number, message]))
                    assert [c.byte_len for c in qp.poll(4, timeout=5)] == [2] * 4
                    assert qp.inbox.read(2, offset=3072) == bytes([number, 3])
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=use_streams, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_long_stream_does_not_grow_memory(device):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def read_repeatedly(qp, times):
        for _ in range(times):
            qp.stream >> read_request(qp.msns[1], qp.stag, qp.mr.addr, size=4096)
            qp.msns[1] += 1
            while qp.stream.receive(timeout=0.01) is not None:
                pass

    with device.stream() as qp:
        read_repeatedly(qp, 50)
        gc.collect()
        tracemalloc.start()
        before, python_before = resident(), tracemalloc.get_traced_memory()[0]
        read_repeatedly(qp, 600)  # 2.4 MB of READ responses
        gc.collect()
        grown, python_grown = resident() - before, tracemalloc.get_traced_memory()[0] - python_before
        tracemalloc.stop()
        assert python_grown < 100_000
        assert grown < 1_500_000


def test_recorded_stream_is_saved(device, tmp_path):
    device.record()
    with device.stream(receives=1) as qp:
        qp.stream >> send(1, b"hello")
        qp.cq.wait()
    path = tmp_path / "x.pcapng"
    assert device.save(path) > 5
    pdus = [pdu for packet in open_capture(path).packets() for pdu in packet.pdus]
    assert [pdu[RDMAP].opcode for pdu in pdus if RDMAP in pdu] == [RDMAPOpcode.SEND]


# Cases written in Python

RULE = "ddp.data-sink.error.later-dropped"


@conformance.case(RULE, variant="python: a Write with the error")
def write_with_the_error(bench):
    qp = bench.connect(receives=1)
    qp.send_together([iwarp.send_nowhere(1), write(qp.stag, qp.to(), pattern_bytes(16))])
    qp.refuses(any_terminate())
    qp.holds(0, bytes(16))
    qp.fail_or_are_flushed(0, 0)


@conformance.case(RULE, variant="python: with frames")
def with_frames(bench):
    qp = bench.connect(receives=1, region_bytes=64)
    qp >> FPDU() / DDP(last=1, dv=1) / RDMAP(rv=1, opcode=RDMAPOpcode.SEND) / DDPUntagged(qn=7, msn=1) / b"data"
    received = qp.wait(iwarp.expect("a Terminate of DDP", lambda seen: seen[Terminate].layer == 1))
    assert received[Terminate].etype == 2
    qp << stream_closed()
    qp.ends()
    qp.fail_or_are_flushed(0, 0)


@conformance.case(RULE, variant="python: wrong")
def wrong(bench):
    qp = bench.connect(receives=1)
    qp >> send(1).changed(lambda frame: setattr(frame[DDPUntagged], "qn", 7), "on QN 7")
    qp << a_terminate(0, 0, 0)


@conformance.case(RULE, variant="python: an assert")
def asserts(bench):
    qp = bench.connect(receives=1)
    assert bench.any(1) == 0
    qp >> send(1, b"data")
    qp.completes(0)
    received = qp.next(0.01)
    assert received is not None


def test_python_cases_are_listed_and_reported(tmp_path):
    listed = {case.id: case for case in conformance.cases(RULE)}
    mine = listed[f"{RULE}/python: a Write with the error"]
    assert (mine.family, mine.python, mine.rule) == ("iwarp", True, RULE)
    report = conformance.certify(only=[write_with_the_error, with_frames, f"{RULE}/Send with the error"], seed=3, report=tmp_path)
    assert report.counts == {"pass": 3}
    steps = report[write_with_the_error].steps
    assert any(step["kind"] == "sent" and step["text"].startswith("together: Send, MSN 1") for step in steps)
    assert any(step["kind"] == "received" and step["text"].startswith("Terminate") for step in steps)
    assert [s["text"] for s in report[with_frames].steps if s["kind"] == "sent"][1].startswith("Send, QN 7, MSN 1")
    assert json.loads((tmp_path / "report.json").read_text())["cases"]
    captures = sorted(path.name for path in (tmp_path / "captures").iterdir())
    assert len(captures) == 3
    packets = list(open_capture(tmp_path / "captures" / captures[0]).packets())
    assert any(RDMAP in pdu for packet in packets for pdu in packet.pdus)


def test_failing_python_cases_report_the_deviation():
    report = conformance.certify(only=[wrong, asserts], seed=1)
    result = report[wrong]
    assert result.verdict == "fail-wrong-code" and "layer 0, type 0" in result.expected
    assert "Send, MSN 1, 8 bytes, on QN 7" in [s["text"] for s in result.steps if s["kind"] == "sent"]
    assert report[asserts].verdict == "fail" and report[asserts].expected == "received is not None"


def test_bench_after_its_case_raises_closed_error():
    kept = []

    @conformance.case(RULE, variant="python: kept")
    def keeps(bench):
        kept.append((bench, bench.connect()))

    assert conformance.certify(only=keeps, seed=1).counts == {"pass": 1}
    bench, qp = kept[0]
    with pytest.raises(ClosedError):
        bench.connect()
    with pytest.raises(ClosedError):
        qp >> b"x"


def test_cases_on_an_open_device(device):
    device.faults = ()
    with device.stream(receives=1) as qp:
        results = []
        report = conformance.certify(device, only=[write_with_the_error, "ddp.data-sink.close.*"], seed=1,
                                     on_result=lambda result: results.append(qp.stream.receive(timeout=0)))  # fmt: skip
        assert set(report.counts) == {"pass"} and len(report) == len(results) > 3
        qp.stream >> send(1, b"still there")
        assert qp.cq.wait().byte_len == 11
    assert report.json["device"] == "reference"
    names = rdmawire.devices.faults("iwarp")
    fault = next(name for name in names if "later" in name or "terminate" in name)
    device.faults = fault
    assert device.faults == {fault}
    with pytest.raises(UsageError, match="unknown fault"):
        device.faults = "no-such-fault"
    device.faults = ()
    assert device.faults == frozenset()
    with pytest.raises(UsageError, match="options are not allowed"):
        conformance.certify(device, faults="x")



def test_changed_header_prefix_is_kept(device):
    with device.stream() as qp:
        headers = qp.frame()
        headers[DDPUntagged].msn = 77
        headers.mpa_crc = 0
        extended = headers / b"x"
        assert (extended[DDPUntagged].msn, extended.mpa_crc, extended.mpa_crc_status) == (77, 0, "bad")
        request = headers / RDMAPReadRequest()
        assert (request[DDPUntagged].qn, request[DDPUntagged].msn, request.mpa_crc) == (1, 77, 0)
        headers[RDMAP].opcode = RDMAPOpcode.SEND_WITH_SE
        assert (headers / DDPTagged())[RDMAP].opcode == RDMAPOpcode.SEND_WITH_SE


def test_opcode_is_inferred_from_an_appended_frame(device):
    with device.stream() as qp:
        written = qp.frame() / (DDPTagged() / b"abc")
        assert written[RDMAP].opcode == RDMAPOpcode.RDMA_WRITE and DDPUntagged not in written
        assert written[rdmawire.DDP].tagged == 1
        assert qp.msns[0] == 1  # an RDMA Write has no MSN
        headers = qp.frame()
        assert [(headers / part)[DDPUntagged].msn for part in (RDMAPReadRequest(), b"x")] == [1, 1]
        assert qp.msns == {0: 2, 1: 2, 2: 1, 3: 1}


def test_queue_pair_referenced_by_its_headers_is_freed(device):
    freed = []
    qp = device.stream()
    qp.kept = qp.frame()
    weakref.finalize(qp, freed.append, True)
    qp.close()
    del qp
    gc.collect()
    assert freed
