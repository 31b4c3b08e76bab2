"""What complaints about a layout are made of."""

from collections.abc import Callable

Where = Callable[..., str]
"""From a key path to ``file:line: key``, to begin a complaint with."""


def listed(values: list[int] | list[str]) -> str:
    """Return values with commas between them."""
    return ", ".join(str(value) for value in values)


def divisors(number: int) -> list[int]:
    """Return what divides a number, from 1 to itself.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [n for n in range(1, number + 1) if number % n == 0]
