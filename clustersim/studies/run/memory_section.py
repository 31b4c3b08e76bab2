"""Memory: the peak of every stage by part against what a device has, and the fullest in time."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from clustersim.render.page.page import Chart, Column, Section, Swatch, Table
from clustersim.render.plotly.pieces import OUTLINE, Figure, axis, colour, layout, rounded
from clustersim.render.tables import counted, words
from clustersim.studies.run.breakdown_section import finding
from clustersim.studies.run.memory_figure import MemoryPicture

Parts = Mapping[str, NDArray[np.float64]]


def memory(picture: MemoryPicture, verdict: str, advice: tuple[str, ...]) -> Section:
    """Return peaks by stage and the fullest stage in time; `advice` is what would make it fit."""
    said = (verdict[0].upper() + verdict[1:] + ".", *(f"It would fit {each}." for each in advice))
    return Section("Memory", "memory", said, (_peaks(picture), _moments(picture)))


def _peaks(picture: MemoryPicture) -> Chart:
    count = len(next(iter(picture.peaks.values())))
    stages = list(range(count))
    data = [
        {
            "type": "bar",
            "name": words(part),
            "x": stages,
            "y": rounded(values, picture.capacity),
            "width": min(0.8, 0.15 * count),
            "marker": {"color": colour(f"memory-{part}"), "line": OUTLINE},
            "hovertemplate": f"stage %{{x}}: {words(part)} %{{y:.1f}} GiB<extra></extra>",
        }
        for part, values in picture.peaks.items()
    ]
    highest = float(np.sum(list(picture.peaks.values()), axis=0).max())
    step = max(1, -(-count // 12))
    across = axis("stage", tickmode="linear", dtick=step, range=[-0.6, count - 0.4],
                  fixedrange=True, zeroline=False)  # fmt: skip
    return Chart(
        title=finding(picture.title),
        figure={"data": data, "layout": _layout(across, picture, highest, barmode="stack")},
        description=f"{counted(count, 'stage')}, each a stack of its parts at the fullest moment,"
        f" below a line at {picture.capacity:.1f} GiB, the memory of a device.",
        table=_table(picture.peaks),
        height=340,
        swatches=_swatches(picture.peaks),
        note="The fullest moment of each stage; the dashed line is the memory of a device.",
    )


def _moments(picture: MemoryPicture) -> Chart:
    """Return what the fullest stage holds in time; a level lasts until the next begins."""
    time = rounded(picture.time, picture.time[-1] / 100)
    total = np.sum(list(picture.moments.values()), axis=0)
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "stackgroup": "all",
            "name": words(part),
            "x": time,
            "y": rounded(np.append(values, values[-1]), picture.capacity),
            "line": {"shape": "hv", "width": 0.5, "color": colour(f"memory-{part}")},
            "fillcolor": colour(f"memory-{part}"),
            "hovertemplate": f"{words(part)} %{{y:.1f}} GiB<extra></extra>",
        }
        for part, values in picture.moments.items()
    ]
    least, most = float(total.min()), float(total.max())
    across = axis("time [s]", range=[0, float(picture.time[-1])])
    laid = _layout(across, picture, most, hovermode="x unified", dragmode="zoom")
    return Chart(
        title=f"Stage {picture.fullest} holds between {least:.1f} and {most:.1f} GiB in a step",
        figure={"data": data, "layout": laid},
        description="A stack of its parts over time, below a line at the memory of a device.",
        table=_span(picture.moments),
        height=320,
        swatches=_swatches(picture.moments),
        note=f"The fullest stage, {picture.fullest}, from the first block to the end of the step.",
        zoom=True,
    )


def _layout(across: Figure, picture: MemoryPicture, highest: float, **more: str | float) -> Figure:
    """Return axes with a dashed line at what a device has."""
    top = 1.1 * max(picture.capacity, highest)
    level = picture.capacity
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level,
            "line": {"color": "var(--ink)", "width": 1.5, "dash": "dash"}}  # fmt: skip
    told = {"xref": "paper", "x": 1, "xanchor": "right", "y": level, "yanchor": "bottom",
            "text": f"a device has {level:.1f} GiB", "showarrow": False}  # fmt: skip
    down = axis("memory [GiB]", range=[0, top], fixedrange=True)
    return layout(across, down, shapes=[line], annotations=[told], **more)


def _swatches(parts: Parts) -> tuple[Swatch, ...]:
    return tuple(Swatch(words(part), colour(f"memory-{part}")) for part in parts)


def _table(peaks: Parts) -> Table:
    total = np.sum(list(peaks.values()), axis=0)
    columns = {**{words(part): values for part, values in peaks.items()}, "all": total}
    lines = tuple(
        (f"{stage}", *(f"{values[stage]:.2f}" for values in columns.values()))
        for stage in range(len(total))
    )
    named = (Column("stage", True), *(Column(name, True) for name in columns))
    return Table("memory of each stage at its fullest moment [GiB]", named, lines)


def _span(moments: Parts) -> Table:
    lines = tuple(
        (words(part), f"{values.min():.2f}", f"{values.max():.2f}")
        for part, values in moments.items()
    )
    columns = Column("part"), Column("least [GiB]", True), Column("most [GiB]", True)
    return Table("parts of the fullest stage over the step", columns, lines)


__all__ = ["memory"]
