"""Charts of a sweep: the best layout at each place of its axes, and the front against a cost.

One axis gives bars, two give a heat map, more give parallel coordinates.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from clustersim.render.charts import (
    Axis,
    Bar,
    Bars,
    Combination,
    Field,
    HeatMap,
    ParallelCoordinates,
    Picture,
    Point,
    ScatterWithFront,
    named_places,
)
from clustersim.render.words import format_setting, short_keys
from clustersim.runs.table import DOES_NOT_FIT, FITS, Row
from clustersim.studies.sweep.answer import COSTS, SweepAnswer
from clustersim.studies.sweep.text import (
    UNITS,
    amount,
    measure_label,
    number,
    point_of,
)
from clustersim.units import GIB

NEAR: Final = 0.95
"""Share of the best rate whose cost is in the title of the front."""

Place = tuple[int, ...]


# --- all layouts ----------------------------------------------------------------------------------


def layouts_chart(sweep: SweepAnswer) -> Picture:
    """Return the best layout at each place of the axes that were chosen."""
    kinds = {1: _bars, 2: _heat_map}
    return kinds.get(len(sweep.chosen), _parallel_coordinates)(sweep)


def _bars(sweep: SweepAnswer) -> Bars:
    (axis,), rows = _axes(sweep), _best_rows(sweep)
    best = _best_place(sweep)
    return Bars(
        title=_finding(sweep),
        caption=sweep.title,
        description=_description(sweep),
        contents=CONTENTS,
        names=axis.label,
        measure=_measure(sweep),
        bars=tuple(
            Bar(
                name,
                _value(sweep, rows.get((i,))),
                _text(sweep, rows.get((i,))),
                "warning" if (i,) == best else "compute",
                _hover(sweep, rows.get((i,))),
            )
            for i, (_, name) in enumerate(axis.ticks)
        ),
    )


def _heat_map(sweep: SweepAnswer) -> HeatMap:
    (down, across), rows = _axes(sweep), _best_rows(sweep)
    best = _best_place(sweep)
    return HeatMap(
        title=_finding(sweep),
        caption=sweep.title,
        description=_description(sweep),
        contents=CONTENTS,
        x=across,
        y=down,
        measure=_measure(sweep),
        fields={(place[0], place[1]): _field(sweep, row) for place, row in rows.items()},
        more_is_better=sweep.more_is_better,
        best=None if best is None else (best[0], best[1]),
        hatched="does not fit: required over available memory",
        empty="invalid",
    )


def _field(sweep: SweepAnswer, row: Row) -> Field:
    hatched = row["verdict"] == DOES_NOT_FIT
    excess = _memory(row) if hatched else None
    value = _value(sweep, row)
    text = number(value) if value is not None else "" if excess is None else f"{excess:.1f} x"
    return Field(value, text, _hover(sweep, row), hatched)


def _parallel_coordinates(sweep: SweepAnswer) -> ParallelCoordinates:
    rows = {place: row for place, row in _best_rows(sweep).items() if row["verdict"] == FITS}
    verdicts = [row["verdict"] for row in _best_rows(sweep).values()]
    unfit = verdicts.count(DOES_NOT_FIT)
    note = f"A line for each of {len(rows):,} layouts that fit, the best in red. Not drawn:"
    note += f" {unfit:,} that do not fit, {len(verdicts) - unfit - len(rows):,}"
    return ParallelCoordinates(
        title=_finding(sweep),
        caption=sweep.title,
        description=_description(sweep),
        note=f"{note} invalid ones.",
        contents=CONTENTS,
        axes=tuple(_axes(sweep)),
        measure=_measure(sweep),
        combinations=tuple(
            Combination(place, row[sweep.by], _hover(sweep, row)) for place, row in rows.items()
        ),
        names=("fits", "best"),
        more_is_better=sweep.more_is_better,
    )


CONTENTS: Final = "best layout for each combination of values"


def _axes(sweep: SweepAnswer) -> list[Axis]:
    """Return the chosen axes, a place for each of their values."""
    names = zip(sweep.chosen, short_keys(sweep.chosen), strict=True)
    return [named_places(name, [*map(format_setting, sweep.axes[key])]) for key, name in names]


def _measure(sweep: SweepAnswer) -> Axis:
    label, _, unit = UNITS[sweep.by].partition(" [")
    return Axis(label, unit.rstrip("]"))


def _best_rows(sweep: SweepAnswer) -> dict[Place, Row]:
    """Return the best row at each place of the axes; ranked rows come before the others."""
    rows: dict[Place, Row] = {}
    for row in [*sweep.fitting, *sorted(sweep.points, key=lambda row: str(row["verdict"]))]:
        place = _place(sweep, row)
        if place is not None:
            rows.setdefault(place, row)
    return rows


def _place(sweep: SweepAnswer, row: Row) -> Place | None:
    """Return the place of a row on the chosen axes; None where it has no value of one."""
    if any(row.get(key) not in sweep.axes[key] for key in sweep.chosen):
        return None
    return tuple(sweep.axes[key].index(row[key]) for key in sweep.chosen)


def _best_place(sweep: SweepAnswer) -> Place | None:
    return _place(sweep, sweep.fitting[0]) if sweep.fitting else None


def _value(sweep: SweepAnswer, row: Row | None) -> float | None:
    return None if row is None or row["verdict"] != FITS else row[sweep.by]


def _memory(row: Row) -> float | None:
    """Return the required memory over the available one."""
    peak = row.get("memory_peak_bytes")
    return None if peak is None else float(peak / row["memory_capacity_bytes"])


def _text(sweep: SweepAnswer, row: Row | None) -> str:
    """Return the value of a row, or why it has none."""
    if row is None:
        return "not requested"
    value, memory = _value(sweep, row), _memory(row)
    if value is not None:
        return number(value)
    if row["verdict"] == DOES_NOT_FIT and memory is not None:
        return f"needs {memory:.1f} x the memory"
    return str(row["verdict"])


def _hover(sweep: SweepAnswer, row: Row | None) -> str:
    if row is None:
        return "not requested"
    values = (format_setting(row.get(key)) for key in sweep.chosen)
    lines = [
        f"{name} {value}" for name, value in zip(short_keys(sweep.chosen), values, strict=True)
    ]
    text = _text(sweep, row)
    label = f"{UNITS[sweep.by]}: {text}" if row["verdict"] == FITS else text
    return "\n".join([*lines, label])


def _finding(sweep: SweepAnswer) -> str:
    """Return the best layout of all, as a title."""
    count = f"{len(sweep.points):,} layouts"
    if not sweep.fitting:
        return f"None of {count} fits"
    best = sweep.fitting[0]
    title = f"Best of {count}: {amount(sweep.by, best[sweep.by])}"
    return f"{title} with {point_of(sweep.chosen, best)}" if len(sweep.chosen) <= 3 else title


def _description(sweep: SweepAnswer) -> str:
    return f"{UNITS[sweep.by]} over {', '.join(short_keys(sweep.chosen))}."


# --- the front ------------------------------------------------------------------------------------

_COSTS: Final = {
    "memory": Axis("memory of the fullest stage", "GiB"),
    "devices": Axis("devices"),
}


def front_chart(sweep: SweepAnswer) -> ScatterWithFront:
    """Return all layouts that fit, and those that no other beats in speed and in cost."""
    places = {row["position"]: i for i, row in enumerate(sweep.fitting)}
    best = point_of(sweep.chosen or [*sweep.axes], sweep.fitting[0])
    cost, gain = _COSTS[sweep.pareto.against], _measure(sweep)
    return ScatterWithFront(
        title=_front_finding(sweep),
        caption=f"{sweep.title}; {len(sweep.fitting):,} of {len(sweep.points):,} layouts fit",
        description=f"{len(sweep.fitting):,} layouts that fit; {len(sweep.front):,} of them have"
        f" the best {gain.label} for their {cost.label}.",
        contents="layouts that no other beats in both",
        x=cost,
        y=Axis(gain.label, gain.unit, zero=sweep.more_is_better),
        points=tuple(
            Point(float(cost), float(row[sweep.by]), _point_text(sweep, row))
            for row, cost in zip(sweep.fitting, costs(sweep), strict=True)
        ),
        front=tuple(places[row["position"]] for row in sweep.front),
        best=0,
        names=("fits", "no other is better at this cost", f"best: {best}"),
    )


def costs(sweep: SweepAnswer) -> list[float]:
    """Return the costs of the layouts that fit, the best layout first, as the axis has them."""
    scale = GIB if sweep.pareto.against == "memory" else 1
    return [row[COSTS[sweep.pareto.against]] / scale for row in sweep.fitting]


def cost_label(sweep: SweepAnswer) -> str:
    """Return the title of the axis of costs."""
    return _COSTS[sweep.pareto.against].title


def _point_text(sweep: SweepAnswer, row: Row) -> str:
    keys = [key for key in sweep.axes if row.get(key) is not None]
    return "\n".join(f"{name} {format_setting(row[key])}" for key, name in _named(keys))


def _named(keys: Sequence[str]) -> Iterable[tuple[str, str]]:
    return zip(keys, short_keys(keys), strict=True)


def _front_finding(sweep: SweepAnswer) -> str:
    """Return the cost of a rate near the best one, as a title."""
    best = sweep.front[-1]
    if len(sweep.front) == 1:
        least = f"the least {sweep.pareto.against}"
        return f"One layout has the best {measure_label(sweep.by)} and needs {least}"
    near = next(row for row in sweep.front if _share(sweep, row, best) >= NEAR)
    near = sweep.front[-2] if near is best else near
    share = 100 * _share(sweep, near, best)
    spent, most = (_cost(sweep, row) for row in (near, best))
    return f"{share:.0f} % of the best {measure_label(sweep.by)} needs {spent} instead of {most}"


def _share(sweep: SweepAnswer, row: Row, best: Row) -> float:
    """Return the rate of a layout as a share of the best."""
    ratio = float(row[sweep.by] / best[sweep.by])
    return ratio if ratio <= 1 else 1 / ratio


def _cost(sweep: SweepAnswer, row: Row) -> str:
    value = row[COSTS[sweep.pareto.against]]
    return f"{value / GIB:.1f} GiB" if sweep.pareto.against == "memory" else f"{value:,} devices"


__all__ = ["cost_label", "costs", "front_chart", "layouts_chart"]
