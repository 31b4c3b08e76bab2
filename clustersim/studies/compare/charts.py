"""Waterfalls from one run to another: of its days, of the step time, of the time of a token."""

from collections.abc import Mapping
from typing import Final

from clustersim.metrics.difference import SAME, format_causes, format_speed
from clustersim.render.charts import Axis, Step, Waterfall
from clustersim.render.charts.bars import NEGLIGIBLE, steps_of
from clustersim.render.run_words import ACCOUNT_COLOURS
from clustersim.render.tables import percent
from clustersim.studies.compare.answer import BeforeAfter, Comparison

ROOM: Final = 28
"""Letters of the name of a run that fit next to a bar; the caption has longer ones."""

UNCHANGED: Final = 1e-4
"""Share of the days of a run below which its smaller parts have no bar."""

_COLOURS: Final = {**ACCOUNT_COLOURS, "planned": "other"}
"""Colours of parts: that of planned stops is, on other charts, that of both totals."""


def run_waterfall(comparison: Comparison) -> Waterfall | None:
    """Return the waterfall of the days of whole runs; None for steps alone."""
    if comparison.training is None:
        return None
    names, days = (comparison.before, comparison.after), comparison.differences["days"]
    least, parts = NEGLIGIBLE * max(days.before, days.after), comparison.training.parts
    named = {part: change for part, change in parts.items() if abs(change) >= least}
    steps = [Step(part, _COLOURS[part], change) for part, change in named.items()]
    steps.sort(key=lambda step: -abs(step.change))
    rest = [change for part, change in parts.items() if part not in named]
    if any(abs(change) > UNCHANGED * days.before for change in rest):
        steps.append(Step("all other parts", "other", sum(rest)))
    short = _short(names)
    share = percent(abs(days.change) / days.before)
    words = f"{share} {'more' if days.change > 0 else 'fewer'} days"
    return Waterfall(
        title=f"The run takes {words if abs(days.change) >= SAME * days.before else 'as long'}",
        caption=f"before: {names[0]}; after: {names[1]}",
        description=f"The parts of the elapsed time lead from {names[0]} to {names[1]}.",
        note="Each bar begins where the one above ends.",
        contents=f"changes of the elapsed time from {names[0]} to {names[1]}",
        measure=Axis("elapsed time", "d"),
        first=names[0] if short else "before",
        last=names[1] if short else "after",
        start=days.before,
        steps=tuple(steps),
        kinds=tuple((colour, part) for part, colour in _COLOURS.items()),
    )


def _short(names: tuple[str, str]) -> bool:
    """Return whether names are different, and fit next to bars."""
    return all(len(name) <= ROOM for name in names) and names[0] != names[1]


def waterfalls(comparison: Comparison) -> list[Waterfall]:
    """Return the waterfall of the step time; and of a token, where steps have other batches."""
    step = comparison.differences["step_time_s"]
    title = f"{format_speed('A step', step.before / step.after)}{format_causes(comparison.parts)}"
    total = BeforeAfter(step.before, step.after)
    chart = _waterfall(comparison, comparison.parts, total, title, "step time")
    if comparison.same_tokens:
        return [chart]
    rate = comparison.differences["tokens_per_s_per_device"]
    token = BeforeAfter(1 / rate.before, 1 / rate.after)
    parts = comparison.parts_per_token
    title = f"{format_speed('A token', token.before / token.after)}{format_causes(parts)}"
    return [chart, _waterfall(comparison, parts, token, title, "device time per token")]


def _waterfall(
    comparison: Comparison,
    parts: Mapping[str, float],
    total: BeforeAfter[float],
    title: str,
    measure: str,
) -> Waterfall:
    names = comparison.before, comparison.after
    short = _short(names)
    steps = steps_of(parts, max(total.before, total.after))
    return Waterfall(
        title=title,
        caption=f"before: {names[0]}; after: {names[1]}",
        description=f"{len(steps)} changes lead from {names[0]} to {names[1]}.",
        note="Each bar begins where the one above ends.",
        contents=f"changes from {names[0]} to {names[1]}",
        measure=Axis(measure, "s"),
        first=names[0] if short else "before",
        last=names[1] if short else "after",
        start=total.before,
        steps=steps,
    ).in_unit()


__all__ = ["run_waterfall", "waterfalls"]
