"""Scenarios of a shared machine: several jobs on the nodes of one cluster.

A scenario with the key `jobs` is one; `clustersim share` simulates it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, model_validator

from clustersim.answers import record
from clustersim.catalog.changes import Change, Settings, changes_of
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Bytes, Count, Line, Nodes, Seconds, Strict, Whole
from clustersim.catalog.libraries import OPERATIONS
from clustersim.catalog.reading import Document, Key, Place
from clustersim.catalog.tree import Tree, dotted
from clustersim.errors import ScenarioError
from clustersim.scenario.origins import INLINE, UNTITLED, Origin, origin_of
from clustersim.scenario.references import REFERENCES, resolve
from clustersim.scenario.schema import ClusterName, ClusterUse

PLACES: Final = ("contiguous", "interleaved", "scattered")
"""Words for the nodes of a job: the next free ones, in turn with other jobs, or at random."""

MOST_JOBS: Final = 64
"""Maximum number of jobs of a scenario, copies included."""


def _operation(name: str) -> str:
    if name not in OPERATIONS or name == "barrier":
        known = ", ".join(each for each in OPERATIONS if each != "barrier")
        raise ValueError(f"must be an operation with bytes, not '{name}' (allowed: {known})")
    return name


class TrafficFile(Strict):
    """Traffic of a job that is no training: one collective after another."""

    collective: Annotated[str, AfterValidator(_operation)] = Field(
        description="operation of all its devices"
    )
    bytes: Bytes
    pause: Seconds = 0.0
    nodes: Nodes = Field(description="number of nodes that take part, with all their devices")


class JobFile(Strict):
    """A job of a shared machine: a training step that is repeated, or plain traffic."""

    name: Line | None = Field(None, description="name; that of the scenario if missing")
    scenario: str | dict[str, Any] | None = Field(
        None, description="file or name of the scenario of a training step, or its keys and values"
    )
    set: dict[str, Any] = Field({}, description="changes of that scenario, by dotted key")
    traffic: TrafficFile | None = Field(None, description="plain traffic instead of a scenario")
    nodes: str = Field(
        "contiguous",
        description="nodes of the machine: contiguous, interleaved, scattered (by the seed), or"
        " numbers and ranges",
    )
    start: Seconds = 0.0
    copies: Count = Field(1, description="number of such jobs")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.scenario is None) == (self.traffic is None):
            raise ValueError("needs a scenario or traffic, and not both")
        if self.traffic is not None and self.set:
            raise ValueError("set: has no effect on traffic (change its keys)")
        if self.copies > 1 and self.nodes not in PLACES:
            raise ValueError(f"copies: {self.copies} jobs cannot have the same nodes (copies: 1)")
        return self


class SharingBase(Strict):
    """The keys of a shared machine that name no other file."""

    title: Line
    jobs: Annotated[list[JobFile], Field(min_length=1, max_length=MOST_JOBS)]
    steps: Annotated[int, Field(ge=2, le=10_000, strict=True)] = Field(
        20, description="steps of each job that are simulated at least"
    )
    seed: Whole = Field(0, description="of nodes that are scattered")


class Sharing(SharingBase):
    """A shared machine whose cluster has been replaced by the catalogue's record."""

    cluster: ClusterUse


class SharingFile(SharingBase):
    """A shared machine as it is written: the schema for editors."""

    cluster: ClusterName


@record
class LoadedSharing:
    """The scenario of a shared machine with the places of its values."""

    sharing: Sharing
    tree: Tree
    origin: Origin
    changes: tuple[Change, ...] = ()

    @property
    def name(self) -> str:
        """Stem of the scenario file, which names the folder of its files."""
        return self.origin.name

    def changed(self, settings: Settings) -> "LoadedSharing":
        """Return the shared machine with more changes, checked again."""
        return sharing_of(self.origin, (*self.changes, *changes_of(settings)))

    def part(self, *path: str | int) -> dict[Key, Place]:
        """Return the places of the values of a table in the file, by their keys in it."""
        depth = len(path)
        return {key[depth:]: at for key, at in self.tree.places.items() if key[:depth] == path}

    def where(self, *path: str | int) -> str:
        """Return ``file:line: key`` of the value at `path`, with which a message begins."""
        return f"{self.tree.place(path)}: {dotted(path)}"


def load_sharing(
    scenario: str | Path | Mapping[str, Any], settings: Settings = ()
) -> LoadedSharing:
    """Read the scenario of a shared machine: a file, a shipped name, or keys and values.

    Raises
    ------
    ScenarioError, CatalogError
        one line for each problem, with file, line and key.
    """
    changes = changes_of(settings)
    if isinstance(scenario, Mapping):
        document = Document(INLINE, {**UNTITLED, **scenario}, {(): Place(INLINE)})
        origin = Origin(INLINE, document, Path())
    else:
        origin = origin_of(scenario, changes)
    return sharing_of(origin, changes)


def is_shared(origin: Origin) -> bool:
    """Whether a scenario has the key `jobs`, without checking it."""
    return isinstance(origin.document.data, dict) and "jobs" in origin.document.data


def sharing_of(origin: Origin, changes: tuple[Change, ...]) -> LoadedSharing:
    """Return the shared machine of an origin, as `load_sharing` does of a file."""
    tree = Tree.of(origin.document).copy()
    if not is_shared(origin):
        raise ScenarioError(
            f"{tree.place(())}: jobs: missing (the list of the jobs that share the machine; one"
            " scenario alone is simulated with: clustersim run)"
        )
    of_cluster = {path: kind for path, kind in REFERENCES.items() if path[0] == "cluster"}
    resolve(tree, origin.folder, changes, of_cluster)
    return LoadedSharing(checked(Sharing, tree, reasons=False), tree, origin, changes)
