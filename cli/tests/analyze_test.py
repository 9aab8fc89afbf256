"""rdmawire analyze: reports as text, JSON and CSV, options, exit statuses, invalid input."""

import csv
import gzip
import json
import os
import signal
import struct
import subprocess
import time
from collections import Counter
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "captures" / "samples"
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason=f"needs the command: {COMMAND} is not built")

LOSS = SAMPLES / "rc-pingpong-loss.pcap.gz"
SEND = SAMPLES / "rc-send.pcap.gz"
ALL = sorted(path for path in SAMPLES.iterdir() if ".pcap" in path.name)
SCHEMA = json.loads((ROOT / "docs" / "reference" / "schemas" / "analyze.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def run(*arguments, status=0, **options):
    options.setdefault("capture_output", True)
    done = subprocess.run([COMMAND, "analyze", *map(str, arguments)], timeout=60, **options)
    assert done.returncode == status, done.stderr
    return done


def report(*arguments, **options):
    return json.loads(run(*arguments, "--json", **options).stdout)


def text(*arguments, **options):
    return run(*arguments, **options).stdout.decode()


def plain(path):
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def records(data):
    """The records of a little-endian pcap file, each with its header."""
    at = 24
    while at < len(data):
        captured = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at : at + 16 + captured]
        at += 16 + captured


# JSON


def test_schema_is_valid_and_describes_every_key():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def look(node, path):
        for key, value in node.get("properties", {}).items():
            target = value
            if "$ref" in value:
                target = SCHEMA["$defs"][value["$ref"].rsplit("/", 1)[1]]
            assert value.get("description") or target.get("description") or path.endswith("sent"), f"{path}.{key}"
            look(value, f"{path}.{key}")
        for part in ("items", "additionalProperties"):
            if isinstance(node.get(part), dict):
                look(node[part], path)

    look(SCHEMA, "")


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_json_of_samples_matches_schema(capture):
    VALIDATOR.validate(report(capture))


def test_json_of_all_samples_with_counters_matches_schema(tmp_path):
    counters = tmp_path / "after.txt"
    counters.write_text("out_of_sequence 14\nsome_other 3\n")
    whole = report(*ALL, "--counters", counters, "--from", "0")
    VALIDATOR.validate(whole)
    assert [row["name"] for row in whole["counters"]] == ["out_of_sequence", "some_other"]
    assert whole["input"]["from"] == "0"
    assert len(whole["input"]["files"]) == len(ALL)


def test_frame_numbers_continue_across_files():
    whole = report(LOSS, SEND)
    frame = 1
    for file in whole["input"]["files"]:
        assert file["first_frame"] == frame
        frame += file["packets"]
    assert whole["summary"]["packets"] == frame - 1


@pytest.mark.parametrize("capture", [LOSS, SEND], ids=lambda path: path.name)
def test_split_capture_gives_same_report(capture, tmp_path):
    data = plain(capture)
    packets = list(records(data))
    files = []
    # The files are read in the order of their first packets.
    for number, part in enumerate((packets[:1], packets[1:300], packets[300:301], packets[301:])):
        file = tmp_path / f"{9 - number}.pcap"
        file.write_bytes(data[:24] + b"".join(part))
        files.append(file)
    pieces, whole = report(*reversed(files)), report(capture)
    assert [Path(file["name"]).name for file in pieces["input"]["files"]] == ["9.pcap", "8.pcap", "7.pcap", "6.pcap"]
    del pieces["input"], whole["input"]
    assert json.dumps(pieces) == json.dumps(whole)


def test_overlapping_files_are_a_finding(tmp_path):
    copy = tmp_path / "copy.pcap"
    copy.write_bytes(plain(LOSS))
    assert report(LOSS, copy)["findings"][0]["kind"] == "files_overlap"
    assert "1 file was recorded at the same time as another file" in text(LOSS, copy)


@pytest.mark.parametrize("threads", [2, 3])
def test_report_is_independent_of_threads(threads):
    assert run(*ALL, "--json", "--threads", threads).stdout == run(*ALL, "--json", "--threads", 1).stdout


def test_standard_input_gives_same_report():
    piped = report("-", input=plain(LOSS))
    filed = report(LOSS)
    del piped["input"], filed["input"]
    assert piped == filed


# text


def test_text_starts_with_summary_of_ten_lines():
    summary, _, rest = text(LOSS).partition("\n\n")
    lines = summary.splitlines()
    assert len(lines) <= 11
    assert lines[0].endswith("rc-pingpong-loss.pcap.gz")
    assert [line[2:17].strip() for line in lines[1:]] == [
        "traffic", "start", "connections", "messages", "retransmitted", "NAKs", "congestion", "CRCs", "findings",
    ]  # fmt: skip
    assert rest.startswith("Findings, worst first")


def test_finding_shows_connection_evidence_and_next_steps():
    page = text(LOSS)
    assert "QP 0x11 → 0x11  10.0.0.3 → 10.0.0.2" in page
    for label in ("  means", "  evidence", "  next"):
        assert label in page
    assert "out_of_sequence" in page
    for table in ("Connections", "Operations", "Latency", "Retransmissions", "NAKs", "Talkers", "Endpoints"):
        assert f"\n{table}" in page


def test_clean_capture_reports_no_problems():
    page = text(SAMPLES / "rping.pcap")
    assert "no problems" in page
    assert "No problems found\n  Checked" in page


def test_capture_without_rdma_is_reported():
    page = text(LOSS, "--filter", "not bth")
    assert "no RDMA traffic" in page
    assert "roblems" not in page


def test_empty_selection_is_reported(tmp_path):
    capture = tmp_path / "empty.pcap"
    capture.write_bytes(plain(LOSS)[:24])
    for page, reason in [
        (text(capture), "The capture contains no packets."),
        (text(LOSS, "--from", "9999"), "The capture contains 1042 packets. All are excluded by --from 9999."),
    ]:
        assert reason in page
        assert "no RDMA" not in page and "roblems" not in page


def snapped(path, content, out):
    """Writes the capture with packets truncated to `content` bytes."""
    data = plain(path)
    parts = [data[:24]]
    for record in records(data):
        body = record[16 : 16 + content]
        parts.append(record[:8] + struct.pack("<I", len(body)) + record[12:16] + body)
    out.write_bytes(b"".join(parts))
    return out


def test_truncated_packets_are_counted(tmp_path):
    page = text(snapped(SAMPLES / "siw-read.pcap.gz", 80, tmp_path / "cut.pcap"))
    assert "no RDMA traffic" in page
    assert "truncated packets (snap length)" in page
    assert report(SEND)["summary"]["truncated_packets"] == 0


@pytest.mark.parametrize("content", [70, 80, 128])
def test_truncation_changes_no_counts(content, tmp_path):
    for sample in ["rc-send.pcap.gz", "rc-read.pcap.gz", "rc-pingpong-loss.pcap.gz", "rping.pcap", "srq-pingpong.pcap.gz"]:
        whole, cut = report(SAMPLES / sample), report(snapped(SAMPLES / sample, content, tmp_path / "cut.pcap"))
        assert cut["operations"] == whole["operations"]
        assert cut["latency"] == whole["latency"]
        assert cut["regions"] == whole["regions"]
        assert [f["title"] for f in cut["findings"]] == [f["title"] for f in whole["findings"]]


def test_truncated_headers_cause_no_findings(tmp_path):
    for sample in ["rc-send.pcap.gz", "rc-read.pcap.gz", "rc-atomic.pcap", "rping.pcap", "rc-write-ipv6.pcap"]:
        cut = snapped(SAMPLES / sample, 64, tmp_path / "cut.pcap")
        assert report(cut)["findings"] == [], sample
        assert "truncated (snap length)" in text(cut)


def test_limited_tables_show_number_of_omitted_rows():
    page = text(*ALL, "--rows", 3)
    assert "  and " in page and " more\n" in page


def test_color_option_enables_colors():
    assert "\033[" not in text(LOSS)
    assert "\033[" in text(LOSS, "--color", "always")


# CSV


def tables(directory):
    return {path.stem: list(csv.DictReader(path.open(newline=""))) for path in sorted(directory.iterdir())}


def test_csv_rows_match_json_counts(tmp_path):
    whole = report(LOSS, "--csv", tmp_path / "tables", "--csv-packets")
    rows = tables(tmp_path / "tables")
    assert set(rows) == {"connections", "flows", "messages", "events", "mrc_connections", "mrc_paths", "packets"}
    assert len(rows["connections"]) == whole["summary"]["connections"]
    assert len(rows["flows"]) == 2 * len(rows["connections"])
    assert len(rows["messages"]) == whole["summary"]["messages"]
    assert Counter(row["kind"] for row in rows["events"]) == whole["summary"]["events"]
    flow = whole["flows"][0]
    assert {key: value for key, value in rows["flows"][0].items()} == {
        key: "" if value is None else str(value) for key, value in flow.items()
    }
    assert list(flow)[2:] == [
        "ip_src", "ip_dst", "ip_dscp", "src_qp", "dest_qp", "frames_tx", "frames_rx", "frames_retransmitted",
        "frame_sequence_error", "nak_tx", "nak_rx", "ecn_ce_rx", "cnp_tx", "cnp_rx", "message_complete_rx",
        "message_fail", "flow_completion_time", "latency_max",
    ]  # fmt: skip
    assert len(rows["packets"]) == whole["summary"]["wires"]["roce_v2"]
    assert sorted(int(row["frame"]) for row in rows["packets"])[0] == whole["connections"][0]["first_frame"]
    assert sum(row["retransmitted"] == "1" for row in rows["packets"]) > 0


def test_csv_of_empty_capture_has_headers(tmp_path):
    capture = tmp_path / "empty.pcap"
    capture.write_bytes(plain(LOSS)[:24])
    run(capture, "--csv", tmp_path / "tables")
    assert (tmp_path / "tables" / "messages.csv").read_text().startswith("connection,message,end,operation,")


# selection


def test_from_and_to_limit_the_packets():
    whole = report(LOSS)
    assert report(LOSS, "--from", "frame:100", "--to", "frame:199")["summary"]["packets"] == 100
    late = report(LOSS, "--from", "1.0")
    assert 0 < late["summary"]["packets"] < whole["summary"]["packets"]
    assert float(late["summary"]["first_time"]) >= float(whole["summary"]["first_time"]) + 1
    same = report(LOSS, "--from", str(float(whole["summary"]["first_time"]) + 1))
    assert abs(same["summary"]["packets"] - late["summary"]["packets"]) <= 1


def test_filter_and_connection_limit_the_report():
    assert report(LOSS, "--filter", "ip.src == 10.0.0.2 and bth")["summary"]["wires"] == {"roce_v2": 509}
    whole = report(SAMPLES / "srq-pingpong.pcap.gz")
    first = whole["connections"][0]["connection"]
    selected = report(SAMPLES / "srq-pingpong.pcap.gz", "--connection", first)
    assert selected["connections"] == [whole["connections"][0]]
    assert "no connection 99999" in run(LOSS, "--connection", 99999, status=3).stderr.decode()


# exit statuses


@pytest.mark.parametrize(
    "word, status", [("warning", 1), ("info", 1), ("error", 0), ("retransmission", 1), ("nak", 1), ("rejected", 0)]
)
def test_fail_on_sets_exit_status(word, status):
    run(LOSS, "--fail-on", word, status=status)
    run(SAMPLES / "rping.pcap", "--fail-on", word, status=0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--fail-on", "nonsense"], "rdmawire explain events"),
        (["--from", "yesterday"], "expected seconds since the first packet"),
        (["--filter", "bth.pns == 1"], "bth.psn"),
        (["--csv-packets"], "--csv"),
        (["--threads", "0"], "--threads"),
        (["--rows", "0"], "greater than 0, got \"0\""),
        (["--connection", "x"], "greater than 0, got \"x\""),
        (["--every", "1"], "--every requires --follow"),
        (["--capture-filter", "udp"], "--capture-filter requires --interface"),
    ],
)
def test_invalid_usage_exits_with_status_2(arguments, message):
    assert message in run(LOSS, *arguments, status=2).stderr.decode()


