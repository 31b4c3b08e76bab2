"""A whole step at a glance: how much of each moment every stage works."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from clustersim.render.page.page import Chart, Column, Swatch, Table
from clustersim.render.plotly.pieces import Figure, axis, colour, layout, rounded
from clustersim.render.tables import counted, percent
from clustersim.studies.run.pictures import KINDS, TimelinePicture
from clustersim.studies.run.timeline_figure import covered
from clustersim.units import format_seconds

MOMENTS: Final = 240
"""Stretches of time of the overview."""

AFTER: Final = KINDS.index("communication")
"""The first kind of row that is no block."""


def overview(picture: TimelinePicture, title: str, stages: NDArray[np.int64]) -> Chart:
    """Return for each of some stages and each stretch of time the share of it that it works."""
    edges = np.linspace(0.0, picture.duration, MOMENTS + 1)
    busy = np.stack([_at_work(picture, int(stage), edges) for stage in stages])
    means = (edges[1:] + edges[:-1]) / 2
    down = axis("stage", autorange="reversed", fixedrange=True, showgrid=False, zeroline=False)
    return Chart(
        title=title,
        figure={
            "data": [_heat(busy, means, stages, picture.duration)],
            "layout": layout(axis("time [s]", range=[0, picture.duration]), down, dragmode="zoom"),
        },
        description="The whole step: a row for each stage, darker where it works more of the time.",
        table=_shares(busy, stages),
        height=int(min(max(8 * len(stages), 110), 420)) + 56,
        swatches=(
            Swatch("waits", colour("bubble")),
            Swatch("works all the time", colour("compute")),
        ),
        note=f"The whole step of {format_seconds(picture.duration)} in {MOMENTS} stretches of"
        f" {format_seconds(picture.duration / MOMENTS, 3)}; {len(stages)} of"
        f" {counted(picture.stages, 'stage')}. It stands for {len(picture.start):,} blocks.",
        zoom=True,
    )


def _at_work(
    picture: TimelinePicture, stage: int, edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of each stretch of time that a stage's blocks cover."""
    mine = slice(*np.searchsorted(picture.stage, [stage, stage + 1]))
    blocks = picture.kind[mine] < AFTER
    return covered(picture.start[mine][blocks], picture.end[mine][blocks], edges).clip(0, 1)


def _heat(
    busy: NDArray[np.float64], means: NDArray[np.float64], stages: NDArray[np.int64], end: float
) -> Figure:
    return {
        "type": "heatmap",
        "x": rounded(means, end),
        "y": stages.tolist(),
        "z": (100 * busy).round().astype(int).tolist(),
        "zmin": 0,
        "zmax": 100,
        "colorscale": [[0, colour("bubble")], [1, colour("compute")]],
        "showscale": False,
        "hovertemplate": "stage %{y} at %{x} s: works %{z} % of the time<extra></extra>",
    }


def _shares(busy: NDArray[np.float64], stages: NDArray[np.int64]) -> Table:
    """Return how much of the step and of its tenths each stage works."""
    tenths = busy.reshape(len(stages), 10, -1).mean(axis=2)
    names = ("stage", "whole step", *(f"{10 * i} to {10 * i + 10} %" for i in range(10)))
    lines = tuple(
        (f"{stage}", percent(float(row.mean())), *(percent(float(each)) for each in row))
        for stage, row in zip(stages.tolist(), tenths, strict=True)
    )
    columns = tuple(Column(name, True) for name in names)
    return Table("share of each tenth of the step that a stage works", columns, lines)


__all__ = ["AFTER", "overview"]
