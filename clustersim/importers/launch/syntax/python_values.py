"""Values of a Python file that is read, not run: plain ones, and what calls make with their fields.

Recipe(nodes=4, trainer=Trainer(devices=8))

Made "Recipe":  nodes    Plain 4
                trainer  Made "Trainer":  devices  Plain 8
"""

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, Final

from clustersim.catalog.reading import Place
from clustersim.importers.launch.options import Option
from clustersim.importers.launch.syntax.shell import shortened
from clustersim.importers.source import Source
from clustersim.records import dataclass

MOST_OPTIONS: Final = 20_000
"""Limit of options: values that are shared among others are options of each."""

MOST_LEVELS: Final = 40
"""Limit of levels of expressions, of statements, of calls and of fields."""


@dataclass(frozen=True)
class Plain:
    """A literal, or the items of a list of them; with the reason where it is not known."""

    values: tuple[Any, ...]
    line: int = field(compare=False)
    unknown: str = ""


@dataclass(eq=False)
class Made:
    """What a call makes, or a table.

    Attributes
    ----------
    target : the function or class that is called; empty for a table
    fields : keyword arguments and assigned attributes; arguments by their position from 0
    taken_by : calls that take it and may change it, each with its line
    home : where an attribute without a known value belongs to once one of its own is assigned
    """

    target: str
    line: int
    fields: dict[str, "Value"] = field(default_factory=dict)
    taken_by: list[tuple[str, int]] = field(default_factory=list)
    home: "tuple[Made, str] | None" = None

    def settle(self) -> None:
        """Become a part of what it is an attribute of."""
        made = self
        while made.home is not None:
            owner, name = made.home
            made.home, made.target = None, ""
            owner.fields.setdefault(name, made)
            made = owner


Value = Plain | Made


def parts_of(roots: Sequence[Made]) -> set[int]:
    """Return the identities of what is within others."""
    found: set[int] = set()
    waiting = [value for root in roots for value in root.fields.values()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Made) and id(value) not in found:
            found.add(id(value))
            waiting += value.fields.values()
    return found


def options_within(source: Source, root: Made) -> tuple[Option, ...]:
    """Return the fields as options, and those of what is within, with dotted names.

    Raises
    ------
    CatalogError
        when they are too many, or nested too deeply.
    """
    found: list[Option] = []
    for option in _within(source, root, ()):
        found.append(option)
        if len(found) > MOST_OPTIONS:
            raise source.wrong(option.place.line, f"states more than {MOST_OPTIONS:,} options")
    return tuple(found)


def _within(source: Source, made: Made, path: tuple[str, ...]) -> Iterator[Option]:
    if len(path) > MOST_LEVELS:
        raise source.wrong(made.line, f"fields are nested more than {MOST_LEVELS} levels deep")
    for name, line in made.taken_by:
        yield Option(_plain(".".join((*path, name))), (), f"{name}(...)", Place(source.file, line))
    for key, value in made.fields.items():
        below = (*path, key)
        shown, place = ".".join(below), Place(source.file, value.line)
        if isinstance(value, Plain):
            yield Option(_plain(shown), value.values, shown, place, value.unknown)
            continue
        if value.target:
            yield Option(_plain(shown), (value.target,), shown, place, needs_a_call(value.target))
        yield from _within(source, value, below)


def needs_a_call(target: str) -> str:
    """Return why what a call makes is not known."""
    return f"{shortened(target)}(...) would have to be run"


def _plain(name: str) -> str:
    return name.replace("_", "-")
