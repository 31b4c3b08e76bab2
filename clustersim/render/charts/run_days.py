"""The waterfall from the days of one training run to those of another, by what takes the time."""

from collections.abc import Mapping
from typing import Final

from clustersim.metrics.difference import SAME
from clustersim.render.charts.bars import NEGLIGIBLE, Step, Waterfall
from clustersim.render.charts.picture import Axis
from clustersim.render.run_words import ACCOUNT_COLOURS
from clustersim.render.tables import percent

ROOM: Final = 28
"""Letters of the name of a run that fit next to a bar; the caption has longer ones."""

UNCHANGED: Final = 1e-4
"""Share of the days of a run below which its smaller parts have no bar."""

COLOURS: Final = {**ACCOUNT_COLOURS, "planned": "other"}
"""Colours of parts: that of planned stops is, on other charts, that of both totals."""


def days_waterfall(names: tuple[str, str], before: float, parts: Mapping[str, float]) -> Waterfall:
    """Return the way from the days of one run to those of another.

    Parameters
    ----------
    names : of the runs
    before : days of the first run
    parts : change of each part of the elapsed time [days]
    """
    change = sum(parts.values())
    least = NEGLIGIBLE * max(before, before + change)
    named = {part: days for part, days in parts.items() if abs(days) >= least}
    steps = [Step(part, COLOURS[part], days) for part, days in named.items()]
    steps.sort(key=lambda step: -abs(step.change))
    rest = [days for part, days in parts.items() if part not in named]
    if any(abs(days) > UNCHANGED * before for days in rest):
        steps.append(Step("all other parts", "other", sum(rest)))
    short = fit_next_to_bars(names)
    words = f"{percent(abs(change) / before)} {'more' if change > 0 else 'fewer'} days"
    return Waterfall(
        title=f"The run takes {words if abs(change) >= SAME * before else 'as long'}",
        caption=f"before: {names[0]}; after: {names[1]}",
        description=f"The parts of the elapsed time lead from {names[0]} to {names[1]}.",
        note="Each bar begins where the one above ends.",
        contents=f"changes of the elapsed time from {names[0]} to {names[1]}",
        measure=Axis("elapsed time", "d"),
        first=names[0] if short else "before",
        last=names[1] if short else "after",
        start=before,
        steps=tuple(steps),
        kinds=tuple((colour, part) for part, colour in COLOURS.items()),
    )


def fit_next_to_bars(names: tuple[str, str]) -> bool:
    """Return whether names are different, and short enough to stand next to bars.

    >>> fit_next_to_bars(("a", "b")), fit_next_to_bars(("a", "a"))
    (True, False)
    """
    return all(len(name) <= ROOM for name in names) and names[0] != names[1]
