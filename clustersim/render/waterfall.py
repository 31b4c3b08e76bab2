"""A waterfall: how the parts of a difference lead from one number to another.

    before ███████████████████
    part 1              ░░░░░░      takes away
    part 2              ██          adds
    after  ██████████████

Every bar but the two totals begins where the one above ends, so a gap would be a part left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim.render.mpl_style import INK, OPTIONS, Colour, legend, plots, save
from clustersim.render.palette import GROUPS
from clustersim.render.tables import kind_of, percent, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN: Final = 0.002
"""Of the larger total: parts that changed less are one bar, the last."""

MOST: Final = 12
"""Parts that have a bar of their own."""

TOTAL: Final[Colour] = (0.35, 0.35, 0.35)
"""The bars of the two numbers themselves."""


@dataclass(frozen=True)
class Step:
    """A part of the difference: its name, its kind as in `GROUPS`, and what it adds."""

    label: str
    kind: str
    change: float


@dataclass(frozen=True)
class Waterfall:
    """What is drawn.

    Attributes
    ----------
    title : what it shows, in a sentence
    caption : of what it is made
    first, last : names of the two totals
    start : the first total
    steps : that lead to the last total
    unit : of all numbers
    axis : what the numbers are
    """

    title: str
    caption: str
    first: str
    last: str
    start: float
    steps: tuple[Step, ...]
    unit: str = "s"
    axis: str = "time of a step"

    @property
    def size(self) -> float:
        """The larger total."""
        return max(abs(self.start), abs(self.end))

    @property
    def end(self) -> float:
        """The last total."""
        return self.start + sum(step.change for step in self.steps)

    def in_unit(self) -> "Waterfall":
        """Return the same in milliseconds or microseconds where these suit its seconds better."""
        factor, unit = unit_of(self.size)
        steps = tuple(replace(step, change=factor * step.change) for step in self.steps)
        return replace(self, start=factor * self.start, steps=steps, unit=unit)

    def levels(self) -> list[float]:
        """Return the first total and what there is after each step."""
        found = [self.start]
        for step in self.steps:
            found.append(found[-1] + step.change)
        return found

    def lines(self) -> Iterator[Sequence[Any]]:
        """Yield what is drawn as a table: each part, its change and what there is after it."""
        yield ["part", "kind", "change", "level", "unit"]
        yield [self.first, "total", "", self.start, self.unit]
        for step, level in zip(self.steps, self.levels()[1:], strict=True):
            yield [step.label, step.kind, step.change, level, self.unit]
        yield [self.last, "total", "", self.end, self.unit]


def steps_of(parts: Mapping[str, float], size: float) -> tuple[Step, ...]:
    """Return parts as steps: kind by kind, in a kind the largest first; small ones are the last.

    Parameters
    ----------
    parts : what each adds
    size : of the larger total, which says what is small
    """
    ordered = sorted(parts, key=lambda part: -abs(parts[part]))
    own = [part for part in ordered[:MOST] if abs(parts[part]) >= SHOWN * size]
    own = own or [part for part in ordered[:3] if parts[part]]
    kinds: dict[str, float] = {}
    for part in own:
        kinds[kind_of(part)] = kinds.get(kind_of(part), 0.0) + abs(parts[part])
    own.sort(key=lambda part: (-kinds[kind_of(part)], kind_of(part), -abs(parts[part])))
    steps = [Step(words(part), kind_of(part), parts[part]) for part in own]
    rest = [parts[part] for part in parts if part not in own]
    if any(abs(change) > 1e-9 * size for change in rest):
        steps.append(Step("all other parts", "other", sum(rest)))
    return tuple(steps)


def draw_waterfall(picture: Waterfall, stem: Path) -> None:
    """Draw it as ``stem.png``, ``stem.svg`` and ``stem.pdf``."""
    height = 0.29 * (len(picture.steps) + 2)
    paper = plots(_folded(picture.title), picture.caption, 9.0, 1, height, left=2.2)
    with paper as (figure, axes):
        _draw_bars(axes[0], picture)
        kinds = {step.kind for step in picture.steps}
        legend(figure, {kind: GROUPS[kind] for kind in GROUPS if kind in kinds})
        save(figure, stem, [*OPTIONS])


def _folded(title: str) -> str:
    """Return a title that fits on the paper, without its last parts where it is too long."""
    while len(title) > _LINE and ", " in title:
        title = title.rpartition(", ")[0]
    return title


_LINE: Final = 88
"""Letters that a title of the paper's width may have."""


