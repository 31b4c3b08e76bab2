"""Axes of a sweep as people write them, each a row of choices.

    plan.tensor=1,2,4,8      a list              batch.micro=1:8        doublings: 1, 2, 4, 8
    plan.pipeline=4:16:4     by steps            plan.data=fill         the devices that are left
    a table in a CSV file    several keys at once, a row for each choice

A value is written as ``--set`` takes it, with units, names, ``x2`` and ``/2``.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.reading import parse_yaml
from clustersim.errors import ScenarioError
from clustersim.runs.variants import Value
from clustersim.scenario.ranges import values_of

MOST: Final = 100_000
"""Combinations of a sweep, at most."""


@dataclass(frozen=True)
class Choice:
    """One value of an axis, or one row of a table.

    Attributes
    ----------
    texts : values by key, as ``--set`` takes them
    where : to begin a complaint with
    """

    texts: dict[str, str]
    where: str


@dataclass(frozen=True)
class Axis:
    """Choices of which each combination takes one."""

    choices: tuple[Choice, ...]

    @property
    def keys(self) -> list[str]:
        """Keys that some choice sets."""
        return [*dict.fromkeys(key for choice in self.choices for key in choice.texts)]


def value_of(text: str) -> Value:
    """Return a value as it stands in a table: a number or a truth value, else its text."""
    data: Any = parse_yaml(text, "").data
    return data if isinstance(data, str | int | float | bool) else text.strip()


def check_axes(axes: Sequence[Axis]) -> None:
    """Refuse axes that say a thing twice, or combine to more than anyone can wait for.

    Raises
    ------
    ScenarioError
        in one line.
    """
    if not axes:
        raise ScenarioError(
            "--over: nothing is swept (write --over plan.tensor=1,2,4,8, or --list)"
        )
    keys = [key.removesuffix(".name") for axis in axes for key in axis.keys]
    for key in keys:
        if keys.count(key) > 1:
            raise ScenarioError(f"--over {key}: two axes set it (list all its values in one)")
    lengths = [len(axis.choices) for axis in axes]
    if prod(lengths) > MOST:
        raise ScenarioError(
            f"--over: {' x '.join(map(str, lengths))} = {prod(lengths):,} combinations, and"
            f" {MOST:,} are the most (fewer values, or those that matter as a table: --list)"
        )


# --- written on the command line ------------------------------------------------------------------


def axis_of(text: str) -> Axis:
    """Return the axis that ``--over`` names.

    Raises
    ------
    ScenarioError
        for what is no axis, in one line.
    """
    key, equals, values = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ScenarioError(f"--over {text}: is not of the form key=values (plan.tensor=1,2,4,8)")
    try:
        found = values_of(values)
    except ValueError as problem:
        raise ScenarioError(f"--over {text}: {problem}") from None
    return Axis(tuple(Choice({key: value}, f"--over {key}={value}") for value in found))


# --- written in a file ----------------------------------------------------------------------------


def table_of(path: Path) -> Axis:
    """Return the rows of a CSV file as the choices of one axis: a column for each key.

    An empty cell leaves the value as the scenario has it.

    Raises
    ------
    ScenarioError
        in one line.
    """
    lines = _lines(path)
    if not lines:
        raise ScenarioError(f"{path}: is empty (a line of keys, then a line for each choice)")
    (_, keys), rows = lines[0], lines[1:]
    twice = [key for place, key in enumerate(keys) if key in keys[:place]]
    if "" in keys or twice:
        what = f"names {twice[0]} twice" if twice and twice[0] else "has a column without a key"
        raise ScenarioError(f"{path}:1: {what}")
    if not rows:
        raise ScenarioError(f"{path}: has no choices below its keys")
    choices = []
    for number, cells in rows:
        if len(cells) != len(keys):
            raise ScenarioError(f"{path}:{number}: has {len(cells)} values for {len(keys)} keys")
        texts = {key: cell for key, cell in zip(keys, cells, strict=True) if cell}
        choices.append(Choice(texts, f"{path}:{number}"))
    return Axis(tuple(choices))


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """Return the lines of a CSV file that say something, with their numbers."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            found = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: cannot be read (is not UTF-8 text)") from None
    except OSError as problem:
        raise ScenarioError(f"{path}: cannot be read ({problem.strerror})") from None
    except csv.Error as problem:
        raise ScenarioError(f"{path}: is not CSV ({problem})") from None
    return [(number, cells) for number, cells in found if any(cells)]


__all__ = ["Axis", "Choice", "axis_of", "check_axes", "table_of", "value_of"]
