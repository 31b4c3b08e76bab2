"""From a scenario file to a checked `Scenario`: names are looked up, options laid on top."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clustersim.catalog import finding
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Strict
from clustersim.catalog.reading import Key, Place, read_yaml
from clustersim.catalog.records import ClusterRecord
from clustersim.catalog.tree import Tree, dotted, nearest
from clustersim.errors import ScenarioError
from clustersim.scenario.schema import ClusterUse, Scenario

_REFERENCES: Final[tuple[tuple[Key, str], ...]] = (
    (("cluster",), "cluster"),
    (("cluster", "node"), "node"),
    (("cluster", "node", "accelerator"), "accelerator"),
    (("cluster", "node", "library"), "library"),
    (("model",), "model"),
    (("framework",), "framework"),
)
"""Keys that hold a name of the catalogue, outer before inner."""


@dataclass(frozen=True)
class Loaded:
    """A scenario with the places of its values.

    Attributes
    ----------
    name : the file's stem, which names the run's folder
    scenario : the checked scenario
    tree : the plain values behind it, each with its place
    """

    name: str
    scenario: Scenario
    tree: Tree

    def place(self, *path: str | int) -> Place:
        """Return the place of the value at `path`."""
        return self.tree.place(path)

    def where(self, *path: str | int) -> str:
        """Return ``file:line: key`` of the value at `path`, to begin a complaint with."""
        return f"{self.place(*path)}: {dotted(path)}"


def load(path: str | Path, settings: Sequence[str] = ()) -> Loaded:
    """Read a scenario file, or a shipped scenario by its bare name.

    Parameters
    ----------
    settings : changes of the form ``dotted.path=value`` (also ``=x2`` and ``=/2``)

    Raises
    ------
    ScenarioError, CatalogError
        one line for each problem, with file, line and key.
    """
    file = _file(Path(path))
    return resolve(file.stem, Tree.of(read_yaml(file)), file.parent, settings)


def name_of(path: str | Path) -> str:
    """Return the name that the scenario of a file has, or the shipped one of that name.

    >>> name_of("folder/mine.yaml"), name_of("frontier-1t")
    ('mine', 'frontier-1t')
    """
    return _file(Path(path)).stem


def from_mapping(name: str, data: Mapping[str, Any], settings: Sequence[str] = ()) -> Loaded:
    """Return a scenario from plain values, as `load` does from a file."""
    return resolve(name, Tree(dict(data), {(): Place(name)}), None, settings)


def load_cluster(
    name: str, nodes: int | None, settings: Sequence[str] = (), where: str = "--cluster"
) -> ClusterUse:
    """Return a cluster file with settings laid on top, and the number of nodes that are used.

    Parameters
    ----------
    name : of a shipped cluster, or of one in the working folder; or a file
    nodes : that are used; all of the machine where it is left out

    Raises
    ------
    ScenarioError, CatalogError
        one line for each problem.
    """
    file = Path(name)
    is_file = file.suffix in {".yaml", ".yml"}
    tree = Tree({"cluster": {"name": file.stem if is_file else name}}, {(): Place(where)})
    _name_and_set(tree, file.parent if is_file else Path(), settings)
    cluster = tree.data["cluster"]
    if cluster.get("nodes") is None:
        cluster["nodes"] = nodes or checked(_Machine, tree).cluster.size.value
    return checked(_MachineUse, tree).cluster


def resolve(name: str, tree: Tree, beside: Path | None, settings: Sequence[str]) -> Loaded:
    """Look up the names in a scenario, apply the settings and check the whole."""
    named = tree.place(("cluster",))
    _name_and_set(tree, beside, settings)
    _check_extends(tree)
    cluster = tree.data.get("cluster")
    if isinstance(cluster, dict) and cluster.get("nodes") is None:
        raise ScenarioError(
            f"{named}: cluster.nodes: missing (how many nodes of '{cluster.get('name')}' are used)"
        )
    return Loaded(name, checked(Scenario, tree), tree)


def _name_and_set(tree: Tree, beside: Path | None, settings: Sequence[str]) -> None:
    """Look up the names in plain values and apply the settings."""
    late = [_early(tree, setting) for setting in settings]
    for path, kind in _REFERENCES:
        _look_up(tree, path, kind, beside)
    for setting in late:
        if setting is not None:
            tree.set(setting)


def _check_extends(tree: Tree) -> None:
    """Refuse `extends` where nothing reads it: it is for files, and a scenario changes values."""
    framework, path = tree.data.get("framework"), ("framework", "extends")
    if not isinstance(framework, dict) or framework.get("extends") is None:
        return
    root, said = tree.roots.get(path[:1]), tree.places.get(path)
    if root is None or said is None or said.file != root.file:
        raise ScenarioError(
            f"{said or tree.place(())}: framework.extends: only a file of its own extends another"
            " (name that one, and say beside the name what differs)"
        )


class _Machine(Strict):
    cluster: ClusterRecord


class _MachineUse(Strict):
    cluster: ClusterUse


def _file(path: Path) -> Path:
    if path.is_file() or path.suffix in {".yaml", ".yml"} or len(path.parts) > 1:
        return path
    shipped = finding.shipped("scenario") / f"{path.name}.yaml"
    if not shipped.is_file():
        hint = nearest(path.name, finding.names("scenario"))
        raise ScenarioError(f"{path}: no such file, and no shipped scenario of that name{hint}")
    return shipped


def _early(tree: Tree, setting: str) -> str | None:
    """Apply a setting that names another catalogue file at once; return the others for later."""
    name, _, value = setting.partition("=")
    references = {dotted(path): path for path, _ in _REFERENCES}
    path = references.get(name.removesuffix(".name"))
    if path is None:
        return setting
    for length in range(1, len(path) + 1):
        _spell_out(tree, path[:length])
    if "{" in value:
        tree.set(setting)
    else:
        tree.set(f"{dotted(path)}.name={value}")
        tree.places[(*path, "name")] = Place(f"--set {setting}")
    return None


def _spell_out(tree: Tree, path: Key) -> None:
    """Turn ``model: gpt-22b`` into ``model: {name: gpt-22b}``, so that parts of it can be set."""
    owner = _get(tree.data, path[:-1])
    if isinstance(owner, dict) and isinstance(owner.get(path[-1]), str):
        owner[path[-1]] = {"name": owner[path[-1]]}
        tree.places[(*path, "name")] = tree.place(path)


def _get(data: Any, path: Key) -> Any:
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _look_up(tree: Tree, path: Key, kind: str, beside: Path | None) -> None:
    """Replace the name at `path` by the catalogue's record, under what the scenario says."""
    owner = _get(tree.data, path[:-1])
    if not isinstance(owner, dict) or owner.get(path[-1]) is None:
        return  # left to the check, which knows that it is missing
    given = owner[path[-1]]
    given = {"name": given} if isinstance(given, str) else given
    if isinstance(given, dict) and "kind" in given:
        return  # written out in full
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise ScenarioError(
            f"{tree.place(path)}: {dotted(path)}: needs the name of a {kind}"
            f" (known: {', '.join(finding.names(kind))})"
        )
    place = tree.place((*path, "name"))
    document = finding.find(kind, given["name"], beside, f"{place}: {dotted(path)}: ")
    owner[path[-1]] = given
    tree.graft(path, document)


__all__ = ["Loaded", "from_mapping", "load", "load_cluster", "name_of", "resolve"]
