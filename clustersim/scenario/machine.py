"""A cluster outside of a scenario: its file with changes, the nodes in use, its usual software."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.changes import Settings, changes_of
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Strict
from clustersim.catalog.reading import Place
from clustersim.catalog.records.frameworks import FrameworkRecord
from clustersim.catalog.records.machines import ClusterRecord
from clustersim.catalog.tree import Tree
from clustersim.errors import ScenarioError
from clustersim.scenario.entries import entry
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
    name = cluster_name(given)
    return Path() if name == given else Path(given).parent, {"name": name}


def cluster_name(given: str) -> str:
    """Return the name of a cluster, also of a file.

    >>> cluster_name("dgx-h100"), cluster_name("mine.yaml")
    ('dgx-h100', 'mine')
    """
    file = Path(given)
    return file.stem if file.suffix in {".yaml", ".yml"} else given


FORMATS: Final = ("bf16", "fp16", "fp32")
"""Number formats of training, the usual one first."""


TRAINED_SEQUENCE: Final = 8192
"""Longest usual sequence of training [tokens]."""


def usual_framework(use: ClusterUse) -> str:
    """Return the framework that is usual on a machine.

    Raises
    ------
    ScenarioError
        in one line, where none is.
    """
    library = use.node.library
    if library.framework is None:
        raise ScenarioError(
            f"--framework: needed for {use.name}, as no framework is usual with {library.name}"
            " (names: clustersim list frameworks)"
        )
    return library.framework


def usual_precision(use: ClusterUse, formats: Sequence[str]) -> str:
    """Return the first number format that a machine has."""
    peaks = use.node.accelerator.peak
    return next((each for each in formats if each in peaks), formats[0])


def usual_sequence(longest: int) -> int:
    """Return the tokens of a sequence of training, by the longest one of a model.

    Long contexts are trained last, on few of the tokens: Llama 3 405B has sequences of 8,192
    tokens, and of up to 131,072 for 0.8 of 15.6 trillion tokens (arXiv:2407.21783, 3.4.1, 3.4.2).

    >>> usual_sequence(2048), usual_sequence(131_072)
    (2048, 8192)
    """
    return min(longest, TRAINED_SEQUENCE)


def training_formats(framework: str) -> Sequence[str]:
    """Return the number formats in which a framework keeps its states, the usual one first."""
    record = entry("framework", framework).record
    assert isinstance(record, FrameworkRecord), "an entry of that kind"
    return [each for each in FORMATS if each in record.state] or FORMATS


class _Machine(Strict):
    cluster: ClusterRecord


class _MachineUse(Strict):
    cluster: ClusterUse
