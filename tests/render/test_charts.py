"""Pictures: every kind is drawn by both back ends, with the same values, names and colours."""

import json
import math
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.image import imread

from clustersim.render import matplotlib as figures
from clustersim.render import palette
from clustersim.render import plotly as charts
from clustersim.render.charts.bars import (
    Bar,
    Bars,
    Layer,
    Level,
    Stack,
    StackedAreas,
    StackedBars,
    Step,
    Waterfall,
)
from clustersim.render.charts.grids import (
    Combination,
    Field,
    HeatMap,
    Owned,
    OwnerMap,
    ParallelCoordinates,
    ShareMap,
)
from clustersim.render.charts.lines import Band, Lines, Point, ScatterWithFront, Series
from clustersim.render.charts.picture import Axis, Picture, named_places, text_table
from clustersim.render.charts.timeline import BlockKind, Timeline
from clustersim.render.palette import DARK, LIGHT, contrast, ink_on, parse_colour

HEAD = {
    "title": "A <b>bold</b> finding",
    "caption": "a caption",
    "description": "what it shows",
    "note": "How to read it.",
}
PHASE_KINDS = tuple(
    BlockKind(name, (colour, colour), computes=False)
    for name, colour in (
        ("computes", "compute"),
        ("communicates", "communication"),
        ("both", "optimiser"),
    )
)
LAYERS = (
    Layer("a", "memory-gradients", np.array([1.0, 2.0, 3.0])),
    Layer("b <b>", "memory-runtime", np.array([4.0, 4.0, 2.0])),
)
PICTURES = [
    Bars(
        **HEAD,
        names="tensor",
        measure=Axis("throughput", "tokens/s"),
        bars=(
            Bar("1", 10.0, "10"),
            Bar("2", None, "does not fit"),
            Bar("4", 7.5, "7.5", "warning"),
        ),
    ),
    Waterfall(
        **HEAD,
        measure=Axis("time of a step", "s"),
        first="before",
        last="after",
        start=10.0,
        steps=(Step("forward", "compute", -2.0), Step("bubble start", "bubble", 1.0)),
    ),
    Lines(
        **HEAD,
        x=Axis("devices", log=2, ticks=((8.0, "8"), (16.0, "16"))),
        y=Axis("efficiency", "%", zero=True),
        series=(
            Series("", (8.0, 16.0), (100.0, 100.0), "quiet", marker="", thin=True),
            Series("a", (8.0, 16.0), (100.0, 90.0), "series-0"),
            Series("published", (16.0,), (88.0,), "series-0", stroke="none", hollow=True),
        ),
        bands=(Band((8.0, 16.0), (90.0, 80.0), (100.0, 95.0)),),
        remarks=((90.0, "a remark"),),
    ),
    HeatMap(
        **HEAD,
        x=named_places("pipeline", ["1", "2"]),
        y=named_places("tensor", ["4", "8"]),
        measure=Axis("throughput", "tokens/s"),
        fields={
            (0, 0): Field(1.0, "1"),
            (0, 1): Field(2.0, "2"),
            (1, 0): Field(None, "1.3 x", hatched=True),
            (1, 1): Field(None, ""),
        },
        best=(0, 1),
        hatched="does not fit",
        empty="invalid",
    ),
    ParallelCoordinates(
        **HEAD,
        axes=(named_places("tensor", ["1", "2"]), named_places("zero", ["0", "1", "3"])),
        measure=Axis("step time", "s"),
        combinations=(Combination((0, 2), 5.0, "t"), Combination((1, 0), 8.0, "u")),
        more_is_better=False,
    ),
    OwnerMap(
        **HEAD,
        measure=Axis("nodes"),
        names=("leaf <b>0", "leaf 1"),
        owners=("first <b>", "second"),
        grid=(
            (Owned(0, "node 0"), None, Owned(1, "node <1>")),
            (Owned(-1, "node 2"), None, Owned(1, "node 3")),
        ),
        free="free",
    ),
    Timeline(
        **HEAD,
        time=Axis("time", "s", limits=(0.0, 4.0)),
        lanes="job",
        count=2,
        kinds=PHASE_KINDS,
        shades=1,
        lane=np.array([0, 0, 1], np.int32),
        kind=np.array([0, 1, 2], np.int8),
        number=np.full(3, -1, np.int32),
        shade=np.zeros(3, np.int32),
        start=np.array([0.0, 1.0, 0.5]),
        end=np.array([1.0, 3.0, 2.5]),
        names=("first <b>", "second"),
    ),
    ScatterWithFront(
        **HEAD,
        x=Axis("memory", "GiB"),
        y=Axis("throughput", "tokens/s", zero=True),
        points=(Point(1.0, 2.0, "a"), Point(2.0, 3.0, "b"), Point(3.0, 1.0, "c")),
        front=(0, 1),
        best=1,
        names=("fits", "front", "best: b"),
    ),
    ShareMap(
        **HEAD,
        cells="links",
        names=("nic to <b>leaf", "leaf to nic"),
        measure=Axis("utilisation", "%"),
        shares=((0.0, 0.5), (1.0, 0.25)),
        hover=(("a", "b"), ("c <b>", "d")),
    ),
    StackedAreas(
        **HEAD,
        x=Axis("time", "s"),
        measure=Axis("memory", "GiB"),
        layers=LAYERS,
        limit=Level(8.0, "a limit"),
        begins=np.array([0.0, 1.0, 4.0]),
        end=5.0,
    ),
    StackedBars(**HEAD, x=Axis("stage"), measure=Axis("memory", "GiB"), layers=LAYERS),
    Timeline(
        **HEAD,
        time=Axis("time", "s", limits=(0.0, 4.0)),
        lanes="stage",
        count=2,
        kinds=(
            BlockKind("forward <b>", ("forward-0", "forward-1")),
            BlockKind("optimiser", ("optimiser", "optimiser"), computes=False),
        ),
        shades=2,
        lane=np.array([0, 0, 1]),
        kind=np.array([0, 1, 0]),
        number=np.array([0, -1, 1]),
        shade=np.array([0, -1, 1]),
        start=np.array([0.0, 3.0, 1.0]),
        end=np.array([1.0, 4.0, 2.5]),
    ),
]
IDS = [type(picture).__name__ for picture in PICTURES]
every_kind = pytest.mark.parametrize("picture", PICTURES, ids=IDS)


