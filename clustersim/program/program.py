"""The program: everything that the engine replays.

A program gives each rank class its steps, and for each kind of step a `Block` of work, the
`Traffic` of its result, and the operations after the last step.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.answers import record
from clustersim.cost.compute import Seconds
from clustersim.plan.parallelism import Wiring
from clustersim.program.blocks.units import Units
from clustersim.program.links.in_use import LinksInUse
from clustersim.program.schedules.steps import Code, Order, Row
from clustersim.traffic import LimitedBy, Traffic


class Position(NamedTuple):
    """A rank class by its stage, its replica class, and its tensor rank where these are not folded.

    Tensor ranks are numbered through the tensor and the context axis.
    """

    replica: int
    stage: int
    tensor_rank: int = 0

    def __str__(self) -> str:
        return f"stage {self.stage} of replica class {self.replica}, tensor rank {self.tensor_rank}"


@record
class Block:
    """The work of one step: a chain of kernels fused with the collectives inside it.

    Attributes
    ----------
    seconds : of the chain on its device, by component
    recomputed : share of it that recomputes what the forward had computed
    segments : the chain as the engine runs it: times [s] of fused kernels, and between them the
        collectives that are not fused
    units : the same unit by unit, where collectives of the block share links
    late : additional time of the kernels of a rank that is slower than others [s]; part of
        `segments` and `units`
    """

    seconds: Seconds
    recomputed: Seconds
    segments: tuple[float | Traffic, ...]
    units: Units | None = None
    late: float = 0.0


@record
class Tail:
    """Operations of a rank class after its last step.

    Attributes
    ----------
    gradients : reductions over the ranks with the same weights, which all replica classes of a
        stage run together; where they overlap with backwards, in pieces for each chunk, in the
        order in which the gradients of chunks are complete
    overlapped : whether they overlap with backwards
    mirrored : sum with the stage that holds the same layers, in a mirrored pipeline
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

    @property
    def moved(self) -> tuple[Traffic | None, ...]:
        """All its traffic."""
        pieces = (piece for pieces in self.gradients for piece in pieces)
        return *pieces, *self.parameters, self.embedding, self.mirrored


@record
class Actor:
    """A rank class: ranks that run the same operations at the same instants.

    Attributes
    ----------
    multiplicity : ranks that it represents
    replicas : data-parallel replicas that it represents
    order : the steps of all stages as numbers
    blocks : for each code, the work of the step
    send : for each code, the transfer of the result to another stage; None for no transfer
    extra : additional time of each step, in order, where these differ at random [s]
    """

    position: Position
    multiplicity: int
    replicas: tuple[int, ...]
    blocks: dict[Code, Block]
    send: dict[Code, Traffic | None]
    tail: Tail
    order: Order
    extra: NDArray[np.float64] | None = None

    @property
    def repeats(self) -> bool:
        """Whether all its steps of a code take the same time."""
        return self.extra is None

    @property
    def steps(self) -> Row:
        """Its steps in order."""
        return self.order.row(self.position.stage)


@record
class Fused:
    """Whether collectives are fused into blocks, and a bound of the error.

    Attributes
    ----------
    whole : whether all collectives of blocks are fused into them
    bound : maximum change of a block by other traffic on the same links, share of its time
    """

    whole: bool
    bound: float


class Crossing(NamedTuple):
    """What crosses one link, by stage and replica; replica -1 represents all replicas.

    Attributes
    ----------
    inside : by stage and replica, bytes of the collectives inside blocks for one microbatch [B]
    moved : by name and replica of other traffic, how many of its equal flows cross the link
    """

    inside: dict[tuple[int, int], float]
    moved: dict[tuple[str, int], float]


@record
class Limit:
    """The link that limits the rate of a kind of communication without other traffic.

    Attributes
    ----------
    link : name of the link
    kind : kind of the link
    capacity : payload that it can carry in its direction [B/s]
    by : whether that is the limit: `link`; `library` where a measured limit of the library is
        lower, or `latency` where that is more than half of the time of the longest communication
    """

    link: str
    kind: str
    capacity: float
    by: LimitedBy = "link"


@record
class Program:
    """Everything that the engine replays.

    Attributes
    ----------
    actors : ordered by replica class, then stage, then tensor rank
    wiring : which stage receives the results of which
    microbatches : of a replica in one step
    tensor_ranks : actors of each tensor group: 1 where these are folded
    blocking : whether a stage waits for its sends
    norm_sync : latency of the reductions of the gradient norm over all ranks of a replica [s]
    capacities, link_names : of the links, by number [B/s]
    fused : whether collectives are fused into blocks
    carried : every link in use, with its load in the step
    limits : for each kind of communication in the step, the link that limits it
    find_crossings : returns what crosses the links with the highest load, by their names
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
    carried: LinksInUse
    limits: dict[str, Limit]
    find_crossings: Callable[[], dict[str, Crossing]] = dict

    @cached_property
    def crossings(self) -> dict[str, Crossing]:
        """What crosses the links with the highest load, by their names."""
        return self.find_crossings()

    @property
    def order(self) -> Order:
        """The steps of all stages as numbers."""
        return self.actors[0].order

    @cached_property
    def rates(self) -> tuple[dict[Code, float], ...]:
        """For each actor, the rate of a flow of each transfer with its links to itself [B/s]."""
        return tuple(
            {
                code: traffic.uncontended_rate(self.capacities)
                for code, traffic in actor.send.items()
                if traffic is not None
            }
            for actor in self.actors
        )

    @property
    def moved(self) -> list[Traffic] | None:
        """All traffic outside of blocks, each once; None where blocks have some as well."""
        if not self.fused.whole:
            return None
        sent = (traffic for actor in self.actors for traffic in actor.send.values())
        tails = (traffic for actor in self.actors for traffic in actor.tail.moved)
        return [*dict.fromkeys(traffic for traffic in (*sent, *tails) if traffic is not None)]

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
