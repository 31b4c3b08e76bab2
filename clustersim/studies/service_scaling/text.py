"""Scaling curves of a service as text: the efficiency at the most devices, then all points."""

from clustersim.render.service_words import format_amount, part_name
from clustersim.render.tables import Row, percent
from clustersim.studies.service_scaling.answer import ServedDevices, ServiceCurve

SHOWN = ("ttft", "tpot", "tokens_per_s", "tokens_per_s_per_device", "tokens_per_s_per_user")
"""Measures of the table."""

LOADS = {"weak": "a load that grows with the devices", "strong": "the load of the scenario"}


def finding(curve: ServiceCurve) -> str:
    """Return the efficiency at the most devices, in a sentence."""
    running = [point for point in curve.points if point.measures]
    last = running[-1]
    if len(running) == 1:
        return f"{curve.kind} scaling over {curve.axis}: one point of {last.devices:,} devices runs"
    assert last.efficiency is not None
    text = f"{percent(last.efficiency)} of the tokens/s per device of {curve.against:,} devices"
    cause = _cause(running, curve)
    return f"{last.devices:,} devices with {LOADS[curve.kind]} have {text}{cause}"


def _cause(running: list[ServedDevices], curve: ServiceCurve) -> str:
    """Return the part of a token's time whose device time grew most from the reference point."""
    first = next(point for point in running if point.devices == curve.against)
    last = running[-1]
    spent = [
        {part: s * point.devices / _sequences(point) for part, s in point.attribution.items()}
        for point in (first, last)
    ]
    grown = {part: s - spent[0].get(part, 0.0) for part, s in spent[1].items()}
    most = max(grown, key=grown.__getitem__, default=None)
    if most is None or last.efficiency is None or last.efficiency > 0.995 or grown[most] <= 0:
        return ""
    return f", mainly by {part_name(most)}"


def _sequences(point: ServedDevices) -> float:
    """Return the sequences that decode at the same time: rate times time per token."""
    return point.measures["tokens_per_s"] * point.measures["tpot"] or 1.0


def curve_points(curve: ServiceCurve) -> list[list[str]]:
    """Return the points that run as a table, its headings first."""
    heads = ["devices", curve.axis, "load", "first token", "each token", "tokens/s"]
    table = [[*heads, "per device", "efficiency", "per user"]]
    for point in curve.points:
        if point.efficiency is None:
            continue
        cells = [format_amount(name, point.measures[name]) for name in SHOWN]
        degree = next((n for key, n in point.set.items() if key.endswith(f".{curve.axis}")), "")
        load = "trace" if point.load is None else f"{point.load:,.4g}"
        table.append(
            [
                f"{point.devices:,}",
                str(degree),
                load,
                *cells[:4],
                percent(point.efficiency),
                cells[4],
            ]
        )
    return table


def points_not_run(curve: ServiceCurve) -> list[Row]:
    """Return the points that do not run, with their reasons."""
    return [
        Row("not run", f"{point.devices:,} devices: {point.why}", warning=True)
        for point in curve.points
        if point.efficiency is None
    ]
