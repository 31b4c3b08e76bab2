"""What leads from one run to another: waterfalls of the step time, and of a token's."""

from collections.abc import Mapping
from typing import Any, Final

from clustersim import __version__
from clustersim.metrics.difference import because, claim
from clustersim.render.waterfall import Waterfall, steps_of

Values = Mapping[str, Any]
"""An object of ``compare --json``, or one of its comparisons."""

SHORT: Final = 28
"""Letters of a run's name that stand beside a bar; longer ones are told in the caption."""


def pictures(found: Values) -> list[Waterfall]:
    """Return the waterfall of the step time; and of a token, where steps have other batches."""
    step = found["differences"]["step_time_s"]
    title = f"{claim('A step', step['before'] / step['after'])}{because(found['parts'])}"
    drawn = [_picture(found, found["parts"], step, title, "time of a step")]
    if found["same_tokens"]:
        return drawn
    token = {end: _of_a_token(found["differences"], end) for end in ("before", "after")}
    title = (
        f"{claim('A token', token['before'] / token['after'])}{because(found['parts_per_token'])}"
    )
    axis = "device time of a token"
    return [*drawn, _picture(found, found["parts_per_token"], token, title, axis)]


def _of_a_token(numbers: Values, end: str) -> float:
    """Return the device-seconds of a token."""
    return 1 / float(numbers["tokens_per_s_per_device"][end])


def _picture(
    found: Values, parts: Mapping[str, float], total: Values, title: str, axis: str
) -> Waterfall:
    names = found["before"], found["after"]
    short = all(len(name) <= SHORT for name in names) and names[0] != names[1]
    told = f"before: {names[0]}; after: {names[1]}; clustersim {__version__}"
    return Waterfall(
        title=title,
        caption=told,
        first=names[0] if short else "before",
        last=names[1] if short else "after",
        start=total["before"],
        steps=steps_of(parts, max(total["before"], total["after"])),
        axis=axis,
    ).in_unit()


__all__ = ["Values", "pictures"]
