"""Docstrings as the library of the site reads them: what an argument is, is no type.

nbytes : payload of one rank [B]        ->      nbytes
                                                    payload of one rank [B]
"""

import re
from typing import Any, Final

import griffe

SECTION: Final = re.compile(
    r"(?<=\n)((?:Parameters|Attributes)\n-+\n)(.*?)(?=\n\n\S|\Z)", re.DOTALL
)
ENTRY: Final = re.compile(r"^([\w*, ]+?) : (.*(?:\n .*)*)", re.MULTILINE)


def with_descriptions(docstring: str) -> str:
    r"""Return a docstring whose arguments have descriptions.

    >>> with_descriptions("Sum.\n\nParameters\n----------\nn, m : numbers\n    of bytes")
    'Sum.\n\nParameters\n----------\nn, m\n    numbers\n    of bytes'
    """
    return SECTION.sub(lambda found: found[1] + ENTRY.sub(r"\1\n    \2", found[2]), docstring)


class Descriptions(griffe.Extension):
    """Applies it to every object."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = with_descriptions(obj.docstring.value)
