"""The pipeline in time: all blocks of a small one; of a large one an overview and a sample.

A step of a trillion parameters has 200,000 blocks.  The overview says for every stage how much of
each moment it works; its two ends, where waiting happens, are drawn block by block for some of the
stages.  Each chart says what it shows of how much.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clustersim.render.page.page import Chart, Column, Section, Swatch, Table
from clustersim.render.plotly.pieces import Figure, axis, colour, layout, rounded
from clustersim.render.tables import counted
from clustersim.studies.run.breakdown_section import finding
from clustersim.studies.run.overview_chart import overview
from clustersim.studies.run.pictures import KINDS, TimelinePicture
from clustersim.studies.run.timeline_figure import Panel, panels
from clustersim.units import format_seconds

MOST_BARS: Final = 1_500
"""Blocks of one chart: more take long to draw and are too small to point at."""

MOST_STAGES: Final = 16
"""Stages of a sample; the first and the last are among them."""

FEWEST_STAGES: Final = 6
"""Stages of a sample that takes fewer of them rather than less time."""

MOST_ROWS: Final = 128
"""Stages of the overview."""

NUMBERED: Final = 400
"""Blocks that carry the number of their microbatch."""

_MEMORY: Final = ("forward", "backward", "backward", "weights")
_AFTER: Final = {4: "communication", 5: "optimiser"}


def pipeline(picture: TimelinePicture, waits: str) -> Section:
    """Return the timeline; `waits` says when ranks wait most."""
    title = finding(picture.title) + (f": ranks wait {waits}" if waits else "")
    views = panels(picture)
    if len(picture.start) <= MOST_BARS:
        return _section(title, [_blocks(picture, picture, title)], picture)
    charts = [overview(picture, title, stages_shown(picture.stages, MOST_ROWS))]
    for view, at_end in zip(views[1:], (False, True), strict=True):
        some = sampled(picture, view, at_end=at_end)
        heading = f"{view.heading[0].upper()}{view.heading[1:]}"
        found = _first_to_end(picture) if at_end else _last_to_begin(picture)
        charts.append(_blocks(picture, some, f"{heading}: {found}"))
    return _section(title, charts, picture)


def _section(title: str, charts: list[Chart], picture: TimelinePicture) -> Section:
    said = (
        f"Time runs to the right, stages go down: {picture.caption.partition('; ')[2]}."
        " Grey is waiting. Every block of every rank class is in timeline.parquet."
    )
    return Section("The pipeline in time", "pipeline", (said,), tuple(charts))


def _last_to_begin(picture: TimelinePicture) -> str:
    """Return which stage is reached last, and when."""
    first = np.unique(picture.stage, return_index=True)[1]
    begins = picture.start[first]
    stage = int(begins.argmax())
    return f"stage {stage} begins after {format_seconds(float(begins[stage]), 3)}"


def _first_to_end(picture: TimelinePicture) -> str:
    """Return which stage has done its last block first, and how long before the end."""
    blocks = picture.kind < len(_MEMORY)
    ends = np.zeros(picture.stages)
    np.maximum.at(ends, picture.stage[blocks], picture.end[blocks])
    stage = int(ends.argmin())
    left = format_seconds(picture.duration - float(ends[stage]), 3)
    return f"stage {stage} has done its last block {left} before the end"


def stages_shown(stages: int, most: int) -> NDArray[np.int64]:
    """Return at most so many stages, evenly, the first and the last among them.

    >>> stages_shown(64, 5).tolist()
    [0, 16, 32, 47, 63]
    """
    return np.unique(np.linspace(0, stages - 1, min(stages, most)).round().astype(np.int64))


def sampled(picture: TimelinePicture, view: Panel, *, at_end: bool) -> TimelinePicture:
    """Return what a view shows of some stages; of too many blocks those nearest to its end."""
    inside = picture.within(view.begin, view.end)
    for most in range(MOST_STAGES, FEWEST_STAGES - 1, -1):
        rows = np.flatnonzero(np.isin(inside.stage, stages_shown(picture.stages, most)))
        if len(rows) <= MOST_BARS:
            break
    if len(rows) > MOST_BARS:
        order = np.argsort(-inside.end[rows] if at_end else inside.start[rows], kind="stable")
        rows = np.sort(rows[order[:MOST_BARS]])
    return _taken(inside, rows)


def _taken(picture: TimelinePicture, rows: NDArray[np.int64]) -> TimelinePicture:
    return replace(
        picture,
        stage=picture.stage[rows],
        kind=picture.kind[rows],
        microbatch=picture.microbatch[rows],
        chunk=picture.chunk[rows],
        start=picture.start[rows],
        end=picture.end[rows],
    )


# --- block by block -------------------------------------------------------------------------------


def _blocks(whole: TimelinePicture, shown: TimelinePicture, title: str) -> Chart:
    """Return blocks as bars, which can be pointed at."""
    stages = np.unique(shown.stage)
    begin, end = float(shown.start.min()), float(shown.end.max())
    if len(shown.start) == len(whole.start):
        begin, end = 0.0, whole.duration
    data = [_bars(shown, kind, stages, end) for kind in np.unique(shown.kind).tolist()]
    across = axis("time [s]", range=[begin, end])
    return Chart(
        title=title,
        figure={"data": data, "layout": _layout(across, stages)},
        description=f"{counted(len(stages), 'stage')} down, time across from"
        f" {format_seconds(begin)} to {format_seconds(end)}, a bar for each block.",
        table=_table(shown, stages),
        height=int(84 + max(18.0, min(40.0, 320 / len(stages))) * len(stages)),
        swatches=tuple(_swatches(shown)),
        note=_how_much(whole, shown, stages),
        zoom=True,
    )


def _bars(shown: TimelinePicture, kind: int, stages: NDArray[np.int32], end: float) -> Figure:
    """Return all blocks of a kind, their rows by place among the stages shown."""
    rows = shown.kind == kind
    start, length = shown.start[rows], (shown.end - shown.start)[rows]
    number, stage = shown.microbatch[rows].tolist(), shown.stage[rows].tolist()
    told = [
        [a, b, format_seconds(s), format_seconds(d)]
        for a, b, s, d in zip(stage, number, start.tolist(), length.tolist(), strict=True)
    ]
    which = "" if kind in _AFTER else ", microbatch %{customdata[1]}"
    numbered = kind not in _AFTER and len(shown.start) <= NUMBERED
    return {
        "type": "bar",
        "orientation": "h",
        "name": KINDS[kind],
        "y": np.searchsorted(stages, shown.stage[rows]).tolist(),
        "x": rounded(length, end / 100),
        "base": rounded(start, end / 100),
        "width": 0.86,
        "marker": _marker(shown, kind, rows),
        "customdata": told,
        "hovertemplate": f"stage %{{customdata[0]}}{which}: {KINDS[kind]}<br>"
        "from %{customdata[2]} for %{customdata[3]}<extra></extra>",
    } | ({"text": [str(each) for each in number], **_INSIDE} if numbered else {})


_INSIDE: Final = {
    "textposition": "inside",
    "insidetextanchor": "middle",
    "textangle": 0,
    "constraintext": "inside",
}


def _marker(shown: TimelinePicture, kind: int, rows: NDArray[np.bool_]) -> Figure:
    """Return the colour of blocks, from the first shade to the second by chunk."""
    line = {"color": "var(--ground)", "width": 0.4 if len(shown.start) <= NUMBERED else 0}
    if kind in _AFTER:
        return {"color": colour(_AFTER[kind]), "line": line}
    first, last = (colour(f"{_MEMORY[kind]}-{i}") for i in (0, 1))
    if shown.chunks == 1:
        return {"color": first, "line": line}
    scale = {"colorscale": [[0, first], [1, last]], "cmin": 0, "cmax": shown.chunks - 1}
    return {"color": shown.chunk[rows].tolist(), **scale, "line": line}


def _layout(across: Figure, stages: NDArray[np.int32]) -> Figure:
    count = len(stages)
    down = axis(
        "stage",
        tickvals=list(range(count)),
        ticktext=[str(stage) for stage in stages.tolist()],
        range=[count - 0.5, -0.5],
        fixedrange=True,
        showgrid=False,
        zeroline=False,
    )
    more = {"barmode": "overlay", "dragmode": "zoom", "plot_bgcolor": colour("bubble")}
    return layout(across, down, **more)


def _swatches(shown: TimelinePicture) -> list[Swatch]:
    """Return the legend: a kind in the shade of its first chunk, and of its last one."""
    found = []
    for kind in np.unique(shown.kind).tolist():
        if kind in _AFTER:
            name = "gradients, parameters" if kind == 4 else KINDS[kind]
            found.append(Swatch(name, colour(_AFTER[kind])))
        elif shown.chunks == 1:
            found.append(Swatch(KINDS[kind], colour(f"{_MEMORY[kind]}-0")))
        else:
            found += [
                Swatch(f"{KINDS[kind]}, {which} chunk", colour(f"{_MEMORY[kind]}-{i}"))
                for i, which in enumerate(("first", "last"))
            ]
    return [*found, Swatch("waiting (bubble)", colour("bubble"))]


def _how_much(whole: TimelinePicture, shown: TimelinePicture, stages: NDArray[np.int32]) -> str:
    """Return what is drawn of how much."""
    some, every = len(shown.start), len(whole.start)
    if some == every:
        return f"All {counted(every, 'block')} are drawn."
    of = f"{len(stages)} of {counted(whole.stages, 'stage')}"
    return f"{some:,} of {every:,} blocks are drawn, on {of}."


def _table(shown: TimelinePicture, stages: NDArray[np.int32]) -> Table:
    """Return what each stage does in what is shown."""
    names = ("stage", "blocks", "first begins [s]", "last ends [s]", "at work [s]")
    lines = []
    for stage in stages.tolist():
        mine = shown.stage == stage
        start, end = shown.start[mine], shown.end[mine]
        work = float((end - start).sum())
        times = (float(start.min()), float(end.max()), work)
        lines.append((f"{stage}", f"{len(start):,}", *(f"{seconds:.5g}" for seconds in times)))
    return Table("stages of this chart", tuple(Column(n, True) for n in names), tuple(lines))


__all__ = ["MOST_BARS", "MOST_STAGES", "pipeline", "sampled", "stages_shown"]
