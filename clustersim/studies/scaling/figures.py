"""The figures of `clustersim scale`: efficiency and throughput along curves, and what is lost.

Curves differ by marker and line as well as by colour; what was published is drawn hollow.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim import __version__
from clustersim.render.matplotlib.figure import INK, OPTIONS, plots, save
from clustersim.render.tables import percent, words
from clustersim.studies.scaling.text import parts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = Mapping[str, Any]

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#111111")
MARKERS: Final = "os^Dv<"
IDEAL: Final[Mapping[str, Any]] = {"color": INK, "linewidth": 0.7}
BARS: Final = 7
"""Parts of a loss that have a bar of their own."""
LEAST: Final = 5e-4
"""Share of efficiency below which a part has none."""
WORTH: Final = 0.02
"""Loss from which on a title tells its cause."""
MANY: Final = 2
"""Curves that a title has room for."""
LEFT: Final = 0.95
"""Room for the numbers and the name of the upright axis [in]."""


def curve_finding(curves: Sequence[Values]) -> str:
    """Return what the curves show, as a title."""
    kind = str(curves[0]["scaling"]).capitalize()
    point = curves[0]["points"][-1]
    at = f"at {point['devices']:,} devices"
    if len(curves) > MANY:
        return f"{kind} scaling of {len(curves)} scenarios"
    if len(curves) > 1:
        kept = [f"{percent(c['points'][-1]['efficiency'])} for {c['name']}" for c in curves]
        return f"{kind} scaling keeps {', '.join(kept)}"
    verb = "keeps" if point["efficiency"] < 1 + LEAST else "reaches"
    text = f"{kind} scaling {verb} {percent(point['efficiency'])} {at}"
    part, share = parts(point)[0]
    if 1 - point["efficiency"] < WORTH or share <= 0:
        return text
    mostly = "mostly " if share < 0.9 * (1 - point["efficiency"]) else ""
    return f"{text}; the loss is {mostly}{words(part)}"


def draw_curves(curves: Sequence[Values], stem: Path) -> None:
    """Draw efficiency, throughput and what is idle, against devices."""
    with plots(curve_finding(curves), _caption(curves), 8.4, 3, 2.3, left=LEFT) as (figure, places):
        for place, curve in enumerate(curves):
            look = {"color": COLOURS[place % 6], "marker": MARKERS[place % 6]}
            _efficiency(places[0], curve, look)
            _throughput(places[1], curve, look)
            _shares(places[2], curve, look)
        _finish(places, curves)
        save(figure, stem, [*OPTIONS])


def _caption(curves: Sequence[Values]) -> str:
    names = ", ".join(curve["name"] for curve in curves)
    return f"{names}; clustersim {__version__}; thin line: ideal; hollow: published"


def _efficiency(axes: "Axes", curve: Values, look: Mapping[str, Any]) -> None:
    devices = [point["devices"] for point in curve["points"]]
    shares = [100 * point["efficiency"] for point in curve["points"]]
    axes.plot(devices, shares, markersize=5, linewidth=1.2, label=curve["name"], **look)
    told = [each for each in curve["published"] if each["efficiency"] is not None]
    for source in dict.fromkeys(each["source"] for each in told):
        mine = [each for each in told if each["source"] == source]
        axes.plot(
            [each["devices"] for each in mine],
            [100 * each["efficiency"] for each in mine],
            linestyle="none",
            markersize=8,
            markerfacecolor="none",
            markeredgewidth=1.3,
            label=f"published: {_short(source)}",
            **look,
        )


def _cross_out(axes: "Axes", curves: Sequence[Values]) -> None:
    """Mark the points that do not fit in memory."""
    heavy = [
        (point["devices"], 100 * point["efficiency"])
        for curve in curves
        for point in curve["points"]
        if not point["memory"]["fits"]
    ]
    if heavy:
        look: Any = {"linestyle": "none", "marker": "x", "color": INK, "markersize": 9}
        axes.plot(*zip(*heavy, strict=True), label="does not fit in memory", **look)


def _short(source: str) -> str:
    """Return a source in at most some fifty letters."""
    return source if len(source) <= 54 else f"{source[:51].rstrip(' ,;:')}..."


def _throughput(axes: "Axes", curve: Values, look: Mapping[str, Any]) -> None:
    points = curve["points"]
    devices, rates = [p["devices"] for p in points], [throughput(curve, p) for p in points]
    axes.plot(devices, rates, markersize=5, linewidth=1.2, **look)
    start = next(p for p in points if p["devices"] == curve["against"])
    each = throughput(curve, start) / start["devices"]
    axes.plot(devices, [each * count for count in devices], **IDEAL)
    told = [e for e in curve["published"] if e["efficiency"] and e["metric"] != "efficiency"]
    by_devices = {p["devices"]: p for p in points}
    rate = [
        throughput(curve, p) * e["efficiency"] / p["efficiency"] * _off(curve, start)
        for e in told
        if (p := by_devices[e["devices"]])
    ]
    hollow: Any = {"markersize": 8, "markerfacecolor": "none", "markeredgewidth": 1.3}
    axes.plot([e["devices"] for e in told], rate, linestyle="none", **hollow, **look)


def _off(curve: Values, start: Values) -> float:
    """Return the published rate over the predicted one at the start."""
    for each in curve["published"]:
        if each["devices"] == start["devices"] and each["metric"] != "efficiency":
            ratio = float(each["value"] / each["predicted"])
            return 1 / ratio if each["metric"] == "step_time_s" else ratio
    return 1.0


def throughput(curve: Values, point: Values) -> float:
    """Return tokens/s of all devices; PFLOP/s of model FLOPs where models differ."""
    if curve["work"] == "tokens":
        return float(point["tokens_per_s"])
    return float(point["tflops_per_device"]["model"] * point["devices"] / 1e3)


def _shares(axes: "Axes", curve: Values, look: Mapping[str, Any]) -> None:
    devices = [point["devices"] for point in curve["points"]]
    for key, style in (("bubble_fraction", "-"), ("exposed_fraction", ":")):
        shares = [100 * point[key] for point in curve["points"]]
        axes.plot(devices, shares, linestyle=style, markersize=4, linewidth=1.2, **look)


def _finish(places: "Sequence[Axes]", curves: Sequence[Values]) -> None:
    """Name the axes, draw the ideal, explain the lines."""
    ticks = sorted({p["devices"] for curve in curves for p in curve["points"]})
    for axes in places:
        axes.set_xscale("log", base=2)
        axes.set_xlim(ticks[0] / 1.12, ticks[-1] * 1.12)
        axes.set_xticks(_apart(ticks), [f"{tick:,}" for tick in _apart(ticks)])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.93", linewidth=0.6)
        axes.set_axisbelow(True)
    places[0].axhline(100, **IDEAL)
    _cross_out(places[0], curves)
    low = min(places[0].get_ylim()[0], 90.0)
    places[0].set_ylim(max(0.0, low - 2), max(places[0].get_ylim()[1], 102.0))
    _name_upright(places[0], "efficiency [%]")
    places[0].legend(frameon=False, fontsize=7.5, loc="best")
    _decades(places[1])
    tokens = curves[0]["work"] == "tokens"
    _name_upright(places[1], "tokens/s" if tokens else "PFLOP/s (model FLOPs)")
    places[2].set_ylim(bottom=0)
    _name_upright(places[2], "share of a step [%]")
    places[2].set_xlabel("devices")
    _explain(places[2])


def _decades(axes: "Axes") -> None:
    """Name 1, 2 and 5 of each decade as people write them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()


