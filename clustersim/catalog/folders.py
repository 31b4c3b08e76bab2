"""The folders of the catalogue, and the names of the files in them; no file is read.

    topologies/accelerators/*.yaml   topologies/nodes/*.yaml   topologies/clusters/*.yaml
    topologies/kernels/*.yaml        topologies/libraries/*.yaml
    topologies/prices/*.yaml         topologies/sites/*.yaml
    topologies/reliability/*.yaml
    workloads/models/*.yaml          workloads/frameworks/*.yaml      workloads/engines/*.yaml
    scenarios/*.yaml                 validation/*.yaml

In a checkout the folders are next to the package; in an installed wheel, inside it.
"""

from functools import cache
from pathlib import Path
from typing import Final

FOLDERS: Final = {
    "accelerator": "topologies/accelerators",
    "kernels": "topologies/kernels",
    "node": "topologies/nodes",
    "cluster": "topologies/clusters",
    "library": "topologies/libraries",
    "prices": "topologies/prices",
    "site": "topologies/sites",
    "model": "workloads/models",
    "framework": "workloads/frameworks",
    "engine": "workloads/engines",
    "reliability": "topologies/reliability",
    "scenario": "scenarios",
    "validation": "validation",
}
"""The folder of each kind of catalogue file."""

_PACKAGE: Final = Path(__file__).resolve().parents[1]


@cache
def shipped(kind: str) -> Path:
    """Return the folder of the shipped files of `kind`."""
    checkout = _PACKAGE.parent / FOLDERS[kind]
    inside = _PACKAGE / "data" / FOLDERS[kind]
    return inside if inside.is_dir() else checkout


def entry_names(kind: str) -> list[str]:
    """Return the names of all shipped files of `kind`, sorted."""
    return sorted(path.stem for path in shipped(kind).glob("*.yaml"))
