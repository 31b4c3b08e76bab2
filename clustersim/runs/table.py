"""The runs of a study as one table: a row for each variant, with its point and its outcome."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import Field

from clustersim.memory.room import outcome_of
from clustersim.runs.variants import Run, Value, Variant
from clustersim.simulation.measures import ALL
from clustersim.simulation.step.answer import memory_measures

if TYPE_CHECKING:
    import pandas as pd

Entry = TypeVar("Entry")

_FIRST: Final[Mapping[str, Mapping[str, Any]]] = {
    "position": {"type": "integer", "description": "position of the combination, from 0"},
    "verdict": {
        "type": ["string", "null"],
        "description": "`fits`, `tight`, `misses a limit`, `probably does not fit`, `does not"
        " fit`, `invalid` or `failed`; null until the run is completed",
    },
    "why": {
        "type": ["string", "null"],
        "description": "reason in one line, unless it fits and its measures are known",
    },
}
"""Keys of a row that are neither axes nor measures, in JSON Schema."""


def _describe_measures(schema: dict[str, Any]) -> None:
    """Add the measures to the JSON Schema of an object whose keys they are."""
    entry = schema["additionalProperties"]
    names: dict[str, dict[str, None]] = {}
    for measure in ALL:
        names.setdefault(measure.name, {})[measure.axis] = None
    schema["properties"] = {
        name: entry | {"description": "; ".join(a)} for name, a in names.items()
    }


def _describe_row(schema: dict[str, Any]) -> None:
    """Add the verdict and the measures to the JSON Schema of a row; other keys are axes."""
    schema["additionalProperties"] = {"type": "number"}
    _describe_measures(schema)
    schema["properties"] = {**_FIRST, **schema["properties"]}
    axis = "value of an axis, by the key of the scenario"
    schema["additionalProperties"] = {"type": ["string", "number", "boolean"], "description": axis}


Row = Annotated[dict[str, Any], Field(json_schema_extra=_describe_row)]
"""Values by column: the axes, the verdict, its reason and the measures."""

Numbers = Annotated[Mapping[str, float], Field(json_schema_extra=_describe_measures)]
"""Measures of an answer by name, in SI units; `energy` is in kWh, `cost` in USD."""

Differences = Annotated[Mapping[str, Entry], Field(json_schema_extra=_describe_measures)]
"""An entry for each measure of an answer."""


def verdict_text(run: Run) -> str:
    """Return the verdict of the memory of a run, ``invalid`` or ``failed``."""
    return run.verdict if run.memory is None else outcome_of(run.memory.verdict)


def row(variant: Variant, run: Run | None) -> Row:
    """Return one row: the point, the verdict with its reason, and the numbers of a run.

    The verdict of a run that is not completed is None.
    """
    start: Row = {
        **variant.point,
        "verdict": None if run is None else verdict_text(run),
        "why": None if run is None else run.why,
    }
    if run is not None and run.answer is not None:
        return start | run.answer.measures()
    if run is not None and run.estimate is not None:
        return start | memory_measures(run.estimate.memory, run.estimate.devices)
    return start


def axis_columns(rows: Sequence[Row]) -> list[str]:
    """Return the axes of some rows: the columns in front of the verdict."""
    return [*dict.fromkeys(key for row in rows for key in takewhile("verdict".__ne__, row))]


def data_frame(rows: Sequence[Row]) -> "pd.DataFrame":
    """Return the rows of a study as a frame; values that a row lacks are empty.

    An axis of texts and numbers becomes one of texts, as Parquet requires one type.
    """
    import pandas as pd  # imports in 0.3 s

    axes = axis_columns(rows)
    names = [*axes, "verdict", "why", *_number_columns(rows)]
    for axis in axes:
        if {type(row[axis]) for row in rows if axis in row} - {int, float}:
            rows = [row | {axis: _text(row[axis])} if axis in row else row for row in rows]
    frame = pd.DataFrame(rows, columns=[*dict.fromkeys(names)])
    if "devices" in frame:
        frame["devices"] = frame["devices"].astype("Int64")
    return frame


def _number_columns(rows: Sequence[Row]) -> list[str]:
    """Return the measures that some row has, in the order of the table of measures."""
    present = {key for row in rows for key in row}
    return [name for name in dict.fromkeys(measure.name for measure in ALL) if name in present]


def _text(value: Value) -> str:
    """Return a value as it is written in a scenario."""
    return str(value).lower() if isinstance(value, bool) else str(value)