def below(kind):
    """Yield all classes that are derived from one."""
    for derived in kind.__subclasses__():
        yield derived
        yield from below(derived)


def test_every_kind_has_both_back_ends_and_an_example_here():
    """A kind that only one back end draws would be missing in files or on pages."""
    kinds = {kind for kind in below(Picture) if not kind.__subclasses__()}

    assert kinds == set(charts.KINDS) == set(figures.KINDS) == set(map(type, PICTURES))


def numbers(value):
    """Yield all numbers of a nested value, as plotly has them."""
    if isinstance(value, dict):
        for one in value.values():
            yield from numbers(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def values_of(picture):
    """Return the numbers of the table behind a picture that a back end draws as places."""
    _, *lines = picture.rows()
    return [cell for line in lines for cell in line if isinstance(cell, float)]


def texts_of(axes):
    """Return all words on axes, and next to their scale of colours."""
    names = [*axes.get_xticklabels(), *axes.get_yticklabels(), *axes.texts]
    scales = "".join(scale.get_ylabel() for scale in axes.child_axes)
    words = " ".join(text.get_text() for text in names)
    return words + axes.get_xlabel() + axes.get_ylabel() + scales


def places_of(axes):
    """Return all places and ends of what is drawn on axes, numbers of its texts and images."""
    found = [float(v) for line in axes.lines for v in (*line.get_xdata(), *line.get_ydata())]
    for bar in axes.patches:
        box = bar.get_bbox()
        found += [box.x0, box.x1, box.y0, box.y1, box.width, box.height]
    found += [value for image in axes.images for value in image.get_array().ravel().tolist()]
    for text in axes.texts:
        word = text.get_text().partition(" ")[0].replace(",", "")
        found += [float(word)] if word.replace(".", "").lstrip("+-").isdecimal() else []
    return found


@pytest.mark.parametrize("picture", [p for p in PICTURES if not isinstance(p, Stack | Timeline)])
def test_both_back_ends_show_the_values_of_the_table(picture):
    """Each number of the table is a place in the figure and in the data of the chart."""
    chart = charts.page_chart(picture)
    drawn = places_of(figures.figure_of([picture]).axes[0])
    shown = [*numbers(chart.figure["data"])]
    labels = json.dumps(chart.figure)

    for value in values_of(picture):
        text = f"{value:g}"
        assert any(math.isclose(abs(value), abs(place), abs_tol=1e-6) for place in drawn), value
        assert text in labels or any(math.isclose(abs(value), abs(v)) for v in shown), value


@every_kind
def test_both_back_ends_name_the_axes_with_their_units(picture):
    """The title of each axis is in the figure and in the chart."""
    axes = figures.figure_of([picture]).axes[0]
    plain = json.dumps(charts.page_chart(picture).figure).replace("<br>", " ")
    measure = next(getattr(picture, n) for n in ("measure", "y", "time") if hasattr(picture, n))

    if isinstance(picture, HeatMap):
        plain += " ".join(s.name for s in charts.page_chart(picture).swatches)
        legend = figures.figure_of([picture]).legends[0]
        assert measure.title in [text.get_text() for text in legend.get_texts()]
    else:
        assert measure.title in texts_of(axes).replace("\n", " ")
    assert measure.title in plain


@every_kind
def test_colours_are_those_of_the_palette_on_light_and_on_dark_ground(picture):
    """A chart names colours that both themes have."""
    text = json.dumps(charts.page_chart(picture).figure)
    names = {part.partition(")")[0] for part in text.split("var(--")[1:]}

    assert names
    assert names <= set(LIGHT)
    assert set(LIGHT) == set(DARK)


@every_kind
def test_both_back_ends_have_one_legend(picture):
    """What a colour means is the same in the figure and on the page."""
    legends = figures.figure_of([picture]).legends
    names = [text.get_text() for legend in legends for text in legend.get_texts()]

    assert [swatch.name for swatch in charts.page_chart(picture).swatches] == names


def test_a_bar_has_one_colour_in_both_back_ends():
    """The palette is one for figures and pages."""
    waterfall = PICTURES[1]
    names = charts.page_chart(waterfall).figure["data"][0]["marker"]["color"]
    drawn = [to_hex(bar.get_facecolor()) for bar in figures.figure_of([waterfall]).axes[0].patches]

    assert [LIGHT[name[6:-1]] for name in names] == drawn


@every_kind
def test_charts_are_figures_that_plotly_accepts(picture):
    """Every property has a name and a value that plotly accepts."""
    from plotly.graph_objects import Figure

    text = json.dumps(charts.page_chart(picture).figure)

    assert Figure(json.loads(re.sub(r"var\(--[\w-]+\)", "#123456", text))).data


@every_kind
def test_words_are_shown_and_never_read_as_html(picture):
    """The title, the alternative text, the note and the table are on the page."""
    chart = charts.page_chart(picture)

    assert (chart.title, chart.description, chart.note) == (
        picture.title, picture.description, picture.note,
    )  # fmt: skip
    assert chart.table.rows
    assert "<b>" not in json.dumps(chart.figure)


@every_kind
def test_the_same_picture_gives_the_same_files(picture, tmp_path):
    """Formats are written as requested, not blank, the same bytes twice, with words as text."""
    for name in ("one", "two"):
        figures.write_figure(picture, tmp_path / name, ["png", "svg"])
    drawing = (tmp_path / "one.svg").read_text()

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "one.png", "one.svg", "two.png", "two.svg",
    ]  # fmt: skip
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    assert drawing == (tmp_path / "two.svg").read_text()
    assert imread(tmp_path / "one.png")[..., :3].mean(axis=2).std() > 0.02
    assert "a caption" in drawing


