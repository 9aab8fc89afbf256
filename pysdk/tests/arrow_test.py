"""Tables exported through Arrow's C interfaces to pyarrow, pandas, Polars and DuckDB."""

import ctypes
import gc
import resource
import subprocess
import sys
import time

import numpy as np
import pytest
import rdmawire
from rdmawire import _core
from sample_captures import TRUNCATED_TO, RPING, SAMPLES, sample_id

duckdb = pytest.importorskip("duckdb")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

WORDS = [
    "bth.opcode_name", "icrc.status_name", "opcode.transport_name", "opcode.operation_name", "wire_name", "upper_name",
    "infiniband.aeth.syndrome.opcode_name", "rdmap.opcode_name",
]  # fmt: skip
NAMES = ["frame.number", "frame.time", "ip.src", "bth.opcode_name", "bth.psn", "bth.se", "aeth", "reth.va", "payload"]


@pytest.fixture(autouse=True)
def check_arrow_leaks():
    gc.collect()
    before = _core.arrow_unreleased()
    yield
    gc.collect()
    assert _core.arrow_unreleased() == before


def rows_of(table):
    return [tuple(row.values()) for row in table]


@pytest.mark.parametrize("batch_rows", [1, 7, 65536])
def test_pyarrow_table_has_the_rows(batch_rows):
    table = rdmawire.open_capture(RPING).table(NAMES, batch_rows=batch_rows)
    taken = pyarrow.table(table)
    taken.validate(full=True)
    assert taken.schema.names == NAMES
    assert taken.column("frame.number").num_chunks == -(-taken.num_rows // batch_rows)
    columns = [
        taken.column(name).cast("int64" if name == "frame.time" else taken.schema.field(name).type).to_pylist()
        for name in NAMES
    ]
    assert list(zip(*columns, strict=True)) == rows_of(table)


def test_schema_export_without_rows():
    schema = pyarrow.schema(rdmawire.open_capture(RPING).table(NAMES))
    assert str(schema.field("frame.time").type) == "timestamp[ns, tz=UTC]" and not schema.field("frame.time").nullable
    assert str(schema.field("bth.psn").type) == "uint32" and schema.field("bth.psn").nullable


@pytest.mark.parametrize("path", SAMPLES, ids=sample_id)
def test_pandas_polars_and_duckdb_match_numpy(path):
    table = rdmawire.open_capture(path).table(NAMES)
    columns = table.columns()
    frame = pandas.DataFrame.from_arrow(table)
    other = polars.DataFrame(table)
    psn = columns["bth.psn"]
    assert frame["bth.psn"].isna().tolist() == np.ma.getmaskarray(psn).tolist()
    assert [int(n) for n in frame["bth.psn"].dropna()] == psn.compressed().tolist()
    assert other["bth.psn"].to_list() == psn.tolist()
    assert other["ip.src"].to_list() == columns["ip.src"].tolist()
    assert other["payload"].to_list() == columns["payload"].tolist()
    assert other["frame.time"].cast(polars.Int64).to_list() == columns["frame.time"].astype("int64").tolist()
    query = 'select "bth.opcode_name", count(*) from other group by all'
    counted = dict(duckdb.sql(query).fetchall())
    names, counts = np.unique(columns["bth.opcode_name"].compressed(), return_counts=True)
    assert {name: count for name, count in counted.items() if name is not None} == dict(
        zip(names.tolist(), counts.tolist(), strict=True)
    )


@pytest.mark.parametrize("path", SAMPLES, ids=sample_id)
def test_enumerated_columns_are_categories(path, tmp_path):
    table = table_of_words = rdmawire.open_capture(path).table([*WORDS, "ip.src"], batch_rows=50)
    columns = table.columns()
    taken = pyarrow.table(table)
    taken.validate(full=True)
    frame = pandas.DataFrame.from_arrow(table)
    other = polars.DataFrame(table)
    table.to_parquet(tmp_path / "x.parquet")
    file = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    assert file.equals(taken)
    queried = duckdb.sql("from table_of_words").fetchall()
    assert queried == [tuple(row.values()) for row in table]
    assert duckdb.read_parquet(str(tmp_path / "x.parquet")).fetchall() == queried
    for info in table.schema[:-1]:
        wanted = columns[info.name].tolist()
        assert info.words and len(set(info.words)) == len(info.words)
        assert set(wanted) <= {*info.words, None}
        assert taken.schema.field(info.name).type == pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        assert taken[info.name].to_pylist() == wanted == file[info.name].to_pylist()
        assert frame[info.name].dtype == pandas.CategoricalDtype(list(info.words))
        assert frame[info.name].astype(object).where(frame[info.name].notna(), None).tolist() == wanted
        assert other[info.name].dtype == polars.Categorical and other[info.name].to_list() == wanted
    assert table.schema[-1].words is None and taken.schema.field("ip.src").type == "string"


def test_duckdb_queries_table_by_variable_name():
    packets = rdmawire.open_capture(RPING).table(NAMES)
    (count, most), = duckdb.sql('select count(*), max("bth.psn") from packets where aeth').fetchall()
    columns = packets.columns()
    assert count == columns["aeth"].sum() and most == columns["bth.psn"][columns["aeth"]].max()


def test_unused_capsule_is_released():
    table = rdmawire.open_capture(RPING).table(NAMES)
    before = _core.arrow_unreleased()
    capsule = table.__arrow_c_stream__()
    schema = table.__arrow_c_schema__()
    assert _core.arrow_unreleased() > before
    del capsule, schema
    assert _core.arrow_unreleased() == before


def test_partially_read_stream_is_released():
    reader = pyarrow.RecordBatchReader.from_stream(rdmawire.open_capture(RPING).table(NAMES, batch_rows=10))
    batch = reader.read_next_batch()
    assert batch.num_rows == 10
    del reader
    gc.collect()
    assert batch.column(0).to_pylist() == list(range(1, 11))  # the batch stays valid


def test_batches_share_a_dictionary_that_outlives_them():
    table = rdmawire.open_capture(RPING).table(["bth.opcode_name"], batch_rows=10)
    reader = pyarrow.RecordBatchReader.from_stream(table)
    dictionaries = [batch.column(0).dictionary for batch in reader]
    assert len(dictionaries) > 30
    assert len({tuple(b.address for b in words.buffers() if b) for words in dictionaries}) == 1
    words = list(table.schema[0].words)
    last = dictionaries.pop()
    del reader, table, dictionaries
    gc.collect()
    assert last.to_pylist() == words


def test_empty_table_has_the_same_column_types():
    """An empty table has no dictionary values: only the column type shows that the column is a category."""
    table = rdmawire.open_capture(RPING).table(["bth.opcode_name"], filter="frame.number == 0")
    taken = pyarrow.table(table)
    assert taken.num_rows == 0 and taken.schema == pyarrow.schema(rdmawire.open_capture(RPING).table(["bth.opcode_name"]))
    assert isinstance(pandas.DataFrame.from_arrow(table)["bth.opcode_name"].dtype, pandas.CategoricalDtype)
    assert polars.DataFrame(table)["bth.opcode_name"].dtype == polars.Categorical


class ArrowSchema(ctypes.Structure):
    """`struct ArrowSchema` of the Arrow C data interface."""


ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p), ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.POINTER(ArrowSchema)), ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))),
    ("private_data", ctypes.c_void_p),
]  # fmt: skip


