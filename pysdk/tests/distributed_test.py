"""rdmawire.distributed on a local Dask cluster returns the report of a single host."""

import os
import signal
import time
from pathlib import Path

import pytest
import rdmawire

distributed = pytest.importorskip("distributed", reason="requires dask.distributed (requirements-dev.txt)")
pyarrow = pytest.importorskip("pyarrow", reason="requires pyarrow (requirements-dev.txt)")
import pyarrow.dataset  # noqa: E402
import rdmawire.distributed  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted(str(path) for path in (ROOT / "captures" / "samples").iterdir() if ".pcap" in path.name)


@pytest.fixture(scope="module")
def client():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=False,
        host="127.0.0.1",
    ) as cluster, distributed.Client(cluster) as client:
        yield client


def test_report_equals_the_local_report(client):
    local = rdmawire.analyze(SAMPLES).to_dict()
    assert len(SAMPLES) > 15 and local["summary"]["packets"] > 10_000
    assert rdmawire.distributed.analyze(SAMPLES, client).to_dict() == local


@pytest.mark.parametrize("options", [{"shards": 1}, {"shards": 13, "portion_bytes": 100_000}])
def test_report_is_independent_of_shares_and_portion_size(client, options):
    files = [name for name in SAMPLES if "loss" in name]
    assert rdmawire.distributed.analyze(files, client, **options).to_dict() == rdmawire.analyze(files).to_dict()


def test_frames_exchanged_through_a_shared_directory(client, tmp_path):
    files = SAMPLES[:6]
    report = rdmawire.distributed.analyze(files, client, scratch=tmp_path)
    assert report.to_dict() == rdmawire.analyze(files).to_dict()
    assert list(tmp_path.iterdir()) == []  # temporary files are removed


def test_time_range_applies_to_the_complete_capture(client):
    file = str(ROOT / "captures" / "samples" / "rping.pcap")
    report = rdmawire.distributed.analyze(file, client, begin="3.25", end="frame:200").to_dict()
    assert report == rdmawire.analyze(file, begin="3.25", end="frame:200").to_dict()
    assert report["summary"]["packets"] < 200


@pytest.mark.parametrize(
    "filter",
    [
        "bth",
        "not aeth",
        "rdmap or bth.opcode == 4",
        'upper == nvme or note contains "retransmission"',
        "frame.len < 200 and not icrc.status == bad",
    ],
)
def test_filtered_report_equals_the_local_report(client, filter):
    """Filters on the packet, and filters on the connection, with small portions."""
    local = rdmawire.analyze(SAMPLES, filter=filter).to_dict()
    report = rdmawire.distributed.analyze(SAMPLES, client, filter=filter, shards=5, portion_bytes=200_000)
    assert report.to_dict() == local
    assert 0 < local["summary"]["packets"] and local["input"]["filter"]


def largest_connection(files):
    rows = rdmawire.analyze(files).connections
    return max(rows, key=lambda row: row["sent_a_packets"] + row["sent_b_packets"])["connection"]


@pytest.mark.parametrize("name", ["rc-read-loss", "siw-write-loss", "rping"])
@pytest.mark.parametrize("filter", ["", "not bth.se"])
def test_report_of_one_connection_equals_the_local_report(client, name, filter):
    files = [path for path in SAMPLES if f"/{name}." in path]
    number = largest_connection(files)
    local = rdmawire.analyze(files, connection=number, filter=filter).to_dict()
    report = rdmawire.distributed.analyze(
        files, client, connection=number, filter=filter, shards=4, portion_bytes=100_000
    )
    assert report.to_dict() == local and local["summary"]["connections"] == 1


def test_pairing_counters_and_crc_options_equal_the_local_report(client, tmp_path):
    counters = tmp_path / "counters.txt"
    counters.write_text("local_ack_timeout_err 3\npacket_seq_err 1\n")
    files = [path for path in SAMPLES if "loss" in path]
    options = {"ignore": ["cm", "text"], "counters": counters, "verify_crcs": False, "roce_port": 1024}
    local = rdmawire.analyze(files, **options).to_dict()
    assert rdmawire.distributed.analyze(files, client, shards=3, **options).to_dict() == local
    assert local != rdmawire.analyze(files).to_dict()


ORDER = {
    "messages": ["first_frame", "connection", "message"],
    "events": ["frame", "connection"],
    "connections": ["connection", "last_frame"],
    "packets": ["frame", "connection"],
}


def local_table(report, kind):
    """Return the table of the local report, sorted like the distributed table."""
    table = pyarrow.table(getattr(report, kind))
    return table.sort_by([(name, "ascending") for name in ORDER[kind]]).combine_chunks()


@pytest.mark.parametrize("options", [{}, {"filter": "not aeth"}, {"begin": "frame:300", "end": "frame:9000"}])
def test_tables_equal_the_local_tables(client, options):
    report = rdmawire.analyze(SAMPLES, **options)
    tables = rdmawire.distributed.tables(SAMPLES, client, shards=5, portion_bytes=200_000, **options)
    assert list(tables) == ["messages", "events", "connections", "packets"]
    for kind, table in tables.items():
        local = local_table(report, kind)
        assert table.schema.equals(local.schema), kind
        assert table.num_rows == local.num_rows > 10, kind
        for name in table.column_names:
            assert table[name].equals(local[name]), (kind, name)


