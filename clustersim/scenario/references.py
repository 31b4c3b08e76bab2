"""Names of catalogue files in a scenario, and the files that they name.

    cluster: frontier        cluster: {name: frontier, nodes: 384, node: {...}, nic: {...}, ...}

Values of the scenario win over those of the file, one by one.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clustersim.catalog import finding
from clustersim.catalog.changes import Change
from clustersim.catalog.files import named_file, read_text, shown
from clustersim.catalog.finding import look_up
from clustersim.catalog.reading import Document, Key, dotted
from clustersim.catalog.tree import Tree, bare, value_at
from clustersim.errors import CatalogError
from clustersim.scenario.anchors import apply_anchor

REFERENCES: Final[dict[Key, str]] = {
    ("cluster",): "cluster",
    ("cluster", "node"): "node",
    ("cluster", "node", "accelerator"): "accelerator",
    ("cluster", "node", "library"): "library",
    ("model",): "model",
    ("framework",): "framework",
    ("engine",): "engine",
    ("speculation", "draft"): "model",
    ("training", "failures"): "reliability",
}
"""Keys of a scenario that hold the name of a catalogue file, outer before inner, and its kind."""

WORDS: Final = {"precision": "weights"}
"""Keys of a service whose word is short for a table: ``precision: fp8``, ``{weights: fp8}``."""


def references_in(kind: str) -> dict[Key, str]:
    """Return the same for the keys of a catalogue file.

    >>> references_in("node")
    {('accelerator',): 'accelerator', ('library',): 'library'}
    """
    outer = next((path for path, named in REFERENCES.items() if named == kind), None)
    if outer is None:
        return {}
    depth = len(outer)
    return {
        path[depth:]: named
        for path, named in REFERENCES.items()
        if path[:depth] == outer and path != outer
    }


def is_reference(change: Change) -> bool:
    """Whether a change names another file: ``cluster=frontier``, ``model.name=gpt-22b``."""
    return _named(change) in REFERENCES


def may_name_files(change: Change) -> bool:
    """Whether a change names another file, or may do so inside of its value.

    The number of devices of a node chooses among the NICs of the file of the node.

    >>> from clustersim.catalog.changes import changes_of
    >>> [change] = changes_of(["speculation={tokens: 3, draft: llama3-8b}"])
    >>> may_name_files(change)
    True
    """
    within = any(change.path == path[: len(change.path)] for path in REFERENCES)
    return within or is_reference(change) or _is_anchor(change) or change.path == _DEVICES


def _is_anchor(change: Change) -> bool:
    """Whether a change names an anchor."""
    return change.path == ("anchor",)


def _rename(tree: Tree, change: Change) -> None:
    """Carry out a change that names another catalogue file, or none, before the names are read."""
    path = _named(change)
    for length in range(1, len(path) + 1):
        _expand(tree, path[:length])
    if change.value is not None and not isinstance(change.value, dict):
        change = Change((*path, "name"), change.value, change.text)
    tree.set(change)


def resolve(
    tree: Tree,
    folder: Path | None,
    changes: Sequence[Change] = (),
    references: Mapping[Key, str] = REFERENCES,
) -> None:
    """Look up the names in a tree and carry out changes: of names before, of values after.

    The factors of an anchor multiply the values of the catalogue, before changes of values.

    Parameters
    ----------
    folder : where a file of that name wins over a shipped one
    references : the keys that hold names, each with the kind of file
    """
    for change in filter(is_reference, changes):
        _rename(tree, change)
    for change in filter(_is_anchor, changes):
        tree.set(change)
    _look_up_all(tree, (), folder, references)
    apply_anchor(tree, folder)
    for change in changes:
        if not is_reference(change) and not _is_anchor(change):
            carry_out(change, tree)
            _look_up_all(tree, change.path, folder, references)  # the new value may hold names
    _look_up_all(tree, ("training",), folder, references)  # of a run that a change states
    _leave_out_nics(tree)


def _leave_out_nics(tree: Tree) -> None:
    """Leave out the NICs of devices that a job does not use: ``node: {devices: 64}`` of 72.

    Only where a scenario or a change states fewer devices, and no NICs, than the file of the node.
    """
    count, ends = bare(value_at(tree.data, _DEVICES)), bare(value_at(tree.data, _NICS))
    file = tree.roots.get(_DEVICES[:-1])
    places = [tree.place_of((*key, "value")) or tree.place_of(key) for key in (_DEVICES, _NICS)]
    own = [place is not None and file is not None and place.file == file.file for place in places]
    if own != [False, True] or not isinstance(count, int) or not isinstance(ends, list):
        return
    used = [end for end in ends if not isinstance(end, int) or end < count]
    if used and used != ends:
        origin = f"{places[0]}: {dotted(_DEVICES)}"
        tree.set(Change(_NICS, used, f"{dotted(_NICS)}={used}", origin))


_DEVICES: Final = ("cluster", "node", "devices")

_NICS: Final = ("cluster", "node", "nics", "devices")


def carry_out(change: Change, tree: Tree) -> None:
    """Carry out a change; the word of which it changes a part becomes a table first."""
    first, *parts = change.path
    word = tree.data.get(str(first))
    if parts and first in WORDS and "load" in tree.data and isinstance(word, str):
        tree.set(Change((first,), {WORDS[first]: word}, change.text))
    tree.set(change)


def _look_up_all(
    tree: Tree, below: Key, folder: Path | None, references: Mapping[Key, str]
) -> None:
    """Look up the names at and below a path."""
    for path, kind in references.items():
        if path[: len(below)] == below:
            if kind == "reliability":
                _name_failures(tree)
            look_up(tree, path, kind, folder, _find)


def _name_failures(tree: Tree) -> None:
    """Give a training run without the key `failures` those of its cluster, if that names any.

    The word `none` is the same as null.
    """
    training, cluster = tree.data.get("training"), tree.data.get("cluster")
    if not isinstance(training, dict):
        return
    if "failures" not in training and isinstance(cluster, dict):
        named = cluster.get("reliability")
        name = named.get("value") if isinstance(named, dict) else named
        if isinstance(name, str):
            training["failures"] = name
            tree.places["training", "failures"] = tree.place(("cluster", "reliability"))
    if training.get("failures") in ("none", {"name": "none"}):
        training["failures"] = None


def _find(kind: str, name: str, folder: Path | None, where: str) -> Document:
    """Return the file of a name; of a model also that of a Hugging Face configuration."""
    if kind != "model" or not name.endswith(".json"):
        return finding.find(kind, name, folder, where)
    from clustersim.importers.models import import_config  # few scenarios need it

    path = named_file(name, folder)
    text = read_text(path, CatalogError, where=where)
    parent = re.sub(r"[^a-z0-9.-]+", "-", path.resolve().parent.name.lower()).strip("-.")
    stem = path.stem if path.stem != "config" else parent
    return Document(shown(path), import_config(shown(path), text, stem).data, {})


def _named(change: Change) -> Key:
    return change.path[:-1] if change.path[-1] == "name" else change.path


def _expand(tree: Tree, path: Key) -> None:
    """Turn ``model: gpt-22b`` into ``model: {name: gpt-22b}``, so that its keys can be set."""
    owner = value_at(tree.data, path[:-1])
    if isinstance(owner, dict) and isinstance(owner.get(path[-1]), str):
        owner[path[-1]] = {"name": owner[path[-1]]}
        tree.places[(*path, "name")] = tree.place(path)
