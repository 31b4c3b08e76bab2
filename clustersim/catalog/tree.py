"""Trees of plain values with the place of each, which can be merged and changed by key.

A scenario names a machine, a model and a framework; values of the scenario win over those of the
named files, and ``--set`` wins over both.  Every value keeps the place that it comes from, so a
message can always name a file and a line.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any, TypeGuard

from clustersim.answers import in_brief
from clustersim.catalog.changes import Change, Scale, scaled
from clustersim.catalog.reading import Document, Key, Place, plain_copy
from clustersim.catalog.reading import dotted as dotted
from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.suggestions import nearest

FACT_KEYS = frozenset({"value", "source", "assumed", "confidence", "note"})
"""Keys of a sourced value."""


def is_fact(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a plain mapping is a sourced value: ``{value: ..., source: ...}``."""
    return isinstance(value, dict) and "value" in value and value.keys() <= FACT_KEYS


def bare(value: Any) -> Any:
    """Return plain values without the sources of facts.

    >>> bare({"size": {"value": 4, "source": "manual"}, "sources": {"manual": {}}})
    {'size': 4}
    """
    if is_fact(value):
        return bare(value["value"])
    if isinstance(value, dict):
        return {key: bare(inner) for key, inner in value.items() if key != "sources"}
    return [bare(item) for item in value] if isinstance(value, list) else value


