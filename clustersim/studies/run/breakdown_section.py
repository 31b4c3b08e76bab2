"""Where the time goes: the parts of a step one after another, adding up to all of it."""

from itertools import accumulate

from clustersim.render.page.page import Chart, Column, Section, Swatch, Table
from clustersim.render.plotly.pieces import OUTLINE, axis, colour, label, layout, rounded
from clustersim.render.tables import percent, words
from clustersim.studies.run.pictures import Bar, BreakdownPicture
from clustersim.units import format_seconds


def where_time_goes(picture: BreakdownPicture, exposed: Table) -> Section:
    """Return the parts of the step time, and which links hold up communication."""
    chart = _chart(picture)
    blocks = (chart, exposed) if exposed.rows else (chart,)
    return Section("Where the time goes", "time", (), blocks)


def finding(title: str) -> str:
    """Return what the title of a figure finds, without the name of the scenario before it.

    >>> finding("frontier-1t: stage 0 fills 39.7 of 59.6 GiB")
    'Stage 0 fills 39.7 of 59.6 GiB'
    """
    found = title.partition(": ")[2]
    return found[0].upper() + found[1:]


def parts(picture: BreakdownPicture) -> list[Bar]:
    """Return the bars of a picture and what is missing to the whole step, if that is seen."""
    rest = picture.duration - sum(bar.seconds for bar in picture.bars)
    small = [Bar("other", "compute", rest)] if rest > 5e-6 * picture.duration else []
    return [*picture.bars, *small]


def _chart(picture: BreakdownPicture) -> Chart:
    bars = parts(picture)
    kinds = list(dict.fromkeys(bar.kind for bar in bars))
    longest = max(bars, key=lambda bar: bar.seconds)
    return Chart(
        title=finding(picture.title),
        figure={"data": [_waterfall(picture, bars)], "layout": _layout(picture, bars)},
        description=f"{len(bars)} bars, each beginning where the one above ends; the longest is"
        f" {words(longest.part)} with {_told(longest, picture.duration)}.",
        table=_table(picture, bars),
        height=44 + 38 * len(bars),
        swatches=tuple(Swatch(kind, colour(kind)) for kind in kinds),
        note=picture.caption.partition("; ")[2].capitalize() + ".",
    )


def _told(bar: Bar, duration: float) -> str:
    return f"{format_seconds(bar.seconds, 3)}, {percent(bar.seconds / duration)}"


def _waterfall(picture: BreakdownPicture, bars: list[Bar]) -> dict[str, object]:
    ends = list(accumulate(bar.seconds for bar in bars))
    return {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(bars))),
        "x": rounded((bar.seconds for bar in bars), picture.duration),
        "base": rounded([0.0, *ends[:-1]], picture.duration),
        "width": 0.7,
        "marker": {"color": [colour(bar.kind) for bar in bars], "line": OUTLINE},
        "customdata": [[words(bar.part), _told(bar, picture.duration)] for bar in bars],
        "hovertemplate": "%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
    }


def _layout(picture: BreakdownPicture, bars: list[Bar]) -> dict[str, object]:
    """Return axes whose labels carry the numbers, so that none stands in the way of a bar."""
    names = [f"{label(words(bar.part))}<br>{_told(bar, picture.duration)}" for bar in bars]
    places = list(range(len(bars)))
    return layout(
        axis("time [s]", range=[0, picture.duration], fixedrange=True),
        {"tickvals": places, "ticktext": names, "range": [len(bars) - 0.5, -0.5],
         "fixedrange": True, "showgrid": False, "zeroline": False},
    )  # fmt: skip


def _table(picture: BreakdownPicture, bars: list[Bar]) -> Table:
    columns = Column("part"), Column("kind"), Column("time [s]", True), Column("share", True)
    lines = [
        (words(b.part), b.kind, f"{b.seconds:.6g}", percent(b.seconds / picture.duration))
        for b in bars
    ]
    lines.append(("step", "", f"{picture.duration:.6g}", percent(1.0)))
    return Table("parts of the step time, mean of all ranks", columns, tuple(lines))


__all__ = ["parts", "where_time_goes"]
