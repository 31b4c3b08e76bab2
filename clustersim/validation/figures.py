"""The figures of `clustersim validate`: predicted against measured, and the error by group.

Both show what was reached on each device, or the time of a step, as a ratio: a factor too much and
the same factor too little are as far from the line.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim import __version__
from clustersim.render.matplotlib.figure import INK, OPTIONS, plots, save
from clustersim.render.tables import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = Mapping[str, Any]

COLOURS: Final = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8c564b", "#5e3c99",
    "#7f9a00", "#111111",
)  # fmt: skip
MARKERS: Final = "os^Dv<>Phd"
"""Of the groups with most runs, one pair each; all others share one."""

OTHERS: Final[Mapping[str, Any]] = {"color": "0.65", "marker": ".", "label": "others"}
BAND: Final = 0.1
"""Half the width of the band around what was measured."""


def runs(answer: Values) -> list[Values]:
    """Return the cases whose speed was measured and predicted."""
    return [case for case in answer["cases"] if case["time_error"] is not None]


def looks(cases: Sequence[Values]) -> dict[str, Mapping[str, Any]]:
    """Return how the runs of each group are drawn, those of most runs first."""
    found = [name for name, _ in Counter(case["group"] for case in cases).most_common()]
    styles = zip(COLOURS, MARKERS, strict=True)
    drawn = [{"color": colour, "marker": marker} for colour, marker in styles]
    own = len(found) if len(found) <= len(drawn) else len(drawn) - 1
    return {
        name: {**drawn[place], "label": name} if place < own else OTHERS
        for place, name in enumerate(found)
    }


# --- predicted against measured -------------------------------------------------------------------


def scatter_finding(answer: Values) -> str:
    """Return what the first figure shows, as its title."""
    sums = answer["all"]
    half, most = percent(sums["median_abs_error"]), percent(sums["p90_abs_error"])
    return (
        f"Half of {len(runs(answer))} runs are predicted within {half}, nine of ten within {most}"
    )


def draw_scatter(answer: Values, stem: Path) -> None:
    """Draw the throughput of each run, predicted against measured."""
    cases = [case for case in runs(answer) if case["tflops_measured"] is not None]
    caption = (
        f"clustersim {__version__}; model FLOPs, without recomputation; band: 10 % around measured"
    )
    with plots(scatter_finding(answer), caption, 8.4, 1, 6.2) as (figure, places):
        axes = places[0]
        rates = [case[f"tflops_{key}"] for case in cases for key in ("measured", "predicted")]
        low, high = min(rates, default=1.0) / 1.3, max(rates, default=1.0) * 1.3
        _band(axes, low, high)
        for look, mine in _by_look(cases):
            measured = [case["tflops_measured"] for case in mine]
            predicted = [case["tflops_predicted"] for case in mine]
            axes.plot(measured, predicted, linestyle="none", markersize=5, alpha=0.75, **look)
        axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
        axes.set_xlabel("measured throughput of a device [TFLOP/s]")
        axes.set_ylabel("predicted throughput of a device [TFLOP/s]")
        _plain_ticks(axes)
        handles, names = axes.get_legend_handles_labels()
        last = [name == OTHERS["label"] for name in names]
        order = sorted(range(len(names)), key=last.__getitem__)
        axes.legend(
            [handles[i] for i in order],
            [names[i] for i in order],
            loc="lower right",
            frameon=False,
            fontsize=8,
        )
        save(figure, stem, [*OPTIONS])


def _by_look(cases: Sequence[Values]) -> list[tuple[Mapping[str, Any], list[Values]]]:
    """Return runs that are drawn alike together, the grey ones first, below the others."""
    found = looks(cases)
    drawn = list({id(look): look for look in found.values()}.values())
    drawn.sort(key=lambda look: look is not OTHERS)
    return [(look, [c for c in cases if found[c["group"]] is look]) for look in drawn]


def _band(axes: "Axes", low: float, high: float) -> None:
    ends = [low, high]
    axes.fill_between(
        ends, [(1 - BAND) * end for end in ends], [(1 + BAND) * end for end in ends], color="0.9"
    )
    axes.plot(ends, ends, color=INK, linewidth=0.8)
    axes.grid(color="0.93", linewidth=0.6)
    axes.set_axisbelow(True)


def _plain_ticks(axes: "Axes") -> None:
    """Name 1, 2 and 5 of each decade as people write them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.spines[["top", "right"]].set_visible(False)


