"""Tables of numbers and words as Parquet, CSV and data frames; long ones are written by Arrow."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Columns = Mapping[str, Any]
"""A table: for each column its values, an array or a list."""

Rows = Iterable[Sequence[Any]]
"""A table: lines of cells, their headings first."""

Frame = Any
"""A data frame, a table of Arrow, or columns; these in parts if the table is long."""


def write_table(table: Frame | Rows, path: Path) -> None:
    """Write a table in the format of the ending of the path, numbers with all digits.

    Parts of a long table are formed and written one after another.
    """
    if hasattr(table, "to_csv"):
        _write_data_frame(table, path)
    elif hasattr(table, "to_pandas"):
        _write_arrow(table, path)
    elif isinstance(table, Mapping):
        _WRITERS[path.suffix]([table], path)
    else:
        parts: Iterator[Any] = iter(table)
        first = next(parts, None)
        write = _WRITERS[path.suffix] if isinstance(first, Mapping) else write_lines
        write(chain([] if first is None else [first], parts), path)


def frame_of(table: Frame | Rows) -> "pd.DataFrame":
    """Return a table as a data frame."""
    import pandas as pd  # 0.3 s, only for tables

    if isinstance(table, pd.DataFrame):
        return table
    if hasattr(table, "to_pandas"):
        return table.to_pandas()
    if isinstance(table, Mapping):
        return pd.DataFrame(table)
    parts = [*table]
    if parts and isinstance(parts[0], Mapping):
        return pd.concat(map(pd.DataFrame, parts), ignore_index=True)
    head, *lines = parts or [()]
    return pd.DataFrame(lines, columns=[*head])


def _write_data_frame(frame: "pd.DataFrame", path: Path) -> None:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False, lineterminator="\n")


def _write_arrow(table: Any, path: Path) -> None:
    from pyarrow import csv, parquet

    if path.suffix == ".parquet":
        parquet.write_table(table, path, compression="zstd")
    else:
        csv.write_csv(table, path)


def write_lines(lines: Rows, path: Path) -> None:
    """Write lines of cells as CSV, their headings first: numbers with all digits, None as empty.

    For short tables with cells of many types, which need no Arrow.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def _write_parquet(parts: Iterable[Columns], path: Path) -> None:
    """Write a table; times as byte streams, which take a third of the size and the time."""
    with ExitStack() as stack:
        writer = None
        for columns in parts:
            table = _table(columns)
            if writer is None:
                writer = stack.enter_context(_parquet_writer(columns, table, path))
            writer.write_table(table)


def _parquet_writer(columns: Columns, table: Any, path: Path) -> Any:
    from pyarrow import parquet

    instants = [name for name, values in columns.items() if values.dtype.kind == "f"]
    return parquet.ParquetWriter(
        path,
        table.schema,
        compression="zstd",
        use_dictionary=[name for name, values in columns.items() if values.dtype.kind == "i"],
        column_encoding=dict.fromkeys(instants, "BYTE_STREAM_SPLIT"),
    )


def _write_csv(parts: Iterable[Columns], path: Path) -> None:
    from pyarrow import concat_tables
    from pyarrow.csv import write_csv

    write_csv(concat_tables(_table(columns) for columns in parts), path)


def _table(columns: Columns) -> Any:
    """Return columns as an Arrow table.

    By way of buffers, because `pyarrow.array` would import pandas first, which takes 0.3 s.
    """
    import pyarrow

    arrays = [_arrow(np.asarray(values)) for values in columns.values()]
    return pyarrow.Table.from_arrays(arrays, names=list(columns))


def _arrow(values: NDArray[Any]) -> Any:
    """Return one column of numbers, truth values or words as an Arrow array."""
    import pyarrow

    if values.dtype.kind == "U":
        lengths, letters = _encoded(values)
        ends = np.zeros(len(values) + 1, np.int32)
        np.cumsum(lengths, out=ends[1:])
        kind, parts = pyarrow.string(), [ends, letters]
    elif values.dtype.kind == "b":
        kind, parts = pyarrow.bool_(), [np.packbits(values, bitorder="little")]
    else:
        kind, parts = pyarrow.from_numpy_dtype(values.dtype), [np.ascontiguousarray(values)]
    buffers = [None, *map(pyarrow.py_buffer, parts)]
    return pyarrow.Array.from_buffers(kind, len(values), buffers)


def _encoded(words: NDArray[np.str_]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the length of each word in UTF-8, and the bytes of all words without gaps."""
    width = words.dtype.itemsize // 4
    codes = np.ascontiguousarray(words).view(np.uint32).reshape(len(words), width)
    if codes.max(initial=0) >= 128:
        texts = [word.encode() for word in words.tolist()]
        return np.array([*map(len, texts)]), np.frombuffer(b"".join(texts), np.uint8)
    lengths = np.strings.str_len(words)
    return lengths, codes.astype(np.uint8)[np.arange(width) < lengths[:, None]]


_WRITERS: Final[dict[str, Callable[[Iterable[Columns], Path], None]]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
