"""The folder of a validation: its answer, the cases and groups as tables, and two figures."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from clustersim.answers import to_json
from clustersim.render import folder
from clustersim.render.charts.lines import (
    MARKERS,
    Band,
    Lines,
    Series,
    colour_at,
    marker_at,
    reference,
)
from clustersim.render.charts.picture import Axis, Picture, text_table
from clustersim.render.page.page import Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import PAGE, StudyFiles
from clustersim.render.tables import percent
from clustersim.units import counted
from clustersim.validation.answer import Validation
from clustersim.validation.cases.case import LAYOUT
from clustersim.validation.cases.settings import Settings
from clustersim.validation.outcome import CaseAnswer
from clustersim.validation.ranking import JobRanking
from clustersim.validation.summary import ErrorSummary
from clustersim.validation.text import coverage_lines, validation_tables

TABLES: Final = ("cases", "groups", "layouts")
FILES: Final = (
    folder.SUMMARY,
    PAGE,
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


def files_of(answer: Validation, command: str = "") -> StudyFiles:
    """Return the files of a validation; there are figures if a speed was graded."""
    data = to_json(answer)
    groups = [*data["groups"].items(), ("all", data["all"])]
    tables = {
        "cases": _table(data["cases"], CASES),
        "groups": _table(({"group": name, **sums} for name, sums in groups), GROUPS),
        "layouts": _table(data["layouts"], LAYOUTS),
    }
    frames = {f"{name}.{end}": tables[name] for name in TABLES for end in ("csv", "parquet")}
    return StudyFiles(answer, partial(page, answer, command), {}, charts_of(answer), frames)


def charts_of(answer: Validation) -> dict[str, Picture]:
    """Return the figures by name, none if no speed was graded."""
    charts = {"predicted": scatter_chart, "errors": errors_chart} if timed_cases(answer) else {}
    return {name: chart(answer) for name, chart in charts.items()}


def page(answer: Validation, command: str = "") -> Page:
    """Return the page of a validation; `command` is what made it."""
    charts = tuple(map(page_chart, charts_of(answer).values()))
    tables = tuple(
        text_table(table.title, table.headings, rows, f"Find in {_short(table.title)}")
        for table, rows in validation_tables(answer)
    )
    return Page(
        "Predictions of measured cases",
        " ".join(coverage_lines(answer)).rstrip("."),
        (
            Section("Errors", "answer", (), (Cards(tuple(_cards(answer))),)),
            Section("Predicted and measured", "charts", (), charts),
            Section("Tables", "tables", (), tables),
        ),
        command,
    )


def _short(title: str) -> str:
    return title.partition(":")[0].partition(",")[0].lower()


def _cards(answer: Validation) -> Iterator[Card]:
    """Yield the number of cases, and the errors of all together."""
    graded = f"{len(answer.cases) - answer.all.gradable:,} others have no grade"
    yield Card("Graded cases", f"{answer.all.gradable:,} of {len(answer.cases):,}", graded)
    for name, words in (("median_abs_error", "Median error"), ("p90_abs_error", "90th percentile")):
        error = getattr(answer.all, name)
        if error is not None:
            yield Card(words, percent(error), "of the time, whatever its sign")


def _table(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> Any:
    """Return a table of Arrow; a cell without a value is empty."""
    import pyarrow

    schema = pyarrow.schema([(name, pyarrow.type_for_alias(of)) for name, of in columns.items()])
    cells = [{name: _cell(row, name, of) for name, of in columns.items()} for row in rows]
    return pyarrow.Table.from_pylist(cells, schema=schema)


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


TOLERANCE: Final = 0.1
"""Half the width of the band around measured values."""

OTHERS: Final = "others"
"""Name of the groups with fewest runs, which share one look."""


def timed_cases(answer: Validation) -> list[CaseAnswer]:
    """Return the cases whose speed was measured and predicted."""
    return [case for case in answer.cases if case.time_error is not None]


# --- predicted against measured -------------------------------------------------------------------


def scatter_chart(answer: Validation) -> Lines:
    """Return the throughput of each run, predicted against measured."""
    cases = timed_cases(answer)
    rates = [rate for case in cases for rate in _rates(case)]
    ends = min(rates, default=1.0) / 1.3, max(rates, default=1.0) * 1.3
    low, high = (tuple(ratio * end for end in ends) for ratio in (1 - TOLERANCE, 1 + TOLERANCE))
    return Lines(
        title=scatter_finding(answer),
        caption="model FLOPs, without recomputation",
        description="Predicted over measured throughput of a device; most points are near the"
        " diagonal.",
        note="Band: 10 % around measured.",
        contents="predicted and measured throughput",
        x=Axis("measured throughput of a device", "TFLOP/s", 10, limits=ends),
        y=Axis("predicted throughput of a device", "TFLOP/s", 10, limits=ends),
        series=(reference("", ends, ends), *_points(cases)),
        bands=(Band(ends, low, high),),
    )


def scatter_finding(answer: Validation) -> str:
    """Return the median and the 90th percentile of the error, as a title."""
    median, most = (
        percent(error or 0.0) for error in (answer.all.median_abs_error, answer.all.p90_abs_error)
    )
    count = len(timed_cases(answer))
    return f"Step times of {count} runs: median error {median}, 90th percentile {most}"


def _rates(case: CaseAnswer) -> tuple[float, float]:
    """Return the measured and the predicted throughput of a device [TFLOP/s]."""
    return case.tflops_measured or 0.0, case.tflops_predicted or 0.0


def _points(cases: Sequence[CaseAnswer]) -> list[Series]:
    """Return the runs of each group as points, the groups that share a look below the others."""
    names = group_names(cases)
    distinct = dict.fromkeys(name for name in names.values() if name != OTHERS)
    looks = {name: (colour_at(i), marker_at(i)) for i, name in enumerate(distinct)}
    series = []
    for name, look in {OTHERS: ("idle", "circle"), **looks}.items():
        chosen = [case for case in cases if names[case.group] == name]
        if chosen:
            x, y = (tuple(rates) for rates in zip(*map(_rates, chosen), strict=True))
            series.append(Series(name, x, y, *look, "none"))
    return series


def group_names(cases: Sequence[CaseAnswer]) -> dict[str, str]:
    """Return the name under which each group is drawn, the groups of most runs first."""
    groups = [name for name, _ in Counter(case.group for case in cases).most_common()]
    own = len(groups) if len(groups) <= len(MARKERS) else len(MARKERS) - 1
    return {name: name if rank < own else OTHERS for rank, name in enumerate(groups)}


# --- error by group -------------------------------------------------------------------------------

WIDEST: Final = 3.0
"""Factor up to which ratios are drawn; those further off are arrows at the edge."""

RATIOS: Final = (1 / 3, 0.5, 0.7, 0.9, 1.0, 1.1, 1.4, 2.0, 3.0)


def errors_chart(answer: Validation) -> Lines:
    """Return the predicted time of each run over the measured one, a row for each group."""
    groups, cases = groups_by_error(answer), timed_cases(answer)
    rows = {name: float(row) for row, (name, _) in enumerate(groups)}
    points = [(1 + (case.time_error or 0.0), rows[case.group]) for case in cases]
    near = [(x, row) for x, row in points if 1 / WIDEST <= x <= WIDEST]
    low = [(1.03 / WIDEST, row) for x, row in points if x < 1 / WIDEST]
    high = [(WIDEST / 1.03, row) for x, row in points if x > WIDEST]
    ends = len(groups) - 0.4, -0.6
    series = [
        _row_points("runs", near, "series-0", "circle"),
        _row_points("lower", low, "series-1", "triangle-left"),
        _row_points("higher", high, "series-1", "triangle-right"),
    ]
    return Lines(
        title=errors_finding(answer),
        caption="right: mean absolute error, in brackets that of the best-constant baseline",
        description="Predicted over measured time of a step, a row of points for each group.",
        note="Band: 10 %. Arrows: ratios outside the axis.",
        contents="predicted over measured time of a step",
        x=Axis(
            "predicted time of a step over the measured one",
            log=10,
            ticks=tuple((ratio, f"{ratio:.2g}") for ratio in RATIOS),
            limits=(1 / WIDEST, WIDEST),
        ),
        y=Axis("", ticks=tuple((row, name) for name, row in rows.items()), limits=ends),
        series=(
            reference("", (1.0, 1.0), ends),
            *(dots for dots in series if dots.x),
        ),
        bands=(Band((1 / (1 + TOLERANCE), 1 + TOLERANCE), (ends[1],) * 2, (ends[0],) * 2),),
        remarks=tuple((rows[name], _remark(name, errors, cases)) for name, errors in groups),
    )


def _row_points(
    name: str, points: Sequence[tuple[float, float]], colour: str, marker: str
) -> Series:
    x, y = tuple(x for x, _ in points), tuple(row for _, row in points)
    return Series(name, x, y, colour, marker, "none")


def _remark(name: str, errors: ErrorSummary, cases: Sequence[CaseAnswer]) -> str:
    """Return the mean error of a group, that of the baseline, and the number of runs."""
    count = sum(case.group == name for case in cases)
    bracket = f" ({percent(errors.constant.mean_abs_error)})" if errors.constant else ""
    return f"{percent(errors.mean_abs_error or 0.0)}{bracket}, {counted(count, 'run')}"


def groups_by_error(answer: Validation) -> list[tuple[str, ErrorSummary]]:
    """Return the groups with a measured speed, by mean error, the least first."""
    measured = [group for group in answer.groups.items() if group[1].mean_abs_error is not None]
    return sorted(measured, key=lambda group: group[1].mean_abs_error or 0.0)


def errors_finding(answer: Validation) -> str:
    """Return how many groups are predicted better than by the baseline, as a title."""
    pairs = [
        (errors.mean_abs_error or 0.0, errors.constant.mean_abs_error)
        for _, errors in groups_by_error(answer)
        if errors.constant is not None
    ]
    if not pairs:
        return f"Mean error {percent(answer.all.mean_abs_error or 0.0)}; no group has a baseline"
    better = sum(error < baseline for error, baseline in pairs)
    return (
        f"{better} of {len(pairs)} groups are predicted better than by the best-constant baseline"
    )
