"""Charts of a sweep: the best layout at each place of its axes, and the front against a cost.

One axis gives bars, two give a heat map, more give parallel coordinates.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from clustersim.memory.room import EXCEEDING, FITTING, TIGHT
from clustersim.render.charts.bars import Bar, Bars
from clustersim.render.charts.grids import Combination, Field, HeatMap, ParallelCoordinates
from clustersim.render.charts.lines import ScatterWithFront
from clustersim.render.charts.picture import Axis, Picture, named_places
from clustersim.render.tables import format_setting, short_keys
from clustersim.reports.fronts import FrontLayout, front_chart
from clustersim.reports.measures import amount
from clustersim.runs.table import Row
from clustersim.runs.variants import Value
from clustersim.studies.sweep.answer import SweepAnswer
from clustersim.studies.sweep.text import point_of
from clustersim.units import format_number

Place = tuple[int, ...]


# --- all layouts ----------------------------------------------------------------------------------


def layouts_chart(answer: SweepAnswer) -> Picture:
    """Return the best layout at each place of the axes that were chosen."""
    kinds = {1: _bars, 2: _heat_map}
    return kinds.get(len(answer.chosen), _parallel_coordinates)(answer)


def _bars(answer: SweepAnswer) -> Bars:
    (axis,), rows = _axes(answer), _best_rows(answer)
    best = _best_place(answer)
    return Bars(
        **_words(answer),
        names=axis.label,
        measure=_measure(answer),
        bars=tuple(
            Bar(
                name,
                _value(answer, rows.get((i,))),
                _text(answer, rows.get((i,))),
                "warning" if (i,) == best else "compute",
                _hover(answer, rows.get((i,))),
            )
            for i, (_, name) in enumerate(axis.ticks)
        ),
    )


def _heat_map(answer: SweepAnswer) -> HeatMap:
    (down, across), rows = _axes(answer), _best_rows(answer)
    best = _best_place(answer)
    return HeatMap(
        **_words(answer),
        x=across,
        y=down,
        measure=_measure(answer),
        fields={(place[0], place[1]): _field(answer, row) for place, row in rows.items()},
        more_is_better=bool(answer.measure.more_is_better),
        best=None if best is None else (best[0], best[1]),
        hatched="does not fit: required over available memory",
        empty="invalid",
    )


def _field(answer: SweepAnswer, row: Row) -> Field:
    hatched = row["verdict"] in EXCEEDING
    excess = _memory(row) if hatched else None
    value = _value(answer, row)
    text = (
        format_number(value) if value is not None else "" if excess is None else f"{excess:.1f} x"
    )
    return Field(value, text, _hover(answer, row), hatched)


def _parallel_coordinates(answer: SweepAnswer) -> ParallelCoordinates:
    rows = {place: row for place, row in _best_rows(answer).items() if row["verdict"] in FITTING}
    verdicts = [row["verdict"] for row in _best_rows(answer).values()]
    keys = [key for key in answer.varying if rows and all(key in row for row in rows.values())]
    keys = keys or answer.chosen
    values = {key: _values(answer, key) for key in keys}
    unfit = sum(verdict in EXCEEDING for verdict in verdicts)
    note = f"A line for each of {len(rows):,} layouts that fit, the best in red. Not drawn:"
    note += f" {unfit:,} that do not fit, {len(verdicts) - unfit - len(rows):,}"
    return ParallelCoordinates(
        **_words(answer),
        note=f"{note} invalid ones.",
        axes=tuple(
            named_places(
                f"{name} (filled)" if key in answer.filled else name,
                [*map(format_setting, values[key])],
            )
            for key, name in keys_with_names(keys)
        ),
        measure=_measure(answer),
        combinations=tuple(
            Combination(
                tuple(values[key].index(row[key]) for key in keys),
                row[answer.by],
                _hover(answer, row),
            )
            for row in rows.values()
        ),
        names=("fits", "best"),
        more_is_better=bool(answer.measure.more_is_better),
    )


def _values(answer: SweepAnswer, key: str) -> list[Value]:
    """Return the values of an axis; of one that is filled those of layouts that fit, sorted."""
    if key not in answer.filled:
        return [*answer.axes[key]]
    return sorted({row[key] for row in answer.fitting if key in row}, key=float)


def _words(answer: SweepAnswer) -> dict[str, Any]:
    """Return what charts of all layouts are called, whatever the number of their axes."""
    return {
        "title": _finding(answer),
        "caption": answer.title,
        "description": f"{answer.measure.axis} over {', '.join(short_keys(answer.chosen))}.",
        "contents": "best layout for each combination of values",
    }


def _axes(answer: SweepAnswer) -> list[Axis]:
    """Return the chosen axes, a place for each of their values."""
    names = zip(answer.chosen, short_keys(answer.chosen), strict=True)
    return [named_places(name, [*map(format_setting, answer.axes[key])]) for key, name in names]


def _measure(answer: SweepAnswer) -> Axis:
    return Axis(answer.measure.label, answer.measure.unit)


def _best_rows(answer: SweepAnswer) -> dict[Place, Row]:
    """Return the best row at each place of the axes; ranked rows come before the others."""
    rows: dict[Place, Row] = {}
    for row in [*answer.fitting, *sorted(answer.points, key=lambda row: str(row["verdict"]))]:
        place = _place(answer, row)
        if place is not None:
            rows.setdefault(place, row)
    return rows


def _place(answer: SweepAnswer, row: Row) -> Place | None:
    """Return the place of a row on the chosen axes; None where it has no value of one."""
    if any(row.get(key) not in answer.axes[key] for key in answer.chosen):
        return None
    return tuple(answer.axes[key].index(row[key]) for key in answer.chosen)


def _best_place(answer: SweepAnswer) -> Place | None:
    return _place(answer, answer.fitting[0]) if answer.fitting else None


def _value(answer: SweepAnswer, row: Row | None) -> float | None:
    return None if row is None or row["verdict"] not in FITTING else row.get(answer.by)


def _memory(row: Row) -> float | None:
    """Return the required memory over the available one."""
    peak = row.get("memory_peak_bytes")
    return None if peak is None else float(peak / row["memory_capacity_bytes"])


def _text(answer: SweepAnswer, row: Row | None) -> str:
    """Return the value of a row, or why it has none."""
    if row is None:
        return "not requested"
    value, memory = _value(answer, row), _memory(row)
    if value is not None:
        return format_number(value)
    if row["verdict"] in EXCEEDING and memory is not None:
        return f"needs {memory:.1f} x the memory"
    return str(row["verdict"])


def _hover(answer: SweepAnswer, row: Row | None) -> str:
    if row is None:
        return "not requested"
    keys = [key for key in answer.varying if row.get(key) is not None]
    lines = [f"{name} {format_setting(row[key])}" for key, name in keys_with_names(keys)]
    text = _text(answer, row)
    label = f"{answer.measure.axis}: {text}" if row["verdict"] in FITTING else text
    tight = ["memory: tight"] if row["verdict"] == TIGHT else []
    return "\n".join([*lines, label, *tight])


def _finding(answer: SweepAnswer) -> str:
    """Return the best layout of all, as a title."""
    count = f"{len(answer.points):,} layouts"
    if not answer.fitting:
        return f"None of {count} fits"
    best = answer.fitting[0]
    title = f"Best of {count}: {amount(answer.measure, best[answer.by])}"
    return f"{title} with {point_of(answer.chosen, best)}" if len(answer.chosen) <= 3 else title


# --- the front ------------------------------------------------------------------------------------


def sweep_front(answer: SweepAnswer) -> ScatterWithFront:
    """Return all layouts that fit, and those on the Pareto front."""
    known = with_cost(answer)
    places = {row["position"]: i for i, row in enumerate(known)}
    return front_chart(
        [FrontLayout(row, _point_text(answer, row)) for row in known],
        [places[row["position"]] for row in answer.front],
        answer.measure,
        answer.cost,
        title=answer.title,
        best=f"best: {point_of(answer.chosen or [*answer.axes], answer.fitting[0])}",
    )


def with_cost(answer: SweepAnswer) -> list[Row]:
    """Return the layouts that fit and whose cost is known, the best first."""
    return [row for row in answer.fitting if answer.cost.name in row]


def _point_text(answer: SweepAnswer, row: Row) -> str:
    keys = [key for key in answer.axes if row.get(key) is not None]
    return "\n".join(f"{name} {format_setting(row[key])}" for key, name in keys_with_names(keys))


def keys_with_names(keys: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Return keys, each with its short name."""
    return zip(keys, short_keys(keys), strict=True)
