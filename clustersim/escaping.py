"""Text of users without characters that control a terminal, reorder a line or break an XML file."""

import re
from typing import Final

_CONTROLS: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # of terminals, with the line breaks
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # of the direction of writing
    "\u2028\u2029\ufff9-\ufffb\ufffe\uffff\ud800-\udfff]"  # not allowed, or line breaks elsewhere
)


def escaped(text: str, keep: str = "") -> str:
    r"""Return a text with control characters as escapes, except those in `keep`.

    >>> print(escaped("a\x1b[31m\nb"))
    a\x1b[31m\nb
    """
    if text.isprintable():
        return text
    return _CONTROLS.sub(lambda found: _escape(found[0], keep), text)


def _escape(letter: str, keep: str) -> str:
    return letter if letter in keep else letter.encode("unicode_escape").decode("ascii")


def one_line(text: str) -> str:
    r"""Return a text with all its white space as single spaces.

    >>> one_line(" GPT of\n 22B\n")
    'GPT of 22B'
    """
    return " ".join(text.split())


def file_name(text: str) -> str:
    """Return a name as part of the name of a file: without separators and control characters.

    >>> file_name("../../mine")
    '..-..-mine'
    """
    return re.sub(r"[/\\\\]+", "-", escaped(text))
