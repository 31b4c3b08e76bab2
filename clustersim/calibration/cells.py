"""Cells of tables of measured kernels: finite numbers, and the list of invalid rows."""

import math
from collections.abc import Sequence
from typing import Final

from clustersim.errors import ScenarioError

_PRINTED: Final = 5
"""Invalid rows that a message lists."""


def finite_number(column: str, text: str) -> float:
    """Return a number; a `ValueError` where a text is none, or infinite."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{column}: '{text}' is not a number")
    return value


def reject_rows(file: str, problems: Sequence[str]) -> None:
    """Raise a `ScenarioError` with the first invalid rows of a file, if there are any."""
    if problems:
        more = len(problems) - _PRINTED
        rest = [f"{file}: {more} more rows are invalid"] if more > 0 else []
        raise ScenarioError("\n".join([*problems[:_PRINTED], *rest]))