def value_at(data: Any, path: Key) -> Any:
    """Return the value at a path; None where a table on the way is missing."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


@dataclass(repr=False)
class Tree:
    """A nested mapping with the place of each value.

    Attributes
    ----------
    roots : files of merged records, by the path of each
    """

    data: dict[str, Any]
    _places: dict[Key, Place] = field(default_factory=dict)
    roots: dict[Key, Place] = field(default_factory=dict)
    _adopted: dict[Key, tuple[Mapping[Key, Place], Key]] = field(default_factory=dict)
    """Values of documents by their paths here: few of the thousand places of a record are read."""

    __repr__ = in_brief

    @classmethod
    def of(cls, document: Document) -> "Tree":
        """Return a tree of a document whose top is a mapping."""
        return cls(document.mapping(), dict(document.places))

    def place(self, path: Key) -> Place:
        """Return the place of the value at `path`, or of the nearest value around it.

        A missing value of a grafted record has the place of its file.
        """
        for length in range(len(path), -1, -1):
            around = path[:length]
            if place := self.roots.get(around) or self.place_of(around):
                return place
        return Place("(built in)")

    def place_of(self, path: Key) -> Place | None:
        """Return the place of the value at `path`; None without one."""
        if path in self._places:
            return self._places[path]
        for length in range(len(path), 0, -1):
            if path[:length] in self._adopted:
                places, inner = self._adopted[path[:length]]
                if place := places.get((*inner, *path[length:])):
                    return place
        return None

    @property
    def places(self) -> dict[Key, Place]:
        """The places of all values, by their paths."""
        self._write_out([*self._adopted])
        return self._places

    def _write_out(self, paths: Iterable[Key]) -> None:
        """Write the places of the values that were adopted at some paths one by one."""
        documents: dict[int, tuple[Mapping[Key, Place], dict[Key, list[Key]]]] = {}
        for path in paths:
            places, inner = self._adopted.pop(path)
            _, targets = documents.setdefault(id(places), (places, {}))
            targets.setdefault(inner, []).append(path)
        for places, targets in documents.values():
            for key, place in places.items():
                for length in range(1, len(key) + 1):
                    for path in targets.get(key[:length], ()):
                        self._places.setdefault((*path, *key[length:]), place)

    def graft(self, path: Key, document: Document) -> Any:
        """Merge a document into the values at `path`, which win over it; return the result.

        A plain value over a sourced one replaces its value and becomes its own source.
        """
        owner, last = value_at(self.data, path[:-1]), path[-1]
        owner[last] = self._merged(document.data, owner[last], path, document.places, ())
        self.roots[path] = Place(document.file)
        return owner[last]

    def _merged(
        self, below: Any, above: Any, path: Key, places: Mapping[Key, Place], inner: Key
    ) -> Any:
        if is_fact(below) and is_fact(above):
            return above
        if isinstance(below, dict) and isinstance(above, dict):
            merged = {}
            for key in [*below, *(k for k in above if k not in below)]:
                if key not in above:
                    self._adopted[*path, key] = places, (*inner, key)
                    merged[key] = below[key]
                elif key not in below:
                    merged[key] = above[key]
                else:
                    merged[key] = self._merged(
                        below[key], above[key], (*path, key), places, (*inner, key)
                    )
            return merged
        if isinstance(below, str) and isinstance(above, dict):
            return {"name": below, **above}
        if is_fact(below):
            self._places[(*path, "value")] = self.place(path)
            return {"value": above, "assumed": f"set in {self.place(path).without_folder}"}
        return above

    def copy(self) -> "Tree":
        """Return a tree with the same values and places that can be changed separately."""
        return Tree(plain_copy(self.data), dict(self._places), {**self.roots}, {**self._adopted})

    def branch(self) -> "Tree":
        """Return a tree for `set`, which shares with this one all values that are not changed."""
        return Tree(self.data, dict(self._places), {**self.roots}, {**self._adopted})

    def set(self, change: Change) -> None:
        """Carry out a change; the tables and lists around the value are replaced by copies.

        Raises
        ------
        ScenarioError
            when the path leads nowhere, or the value there is no number to be scaled.
        """
        path, here, scale = change.path, change.place, isinstance(change.value, Scale)
        owner, key = self._owner(path, here, create=not scale)
        old = owner[key] if not isinstance(owner, dict) or key in owner else None
        if old is None and scale:
            raise ScenarioError(
                f"{here}: {dotted(path)}: no value here to scale{nearest(str(key), owner)}"
            )
        if is_fact(old):
            owner[key] = {"value": _changed(old["value"], change), "assumed": str(here)}
        else:
            owner[key] = _changed(old, change)
        if isinstance(old, dict | list):
            self._forget(path)
        self._places[path] = here

    def _forget(self, path: Key) -> None:
        """Forget the places of all values at and below `path`."""
        self._write_out([each for each in self._adopted if path[: len(each)] == each])
        for inside in [each for each in self._adopted if each[: len(path)] == path]:
            del self._adopted[inside]
        for inside in [each for each in self._places if each[: len(path)] == path]:
            del self._places[inside]

    def _owner(self, path: Key, here: Place, *, create: bool) -> tuple[Any, Any]:
        """Return the mapping or list that holds the last part of `path`, made if need be."""
        self.data = {**self.data}
        owner: Any = self.data
        for depth, part in enumerate(path):
            last = depth == len(path) - 1
            if isinstance(owner, list):
                if not isinstance(part, int) or not 0 <= part < len(owner):
                    raise ScenarioError(
                        f"{here}: {dotted(path[:depth])} has entries 0 to {len(owner) - 1}"
                    )
            elif not isinstance(owner, dict):
                raise ScenarioError(f"{here}: {dotted(path[:depth])} has no parts")
            elif part not in owner and not last and not create:
                hint = nearest(str(part), owner)
                raise ScenarioError(f"{here}: {dotted(path[: depth + 1])}: unknown key{hint}")
            elif owner.get(part) is None and not last:
                owner[part] = {}  # the check reports a key that does not exist
                self._places[path[: depth + 1]] = here
            if last:
                return owner, part
            if isinstance(owner[part], dict | list):
                owner[part] = owner[part].copy()
            owner = owner[part]
        raise AssertionError("a path has at least one part")


def over(below: Document, above: Document, own: Collection[str] = ()) -> Document:
    """Return a document merged with another one: its facts win one by one, tables are joined.

    Parameters
    ----------
    own : keys that are not merged
    """
    tree = Tree.of(above)
    taken = {key: value for key, value in below.mapping().items() if key not in own}
    data = tree._merged(taken, tree.data, (), below.places, ())
    return Document(above.file, data, tree.places)


def _changed(present: Any, change: Change) -> Any:
    if isinstance(change.value, Scale):
        return scaled(present, change.value, change.place)
    return plain_copy(change.value)
