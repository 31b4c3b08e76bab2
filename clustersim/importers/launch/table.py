"""Tables of a framework: which options are read, as which keys, and which are ignored, and why.

options --reads--> values by key      --finish--> keys of a scenario
        --ignored-> reasons
        otherwise unknown
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from clustersim.errors import ScenarioError
from clustersim.escaping import escaped
from clustersim.importers.launch.options import Option
from clustersim.importers.reasons import read_reasons, reason_of
from clustersim.importers.source import Source
from clustersim.records import dataclass
from clustersim.suggestions import nearest

Convert = Callable[[Option], Any]
"""Returns the value of a key from an option; None for an option without effect."""

MISSPELT: Final = 0.85
"""Similarity of a name to the one that it is a misspelling of; programs have many other options."""

_IGNORED: Final = Path(__file__).parent / "ignored"

INTERNAL: Final = "of."
"""Begin of keys that are not keys of a scenario, from which `finish` derives some."""


@dataclass(frozen=True)
class Read:
    """How an option is read: as a key of a scenario, or as one that `finish` needs."""

    key: str
    convert: Convert


Reads = Mapping[str, Read]


def count(key: str) -> Read:
    """Read a whole number of at least 1."""
    return Read(key, Option.count)


def whole(key: str) -> Read:
    """Read a whole number."""
    return Read(key, Option.whole)


def number(key: str) -> Read:
    """Read a number."""
    return Read(key, Option.number)


def word(key: str) -> Read:
    """Read a text."""
    return Read(key, Option.word)


def words(key: str) -> Read:
    """Read several texts."""
    return Read(key, Option.words)


def flag(key: str, value: Any = True) -> Read:
    """Read a flag: `value` if it is set."""
    return Read(key, lambda option: value if option.is_set() else None)


def switch(key: str, on: Any = True, off: Any = False) -> Read:
    """Read a setting that is on or off."""
    return Read(key, lambda option: on if option.is_set() else off)


def one_of(key: str, values: Mapping[str, Any]) -> Read:
    """Read one of some words, each with its value."""

    def convert(option: Option) -> Any:
        stated = option.word()
        if stated not in values:
            raise option.wrong(f"is not modelled (modelled: {', '.join(values)})")
        return values[stated]

    return Read(key, convert)


@dataclass
class Given:
    """What the options of a launch file state, by key.

    Attributes
    ----------
    values : by dotted key
    options : the option of each key
    ignored : options without effect on the scenario, each with the reason
    unknown : options in no table, each with the nearest that is in one
    assumed : keys that the file does not state, each with the reason
    notes : what a scenario does not express
    """

    source: Source
    values: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Option] = field(default_factory=dict)
    read: list[Option] = field(default_factory=list)
    ignored: list[tuple[Option, str]] = field(default_factory=list)
    unknown: list[tuple[Option, str]] = field(default_factory=list)
    assumed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def take(self, options: Sequence[Option], reads: Reads, ignored: Mapping[str, str]) -> None:
        """Sort options into read, ignored and unknown ones; a later one of a name wins."""
        latest = {option.name: option for option in options}
        for option in latest.values():
            read = reads.get(option.name)
            reason = reason_of(option.name, ignored)
            if read is not None:
                self._set(option, read)
            elif reason is not None:
                self.ignored.append((option, reason))
            else:
                self.unknown.append((option, nearest(option.name, reads, MISSPELT)))

    def _set(self, option: Option, read: Read) -> None:
        value = read.convert(option)
        self.read.append(option)
        if value is not None:
            self.values[read.key] = value
            self.options[read.key] = option

    def get(self, key: str, otherwise: Any = None) -> Any:
        """Return the value of a key, or another one where the file does not state it."""
        return self.values.get(key, otherwise)

    def states(self, table: str) -> bool:
        """Whether the file has an option of this name, or in the table of this name."""
        stated = [*self.read, *(option for option, _ in (*self.ignored, *self.unknown))]
        empty: tuple[tuple[Any, ...], ...] = ((), ("",), ({},))
        return any(
            option.name.partition(".")[0] == table and option.values not in empty
            for option in stated
        )

    def pop(self, key: str, otherwise: Any = None) -> Any:
        """Return the value of a key that is no key of a scenario, and forget it."""
        return self.values.pop(INTERNAL + key, otherwise)

    def put(self, key: str, value: Any, source: str = "") -> None:
        """Set a key that follows from others, with the option of another key as its place."""
        self.values[key] = value
        if source in self.options:
            self.options[key] = self.options[source]

    def usual(self, key: str, value: Any) -> None:
        """Set a key that the file does not state to the default of the framework."""
        self.values.setdefault(key, value)

    def assume(self, key: str, value: Any, reason: str) -> None:
        """Set a key that the file does not state, with the reason for its value."""
        if key not in self.values:
            self.values[key] = value
            self.assumed[key] = reason

    def need(self, key: str, option: str) -> Any:
        """Return the value of a key without which there is no scenario.

        Raises
        ------
        ScenarioError
            when the file does not state it.
        """
        if key not in self.values:
            raise self.missing(option)
        return self.values[key]

    def missing(self, option: str) -> ScenarioError:
        """Return the error about an option that the file needs."""
        return ScenarioError(
            f"{escaped(self.source.file)}: {option}: missing, and no scenario without it (is the"
            " file complete?)"
        )

    def wrong(self, key: str, problem: str) -> ScenarioError:
        """Return the error about a key, at the option that states it."""
        option = self.options.get(key)
        if option is not None:
            return option.wrong(problem)
        return ScenarioError(f"{escaped(self.source.file)}: {problem}")

    def disregard(self, key: str, reason: str) -> None:
        """Move an option that was read to the ignored ones, as it has no effect here."""
        option = self.options.pop(key, None)
        self.values.pop(key, None)
        if option is not None:
            self.read.remove(option)
            self.ignored.append((option, reason))


def ignored(*programs: str) -> Mapping[str, str]:
    """Return the options of programs that are not read, or patterns of them, with the reasons."""
    tables = (read_reasons(_IGNORED / f"{program}.yaml") for program in programs)
    return {option: reason for table in tables for option, reason in table.items()}


def under(prefix: str, table: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table under a prefix."""
    return {prefix + option: reason for option, reason in table.items()}


@dataclass(frozen=True)
class Launch:
    """A launch format.

    Attributes
    ----------
    options : the options of a file, read by its syntax
    reads : the options that are read
    ignored : returns those that are not, or patterns of them, with the reasons
    finish : derives the keys of the scenario from what was read
    service : whether it launches a service, not a training run
    """

    options: Callable[[Source], Sequence[Option]]
    reads: Reads
    ignored: Callable[[], Mapping[str, str]]
    finish: Callable[[Given], None]
    service: bool = False
