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
from clustersim.studies.sweep.text import UNITS, amount, measured, number, point_of, short, str_of
from clustersim.studies.sweep.told import COST, DOES_NOT_FIT, FITS, Row, Told
from clustersim.units import GIB

NEAR: Final = 0.95
"""Share of the best rate whose cost is in the title of the front."""

Place = tuple[int, ...]


# --- all layouts ----------------------------------------------------------------------------------


def layouts_chart(sweep: Told) -> Picture:
    """Return the best layout at each place of the axes that were chosen."""
    kinds = {1: _bars, 2: _heat_map}
    return kinds.get(len(sweep.free), _parallel_coordinates)(sweep)


def _bars(sweep: Told) -> Bars:
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
                "alarm" if (i,) == best else "compute",
                _hover(sweep, rows.get((i,))),
            )
            for i, (_, name) in enumerate(axis.ticks)
        ),
    )


def _heat_map(sweep: Told) -> HeatMap:
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


def _field(sweep: Told, row: Row) -> Field:
    hatched = row["verdict"] == DOES_NOT_FIT
    excess = _memory(row) if hatched else None
    value = _value(sweep, row)
    text = number(value) if value is not None else "" if excess is None else f"{excess:.1f} x"
    return Field(value, text, _hover(sweep, row), hatched)


def _parallel_coordinates(sweep: Told) -> ParallelCoordinates:
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


def _axes(sweep: Told) -> list[Axis]:
    """Return the chosen axes, a place for each of their values."""
    names = zip(sweep.free, short(sweep.free), strict=True)
    return [named_places(name, [*map(str_of, sweep.axes[key])]) for key, name in names]


def _measure(sweep: Told) -> Axis:
    label, _, unit = UNITS[sweep.by].partition(" [")
    return Axis(label, unit.rstrip("]"))


def _best_rows(sweep: Told) -> dict[Place, Row]:
    """Return the best row at each place of the axes; ranked rows come before the others."""
    rows: dict[Place, Row] = {}
    for row in [*sweep.ranked, *sorted(sweep.rows, key=lambda row: str(row["verdict"]))]:
        place = _place(sweep, row)
        if place is not None:
            rows.setdefault(place, row)
    return rows


def _place(sweep: Told, row: Row) -> Place | None:
    """Return the place of a row on the chosen axes; None where it has no value of one."""
    if any(row.get(key) not in sweep.axes[key] for key in sweep.free):
        return None
    return tuple(sweep.axes[key].index(row[key]) for key in sweep.free)


def _best_place(sweep: Told) -> Place | None:
    return _place(sweep, sweep.ranked[0]) if sweep.ranked else None


def _value(sweep: Told, row: Row | None) -> float | None:
    return None if row is None or row["verdict"] != FITS else row[sweep.by]


def _memory(row: Row) -> float | None:
    """Return the required memory over the available one."""
    peak = row.get("memory_peak_bytes")
    return None if peak is None else float(peak / row["memory_capacity_bytes"])


def _text(sweep: Told, row: Row | None) -> str:
    """Return the value of a row, or why it has none."""
    if row is None:
        return "not requested"
    value, memory = _value(sweep, row), _memory(row)
    if value is not None:
        return number(value)
    if row["verdict"] == DOES_NOT_FIT and memory is not None:
        return f"needs {memory:.1f} x the memory"
    return str(row["verdict"])


def _hover(sweep: Told, row: Row | None) -> str:
    if row is None:
        return "not requested"
    values = (str_of(row.get(key)) for key in sweep.free)
    lines = [f"{name} {value}" for name, value in zip(short(sweep.free), values, strict=True)]
    text = _text(sweep, row)
    label = f"{UNITS[sweep.by]}: {text}" if row["verdict"] == FITS else text
    return "\n".join([*lines, label])


def _finding(sweep: Told) -> str:
    """Return the best layout of all, as a title."""
    count = f"{len(sweep.rows):,} layouts"
    if not sweep.ranked:
        return f"None of {count} fits"
    best = sweep.ranked[0]
    title = f"Best of {count}: {amount(sweep.by, best[sweep.by])}"
    return f"{title} with {point_of(sweep.free, best)}" if len(sweep.free) <= 3 else title


def _description(sweep: Told) -> str:
    return f"{UNITS[sweep.by]} over {', '.join(short(sweep.free))}."


# --- the front ------------------------------------------------------------------------------------

_COSTS: Final = {
    "memory": Axis("memory of the fullest stage", "GiB"),
    "devices": Axis("devices"),
}


def front_chart(sweep: Told) -> ScatterWithFront:
    """Return all layouts that fit, and those that no other beats in speed and in cost."""
    places = {row["position"]: i for i, row in enumerate(sweep.ranked)}
    best = point_of(sweep.free or [*sweep.axes], sweep.ranked[0])
    cost, gain = _COSTS[sweep.against], _measure(sweep)
    return ScatterWithFront(
        title=_front_finding(sweep),
        caption=f"{sweep.title}; {len(sweep.ranked):,} of {len(sweep.rows):,} layouts fit",
        description=f"{len(sweep.ranked):,} layouts that fit; {len(sweep.front):,} of them have the"
        f" best {gain.label} for their {cost.label}.",
        contents="layouts that no other beats in both",
        x=cost,
        y=Axis(gain.label, gain.unit, zero=sweep.more_is_better),
        points=tuple(
            Point(float(cost), float(row[sweep.by]), _point_text(sweep, row))
            for row, cost in zip(sweep.ranked, costs(sweep), strict=True)
        ),
        front=tuple(places[row["position"]] for row in sweep.front),
        best=0,
        names=("fits", "no other is better at this cost", f"best: {best}"),
    )


def costs(sweep: Told) -> list[float]:
    """Return the costs of the layouts that fit, the best layout first, as the axis has them."""
    scale = GIB if sweep.against == "memory" else 1
    return [row[COST[sweep.against]] / scale for row in sweep.ranked]


def cost_label(sweep: Told) -> str:
    """Return the title of the axis of costs."""
    return _COSTS[sweep.against].title


def _point_text(sweep: Told, row: Row) -> str:
    keys = [key for key in sweep.axes if row.get(key) is not None]
    return "\n".join(f"{name} {str_of(row[key])}" for key, name in _named(keys))


def _named(keys: Sequence[str]) -> Iterable[tuple[str, str]]:
    return zip(keys, short(keys), strict=True)


def _front_finding(sweep: Told) -> str:
    """Return the cost of a rate near the best one, as a title."""
    best = sweep.front[-1]
    if len(sweep.front) == 1:
        return f"One layout has the best {measured(sweep.by)} and needs the least {sweep.against}"
    near = next(row for row in sweep.front if _share(sweep, row, best) >= NEAR)
    near = sweep.front[-2] if near is best else near
    share = 100 * _share(sweep, near, best)
    spent, most = (_cost(sweep, row) for row in (near, best))
    return f"{share:.0f} % of the best {measured(sweep.by)} needs {spent} instead of {most}"


def _share(sweep: Told, row: Row, best: Row) -> float:
    """Return the rate of a layout as a share of the best."""
    ratio = float(row[sweep.by] / best[sweep.by])
    return ratio if ratio <= 1 else 1 / ratio


def _cost(sweep: Told, row: Row) -> str:
    value = row[COST[sweep.against]]
    return f"{value / GIB:.1f} GiB" if sweep.against == "memory" else f"{value:,} devices"


__all__ = ["cost_label", "costs", "front_chart", "layouts_chart"]