def _apart(ticks: Sequence[int]) -> list[int]:
    """Return the numbers that have room for their names beside each other, the last of all."""
    least = (ticks[-1] / ticks[0]) ** 0.07
    found = [ticks[-1]]
    for tick in reversed(ticks):
        if tick * least <= found[0]:
            found.insert(0, tick)
    return found


def _name_upright(axes: "Axes", name: str) -> None:
    """Name the upright axis, left of its numbers."""
    inches = axes.get_figure().get_size_inches()[0] * axes.get_position().width  # type: ignore[union-attr]
    axes.yaxis.set_label_coords(-0.68 / inches, 0.5)
    axes.set_ylabel(name)


def _explain(axes: "Axes") -> None:
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], color="0.3", linestyle="-", label="bubble"),
        Line2D([], [], color="0.3", linestyle=":", label="communication that nothing hides"),
    ]
    axes.legend(handles=lines, frameon=False, fontsize=7.5, loc="best")


# --- what is lost ---------------------------------------------------------------------------------


def loss_finding(curves: Sequence[Values]) -> str:
    """Return where efficiency goes, as a title."""
    curve = curves[0]
    point = curve["points"][-1]
    whole, (part, share) = 1 - point["efficiency"], parts(point)[0]
    kind = f"{curve['scaling'].capitalize()} scaling"
    if len(curves) > 1:
        return f"{kind}: where {len(curves)} scenarios lose efficiency"
    if abs(whole) < WORTH or whole < 0:
        verb = "loses" if whole > 0 else "gains"
        return f"{kind} {verb} {abs(100 * whole):.1f} points up to {point['devices']:,} devices"
    points = f"{100 * share:.1f} of the {100 * whole:.1f} points lost"
    if share > whole + LEAST:
        points = f"{100 * share:.1f} points; others give {100 * (share - whole):.1f} back"
    return f"{words(part).capitalize()} takes {points}"


