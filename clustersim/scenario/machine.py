"""A cluster outside of a scenario: its file with changes, and the nodes in use."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clustersim.catalog.changes import Settings, changes_of
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Strict
from clustersim.catalog.reading import Place
from clustersim.catalog.records.machines import ClusterRecord
from clustersim.catalog.tree import Tree
from clustersim.scenario.references import resolve
from clustersim.scenario.schema import ClusterUse


def load_cluster(
    given: str | Mapping[str, Any],
    nodes: int | None,
    settings: Settings = (),
    where: str = "--cluster",
) -> ClusterUse:
    """Return a cluster file with changes, and the number of nodes that are used.

    Parameters
    ----------
    given : name of a shipped cluster, or of one in the working folder; a file; or the keys and
        values of the section `cluster` of a scenario
    nodes : number of nodes in use; the whole machine without it

    Raises
    ------
    ScenarioError, CatalogError
        one line for each problem.
    """
    folder, section = _section(given)
    tree = Tree({"cluster": section}, {(): Place(where)})
    resolve(tree, folder, changes_of(settings))
    cluster = tree.data["cluster"]
    if cluster.get("nodes") is None:
        cluster["nodes"] = nodes or checked(_Machine, tree).cluster.size
    return checked(_MachineUse, tree).cluster


def _section(given: str | Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a cluster, and the section of a scenario that uses it."""
    if isinstance(given, Mapping):
        return Path(), {**given}
    file = Path(given)
    is_file = file.suffix in {".yaml", ".yml"}
    return file.parent if is_file else Path(), {"name": file.stem if is_file else given}


class _Machine(Strict):
    cluster: ClusterRecord


class _MachineUse(Strict):
    cluster: ClusterUse
