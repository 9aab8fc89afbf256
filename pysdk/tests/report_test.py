"""Reports: analyze() and check() equal the command output of every sample, and tables equal the CSV files."""

import contextlib
import csv
import gc
import json
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import rdmawire
from rdmawire import _core
from sample_captures import TRUNCATED_TO, LOSS, RPING, SAMPLES, SIW, command_output, sample_id

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("Agg")


@pytest.mark.parametrize("path", SAMPLES, ids=sample_id)
def test_analyze_equals_the_command_output(path):
    report = rdmawire.analyze(path)
    assert report.to_dict() == json.loads(command_output("analyze", "--json", path))
    assert report.text(width=120) == command_output("analyze", "--color", "never", path)
    assert report.read_errors == []


def test_mrc_connections_and_paths():
    path = next(path for path in SAMPLES if path.name == "mrc.pcap")
    report = rdmawire.Report.from_json(command_output("analyze", "--json", path))
    (connection,) = report.mrc_connections
    assert (connection["from"], connection.from_qp, connection.to_qp) == ("2001:db8::1", 0x11, 0x22)
    assert sum(row.packets for row in report.mrc_paths) == connection.packets
    assert {row.state for row in report.mrc_paths} <= {"good", "congested", "failed"}
    assert rdmawire.analyze(path, disable_protocol="mrc").mrc_connections == []
    rules = rdmawire.check(path, disable_protocol=["mrc"]).rules
    assert not any(rule.passed for rule in rules if rule.rule.startswith("mrc."))
    with rdmawire.open_capture(path) as capture:
        assert all(rdmawire.MRCBTH in packet.frame for packet in capture.packets())
        assert len(list(capture.packets(filter="bth"))) == 0
        assert len(list(capture.packets(filter="bth", disable_protocol="mrc"))) == 223
    with pytest.raises(rdmawire.UsageError, match="unknown protocol mcr: expected mrc"):
        rdmawire.analyze(path, disable_protocol="mcr")


@pytest.mark.parametrize("path", SAMPLES, ids=sample_id)
def test_check_equals_the_command_output(path):
    report = rdmawire.check(path)
    assert report.to_dict() == json.loads(command_output("check", "--json", path))
    assert report.text(width=120) == command_output("check", "--color", "never", path)
    assert report.passed == (not any(rule.violated for rule in report.rules if rule.level == "shall"))


def test_multiple_files_are_merged():
    files = [path for path in SAMPLES if "read" in path.name]
    assert rdmawire.analyze(files, threads=2).to_dict() == json.loads(command_output("analyze", "--json", *files))
    assert rdmawire.check(files).to_dict() == json.loads(command_output("check", "--json", *files))


@pytest.mark.parametrize(
    "options, arguments",
    [
        ({"begin": "0.01", "end": "frame:100"}, ["--from", "0.01", "--to", "frame:100"]),
        ({"filter": "bth.dest_qp > 20"}, ["--filter", "bth.dest_qp > 20"]),
        ({"ignore": ["cm", "text"]}, ["--ignore", "cm,text"]),
        ({"verify_crcs": False}, ["--no-crc"]),
        ({"roce_port": 5000, "threads": 1}, ["--roce-port", "5000", "--threads", "1"]),
    ],
)
def test_analyze_options_equal_the_command_options(options, arguments):
    assert rdmawire.analyze(RPING, **options).to_dict() == json.loads(command_output("analyze", "--json", RPING, *arguments))


def test_report_of_one_connection():
    first = rdmawire.analyze(RPING)["connections"][0].connection
    for name, function in (("analyze", rdmawire.analyze), ("check", rdmawire.check)):
        arguments = ["--json", RPING, "--connection", first]
        assert function(RPING, connection=first).to_dict() == json.loads(command_output(name, *arguments))


