"""Keys of measured cases by family, and a message for each key that its family does not have.

``validation/case_keys.yaml`` states which keys grading reads, with their meanings, and which are
recorded only.  Any other key would be dropped in silence, so the file that has it is rejected.
"""

import fnmatch
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from pydantic import Field

from clustersim.catalog.checking import shipped_record
from clustersim.catalog.facts import Strict
from clustersim.catalog.problems import as_stated, unknown_key
from clustersim.catalog.reading import Document, Key
from clustersim.catalog.tree import dotted
from clustersim.suggestions import nearest

STEP: Final = "step"
"""The family of rows that name none: training steps."""


class FamilyKeys(Strict):
    """The keys of a family, dotted.

    `read` has those that grading reads with their meanings, `notes` those that are recorded only,
    and `elsewhere` where to state what belongs to no key.
    """

    read: dict[str, str]
    notes: list[str]
    elsewhere: dict[str, str] = Field(default_factory=dict)


class CaseKeys(Strict):
    """The file."""

    kind: Literal["case-keys"]
    families: dict[str, FamilyKeys]


@lru_cache(maxsize=1)
def case_keys() -> Mapping[str, FamilyKeys]:
    """Return the keys of each family.

    Raises
    ------
    CatalogError
        when the shipped file is not valid.
    """
    return shipped_record(CaseKeys, "validation", "case_keys").families


def key_problems(document: Document) -> list[str]:
    """Return a line for each unknown key or family of a list of rows, with its number of cases."""
    problems: dict[tuple[str, str], Key] = {}
    count: Counter[tuple[str, str]] = Counter()
    for number, row in enumerate(document.data):
        for path, problem in _row_problems(row) if isinstance(row, Mapping) else ():
            problems.setdefault((dotted(path), problem), (number, *path))
            count[dotted(path), problem] += 1
    return [
        f"{document.places.get(place, document.file)}: {key}: {problem}"
        + (f", in {count[key, problem]} cases" if count[key, problem] > 1 else "")
        for (key, problem), place in problems.items()
    ]


def _row_problems(row: Mapping[str, Any]) -> Iterator[tuple[Key, str]]:
    """Yield the path of each key that the family of a row does not have, and the reason."""
    family = STEP if row.get("family") is None else row["family"]
    name = family.strip().lower() if isinstance(family, str) else ""
    keys = case_keys().get(name)
    if keys is None:
        known = [word for word in case_keys() if word != STEP]
        hint = nearest(name, known)
        yield (
            ("family",),
            f"must be one of {', '.join(known)}, or left out for training steps,"
            f" not {as_stated(family)}{hint}",
        )
        return
    for path in _unknown(row, _tree([*keys.read, *keys.notes]), ()):
        around = _tree([*keys.read])
        for part in path[:-1]:
            around = around.get(str(part), {})
        yield path, keys.elsewhere.get(dotted(path)) or unknown_key(str(path[-1]), around)


def _tree(names: Iterable[str]) -> dict[str, Any]:
    """Return dotted names as nested tables; an empty one has no keys that are checked.

    >>> _tree(["id", "source.title", "source.ref"])
    {'id': {}, 'source': {'title': {}, 'ref': {}}}
    """
    tree: dict[str, Any] = {}
    for name in names:
        table = tree
        for part in name.split("."):
            table = table.setdefault(part, {})
    return tree


def _unknown(table: Mapping[str, Any], known: Mapping[str, Any], path: Key) -> Iterator[Key]:
    """Yield the paths of keys that are not among the known ones, nor match a pattern there."""
    for key, value in table.items():
        if key not in known and not any(fnmatch.fnmatch(key, name) for name in known):
            yield (*path, key)
        elif isinstance(value, Mapping) and known.get(key):
            yield from _unknown(value, known[key], (*path, key))
