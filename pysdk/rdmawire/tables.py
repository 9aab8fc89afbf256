"""Tables with rows of packets, messages, events or connections.

Tables are lazy: each iteration reads the capture. They support the Arrow PyCapsule interface, so that pandas, Polars,
DuckDB and pyarrow can import them in batches.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rdmawire import _core
from rdmawire._core import CaptureError, ClosedError, UsageError
from rdmawire._loading import optional
from rdmawire.outputs import complete_file
from rdmawire.progress import Progress, bar_of

if TYPE_CHECKING:
    import numpy as np
    import pandas


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
    """All names of the enumeration in order, if the values are names of an enumeration. None: any text."""


class Table:
    """A lazy table.

    - ``table.columns()`` returns NumPy arrays.
    - ``pandas.DataFrame.from_arrow(table)``, ``polars.DataFrame(table)``, ``pyarrow.table(table)`` and DuckDB queries
      with the name of a variable import the table through ``__arrow_c_stream__``.
    - ``for row in table`` returns dicts.
    - ``table.to_parquet(path)`` writes the table with bounded memory.
    """

    def __init__(
        self,
        core: _core.ColumnTable,
        batch_rows: int = 65536,
        *,
        inputs: Sequence[str] = (),
        held: object = None,
    ) -> None:
        if batch_rows < 1:
            raise UsageError(f"batch_rows={batch_rows}: expected a number above 0")
        self._core = core
        self._batch_rows = batch_rows
        self._inputs = inputs
        self._held = held

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

    def to_pandas(self, *, partial: bool = False) -> pandas.DataFrame:
        """Read all rows into a DataFrame of pandas. Numbers keep all bits: columns with missing values have the nullable
        types of pandas (``UInt64``), not float64.

        ``pandas.DataFrame.from_arrow()`` converts 64-bit numbers with missing values to floating point. `partial`: see
        :meth:`columns`.
        """
        pd = optional("DataFrames", "pandas", "pandas")
        return pd.DataFrame({name: _series(pd, values) for name, values in self.columns(partial=partial).items()})

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        compression: str = "zstd",
        partial: bool = False,
        progress: Progress = None,
        **options: Any,
    ) -> int:
        """Write the table to a Parquet file in batches, and return the number of rows.

        Requires pyarrow. `options` are passed to ``pyarrow.parquet.ParquetWriter``. Memory is bounded by the batch
        size. An existing file is replaced when the new one is complete.

        `progress` is a function of the number of rows, or True or False for a progress bar. Default: a bar on a terminal
        and in a notebook, if tqdm is installed.

        Raises CaptureError if the capture cannot be read completely. `partial` writes the readable part instead, with a
        warning. Raises UsageError if `path` is the capture.
        """
        pyarrow = optional("Parquet files", "parquet", "pyarrow", "pyarrow.parquet")
        with complete_file(path, self._inputs) as unfinished:
            reader = pyarrow.RecordBatchReader.from_stream(self)
            try:
                file = pyarrow.parquet.ParquetWriter(unfinished, reader.schema, compression=compression, **options)
            except OSError as error:
                raise CaptureError(f"cannot write {os.fspath(path)}: {os.strerror(error.errno or 0)}") from error
            with file, bar_of(progress, "parquet", unit="row", scale=True) as show:
                return self._write(pyarrow, reader, file, path, partial, show)

    def _write(
        self,
        pyarrow: Any,
        reader: Any,
        file: Any,
        path: str | os.PathLike[str],
        partial: bool,
        show: Callable[..., None],
    ) -> int:
        rows = 0
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return rows
            except (OSError, pyarrow.ArrowException) as error:
                sentence = _sentence(error)
                if sentence.endswith(" was closed"):
                    raise ClosedError(sentence) from error
                if not partial:
                    raise CaptureError(sentence) from error
                warnings.warn(sentence, stacklevel=3)
                return rows
            try:
                file.write_batch(batch)
            except OSError as error:
                raise CaptureError(f"cannot write {os.fspath(path)}: {os.strerror(error.errno or 0)}") from error
            rows += batch.num_rows
            show(rows, "", rows)


def _sentence(error: BaseException) -> str:
    """Return the error of an Arrow stream without the text that the importer added."""
    text = str(error.args[-1] if isinstance(error, OSError) and error.args else error)
    return text.removeprefix("[Errno 5] ").split(". Detail:")[0]


def _series(pd: Any, values: Any) -> Any:
    """Return a column for pandas. Masked numbers and flags have nullable types."""
    mask = getattr(values, "mask", None)
    if mask is None:
        return values
    data = values.filled() if values.dtype == object else values.data
    if data.dtype.kind == "b":
        return pd.arrays.BooleanArray(data.copy(), mask.copy())
    if data.dtype.kind in "iu":
        return pd.arrays.IntegerArray(data.copy(), mask.copy())
    return pd.Series(data).mask(mask)


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
