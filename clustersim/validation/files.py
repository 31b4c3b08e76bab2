"""The folder of a validation: its answer, the cases and groups as tables, and two figures."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clustersim.answers import to_json
from clustersim.render import folder
from clustersim.render.matplotlib import write_figure
from clustersim.validation.answer import Validation
from clustersim.validation.charts import errors_chart, scatter_chart, timed_cases

TABLES: Final = ("cases", "groups", "layouts")
FILES: Final = (
    folder.SUMMARY,
    *(f"{name}.{ending}" for name in TABLES for ending in ("csv", "parquet")),
)
FIGURES: Final = ("predicted", "errors")
"""Files of the verb; the figures with ``--figures``, if a speed was graded."""

WORD, NUMBER, WHOLE, TRUTH = "string", "float64", "int64", "bool"

CASES: Final[Mapping[str, str]] = {
    "id": WORD, "group": WORD, "gradable": TRUTH, "why": WORD, "metric": WORD, "convention": WORD,
    "measured": NUMBER, "predicted": NUMBER, "error": NUMBER, "time_error": NUMBER,
    "memory_measured": NUMBER, "memory_predicted": NUMBER, "memory_error": NUMBER, "fits": TRUTH,
    "confidence": WORD, "gates": TRUTH, "cluster": WORD, "machine_assumed": WORD,
    "framework": WORD, "framework_assumed": WORD, "assumed": WORD, "devices": WHOLE,
    "tflops_measured": NUMBER, "tflops_predicted": NUMBER, "layout.tensor": WHOLE,
    "layout.pipeline": WHOLE, "layout.data": WHOLE, "layout.context": WHOLE, "layout.expert": WHOLE,
    "layout.chunks": WHOLE, "layout.schedule": WORD, "layout.zero": WHOLE,
    "layout.shard": WHOLE, "layout.reshard": TRUTH, "layout.micro": WHOLE,
    "layout.sequence_parallel": TRUTH, "layout.recompute": WORD, "layout.offload": WORD,
    "wall_s": NUMBER,
}  # fmt: skip
"""Columns of the cases, each a key of ``--json``, and their types."""

GROUPS: Final[Mapping[str, str]] = {
    "group": WORD, "count": WHOLE, "gradable": WHOLE, "gating": WHOLE, "mean_abs_error": NUMBER,
    "median_abs_error": NUMBER, "p90_abs_error": NUMBER, "gating_mean_abs_error": NUMBER,
    "worst": NUMBER, "worst_id": WORD, "bias": NUMBER, "constant.tflops": NUMBER,
    "constant.convention": WORD, "constant.count": WHOLE, "constant.mean_abs_error": NUMBER,
    "constant.median_abs_error": NUMBER, "constant.p90_abs_error": NUMBER,
    "constant.worst": NUMBER, "layouts.sets": WHOLE, "layouts.runs": WHOLE,
    "layouts.kendall_tau": NUMBER, "layouts.kendall_tau_group": NUMBER, "layouts.regret": NUMBER,
    "layouts.worst_regret": NUMBER, "layouts.worst_id": WORD, "layouts.blind_regret": NUMBER,
    "memory_count": WHOLE, "memory_mean_abs_error": NUMBER, "memory_bias": NUMBER,
    "memory_worst": NUMBER, "memory_worst_id": WORD, "called_out_of_memory": WHOLE,
}  # fmt: skip
"""Columns of the groups; the last row is of all cases."""

LAYOUTS: Final[Mapping[str, str]] = {
    "group": WORD, "cases": WORD, "kendall_tau": NUMBER, "fastest": WORD, "chosen": WORD,
    "regret": NUMBER, "blind_regret": NUMBER,
}  # fmt: skip
"""Columns of the jobs that were measured in several layouts."""


def write(
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
    if of == WORD and isinstance(value, list):
        return " ".join(value)
    if of == WORD and isinstance(value, Mapping):
        return "; ".join(f"{key}: {why}" for key, why in value.items())
    return value if value is None or of != WORD else str(value)


__all__ = ["FIGURES", "FILES", "write"]