def test_counter_files(tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text("packet_seq_err 1\n")
    after.write_text("packet_seq_err 5\n")
    report = rdmawire.analyze(LOSS, counters=[before, after])
    assert report.to_dict() == json.loads(command_output("analyze", "--json", LOSS, "--counters", before, "--counters", after))
    with pytest.raises(rdmawire.CaptureError, match="counters: cannot read .*nowhere"):
        rdmawire.analyze(LOSS, counters=tmp_path / "nowhere")


def test_check_options_equal_the_command_options():
    options = {"rules": ["rc.*", "!RSP-009"], "level": "should", "at": "10.0.0.2", "complete": True}
    arguments = ["--rule", "rc.*", "--rule", "!RSP-009", "--level", "should", "--at", "10.0.0.2", "--complete"]
    assert rdmawire.check(LOSS, **options).to_dict() == json.loads(command_output("check", "--json", LOSS, *arguments))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: rdmawire.analyze([]), "at least one file"),
        (lambda: rdmawire.analyze(RPING, begin="yesterday"), "begin: invalid boundary yesterday"),
        (lambda: rdmawire.analyze(RPING, ignore=["dice"]), "ignore: unknown source dice"),
        (lambda: rdmawire.analyze(RPING, filter="bth.pns == 1"), "bth.psn"),
        (lambda: rdmawire.analyze(RPING, filter="icrc.status == bad", verify_crcs=False), "requires verify_crcs=True"),
        (lambda: rdmawire.check(RPING, rules="RSP-999"), "no rule matches"),
        (lambda: rdmawire.check(RPING, level="ought"), "level=.ought.: expected"),
        (lambda: rdmawire.check(RPING, at="here"), "at: expected an IPv4 or IPv6 address, got here"),
        (lambda: rdmawire.explain("unknown name"), "unknown name"),
        (lambda: rdmawire.analyze(RPING)._table("nonsense"), "unknown table nonsense"),
        (lambda: rdmawire.Report.from_json(rdmawire.analyze(RPING).to_json()).messages, "requires the packets"),
    ],
)
def test_invalid_argument_is_reported(call, message):
    with pytest.raises(rdmawire.UsageError, match=message):
        call()


def test_unreadable_files_are_reported(tmp_path):
    truncated = tmp_path / "truncated.pcap"
    truncated.write_bytes(RPING.read_bytes()[:TRUNCATED_TO])
    for function in (rdmawire.analyze, rdmawire.check):
        report = function([truncated, tmp_path / "none.pcap"])
        assert len(report.read_errors) == 2 and report.summary.packets > 0
        with pytest.raises(rdmawire.CaptureError, match="none.pcap"):
            function(tmp_path / "none.pcap")
    with pytest.raises(rdmawire.CaptureError, match="stopped after"):
        list(rdmawire.analyze(truncated).messages)


def test_explain_equals_the_command_output():
    for query in ("bth", "bth.psn", "RC RDMA WRITE Only", "syndrome 0x60", "RSP-009", "rules rc.responder.*", "events"):
        assert rdmawire.explain(query) == command_output("explain", "--color", "never", query)


def test_rows_are_mappings_with_attributes():
    report = rdmawire.analyze(LOSS)
    finding = report.findings[0]
    assert finding.title == finding["title"] and dict(finding)["title"] == finding.title
    assert "title" in dir(finding) and "findings" in dir(report)
    assert report.latency[0].count > 0
    assert report["connections"][0].a.address == report.to_dict()["connections"][0]["a"]["address"]
    with pytest.raises(AttributeError, match="unknown key nonsense; expected"):
        _ = finding.nonsense
    with pytest.raises(AttributeError, match="unknown key nonsense; expected"):
        _ = report.nonsense
    assert pickle.loads(pickle.dumps(finding)) == finding


def test_reports_can_be_pickled_and_loaded_from_json():
    for report in (rdmawire.analyze(LOSS), rdmawire.check(LOSS)):
        loaded = pickle.loads(pickle.dumps(report))
        assert loaded.to_dict() == report.to_dict() and str(loaded) == str(report)
    text = rdmawire.analyze(LOSS).to_json()
    assert rdmawire.Report.from_json(text).to_dict() == json.loads(text)


