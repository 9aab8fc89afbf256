"""Tables: rows of packets, messages, events or connections, by columns.

A table is a recipe: nothing is read before somebody asks, and who asks again reads again. It speaks the Arrow PyCapsule
interface, so that pandas, Polars, DuckDB and pyarrow take it as it is, batch by batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rdmawire import _core
from rdmawire._core import CaptureError, ClosedError, UsageError
from rdmawire._loading import optional

if TYPE_CHECKING:
    import numpy as np


class ColumnInfo(NamedTuple):
    """What is known of a column before any row is read."""

    name: str
    type: str
    """NumPy's word for the type; ``text`` and ``bytes`` become str and bytes."""
    optional: bool
    """Values can be missing."""
    meaning: str
    """One sentence from the header tables; may be empty."""
    words: tuple[str, ...] | None = None
    """Of text that is a word of an enumeration: all of its words, in their order. None: any text."""


class Table:
    """Rows by columns, read when asked for.

    - ``table.columns()`` gives NumPy arrays.
    - ``pandas.DataFrame.from_arrow(table)``, ``polars.DataFrame(table)``, ``pyarrow.table(table)`` and, in a query of
      DuckDB, the name of a variable that holds it, take it through ``__arrow_c_stream__``.
    - ``for row in table`` gives dicts.
    - ``table.to_parquet(path)`` writes it in bounded memory.
    """

    def __init__(self, core: _core.ColumnTable, batch_rows: int = 65536) -> None:
        if batch_rows < 1:
            raise UsageError(f"a batch has at least one row, not {batch_rows}")
        self._core = core
        self._batch_rows = batch_rows

    @property
    def name(self) -> str:
        """What the table holds, and of what: ``packets of x.pcap``."""
        return self._core.name

    @property
    def schema(self) -> tuple[ColumnInfo, ...]:
        """The columns, in their order."""
        return tuple(ColumnInfo(*column) for column in self._core.columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in their order."""
        return tuple(column.name for column in self.schema)

    def __repr__(self) -> str:
        return f"<rdmawire.Table: {self.name}; {', '.join(self.column_names)}>"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Gives each row as a dict: int, bool, str, bytes, None where the value is missing; times in nanoseconds."""
        return self._core.rows()

    def __arrow_c_schema__(self) -> object:
        """The columns, as the Arrow PyCapsule interface hands them over."""
        return self._core.arrow_schema()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, as the Arrow PyCapsule interface hands them over: in record batches, read when they are asked for.

        `requested_schema` is a wish that the interface lets a producer ignore, and it is ignored.
        """
        return self._core.arrow_stream(self._batch_rows)

    def columns(self, *, partial: bool = False) -> dict[str, np.ndarray[Any, Any]]:
        """Reads all rows and gives a NumPy array for each column.

        Columns of which values can be missing are masked arrays (``numpy.ma``), masked where the packet does not have
        the field, whether or not some packet lacks it; the others are plain arrays. Numbers have the smallest unsigned
        type that holds their field, flags are bool, times ``datetime64[ns]`` in UTC, durations ``timedelta64[ns]``.
        Text and bytes are arrays of str and bytes objects, with None where they are missing.

        A capture that cannot be read to its end raises CaptureError; with `partial` what could be read is given
        nevertheless.
        """
        np = optional("arrays", "arrays", "numpy")
        columns, trouble = self._core.read()
        if trouble is not None and not partial:
            raise CaptureError(trouble)
        return {name: _array(np, *parts) for name, parts in columns.items()}

    def to_parquet(self, path: str | os.PathLike[str], *, compression: str = "zstd", **options: Any) -> int:
        """Writes the table into a Parquet file, a batch at a time, and gives the number of rows.

        Needs pyarrow; `options` go to ``pyarrow.parquet.ParquetWriter``. Memory is bounded by the batches, however
        large the capture. Where the capture cannot be read to its end, the file is whole and has the rows before, and
        CaptureError is raised.
        """
        pyarrow = optional("Parquet files", "parquet", "pyarrow", "pyarrow.parquet")
        reader = pyarrow.RecordBatchReader.from_stream(self)
        rows = 0
        with pyarrow.parquet.ParquetWriter(os.fspath(path), reader.schema, compression=compression, **options) as file:
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return rows
                except (OSError, pyarrow.ArrowException) as error:
                    sentence = _sentence(error)
                    wrong = ClosedError if sentence.endswith(" was closed") else CaptureError
                    raise wrong(sentence) from error
                file.write_batch(batch)
                rows += batch.num_rows


def _sentence(error: BaseException) -> str:
    """What a stream said, without what a consumer put around it."""
    text = str(error.args[-1] if isinstance(error, OSError) and error.args else error)
    return text.removeprefix("[Errno 5] ").split(". Detail:")[0]


def _array(np: Any, kind: str, values: Any, mask: Any, texts: list[str] | None) -> Any:
    """An array of what C++ gave of a column."""
    missing = None if mask is None else np.frombuffer(mask, dtype=bool)
    if kind == "text":
        assert texts is not None
        words = np.empty(len(texts) + 1, dtype=object)  # the last one, None, is what -1 means
        words[:-1] = texts
        array = words[np.frombuffer(values, dtype="<i4")]
    elif kind == "bytes":
        array = np.empty(len(values), dtype=object)
        array[:] = values
        if missing is not None:
            array[missing] = None
    else:
        array = np.frombuffer(values, dtype=kind)
    return array if missing is None else np.ma.MaskedArray(array, mask=missing)
