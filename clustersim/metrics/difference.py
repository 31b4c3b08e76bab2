"""The difference of two attributions, whose parts add up to the difference of their totals."""

from collections.abc import Mapping
from typing import Final

from clustersim.metrics.attribution import BUBBLES
from clustersim.units import format_seconds

NAMED: Final = 3
"""Maximum number of parts that a sentence names."""

NOTABLE: Final = 0.1
"""Share of the largest change; smaller changes are not named in a sentence."""

SAME: Final = 5e-4
"""Share by which two rates may differ and still be called equal."""


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return `after` less `before`, part by part, in the order of `after`.

    >>> difference({"matmul": 2.0, "dispatch": 1.0}, {"matmul": 2.5, "dispatch": 1.0})
    {'matmul': 0.5, 'dispatch': 0.0}
    """
    return {part: after[part] - before[part] for part in after}


def largest_changes(parts: Mapping[str, float], most: int = NAMED) -> list[tuple[str, float]]:
    """Return the parts that changed most, in words, the three bubbles as one.

    >>> largest_changes({"matmul": -2.0, "bubble_fill": 1.0, "bubble_drain": 2.0, "dispatch": 0.1})
    [('bubble', 3.0), ('matmul', -2.0)]
    """
    merged = {part.replace("_", " "): s for part, s in parts.items() if part not in BUBBLES}
    merged["bubble"] = sum(seconds for part, seconds in parts.items() if part in BUBBLES)
    ordered = sorted(merged.items(), key=lambda item: (-abs(item[1]), item[0]))
    least = max(NOTABLE * abs(ordered[0][1]), 1e-12)
    return [(word, change) for word, change in ordered[:most] if abs(change) >= least]


def format_causes(parts: Mapping[str, float]) -> str:
    """Return the parts that changed most with their changes of time, after a colon.

    >>> format_causes({"matmul": -2.0, "bubble_fill": 1.0, "bubble_drain": 2.0})
    ': bubble +3 s, matmul -2 s'
    """
    named = ", ".join(f"{word} {_signed(seconds)}" for word, seconds in largest_changes(parts))
    return f": {named}" if named else ""


def _signed(seconds: float) -> str:
    """Return a change of time with its sign: ``'-12.1 s'``."""
    return f"{'+' if seconds > 0 else '-'}{format_seconds(abs(seconds), 3)}"


def format_speed(subject: str, ratio: float) -> str:
    """Return a sentence about something that has `ratio` times the rate.

    >>> format_speed("A step", 1.32), format_speed("A step", 0.5), format_speed("A step", 1.0)
    ('A step is 1.32 times as fast', 'A step takes 2.00 times as long', 'A step is as fast')
    """
    if abs(ratio - 1) < SAME:
        return f"{subject} is as fast"
    if ratio > 1:
        return f"{subject} is {format_ratio(ratio)} times as fast"
    return f"{subject} takes {format_ratio(1 / ratio)} times as long"


def format_ratio(ratio: float) -> str:
    """Return a ratio to two decimals, or to three where it is near 1.

    >>> format_ratio(2.0), format_ratio(1.05)
    ('2.00', '1.050')
    """
    return f"{ratio:.3f}" if 0.9 < ratio < 1.1 else f"{ratio:,.2f}"
