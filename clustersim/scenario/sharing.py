"""Scenarios of a shared machine: several jobs on the nodes of one cluster.

A scenario with the key `jobs` is one; `clustersim share` simulates it.
"""

from math import prod
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from clustersim.catalog.facts import AT_FIRST_USE, Bytes, Count, Line, Nodes, Seconds, Strict, Whole
from clustersim.catalog.libraries import OPERATIONS
from clustersim.scenario.disturbances import Disturbance
from clustersim.scenario.schema import ClusterName, ClusterUse, Expecting
from clustersim.scenario.traced import TraceFile
from clustersim.suggestions import nearest

UNITS: Final = ("leaves", "pods", "groups")
"""Words for nodes in as few units of the fabric as possible."""

PLACES: Final = (*UNITS, "blocks", "contiguous", "interleaved", "scattered", "best")
"""Words for the nodes of a job: by units, a block of a torus, the next free ones, in turn with
other jobs, at random, or those with which the jobs are slowed least."""

MOST_JOBS: Final = 64
"""Maximum number of jobs of a scenario, copies included."""


def _operation(name: str) -> str:
    if name not in OPERATIONS or name == "barrier":
        known = ", ".join(each for each in OPERATIONS if each != "barrier")
        raise ValueError(f"must be an operation with bytes, not '{name}' (allowed: {known})")
    return name


class TrafficFile(Strict):
    """Traffic of a job that is no training: a collective, save, load or exchange, repeated."""

    collective: Annotated[str, AfterValidator(_operation)] | None = Field(
        None, description="operation of all its devices"
    )
    storage: Literal["write", "read"] | None = Field(
        None, description="instead of a collective, what its nodes do with the machine's storage"
    )
    halo: Annotated[list[Count], Field(min_length=2, max_length=4)] | None = Field(
        None,
        description="instead of a collective, a grid of all its devices, `[8, 8, 4]`, the last axis"
        " fastest: each sends a face to both neighbours along each axis",
    )
    periodic: bool = Field(
        True, description="whether devices at both ends of an axis of the halo are neighbours"
    )
    bytes: Bytes
    pause: Seconds = 0.0
    nodes: Nodes = Field(description="number of nodes that take part, with all their devices")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = self.collective, self.storage, self.halo
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("needs a collective, storage or a halo, and only one of them")
        if self.halo is None and "periodic" in self.model_fields_set:
            raise ValueError("periodic: has no effect without a halo (leave it out)")
        if self.halo is not None and prod(self.halo) < 2:
            raise ValueError("halo: has one device, which has no neighbour (a larger grid)")
        return self


class JobFile(Strict):
    """A job of a shared machine: steps of training, of a service or of a trace, or traffic."""

    name: Line | None = Field(None, description="name; that of the scenario if missing")
    scenario: str | dict[str, Any] | None = Field(
        None,
        description="file or name of the scenario of a training step or a service, or its keys and"
        " values",
    )
    set: dict[str, Any] = Field({}, description="changes of that scenario, by dotted key")
    traffic: TrafficFile | None = Field(None, description="plain traffic instead of a scenario")
    trace: TraceFile | None = Field(None, description="execution trace instead of a scenario")
    nodes: str = Field(
        "contiguous",
        description="nodes of the machine: contiguous, interleaved, scattered (by the seed), in as"
        " few leaves, pods or groups as possible, blocks of a torus, best (those with which the"
        " jobs are slowed least), or numbers and ranges",
    )
    start: Seconds = 0.0
    phase: Literal["random"] | None = Field(
        None, description="random: its first step begins at any instant of a step, by the seed"
    )
    save_every: Count | None = Field(
        None,
        description="steps between two saves of its checkpoint to the machine's storage, by the"
        " mode of its section training; no saves if missing",
    )
    copies: Count = Field(1, description="number of such jobs")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        works = {"scenario": self.scenario, "traffic": self.traffic, "trace": self.trace}
        stated = [name for name, work in works.items() if work is not None]
        if len(stated) != 1:
            raise ValueError("needs a scenario, traffic or a trace, and only one of them")
        if self.traffic is not None and self.save_every:
            raise ValueError("save_every: traffic has no checkpoint (traffic: {storage: write})")
        if self.trace is not None and self.save_every:
            raise ValueError("save_every: a trace has no checkpoint (leave it out)")
        if self.scenario is None and self.set:
            work = "traffic" if self.trace is None else "a trace"
            raise ValueError(f"set: has no effect on {work} (change its keys)")
        if self.nodes not in PLACES and not self.nodes[:1].isdecimal():
            raise ValueError(
                f"nodes: '{self.nodes}' is neither numbers and ranges (0-15,32) nor one of"
                f" {', '.join(PLACES)}{nearest(self.nodes, PLACES)}"
            )
        if self.copies > 1 and self.nodes not in PLACES:
            raise ValueError(f"copies: {self.copies} jobs cannot have the same nodes (copies: 1)")
        return self


class BestPlacesFile(Strict):
    """How the nodes of jobs with `nodes: best` are chosen."""

    objective: Literal["mean", "largest"] = Field(
        "mean",
        description="slowdown of the jobs that is to be the smallest, each over its shortest time"
        " alone on any nodes that are tried",
    )
    replays: Annotated[int, Field(ge=1, le=1_000, strict=True)] = Field(
        16, description="candidates that are replayed at most, those with the best bounds first"
    )


class SharingBase(Expecting):
    """The keys of a shared machine that name no other file."""

    title: Line
    jobs: Annotated[list[JobFile], Field(min_length=1, max_length=MOST_JOBS)]
    steps: Annotated[int, Field(ge=2, le=10_000, strict=True)] = Field(
        20, description="steps of each job that are simulated at least"
    )
    best: BestPlacesFile = Field(
        BestPlacesFile(), description="how the nodes of jobs with `nodes: best` are chosen"
    )
    seed: Whole = Field(0, description="of nodes that are scattered, and of random phases")
    replications: Annotated[int, Field(ge=1, le=1_000, strict=True)] = Field(
        1, description="draws of nodes and phases, with this seed and the next ones"
    )
    disturbances: list[Disturbance] = Field(
        [], description="what makes some devices or links of the machine differ from the others"
    )
    assumed: dict[str, str] = Field({}, description="keys without a source, with the reason")
    published: ClassVar[tuple[()]] = ()  # of single jobs

    @model_validator(mode="after")
    def _best_of_some(self) -> Self:
        if "best" in self.model_fields_set and all(job.nodes != "best" for job in self.jobs):
            raise ValueError("best: has no effect (no job has nodes: best)")
        return self

    @property
    def drawn(self) -> bool:
        """Whether anything is drawn by the seed."""
        return any("scattered" in job.nodes or job.phase is not None for job in self.jobs)


class Sharing(SharingBase):
    """A shared machine whose cluster has been replaced by the catalogue's record."""

    cluster: Annotated[ClusterUse, AT_FIRST_USE]


class SharingFile(SharingBase):
    """A shared machine as it is written: the schema for editors."""

    cluster: ClusterName