def test_notebook_html_escapes_file_names(tmp_path):
    report = rdmawire.analyze(LOSS)
    shown = report._repr_html_()
    assert all(finding.kind and finding.title.split("<")[0][:10] in shown for finding in report.findings)
    evil = tmp_path / "<script>x.pcap"
    evil.write_bytes(RPING.read_bytes())
    for made in (rdmawire.analyze(evil), rdmawire.check(evil)):
        assert "<script>x" not in made._repr_html_() and "&lt;script&gt;" in made._repr_html_()


def test_html_page_equals_the_command_output(tmp_path):
    assert rdmawire.analyze(LOSS).to_html(tmp_path / "x.html") == tmp_path / "x.html"
    page = rdmawire.analyze(LOSS).to_html()
    assert (tmp_path / "x.html").read_text() == page
    command_output("analyze", LOSS, "--html", tmp_path / "y.html")
    assert page == (tmp_path / "y.html").read_text()
    from_json = rdmawire.Report.from_json(rdmawire.analyze(LOSS).to_json()).to_html()
    assert "<html" in from_json and len(from_json) < len(page)
    checked = rdmawire.check(LOSS)
    assert checked.to_html(tmp_path / "z.html") == tmp_path / "z.html"
    assert checked.to_html() == (tmp_path / "z.html").read_text()
    assert ("<table" in checked.to_html()) == bool(checked.violations)


