"""An anchor: factors on the catalogue's values, from logs of one's own machine.

    anchor: mine.anchor.yaml     in a scenario multiplies the values that the file names

`clustersim check --anchor` writes the file.  Its factors are of one model with one framework on one
accelerator, and no other scenario may use them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from clustersim.catalog.changes import Change, Scale, key_path
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Count, Line, NotNegative, Positive, Strict, facts
from clustersim.catalog.files import is_file, read_text, shown
from clustersim.catalog.machines import DeviceLinks, DeviceSwitch
from clustersim.catalog.reading import Key, parse_yaml
from clustersim.catalog.tree import Tree, value_at
from clustersim.errors import CatalogError, ScenarioError

if TYPE_CHECKING:
    from clustersim.scenario.schema import Scenario

ACCELERATOR: Final = "cluster.node.accelerator."

OF_ACCELERATOR: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "products": (
        ("gemm.sustained", "gemm.best"),
        ("gemm.narrow_sustained", "gemm.narrow_best"),
    ),
    "attention": (
        ("flash_attention.forward",),
        ("flash_attention.backward",),
        ("flash_attention.cudnn.forward",),
        ("flash_attention.cudnn.backward",),
    ),
    "memory": (("memory.achieved",),),
}
"""Facts of an accelerator by factor; of alternatives the first that it has.  All are shares."""


class AnchorFactor(Strict):
    """A factor: what it multiplies, and the standard deviation of its logarithm."""

    name: Line
    value: Positive
    spread: NotNegative
    paths: list[Line]


class AnchoredLog(Strict):
    """A log that the factors are from, next to the prediction with all factors 1."""

    log: Line
    scenario: Line
    nodes: Count
    steps: Count
    normal: bool
    step_time_s: Positive
    predicted_s: Positive
    error: NotNegative
    slopes: dict[str, float]
    layout: dict[str, int | str]
    shares: dict[str, float]


class AnchorFile(Strict):
    """A file of factors; `version` is that of the clustersim that wrote it."""

    kind: Literal["anchor"]
    version: Line
    accelerator: Line
    framework: Line
    model: Line
    factors: list[AnchorFactor]
    logs: list[AnchoredLog]


OWNERS: Final[Mapping[str, Key]] = {
    "accelerator": ("cluster", "node", "accelerator", "name"),
    "framework": ("framework", "name"),
    "model": ("model", "name"),
}
"""The records that an anchor belongs to, with the places of their names in a scenario."""


def factor_paths(scenario: "Scenario") -> dict[str, list[str]]:
    """Return the values that each factor of a scenario multiplies."""
    cluster, stated = scenario.cluster, dict(facts(scenario.cluster.node.accelerator))
    found = {
        name: [
            ACCELERATOR + path
            for choice in choices
            for path in [p for p in choice if p in stated and stated[p].value][:1]
        ]
        for name, choices in OF_ACCELERATOR.items()
    }
    found["host"] = ["framework.dispatch"] if scenario.framework.dispatch else []
    inside = cluster.node.interconnect
    place = "cluster.node.interconnect"
    if isinstance(inside, DeviceSwitch):
        found["links"] = [f"{place}.bandwidth"]
    if isinstance(inside, DeviceLinks):
        found["links"] = [f"{place}.kinds.{kind}.bandwidth" for kind in inside.kinds]
    found["network"] = ["cluster.nic.bandwidth"] if cluster.nodes > 1 else []
    return {name: paths for name, paths in found.items() if paths}


def highest(scenario: "Scenario", paths: list[str]) -> float:
    """Return the largest factor with which the shares of some paths stay at most 1."""
    stated = dict(facts(scenario.cluster.node.accelerator))
    shares = [stated[path.removeprefix(ACCELERATOR)].value for path in paths if ACCELERATOR in path]
    return min((1 / share for share in shares), default=float("inf"))


def apply_anchor(tree: Tree, folder: Path | None) -> None:
    """Multiply the values of a tree by the factors of the anchor that it names, if any.

    Parameters
    ----------
    folder : where a file of that name is looked for before the working folder

    Raises
    ------
    ScenarioError, CatalogError
        when the file is missing or wrong, or of another model, framework or accelerator.
    """
    name = tree.data.get("anchor")
    if name is None:
        return
    where = f"{tree.place(('anchor',))}: anchor: "
    if not isinstance(name, str):
        raise ScenarioError(f"{where}needs the name of a file, written by check --anchor")
    if "load" in tree.data:
        raise ScenarioError(f"{where}is of training, and this is a service (remove the key)")
    path = Path(name).expanduser()
    path = folder / path if folder is not None and is_file(folder / path) else path
    document = parse_yaml(read_text(path, CatalogError, where=where), shown(path), CatalogError)
    anchor = checked(AnchorFile, Tree.of(document), CatalogError)
    _check_owners(anchor, tree, where, shown(path))
    for change in _changes(anchor, shown(path)):
        tree.set(change)
    tree.data["anchor"] = {}
    tree.graft(("anchor",), document)


def _check_owners(anchor: AnchorFile, tree: Tree, where: str, file: str) -> None:
    for kind, place in OWNERS.items():
        own, other = getattr(anchor, kind), value_at(tree.data, place)
        if own != other:
            raise ScenarioError(
                f"{where}{file} is of the {kind} '{own}', and the scenario has '{other}'"
                " (remove the key, or anchor a log of this job)"
            )


def _changes(anchor: AnchorFile, file: str) -> Iterator[Change]:
    for factor in anchor.factors:
        for path in factor.paths:
            if factor.value != 1:
                text = f"{path}=x{factor.value:g}"
                yield Change(key_path(path), Scale(factor.value), text, f"anchor {file}")


def layout_of(scenario: "Scenario") -> dict[str, Any]:
    """Return what distinguishes the replicas of jobs of one model."""
    plan, recompute = scenario.plan, scenario.recompute
    return {
        **{axis: getattr(plan, axis) for axis in ("tensor", "pipeline", "context", "expert")},
        "sequence": scenario.batch.sequence,
        "precision": scenario.precision,
        "recompute": recompute if isinstance(recompute, str) else recompute.mode,
    }
