"""Expectations of users of scapy, pandas and notebooks."""

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest
import rdmawire
import sample_frames
from rdmawire import AETH, BTH, IPv4, UDP, Ether, Opcode

RPING = sample_frames.SAMPLES / "rping.pcap"


def test_expect_returns_the_frame_that_matches():
    a, b = rdmawire.wire_pair()
    with a, b:
        for psn in range(3):
            a.send(Ether() / IPv4() / UDP() / BTH(opcode=Opcode.RC_SEND_ONLY, psn=psn))
        assert b.expect(BTH)[BTH].psn == 0
        assert b.expect("bth.psn == 2")[BTH].psn == 2
        a.send(bytes(64))
        assert len(b.expect(lambda frame: BTH not in frame)) == 64


def test_failed_expect_describes_received_frames():
    a, b = rdmawire.wire_pair()
    with a, b:
        silence = r"^pair:b: expected a frame within 0\.01 s; no frame arrived$"
        with pytest.raises(rdmawire.WireError, match=silence) as wrong:
            b.expect(timeout=0.01)
        assert wrong.value.kind == "timeout"
        a.send([Ether() / IPv4() / UDP() / BTH(opcode=Opcode.RC_SEND_ONLY, psn=psn) for psn in range(12)])
        with pytest.raises(rdmawire.WireError, match="(?s)expected a frame with AETH.*12 other frames.*psn 9.*and 2 more"):
            b.expect(AETH, timeout=0.01)


def test_silent_device_is_described():
    with rdmawire.reference() as device, device.rc_qp() as qp:
        with pytest.raises(rdmawire.WireError, match="expected a frame with AETH within 1 s; no frame arrived"):
            qp.wire.expect(AETH, timeout=1)


def test_file_errors_are_os_errors(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        rdmawire.open_capture(tmp_path / "missing")
    with pytest.raises(rdmawire.Error, match="No such file"):
        rdmawire.open_capture(tmp_path / "missing")


def test_capture_can_be_pickled():
    with rdmawire.open_capture(RPING) as capture:
        assert len(list(pickle.loads(pickle.dumps(capture)))) == len(list(capture))
    data = RPING.read_bytes()
    assert len(list(pickle.loads(pickle.dumps(rdmawire.open_capture(data))))) == 379
    reader, writer = os.pipe()
    os.write(writer, data[:4000]), os.close(writer)
    with pytest.raises(TypeError, match="is a stream, which cannot be pickled"):
        pickle.dumps(rdmawire.open_capture(f"/dev/fd/{reader}"))


def test_frame_has_html_for_notebooks():
    frame = Ether() / IPv4() / UDP() / BTH() / b"<b>"
    html = frame._repr_html_()
    assert html.startswith("<pre") and "bth" in html and "<b>" not in html.replace("<pre", "")


def test_text_is_payload():
    frame = Ether() / IPv4() / UDP() / BTH() / "é"
    assert frame.payload == "é".encode()
    assert (BTH() / "text").payload == b"text"
    with pytest.raises(TypeError):
        frame / 5


def test_iteration_and_length_agree():
    frame = Ether() / IPv4() / UDP() / BTH() / b"data"
    assert list(frame) == list(bytes(frame)) and len(list(frame)) == len(frame)


SOURCES = {
    "bytes": lambda: RPING.read_bytes(),
    "bytearray": lambda: bytearray(RPING.read_bytes()),
    "file object": lambda: RPING.open("rb"),
    "BytesIO": lambda: io.BytesIO(RPING.read_bytes()),
    "fsspec URL": lambda: "memory://x/rping.pcap",
    "fsspec file": lambda: fsspec.open("memory://x/rping.pcap", "rb"),
    "Capture": lambda: rdmawire.open_capture(RPING),
    "Capture in memory": lambda: rdmawire.open_capture(RPING.read_bytes()),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_all_functions_accept_captures_of_every_kind(kind):
    with fsspec.open("memory://x/rping.pcap", "wb") as file:
        file.write(RPING.read_bytes())
    source = SOURCES[kind]
    if not kind.startswith("Capture"):
        assert len(list(rdmawire.open_capture(source()))) == 379
    report = rdmawire.analyze(source())
    assert report.summary.packets == 379 and len(list(report.messages)) == report.summary.messages
    assert "<html" in report.to_html()
    assert rdmawire.check(source()).summary.packets == 379
    assert rdmawire.replay(source(), dry_run=True).ok
    assert "connection 1" in rdmawire.learn_map(source())
    assert rdmawire.analyze([source()]).summary.packets == 379


def test_missing_url_is_a_capture_error():
    with pytest.raises(rdmawire.CaptureError, match="memory://nowhere: cannot open"):
        rdmawire.open_capture("memory://nowhere")


def test_name_that_is_not_utf_8(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.pcap")
    path.write_bytes(RPING.read_bytes())
    with rdmawire.open_capture(path) as capture:
        assert "\\xff.pcap" in capture.name
        assert capture.table(["bth.psn"]).to_parquet(tmp_path / os.fsdecode(b"\xfe.parquet")) == 379
    report = rdmawire.analyze(path)
    assert report.summary.packets == 379 and str(report) and "\\xff" in report.messages.name
    report.to_html(tmp_path / os.fsdecode(b"\xfe.html"))
    assert rdmawire.check(path).summary.packets == 379
    with pytest.raises(rdmawire.CaptureError, match=r"\\xfd: cannot open"):
        rdmawire.analyze(tmp_path / os.fsdecode(b"\xfd"))


ERRORS = {
    lambda: rdmawire.Frame(time_ns=1.5): "time_ns: expected an int, got float",
    lambda: rdmawire.Frame(number=-1): "number=-1: expected 0 or more",
    lambda: BTH(pns=5): "did you mean psn",
    lambda: rdmawire.reference(family="roec"): "did you mean roce",
    lambda: rdmawire.reference(faults="naks-every-paket"): "did you mean naks-every-packet",
    lambda: rdmawire.replay(RPING, dry_run=True, loop=2): "did you mean loops",
}


@pytest.mark.parametrize("call", ERRORS)
def test_errors_name_the_argument_and_similar_names(call):
    with pytest.raises((rdmawire.UsageError, TypeError), match=ERRORS[call]):
        call()


def test_errors_of_queue_pairs_name_similar_names():
    with rdmawire.reference() as device:
        with pytest.raises(rdmawire.UsageError, match="did you mean remote_write"):
            device.rc_qp(access="remote_wirte")
        with pytest.raises(rdmawire.UsageError, match="did you mean receives"):
            device.rc_qp(recieves=3)
        with device.rc_qp() as qp:
            with pytest.raises(rdmawire.UsageError, match="opcode: expected the name of a work request"):
                qp.post_send(Opcode.RC_SEND_ONLY)
            with pytest.raises(rdmawire.UsageError, match="wr_id: expected an int from 0"):
                qp.post_send(wr_id=-1)


def test_faults_accept_the_output_of_the_command():
    line = "naks-every-packet                    Every packet is rejected.  [RSP-001, RSP-002]\n"
    with rdmawire.reference(faults=line) as device:
        assert device.faults == {"naks-every-packet"}
        device.faults = ""
        assert device.faults == frozenset()


def test_module_runs_the_command():
    root = Path(rdmawire.__file__).parents[1]
    ran = subprocess.run([sys.executable, "-m", "rdmawire", "--version"], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": str(root)})  # fmt: skip
    assert ran.returncode == 0 and ran.stdout.startswith("rdmawire ")