def test_malformed_files_never_crash(tmp_path):
    rng = random.Random(11)
    file = tmp_path / "x.pcap"
    for path in [path for path in SAMPLES if path.suffix in (".pcap", ".pcapng")]:
        for _ in range(3):
            data = bytearray(path.read_bytes()[:60_000])
            for _ in range(rng.randrange(300)):
                data[rng.randrange(24, len(data))] = rng.randrange(256)
            file.write_bytes(data[: rng.randrange(len(data) // 2, len(data))])
            report, checked = rdmawire.analyze(file), rdmawire.check(file)
            assert str(report) and str(checked) and report._repr_html_() and checked.to_html() and report.to_html()
            for table in (report.messages, report.events, report.connections, report.packets):
                with contextlib.suppress(rdmawire.CaptureError):
                    list(table)
                assert table.columns(partial=True).keys() == set(table.column_names)


# Tables


def as_csv(name, value, column):
    """Return a table value as the CSV file contains it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if column.type == "datetime64[ns]":
        return f"{'-' if value < 0 else ''}{abs(value) // 10**9}.{abs(value) % 10**9:09}"
    if name in ("remote_address", "key", "immediate", "invalidated_key"):
        return hex(value)
    return str(value)


@pytest.mark.parametrize("kind", ["messages", "events", "connections", "packets"])
@pytest.mark.parametrize("path", SAMPLES, ids=sample_id)
def test_tables_equal_the_csv_files(tmp_path, path, kind):
    command_output("analyze", path, "--threads", "1", "--csv", tmp_path, "--csv-packets")
    with (tmp_path / f"{kind}.csv").open(newline="") as file:
        wanted = list(csv.DictReader(file))
    table = getattr(rdmawire.analyze(path), kind)
    columns = {column.name: column for column in table.schema}
    rows = [{name: as_csv(name, value, columns[name]) for name, value in row.items()} for row in table]
    assert rows == wanted
    taken = pyarrow.table(table)
    taken.validate(full=True)
    assert taken.num_rows == len(rows)


WORDS = {
    "messages": ["end", "operation", "outcome", "nak"],
    "events": ["kind", "cause", "severity", "confidence", "not_observed", "end"],
    "connections": ["service", "wire", "paired_by", "confidence", "upper"],
    "packets": ["end", "operation", "requester"],
}


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("path", SAMPLES, ids=sample_id)
def test_enumerated_columns_are_categories(path, kind):
    table = getattr(rdmawire.analyze(path), kind)
    taken = pyarrow.table(table)
    arrays = table.columns()
    assert [column.name for column in table.schema if column.words] == WORDS[kind]
    for column in table.schema:
        if not column.words:
            assert not pyarrow.types.is_dictionary(taken.schema.field(column.name).type)
            continue
        values = taken[column.name]
        assert values.to_pylist() == np.ma.getdata(arrays[column.name]).tolist()
        kind_of_values = values.to_pandas().dtype
        assert isinstance(kind_of_values, pandas.CategoricalDtype)
        assert len(values) == 0 or list(kind_of_values.categories) == list(column.words)


def test_column_categories_equal_the_enumerations():
    report = rdmawire.analyze(LOSS)
    words = {column.name: column.words for kind in WORDS for column in getattr(report, kind).schema}
    assert words["severity"] == ("note", "info", "warning", "error")
    assert words["service"] == ("RC", "UC", "UD", "XRC", "RD", "iWARP", "vendor")
    assert words["wire"] == ("other", "infiniband", "roce_v1", "roce_v2", "iwarp")
    assert words["end"] == words["requester"] == ("a", "b")
    assert words["operation"][0] == "RC SEND First" and "XRC SEND First" in words["operation"]
    assert words["nak"] == ("psn_sequence_error", "invalid_request", "remote_access_error", "remote_operational_error",
                            "invalid_rd_request")  # fmt: skip


def test_tables_are_independent_of_the_batch_size(tmp_path):
    report = rdmawire.analyze(LOSS)
    table = rdmawire.Table(report.messages._core, batch_rows=3)
    reader = pyarrow.RecordBatchReader.from_stream(table)
    batches = list(reader)
    assert len(batches) > 2 and all(batch.num_rows <= 3 for batch in batches)
    complete = pyarrow.table(report.messages).combine_chunks()
    assert pyarrow.Table.from_batches(batches).combine_chunks().equals(complete)
    assert report.messages.to_parquet(tmp_path / "x.parquet") == complete.num_rows


def test_partially_read_table_ends_its_thread():
    before = len(os.listdir("/proc/self/task"))
    for _ in range(20):
        rows = iter(rdmawire.Table(rdmawire.analyze(LOSS).packets._core, batch_rows=1))
        next(rows)
        reader = pyarrow.RecordBatchReader.from_stream(rdmawire.Table(rdmawire.analyze(LOSS).packets._core, 5))
        reader.read_next_batch()
        del rows, reader
    assert _core.arrow_unreleased() == 0
    assert len(os.listdir("/proc/self/task")) <= before + 4


def test_table_iterator_raises_in_forked_child():
    reader = pyarrow.RecordBatchReader.from_stream(rdmawire.Table(rdmawire.analyze(LOSS).packets._core, 5))
    reader.read_next_batch()
    rest_here = sum(batch.num_rows for batch in [reader.read_next_batch()])
    child = os.fork()
    if child == 0:
        try:
            rows = list(rdmawire.analyze(LOSS, threads=1).messages)
            try:
                reader.read_next_batch()
            except Exception as error:  # noqa: BLE001
                del reader
                os._exit(0 if rows and "parent process" in str(error) else 1)
        finally:
            os._exit(2)
    deadline = time.monotonic() + 20
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if done[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done[0] == child and os.waitstatus_to_exitcode(done[1]) == 0
    assert rest_here == 5 and reader.read_all().num_rows > 0


def test_reports_and_tables_do_not_leak():
    def memory():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    def use_reports(count):
        for _ in range(count):
            report = rdmawire.analyze(LOSS, threads=1, progress=lambda *_: None)
            report.text(), list(report.messages), pyarrow.table(report.events)
            next(iter(report.packets))
            pyarrow.RecordBatchReader.from_stream(report.packets).read_next_batch()
            rdmawire.check(LOSS, threads=1).text()
            with pytest.raises(rdmawire.CaptureError):
                list(rdmawire.open_capture(RPING.read_bytes()[:TRUNCATED_TO]))
            [packet.pdus for packet in rdmawire.open_capture(SIW).packets()]

    use_reports(10)
    before = memory()
    use_reports(30)
    assert memory() - before < 5_000_000
    assert _core.arrow_unreleased() == 0


# Progress, threads, Ctrl-C


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    file = tmp_path_factory.mktemp("large") / "large.pcap"
    data = RPING.read_bytes()
    with file.open("wb") as out:
        out.write(data[:24])
        for _ in range(400):
            out.write(data[24:])
    return file


@pytest.mark.parametrize("function", [rdmawire.analyze, rdmawire.check], ids=["analyze", "check"])
def test_progress_callback_is_called_and_can_abort(large, function):
    steps = []
    report = function(large, progress=lambda *step: steps.append(step))
    assert steps and all(0 < done <= size == large.stat().st_size for _, done, size, _ in steps)
    assert steps[-1][0] <= report.summary.packets and steps[0][3] == str(large)

    def abort(*_step):
        raise KeyError("abort")

    with pytest.raises(KeyError, match="abort"):
        function(large, progress=abort)
    with pytest.raises(TypeError):
        function(large, progress=lambda: None)


def test_other_threads_run_during_analyze(large):
    ticks = []
    ended = threading.Event()

    def tick():
        while not ended.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    started = time.monotonic()
    rdmawire.analyze(large, threads=1)
    took = time.monotonic() - started
    ended.set()
    ticker.join()
    assert len(ticks) > min(20, took * 50)


@pytest.mark.parametrize("statement", ["rdmawire.analyze(file)", "rdmawire.check(file)",
                                  "list(rdmawire.analyze(file, end='frame:10')._run.table('packets').rows())",
                                  "rdmawire.Table(run.table('events')).columns()"])
def test_ctrl_c_interrupts_analysis(large, statement):
    code = (
        f"import numpy, rdmawire\nfile = {str(large)!r}\n"
        "from rdmawire import _core\n"
        "run = _core.AnalysisRun([file] * 20, '', '', '', 0, 1, [], [], 0, True, '1G')\n"
        f"print(1, flush=True)\nwhile True: {statement}"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={"PYTHONPATH": str(Path(rdmawire.__path__[0]).parent)})
    child.stdout.readline()
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    try:
        _, errors = child.communicate(timeout=120)
    finally:
        child.kill()
    assert b"KeyboardInterrupt" in errors, errors.decode()


# Plots


def test_plots_show_the_values_of_the_report(tmp_path):
    report = rdmawire.analyze(LOSS)
    axes = report.plot.throughput()
    series = report["series"]
    assert axes.get_lines()[0].get_ydata()[0] == pytest.approx(8 * series.payload_bytes[0] / series.step_ns)
    axes = report.plot.psn()
    first = report["connections"][0].connection
    points = sum(len(line.get_xdata()) for line in axes.get_lines())
    assert points == sum(row["connection"] == first for row in report.packets)
    axes = report.plot.percentiles()
    heights = [patch.get_height() for patch in axes.patches]
    assert sorted(heights) == sorted(
        row[key] / 1e3 for row in report.latency for key in ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
    )
    axes = report.plot.latency()
    assert all(line.get_ydata()[-1] == pytest.approx(100) for line in axes.get_lines())
    axes.figure.savefig(tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 5000
    mine = pyplot.subplots()[1]
    assert report.plot.throughput(ax=mine) is mine
    with pytest.raises(rdmawire.UsageError, match="unknown connection 99999"):
        report.plot.psn(99999)
    pyplot.close("all")


def test_psn_plot_of_iwarp():
    assert rdmawire.analyze(SIW).plot.psn().get_lines()
    pyplot.close("all")


def test_message_times_are_exact():
    report = rdmawire.analyze(LOSS)
    first = min(row["start"] for row in report.messages if row["start"])
    assert Decimal(first) / 10**9 >= Decimal(report.summary.first_time)


@pytest.mark.parametrize("function", [rdmawire.analyze, rdmawire.check])
def test_captures_of_wrong_type_are_rejected(function):
    with pytest.raises(TypeError, match="expected a capture or several ones, got int"):
        function(5)
