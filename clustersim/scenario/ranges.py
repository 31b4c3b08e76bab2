"""Lists and ranges of values, as options take them.

    1,2,4,8              a list
    1:8                  doublings: 1, 2, 4, 8
    4:16:4               steps: 4, 8, 12, 16
    25 GB/s:100 GB/s     with a unit: 25 GB/s, 50 GB/s, 100 GB/s

A list may contain ranges: ``1,4:16,20``.
"""

import re
from typing import Final

from clustersim.catalog.facts import MAX_DEVICES
from clustersim.units import PREFIXES, UNITS, parse_size

MAX_VALUES: Final = 10_000
"""Maximum number of values of one option."""

_MOST_DIGITS: Final = 12

_EXACT: Final = 2**53
"""Whole numbers up to this one are exact."""
"""Digits of a number that a message has at most."""

_END: Final = r"\s*([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*([A-Za-z][A-Za-z/]*)?\s*"
_RANGE: Final = re.compile(rf"{_END}:{_END}(?::{_END})?")
_SIZE: Final = re.compile(r"(?<![\w.])(\d+(?:\.\d*)?)\s*([kKMGT]?)(?=\s*(?:[:,]|$))")
_BRACKETS: Final = {"[": 1, "{": 1, "]": -1, "}": -1}


def values_of(text: str) -> list[str]:
    """Return the values of a list, each as ``--set`` takes it.

    >>> values_of("1:8"), values_of("4:12:4"), values_of("none, full"), values_of("[1,2],[3]")
    (['1', '2', '4', '8'], ['4', '8', '12'], ['none', 'full'], ['[1,2]', '[3]'])
    >>> values_of("25 GB/s:100 GB/s")
    ['25 GB/s', '50 GB/s', '100 GB/s']

    Raises
    ------
    ValueError
        when the list is empty, has a value twice, or contains an invalid range.
    """
    values: dict[str, None] = {}
    for value in (value for item in _items(text) for value in _expanded(item)):
        if value in values:
            raise ValueError(f"lists {value} twice")
        values[value] = None
        if len(values) > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES:,} values")
    return list(values)


def counts_of(text: str) -> tuple[int, ...]:
    """Return a list of positive whole numbers.

    >>> counts_of("128,192"), counts_of("128:1024")
    ((128, 192), (128, 256, 512, 1024))

    Raises
    ------
    ValueError
        as `values_of`, and when a value is not a positive whole number.
    """
    values = values_of(text)
    for value in values:
        if not value.isdecimal() or not int(value[:_MOST_DIGITS]):
            raise ValueError(f"'{value}' is not a positive whole number (examples: 8,16 or 8:64)")
        if len(value) > _MOST_DIGITS or int(value) > MAX_DEVICES:
            raise ValueError(f"{value[:_MOST_DIGITS]} is more than {MAX_DEVICES:,}")
    return tuple(int(value) for value in values)


def sizes_in(text: str) -> list[float]:
    """Return a list of sizes of messages [B], plain numbers among them.

    >>> sizes_in("1024,1M"), sizes_in("8:32")
    ([1024.0, 1048576.0], [8.0, 16.0, 32.0])

    Raises
    ------
    ValueError
        as `values_of`, and when a value is not a size or not positive.
    """
    sizes = {value: parse_size(value) for value in values_of(_SIZE.sub(_size, text))}
    for value, size in sizes.items():
        if size <= 0:
            raise ValueError(f"{value} is not greater than 0")
    return [*sizes.values()]


def _size(match: re.Match[str]) -> str:
    """Return a size as nccl-tests writes it with its unit: ``8`` in bytes, ``8G`` in GiB."""
    number, prefix = match.groups()
    if prefix:
        return f"{number} {prefix.upper()}iB"
    return f"{number} B" if number.isdecimal() else number


def _items(text: str) -> list[str]:
    """Return the items between commas; commas in brackets or quotes belong to an item."""
    depth, quote, items = 0, "", [""]
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        depth += 0 if quote else _BRACKETS.get(letter, 0)
        if letter == "," and not depth and not quote:
            items.append("")
        else:
            items[-1] += letter
    items = [item.strip() for item in items]
    if "" in items:
        raise ValueError("the list is empty" if len(items) == 1 else "the list has an empty value")
    return items


def _expanded(item: str) -> list[str]:
    """Return the values of a range; any other item is one value."""
    match = _RANGE.fullmatch(item)
    if match is None:
        return [item]
    first, unit, last, last_unit, step, step_unit = match.groups()
    low, high = float(first), float(last) * _ratio(last_unit, unit, item)
    if not max(abs(low), abs(high)) < 1e300:
        raise ValueError(f"{item}: too large a number")
    if low > high:
        hint = f"{last.strip()}{' ' + last_unit if last_unit else ''}:{first.strip()}"
        hint += f" {unit}" if unit else ""
        raise ValueError(f"{item}: the first value is greater than the last ({hint})")
    if step is None:
        numbers = _doublings(low, high, item)
    else:
        numbers = _steps(low, high, float(step) * _ratio(step_unit or unit, unit, item), item)
    return [f"{_digits(number)}{' ' + unit if unit else ''}" for number in numbers]


def _digits(number: float) -> str:
    """Return a number with all digits of a whole one.

    >>> _digits(2.0**52), _digits(0.1 + 0.2), _digits(1e300)
    ('4503599627370496', '0.3', '1e+300')
    """
    whole = number.is_integer() and abs(number) <= _EXACT
    return str(int(number)) if whole else f"{number:.15g}"


def _ratio(unit: str | None, base: str | None, item: str) -> float:
    """Return a unit divided by another one of the same dimension."""
    if unit == base:
        return 1.0
    for symbols in (*UNITS.values(), PREFIXES):
        if unit in symbols and base in symbols:
            return symbols[str(unit)] / symbols[str(base)]
    units = f"{base or 'no unit'} and {unit or 'no unit'}"
    raise ValueError(f"{item}: {units} are different dimensions")


def _doublings(low: float, high: float, item: str) -> list[float]:
    if low <= 0:
        raise ValueError(f"{item}: doublings start above 0 (in steps of 1: {item}:1)")
    numbers = [low]
    while numbers[-1] * 2 <= high * (1 + 1e-12):
        numbers.append(numbers[-1] * 2)
    return numbers


def _steps(low: float, high: float, step: float, item: str) -> list[float]:
    if step <= 0:
        raise ValueError(f"{item}: the step is not greater than 0")
    count = (high - low) / step * (1 + 1e-12)
    if count >= MAX_VALUES:
        raise ValueError(f"{item}: more than {MAX_VALUES:,} values")
    return [low + i * step for i in range(int(count) + 1)]


def numbers_of(text: str, noun: str) -> list[int]:
    """Return the numbers of a list of numbers and ranges.

    >>> numbers_of("0-3,8", "device")
    [0, 1, 2, 3, 8]

    Raises
    ------
    ValueError
        when an item is neither, a range ends before it begins, or a number is too large or listed
        twice.
    """
    numbers: dict[int, None] = {}
    for item in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", item)
        if match is None:
            raise ValueError(f"'{item}' is not a {noun} or a range (example: 0-31,64)")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"range {item} ends before it begins")
        if last >= MAX_DEVICES:
            raise ValueError(f"{noun} {last} is above the last one, {MAX_DEVICES - 1}")
        for number in range(first, last + 1):
            if number in numbers:
                raise ValueError(f"{noun} {number} is listed twice")
            numbers[number] = None
    return [*numbers]
