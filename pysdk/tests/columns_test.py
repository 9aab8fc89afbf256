"""Columns as NumPy arrays: every field of every sample equals the value of `dissect --json`."""

import subprocess
import sys
import threading
from decimal import Decimal

import numpy as np
import pytest
import rdmawire
from sample_captures import TRUNCATED_TO, RPING, SAMPLES, SIW, dissected, sample_id


def layers_of(unit):
    """Return the layers of a packet or PDU, lowest first, including the layers in their variable parts."""
    inner = []

    def parts(layer):
        for part in layer.get("parts", ()):
            inner.append(part)
            parts(part)

    for layer in unit["layers"]:
        parts(layer)
    return unit["layers"], inner


def expected_value(packet, protocol, field):
    units = [packet, *packet.get("pdus", ())]
    for which in (0, 1):
        for unit in units:
            for layer in layers_of(unit)[which]:
                if layer["protocol"] == protocol and field in layer["fields"]:
                    return layer["fields"][field]
    return None


def is_column(protocol, field):
    try:
        schema = rdmawire.open_capture(RPING).table([f"{protocol}.{field}"]).schema
    except rdmawire.UsageError:
        assert field in ("data", "options", "private_data"), (protocol, field)
        return False
    # tcp.options is a prefix of Wireshark's names.
    return field not in ("options", "private_data") or schema[0].type != "?"


@pytest.mark.parametrize("path", SAMPLES, ids=sample_id)
def test_every_field_equals_dissect_json(path):
    packets = dissected(path)
    names = set()
    for packet in packets:
        for unit in [packet, *packet.get("pdus", ())]:
            for layers in layers_of(unit):
                names |= {(layer["protocol"], field) for layer in layers for field in layer["fields"]}
    # Variable parts of headers are not columns. ip.version exists in IPv6 too.
    known = [name for name in sorted(names - {("ip", "version")}) if is_column(*name)]
    assert len(known) > 20
    columns = rdmawire.open_capture(path).columns([f"{protocol}.{field}" for protocol, field in known])
    differences = []
    for protocol, field in known:
        column = columns[f"{protocol}.{field}"]
        assert len(column) == len(packets)
        for packet, value in zip(packets, np.ma.getdata(column).tolist(), strict=True):
            wanted = expected_value(packet, protocol, field)
            missing = bool(np.ma.getmaskarray(column)[packet["frame"] - 1])
            if isinstance(value, bytes):
                value = ("0x" if str(wanted).startswith("0x") else "") + value.hex()
            if column.dtype.kind == "m":
                value = int(np.ma.getdata(column)[packet["frame"] - 1].astype("int64"))
            if wanted is None and not missing and value == 0:
                continue  # a reserved field with value 0
            if missing != (wanted is None) or (not missing and value != wanted):
                differences.append((protocol, field, packet["frame"], wanted, None if missing else value))
    assert not {d[:2]: d for d in differences}


@pytest.mark.parametrize("path", SAMPLES, ids=sample_id)
def test_packet_properties_equal_dissect_json(path):
    packets = dissected(path)
    columns = rdmawire.open_capture(path).columns(
        ["frame.number", "frame.time", "frame.len", "frame.cap_len", "payload.length", "icrc.status_name", "wire_name"]
    )
    assert columns["frame.number"].tolist() == [packet["frame"] for packet in packets]
    assert columns["frame.time"].astype("int64").tolist() == [
        int(Decimal(packet["time"]) * 10**9) for packet in packets
    ]
    assert columns["frame.len"].tolist() == [packet["length"] for packet in packets]
    assert columns["frame.cap_len"].tolist() == [packet["captured"] for packet in packets]
    assert columns["icrc.status_name"].tolist() == [packet.get("icrc", {}).get("status") for packet in packets]


