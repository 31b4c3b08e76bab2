"""Parts of accounts in words and as waterfalls."""

import pytest
from hypothesis import given, settings
from matplotlib.image import imread

from answers import answer, attributions, compared
from clustersim.render.charts.bars import Step, Waterfall
from clustersim.render.charts.picture import Axis
from clustersim.render.matplotlib import write_figure
from clustersim.reports.measures import changes_of, largest_changes, steps_of
from clustersim.simulation.measures import Account
from clustersim.studies.compare.text import waterfalls


def test_the_parts_that_are_named_are_the_largest():
    """Bubbles are one; what is a tenth of the largest or less is not worth a word."""
    parts = {"matmul": -4.0, "dispatch": 0.3, "bubble_fill": 3.0, "bubble_drain": 2.0}

    assert largest_changes(parts) == [("bubble", 5.0), ("matmul", -4.0)]


def waterfall(start, steps):
    """Return a waterfall of seconds."""
    measure = Axis("time of a step", "s")
    return Waterfall(title="t", measure=measure, first="a", last="b", start=start, steps=steps)


@settings(max_examples=20, deadline=None)
@given(attributions, attributions)
def test_a_waterfall_ends_at_the_other_total(old, new):
    """Every step begins where the one before ended, and small parts are one of them."""
    before, after = (Account("step", "step time", "s", parts) for parts in (old, new))
    picture = waterfall(
        before.total, steps_of(changes_of(before, after), max(before.total, after.total))
    )

    assert picture.levels()[0] == before.total
    assert picture.levels()[-1] == pytest.approx(picture.end, abs=1e-9)
    assert picture.end == pytest.approx(after.total, abs=1e-9)


def test_a_waterfall_is_drawn_in_the_unit_of_its_totals():
    """Milliseconds of a short step are not drawn as thousandths of a second."""
    picture = waterfall(0.004, (Step("part", "compute", -0.001),)).in_unit()

    assert (picture.start, picture.steps[0].change, picture.measure.unit) == (4.0, -1.0, "ms")


def test_steps_stand_kind_by_kind_the_largest_first():
    """A reader finds communication in one place; what is too small to see is summed up."""
    parts = {
        "matmul": 1.0,
        "tensor_communication": -3.0,
        "data_communication": 0.5,
        "dispatch": 0.1,
        "optimiser": 0.01,
        "host_transfer": 0.0,
    }
    steps = [(step.label, step.kind) for step in steps_of(parts, size=20.0)]

    assert steps == [
        ("tensor communication", "communication"),
        ("data communication", "communication"),
        ("matmul", "compute"),
        ("dispatch", "compute"),
        ("all other parts", "other"),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"matmul": 10.0, "bubble_fill": 2.0}, {"matmul": 4.0, "bubble_fill": 3.0}),
        pytest.param({"matmul": 1e-4}, {"matmul": 1e-4}, marks=pytest.mark.large),
    ],
    ids=["large", "none"],
)
def test_a_waterfall_is_drawn_the_same_every_time(old, new, tmp_path):
    """It is not blank, has its labels as text, and depends on nothing but its picture."""
    result = compared(answer(old), answer(new))
    (picture,) = waterfalls(result.comparisons[0], result).values()
    for stem in ("one", "two"):
        write_figure(picture, tmp_path / stem)

    drawing = (tmp_path / "one.svg").read_text()
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    assert drawing == (tmp_path / "two.svg").read_text()
    assert imread(tmp_path / "one.png")[..., :3].mean(axis=2).std() > 0.05
    assert picture.title in drawing
    assert f"step time [{picture.measure.unit}]" in drawing