def test_truncated_file_is_reported_up_to_its_end(tmp_path):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(plain(LOSS)[:100_000])
    done = run(cut, "--json", status=3)
    assert b"cut.pcap" in done.stderr
    whole = json.loads(done.stdout)
    VALIDATOR.validate(whole)
    assert whole["summary"]["packets"] > 50
    assert "cut.pcap" in whole["input"]["files"][0]["error"]
    assert b"missing.pcap" in run(tmp_path / "missing.pcap", status=3).stderr


def test_follow_ends_with_full_report(tmp_path):
    data = plain(LOSS)
    growing = tmp_path / "growing.pcap"
    growing.write_bytes(data[:50_001])  # in the middle of a packet
    following = subprocess.Popen(
        [COMMAND, "analyze", growing, "--follow", "--every", "0.2", "--color", "never"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    time.sleep(1)
    with growing.open("ab") as file:
        file.write(data[50_001:])
    time.sleep(1.5)
    for _ in range(2):  # as timeout(1) does
        following.send_signal(signal.SIGINT)
    out, errors = following.communicate(timeout=120)
    assert following.returncode == 0, errors
    assert out.decode().endswith(text(growing))
    assert out.decode().count("growing.pcap\n") >= 3


def test_explain_lists_events():
    listed = subprocess.run([COMMAND, "explain", "events", "--json"], capture_output=True, timeout=60, check=True)
    kinds = [json.loads(line)["id"] for line in listed.stdout.splitlines()]
    assert "retransmission" in kinds and "terminate" in kinds
    one = subprocess.run([COMMAND, "explain", "lost", "in", "network"], capture_output=True, timeout=60, check=True)
    assert one.stdout.startswith(b"lost_in_network")


def test_counters_are_compared_with_capture(tmp_path):
    before, after, wrong = tmp_path / "before", tmp_path / "after", tmp_path / "wrong"
    before.write_text("link rxe0/1 rcvd_seq_err 10 sent_pkts 4\n")
    after.write_text("link rxe0/1 rcvd_seq_err 24 sent_pkts 518\n")
    wrong.write_text("nothing to see\n")
    rows = report(LOSS, "--counters", before, "--counters", after)["counters"]
    assert rows[0]["difference"] == rows[0]["in_capture"] == 14
    assert rows[0]["note"].endswith("they agree")
    assert "they agree" in text("--counters", before, "--counters", after, LOSS)
    # A retransmission after a loss is not a duplicate for the responder.
    after.write_text("link mlx5_0/1 duplicate_request 8\n")
    assert report(LOSS, "--counters", after)["counters"][0]["note"].endswith("they agree")
    assert "expected the output of" in run(LOSS, "--counters", wrong, status=3).stderr.decode()


def test_path_records_of_native_subnet_are_reported():
    """The Wireshark wiki's infiniband.pcap contains one path record query in frames 32 and 33, as
    `tshark -Y 'infiniband.mad.attributeid == 0x35'` shows."""
    shared = os.environ.get("RDMAWIRE_SHARED")
    files = sorted(Path(shared or "/nowhere").glob("captures/public/*__infiniband.pcap"))
    if not files:
        pytest.skip("needs the shared captures: RDMAWIRE_SHARED")
    paths = report(files[0])["management"]["paths"]
    found = [(p["request_frame"], p["frame"], p["from_lid"], p["to_lid"], p["mtu"]) for p in paths]
    assert found == [(32, 33, 4, 2, 2048)]
