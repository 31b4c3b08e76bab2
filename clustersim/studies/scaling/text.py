"""The answer of `clustersim scale` as text: a table for each curve, and what is lost to what."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clustersim.render.tables import Row, counted, kind_of, percent, words
from clustersim.units import format_seconds

Values = Mapping[str, Any]

NAMED: Final = 4
"""Parts of a loss that are named; the rest is one number."""

LEAST: Final = 5e-4
"""Share of efficiency below which a part is not worth its name."""


def head(curve: Values) -> list[Row]:
    """Return what there is to say about a curve above its table."""
    return [Row("scaling", f"{curve['scaling']}: {how(curve)}")]


def how(curve: Values) -> str:
    """Return what grows along a curve, and what efficiency means on it."""
    grows = "the batch grows with the devices" if curve["scaling"] == "weak" else "the same batch"
    if _scenarios(curve) > 1:
        grows = "a scenario for each point"
    said = f"{curve['axis']} axis, {grows}" if _scenarios(curve) <= 1 else grows
    said += f", {', '.join(curve['set'])}" if curve["set"] else ""
    said += "; numbers of devices by doubling, since none are given" if curve["guessed"] else ""
    if curve["against"] is None:
        return said
    return f"{said}; efficiency is {curve['work']}/s of a device, against {curve['against']:,}"


def _scenarios(curve: Values) -> int:
    return len({point["scenario"] for point in curve["points"]})


# --- the table ------------------------------------------------------------------------------------

_HEAD: Final = (
    "devices", "nodes", "batch", "step", "tokens/s", "TFLOP/s", "HFU", "efficiency", "bubble",
    "exposed", "memory",
)  # fmt: skip
WORDS: Final = ("memory", "scenario")
"""Columns that are words."""

UNFIT: Final = "does not fit"


def table(curve: Values) -> list[list[str]]:
    """Return the table of a curve: its heading, then a row for each point."""
    rows = [list(_HEAD), *map(_cells, curve["points"])]
    if _scenarios(curve) > 1:
        names = ["scenario", *(point["scenario"] for point in curve["points"])]
        rows = [[*row, name] for row, name in zip(rows, names, strict=True)]
    return rows


def _cells(point: Values) -> list[str]:
    return [
        f"{point['devices']:,}",
        f"{point['nodes']:,}",
        f"{point['batch']:,}",
        format_seconds(point["step_time_s"]),
        f"{point['tokens_per_s']:,.0f}",
        _rate(point["tflops_per_device"]["model"]),
        percent(point["hfu"]),
        percent(point["efficiency"]),
        percent(point["bubble_fraction"]),
        percent(point["exposed_fraction"]),
        "fits" if point["memory"]["fits"] else UNFIT,
    ]


def _rate(tflops: float) -> str:
    return f"{tflops:.1f}" if tflops >= 10 else f"{tflops:.2f}"


# --- what is lost, and what was published ---------------------------------------------------------


def notes(curve: Values) -> list[Row]:
    """Return what there is to say about a curve beside its table, line by line."""
    heavy = ", ".join(f"{p['devices']:,}" for p in curve["points"] if not p["memory"]["fits"])
    return [
        *([Row("loss", lost(curve))] if len(curve["points"]) > 1 else []),
        *(Row("published", beside(each, curve)) for each in curve["published"]),
        *(Row("skipped", f"{e['devices']:,} devices: {e['why']}") for e in curve["skipped"]),
        *([Row("memory", f"does not fit on {heavy} devices", alarm=True)] if heavy else []),
        *([Row("assumed", _assumed(curve["assumed"]))] if curve["assumed"] else []),
    ]


def _assumed(keys: Mapping[str, str]) -> str:
    return f"{counted(len(keys), 'key')}: {', '.join(keys)}"


def parts(point: Values) -> list[tuple[str, float]]:
    """Return what a point loses by part [unitless], bubbles together, the largest first."""
    sums: dict[str, float] = {}
    for part, share in point["loss"].items():
        name = "bubble" if kind_of(part) == "bubble" else part
        sums[name] = sums.get(name, 0.0) + share
    return sorted(sums.items(), key=lambda item: -abs(item[1]))


def lost(curve: Values) -> str:
    """Return what the last point loses and to what, and the link behind the largest part."""
    point = curve["points"][-1]
    whole, found = 1 - point["efficiency"], parts(point)
    named = [(part, share) for part, share in found[:NAMED] if abs(share) >= LEAST]
    rest = whole - sum(share for _, share in named)
    sign = -1 if whole < 0 else 1
    said = [f"{words(part)} {_points(sign * share)}" for part, share in named]
    said += [f"other {_points(sign * rest)}"] if abs(rest) >= LEAST else []
    if abs(whole) < LEAST:
        return f"{point['devices']:,} devices lose nothing to speak of"
    verb = "gain" if whole < 0 else "lose"
    text = f"{point['devices']:,} devices {verb} {percent(abs(whole))}"
    return f"{text}: {', '.join(said)}{_link(point, found)}" if said else text


def _link(point: Values, found: Sequence[tuple[str, float]]) -> str:
    """Return the link that sets the pace of the largest part, where it is communication."""
    part = found[0][0]
    links = [each["link"] for each in point["exposed"] if each["part"] == part and each["link"]]
    return f"; {words(part)} over {links[0]}" if links else ""


def _points(share: float) -> str:
    """Return a share in points of a percent: ``'7.2'``; a gain as ``'-0.3'``."""
    return f"{100 * share:.1f}"


def beside(each: Values, curve: Values) -> str:
    """Return a published number and the predicted one, and the efficiency that it stands for."""
    convention = f" ({each['convention']} FLOPs)" if each["convention"] else ""
    shares = each["metric"] in ("efficiency", "mfu", "hfu")
    value = f"{100 * each['value']:.4g} %" if shares else f"{each['value']:g}"
    said = f"{each['devices']:,} devices: {each['metric']}{convention} {value}"
    if each["predicted"] is None:
        return f"{said}, not predicted here; {each['source']}"
    predicted = percent(each["predicted"]) if shares else f"{each['predicted']:.4g}"
    unit = "points" if each["metric"] == "efficiency" else "%"
    off = f"{round(100 * each['error'], 1) + 0.0:+.1f} {unit}"  # -0.0 + 0.0 is 0.0
    return f"{said}, predicted {predicted} ({off}){_stands_for(each, curve)}; {each['source']}"


def _stands_for(each: Values, curve: Values) -> str:
    if each["metric"] == "efficiency" or each["efficiency"] is None:
        return ""
    if each["devices"] == curve["against"]:
        return ""
    point = next(point for point in curve["points"] if point["devices"] == each["devices"])
    return f", efficiency {percent(each['efficiency'])}, predicted {percent(point['efficiency'])}"


__all__ = ["UNFIT", "WORDS", "beside", "head", "how", "lost", "notes", "parts", "table"]
