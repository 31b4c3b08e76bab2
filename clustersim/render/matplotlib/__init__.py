"""Pictures as files: each kind drawn by matplotlib, the same bytes for the same picture.

Each kind has a function that draws the picture on axes, and one that returns the room that it
needs.  `write_figure` draws one picture, or several with one above the other, and writes the
formats.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clustersim import __version__
from clustersim.render.charts.bars import Bars, StackedAreas, StackedBars, Waterfall
from clustersim.render.charts.grids import HeatMap, OwnerMap, ParallelCoordinates, ShareMap
from clustersim.render.charts.lines import Lines, ScatterWithFront
from clustersim.render.charts.picture import Drawn, Picture, Stacked, printable, stacked
from clustersim.render.charts.timeline import Timeline
from clustersim.render.matplotlib import bars, grids, lines, timeline
from clustersim.render.matplotlib.figure import FORMATS, STYLE, TITLE, Room, as_png, panels, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Kind(NamedTuple):
    """How a kind of picture is drawn: on axes, in how much room."""

    draw: Callable[[Any, Any], None]
    room: Callable[[Any], Room]


KINDS: Final[dict[type[Picture], Kind]] = {
    Bars: Kind(bars.draw_bars, bars.bars_room),
    HeatMap: Kind(grids.draw_heat_map, grids.heat_map_room),
    Lines: Kind(lines.draw_lines, lines.lines_room),
    OwnerMap: Kind(grids.draw_owner_map, grids.owner_map_room),
    ParallelCoordinates: Kind(grids.draw_parallel_coordinates, grids.parallel_room),
    ScatterWithFront: Kind(lines.draw_scatter_with_front, lines.scatter_room),
    ShareMap: Kind(grids.draw_share_map, grids.share_map_room),
    StackedAreas: Kind(bars.draw_stacked_areas, bars.stack_room),
    StackedBars: Kind(bars.draw_stacked_bars, bars.stack_room),
    Timeline: Kind(timeline.draw_timeline, timeline.timeline_room),
    Waterfall: Kind(bars.draw_waterfall, bars.waterfall_room),
}


def write_figure(pictures: Drawn, stem: Path, formats: Sequence[str] = FORMATS) -> None:
    """Write pictures, one above the other, as ``stem.png`` and so on, a file for each format.

    Each picture has its title above its axes; without a headline that of the first one is the
    title of the figure.
    """
    from matplotlib import rc_context

    pictures = stacked(pictures)
    with rc_context(STYLE):
        save(figure_of(printable(pictures.pictures), printable(pictures.headline)), stem, formats)


def shown_figure(pictures: Stacked) -> "Figure":
    """Return pictures as one figure that a notebook shows, whether or not it imports pyplot."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        figure = figure_of(printable(pictures.pictures), printable(pictures.headline))
    figure._repr_png_ = partial(as_png, figure)  # type: ignore[attr-defined]  # IPython calls it
    return figure


def figure_of(pictures: Sequence[Picture], headline: str = "") -> "Figure":
    """Return pictures as one figure, one above the other."""
    kinds = [KINDS[type(picture)] for picture in pictures]
    captions = dict.fromkeys(filter(None, (picture.caption for picture in pictures)))
    notes = dict.fromkeys(filter(None, (picture.note for picture in pictures)))
    own = [note.rstrip(".") for note in notes if not any(note in other[:-1] for other in notes)]
    words = [*captions, f"clustersim {__version__}", *own]
    entries = [*dict.fromkeys(entry for picture in pictures for entry in picture.legend())]
    rooms = [kind.room(picture) for kind, picture in zip(kinds, pictures, strict=True)]
    titles = [picture.title for picture in pictures]
    if headline:
        rooms[0] = rooms[0]._replace(above=rooms[0].above + TITLE)
    else:
        headline, titles[0] = titles[0], ""
    figure, axes = panels(headline, titles, "; ".join(words), rooms, entries)
    for kind, picture, plot in zip(kinds, pictures, axes, strict=True):
        kind.draw(plot, picture)
    return figure


__all__ = ["KINDS", "Kind", "figure_of", "shown_figure", "write_figure"]