def _draw_bars(axes: "Axes", picture: Waterfall) -> None:
    levels, steps = picture.levels(), picture.steps
    begins = [0.0, *(min(levels[i], levels[i + 1]) for i in range(len(steps))), 0.0]
    widths = [picture.start, *(abs(step.change) for step in steps), picture.end]
    colours = [TOTAL, *(GROUPS.get(step.kind, _OTHER) for step in steps), TOTAL]
    rows = range(len(widths))
    axes.barh(rows, widths, left=begins, color=colours, edgecolor=INK, linewidth=0.5, height=0.66)
    low, high = window(levels, picture.start, picture.end)
    for row, level in enumerate(levels):  # where a bar begins, the one above ended
        axes.plot([level, level], [row + 0.33, row + 0.67], color="0.45", linewidth=0.7)
    _write_values(axes, picture, high - low)
    axes.set_yticks(rows, [picture.first, *(step.label for step in steps), picture.last])
    axes.set_ylim(len(widths) - 0.5, -0.5)
    axes.set_xlim(low, high + 0.25 * (high - low))
    cut = " (the axis does not begin at 0)" if low else ""
    axes.set_xlabel(f"{picture.axis} [{picture.unit}]{cut}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


_OTHER: Final[Colour] = (0.75, 0.75, 0.75)


def window(levels: Sequence[float], start: float, end: float) -> tuple[float, float]:
    """Return what the axis shows: from 0, or from below the lowest level if changes are small."""
    low, high = min(levels), max(levels)
    moved = high - low
    if moved > 0.25 * max(start, end) or moved <= 0:
        return min(0.0, low), high
    return max(0.0, low - 0.5 * moved), high


def _write_values(axes: "Axes", picture: Waterfall, span: float) -> None:
    """Write each number to the right of its bar, where no other bar is."""
    levels, gap = picture.levels(), 0.01 * span
    size = picture.size
    said = [number(picture.start, size)]
    said += [
        f"{number(step.change, size, '+')} ({share_of(step, picture)})" for step in picture.steps
    ]
    share = f" ({percent(picture.end / picture.start - 1, '+')})" if picture.start else ""
    said.append(number(picture.end, size) + share)
    ends = [picture.start, *(max(levels[i], levels[i + 1]) for i in range(len(picture.steps)))]
    for row, (end, text) in enumerate(zip([*ends, picture.end], said, strict=True)):
        axes.text(end + gap, row, text, va="center", size=8)


def share_of(step: Step, picture: Waterfall) -> str:
    """Return a change in percent of the first total: ``'-2.5 %'``."""
    share = step.change / picture.start if picture.start else 0.0
    return percent(share, "+") if abs(share) >= 5e-4 else "0.0 %"


def unit_of(seconds: float) -> tuple[float, str]:
    """Return how many of its unit a second has, and the unit in which a time is read best.

    >>> unit_of(792.0), unit_of(0.004)
    ((1.0, 's'), (1000.0, 'ms'))
    """
    units = ((1.0, "s"), (1e3, "ms"))
    return next((each for each in units if each[0] * seconds >= 1), (1e6, "us"))


def number(value: float, size: float, sign: str = "") -> str:
    """Return a number to a thousandth of `size`, so that all of a column can be compared.

    >>> number(792.55128, 792.0), number(-2.8789, 792.0, "+"), number(0.00123, 792.0, "+")
    ('792.6', '-2.9', '0.0')
    """
    said = f"{value:{sign}.{_decimals(size)}f}"
    return said if float(said) else said.lstrip("+-")


def _decimals(size: float) -> int:
    decimals = 1
    while size < 100 and decimals < 9:
        size, decimals = 10 * size, decimals + 1
    return decimals


__all__ = [
    "Step",
    "Waterfall",
    "draw_waterfall",
    "number",
    "share_of",
    "steps_of",
    "unit_of",
    "window",
]
