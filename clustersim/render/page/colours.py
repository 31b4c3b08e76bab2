"""The colours of a page by name, on light and on dark paper.

Charts say ``var(--compute)``; the style sheet has the value, and the script puts it in.  On light
paper they are those of the static figures.
"""

from collections.abc import Mapping
from typing import Final

from clustersim.render.mpl_style import Colour
from clustersim.render.palette import BACKWARD, FORWARD, GROUPS, MEMORY, WEIGHTS


def written(colour: Colour) -> str:
    """Return a colour as a style sheet has it.

    >>> written((1.0, 0.5, 0.0))
    '#ff8000'
    """
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)


def lighter(colour: Colour, share: float) -> Colour:
    """Return a colour mixed with white, which is a `share` of it."""
    red, green, blue = (part + share * (1 - part) for part in colour)
    return red, green, blue


def _named(dark: bool) -> dict[str, str]:
    """Return the colours of what figures show; dark ones are raised on dark paper."""

    def seen(colour: Colour) -> str:
        dim = dark and 0.3 * colour[0] + 0.6 * colour[1] + 0.1 * colour[2] < 0.45
        return written(lighter(colour, 0.28) if dim else colour)

    named = {kind: seen(colour) for kind, colour in GROUPS.items()}
    named |= {f"memory-{part}": seen(colour) for part, colour in MEMORY.items()}
    named |= {f"forward-{i}": written(shade) for i, shade in enumerate(FORWARD)}
    named |= {f"backward-{i}": seen(shade) for i, shade in enumerate(BACKWARD)}
    named |= {f"weights-{i}": seen(shade) for i, shade in enumerate(WEIGHTS)}
    return named | {"bubble": "#3a4048" if dark else "#e6e6e1"}


LIGHT: Final[Mapping[str, str]] = {
    "ground": "#ffffff",
    "raised": "#f5f6f8",
    "ink": "#1b1f24",
    "quiet": "#565d66",
    "line": "#d4d8dd",
    "link": "#0b5cad",
    "alarm": "#b3261e",
    "good": "#1a6b37",
    "edge": "#262626",
    "grid": "#e3e6ea",
    "idle": "#c3c8ce",
    "warm": "#e08a00",
    "hot": "#c2271d",
    "box-device": "#9ec9ed",
    "box-switch": "#d6d6d1",
    "box-nic": "#fad99e",
    **_named(dark=False),
}

DARK: Final[Mapping[str, str]] = {
    "ground": "#14171b",
    "raised": "#1d2127",
    "ink": "#e8eaed",
    "quiet": "#a9b1ba",
    "line": "#3a414a",
    "link": "#83b9f5",
    "alarm": "#ff8a80",
    "good": "#7fd29a",
    "edge": "#14171b",
    "grid": "#2b3138",
    "idle": "#565d66",
    "warm": "#f0a63a",
    "hot": "#ff6b5e",
    "box-device": "#27496b",
    "box-switch": "#41464d",
    "box-nic": "#644a17",
    **_named(dark=True),
}

__all__ = ["DARK", "LIGHT", "lighter", "written"]