def test_several_pictures_are_one_figure():
    """Each has axes of its own; each has its title."""
    figure = figures.figure_of([PICTURES[2], PICTURES[2]])
    first, second = figure.axes

    assert first.get_position().y0 > second.get_position().y1
    assert [text.get_text() for text in figure.texts].count(HEAD["title"]) == 2


@pytest.mark.parametrize("headline", ["", "Two of a kind"])
def test_a_title_lay_on_the_legend_of_its_axes(headline):
    """Of charts with legends of their own, one above the other, no words touch other words."""
    lines = next(picture for picture in PICTURES if isinstance(picture, Lines))
    figure = figures.figure_of([lines, lines], headline)
    boxes = [text.get_window_extent() for text in figure.texts]
    boxes += [axes.get_legend().get_window_extent() for axes in figure.axes]

    assert len(figure.axes) == 2
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def bounds(collection):
    """Return the corners of the shapes of a collection."""
    return [path.get_extents().get_points().round(9).tolist() for path in collection.get_paths()]


def test_layers_are_on_top_of_each_other():
    """A layer begins where the one below ends, in files and on pages, and the limit is visible."""
    areas = PICTURES[-3]
    axes = figures.figure_of([areas]).axes[0]
    chart = charts.page_chart(areas)
    [low], [high] = map(bounds, axes.collections)

    assert low == [[0.0, 0.0], [5.0, 3.0]]
    assert high == [[0.0, 1.0], [5.0, 6.0]]
    assert areas.total.tolist() == [5.0, 6.0, 5.0]
    assert [trace["y"] for trace in chart.figure["data"]] == [[1, 2, 3, 3], [4, 4, 2, 2]]
    assert {trace["stackgroup"] for trace in chart.figure["data"]} == {"all"}
    assert axes.get_ylim()[1] > 8.0 < chart.figure["layout"]["yaxis"]["range"][1]
    assert areas.table().rows == (("a", "1", "3"), ("b <b>", "2", "4"))


