"""The words a program is written in.

A program gives each rank class its steps, and for each kind of step a `Block` of work, the
`Traffic` of what is handed on, and what follows the last step.  Ops carry work, not time.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from clustersim.cost.compute import Seconds
from clustersim.plan.wiring import Wiring
from clustersim.program.steps import Code, Order, Row
from clustersim.traffic import Traffic


class Position(NamedTuple):
    """A stage of one replica class, and a tensor part where these are not folded: who acts."""

    replica: int
    stage: int
    tensor_rank: int = 0

    def __str__(self) -> str:
        return f"stage {self.stage} of replica class {self.replica}, tensor rank {self.tensor_rank}"


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
    recomputed: Seconds
    segments: tuple[float | Traffic, ...]


@dataclass(frozen=True)
class Tail:
    """What a rank class does after its last step.

    Attributes
    ----------
    gradients : reductions over those that hold the same weights, by all replica classes of a
        stage together; where they run beside backwards, in pieces for each chunk, in the order in
        which the gradients of chunks are complete
    overlapped : whether they do
    twin : sum with the other stage that holds the same part of the model, where there is one
    embedding : reduction of the tied embedding between first and last stage
    optimiser : time of the optimiser step [s]
    parameters : gathers of updated parameters (ZeRO-1)
    """

    gradients: tuple[tuple[Traffic, ...], ...]
    overlapped: bool
    embedding: Traffic | None
    optimiser: float
    parameters: tuple[Traffic, ...]
    mirrored: Traffic | None = None


@dataclass(frozen=True)
class Actor:
    """A rank class: ranks that do the same at the same instants.

    Attributes
    ----------
    multiplicity : ranks that it stands for
    replicas : data-parallel replicas that it stands for
    steps, order : in order, as they are written and as numbers
    blocks : for each code, the work of the step
    send : for each code, what is handed to another stage; None where nothing is
    """

    position: Position
    multiplicity: int
    replicas: tuple[int, ...]
    steps: Row
    blocks: dict[Code, Block]
    send: dict[Code, Traffic | None]
    tail: Tail
    order: Order


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


class Crossing(NamedTuple):
    """What crosses one link, by who puts it there; replica -1 stands for all replicas together.

    Attributes
    ----------
    inside : by stage and replica, what collectives inside blocks put on it for one microbatch [B]
    moved : by name and replica of other traffic, how many of its equal flows cross it
    """

    inside: dict[tuple[int, int], float]
    moved: dict[tuple[str, int], float]


@dataclass(frozen=True)
class Limit:
    """The link that limits the rate of a kind of communication without other traffic.

    Attributes
    ----------
    link : name of the link
    kind : kind of the link
    capacity : payload that it can carry in its direction [B/s]
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
    wiring : who hands on to whom
    microbatches : of a replica in one step
    parts : actors for each tensor group: 1 where these are folded
    blocking : whether a stage waits for its sends
    norm_sync : latency of the reductions of the gradient norm over all ranks of a replica [s]
    capacities : of the links, by number [B/s]
    link_names : of the same
    fused : what was fused
    carried : every link that is used, with what it carries in the step
    crossings : for the links that are used most, by name, what crosses them
    limits : for each kind of communication in the step, the link that sets its pace
    """

    actors: tuple[Actor, ...]
    wiring: Wiring
    microbatches: int
    tensor_ranks: int
    blocking: bool
    norm_sync: float
    capacities: tuple[float, ...]
    link_names: tuple[str, ...]
    fused: Fused
    carried: tuple[LinkUse, ...]
    limits: dict[str, Limit]
    crossings: dict[str, Crossing] = field(default_factory=dict)

    @property
    def order(self) -> Order:
        """The steps of all stages as numbers."""
        return self.actors[0].order

    @property
    def stages(self) -> int:
        """Stages of the pipeline."""
        return self.wiring.stages

    @property
    def chunks(self) -> int:
        """Model chunks of each stage."""
        return self.wiring.chunks

    @property
    def classes(self) -> int:
        """Replica classes."""
        return len(self.actors) // (self.stages * self.tensor_ranks)
