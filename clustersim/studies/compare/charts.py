"""Waterfalls from one run to another: of its days, of the step time, of the time of a token."""

from collections.abc import Mapping

from clustersim.metrics.difference import format_causes, format_speed
from clustersim.render.charts import Axis, Waterfall
from clustersim.render.charts.bars import steps_of
from clustersim.render.charts.run_days import days_waterfall, fit_next_to_bars
from clustersim.studies.compare.answer import Comparison
from clustersim.studies.compare.before_after import BeforeAfter


def run_waterfall(comparison: Comparison) -> Waterfall | None:
    """Return the waterfall of the days of whole runs; None for steps alone."""
    if comparison.training is None:
        return None
    days, names = comparison.differences["days"], (comparison.before, comparison.after)
    return days_waterfall(names, days.before, comparison.training.parts)


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
    short = fit_next_to_bars(names)
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
