"""Parallel coordinates: a line for each layout that fits, from value to value, to its measure."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim.render.matplotlib.figure import plots, save
from clustersim.studies.sweep.picture import BEST, SweepPicture, blue, share_of
from clustersim.studies.sweep.text import number
from clustersim.studies.sweep.told import DOES_NOT_FIT, FITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH: Final = 8.0
"""Of the figure [inches]."""

SHOWN: Final = 2_000
"""Lines that are drawn at most, the best ones."""


def parallel(picture: SweepPicture, stem: Path) -> None:
    """Draw a line for each layout that fits through its values to its measure."""
    with plots(picture.title, picture.caption, WIDTH, 1, 4.0, left=0.5) as (figure, found):
        axes = found[0]
        rates = sorted(
            ((cell.measure, place) for place, cell in picture.cells.items() if cell.measure),
            reverse=not picture.more_is_better,
        )[-SHOWN:]
        scale = ([rate for rate, _ in rates], picture.more_is_better)
        sizes = [len(values) for values in picture.values.values()]
        for rate, place in rates:  # the best last, on top
            share = share_of(rate, *scale)
            heights = [*map(_height, place, sizes), share]
            spread = [h + 0.03 * (share - 0.5) for h in heights[:-1]]
            look: Any = {"color": blue(0.3 + 0.7 * share), "linewidth": 0.8, "alpha": 0.6}
            if place == picture.best:
                look = {"color": BEST, "linewidth": 2.2, "zorder": 5, "label": "the best"}
            axes.plot(range(len(heights)), [*spread, share], **look)
        _posts(axes, picture, scale[0])
        _say_counts(axes, picture, len(rates))
        save(figure, stem)


def _height(place: int, size: int) -> float:
    return place / (size - 1) if size > 1 else 0.5


def _posts(axes: "Axes", picture: SweepPicture, rates: Sequence[float]) -> None:
    """Draw an upright for each axis with its values, and one for the measure."""
    for x, (name, values) in enumerate(picture.values.items()):
        axes.plot([x, x], [0, 1], color="0.4", linewidth=0.8, zorder=3)
        step = max(1, len(values) // 12)
        for i, value in [*enumerate(values)][::step]:
            _tag(axes, x, _height(i, len(values)), value, chosen=_is_best(picture, x, i))
        axes.text(x, 1.06, name.replace(" ", "\n"), ha="center", va="bottom", size=9)
    x = len(picture.values)
    axes.plot([x, x], [0, 1], color="0.4", linewidth=0.8, zorder=3)
    if rates:
        ends = (min(rates), max(rates))
        worst, best = ends if picture.more_is_better else ends[::-1]
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            text = number(worst + share * (best - worst))
            axes.text(x + 0.06, share, text, va="center", size=8)
    axes.text(x, 1.06, picture.label.replace(" [", "\n["), ha="center", va="bottom", size=9)
    axes.set_xlim(-0.35, x + 0.75)
    axes.set_ylim(-0.12, 1.2)
    axes.axis("off")


def _tag(axes: "Axes", x: int, y: float, text: str, *, chosen: bool) -> None:
    plate: Any = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    look: Any = {"color": BEST, "weight": "bold"} if chosen else {"color": "0.15"}
    axes.text(x - 0.05, y, text, ha="right", va="center", size=8, bbox=plate, zorder=6, **look)


def _is_best(picture: SweepPicture, axis: int, place: int) -> bool:
    return picture.best is not None and picture.best[axis] == place


def _say_counts(axes: "Axes", picture: SweepPicture, drawn: int) -> None:
    """Say which layouts have no line."""
    verdicts = [cell.verdict for cell in picture.cells.values()]
    unfit = verdicts.count(DOES_NOT_FIT)
    said = f"{drawn:,} layouts that fit, a line each, the darker the better; the best is red"
    said += (
        f"; not drawn: {unfit:,} that do not fit, {len(verdicts) - unfit - verdicts.count(FITS):,}"
    )
    axes.text(-0.3, -0.1, f"{said} that cannot be", size=8, color="0.35", va="top")


__all__ = ["parallel"]
