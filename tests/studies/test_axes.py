"""Axes of sweeps as texts, values and tables, and their errors."""

import pytest

from clustersim.errors import ScenarioError
from clustersim.studies.sweep.arguments import (
    axis_of,
    read_table,
    value_of,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [("8", 8), ("0.5", 0.5), ("true", True), ("none", "none"), ("[1,2]", "[1,2]"), ("x2", "x2")],
)
def test_a_value_in_a_table_is_a_number_where_it_can_be(text, value):
    """Numbers and truth values are such; all else is text."""
    (choice,) = axis_of(f"key={text}").choices
    found = value_of(choice.changes["key"])

    assert (found, type(found)) == (value, type(value))


# --- tables ---------------------------------------------------------------------------------------


def test_a_table_is_one_axis_of_several_keys(tmp_path):
    """Each line sets all keys together; an empty cell leaves the scenario's value."""
    file = tmp_path / "layouts.csv"
    file.write_text('plan.tensor, plan.layers\n8,"[1,2]"\n\n4,\n', encoding="utf-8")
    axis = read_table(file)

    assert axis.keys == ["plan.tensor", "plan.layers"]
    assert [{k: c.value for k, c in choice.changes.items()} for choice in axis.choices] == [
        {"plan.tensor": 8, "plan.layers": [1, 2]},
        {"plan.tensor": 4},
    ]
    assert [choice.where for choice in axis.choices] == [f"{file}:2", f"{file}:4"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", ": is empty (a line of keys, then a line for each combination)"),
        (b"plan.tensor\n", ": has no combinations below its keys"),
        (b"a,a\n1,2\n", ":1: has the key a twice"),
        (b"a,\n1,2\n", ":1: has a column without a key"),
        (b"a,b\n1,2,3\n", ":2: has 3 values for 2 keys"),
        (b'a\n"1\n', ": is not CSV (unexpected end of data)"),
        (b"\xff\xfe\n", ": cannot be read (is not UTF-8 text)"),
        (None, ": no such file"),
    ],
)
def test_what_is_no_table_is_one_line(tmp_path, content, complaint):
    """File, line, and what is wrong."""
    file = tmp_path / "layouts.csv"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ScenarioError) as refused:
        read_table(file)
    assert str(refused.value) == f"{file}{complaint}"


# --- together -------------------------------------------------------------------------------------