def test_column_types_equal_the_header_tables():
    columns = rdmawire.open_capture(RPING).columns(
        ["bth.psn", "bth.opcode", "bth.se", "reth.va", "frame.time", "ip.src", "payload", "aeth", "bth.opcode_name"]
    )
    kinds = {name: (column.dtype.str, isinstance(column, np.ma.MaskedArray)) for name, column in columns.items()}
    assert kinds == {
        "bth.psn": ("<u4", True),
        "bth.opcode": ("|u1", True),
        "bth.se": ("|b1", True),
        "reth.va": ("<u8", True),
        "frame.time": ("<M8[ns]", False),
        "ip.src": ("|O", True),
        "payload": ("|O", True),
        "aeth": ("|b1", False),
        "bth.opcode_name": ("|O", True),
    }


def test_wireshark_field_names_select_the_same_columns():
    capture = rdmawire.open_capture(RPING)
    ours, theirs = capture.columns(["bth.psn"])["bth.psn"], capture.columns(["infiniband.bth.psn"])["infiniband.bth.psn"]
    assert ours.tolist() == theirs.tolist()


def test_filter_excludes_rows():
    columns = rdmawire.open_capture(RPING).columns(["frame.number", "aeth"], filter="aeth")
    wanted = [p["frame"] for p in dissected(RPING) if any(layer["protocol"] == "aeth" for layer in p["layers"])]
    assert columns["frame.number"].tolist() == wanted and columns["aeth"].all()


def test_columns_contain_pdus_of_tcp():
    columns = rdmawire.open_capture(SIW).columns(["fpdu.ulpdu_length", "rdmap.opcode_name"])
    assert set(columns["rdmap.opcode_name"].compressed()) >= {"Send", "RDMA Write"}
    assert columns["fpdu.ulpdu_length"].compressed().min() > 0


@pytest.mark.parametrize(
    "names, message",
    [
        (["bth.pns"], "unknown field bth.pns; did you mean: bth.psn"),
        (["bth.psn_name"], "the values of bth.psn have no names"),
        (["bth.psn", "bth.psn"], "requested twice"),
        ([], "at least one name"),
        ("bth.psn", r"got a str; use \['bth.psn'\]"),
    ],
)
def test_invalid_column_name_is_reported(names, message):
    with pytest.raises(rdmawire.UsageError, match=message):
        rdmawire.open_capture(RPING).columns(names)


def test_filter_syntax_error_shows_the_position():
    with pytest.raises(rdmawire.UsageError, match=r"(?s)bth.psn == x\n +\^"):
        rdmawire.open_capture(RPING).columns(["bth.psn"], filter="bth.psn == x")


def test_truncated_capture_raises_unless_partial():
    truncated = RPING.read_bytes()[:TRUNCATED_TO]
    capture = rdmawire.open_capture(truncated)
    with pytest.raises(rdmawire.CaptureError, match="memory: record .* at byte .*stopped after"):
        capture.columns(["bth.psn"])
    some = capture.columns(["frame.number"], partial=True)["frame.number"]
    complete = rdmawire.open_capture(RPING).columns(["frame.number"])["frame.number"]
    assert 0 < len(some) < len(complete) and some.tolist() == complete[: len(some)].tolist()


def test_arrays_remain_valid_after_close():
    with rdmawire.open_capture(RPING) as capture:
        psn = capture.columns(["bth.psn"])["bth.psn"]
    del capture
    assert psn.compressed().max() > 0


def test_threads_read_columns_of_one_capture():
    capture = rdmawire.open_capture(RPING)
    expected = capture.columns(["bth.psn"])["bth.psn"].tolist()
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(capture.columns(["bth.psn"])["bth.psn"].tolist()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 8


def test_columns_without_numpy_report_the_missing_package():
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "import rdmawire\n"
        f"capture = rdmawire.open_capture({str(RPING)!r})\n"
        "print(next(iter(capture.table(['frame.number'])))['frame.number'])\n"
        "try: capture.columns(['frame.number'])\n"
        "except rdmawire.UsageError as error: print(error)\n"
    )
    python_path = str(rdmawire.__path__[0]).rsplit("/", 1)[0]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": python_path})
    assert run.stdout == "1\narrays need the package numpy: pip install 'rdmawire[arrays]'\n", run.stderr
