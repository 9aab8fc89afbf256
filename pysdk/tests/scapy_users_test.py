"""Expectations of users of scapy, pandas and notebooks."""

import contextlib
import datetime
import io
import os
import pickle
import re
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
            with pytest.raises(rdmawire.UsageError, match="wr_id: expected a non-negative int"):
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


def made(psn=100):
    return Ether() / IPv4() / UDP() / BTH(opcode=Opcode.RC_SEND_ONLY, psn=psn) / b"data"


HINTS = {
    lambda: UDP(dport=4791): r"UDP has no field 'dport'.* its fields are src_port, dst_port, length",
    lambda: rdmawire.CMReq(xyzxyz=5): r"CMReq has no field 'xyzxyz'.* help\(rdmawire.CMReq\) lists the fields",
    lambda: BTH(opcode="RC_SEND_ONYL"): "Opcode has no name 'RC_SEND_ONYL'.* did you mean RC_SEND_ONLY",
    lambda: BTH(psn="7"): "bth.psn: expected an int, got str",
    lambda: rdmawire.open_capture(RPING).frames(filter=5): r"frames\(\): filter: expected an expression or a function",
    lambda: rdmawire.open_capture(RPING).frames(filter="udp port 4791"): "a filter of libpcap.*open_live.*udp.dst_port",
    lambda: rdmawire.open_capture(RPING).frames(filter="src host 10.0.0.2"): "a filter of libpcap",
    lambda: rdmawire.wire_pair()[0].sniff(filter="udp port 4791"): "a filter of libpcap",
    lambda: rdmawire.open_capture(RPING).columns(["psn"]): r"unknown field psn; did you mean: bth\.psn",
    lambda: rdmawire.open_capture(RPING.open(encoding="latin-1")): "text mode: open it with mode 'rb'",
    lambda: rdmawire.wire_pair()[0].expect(BTH(psn=1)): r'what: expected a class of headers.*got BTH: use BTH, or "bth',
    lambda: type("Own", (rdmawire.Header,), {}): "Header cannot have subclasses.*docs/reference/scapy.md",
}


@pytest.mark.parametrize("call", HINTS)
def test_messages_name_the_remedy(call):
    with pytest.raises((rdmawire.UsageError, TypeError), match="(?s)" + HINTS[call]):
        call()


def test_libpcap_hint_is_absent_for_other_errors():
    with pytest.raises(rdmawire.UsageError) as wrong:
        rdmawire.open_capture(RPING).frames(filter="bth.psnn == 1")
    assert "libpcap" not in str(wrong.value)


def test_missing_interface_is_reported_before_allow_target():
    with pytest.raises(rdmawire.WireError) as missing:
        rdmawire.replay(RPING, "packet:nope0")
    assert missing.value.kind == "missing" and "allow_target" not in str(missing.value)


def test_enumerated_fields_accept_names():
    frame = Ether() / IPv4() / UDP() / BTH(opcode="RC_ACKNOWLEDGE") / AETH()
    assert frame[BTH].opcode is Opcode.RC_ACKNOWLEDGE
    frame[BTH].opcode = "rc_send_only"
    assert frame[BTH].opcode is Opcode.RC_SEND_ONLY


def test_defaults_are_in_help_and_in_the_table():
    fields = {field.attribute: field for field in rdmawire.header_table(BTH).fields}
    assert fields["pkey"].default == 0xFFFF and fields["psn"].default == 0 and fields["pad"].default is None
    assert "default 0xffff" in BTH.pkey.__doc__ and "default" not in BTH.psn.__doc__
    assert "computed if not set" in BTH.pad.__doc__


def test_header_is_shown():
    frame = made()
    assert "psn" in frame[BTH].show(dump=True) and "udp" not in frame[BTH].show(dump=True)
    assert BTH(psn=77).show(dump=True).count("77") >= 1
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert frame[BTH].show() is None
    assert output.getvalue() == frame[BTH].show(dump=True)


def test_packets_are_shown_as_frames():
    packet = next(rdmawire.open_capture(RPING).packets())
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert packet.show() is None
    assert output.getvalue() == packet.show(dump=True) and "eth" in output.getvalue()