def test_dictionary_can_be_moved_out_of_its_column():
    """The Arrow C data interface lets an importer move a child out. The importer then releases the child itself."""
    before = _core.arrow_unreleased()
    capsule = rdmawire.open_capture(RPING).table(["bth.opcode_name", "ip.src"]).__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    whole = ArrowSchema.from_address(pointer(capsule, b"arrow_schema"))
    names, addresses = whole.children[0].contents, whole.children[1].contents
    assert names.format == b"i" and names.name == b"bth.opcode_name" and names.flags == 2
    assert addresses.format == b"u" and not addresses.dictionary
    assert _core.arrow_unreleased() == before + 4
    part = ArrowSchema()
    ctypes.memmove(ctypes.byref(part), names.dictionary, ctypes.sizeof(part))
    ctypes.memset(ctypes.byref(names.dictionary.contents, ArrowSchema.release.offset), 0, ctypes.sizeof(ctypes.c_void_p))
    del capsule
    assert _core.arrow_unreleased() == before + 1
    assert part.format == b"u" and part.name == b"" and part.n_children == 0
    part.release(ctypes.byref(part))
    assert not part.release and _core.arrow_unreleased() == before


def test_read_error_in_mid_stream_reaches_the_importer():
    table = rdmawire.open_capture(RPING.read_bytes()[:TRUNCATED_TO]).table(["frame.number"])
    reader = pyarrow.RecordBatchReader.from_stream(table)
    assert reader.read_next_batch().num_rows > 0  # the complete rows precede the error
    with pytest.raises(Exception, match="memory: record .*stopped after") as failure:
        reader.read_next_batch()
    assert isinstance(failure.value, (OSError, pyarrow.ArrowException))
    with pytest.raises(Exception, match="memory: record .*stopped after"):
        polars.DataFrame(table)


def test_closing_the_capture_ends_the_stream():
    capture = rdmawire.open_capture(RPING)
    reader = pyarrow.RecordBatchReader.from_stream(capture.table(["frame.number"], batch_rows=5))
    reader.read_next_batch()
    capture.close()
    with pytest.raises(Exception, match="was closed"):
        reader.read_all()
    with pytest.raises(rdmawire.ClosedError):
        capture.table(["frame.number"])


def test_parquet_has_the_rows(tmp_path):
    table = rdmawire.open_capture(RPING).table(NAMES, batch_rows=100)
    rows = table.to_parquet(tmp_path / "x.parquet")
    read = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    assert read.num_rows == rows == len(rows_of(table))
    assert read.equals(pyarrow.table(table))


