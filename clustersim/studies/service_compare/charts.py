"""The waterfall that leads from the time of a token of one service to that of another."""

from clustersim.metrics.difference import format_speed
from clustersim.render.charts import Axis, Waterfall
from clustersim.render.service_words import WAITING, causes_text, part_steps
from clustersim.studies.service_compare.answer import ServiceComparison

ROOM = 28
"""Letters of the name of a service that fit next to a bar."""


def token_waterfall(comparison: ServiceComparison) -> Waterfall | None:
    """Return the way from one time per token to the other; None without both."""
    times = comparison.differences.get("tpot")
    if times is None or not times.before or not times.after:
        return None
    names = comparison.before, comparison.after
    short = all(len(name) <= ROOM for name in names) and names[0] != names[1]
    speed = format_speed("A token", times.before / times.after)
    return Waterfall(
        title=f"{speed}{causes_text(comparison.parts)}",
        caption=f"before: {names[0]}; after: {names[1]}",
        description=f"The parts of a token's time lead from {names[0]} to {names[1]}.",
        note="Each bar begins where the one above ends.",
        contents=f"changes of the time of a token from {names[0]} to {names[1]}",
        measure=Axis("mean time per token", "s"),
        first=names[0] if short else "before",
        last=names[1] if short else "after",
        start=times.before,
        kinds=WAITING,
        steps=part_steps(comparison.parts, max(times.before, times.after)),
    ).in_unit()
