"""Lists, doublings and steps of values, with and without units."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.scenario.ranges import sizes_in, values_of


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("8", ["8"]),
        ("1,2, 4", ["1", "2", "4"]),
        ("1:8", ["1", "2", "4", "8"]),
        ("3:20", ["3", "6", "12"]),
        ("1:9:2", ["1", "3", "5", "7", "9"]),
        ("0:1:0.25", ["0", "0.25", "0.5", "0.75", "1"]),
        ("1,4:16,20", ["1", "4", "8", "16", "20"]),
        ("none,selective, full", ["none", "selective", "full"]),
        ("true,false", ["true", "false"]),
        ("x2,/2", ["x2", "/2"]),
        ("25 GB/s,50GB/s", ["25 GB/s", "50GB/s"]),
        ("25GB/s:100 GB/s", ["25 GB/s", "50 GB/s", "100 GB/s"]),
        ("500 MB/s:1 GB/s", ["500 MB/s", "1000 MB/s"]),
        ("[1,2],[2,1]", ["[1,2]", "[2,1]"]),
        ("{mode: full, every: 2},none", ["{mode: full, every: 2}", "none"]),
        ("'a,b','1:8'", ["'a,b'", "'1:8'"]),
        ("fill", ["fill"]),
        ("1125899906842623:2251799813685246", ["1125899906842623", "2251799813685246"]),
    ],
)
def test_values_are_those_that_are_written(text, values):
    """Each way to write an axis gives its values in order, as a setting takes them."""
    assert values_of(text) == values


@given(st.integers(1, 1000), st.integers(0, 12), st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_doublings_end_at_or_below_their_end(first, count, rest):
    """From the first value on each is twice the one before, and another would be too large."""
    last = first * 2**count + rest % (first * 2**count)
    values = [int(value) for value in values_of(f"{first}:{last}")]

    assert values == [first * 2**i for i in range(count + 1)]


@given(st.integers(-50, 50), st.integers(1, 9), st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_steps_end_at_or_below_their_end(first, step, rest):
    """Values by steps are those of a range that includes its end."""
    values = [int(value) for value in values_of(f"{first}:{first + rest}:{step}")]

    assert values == [*range(first, first + rest + 1, step)]


@given(st.lists(st.sampled_from(["1", "none", "[1,2]", "'a,b'", "x2", "25 GB/s"]), unique=True))
@settings(max_examples=20, deadline=None)
def test_a_list_is_what_was_joined(values):
    """Values that are joined by commas come apart as they were."""
    if values:
        assert values_of(",".join(values)) == values


def test_large_quantities_are_exact():
    """A range over many orders of magnitude has the exact powers of two."""
    assert sizes_in("1 B:8 TiB")[-3:] == [2.0**41, 2.0**42, 2.0**43]
