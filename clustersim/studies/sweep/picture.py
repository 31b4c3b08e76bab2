"""What the figure of a sweep shows, as plain values: the best layout in each place of its axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clustersim import __version__
from clustersim.studies.sweep.text import UNITS, amount, point_of, short, str_of
from clustersim.studies.sweep.told import FITS, Row, Told

BEST: Final = "#b03a2e"
BLUES: Final = ("#eaf2f8", "#b9d3e6", "#7fb0d3", "#4a8abb", "#1f5a8c")


@dataclass(frozen=True)
class SweepPicture:
    """What the figure shows, as plain values.

    Attributes
    ----------
    values : of each axis, by its name, in order
    cells : for each combination of places on the axes, the best layout there: its verdict, the
        measure if it fits, and the memory that it needs over what there is
    best : places of the best layout; None where none fits
    """

    title: str
    caption: str
    label: str
    more_is_better: bool
    values: Mapping[str, Sequence[str]]
    cells: Mapping[tuple[int, ...], "Cell"]
    best: tuple[int, ...] | None


@dataclass(frozen=True)
class Cell:
    """One combination: its verdict, its measure, its memory over the capacity."""

    verdict: str
    measure: float | None
    memory: float | None


def sweep_picture(sweep: Told) -> SweepPicture:
    """Return what the figure of a sweep shows."""
    keys = sweep.free
    cells: dict[tuple[int, ...], Cell] = {}
    ordered = [*sweep.ranked, *sorted(sweep.rows, key=lambda each: each["verdict"])]
    for each in ordered:  # those that fit first, the best of them before the others
        place = _place(sweep.axes, keys, each)
        if place is not None:
            cells.setdefault(place, _cell(each, sweep.by))
    best = sweep.ranked[0] if sweep.ranked else None
    return SweepPicture(
        title=_finding(sweep),
        caption=f"{sweep.title}; clustersim {__version__}",
        label=UNITS[sweep.by],
        more_is_better=sweep.more_is_better,
        values={
            name: [str_of(value) for value in sweep.axes[key]]
            for key, name in zip(keys, short(keys), strict=True)
        },
        cells=cells,
        best=None if best is None else _place(sweep.axes, keys, best),
    )


def _place(axes: Mapping[str, list[Any]], keys: Sequence[str], each: Row) -> tuple[int, ...] | None:
    """Return where a row stands on the axes; nowhere if it leaves one of them alone."""
    if any(each.get(key) not in axes[key] for key in keys):
        return None
    return tuple(axes[key].index(each[key]) for key in keys)


def _cell(each: Row, by: str) -> Cell:
    fits = each["verdict"] == FITS
    peak = each.get("memory_peak_bytes")
    memory = None if peak is None else peak / each["memory_capacity_bytes"]
    return Cell(each["verdict"], each[by] if fits else None, memory)


def _finding(sweep: Told) -> str:
    """Return what the figure says, as a title."""
    count = f"{len(sweep.rows):,} layouts"
    if not sweep.ranked:
        return f"None of {count} fits"
    best = sweep.ranked[0]
    said = f"Best of {count}: {amount(sweep.by, best[sweep.by])}"
    return f"{said} with {point_of(sweep.free, best)}" if len(sweep.free) <= 3 else said


def share_of(value: float, among: Sequence[float], more_is_better: bool) -> float:
    """Return where a value stands between the worst and the best of those that fit."""
    low, high = min(among), max(among)
    share = (value - low) / (high - low) if high > low else 1.0
    return share if more_is_better else 1 - share


def blue(share: float) -> Any:
    """Return the colour of a share: pale for 0, dark for 1."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("rate", BLUES)(share)


__all__ = ["BEST", "BLUES", "Cell", "SweepPicture", "blue", "share_of", "sweep_picture"]
