"""A cluster outside of a scenario: its file with changes, and the nodes in use."""

from pathlib import Path

from clustersim.catalog.changes import Settings, changes_of
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Strict
from clustersim.catalog.reading import Place
from clustersim.catalog.records.machines import ClusterRecord
from clustersim.catalog.tree import Tree
from clustersim.scenario.references import resolve
from clustersim.scenario.schema import ClusterUse


def load_cluster(
    name: str, nodes: int | None, settings: Settings = (), where: str = "--cluster"
) -> ClusterUse:
    """Return a cluster file with changes, and the number of nodes that are used.

    Parameters
    ----------
    name : of a shipped cluster, or of one in the working folder; or a file
    nodes : number of nodes in use; the whole machine without it

    Raises
    ------
    ScenarioError, CatalogError
        one line for each problem.
    """
    file = Path(name)
    is_file = file.suffix in {".yaml", ".yml"}
    tree = Tree({"cluster": {"name": file.stem if is_file else name}}, {(): Place(where)})
    resolve(tree, file.parent if is_file else Path(), changes_of(settings))
    cluster = tree.data["cluster"]
    if cluster.get("nodes") is None:
        cluster["nodes"] = nodes or checked(_Machine, tree).cluster.size
    return checked(_MachineUse, tree).cluster


class _Machine(Strict):
    cluster: ClusterRecord


class _MachineUse(Strict):
    cluster: ClusterUse
