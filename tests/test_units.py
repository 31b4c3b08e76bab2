"""Quantities: what is written is what is read, and a unit is never optional."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.units import (
    EXAMPLES,
    UNITS,
    format_bandwidth,
    format_bytes,
    format_flops_per_second,
    format_seconds,
    parse,
    parse_size,
)

MODEST = settings(max_examples=100, deadline=None)
FORMATS = {
    "bytes": format_bytes,
    "bandwidth": format_bandwidth,
    "flops_per_second": format_flops_per_second,
}


@MODEST
@given(st.sampled_from(sorted(FORMATS)), st.floats(1e-3, 9e20), st.integers(1, 15))
def test_what_is_formatted_is_read_back(dimension, value, digits):
    """Parsing a formatted quantity gives it back to the digits that were shown."""
    text = FORMATS[dimension](value, digits)

    assert parse(text, dimension) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


@MODEST
@given(st.floats(1e-9, 9999.0), st.integers(4, 15))
def test_times_are_read_back(value, digits):
    """Seconds are formatted in a unit that can be read."""
    text = format_seconds(value, digits)

    assert parse(text, "seconds") == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


@MODEST
@given(st.sampled_from(sorted(UNITS)), st.data(), st.floats(0, 1e12))
def test_every_unit_scales_by_its_factor(dimension, data, value):
    """A number before a symbol is that many of its unit, with blanks or without."""
    symbol, factor = data.draw(st.sampled_from(sorted(UNITS[dimension].items())))

    assert parse(f"{value!r} {symbol}", dimension) == value * factor
    assert parse(f"  {value!r}{symbol}  ", dimension) == value * factor


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("1 GB", "bytes", 1e9),
        ("1 GiB", "bytes", 2.0**30),
        ("1 Gb", "bytes", 1e9 / 8),
        ("200 Gb/s", "bandwidth", 25e9),
        ("25 GB/s", "bandwidth", 25e9),
        ("25 GiB/s", "bandwidth", 25 * 2.0**30),
        ("191.5 TFLOP/s", "flops_per_second", 191.5e12),
        ("4 us", "seconds", 4e-6),
        ("1 h", "seconds", 3600.0),
        ("1_000 B", "bytes", 1e3),
        ("-1e3 B", "bytes", -1e3),
        ("400 W", "watts", 400.0),
    ],
)
def test_units_by_hand(text, dimension, value):
    """G is 10^9 and Gi is 2^30; b is a bit and B a byte."""
    assert parse(text, dimension) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("dimension", sorted(EXAMPLES))
def test_a_number_without_a_unit_is_refused(dimension):
    """A bare number, as text or as number, is told how to write it."""
    for bare in (64, 6.4, "64", " 64 "):
        with pytest.raises(ValueError, match="has no unit") as caught:
            parse(bare, dimension)
        start = f"{bare!r} has no unit (write it like {EXAMPLES[dimension]}; units: "
        assert str(caught.value).startswith(start)


@pytest.mark.parametrize(
    ("text", "dimension"),
    [("64 GB/s", "bytes"), ("64 GB", "bandwidth"), ("4 gb", "bytes"), ("1 Us", "seconds"),
     ("1 GiFLOPs", "flops"), ("1 TFLOPS", "flops_per_second"), ("3 m", "seconds")],
)  # fmt: skip
def test_a_unit_of_something_else_is_refused(text, dimension):
    """A symbol of another dimension, or none at all, is told what is allowed."""
    with pytest.raises(ValueError, match=f"is not in a unit of {dimension} "):
        parse(text, dimension)


@pytest.mark.parametrize(
    ("text", "dimension", "same"),
    [
        ("200Gbps", "bandwidth", "200 Gb/s"),
        ("200 Gbit/s", "bandwidth", "200 Gb/s"),
        ("25 GBps", "bandwidth", "25 GB/s"),
        ("8G", "bytes", "8 GB"),
        ("1M", "bytes", "1 MB"),
        ("2Gi", "bytes", "2 GiB"),
        ("989T", "flops_per_second", "989 TFLOP/s"),
    ],
)
def test_200gbps_and_8g_are_read_as_people_type_them(text, dimension, same):
    """Spellings with one possible meaning are accepted."""
    assert parse(text, dimension) == parse(same, dimension)


def test_a_message_of_1024_has_1024_bytes():
    """The size of a message may be a plain number, and 1M is 1 MiB, as in nccl-tests."""
    assert [parse_size(size) for size in ("1024", "1M", "1 MiB")] == [1024, 2**20, 2**20]


@pytest.mark.parametrize("text", ["", "GB", "1,000 GB", "one GB", None, True, [1], {"value": 1}])
def test_what_is_no_quantity_is_refused(text):
    """Words, nothing, truths and lists are no quantities."""
    with pytest.raises(ValueError, match=r"is not a quantity|is not in a unit"):
        parse(text, "bytes")


@pytest.mark.parametrize("dimension", sorted(EXAMPLES))
def test_every_example_is_right(dimension):
    """What an error recommends can be read."""
    for example in EXAMPLES[dimension].split(" or "):
        assert parse(example, dimension) > 0


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0 s"), (860.123, "860.1 s"), (1.2e-3, "1.2 ms"), (4e-6, "4 us"), (7e-9, "7 ns"),
     (123456.0, "123,456 s"), (1e-10, "1e-10 s"), (-2.5, "-2.5 s")],
)  # fmt: skip
def test_times_are_shown_as_a_person_would(seconds, shown):
    """Milliseconds below one second, and thousands with commas."""
    assert format_seconds(seconds) == shown