def steps_down(curve: Values) -> list[tuple[str, float]]:
    """Return the bars between efficiency 1 and that of the last point, to what a bar can show."""
    point = curve["points"][-1]
    found = parts(point)
    named = [(words(part), share) for part, share in found[:BARS] if abs(share) >= LEAST]
    rest = 1 - point["efficiency"] - sum(share for _, share in named)
    return [*named, ("other", rest)] if abs(rest) >= LEAST else named


def draw_loss(curves: Sequence[Values], stem: Path) -> None:
    """Draw for each curve how parts of the step take efficiency from its last point."""
    names = ", ".join(f"{c['name']} at {c['points'][-1]['devices']:,}" for c in curves)
    caption = f"{names}; clustersim {__version__}; device-seconds of a unit of work, by part"
    with plots(loss_finding(curves), caption, 8.4, len(curves), 2.6, left=LEFT) as (figure, places):
        for axes, curve in zip(places, curves, strict=True):
            _waterfall(axes, curve)
        save(figure, stem, [*OPTIONS])


def _waterfall(axes: "Axes", curve: Values) -> None:
    bars, point = steps_down(curve), curve["points"][-1]
    tops = [100.0]
    for place, (_, share) in enumerate(bars, 1):
        tops.append(tops[-1] - 100 * share)
        colour = COLOURS[1] if share > 0 else COLOURS[2]
        axes.bar([place], [-100 * share], bottom=[tops[-2]], width=0.7, color=colour)
        axes.text(place, max(tops[-2:]), _signed(share), ha="center", va="bottom", size=8)
    ends: Any = {"color": "0.75", "edgecolor": INK, "linewidth": 0.5, "width": 0.7}
    for place, height in ((0, 100.0), (len(bars) + 1, 100 * point["efficiency"])):
        axes.bar([place], [height], **ends)
        axes.text(place, height, f"{height:.1f} %", ha="center", va="bottom", size=8)
    room = max(max(tops) - min(tops), 4.0)
    axes.set_ylim(max(0.0, min(tops) - 0.35 * room), max(tops) + 0.25 * room)
    counts = [f"{count:,}\ndevices" for count in (curve["against"], point["devices"])]
    labels = [counts[0], *(name.replace(" ", "\n", 1) for name, _ in bars), counts[1]]
    axes.set_xticks(range(len(labels)), labels, size=8)
    _name_upright(axes, "efficiency [%], axis cut" if axes.get_ylim()[0] else "efficiency [%]")
    inside: Any = {"transform": axes.transAxes, "ha": "right", "va": "top", "size": 9}
    axes.text(0.995, 0.99, curve["name"], **inside)
    axes.spines[["top", "right"]].set_visible(False)


def _signed(share: float) -> str:
    return f"{-100 * share:+.1f}".replace("-", "\N{MINUS SIGN}")


__all__ = ["curve_finding", "draw_curves", "draw_loss", "loss_finding", "steps_down", "throughput"]
