"""The figure of where the time of a step goes, and of what was published beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clustersim.render.matplotlib.figure import INK, legend, plots, save
from clustersim.render.palette import FORWARD, GROUPS
from clustersim.render.tables import percent, words
from clustersim.studies.run.pictures import Beside, BreakdownPicture
from clustersim.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_breakdown(picture: BreakdownPicture, stem: Path, formats: Sequence[str]) -> None:
    """Draw the parts of the step time as bars into a file for each format."""
    height = 0.27 * max(len(picture.bars), 4)
    both = bool(picture.published)
    paper = plots(picture.title, picture.caption, 11.0, 1, height, left=2.0, beside=both)
    with paper as (figure, axes):
        _draw_parts(axes[0], picture)
        if both:
            _draw_published(axes[1], picture.published)
        kinds = {bar.kind for bar in picture.bars} | {"compute", "communication", "bubble"}
        legend(figure, {kind: GROUPS[kind] for kind in GROUPS if kind in kinds})
        save(figure, stem, [f".{format}" for format in formats])


def _draw_parts(axes: "Axes", picture: BreakdownPicture) -> None:
    bars = picture.bars
    seconds = [bar.seconds for bar in bars]
    axes.barh(
        range(len(bars)),
        seconds,
        color=[GROUPS[b.kind] for b in bars],
        edgecolor=INK,
        linewidth=0.5,
    )
    for row, bar in enumerate(bars):
        share = percent(bar.seconds / picture.duration)
        text = f" {format_seconds(bar.seconds, 3)}, {share}"
        axes.text(bar.seconds, row, text, va="center", size=8)
    axes.set_yticks(range(len(bars)), [words(bar.part) for bar in bars])
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, 1.28 * max(seconds))
    axes.set_xlabel(f"time [s], of a step of {format_seconds(picture.duration)}")
    _open(axes)


def _draw_published(axes: "Axes", checks: tuple[Beside, ...]) -> None:
    """Draw each prediction as a bar over the published value, which is 100 %."""
    rows, shares = range(len(checks)), [100 * check.predicted / check.published for check in checks]
    axes.barh(rows, shares, height=0.3, color=FORWARD[1], edgecolor=INK, linewidth=0.5)
    axes.plot([100] * len(checks), rows, "D", color="white", markeredgecolor=INK)
    for row, check in zip(rows, checks, strict=True):
        error = percent(check.predicted / check.published - 1, "+")
        text = f"{check.metric}\n{check.published:.4g} published, {check.predicted:.4g} predicted"
        axes.text(1, row - 0.2, f"{text} ({error})", va="bottom", size=8)
    axes.set_yticks([])
    axes.set_ylim(max(len(checks), 2) - 0.5, -0.75)
    axes.set_xlim(0, max(125, *(1.1 * share for share in shares)))
    axes.set_xlabel("prediction [%], of the published value (diamond)")
    _open(axes)


def _open(axes: "Axes") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


__all__ = ["draw_breakdown"]