def test_packets_have_relative_times_and_frames_absolute_ones():
    capture = rdmawire.open_capture(RPING)
    first = next(iter(capture))
    packet = next(capture.packets(filter="frame.number == 18"))
    frame = packet.frame
    seconds, nanoseconds = divmod(frame.time_ns - first.time_ns, 10**9)
    assert seconds > 0 and f" {seconds}.{nanoseconds:09} " in str(packet)
    moment = datetime.datetime.fromtimestamp(frame.time_ns // 10**9, datetime.timezone.utc)
    assert frame.summary().startswith(f"18  {moment:%Y-%m-%d %H:%M:%S}.{frame.time_ns % 10**9:09}  ")


def test_frames_of_wires_have_no_number():
    a, b = rdmawire.wire_pair()
    with a, b:
        a.send(made())
        received = b.receive()
    year = str(datetime.datetime.now(datetime.timezone.utc).year)
    assert received.summary().startswith(f"{year}-") and received.show(dump=True).startswith(f"Frame  {year}-")
    received.time_ns = None
    assert received.summary() == made().summary()
    assert rdmawire.Frame(made(), number=7).summary() == f"7  {made().summary()}"


def test_capture_has_a_length_indices_and_slices():
    capture = rdmawire.open_capture(RPING)
    frames = list(capture)
    assert len(capture) == len(frames) == 379
    assert capture[10].number == 11 and capture[-1].number == 379 and capture[10] == frames[10]
    for part in (slice(10, 20), slice(5), slice(-3, None), slice(None, None, 100), slice(9, 0, -4), slice(5, 5)):
        assert [frame.number for frame in capture[part]] == [frame.number for frame in frames[part]]
    for outside in (379, -380):
        with pytest.raises(IndexError, match="has 379 packets"):
            capture[outside]


def test_stream_has_no_length():
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as out:
        out.write(RPING.read_bytes()[:4000])
    capture = rdmawire.open_capture(f"/dev/fd/{reader}")
    with pytest.raises(TypeError, match="is a stream, which has no length"):
        len(capture)
    with pytest.raises(rdmawire.CaptureError, match="truncated|cut|ends"):
        list(capture)
    os.close(reader)


def test_frames_are_selected_by_a_function():
    capture = rdmawire.open_capture(RPING)
    selected = [frame.number for frame in capture.frames(filter=lambda frame: BTH in frame and frame[BTH].psn == 0)]
    assert selected == [frame.number for frame in capture.frames(filter="bth.psn == 0")] and selected


def test_several_frames_are_written_by_one_call(tmp_path):
    path = tmp_path / "x.pcapng"
    with rdmawire.open_capture(RPING) as capture, rdmawire.create_capture(path) as out:
        out.write(capture[:10])
        out.write(capture.frames(filter="frame.number > 370"), comments="late")
        out.write(made(), time_ns=5)
        assert out.records == 20
        expected = [*capture[:10], *capture[370:]]
    with rdmawire.open_capture(path) as written:
        frames = list(written)
        assert frames[:19] == expected and [f.time_ns for f in frames[:19]] == [f.time_ns for f in expected]
        assert frames[12].comments == ("late",) and frames[19].time_ns == 5


def test_keys_of_counts_are_documented():
    documented = set(re.search(r"--json``: ([^.]*)\.", rdmawire.Capture.counts.__doc__)[1].replace(",", "").split())
    assert set(rdmawire.open_capture(RPING).counts()) <= documented and "truncated_packets" in documented


def test_header_is_sent_and_written_like_a_frame(tmp_path):
    a, b = rdmawire.wire_pair()
    with a, b, rdmawire.create_capture(tmp_path / "x.pcap") as out:
        with pytest.raises(rdmawire.UsageError, match="link type bth, the wire sends ethernet"):
            a.send(BTH(psn=1))
        for write in (a.send, out.write):
            with pytest.raises(rdmawire.UsageError, match="CMReq is not a frame: put it after lower headers"):
                write(rdmawire.CMReq())
        out.write(Ether() / IPv4())
        with pytest.raises(rdmawire.CaptureError, match="link type"):
            out.write(BTH(psn=1))
        a.send(Ether(src="02:00:00:00:00:01"))
        assert b.receive()[Ether].src == "02:00:00:00:00:01"


@pytest.mark.parametrize(("option", "value"), [("count", 0), ("count", -1), ("timeout", -1)])
def test_sniff_rejects_a_limit_without_effect(option, value):
    a, _ = rdmawire.wire_pair()
    with pytest.raises(rdmawire.UsageError, match=f"{option}={value}: expected .* or None"):
        a.sniff(**{option: value})


def test_names_of_values_are_compared_like_in_filters():
    for name in ("RC RDMA WRITE Only", "rc-rdma-write-only", "RC_RDMA_WRITE_ONLY", "rcRdmaWriteOnly"):
        assert BTH(opcode=name).opcode is Opcode.RC_RDMA_WRITE_ONLY
    assert AETH(syndrome="NAK PSN sequence error").syndrome == rdmawire.Syndrome.NAK_PSN_SEQUENCE_ERROR
    assert rdmawire.CMRej(reason="consumer reject").reason is rdmawire.CMREJReason.CONSUMER_REJECT
    with pytest.raises(rdmawire.UsageError, match='1024 does not fit.*0 to 15, or a name of MTUCode'):
        rdmawire.CMReq(path_mtu=1024)
    with pytest.raises(rdmawire.UsageError, match="has no name ''"):
        BTH(opcode="")


def test_operators_of_filters_are_no_names_of_headers_and_fields():
    field = rdmawire.HeaderField("kind", 8)
    for name in ("In", "And", "Or", "Not", "Contains"):
        with pytest.raises(rdmawire.UsageError, match=f"header {name.lower()}: the name is an operator of filters|keyword"):
            rdmawire.define_header(name, [field], after=UDP(dst_port=4000))
    for name in ("and", "not", "in"):
        with pytest.raises(rdmawire.UsageError, match=f"field {name}: the name is an operator of filters"):
            rdmawire.define_header("Own", [rdmawire.HeaderField(name, 8)], after=UDP(dst_port=4000))
    with pytest.raises(rdmawire.UsageError, match="field or: the name is an operator"):
        counted = rdmawire.HeaderField("size", 8, counts="tail")
        rdmawire.define_header("Own", [counted], tail="or", after=UDP(dst_port=4000))


def test_predecessor_of_a_header_needs_fields_and_no_stream():
    field = rdmawire.HeaderField("kind", 8)
    with pytest.raises(rdmawire.UsageError, match="got the class UDP"):
        rdmawire.define_header("Own", [field], after=UDP)
    with pytest.raises(rdmawire.UsageError, match="cannot follow DDP: PDUs of iWARP are unsupported"):
        rdmawire.define_header("Own", [field], after=rdmawire.DDP(tagged=1))


def test_all_headers_of_streams_are_refused_as_predecessors():
    from rdmawire.user_headers import _STREAM_HEADERS

    known = {rdmawire.header_table(header).name for header in rdmawire.HEADERS}
    assert known >= _STREAM_HEADERS
    assert {name for name in known if name.startswith(("mpa", "ddp", "rdmap", "fpdu"))} <= _STREAM_HEADERS


def test_modules_are_imported_by_their_first_use():
    program = "import rdmawire, sys\nprint('rdmawire.fuzz' in sys.modules, rdmawire.fuzz.Session.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False Session\n"
    names = dir(rdmawire)
    assert {"fuzz", "BTH", "open_capture", "__version__"} <= set(names) and len(names) == len(set(names))
    assert not {"load_core", "needs", "closing", "TYPE_CHECKING"} & set(names)
    with pytest.raises(AttributeError, match="has no attribute 'fuz'"):
        rdmawire.fuz  # noqa: B018


def test_names_of_reports_occur_once():
    report = rdmawire.analyze(RPING, progress=False)
    for names in (dir(report), dir(report.summary)):
        assert len(names) == len(set(names))
    assert "summary" in dir(report) and "packets" in dir(report.summary)


def test_length_of_a_capture_is_counted_once(tmp_path):
    path = tmp_path / "x.pcap"
    frame = Ether() / IPv4() / UDP() / BTH()
    with rdmawire.create_capture(path) as out:
        out.write([frame] * 3)
    capture = rdmawire.open_capture(path)
    calls = []

    class Counting:
        """The C++ part, with a counter of complete reads."""

        def __init__(self, core):
            self._core = core

        def facts(self):
            calls.append(1)
            return self._core.facts()

        def __getattr__(self, name):
            return getattr(self._core, name)

    capture._core = Counting(capture._core)
    assert (len(capture), len(capture), len(capture)) == (3, 3, 3) and len(calls) == 1
    with rdmawire.create_capture(tmp_path / "y.pcap") as out:
        out.write([frame] * 5)
    (tmp_path / "y.pcap").replace(path)
    assert (len(capture), len(capture)) == (5, 5) and len(calls) == 2


def test_packets_have_a_summary_and_html():
    packet = next(rdmawire.open_capture(RPING).packets())
    assert packet.summary() == str(packet)
    assert packet._repr_html_().startswith("<pre") and "eth" in packet._repr_html_()


def test_libpcap_error_names_filters_of_fields():
    with pytest.raises(rdmawire.CaptureError, match=r"Wire\.sniff\(filter=…\) accepts fields|permi"):
        rdmawire.open_live("lo", filter="bth")


def test_errors_name_the_public_function():
    with pytest.raises(rdmawire.UsageError, match=r"^analyze\(\): connection=-1 is too small"):
        rdmawire.analyze(RPING, connection=-1, progress=False)
