"""Axes of a sweep, each a list of choices.

    plan.tensor=1,2,4,8      a list              batch.micro=1:8        doublings: 1, 2, 4, 8
    plan.pipeline=4:16:4     steps               plan.data=fill         the remaining devices
    {"plan.tensor": [1, 2]}  the same in Python  a CSV file             several keys per choice

Values are those of ``--set``, with units, names, ``x2`` and ``/2``.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.changes import Change, changes_of, setting_place
from clustersim.catalog.files import read_text
from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.runs.variants import Value
from clustersim.scenario.ranges import values_of

FILL: Final = "fill"
"""The value of a parallel degree that takes all remaining devices."""

MAX_COMBINATIONS: Final = 100_000
"""Maximum number of combinations of a sweep."""

Over = Mapping[str, Sequence[Any]] | Sequence[str]
"""Axes: values by key, or texts as ``--over`` takes them."""


@dataclass(frozen=True)
class SweepChoice:
    """One value of an axis, or one row of a table.

    Attributes
    ----------
    changes : changes of the scenario, by key
    where : origin of the choice, with which a message begins
    """

    changes: Mapping[str, Change]
    where: str

    @property
    def filled(self) -> list[str]:
        """Keys that take the remaining devices."""
        return [key for key, change in self.changes.items() if change.value == FILL]


@dataclass(frozen=True)
class SweepAxis:
    """Choices of which each combination has one."""

    choices: tuple[SweepChoice, ...]

    @property
    def keys(self) -> list[str]:
        """Keys that some choice sets."""
        return [*dict.fromkeys(key for choice in self.choices for key in choice.changes)]


def value_of(change: Change) -> Value:
    """Return a value as it is printed in a table: a number, a truth value or a text."""
    if isinstance(change.value, str | int | float | bool):
        return change.value
    return change.text.partition("=")[2].strip()


def read_axes(over: Over, table: str | Path | None = None) -> list[SweepAxis]:
    """Return the axes of a sweep, a table of combinations first.

    Raises
    ------
    ScenarioError
        in one line, for an axis that is invalid, for a key that is set twice, and for more
        combinations than `MAX_COMBINATIONS`.
    """
    axes = [] if table is None else [read_table(Path(table))]
    if isinstance(over, Mapping):
        axes += [_axis_of_values(key, values) for key, values in over.items()]
    else:
        axes += map(axis_of, [over] if isinstance(over, str) else over)
    check_axes(axes)
    return axes


def check_axes(axes: Sequence[SweepAxis]) -> None:
    """Check axes against each other.

    Raises
    ------
    ScenarioError
        in one line, for a key that is set twice and for too many combinations.
    """
    if not axes:
        raise ScenarioError("--over: no axis (for example --over plan.tensor=1,2,4,8, or --list)")
    keys = [key.removesuffix(".name") for axis in axes for key in axis.keys]
    for key in keys:
        if keys.count(key) > 1:
            raise ScenarioError(f"--over {key}: set by two axes (list all its values in one)")
    lengths = [len(axis.choices) for axis in axes]
    if prod(lengths) > MAX_COMBINATIONS:
        raise ScenarioError(
            f"--over: {' x '.join(map(str, lengths))} = {prod(lengths):,} combinations, more than"
            f" {MAX_COMBINATIONS:,} (use fewer values, or a table of combinations: --list)"
        )


# --- text and values ------------------------------------------------------------------------------


def axis_of(text: str) -> SweepAxis:
    """Return the axis of a text as ``--over`` takes it.

    Raises
    ------
    ScenarioError
        in one line, when it is invalid.
    """
    key, equals, values = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ScenarioError(f"--over {text}: is not of the form key=values (plan.tensor=1,2,4,8)")
    try:
        texts = values_of(values)
    except ValueError as problem:
        raise ScenarioError(f"--over {text}: {problem}") from None
    return SweepAxis(tuple(_choice({key: value}, f"--over {key}={value}") for value in texts))


def _choice(texts: Mapping[str, str], where: str) -> SweepChoice:
    """Return a choice of values that are given as texts."""
    changes = {}
    for key, text in texts.items():
        try:
            (changes[key],) = changes_of([f"{key}={text}"])
        except ScenarioError as problem:
            place = str(setting_place(f"{key}={text}"))
            raise ScenarioError(str(problem).replace(place, where)) from None
    return SweepChoice(changes, where)


def _axis_of_values(key: str, values: Any) -> SweepAxis:
    if isinstance(values, str):
        return axis_of(f"{key}={values}")
    listed = values if isinstance(values, Iterable) else [values]
    changes = [changes_of({key: value})[0] for value in listed]
    if not changes:
        raise ScenarioError(f"--over {key}: the list is empty")
    return SweepAxis(
        tuple(SweepChoice({key: change}, f"--over {change.text}") for change in changes)
    )


# --- CSV files ------------------------------------------------------------------------------------


def read_table(path: Path) -> SweepAxis:
    """Return the rows of a CSV file as the choices of one axis, a column for each key.

    An empty cell keeps the value of the scenario.

    Raises
    ------
    ScenarioError
        in one line, when the file is invalid.
    """
    lines = _lines(path)
    if not lines:
        raise ScenarioError(f"{path}: is empty (a line of keys, then a line for each combination)")
    (_, keys), rows = lines[0], lines[1:]
    duplicate = next((key for i, key in enumerate(keys) if key in keys[:i]), None)
    if "" in keys:
        raise ScenarioError(f"{path}:1: has a column without a key")
    if duplicate is not None:
        raise ScenarioError(f"{path}:1: has the key {duplicate} twice")
    if not rows:
        raise ScenarioError(f"{path}: has no combinations below its keys")
    choices = []
    for number, cells in rows:
        if len(cells) != len(keys):
            raise ScenarioError(f"{path}:{number}: has {len(cells)} values for {len(keys)} keys")
        texts = {key: cell for key, cell in zip(keys, cells, strict=True) if cell}
        choices.append(_choice(texts, f"{path}:{number}"))
    return SweepAxis(tuple(choices))


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """Return the lines of a CSV file that are not empty, with their numbers."""
    try:
        text = read_text(path, encoding="utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except csv.Error as problem:
        raise ScenarioError(f"{path}: is not CSV ({problem})") from None
    return [(number, cells) for number, cells in lines if any(cells)]
