"""Where catalogue files lie: beside the scenario first, then among those that are shipped.

    topologies/accelerators/*.yaml   topologies/nodes/*.yaml   topologies/clusters/*.yaml
    topologies/libraries/*.yaml      workloads/models/*.yaml   workloads/frameworks/*.yaml
    scenarios/*.yaml                 validation/*.yaml

In a checkout the folders stand beside the package; in an installed wheel, inside it.
"""

from pathlib import Path
from typing import Final

from clustersim.catalog.reading import Document, read_yaml
from clustersim.catalog.tree import nearest
from clustersim.errors import CatalogError

FOLDERS: Final = {
    "accelerator": "topologies/accelerators",
    "node": "topologies/nodes",
    "cluster": "topologies/clusters",
    "library": "topologies/libraries",
    "model": "workloads/models",
    "framework": "workloads/frameworks",
    "scenario": "scenarios",
    "validation": "validation",
}
"""The folder of each kind of catalogue file."""

_PACKAGE: Final = Path(__file__).resolve().parents[1]


def shipped(kind: str) -> Path:
    """Return the folder of the shipped files of `kind`."""
    beside = _PACKAGE.parent / FOLDERS[kind]
    inside = _PACKAGE / "data" / FOLDERS[kind]
    return inside if inside.is_dir() else beside


def names(kind: str) -> list[str]:
    """Return the names of all shipped files of `kind`, sorted."""
    return sorted(path.stem for path in shipped(kind).glob("*.yaml"))


def find(kind: str, name: str, beside: Path | None = None, where: str = "") -> Document:
    """Return the catalogue file of that kind and name.

    A file ``<name>.yaml`` in the folder `beside` wins over a shipped one when its first words say
    that it is of this kind (``kind: cluster``).

    Raises
    ------
    CatalogError
        when no file carries the name; `where` is put before the message.
    """
    if beside is not None and (path := beside / f"{name}.yaml").is_file():
        document = read_yaml(path, CatalogError)
        if isinstance(document.data, dict) and document.data.get("kind") == kind:
            return document
    path = shipped(kind) / f"{name}.yaml"
    if "/" in name or "\\" in name or not path.is_file():
        known = names(kind)
        hint = nearest(name, known) or f" (known: {', '.join(known)})"
        raise CatalogError(f"{where}no {kind} named '{name}'{hint}")
    return read_yaml(path, CatalogError)
