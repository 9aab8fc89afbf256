"""Tables with rows of packets, messages, events or connections.

Tables are lazy: each iteration reads the capture. They support the Arrow PyCapsule interface, so that pandas, Polars,
DuckDB and pyarrow can import them in batches.
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
    """Description of a column."""

    name: str
    type: str
    """NumPy's name of the type, or ``text`` (str) or ``bytes``."""
    optional: bool
    """Whether values can be missing."""
    meaning: str
    """Description from the header tables, or empty."""
    words: tuple[str, ...] | None = None
    """All names of an enumeration in order, if the values are such names. None: any text."""


class Table:
    """A lazy table.

    - ``table.columns()`` returns NumPy arrays.
    - ``pandas.DataFrame.from_arrow(table)``, ``polars.DataFrame(table)``, ``pyarrow.table(table)`` and DuckDB queries
      with the name of a variable import the table through ``__arrow_c_stream__``.
    - ``for row in table`` returns dicts.
    - ``table.to_parquet(path)`` writes the table with bounded memory.
    """

    def __init__(self, core: _core.ColumnTable, batch_rows: int = 65536) -> None:
        if batch_rows < 1:
            raise UsageError(f"batch_rows={batch_rows}: expected a number above 0")
        self._core = core
        self._batch_rows = batch_rows

    @property
    def name(self) -> str:
        """Contents and source of the table: ``packets of x.pcap``."""
        return self._core.name

    @property
    def schema(self) -> tuple[ColumnInfo, ...]:
        """The columns in order."""
        return tuple(ColumnInfo(*column) for column in self._core.columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns in order."""
        return tuple(column.name for column in self.schema)

    def __repr__(self) -> str:
        return f"<rdmawire.Table: {self.name}; {', '.join(self.column_names)}>"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Return each row as a dict of int, bool, str and bytes, or None for missing values. Times are nanoseconds."""
        return self._core.rows()

    def __arrow_c_schema__(self) -> object:
        """Return the columns through the Arrow PyCapsule interface."""
        return self._core.arrow_schema()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows through the Arrow PyCapsule interface, as lazy record batches.

        `requested_schema` is ignored, which the interface permits.
        """
        return self._core.arrow_stream(self._batch_rows)

    def columns(self, *, partial: bool = False) -> dict[str, np.ndarray[Any, Any]]:
        """Read all rows and return a NumPy array for each column.

        Columns with optional values are masked arrays (``numpy.ma``), even if all values exist. Other columns are plain
        arrays. Numbers have the smallest unsigned type for their field, flags are bool, times are ``datetime64[ns]`` in
        UTC, durations are ``timedelta64[ns]``. Text and bytes are arrays of objects, with None for missing values.

        Raises CaptureError if the capture cannot be read completely. `partial` returns the readable part instead.
        """
        np = optional("arrays", "arrays", "numpy")
        columns, error = self._core.read()
        if error is not None and not partial:
            raise CaptureError(error)
        return {name: _array(np, *parts) for name, parts in columns.items()}

    def to_parquet(self, path: str | os.PathLike[str], *, compression: str = "zstd", **options: Any) -> int:
        """Write the table to a Parquet file in batches, and return the number of rows.

        Requires pyarrow. `options` are passed to ``pyarrow.parquet.ParquetWriter``. Memory is bounded by the batch
        size. If the capture cannot be read completely, the file contains the rows before the error, and CaptureError is
        raised.
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
    """Return the error of an Arrow stream without the text that the importer added."""
    text = str(error.args[-1] if isinstance(error, OSError) and error.args else error)
    return text.removeprefix("[Errno 5] ").split(". Detail:")[0]


def _array(np: Any, kind: str, values: Any, mask: Any, texts: list[str] | None) -> Any:
    """Return the array of a column from its C++ representation."""
    missing = None if mask is None else np.frombuffer(mask, dtype=bool)
    if kind == "text":
        assert texts is not None
        words = np.empty(len(texts) + 1, dtype=object)  # the last word, None, has index -1
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
