"""Rules of a framework's profile in words: for each key, what its value means.

A rule names the keys that it tells of and makes the sentence of their values, as they are written
in the file.  Nothing here knows a framework.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple


class Rule(NamedTuple):
    """How one sentence is made.

    Attributes
    ----------
    keys : of the facts that it tells of; it is told where there is the first of them
    tell : the sentence, of their values in this order, None for those that are not there
    """

    keys: tuple[str, ...]
    tell: Callable[..., str]


def either(key: str, yes: str, no: str) -> Rule:
    """Return the rule of a flag."""
    return Rule((key,), lambda value: yes if value else no)


def one_of(key: str, texts: Mapping[str, str]) -> Rule:
    """Return the rule of a choice."""
    return Rule((key,), lambda value: texts[value])


def listed(words: Iterable[Any], last: str = "and") -> str:
    """Return words as people list them.

    >>> listed(["1f1b", "gpipe", "zb-v"], "or")
    '1f1b, gpipe or zb-v'
    """
    *most, final = [str(word) for word in words]
    return f"{', '.join(most)} {last} {final}" if most else final


def counted(number: float, noun: str) -> str:
    """Return a number with its noun, in the plural where it is not one.

    >>> counted(1, "gather"), counted(38, "byte")
    ('1 gather', '38 bytes')
    """
    return f"{number:,g} {noun}" + ("" if number == 1 else "s")


def percent(share: float) -> str:
    """Return a share as people read it: ``percent(0.0213)`` is ``2.13 %``."""
    return f"{100 * share:.3g} %"
