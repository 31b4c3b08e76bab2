"""A result, or a number, of two runs."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True)
class BeforeAfter(Generic[Value]):
    """A result of both runs.

    Attributes
    ----------
    before : of the first run
    after : of the other run
    """

    before: Value
    after: Value


@dataclass(frozen=True)
class Difference:
    """A number of both runs, and its change.

    Attributes
    ----------
    before : of the first run
    after : of the other run
    change : after less before
    """

    before: float
    after: float
    change: float