def test_tables_of_one_connection(client):
    files = [path for path in SAMPLES if "rc-read-loss" in path]
    number = largest_connection(files)
    table = rdmawire.distributed.tables(files, client, "messages", connection=number, shards=3)["messages"]
    assert table.equals(local_table(rdmawire.analyze(files, connection=number), "messages"))
    assert set(table["connection"].to_pylist()) == {number}


def test_parquet_files_form_one_dataset(client, tmp_path):
    rows = rdmawire.distributed.to_parquet(SAMPLES, tmp_path, client, ["messages", "events"], shards=4)
    report = rdmawire.analyze(SAMPLES)
    for kind in ("messages", "events"):
        assert len(list((tmp_path / kind).iterdir())) == 4
        read = pyarrow.dataset.dataset(tmp_path / kind).to_table()
        local = local_table(report, kind)
        assert rows[kind] == read.num_rows == local.num_rows
        assert read.sort_by([(name, "ascending") for name in ORDER[kind]]).cast(local.schema).equals(local)
    with pytest.raises(rdmawire.UsageError, match="not empty"):
        rdmawire.distributed.to_parquet(SAMPLES, tmp_path, client, "messages")


def test_tables_reject_truncated_capture_and_unknown_table(client, tmp_path):
    broken = tmp_path / "cut.pcap"
    broken.write_bytes((ROOT / "captures" / "samples" / "rping.pcap").read_bytes()[:5000])
    with pytest.raises(rdmawire.CaptureError, match="cut.pcap"):
        rdmawire.distributed.tables(broken, client, "events")
    with pytest.raises(rdmawire.UsageError, match="unknown table flows"):
        rdmawire.distributed.tables(SAMPLES[:1], client, "flows")
    with pytest.raises(rdmawire.UsageError, match="empty"):
        rdmawire.distributed.tables(SAMPLES[:1], client, [])


def test_progress_callback_is_called_and_can_abort(client):
    seen = []
    rdmawire.distributed.analyze(SAMPLES[:3], client, shards=2, progress=lambda *step: seen.append(step))
    assert [step for step in seen if step[0] == "survey"] == [("survey", n, 3) for n in (1, 2, 3)]
    assert seen[-1] == ("track", 2, 2)

    def abort(*_step):
        raise KeyError("abort")

    with pytest.raises(KeyError, match="abort"):
        rdmawire.distributed.analyze(SAMPLES[:3], client, progress=abort)


def test_unreadable_files_are_reported(client, tmp_path):
    broken = tmp_path / "cut.pcap"
    broken.write_bytes((ROOT / "captures" / "samples" / "rping.pcap").read_bytes()[:5000])
    report = rdmawire.distributed.analyze([str(broken), str(tmp_path / "none.pcap")], client)
    local = rdmawire.analyze([str(broken), str(tmp_path / "none.pcap")])
    assert report.to_dict() == local.to_dict()
    assert sorted(report.read_errors) == sorted(local.read_errors) and len(report.read_errors) == 2
    with pytest.raises(rdmawire.CaptureError, match="none.pcap"):
        rdmawire.distributed.analyze(tmp_path / "none.pcap", client)


def test_invalid_arguments_are_rejected(client):
    with pytest.raises(rdmawire.UsageError, match="at least one file"):
        rdmawire.distributed.analyze([], client)
    with pytest.raises(rdmawire.UsageError, match="invalid boundary"):
        rdmawire.distributed.analyze(SAMPLES[:1], client, begin="yesterday", retries=0)
    with pytest.raises(rdmawire.UsageError, match="shards"):
        rdmawire.distributed.analyze(SAMPLES[:1], client, shards=0)
    with pytest.raises(rdmawire.UsageError, match="unknown field"):
        rdmawire.distributed.analyze(SAMPLES[:1], client, filter="bth.opcod")
    with pytest.raises(rdmawire.UsageError, match="unknown source"):
        rdmawire.distributed.analyze(SAMPLES[:1], client, ignore=["luck"])
    with pytest.raises(rdmawire.CaptureError, match="unknown connection 999999"):
        rdmawire.distributed.analyze(SAMPLES[:1], client, connection=999_999)


def test_killed_worker_is_replaced(client):
    """Dask restarts the killed worker, and the report is the same."""
    files = [name for name in SAMPLES if "read" in name]
    local = rdmawire.analyze(files).to_dict()
    killed = []

    def kill_one(stage, done, _all):
        if stage == "divide" and done == 2 and not killed:
            pid = next(iter(client.run(os.getpid).values()))
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    report = rdmawire.distributed.analyze(files, client, shards=6, portion_bytes=100_000, progress=kill_one)
    assert killed
    assert report.to_dict() == local
    # The next test needs two workers.
    deadline = time.monotonic() + 60
    while len(client.nthreads()) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(client.nthreads()) == 2
