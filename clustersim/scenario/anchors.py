"""An anchor: factors on the catalogue's values, from logs of one's own machine.

    anchor: mine.anchor.yaml     in a scenario multiplies the values that the file names

`clustersim check --anchor` writes the file.  Its factors are of one model with one framework on one
accelerator, and no other scenario may use them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from clustersim.catalog.changes import Change, Scale, key_path
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Count, Line, NotNegative, Positive, Strict
from clustersim.catalog.files import named_file
from clustersim.catalog.reading import Key, read_yaml
from clustersim.catalog.tree import Tree, value_at
from clustersim.errors import CatalogError, ScenarioError


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
    if name is None or "load" in tree.data:  # the check reports the key of a service as unknown
        return
    where = f"{tree.place(('anchor',))}: anchor: "
    if not isinstance(name, str):
        raise ScenarioError(f"{where}needs the name of a file, written by check --anchor")
    document = read_yaml(named_file(name, folder), CatalogError, where=where)
    anchor = checked(AnchorFile, Tree.of(document), CatalogError)
    changes = _changes(anchor, document.file)
    _check_owners(anchor, tree, where, document.file)
    for change in changes:
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
