"""Records of catalogue files that have been checked before: equal values are checked once.

Scenarios of a study name the same machine, model and framework, whose values are nine tenths of a
scenario, and are as a rule those of the file.
"""

import hashlib
import marshal
from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic import BaseModel

from clustersim.bounded_cache import BoundedCache
from clustersim.catalog import disk_cache
from clustersim.catalog.facts import Record
from clustersim.catalog.reading import Key
from clustersim.catalog.tree import Tree, value_at

Records = dict[Key, BaseModel]
"""Checked records by their paths in a tree."""

_KEPT: Final = BoundedCache(most=256, largest=1)


def kept_records(record: type[BaseModel], tree: Tree, known: Collection[Key]) -> Records:
    """Return the records of a tree whose values have been checked, the outermost of them.

    Parameters
    ----------
    record : the type of the whole tree
    known : paths of further records that are not looked for
    """
    found: Records = {}
    for path in _paths_of_files(tree):
        if not _is_inside(path, known) and not _is_inside(path, found):
            key = _key(record, path, tree)
            kept = _KEPT.known(key)
            if kept is None and len(path) == 1 and key is not None:
                kept = disk_cache.find(record.__name__, *key[1:])
            if kept is not None:
                found[path] = kept
    return found


def keep_records(checked: BaseModel, tree: Tree, known: Collection[Key]) -> None:
    """Keep the records of a checked tree, but for those that are known."""
    for path in _paths_of_files(tree):
        inner = _at(checked, path)
        if isinstance(inner, Record) and not _is_inside(path, known):
            key = _key(type(checked), path, tree)
            if key is not None:
                _KEPT.add(key, 1, inner)
                if len(path) == 1:
                    disk_cache.keep(inner, type(checked).__name__, *key[1:])


def with_records(data: Mapping[str, Any], records: Mapping[Key, BaseModel]) -> dict[str, Any]:
    """Return values with records in the place of their tables."""
    whole = dict(data)
    for path, record in records.items():
        owner = whole
        for part in path[:-1]:
            owner[str(part)] = owner = {**owner[str(part)]}
        owner[str(path[-1])] = record
    return whole


def _paths_of_files(tree: Tree) -> list[Key]:
    """Return where files were looked up, outer ones first."""
    return sorted(tree.roots, key=len)


def _is_inside(path: Key, records: Collection[Key]) -> bool:
    """Whether a path is that of a record, or inside of one."""
    return any(path[:length] in records for length in range(1, len(path) + 1))


def _at(record: BaseModel, path: Key) -> Any:
    value: Any = record
    for part in path:
        value = getattr(value, str(part), None)
    return value


def _key(record: type[BaseModel], path: Key, tree: Tree) -> tuple[Any, ...] | None:
    """Return what the values at a path are known by; None for values that are not plain."""
    try:
        # Version 2 has no references to equal objects, so that equal values are equal bytes.
        plain = marshal.dumps(value_at(tree.data, path), 2)
    except ValueError:
        return None
    return record, path, hashlib.blake2b(plain, digest_size=16).digest()