# --- error by group -------------------------------------------------------------------------------


def groups_drawn(answer: Values) -> list[tuple[str, Values]]:
    """Return the groups with a measured speed, by mean error, the least first."""
    found = [(n, g) for n, g in answer["groups"].items() if g["mean_abs_error"] is not None]
    return sorted(found, key=lambda item: item[1]["mean_abs_error"])


def errors_finding(answer: Values) -> str:
    """Return what the second figure shows, as its title."""
    rivals = [sums for _, sums in groups_drawn(answer) if sums["constant"] is not None]
    if not rivals:
        return f"Mean error {percent(answer['all']['mean_abs_error'])}; no group has a rival"
    won = sum(sums["mean_abs_error"] < sums["constant"]["mean_abs_error"] for sums in rivals)
    return f"{won} of {len(rivals)} groups are predicted better than by their best constant"


WIDEST: Final = 3.0
"""Factor up to which ratios are drawn; what is further off stands at the edge, as an arrow."""


def draw_errors(answer: Values, stem: Path) -> None:
    """Draw each run's predicted time over the measured one, a row for each group."""
    groups, cases = groups_drawn(answer), runs(answer)
    caption = (
        f"clustersim {__version__}; right: mean absolute error of each group, and in brackets that"
        " of one constant throughput, the best there is for its runs; band: 10 %"
    )
    height = 0.21 * max(len(groups), 4)
    with plots(errors_finding(answer), caption, 10.0, 1, height, left=2.1) as (figure, places):
        axes = places[0]
        left, bottom, width, tall = axes.get_position().bounds
        axes.set_position((left, bottom, width * 0.8, tall))
        axes.axvspan(1 / (1 + BAND), 1 + BAND, color="0.9")
        axes.axvline(1, color=INK, linewidth=0.8)
        for row, (name, sums) in enumerate(groups):
            _draw_row(axes, row, [case for case in cases if case["group"] == name], sums)
        _label_rows(axes, [name for name, _ in groups])
        save(figure, stem, [*OPTIONS])


def _draw_row(axes: "Axes", row: int, cases: Sequence[Values], sums: Values) -> None:
    ratios = [1 + case["time_error"] for case in cases]
    shown = [ratio for ratio in ratios if 1 / WIDEST <= ratio <= WIDEST]
    look: Any = {"linestyle": "none", "color": COLOURS[0], "markersize": 4, "alpha": 0.55}
    axes.plot(shown, [row] * len(shown), marker="o", **look)
    outside = {"<": sum(r < 1 / WIDEST for r in ratios), ">": sum(r > WIDEST for r in ratios)}
    for marker, place in (("<", 1.03 / WIDEST), (">", WIDEST / 1.03)):
        if outside[marker]:
            axes.plot([place], [row], marker=marker, **{**look, "color": COLOURS[4], "alpha": 1})
    rival = sums["constant"] and f" ({percent(sums['constant']['mean_abs_error'])})"
    text = f"{percent(sums['mean_abs_error'])}{rival or ''}, {len(cases)}"
    text += " run" if len(cases) == 1 else " runs"
    axes.text(1.02, row, text, transform=axes.get_yaxis_transform(), va="center", size=8)


def _label_rows(axes: "Axes", names: Sequence[str]) -> None:
    ticks = (1 / 3, 0.5, 0.7, 0.9, 1, 1.1, 1.4, 2, 3)
    axes.set(xscale="log", xlim=(1 / WIDEST, WIDEST), ylim=(len(names) - 0.4, -0.6))
    axes.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(names)), names, size=8)
    axes.set_xlabel("predicted time of a step over the measured one (arrows: further off)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color="0.93", linewidth=0.6)
    axes.set_axisbelow(True)


__all__ = ["draw_errors", "draw_scatter", "errors_finding", "scatter_finding"]
