"""Names of catalogue files in a scenario, and the files that they name.

    cluster: frontier        cluster: {name: frontier, nodes: 384, node: {...}, nic: {...}, ...}

Values of the scenario win over those of the file, one by one.
"""

import re
from pathlib import Path
from typing import Any, Final

from clustersim.catalog import finding
from clustersim.catalog.accelerators import kernel_fits_in
from clustersim.catalog.changes import Change
from clustersim.catalog.files import is_file, read_text, shown
from clustersim.catalog.reading import Document, Key
from clustersim.catalog.tree import Tree, dotted
from clustersim.errors import CatalogError, ScenarioError

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


def rename(tree: Tree, change: Change) -> None:
    """Carry out a change that names another catalogue file, or none, before the names are read."""
    path = _named(change)
    for length in range(1, len(path) + 1):
        _expand(tree, path[:length])
    if change.value is not None and not isinstance(change.value, dict):
        change = Change((*path, "name"), change.value, change.text)
    tree.set(change)


def look_up(tree: Tree, path: Key, kind: str, folder: Path | None) -> None:
    """Replace the name at `path` by the catalogue file, under the values that are there already.

    Parameters
    ----------
    folder : where a file of that name wins over a shipped one

    Raises
    ------
    ScenarioError, CatalogError
        when there is no name, or no file of that name.
    """
    owner = _value(tree.data, path[:-1])
    if not isinstance(owner, dict) or owner.get(path[-1]) is None:
        return  # the check of the schema reports that it is missing
    given = owner[path[-1]]
    given = {"name": given} if isinstance(given, str) else given
    if isinstance(given, dict) and "kind" in given:
        return  # a whole record instead of a name
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise ScenarioError(
            f"{tree.place(path)}: {dotted(path)}: needs the name of {_article(kind)} {kind}"
            f" (known: {', '.join(finding.entry_names(kind))})"
        )
    place = tree.place((*path, "name"))
    if kind == "model" and given["name"].endswith(".json"):
        owner[path[-1]] = {key: value for key, value in given.items() if key != "name"}
        tree.graft(path, _imported(given["name"], folder, f"{place}: {dotted(path)}: "))
        return
    document = finding.find(kind, given["name"], folder, f"{place}: {dotted(path)}: ")
    owner[path[-1]] = given
    tree.graft(path, document)
    if kind == "accelerator" and folder is not None:
        _add_fits(owner[path[-1]], folder)


def name_failures(tree: Tree, folder: Path | None) -> None:
    """Give a training run without the key `failures` those of its cluster, if that names any."""
    training, named = tree.data.get("training"), _value(tree.data, ("cluster", "reliability"))
    if not isinstance(training, dict) or "failures" in training or named is None:
        return
    name = named.get("value") if isinstance(named, dict) else named
    if isinstance(name, str):
        training["failures"] = name
        tree.places[("training", "failures")] = tree.place(("cluster", "reliability"))
        look_up(tree, ("training", "failures"), "reliability", folder)


def _add_fits(accelerator: dict[str, Any], folder: Path) -> None:
    """Add the fits of measured kernels that the folder of a scenario has."""
    like = accelerator.get("kernels_like")
    names = [accelerator["name"], *([like["value"]] if isinstance(like, dict) else [])]
    found = {name: fits for name in names if (fits := kernel_fits_in(folder, name)) is not None}
    if found:
        own = {name: fits.model_dump()["kernels"] for name, fits in found.items()}
        accelerator["fits"] = {**own, **accelerator.get("fits", {})}


def _imported(file: str, folder: Path | None, where: str) -> Document:
    """Return the model file of a Hugging Face configuration, beginning in the scenario's folder."""
    from clustersim.importers.models import import_config  # few scenarios need it

    path = Path(file).expanduser()
    if folder is not None and is_file(folder / path):
        path = folder / path
    text = read_text(path, CatalogError, where=where)
    name = re.sub(r"[^a-z0-9.-]+", "-", path.resolve().parent.name.lower()).strip("-.")
    stem = path.stem if path.stem != "config" else name
    return Document(shown(path), import_config(shown(path), text, stem).draft.data, {})


def _article(kind: str) -> str:
    return "an" if kind[0] in "aeiou" else "a"


def _named(change: Change) -> Key:
    return change.path[:-1] if change.path[-1] == "name" else change.path


def _expand(tree: Tree, path: Key) -> None:
    """Turn ``model: gpt-22b`` into ``model: {name: gpt-22b}``, so that its keys can be set."""
    owner = _value(tree.data, path[:-1])
    if isinstance(owner, dict) and isinstance(owner.get(path[-1]), str):
        owner[path[-1]] = {"name": owner[path[-1]]}
        tree.places[(*path, "name")] = tree.place(path)


def _value(data: Any, path: Key) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data
