"""The folder of a validation: its answer, the cases and groups as tables, and two figures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from clustersim.answers import to_json
from clustersim.render import folder
from clustersim.render.matplotlib import write_figure
from clustersim.validation.answer import Validation
from clustersim.validation.cases.case import LAYOUT
from clustersim.validation.cases.settings import Settings
from clustersim.validation.charts import errors_chart, scatter_chart, timed_cases
from clustersim.validation.outcome import CaseAnswer
from clustersim.validation.ranking import JobRanking
from clustersim.validation.summary import ErrorSummary

TABLES: Final = ("cases", "groups", "layouts")
FILES: Final = (
    folder.SUMMARY,
    *(f"{name}.{ending}" for name in TABLES for ending in ("csv", "parquet")),
)
FIGURES: Final = ("predicted", "errors")
"""Files of the verb; the figures with ``--figures``, if a speed was graded."""

COLUMN_TYPES: Final[Mapping[Any, str]] = {
    bool: "bool", int: "int64", float: "float64",
}  # fmt: skip
"""Column types by type of a key; all other keys are text."""
TEXT: Final = "string"


def columns_of(answer: type) -> dict[str, str]:
    """Return the keys of an answer, dotted, with their column types.

    >>> columns_of(JobRanking)["kendall_tau"]
    'float64'
    """
    columns: dict[str, str] = {}
    for name, hint in get_type_hints(answer).items():
        optional = get_origin(hint) is UnionType
        kind = next(k for k in get_args(hint) if k is not type(None)) if optional else hint
        if is_dataclass(kind):
            inner = columns_of(kind)  # type: ignore[arg-type]
            columns |= {f"{name}.{key}": column for key, column in inner.items()}
        else:
            columns[name] = COLUMN_TYPES.get(kind, TEXT)
    return columns


CASES: Final = {
    **{name: column for name, column in columns_of(CaseAnswer).items() if name != "layout"},
    **{f"layout.{name}": columns_of(Settings)[name] for name in LAYOUT},
    "layout.offload": TEXT,
}
GROUPS: Final = {"group": TEXT, **columns_of(ErrorSummary)}
LAYOUTS: Final = columns_of(JobRanking)
"""Columns of the tables; the last row of the groups is of all cases."""


def write_validation(
    answer: Validation, place: Path, *, formats: Sequence[str] = (), force: bool = False
) -> None:
    """Write the answer, its tables and its figures into a folder; no figures without formats.

    Raises
    ------
    ScenarioError
        when the folder already exists, or cannot be written.
    """
    folder.check_free(place, force=force)
    data = to_json(answer)
    with folder.replacing(place) as new:
        drawn = formats if timed_cases(answer) else ()
        files = [*FILES, *(f"{stem}.{format}" for stem in FIGURES for format in drawn)]
        folder.write_summary(data, files, new)
        groups = [*data["groups"].items(), ("all", data["all"])]
        _write(data["cases"], CASES, new / "cases")
        _write(({"group": name, **sums} for name, sums in groups), GROUPS, new / "groups")
        _write(data["layouts"], LAYOUTS, new / "layouts")
        if drawn:
            charts = scatter_chart(answer), errors_chart(answer)
            for chart, stem in zip(charts, FIGURES, strict=True):
                write_figure(chart, new / stem, drawn)


def _write(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], stem: Path) -> None:
    """Write a table as CSV and as Parquet; a cell without a value is empty."""
    import pyarrow
    from pyarrow import csv, parquet

    schema = pyarrow.schema([(name, pyarrow.type_for_alias(of)) for name, of in columns.items()])
    cells = [{name: _cell(row, name, of) for name, of in columns.items()} for row in rows]
    table = pyarrow.Table.from_pylist(cells, schema=schema)
    csv.write_csv(table, stem.with_suffix(".csv"))
    parquet.write_table(table, stem.with_suffix(".parquet"), compression="zstd")


def _cell(row: Mapping[str, Any], name: str, of: str) -> Any:
    """Return the value of a dotted key; lists and mappings in a column of words as one text."""
    value: Any = row
    for key in name.split("."):
        value = None if value is None else value.get(key)
    if of == TEXT and isinstance(value, list):
        return " ".join(value)
    if of == TEXT and isinstance(value, Mapping):
        return "; ".join(f"{key}: {why}" for key, why in value.items())
    return value if value is None or of != TEXT else str(value)