def test_stacked_bars_end_at_their_total():
    """Both back ends draw the same heights, and the table has them with their sum."""
    stacked = PICTURES[-2]
    low, high = figures.figure_of([stacked]).axes[0].patches
    data = charts.page_chart(stacked).figure["data"]

    assert low.get_path().get_extents().y1 == 3.0
    assert high.get_path().get_extents().y1 == 6.0
    assert [trace["y"] for trace in data] == [[1, 2, 3], [4, 4, 2]]
    assert [row[-1] for row in stacked.table().rows] == ["5", "6", "5"]


def test_blocks_of_a_timeline_have_their_place_and_time():
    """A block is a box from its start to its end in its lane; its shade is that of its chunk."""
    timeline = PICTURES[-1]
    boxes, *_ = figures.figure_of([timeline]).axes[0].collections
    forward, optimiser = charts.page_chart(timeline).figure["data"]

    assert [[a[0], b[0]] for a, b in bounds(boxes)] == [[0, 1], [3, 4], [1, 2.5]]
    assert (forward["base"], forward["x"], forward["y"]) == ([0, 1], [1, 1.5], [0, 1])
    assert forward["marker"]["color"] == [0, 1]
    assert optimiser["marker"]["color"] == "var(--optimiser)"
    assert to_hex(boxes.get_facecolors()[0]) == LIGHT["forward-0"]
    assert to_hex(boxes.get_facecolors()[2]) == LIGHT["forward-1"]
    assert [entry[:2] for entry in timeline.legend()] == [
        ("forward <b>, first chunk", "forward-0"),
        ("forward <b>, last chunk", "forward-1"),
        ("optimiser", "optimiser"),
        ("waiting (bubble)", "bubble"),
    ]


def test_a_timeline_of_many_blocks_is_an_image_of_the_same():
    """A pixel has the mean colour of what it covers; on a page a field has the share."""
    many = 4_000
    edges = np.linspace(0.0, 4.0, 2 * many + 1)
    zeros = np.zeros(many, np.int32)
    blocks = {"lane": zeros, "kind": zeros, "number": zeros, "shade": zeros}
    timeline = replace(PICTURES[-1], **blocks, start=edges[:-1:2], end=edges[1::2])
    [image] = figures.figure_of([timeline]).axes[0].images
    [heat] = charts.page_chart(timeline).figure["data"]
    half = np.mean([parse_colour(LIGHT["forward-0"]), parse_colour(LIGHT["bubble"])], axis=0)
    painted = np.mean(image.get_array()[0], axis=0).tolist()

    assert painted == pytest.approx((255 * half).tolist(), abs=2)
    assert np.mean(heat["z"][0]) == pytest.approx(50, abs=1)
    assert np.mean(heat["z"][1]) == 0


