"""The words that can follow the words of a command line.

`words.json` states what each option and argument takes, as a list:

    fp8, bf16            these words
    @cluster             the name of a file of this kind in the catalogue
    @.yaml               a file with this ending; @. any file
    @keys                a key of a scenario and its value: plan.tensor=4

An empty list is a value of which there are too many, such as a number.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from clustersim.catalog.folders import entry_names

WORDS: Final = os.path.join(os.path.dirname(__file__), "words.json")
"""The verbs, their options, and the keys of scenarios."""


class Candidate(NamedTuple):
    """A word that can be at the cursor, and what it means; empty where the word states that."""

    text: str
    help: str = ""


Verb = Mapping[str, Any]
"""An entry of a verb in `words.json`: its help, options and arguments."""


def candidates(words: Sequence[str]) -> list[Candidate]:
    """Return what can be at the end of a command line.

    Parameters
    ----------
    words : those after `clustersim`; the last one is incomplete, and may be empty

    >>> candidates(["ser"])
    [Candidate(text='serve', help='Simulate inference requests: latency, throughput, goodput.')]
    """
    with open(WORDS, encoding="utf-8") as file:
        known = json.load(file)
    *before, current = words
    verbs = [word for word in before if not word.startswith("-")]
    if verbs and verbs[0] not in known["verbs"]:
        return []
    if verbs:
        verb = known["verbs"][verbs[0]]
        found = _of_verb(verb, before[before.index(verbs[0]) + 1 :], current, known["keys"])
    elif current.startswith("-"):
        found = _options(known["options"], before)
    else:
        found = (Candidate(name, verb["help"]) for name, verb in known["verbs"].items())
    return [*dict.fromkeys(each for each in found if each.text.startswith(current))]


def _of_verb(
    verb: Verb, before: list[str], current: str, keys: Mapping[str, Any]
) -> Iterator[Candidate]:
    """Yield what can follow the words `before` of a verb."""
    options, position = verb["options"], _position(verb["options"], before)
    if position is None:
        yield from _values(options[before[-1]]["values"], current, keys)
    elif current.startswith("--") and "=" in current:
        name, _, value = current.partition("=")
        for text, help in _values(options.get(name, {}).get("values", ()), value, keys):
            yield Candidate(f"{name}={text}", help)
    elif current.startswith("-") and "--" not in before:
        yield from _options(options, before)
    else:
        arguments = verb["arguments"]
        if verb["many"] or position < len(arguments):
            yield from _values(arguments[min(position, len(arguments) - 1)], current, keys)
        elif "--" not in before:
            yield from _options(options, before)


def _position(options: Mapping[str, Any], before: list[str]) -> int | None:
    """Return the number of arguments so far; None after an option that takes a value."""
    words, position = iter(before), 0
    for word in words:
        if word == "--":
            return position + sum(1 for _ in words)
        if not word.startswith("-"):
            position += 1
        elif "values" in options.get(word, {}) and next(words, None) is None:
            return None
    return position


def _options(options: Mapping[str, Any], before: Iterable[str]) -> Iterator[Candidate]:
    """Yield the options that are not stated yet, and those that may be repeated."""
    stated = {word.partition("=")[0] for word in before}
    for name, option in options.items():
        if name not in stated or option.get("repeats"):
            yield Candidate(name, option["help"])


def _values(sources: Iterable[str], current: str, keys: Mapping[str, Any]) -> Iterator[Candidate]:
    """Yield the values that options and arguments take, after those of a list that are stated."""
    stated, comma, _ = current.rpartition(",")
    for source in sources:
        if source == "@keys":
            yield from _settings(current, keys)
        elif source.startswith("@."):
            yield from _files(current, source.removeprefix("@."))
        elif source.startswith("@"):
            yield from map(Candidate, entry_names(source.removeprefix("@")))
        elif source not in stated.split(","):
            yield Candidate(f"{stated}{comma}{source}")


def _settings(current: str, keys: Mapping[str, Any]) -> Iterator[Candidate]:
    """Yield the next parts of dotted keys, or the values of a key."""
    name, equals, value = current.partition("=")
    if equals:
        for text, help in _values(keys.get(name, ["", []])[1], value, keys):
            yield Candidate(f"{name}={text}", help)
        return
    tables = dict.fromkeys(
        key[: end + 1]
        for key in keys
        if key.startswith(current) and (end := key.find(".", len(current))) >= 0
    )
    for table in tables:
        yield Candidate(table, keys.get(table[:-1], [""])[0])
    for key, (help, _) in keys.items():
        if key.startswith(current) and "." not in key[len(current) :]:
            yield Candidate(f"{key}=", help)


def _files(current: str, ending: str) -> Iterator[Candidate]:
    """Yield the files with an ending and the folders in the folder that `current` begins with."""
    folder = current[: current.rfind("/") + 1]
    try:
        entries = sorted(
            os.scandir(os.path.expanduser(folder) or "."), key=lambda entry: entry.name
        )
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(".") and not current[len(folder) :].startswith("."):
            continue
        if entry.is_dir():
            yield Candidate(f"{folder}{entry.name}/")
        elif entry.name.endswith(f".{ending}" if ending else ""):
            yield Candidate(f"{folder}{entry.name}")