def test_parquet_of_truncated_capture_has_the_preceding_rows_if_partial(tmp_path):
    table = rdmawire.open_capture(RPING.read_bytes()[:TRUNCATED_TO]).table(["frame.number"])
    with pytest.raises(rdmawire.CaptureError, match="^memory: record .*stopped after"):
        table.to_parquet(tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []
    with pytest.warns(UserWarning, match="^memory: record .*stopped after"):
        table.to_parquet(tmp_path / "x.parquet", partial=True)
    assert pyarrow.parquet.read_table(tmp_path / "x.parquet").num_rows == len(table.columns(partial=True)["frame.number"])


def test_parquet_of_a_capture_larger_than_memory(tmp_path):
    """The address space is limited: it fits the libraries and the mapped file, but only part of the table's rows."""
    file = tmp_path / "large.pcap"
    data = RPING.read_bytes()
    with file.open("wb") as out:
        out.write(data[:24])
        for _ in range(2000):
            out.write(data[24:])
    code = f"""
import resource
import pyarrow.parquet
import rdmawire
table = rdmawire.open_capture({str(file)!r}).table(["frame.number", "frame.time", "payload", "bth.psn"], batch_rows=8192)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = table.to_parquet({str(tmp_path / "x.parquet")!r})
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    python_path = str(rdmawire.__path__[0]).rsplit("/", 1)[0]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": python_path})
    assert run.returncode == 0, run.stderr
    rows, grown = map(int, run.stdout.split())
    assert rows == pyarrow.parquet.ParquetFile(tmp_path / "x.parquet").metadata.num_rows
    assert file.stat().st_size > 300e6
    assert grown * 1024 < 150e6, f"memory grew by {grown} KiB"


def test_repeated_reading_does_not_grow_memory():
    table = rdmawire.open_capture(RPING).table(NAMES)

    def memory_after(count):
        for _ in range(count):
            table.columns()
            pyarrow.table(table)
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    settled = memory_after(30)
    assert memory_after(100) < settled + 20_000  # KiB


def test_batches_are_read_lazily(tmp_path):
    file = tmp_path / "x.pcap"
    data = RPING.read_bytes()
    file.write_bytes(data[:24] + data[24:] * 200)

    def seconds(work):
        # Processor time is measured, because it does not depend on other programs of the host.
        started = time.process_time()
        work()
        return time.process_time() - started

    def first_batch():
        table = rdmawire.open_capture(file).table(NAMES, batch_rows=10)
        pyarrow.RecordBatchReader.from_stream(table).read_next_batch()

    assert seconds(first_batch) < seconds(lambda: rows_of(rdmawire.open_capture(file).table(NAMES))) / 3


def test_pandas_keeps_all_bits_of_addresses_and_missing_values(tmp_path):
    path, address = tmp_path / "x.pcap", 0xFFFF888012345679
    start = rdmawire.Ether() / rdmawire.IPv4(src="192.0.2.1", dst="192.0.2.2") / rdmawire.UDP()
    write = start / rdmawire.BTH(opcode="RC_RDMA_WRITE_ONLY", psn=1) / rdmawire.RETH(va=address, rkey=7, length=4) / b"data"
    with rdmawire.create_capture(path) as out:
        out.write([write, start / rdmawire.BTH(opcode="RC_SEND_ONLY", psn=2) / b"x"], time_ns=5)
    names = ["frame.time", "bth.psn", "reth.va", "reth.rkey", "bth.se", "bth.opcode_name", "payload", "aeth"]
    frame = rdmawire.open_capture(path).table(names).to_pandas()
    assert list(frame.columns) == names and len(frame) == 2
    assert [str(frame[name].dtype) for name in ("reth.va", "reth.rkey", "bth.psn", "bth.se", "aeth")] == [
        "UInt64", "UInt32", "UInt32", "boolean", "bool",
    ]  # fmt: skip
    assert frame["reth.va"][0] == address and frame["reth.va"][1] is pandas.NA
    assert frame["frame.time"][0] == pandas.Timestamp(5)
    assert list(frame["bth.opcode_name"]) == ["RC RDMA WRITE Only", "RC SEND Only"]
    messages = rdmawire.analyze(path, progress=False).messages.to_pandas()
    assert messages["remote_address"][0] == address
    assert messages["first_response_time"].isna().all()


@pytest.mark.parametrize("path", SAMPLES, ids=sample_id)
def test_pandas_has_the_rows_of_the_table(path):
    table = rdmawire.open_capture(path).table(NAMES)
    frame = table.to_pandas()
    rows = list(table)
    for name in ("bth.psn", "reth.va", "bth.opcode_name", "payload", "ip.src"):
        values = [None if value is pandas.NA or value is None or value != value else value for value in frame[name]]
        assert values == [row[name] for row in rows], name