def test_diagrams_had_a_palette_of_their_own():
    """Colours are values of one module only."""
    package = Path(palette.__file__).parents[1]
    written = re.compile(r"\(0\.\d+, 0\.\d+, 0\.\d+\)|[\"']#[0-9a-f]{6}[\"']")
    files = package.glob("render/**/*.py")

    assert [file.name for file in files if written.search(file.read_text("utf-8"))] == [
        "palette.py"
    ]


EDGES = (
    Axis("share", "%", zero=True),
    Axis("throughput", "tokens/s", log=10),
    Axis("efficiency", "%"),
)


@pytest.mark.parametrize("axis", EDGES, ids=["from 0", "logarithmic", "linear"])
@pytest.mark.parametrize("values", [(0.9, 50.0), (97.0, 100.0), (100.0, 100.0)])
def test_curves_lay_on_the_frame(axis, values):
    """Between each curve and each end of an axis there is room, in both back ends."""
    picture = Lines(**HEAD, x=axis, y=axis, series=(Series("a", values, values),))
    axes = figures.figure_of([picture]).axes[0]
    layout = charts.page_chart(picture).figure["layout"]

    for ends, shown in (
        (axes.get_xlim(), layout["xaxis"]["range"]),
        (axes.get_ylim(), layout["yaxis"]["range"]),
    ):
        inside = [math.log10(value) if axis.log else value for value in (*ends, *values)]
        low, high, *places = inside
        assert shown == pytest.approx([low, high])
        room = 0.02 * (high - low)
        assert all(low + room < place < high - room for place in places)


def test_a_logarithmic_axis_of_less_than_a_decade_had_one_number():
    """It has round numbers, of which at least three are visible."""
    picture = Lines(**HEAD, x=EDGES[1], y=EDGES[1], series=(Series("a", (7e4, 1e5), (7e4, 1e5)),))
    layout = charts.page_chart(picture).figure["layout"]
    low, high = (10**end for end in layout["yaxis"]["range"])

    assert sum(low <= tick <= high for tick in layout["yaxis"]["tickvals"]) >= 3
    assert "80,000" in layout["yaxis"]["ticktext"]


def test_a_time_of_zero_on_a_logarithmic_axis_was_an_internal_error():
    """Cached prompts have a first token at once: the axis has the times above zero."""
    picture = Lines(**HEAD, x=EDGES[2], y=EDGES[1], series=(Series("a", (1.0, 2.0), (0.0, 4.0)),))
    low, high = figures.figure_of([picture]).axes[0].get_ylim()

    assert 0.0 < low < 4.0 < high
    assert charts.page_chart(picture).figure["layout"]["yaxis"]["range"][1] == math.log10(high)


def test_small_changes_were_all_zero():
    """Numbers of a waterfall have the digits in which its bars differ."""
    small = Waterfall(
        **HEAD,
        measure=Axis("step time", "s"),
        first="before",
        last="after",
        start=212.49,
        steps=(Step("optimiser", "optimiser", 0.03), Step("no change", "compute", 0.0)),
    )

    assert [fall.text for fall in small.falls()] == [
        "212.490 s", "+0.030 s, +0.014 %", "0.000 s, 0.0 %", "212.520 s, 0.0 %",
    ]  # fmt: skip


@given(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)))
def test_letters_can_be_read_on_any_colour(colour):
    """Black or white has a contrast of 4.5 to 1."""
    assert contrast(ink_on(colour), colour) >= 4.5


def test_a_column_without_any_content_had_a_heading():
    """It is left out; a table without rows keeps its headings."""
    names = ("case", ">memory", "score")
    table = text_table("Cases", names, [("a", "", "scored"), ("b", "", "")])

    assert [column.name for column in table.columns] == ["case", "score"]
    assert table.rows == (("a", "scored"), ("b", ""))
    assert len(text_table("Cases", names, ()).columns) == 3


def test_a_verdict_of_four_words_does_not_take_its_table_off_a_wide_screen():
    """Changes of a what-if did not fit 1,400 pixels, as "probably does not fit" was one line."""
    lines = [("a", "fits"), ("b", "probably does not fit")]

    assert text_table("Changes", ("change", "memory"), lines).styles == ("word", "")
    assert text_table("Changes", ("change", "memory"), lines[:1]).styles == ("word", "word")
