"""The figure of a sweep: bars over one axis, a heat map over two, parallel lines over more."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim.render.matplotlib.figure import INK, plots, save
from clustersim.studies.sweep.parallel import parallel
from clustersim.studies.sweep.picture import BEST, BLUES, Cell, SweepPicture, blue, share_of
from clustersim.studies.sweep.text import number
from clustersim.studies.sweep.told import DOES_NOT_FIT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH: Final = 8.0
"""Of the figure [inches]."""


def draw_sweep(picture: SweepPicture, stem: Path) -> None:
    """Draw a sweep as ``stem.png`` and ``stem.svg``."""
    draw: Callable[[SweepPicture, Path], None] = {1: _bars, 2: _heat_map}.get(
        len(picture.values), parallel
    )
    draw(picture, stem)


# --- one axis -------------------------------------------------------------------------------------


def _bars(picture: SweepPicture, stem: Path) -> None:
    """Draw a bar for each value that fits, and say what became of the others."""
    (name, values), *_ = picture.values.items()
    with plots(picture.title, picture.caption, WIDTH, 1, 3.2, left=0.95) as (figure, found):
        axes = found[0]
        top = max((cell.measure or 0.0 for cell in picture.cells.values()), default=0.0) or 1.0
        for i in range(len(values)):
            cell = picture.cells.get((i,))
            if cell is None or cell.measure is None:
                axes.text(i, 0.02 * top, _word(cell), rotation=90, ha="center", color="0.35")
                continue
            colour = BEST if (i,) == picture.best else BLUES[3]
            axes.bar(i, cell.measure, width=0.6, color=colour, edgecolor=INK, linewidth=0.5)
            axes.text(i, cell.measure, number(cell.measure), ha="center", va="bottom", size=8)
        axes.set_xticks(range(len(values)), values)
        axes.set_xlim(-0.6, len(values) - 0.4)
        axes.set_ylim(0, 1.12 * top)
        axes.set_xlabel(name)
        axes.set_ylabel(picture.label)
        axes.yaxis.set_major_formatter(lambda value, _: number(value))
        axes.spines[["top", "right"]].set_visible(False)
        save(figure, stem)


def _word(cell: Cell | None) -> str:
    """Return what became of a combination that has no measure."""
    if cell is None:
        return "not asked for"
    if cell.verdict == DOES_NOT_FIT and cell.memory is not None:
        return f"needs {cell.memory:.1f} x the memory"
    return cell.verdict


# --- two axes -------------------------------------------------------------------------------------


def _heat_map(picture: SweepPicture, stem: Path) -> None:
    """Draw a field for each combination: coloured where it fits, hatched where it does not."""
    (down, lines), (across, columns) = picture.values.items()
    height = min(7.0, max(1.6, 0.42 * len(lines)))
    with plots(picture.title, picture.caption, WIDTH, 1, height, left=0.9) as (figure, found):
        axes = found[0]
        rates = [c.measure for c in picture.cells.values() if c.measure is not None]
        for row in range(len(lines)):
            for column in range(len(columns)):
                cell = picture.cells.get((row, column))
                if cell is not None:
                    _field(axes, column, row, cell, (rates, picture.more_is_better))
        if picture.best is not None:
            row, column = picture.best
            _frame(axes, column, row)
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(lines)), lines)
        axes.set_xlim(-0.52, len(columns) - 0.48)
        axes.set_ylim(len(lines) - 0.48, -0.52)
        axes.set_xlabel(across)
        axes.set_ylabel(down)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        _explain(figure, picture)
        save(figure, stem)


def _field(axes: "Axes", x: int, y: int, cell: Cell, scale: tuple[Sequence[float], bool]) -> None:
    from matplotlib.patches import Rectangle

    look: dict[str, Any] = {"facecolor": "white", "edgecolor": "0.85", "linewidth": 0.6}
    words, ink = "", "0.35"
    if cell.measure is not None:
        share = share_of(cell.measure, *scale)
        look["facecolor"] = blue(share)
        words, ink = number(cell.measure), "white" if share > 0.6 else "0.1"
    elif cell.verdict == DOES_NOT_FIT:
        look |= {"hatch": "////", "edgecolor": "0.8"}
        words = "" if cell.memory is None else f"{cell.memory:.1f} x"
    axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, **look))
    plate: Any = (
        {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if look.get("hatch") else None
    )
    axes.text(x, y, words, ha="center", va="center", size=8, color=ink, bbox=plate)


def _frame(axes: "Axes", x: int, y: int) -> None:
    """Mark the best field."""
    from matplotlib.patches import Rectangle

    place = (x - 0.47, y - 0.47)
    axes.add_patch(
        Rectangle(place, 0.94, 0.94, fill=False, edgecolor=BEST, linewidth=2.4, zorder=4)
    )


def _explain(figure: "Figure", picture: SweepPicture) -> None:
    """Say in a line under the title what the fields mean."""
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=BLUES[3], label=picture.label),
        Patch(facecolor="white", edgecolor=BEST, linewidth=2, label="the best"),
        Patch(
            facecolor="white",
            edgecolor="0.6",
            hatch="////",
            label="does not fit: memory it needs, over what there is",
        ),
        Patch(facecolor="white", edgecolor="0.85", label="cannot be"),
    ]
    height = figure.get_size_inches()[1]
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.12 / WIDTH, 1 - 0.38 / height),
        borderpad=0, borderaxespad=0, ncols=4, frameon=False, fontsize=8, columnspacing=1.2,
    )  # fmt: skip


__all__ = ["draw_sweep"]
