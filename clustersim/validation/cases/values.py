"""Values as people type them into a table of measured runs, each read by one small function.

    "51200: GPT-2 vocabulary padded" --whole_number--> 51200
    "none (nanotron default)"        --word----------> "none"

A reader returns None for None and raises ValueError with the value in its message, so that it reads
both fields of a row and assumptions written as text.
"""

import re
from collections.abc import Callable
from typing import Annotated, Final

from pydantic import BeforeValidator

MOST: Final = 10**9
"""No count of devices, layers, tokens or sequences is larger."""

_WHOLE: Final = re.compile(r"\s*(\d+)(?=$|[\s,;:(])")
_WORD: Final = re.compile(r"\s*([A-Za-z0-9][\w.+-]*)(?=\s*(?:$|[,;:(]))")


def whole_number(value: object) -> int | None:
    """Return a whole number, also from a text that begins with one.

    >>> [whole_number(value) for value in ("51200: GPT-2 vocabulary padded", "1 (so)", 8.0, None)]
    [51200, 1, 8, None]
    >>> whole_number("4*hidden")
    Traceback (most recent call last):
    ValueError: '4*hidden' is not a whole number
    """
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and (match := _WHOLE.match(value)):
        value = int(match[1]) if len(match[1]) < 20 else MOST + 1
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{quoted(value)} is not a whole number")
    if not 0 <= value <= MOST:
        raise ValueError(f"{quoted(value)} is not from 0 to {MOST:,}")
    return value


def count(value: object) -> int | None:
    """Return a count of at least one; texts as in `whole_number`."""
    number_read = whole_number(value)
    if number_read == 0:
        raise ValueError("0 is not a count of at least 1")
    return number_read


def measured_number(value: object) -> float | None:
    """Return a measured number above 0, also from a text."""
    if value is None:
        return None
    try:
        number_read = float(value) if isinstance(value, str | int | float) else 0.0
    except (ValueError, OverflowError):
        number_read = 0.0
    if isinstance(value, bool) or not 1e-12 <= number_read <= 1e15:
        raise ValueError(f"{quoted(value)} is not a number from 1e-12 to 1e15")
    return number_read


def flag(value: object) -> bool | None:
    """Return yes or no, also from a text such as ``"true when tp > 1"``."""
    if value is None or isinstance(value, bool):
        return value
    first = value.strip().lower() if isinstance(value, str) else ""
    if not first.startswith(("true", "false")):
        raise ValueError(f"{quoted(value)} is neither true nor false")
    return first.startswith("true")


def text(value: object) -> str | None:
    """Return a text, also from a number."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        raise ValueError(f"{quoted(value)} is not a text")
    return str(value)


def word(value: object) -> str | None:
    """Return the first word of a text if an explanation or nothing follows it, in lower case.

    >>> word("none (nanotron default)"), word("full: the scripts set it"), word("Selective")
    ('none', 'full', 'selective')

    Any other text is kept whole.

    >>> word("none or selective; not stated")
    'none or selective; not stated'
    """
    words = text(value)
    if words is None:
        return None
    match = _WORD.match(words)
    return (match[1] if match else words).strip().lower()


def word_among(*allowed: str) -> Callable[[object], str | None]:
    """Return a reader of one of the words `allowed`; any other text is an error."""

    def read(value: object) -> str | None:
        read_word = word(value)
        if read_word is not None and read_word not in allowed:
            raise ValueError(f"{quoted(value)} is none of {', '.join(allowed)}")
        return read_word

    return read


def quoted(value: object) -> str:
    """Return a value as a message shows it, in at most 40 characters."""
    shown_value = repr(value)
    return shown_value if len(shown_value) <= 40 else f"{shown_value[:37]}..."


Count = Annotated[int | None, BeforeValidator(count)]
Amount = Annotated[int | None, BeforeValidator(whole_number)]
Number = Annotated[float | None, BeforeValidator(measured_number)]
Flag = Annotated[bool | None, BeforeValidator(flag)]
Text = Annotated[str | None, BeforeValidator(text)]
Word = Annotated[str | None, BeforeValidator(word)]
