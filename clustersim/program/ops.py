"""The words a program is written in.

A schedule yields `Step`s: forward or backward of one microbatch through one chunk of a stage.
A program gives each rank class its steps, and for each kind of step a `Block` of work, the
`Traffic` of what is handed on, and what follows the last step.  Ops carry work, not time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from clustersim.cost.compute import Seconds
from clustersim.traffic import Traffic

FORWARD: Final = "F"
BACKWARD: Final = "B"
KINDS: Final = (FORWARD, BACKWARD)


class Step(NamedTuple):
    """One microbatch through one model chunk of a stage, forward or backward."""

    kind: str
    microbatch: int
    chunk: int = 0

    def __str__(self) -> str:
        chunk = f".{self.chunk}" if self.chunk else ""
        return f"{self.kind}{self.microbatch}{chunk}"


@lru_cache(maxsize=64)
def whole_batch(kind: str, microbatches: int, chunk: int = 0) -> tuple[Step, ...]:
    """Return the steps of all microbatches in order, made once for all stages."""
    return tuple(Step(kind, microbatch, chunk) for microbatch in range(microbatches))


class Position(NamedTuple):
    """A stage of one replica class, and a tensor part where these are not folded: who acts."""

    replica: int
    stage: int
    part: int = 0

    def __str__(self) -> str:
        return f"stage {self.stage} of replica class {self.replica}, part {self.part}"


@dataclass(frozen=True)
class Block:
    """The work of one step: a chain of kernels fused with the collectives inside it.

    Attributes
    ----------
    seconds : what the chain takes on this device, by part
    again : the share of it that computes a second time what the forward had computed
    segments : the chain as the engine runs it: times [s] of fused kernels, and between them the
        collectives that could not be fused
    """

    seconds: Seconds
    again: Seconds
    segments: tuple[float | Traffic, ...]


@dataclass(frozen=True)
class Tail:
    """What a rank class does after its last step.

    Attributes
    ----------
    gradients : reductions over those that hold the same weights, by all replica classes of a
        stage together; in several pieces where they start during the last backward
    overlapped : whether they do
    embedding : reduction of the tied embedding between first and last stage
    optimiser : time of the optimiser step [s]
    parameters : gathers of updated parameters (ZeRO-1)
    """

    gradients: tuple[Traffic, ...]
    overlapped: bool
    embedding: Traffic | None
    optimiser: float
    parameters: tuple[Traffic, ...]


def keys_of(steps: Iterable[Step], chunks: int) -> list[int]:
    """Return steps as numbers: microbatch, then chunk, then forward or backward.

    With v chunks, step (kind, microbatch, chunk) is 2 v microbatch + 2 chunk + (1 backward).
    """
    codes = 2 * chunks
    return [mb * codes + 2 * chunk + (kind == BACKWARD) for kind, mb, chunk in steps]


@dataclass(frozen=True)
class Actor:
    """A rank class: ranks that do the same at the same instants.

    Attributes
    ----------
    multiplicity : ranks that it stands for
    replicas : data-parallel replicas that it stands for
    steps : in order
    blocks : for each (kind, chunk), the work of the step
    send : for each (kind, chunk), what is handed to the next stage; None where nothing is
    """

    position: Position
    multiplicity: int
    replicas: tuple[int, ...]
    steps: tuple[Step, ...]
    blocks: dict[tuple[str, int], Block]
    send: dict[tuple[str, int], Traffic | None]
    tail: Tail

    @cached_property
    def keys(self) -> list[int]:
        """The steps as numbers, as `keys_of`."""
        return keys_of(self.steps, len(self.blocks) // 2)


@dataclass(frozen=True)
class Fused:
    """What was fused into blocks, and how wrong that can be.

    Attributes
    ----------
    whole : whether the collectives of the tensor group were fused into their blocks
    bound : most that other traffic on the same links can change a block, share of its time
    """

    whole: bool
    bound: float


class LinkUse(NamedTuple):
    """What one link of the machine carries in a step, folded ranks counted in full.

    Attributes
    ----------
    capacity : payload per second in its direction [B/s]
    nbytes : payload and protocol of the step [B]
    """

    name: str
    capacity: float
    nbytes: float


class Limit(NamedTuple):
    """The link that sets the pace of a kind of communication when it is alone.

    Attributes
    ----------
    kind : what sort of link it is
    capacity : payload per second in its direction [B/s]
    """

    link: str
    kind: str
    capacity: float


@dataclass(frozen=True)
class Program:
    """Everything that the engine replays.

    Attributes
    ----------
    actors : ordered by replica class, then stage
    stages, chunks, microbatches : shape of the pipeline
    parts : actors for each tensor group: 1 where these are folded
    blocking : whether a stage waits for its sends
    norm_sync : latency of the reductions of the gradient norm over all ranks of a replica [s]
    capacities : of the links, by number [B/s]
    link_names : of the same
    fused : what was fused
    carried : every link that is used, with what it carries in the step
    limits : for each kind of communication in the step, the link that sets its pace
    """

    actors: tuple[Actor, ...]
    stages: int
    chunks: int
    microbatches: int
    parts: int
    blocking: bool
    norm_sync: float
    capacities: tuple[float, ...]
    link_names: tuple[str, ...]
    fused: Fused
    carried: tuple[LinkUse, ...]
    limits: dict[str, Limit]

    @property
    def classes(self) -> int:
        """Replica classes."""
        return len(self.actors) // (self.stages * self.parts)


def hand_over(step: Step, stage: int, stages: int, chunks: int) -> tuple[int, Step] | None:
    """Return the stage and the step that the result of `step` is for; None at either end.

    Chunk c of stage s holds virtual stage c * stages + s: forward goes up, backward down.
    """
    virtual = step.chunk * stages + stage + (1 if step.kind == FORWARD else -1)
    if not 0 <= virtual < stages * chunks:
        return None
    return virtual % stages, Step(step.kind, step.microbatch, virtual // stages)
