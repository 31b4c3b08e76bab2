"""Finds catalogue files: in the folder of the scenario first, then among the shipped ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.files import is_file, shown
from clustersim.catalog.folders import FOLDERS as FOLDERS
from clustersim.catalog.folders import entry_names as entry_names
from clustersim.catalog.folders import shipped as shipped
from clustersim.catalog.reading import Document, Key, Place, read_yaml
from clustersim.catalog.tree import Tree, bare, dotted, over, value_at
from clustersim.errors import CatalogError, ScenarioError
from clustersim.escaping import escaped
from clustersim.suggestions import nearest

EXTENDED: Final = frozenset({"framework", "engine"})
"""Kinds whose files may extend another one: ``extends: megatron-core``."""


def find(kind: str, name: str, folder: Path | None = None, where: str = "") -> Document:
    """Return the catalogue file of that kind and name.

    A file ``<name>.yaml`` in `folder` wins over a shipped one if it is of this kind
    (``kind: cluster``).

    Raises
    ------
    CatalogError
        when there is no such file; the message begins with `where`.
    """
    document = _written(kind, name, folder, where)
    return extended(document, kind, folder)


OTHERS: Final = {
    "framework": {"engine": "an engine of services, for the key engine of clustersim serve"},
    "engine": {"framework": "a framework of training, for the key framework of clustersim run"},
}
"""Software of the other kind of scenario, which is given as that of this one."""


def find_in(folder: Path, kind: str, name: str) -> Document | None:
    """Return the file of that name in a folder as it is written; None if it is of another kind."""
    if not is_file(path := folder / f"{name}.yaml"):
        return None
    document = read_yaml(path, CatalogError)
    of_kind = isinstance(document.data, dict) and document.data.get("kind") == kind
    return document if of_kind else None


def _written(kind: str, name: str, folder: Path | None, where: str) -> Document:
    """Return the file of that kind and name as it is written."""
    own = None if folder is None else find_in(folder, kind, name)
    if own is not None:
        return own
    path = shipped(kind) / f"{name}.yaml"
    if "/" in name or "\\" in name or not is_file(path):
        raise CatalogError(f"{where}no {kind} named '{escaped(name)}'{_looked(kind, name, folder)}")
    return read_yaml(path, CatalogError)


def _looked(kind: str, name: str, folder: Path | None) -> str:
    """Return where a file was looked for, and the names that are known or similar."""
    known = entry_names(kind)
    if other := next((each for each in OTHERS.get(kind, {}) if name in entry_names(each)), None):
        return f" ({name} is {OTHERS[kind][other]}; names: clustersim list {kind}s)"
    if folder is None:
        return nearest(name, known) or f" (known: {', '.join(known)})"
    if is_file(file := folder / f"{name}.yaml"):
        return f" ({escaped(shown(file))} lacks the line kind: {kind})"
    own = [path.stem for path in sorted(folder.glob("*.yaml")) if nearest(name, [path.stem])]
    hint = nearest(name, [*(stem for stem in own if _is_of(folder, kind, stem)), *known])
    where = "working folder" if folder == Path() else "folder of the scenario"
    return hint or f" (known: {', '.join(known)}; no {escaped(name)}.yaml in the {where})"


def _is_of(folder: Path, kind: str, name: str) -> bool:
    """Whether a file is of a kind; not one that cannot be read."""
    try:
        return find_in(folder, kind, name) is not None
    except CatalogError:
        return False


def extended(document: Document, kind: str, folder: Path | None = None) -> Document:
    """Return a file merged with the one that it extends, which may extend another in turn.

    Its values win one by one; sources are those of all of them.  Name and title are its own.  A
    file in the folder of the scenario that extends its own name extends the shipped one.

    Raises
    ------
    CatalogError
        when the extended file does not exist, or leads back to it.
    """
    chain = [document]
    while (extends := _extends(chain[-1], kind)) is not None:
        name, place = extends
        where = f"{place}: extends: "
        base = _written(kind, name, folder, where)
        if base.file == chain[-1].file:
            base = _written(kind, name, None, where)
        files = [other.file for other in chain]
        if base.file in files:
            loop = " extends ".join([*files, base.file])
            raise CatalogError(f"{where}leads back to its own file ({loop})")
        chain.append(base)
    whole = chain.pop()
    while chain:
        whole = over(whole, chain.pop(), own=("name", "title"))
    return whole


def _extends(document: Document, kind: str) -> tuple[str, Place] | None:
    """Return the name that a file extends, and the place of that key."""
    data = document.data
    if kind not in EXTENDED or not isinstance(data, dict) or data.get("extends") is None:
        return None
    place = document.places["extends",]
    if not isinstance(data["extends"], str):
        raise CatalogError(
            f"{place}: extends: needs the name of a {kind} (known: {', '.join(entry_names(kind))})"
        )
    return data["extends"], place


Finder = Callable[[str, str, Path | None, str], Document]
"""Returns the file of a kind and name, as `find` does."""


def look_up(tree: Tree, path: Key, kind: str, folder: Path | None, find: Finder = find) -> None:
    """Replace the name at `path` by the catalogue file, under the values that are there already.

    An accelerator also has the fits of measured kernels that the folder of the scenario holds.

    Parameters
    ----------
    folder : where a file of that name wins over a shipped one

    Raises
    ------
    ScenarioError, CatalogError
        when there is no name, or no file of that name.
    """
    owner = value_at(tree.data, path[:-1])
    stated = owner.get(path[-1]) if isinstance(owner, dict) else None
    if stated is None or (isinstance(stated, dict) and "kind" in stated):
        return  # missing, which the check of the schema reports, or a whole record
    values = {"name": stated} if isinstance(stated, str) else stated
    name = values.get("name") if isinstance(values, dict) else None
    if not isinstance(name, str):
        article = "an" if kind[0] in "aeiou" else "a"
        raise ScenarioError(
            f"{tree.place(path)}: {dotted(path)}: needs the name of {article} {kind}"
            f" (known: {', '.join(entry_names(kind))})"
        )
    place, key = str(tree.place((*path, "name"))), dotted(path)
    where = place if place == f"--{key}" else f"{place}: {key}"
    document = find(kind, name, folder, f"{where}: ")
    if name.endswith(".json"):  # a file of another program, whose model has a name of its own
        values = {key: value for key, value in values.items() if key != "name"}
    owner[path[-1]] = values
    record = tree.graft(path, document)
    if kind == "accelerator" and folder is not None:
        _add_fits(tree, record, path, folder)


def _add_fits(tree: Tree, accelerator: dict[str, Any], path: Key, folder: Path) -> None:
    """Add the fits of measured kernels that the folder of a scenario has."""
    fits = accelerator.get("fits", {})
    if not isinstance(fits, dict):
        return  # the check of the record reports it
    names = accelerator.get("name"), bare(accelerator.get("kernels_like"))
    for name in (str(name) for name in names if isinstance(name, str)):
        document = find_in(folder, "kernels", name)
        if document is not None and name not in fits:
            accelerator["fits"] = fits = {**fits, name: {}}
            tree.graft((*path, "fits", name), document.part("kernels"))
