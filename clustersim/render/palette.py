"""The colours of all pictures by name: the same in figures and on pages, where they may be dark.

A description of a picture names its colours.  On a page ``var(--compute)`` takes the value of the
current theme from the style sheet; a figure takes that of `LIGHT`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

Colour = tuple[float, float, float]

FORWARD: Final = ((0.62, 0.79, 0.93), (0.42, 0.65, 0.86))
BACKWARD: Final = ((0.16, 0.36, 0.55), (0.08, 0.20, 0.36))
WEIGHTS: Final = ((0.20, 0.50, 0.42), (0.10, 0.32, 0.27))
"""Blocks of a pipeline, from the first chunk to the last; light and dark, to be read in grey."""

KINDS: Final[dict[str, Colour]] = {
    "compute": BACKWARD[0],
    "communication": (0.93, 0.60, 0.10),
    "imbalance": (0.80, 0.30, 0.24),
    "bubble": (0.90, 0.90, 0.88),
    "optimiser": (0.50, 0.25, 0.50),
}
"""Kinds of components of a step."""

MEMORY: Final[dict[str, Colour]] = {
    "parameters": (0.16, 0.36, 0.55),
    "quantised_base": (0.08, 0.20, 0.36),
    "master_weights": (0.30, 0.52, 0.72),
    "gradients": (0.62, 0.79, 0.93),
    "optimiser": (0.50, 0.25, 0.50),
    "gathered_layers": (0.30, 0.60, 0.50),
    "communication_buffers": (0.93, 0.60, 0.10),
    "transfers": (0.98, 0.80, 0.45),
    "offload_staging": (0.55, 0.75, 0.45),
    "activations": (0.80, 0.30, 0.25),
    "logits": (0.95, 0.60, 0.55),
    "workspace": (0.97, 0.80, 0.76),
    "runtime": (0.55, 0.55, 0.53),
    "fragmentation": (0.86, 0.86, 0.84),
    "other": (0.96, 0.93, 0.80),
}
"""States blue and violet, communication orange, what microbatches hold red, the rest grey."""

SERIES: Final = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
    "#56b4e9", "#8c564b", "#5e3c99", "#7f9a00", "#555555",
)  # fmt: skip
"""Lines and groups of points, named ``series-0`` and so on; markers differ as well."""

LINKS: Final = (
    KINDS["compute"],
    (0.90, 0.52, 0.05),
    KINDS["optimiser"],
    (0.35, 0.60, 0.35),
    (0.60, 0.20, 0.15),
    (0.45, 0.45, 0.45),
)
"""Kinds of links on a drawing, named ``wire-0`` and so on; distinct in grey as well."""

SCALE: Final = ("#eaf2f8", "#b9d3e6", "#7fb0d3", "#4a8abb", "#1f5a8c")
"""From the worst to the best, named ``scale-0`` and so on."""

DARK_SCALE: Final = ("#1f2a36", "#274763", "#2f6690", "#4a90c4", "#8cc4f0")


HEAT: Final = ("#5b93c6", "#7f74bd", "#a8508f", "#b52f3c", "#6e0d1d")
"""Utilisation from 0 to 100 % in steps of 20 %, named ``heat-0`` and so on: darker is busier."""

DARK_HEAT: Final = ("#4478a8", "#7d74c4", "#c272b8", "#f58a86", "#ffdccf")
"""The same on a dark ground, where brighter is busier."""


def written(colour: Colour) -> str:
    """Return a colour as a style sheet has it.

    >>> written((1.0, 0.5, 0.0))
    '#ff8000'
    """
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)


def parse_colour(text: str) -> Colour:
    """Return the red, green and blue of a written colour, from 0 to 1.

    >>> parse_colour("#ff8000")[0]
    1.0
    """
    red, green, blue = (int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def luminance(colour: Colour) -> float:
    """Return the relative luminance of a colour, from 0 to 1.

    Web Content Accessibility Guidelines 2.2, "relative luminance".
    """
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast of two colours, from 1 to 21; text needs 4.5 (guideline 1.4.3)."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def ink_on(colour: Colour) -> Colour:
    """Return black or white, whichever can be read on a colour: its contrast is at least 4.5.

    >>> ink_on((0.42, 0.65, 0.86)), ink_on((0.16, 0.36, 0.55))
    ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    """
    inks: tuple[Colour, ...] = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    return max(inks, key=lambda ink: contrast(ink, colour))


def lighter(colour: Colour, share: float) -> Colour:
    """Return a colour mixed with a share of white."""
    red, green, blue = (part + share * (1 - part) for part in colour)
    return red, green, blue


def _visible(colour: Colour, *, dark: bool) -> str:
    """Return a colour as written; dim ones are lighter on a dark ground."""
    dim = dark and 0.3 * colour[0] + 0.6 * colour[1] + 0.1 * colour[2] < 0.45
    return written(lighter(colour, 0.28) if dim else colour)


def _shared(*, dark: bool) -> dict[str, str]:
    """Return the colours of data by name."""
    named = {
        **KINDS,
        **{f"memory-{part}": colour for part, colour in MEMORY.items()},
        **_numbered("backward", BACKWARD),
        **_numbered("weights", WEIGHTS),
        **_numbered("wire", LINKS),
        **_numbered("series", [parse_colour(text) for text in SERIES]),
    }
    return {
        **{name: _visible(colour, dark=dark) for name, colour in named.items()},
        **{f"forward-{i}": written(shade) for i, shade in enumerate(FORWARD)},
        **{f"scale-{i}": text for i, text in enumerate(DARK_SCALE if dark else SCALE)},
        **{f"heat-{i}": text for i, text in enumerate(DARK_HEAT if dark else HEAT)},
    }


def _numbered(name: str, colours: Sequence[Colour]) -> dict[str, Colour]:
    return {f"{name}-{i}": colour for i, colour in enumerate(colours)}


LIGHT: Final[Mapping[str, str]] = {
    "ground": "#ffffff",
    "raised": "#f5f6f8",
    "ink": "#1b1f24",
    "quiet": "#565d66",
    "line": "#d4d8dd",
    "link": "#0b5cad",
    "warning": "#b3261e",
    "caution": "#8a5700",
    "good": "#1a6b37",
    "edge": "#262626",
    "grid": "#e3e6ea",
    "idle": "#c3c8ce",
    "other": "#c3c8ce",
    "faint": "#dbdbdb",
    "box-device": "#9ec9ed",
    "box-switch": "#d6d6d1",
    "box-nic": "#fad99e",
    **_shared(dark=False),
}

DARK: Final[Mapping[str, str]] = {
    **_shared(dark=True),
    "ground": "#14171b",
    "raised": "#1d2127",
    "ink": "#e8eaed",
    "quiet": "#a9b1ba",
    "line": "#3a414a",
    "link": "#83b9f5",
    "warning": "#ff8a80",
    "caution": "#f2c14e",
    "good": "#7fd29a",
    "edge": "#14171b",
    "grid": "#2b3138",
    "idle": "#565d66",
    "other": "#565d66",
    "bubble": "#3a4048",
    "faint": "#30363d",
    "box-device": "#27496b",
    "box-switch": "#41464d",
    "box-nic": "#644a17",
}
