"""The front of a sweep: what each further bit of throughput costs in memory or devices."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim import __version__
from clustersim.render.matplotlib.figure import INK, plots, save
from clustersim.studies.sweep.text import UNITS, measured, number, point_of
from clustersim.studies.sweep.told import COST, Row, Told
from clustersim.units import GIB

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

NEAR: Final = 0.95
"""Share of the best rate that the title tells the price of."""

_COSTS: Final = {"memory": "memory of the fullest stage [GiB]", "devices": "devices"}


@dataclass(frozen=True)
class ParetoPicture:
    """What the figure shows, as plain values.

    Attributes
    ----------
    cost, gain : of each layout that fits, in the units of the axes
    front : places of those that no other beats, the cheapest first
    """

    title: str
    caption: str
    cost_label: str
    gain_label: str
    cost: Sequence[float]
    gain: Sequence[float]
    points: Sequence[dict[str, Any]]
    front: Sequence[int]
    best: str
    more_is_better: bool

    def frame(self) -> "pd.DataFrame":
        """Return the data behind the figure."""
        import pandas as pd

        on = {*self.front}
        rows = [
            {**point, self.cost_label: cost, self.gain_label: gain, "on_the_front": i in on}
            for i, (point, cost, gain) in enumerate(
                zip(self.points, self.cost, self.gain, strict=True)
            )
        ]
        return pd.DataFrame(rows)


def pareto_picture(sweep: Told) -> ParetoPicture:
    """Return what the figure of a front shows."""
    places = {each["position"]: i for i, each in enumerate(sweep.ranked)}
    scale = GIB if sweep.against == "memory" else 1.0
    free = sweep.free or [*sweep.axes]
    return ParetoPicture(
        title=_finding(sweep),
        caption=f"{sweep.title}; {len(sweep.ranked):,} of {len(sweep.rows):,} layouts fit;"
        f" clustersim {__version__}",
        cost_label=_COSTS[sweep.against],
        gain_label=UNITS[sweep.by],
        cost=[each[COST[sweep.against]] / scale for each in sweep.ranked],
        gain=[each[sweep.by] for each in sweep.ranked],
        points=[{key: each.get(key) for key in sweep.axes} for each in sweep.ranked],
        front=[places[each["position"]] for each in sweep.front],
        best=point_of(free, sweep.ranked[0]),
        more_is_better=sweep.more_is_better,
    )


def _finding(sweep: Told) -> str:
    """Return what the front says, as a title."""
    best = sweep.front[-1]
    if len(sweep.front) == 1:
        return f"One layout has the best {measured(sweep.by)} and needs the least {sweep.against}"
    near = next(each for each in sweep.front if _share(sweep, each, best) >= NEAR)
    share = 100 * _share(sweep, near, best)
    if near is best:
        near = sweep.front[-2]
        share = 100 * _share(sweep, near, best)
    spent, most = (_cost(sweep, each) for each in (near, best))
    return f"{share:.0f} % of the best {measured(sweep.by)} needs {spent} instead of {most}"


def _share(sweep: Told, one: Row, best: Row) -> float:
    """Return how good a layout is, as a share of the best."""
    ratio = float(one[sweep.by] / best[sweep.by])
    return ratio if ratio <= 1 else 1 / ratio


def _cost(sweep: Told, each: Row) -> str:
    value = each[COST[sweep.against]]
    return f"{value / GIB:.1f} GiB" if sweep.against == "memory" else f"{value:,} devices"


def draw_pareto(picture: ParetoPicture, stem: Path) -> None:
    """Draw all layouts that fit and the front as steps, as ``stem.png`` and ``stem.svg``."""
    with plots(picture.title, picture.caption, 8.0, 1, 3.8, left=0.95) as (figure, found):
        axes = found[0]
        dots: Any = {"linestyle": "none", "color": "0.72", "markersize": 4, "zorder": 1}
        axes.plot(picture.cost, picture.gain, marker="o", label="fits", **dots)
        cost = [picture.cost[i] for i in picture.front]
        gain = [picture.gain[i] for i in picture.front]
        line: Any = {"color": "#1f5a8c", "marker": "o", "markersize": 5, "linewidth": 1.6}
        label = "no other is better for less"
        axes.step(cost, gain, where="post", label=label, zorder=2, **line)
        star: Any = {"color": "#b03a2e", "marker": "*", "markersize": 13, "linestyle": "none"}
        axes.plot(cost[-1:], gain[-1:], label=f"best: {picture.best}", zorder=3, **star)
        _dress(axes, picture)
        save(figure, stem)


def _dress(axes: "Axes", picture: ParetoPicture) -> None:
    """Name the axes, and put the legend where nothing is."""
    axes.set_xlabel(picture.cost_label)
    axes.set_ylabel(picture.gain_label)
    axes.margins(x=0.06, y=0.1)
    if picture.more_is_better:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: number(value))
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.grid(color="0.92", zorder=0)
    axes.legend(frameon=False, fontsize=8, loc="lower right" if picture.more_is_better else "best")


__all__ = ["ParetoPicture", "draw_pareto", "pareto_picture"]
