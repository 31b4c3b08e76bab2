"""Pictures on a page: each kind as a plotly figure in plain dicts, drawn by the reader's browser.

Each kind has a function that takes the picture and returns a `Plot`: data, layout and height.
`page_chart` adds words, legend and table of the picture and returns a chart of a page.
"""

from collections.abc import Callable
from typing import Any, Final

from clustersim.render.charts.bars import Bars, StackedAreas, StackedBars, Waterfall
from clustersim.render.charts.grids import HeatMap, OwnerMap, ParallelCoordinates, ShareMap
from clustersim.render.charts.lines import Lines, ScatterWithFront
from clustersim.render.charts.picture import Picture, printable
from clustersim.render.charts.timeline import Timeline
from clustersim.render.page.page import Chart, Swatch
from clustersim.render.plotly.bars import bars, stacked_areas, stacked_bars, waterfall
from clustersim.render.plotly.grids import heat_map, owner_map, parallel_coordinates, share_map
from clustersim.render.plotly.lines import lines, scatter_with_front
from clustersim.render.plotly.pieces import Plot, colour
from clustersim.render.plotly.timeline import timeline

KINDS: Final[dict[type[Picture], Callable[[Any], Plot]]] = {
    Bars: bars,
    HeatMap: heat_map,
    Lines: lines,
    OwnerMap: owner_map,
    ParallelCoordinates: parallel_coordinates,
    ScatterWithFront: scatter_with_front,
    ShareMap: share_map,
    StackedAreas: stacked_areas,
    StackedBars: stacked_bars,
    Timeline: timeline,
    Waterfall: waterfall,
}


def plot_of(picture: Picture) -> Plot:
    """Return the data, the layout and the height of a picture."""
    return KINDS[type(picture)](picture)


def page_chart(picture: Picture) -> Chart:
    """Return a picture as a chart of a page, with its words and the table of its values."""
    picture = printable(picture)
    plot = plot_of(picture)
    legend = picture.legend() if plot.legend is None else plot.legend
    return Chart(
        title=picture.title,
        figure={"data": plot.data, "layout": plot.layout},
        description=picture.description,
        table=picture.table(),
        height=plot.height,
        swatches=tuple(Swatch(entry.name, colour(entry.colour), entry.style) for entry in legend),
        note=picture.note,
        zoom=plot.zoom,
    )


__all__ = ["KINDS", "page_chart", "plot_of"]
