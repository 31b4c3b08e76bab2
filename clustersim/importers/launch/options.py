"""Options of a launch file, flat, whatever its syntax: a name, values and a line."""

import re
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, Final

from clustersim.catalog.reading import Document, Place
from clustersim.errors import ScenarioError
from clustersim.escaping import escaped
from clustersim.importers.launch.syntax.shell import Command, Word, shortened
from clustersim.importers.launch.syntax.shell import whole_number as sum_of
from clustersim.importers.source import Source
from clustersim.records import dataclass

MOST: Final = 10**12
"""Largest whole number that an option may have; those that count something are far below it."""


@dataclass(frozen=True)
class Option:
    """An option with its values, as a launch file has it.

    Attributes
    ----------
    name : without dashes in front, words joined by ``-``; keys of tables joined by ``.``
    values : texts or plain values; none for a flag
    shown : the option as it is written
    unknown : why a value is not in the file; empty if all are
    """

    name: str
    values: tuple[Any, ...]
    shown: str
    place: Place
    unknown: str = ""

    @classmethod
    def of(cls, name: str, word: Word, source: Source) -> "Option":
        """Return a word of a command that has a meaning by its position."""
        return cls(name, (word.text,), name, Place(source.file, word.line), word.unknown)

    @staticmethod
    def plain_name(text: str) -> str:
        """Return the name of an option as it is written.

        >>> Option.plain_name("--training.seq_len")
        'training.seq-len'
        """
        return text.lstrip("-").replace("_", "-")

    def __str__(self) -> str:
        values = " ".join(_plain(value) for value in self.values)
        return f"{self.shown} {values}".rstrip()

    def wrong(self, problem: str) -> ScenarioError:
        """Return the error about this option, in one line."""
        return ScenarioError(f"{self.place}: {escaped(str(self)[:120])}: {escaped(problem)}")

    @property
    def value(self) -> Any:
        """The only value; True for a flag.

        Raises
        ------
        ScenarioError
            when it is not in the file, or there are several.
        """
        if self.unknown:
            raise self.wrong(f"{self.unknown} (write its value instead)")
        if len(self.values) > 1:
            raise self.wrong(f"has {len(self.values)} values, expected one")
        return self.values[0] if self.values else True

    def whole(self) -> int:
        """Return the value as a whole number."""
        whole = self._whole()
        if abs(whole) > MOST:
            raise self.wrong(f"must be at most {MOST:,}")
        return whole

    def _whole(self) -> int:
        value = self.value
        try:
            if isinstance(value, int) and not isinstance(value, bool):
                return value
            if isinstance(value, float) and value.is_integer():
                return int(value)
            return sum_of(str(value).replace("_", ""))
        except (ValueError, TypeError):
            raise self.wrong("must be a whole number") from None

    def count(self) -> int:
        """Return the value as a whole number of at least 1."""
        value = self.whole()
        if value < 1:
            raise self.wrong("must be at least 1")
        return value

    def number(self) -> float:
        """Return the value as a number that is finite."""
        try:
            number = float(self.value)
        except (ValueError, TypeError, OverflowError):
            raise self.wrong("must be a number") from None
        if not abs(number) < inf:
            raise self.wrong("must be a finite number")
        return number

    def word(self) -> str:
        """Return the value as text."""
        return str(self.value)

    def words(self) -> list[str]:
        """Return all values as texts."""
        if self.unknown:
            raise self.wrong(f"{self.unknown} (write its value instead)")
        return [str(value) for value in self.values]

    def is_set(self) -> bool:
        """Whether a flag is set: without a value, or with one that is not false."""
        return str(self.value).lower() not in ("false", "0", "none", "no", "off")


def _plain(value: Any) -> str:
    """Return a value as YAML has it in one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_plain(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    return str(value).lower() if isinstance(value, bool | None) else str(value)


def options_of(source: Source, words: Sequence[Word]) -> Iterator[Option]:
    """Return the options in words of a command; words before the first one are not among them."""
    name: Word | None = None
    values: list[Word] = []
    for word in words:
        if not is_option(word.text):
            values.append(word)
            continue
        if name is not None:
            yield _option(source, name, values)
        name, values = word, []
        shown, equals, value = word.text.partition("=")
        if equals:
            name = Word(shown, word.line)
            values = [Word(value, word.line, word.unknown)]
    if name is not None:
        yield _option(source, name, values)


def is_option(text: str) -> bool:
    """Whether a word is an option: ``--name`` or ``-n``, not a negative number."""
    return re.match(r"--?[A-Za-z]", text) is not None


def _option(source: Source, name: Word, values: Sequence[Word]) -> Option:
    plain = Option.plain_name(name.text)
    unknown = next((word.unknown for word in values if word.unknown), name.unknown)
    texts = tuple(word.text for word in values)
    return Option(plain, texts, name.text, Place(source.file, name.line), unknown)


def positionals(command: Command, start: int) -> list[Word]:
    """Return the words of a command from an index to its first option."""
    words = []
    for word in command[start:]:
        if is_option(word.text):
            break
        words.append(word)
    return words


def options_in(document: Document, prefix: str = "") -> list[Option]:
    """Return the values of a YAML, TOML or JSON file as options, named by their keys.

    Parameters
    ----------
    prefix : of the names, such as that of the file
    """
    return list(_inside(document, document.data, (), prefix))


def _inside(
    document: Document, data: Any, path: tuple[str | int, ...], prefix: str
) -> Iterator[Option]:
    if isinstance(data, dict) and (data or not path):
        for key, value in data.items():
            yield from _inside(document, value, (*path, key), prefix)
        return
    place = next(
        (
            document.places[path[:n]]
            for n in range(len(path), -1, -1)
            if path[:n] in document.places
        ),
        Place(document.file),
    )
    shown = ".".join(str(part) for part in path)
    values = tuple(data) if isinstance(data, list) else (data,)
    found = re.search(r"\$\{[^}]*\}", data) if isinstance(data, str) else None
    unknown = f"{shortened(found[0])} is not known from the file" if found else ""
    yield Option(prefix + Option.plain_name(shown), values, shown, place, unknown)
