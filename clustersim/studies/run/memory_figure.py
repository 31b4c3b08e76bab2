"""The figure of memory: the fullest stage in time, and the peaks of all stages beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from clustersim import __version__
from clustersim.memory.curves import MemoryCurve
from clustersim.memory.verdict import PARTS
from clustersim.render.matplotlib.figure import INK, legend, plots, save
from clustersim.render.palette import MEMORY
from clustersim.render.tables import words
from clustersim.units import GIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from clustersim.simulation.simulate import Result

MOST_PARTS: Final = 8
"""Parts that are drawn by themselves; the smallest of more are drawn as one."""

FEWEST_BARS: Final = 4
"""Stages that there is room for, so that the bar of one is not as wide as the paper."""

MOST_MOMENTS: Final = 600
"""Levels of a curve that are drawn; of more only the fullest in each stretch of time."""


@dataclass(frozen=True)
class MemoryPicture:
    """What the figure shows, in GiB.

    Attributes
    ----------
    time : when each level of the fullest stage begins, and the end of the step [s]
    moments : bytes at each level, by part
    peaks : of every stage, by part
    fullest : the stage whose moments are shown
    """

    title: str
    caption: str
    capacity: float
    fullest: int
    time: NDArray[np.float64]
    moments: dict[str, NDArray[np.float64]]
    peaks: dict[str, NDArray[np.float64]]

    def columns(self) -> dict[str, NDArray[np.float64]]:
        """Return the moments of the fullest stage as a table: a column by name."""
        parts = {f"{part}_gib": values for part, values in self.moments.items()}
        return {"time_s": self.time[:-1], **parts}


def memory_picture(result: "Result") -> MemoryPicture:
    """Return what the figure of a result shows."""
    verdict = result.memory
    fullest = verdict.fullest
    curve = result.memory_curves[fullest.stage]
    peaks = {part: np.array([s.parts[part] for s in verdict.stages]) / GIB for part in PARTS}
    drawn = _drawn(fullest.parts)
    shown = _thinned(curve)
    moments = _moments(shown)
    moments["fragmentation"] = np.full(len(moments["runtime"]), fullest.parts["fragmentation"])
    return MemoryPicture(
        title=_finding(result),
        caption=f"scenario {result.name}, clustersim {__version__}; dashed: memory of a device;"
        " within a step its fullest moment",
        capacity=verdict.capacity / GIB,
        fullest=fullest.stage,
        time=np.append(shown.time, result.step_time),
        moments=_grouped({part: values / GIB for part, values in moments.items()}, drawn),
        peaks=_grouped(peaks, drawn),
    )


def _finding(result: "Result") -> str:
    fullest, capacity = result.memory.fullest, result.memory.capacity / GIB
    part = max(fullest.parts, key=fullest.parts.__getitem__)
    verb = "fills" if fullest.peak <= result.memory.capacity else "would need"
    share = f"{100 * fullest.parts[part] / fullest.peak:.0f} % of it {words(part)}"
    used = f"{fullest.peak / GIB:.1f} of {capacity:.1f} GiB"
    return f"{result.name}: stage {fullest.stage} {verb} {used}, {share}"


# --- what is drawn --------------------------------------------------------------------------------


def _drawn(parts: dict[str, float]) -> list[str]:
    """Return the parts that are drawn by themselves, in their order."""
    some = [part for part in PARTS if parts[part] >= 0.005 * sum(parts.values())]
    largest = sorted(some, key=lambda part: -parts[part])[:MOST_PARTS]
    return [part for part in PARTS if part in largest]


def _grouped(
    parts: dict[str, NDArray[np.float64]], drawn: list[str]
) -> dict[str, NDArray[np.float64]]:
    """Return the parts that are drawn and the sum of the others."""
    rest = [values for part, values in parts.items() if part not in drawn]
    zero = np.zeros(len(next(iter(parts.values()))))
    found = {part: parts.get(part, zero) for part in drawn}
    other = np.sum(rest, axis=0) if rest else zero
    return found | ({"other": other} if other.any() else {})


def _moments(curve: MemoryCurve) -> dict[str, NDArray[np.float64]]:
    level = np.ones(len(curve.time))
    return {part: nbytes * level for part, nbytes in curve.steady.items()} | curve.moving


def _thinned(curve: MemoryCurve) -> MemoryCurve:
    """Return at most so many levels as can be seen, the fullest of each stretch of time."""
    count = len(curve.time)
    if count <= MOST_MOMENTS:
        return curve
    stretch = np.searchsorted(np.linspace(0, curve.time[-1], MOST_MOMENTS), curve.time)
    order = np.lexsort((-curve.total, stretch))
    first = np.unique(stretch[order], return_index=True)[1]
    rows = np.sort(order[first])
    moving = {part: values[rows] for part, values in curve.moving.items()}
    return MemoryCurve(curve.stage, curve.time[rows], moving, curve.steady)


# --- drawing --------------------------------------------------------------------------------------


def draw_memory(picture: MemoryPicture, stem: Path, formats: Sequence[str]) -> None:
    """Draw memory in time and by stage into a file for each format."""
    colours = {words(part): MEMORY[part] for part in picture.moments}
    with plots(picture.title, picture.caption, 11.0, 2, 2.6) as (figure, axes):
        _draw_moments(axes[0], picture)
        _draw_peaks(axes[1], picture)
        legend(figure, colours)
        save(figure, stem, [f".{format}" for format in formats])


def _draw_moments(axes: "Axes", picture: MemoryPicture) -> None:
    below = np.zeros(len(picture.time))
    for part, values in picture.moments.items():
        above = below + np.append(values, values[-1])
        axes.fill_between(
            picture.time, below, above, step="post", color=[MEMORY[part]], linewidth=0
        )
        below = above
    axes.set_xlim(0, picture.time[-1])
    axes.set_xlabel("time [s]")
    _heading(axes, f"stage {picture.fullest}, from the first block to the end of the step")
    _scale(axes, picture, float(below.max()))


def _draw_peaks(axes: "Axes", picture: MemoryPicture) -> None:
    """Draw a bar for each stage; those of a part are one shape, as hundreds are slow one by one."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    count = len(next(iter(picture.peaks.values())))
    below, stages = np.zeros(count), np.arange(count)
    for part, values in picture.peaks.items():
        left, right, above = stages - 0.4, stages + 0.4, below + values
        x = np.stack([left, right, right, left], axis=1)
        y = np.stack([below, below, above, above], axis=1)
        line = 0.3 if count <= 32 else 0
        outlines = Outline.make_compound_path_from_polys(np.stack([x, y], axis=2))
        axes.add_artist(PathPatch(outlines, facecolor=MEMORY[part], edgecolor=INK, linewidth=line))
        below = above
    axes.set_xlim(-0.6, max(count, FEWEST_BARS) - 0.4)
    axes.set_xlabel("stage")
    axes.set_xticks(range(0, count, max(1, count // 8)))
    _heading(axes, "peak of every stage")
    _scale(axes, picture, float(below.max()))


def _heading(axes: "Axes", text: str) -> None:
    axes.text(0, 1.02, text, transform=axes.transAxes, size=9, va="bottom")


def _scale(axes: "Axes", picture: MemoryPicture, highest: float) -> None:
    axes.axhline(picture.capacity, color=INK, linestyle="--", linewidth=1)
    axes.set_ylim(0, 1.08 * max(picture.capacity, highest))
    axes.set_ylabel("memory [GiB]")
    axes.spines[["top", "right"]].set_visible(False)


__all__ = ["MemoryPicture", "draw_memory", "memory_picture"]
