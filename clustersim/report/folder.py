"""The folder of a run, written whole or not at all.

Everything goes into a new folder beside the final one, which then takes its place.  An earlier
output is replaced; a folder that holds anything else is left alone unless the caller insists.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from clustersim import __version__
from clustersim.errors import ScenarioError
from clustersim.metrics.memory import columns as memory_columns
from clustersim.metrics.memory import memory_curves
from clustersim.report.artist import Artist, Drawing
from clustersim.report.figures import draw_breakdown, draw_timeline
from clustersim.report.memory import draw_memory, memory_picture
from clustersim.report.pictures import breakdown_picture, timeline_picture
from clustersim.report.trace import write_trace

if TYPE_CHECKING:
    from clustersim.simulate import Result

SUMMARY: Final = "summary.json"
FILES: Final = (
    SUMMARY,
    "timeline.parquet",
    "timeline.png",
    "timeline.svg",
    "breakdown.csv",
    "breakdown.png",
    "breakdown.svg",
    "memory.csv",
    "memory.parquet",
    "memory.png",
    "memory.svg",
    "trace.json",
)
"""What a run leaves."""


def check_free(folder: Path, *, force: bool = False) -> None:
    """Refuse to write where something stands that is not the output of an earlier run.

    Raises
    ------
    ScenarioError
        one line that says what is in the way.
    """
    target = folder.resolve()
    if Path.cwd().is_relative_to(target) or Path.home().is_relative_to(target):
        raise ScenarioError(
            f"{folder}: is around the working or home folder, and a run replaces its folder whole;"
            " choose another --out"
        )
    if target.exists() and not force and not is_ours(target):
        raise ScenarioError(
            f"{folder}: is in the way and is not the output of an earlier run; choose another --out"
        )


def is_ours(folder: Path) -> bool:
    """Whether a folder is empty, or holds a summary and no file that the summary does not list."""
    if not folder.is_dir():
        return False
    found = {path.name for path in folder.iterdir()}
    return found <= set(_listed(folder / SUMMARY))


def _listed(summary: Path) -> list[str]:
    """Return the files that a summary says were written with it; none if it is no summary."""
    try:
        return [str(name) for name in json.loads(summary.read_bytes())["files"]]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def write(result: "Result", folder: Path, artist: Artist, *, force: bool = False) -> None:
    """Write all files of a run.

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    check_free(folder, force=force)
    with replacing(folder) as new:
        timeline, breakdown = timeline_picture(result), breakdown_picture(result)
        artist.begin(
            [
                Drawing(draw_timeline, timeline, new / "timeline"),
                Drawing(draw_breakdown, breakdown, new / "breakdown"),
                Drawing(draw_memory, memory_picture(result), new / "memory"),
            ]
        )
        write_trace(result, new / "trace.json")
        _write_summary(result, new / SUMMARY)
        _write_parquet(result.timeline.columns(), new / "timeline.parquet")
        _write_csv(breakdown.columns(), new / "breakdown.csv")
        _write_csv(_memory(result), new / "memory.csv")
        curves = memory_curves(result.memory, result.timeline)
        _write_parquet(memory_columns(curves), new / "memory.parquet")
        artist.finish()


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give a new folder that takes the place of `folder` at the end, unless something fails."""
    target = folder.resolve()
    new, old = (target.with_name(f".{target.name}.{os.getpid()}.{end}") for end in ("new", "old"))
    with _blaming(folder):
        target.parent.mkdir(parents=True, exist_ok=True)
        new.mkdir()
    try:
        yield new
        with _blaming(folder):
            if target.exists():
                target.rename(old)
            new.rename(target)
    except BaseException:
        shutil.rmtree(new)
        if old.exists():
            old.rename(target)
        raise
    if old.is_dir():
        shutil.rmtree(old)
    else:
        old.unlink(missing_ok=True)


@contextmanager
def _blaming(folder: Path) -> Iterator[None]:
    """Turn what the file system objects to into one line about `folder`."""
    try:
        yield
    except OSError as problem:
        raise ScenarioError(
            f"{folder}: cannot be written ({problem.strerror}); choose another --out"
        ) from problem


def _write_summary(result: "Result", path: Path) -> None:
    """Write what ``--json`` prints, and beside it the scenario with all names looked up."""
    summary = {
        **result.to_json(),
        "scenario": result.scenario.model_dump(mode="json", by_alias=True),
        "version": __version__,
        "files": FILES,
    }
    path.write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _memory(result: "Result") -> dict[str, list[Any]]:
    """Return the peak of every stage by part [B]."""
    stages = result.memory.stages
    parts = {part: [stage.parts[part] for stage in stages] for part in stages[0].parts}
    return {"stage": [stage.stage for stage in stages], **parts}


def _write_parquet(columns: Mapping[str, Any], path: Path) -> None:
    """Write a table; instants by their bytes' places, which is a third of the size and time."""
    from pyarrow import parquet

    instants = [name for name, values in columns.items() if values.dtype.kind == "f"]
    parquet.write_table(
        _table(columns),
        path,
        compression="zstd",
        use_dictionary=[name for name, values in columns.items() if values.dtype.kind == "i"],
        column_encoding=dict.fromkeys(instants, "BYTE_STREAM_SPLIT"),
    )


def _write_csv(columns: Mapping[str, Any], path: Path) -> None:
    from pyarrow import csv

    csv.write_csv(_table(columns), path)


def _table(columns: Mapping[str, Any]) -> Any:
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
        words = [word.encode() for word in values.tolist()]
        ends = np.cumsum([0, *map(len, words)], dtype=np.int32)
        kind, parts = pyarrow.string(), [ends, b"".join(words)]
    elif values.dtype.kind == "b":
        kind, parts = pyarrow.bool_(), [np.packbits(values, bitorder="little")]
    else:
        kind, parts = pyarrow.from_numpy_dtype(values.dtype), [np.ascontiguousarray(values)]
    buffers = [None, *map(pyarrow.py_buffer, parts)]
    return pyarrow.Array.from_buffers(kind, len(values), buffers)


__all__ = ["FILES", "SUMMARY", "check_free", "is_ours", "replacing", "write"]
