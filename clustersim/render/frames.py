"""Tables of numbers and words as Parquet and CSV; long ones are written by Arrow."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Columns = Mapping[str, Any]
"""A table: for each column its values, an array or a list."""


def write_frames(frames: Mapping[str, Columns | Iterable[Columns]], folder: Path) -> None:
    """Write tables into a folder, each in the format of its suffix.

    A long table may come in parts, which are formed and written one after another.
    """
    for name, table in frames.items():
        path = folder / name
        _WRITERS[path.suffix]([table] if isinstance(table, Mapping) else table, path)


def write_lines(lines: Iterable[Sequence[Any]], path: Path) -> None:
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
