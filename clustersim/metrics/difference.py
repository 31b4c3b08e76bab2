"""The difference of two attributions: as each adds up to its total, so does the difference."""

from collections.abc import Mapping
from typing import Final

from clustersim.metrics.attribution import BUBBLES
from clustersim.units import format_seconds

NAMED: Final = 3
"""Parts that a sentence names at most."""

WORTH_NAMING: Final = 0.1
"""Of the largest change: smaller ones are not named in a sentence."""

SAME: Final = 5e-4
"""Share by which two rates may differ and be called the same."""


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return `after` less `before`, part by part, in the order of `after`.

    >>> difference({"matmul": 2.0, "dispatch": 1.0}, {"matmul": 2.5, "dispatch": 1.0})
    {'matmul': 0.5, 'dispatch': 0.0}
    """
    return {part: after[part] - before[part] for part in after}


def leading(parts: Mapping[str, float], most: int = NAMED) -> list[tuple[str, float]]:
    """Return the parts that changed most, in words, the three bubbles as one.

    >>> leading({"matmul": -2.0, "bubble_fill": 1.0, "bubble_drain": 2.0, "dispatch": 0.1})
    [('bubble', 3.0), ('matmul', -2.0)]
    """
    merged = {part.replace("_", " "): s for part, s in parts.items() if part not in BUBBLES}
    merged["bubble"] = sum(seconds for part, seconds in parts.items() if part in BUBBLES)
    ordered = sorted(merged.items(), key=lambda item: (-abs(item[1]), item[0]))
    least = max(WORTH_NAMING * abs(ordered[0][1]), 1e-12)
    return [(word, change) for word, change in ordered[:most] if abs(change) >= least]


def because(parts: Mapping[str, float]) -> str:
    """Return the parts that changed most with their changes of time; nothing if none did.

    >>> because({"matmul": -2.0, "bubble_fill": 1.0, "bubble_drain": 2.0})
    ': bubble +3 s, matmul -2 s'
    """
    named = ", ".join(f"{word} {signed(seconds)}" for word, seconds in leading(parts))
    return f": {named}" if named else ""


def signed(seconds: float) -> str:
    """Return a change of time with its sign: ``'-12.1 s'``."""
    return f"{'+' if seconds > 0 else '-'}{format_seconds(abs(seconds), 3)}"


def faster(ratio: float) -> str:
    """Return in words how a rate compares with another, of which it is `ratio`.

    >>> faster(1.32), faster(0.5), faster(1.0)
    ('1.32 times as fast', '2.00 times as long', 'as fast')
    """
    if abs(ratio - 1) < SAME:
        return "as fast"
    return f"{times(ratio)} times as fast" if ratio > 1 else f"{times(1 / ratio)} times as long"


def claim(what: str, ratio: float) -> str:
    """Return a sentence about something that is done at `ratio` times the rate.

    >>> claim("A step", 1.32), claim("A step", 0.5)
    ('A step is 1.32 times as fast', 'A step takes 2.00 times as long')
    """
    said = faster(ratio)
    return f"{what} {'takes' if said.endswith('long') else 'is'} {said}"


def times(ratio: float) -> str:
    """Return a ratio to two decimals, or to three where two would hide it."""
    return f"{ratio:.3f}" if 0.9 < ratio < 1.1 else f"{ratio:,.2f}"


__all__ = [
    "NAMED",
    "SAME",
    "because",
    "claim",
    "difference",
    "faster",
    "leading",
    "signed",
    "times",
]
