"""Axes as they are written: lists, doublings, steps, tables; and what is no axis."""

import math

import pytest

from clustersim.errors import ScenarioError
from clustersim.studies.sweep.axes import (
    MOST,
    Axis,
    axis_of,
    check_axes,
    table_of,
    value_of,
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("plan.tensor", "is not of the form key=values"),
        ("=1,2", "is not of the form key=values"),
        ("plan.tensor=", "the list is empty"),
        ("plan.tensor=1,,2", "the list has an empty value"),
        ("plan.tensor=1,2,1", "lists 1 twice"),
        ("plan.tensor=8:1", "8:1: the first value is greater than the last"),
        ("plan.tensor=0:8", "0:8: doublings start above 0 (in steps of 1: 0:8:1)"),
        ("plan.tensor=1:8:0", "1:8:0: the step is not greater than 0"),
        ("plan.tensor=1:1000000:1", "more than 10,000 values"),
        ("cluster.nic.bandwidth=1 GB/s:4 s", "GB/s and s are different dimensions"),
        ("cluster.nic.bandwidth=1 GB/s:4", "GB/s and no unit are different dimensions"),
    ],
)
def test_what_is_no_axis_is_one_line(text, complaint):
    """The complaint begins with the option as it was written."""
    with pytest.raises(ScenarioError) as refused:
        axis_of(text)
    assert str(refused.value).startswith(f"--over {text}: ")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("8", 8), ("0.5", 0.5), ("true", True), ("none", "none"), ("[1,2]", "[1,2]"), ("x2", "x2")],
)
def test_a_value_in_a_table_is_a_number_where_it_can_be(text, value):
    """Numbers and truth values are such; all else is text."""
    assert value_of(text) == value
    assert type(value_of(text)) is type(value)


# --- tables ---------------------------------------------------------------------------------------


def test_a_table_is_one_axis_of_several_keys(tmp_path):
    """Each line sets all keys together; an empty cell leaves the scenario's value."""
    file = tmp_path / "layouts.csv"
    file.write_text('plan.tensor, plan.layers\n8,"[1,2]"\n\n4,\n', encoding="utf-8")
    axis = table_of(file)

    assert axis.keys == ["plan.tensor", "plan.layers"]
    assert [choice.texts for choice in axis.choices] == [
        {"plan.tensor": "8", "plan.layers": "[1,2]"},
        {"plan.tensor": "4"},
    ]
    assert [choice.where for choice in axis.choices] == [f"{file}:2", f"{file}:4"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", ": is empty (a line of keys, then a line for each choice)"),
        (b"plan.tensor\n", ": has no choices below its keys"),
        (b"a,a\n1,2\n", ":1: names a twice"),
        (b"a,\n1,2\n", ":1: has a column without a key"),
        (b"a,b\n1,2,3\n", ":2: has 3 values for 2 keys"),
        (b'a\n"1\n', ": is not CSV (unexpected end of data)"),
        (b"\xff\xfe\n", ": cannot be read (is not UTF-8 text)"),
        (None, ": cannot be read (No such file or directory)"),
    ],
)
def test_what_is_no_table_is_one_line(tmp_path, content, complaint):
    """File, line, and what is wrong."""
    file = tmp_path / "layouts.csv"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ScenarioError) as refused:
        table_of(file)
    assert str(refused.value) == f"{file}{complaint}"


# --- together -------------------------------------------------------------------------------------


def test_a_key_has_one_axis():
    """Two axes of one key would say two things at once."""
    with pytest.raises(ScenarioError, match=r"--over plan\.tensor: two axes set it"):
        check_axes([axis_of("plan.tensor=1,2"), axis_of("plan.tensor=4,8")])
    with pytest.raises(ScenarioError, match="--over cluster: two axes set it"):
        check_axes([axis_of("cluster=eos"), axis_of("cluster.name=selene")])


def test_a_sweep_has_an_end():
    """More combinations than anyone can wait for are refused with their number."""
    side = math.isqrt(MOST) + 1
    axes: list[Axis] = [axis_of(f"{key}=1:{side}:1") for key in ("plan.tensor", "plan.data")]

    with pytest.raises(ScenarioError, match=f"{side} x {side} = {side * side:,} combinations"):
        check_axes(axes)
    with pytest.raises(ScenarioError, match="nothing is swept"):
        check_axes([])
