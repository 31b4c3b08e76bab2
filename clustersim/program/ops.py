"""The words a program is written in.

A schedule yields `Step`s: forward or backward of one microbatch through one chunk of a stage.
A program gives each rank class its steps, and for each kind of step a `Block` of work, the
`Traffic` of what is handed on, and what follows the last step.  Ops carry work, not time.

    F   forward               I   backward of the inputs, which the stage below waits for
    B   backward, all of it   W   backward of the weights, which nothing waits for

Two steps that run beside each other are written ``F3&B1``: both begin when both inputs are there,
and both hand on at the end.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from clustersim.cost.compute import Seconds
from clustersim.plan.wiring import Wiring
from clustersim.timeline import BACKWARD, FORWARD, INPUT, KINDS, WEIGHT
from clustersim.traffic import Traffic

WHOLE: Final = (FORWARD, BACKWARD)
"""What a microbatch goes through where no backward is split."""


class Step(NamedTuple):
    """One microbatch through one model chunk of a stage, forward or backward.

    `joined` is whether it runs beside the step after it.
    """

    kind: str
    microbatch: int
    chunk: int = 0
    joined: bool = False

    @property
    def alone(self) -> "Step":
        """The same step, with whatever it runs beside."""
        return self._replace(joined=False) if self.joined else self

    def __str__(self) -> str:
        chunk = f".{self.chunk}" if self.chunk else ""
        return f"{self.kind}{self.microbatch}{chunk}{'&' * self.joined}"


Row = tuple[Step, ...]
"""The steps of one stage, in order."""


def words(steps: Iterable[Step]) -> str:
    """Return steps as they are written: ``F0 F1&B0 W0``."""
    return " ".join(str(step) for step in steps).replace("& ", "&")


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
    twin: Traffic | None = None


class Code(NamedTuple):
    """What a step is, whichever microbatch it takes: its block and what it hands on depend on it.

    Attributes
    ----------
    beside : kind and chunk of what it runs beside, if anything
    leads : whether it is the first of both
    """

    kind: str
    chunk: int
    beside: tuple[str, int] | None = None
    leads: bool = False


@dataclass(frozen=True)
class Order:
    """The steps of all stages as numbers.

    Attributes
    ----------
    codes : every code that there is
    of : for each stage, the codes of its steps, by their number
    inputs : for each stage, the address of what each step waits for (see `address`)
    """

    codes: tuple[Code, ...]
    of: tuple[list[int], ...]
    inputs: tuple[list[int], ...]

    def times(self, stage: int) -> Counter[Code]:
        """Return how often a stage runs each code in a step."""
        return Counter({self.codes[n]: times for n, times in Counter(self.of[stage]).items()})


def address(step: Step, chunks: int) -> int:
    """Return the number of what a step waits for.

    With v chunks it is 2 v microbatch + 2 chunk, and one more for a backward.
    """
    return 2 * (step.microbatch * chunks + step.chunk) + (step.kind != FORWARD)


def order_of(rows: Sequence[Row], chunks: int) -> Order:
    """Return the steps of all stages as numbers."""
    numbers: dict[Code, int] = {}
    plain: dict[tuple[str, int], int] = {}
    of = []
    for steps in rows:
        codes = []
        for at, (kind, _, chunk, joined) in enumerate(steps):
            follows = at > 0 and steps[at - 1].joined
            if joined or follows:
                other = steps[at + 1 if joined else at - 1]
                code = Code(kind, chunk, (other.kind, other.chunk), joined)
                codes.append(numbers.setdefault(code, len(numbers)))
            else:
                number = plain.get((kind, chunk))
                if number is None:
                    number = plain[kind, chunk] = len(numbers)
                    numbers[Code(kind, chunk)] = number
                codes.append(number)
        of.append(codes)
    width = 2 * chunks
    inputs = [
        [mb * width + 2 * chunk + (kind != FORWARD) for kind, mb, chunk, _ in steps]
        for steps in rows
    ]
    return Order(tuple(numbers), tuple(of), tuple(inputs))


def completing(order: Order, stage: int) -> dict[int, int]:
    """Return the places of the steps that complete a chunk's gradients, numbered as they come."""
    chunks = {code.chunk for code in order.codes}
    places: list[int] = []
    for at in range(len(order.of[stage]) - 1, -1, -1):
        code = order.codes[order.of[stage][at]]
        if code.kind in (BACKWARD, WEIGHT) and code.chunk in chunks:
            chunks.discard(code.chunk)
            places.append(at)
            if not chunks:
                break
    return {at: number for number, at in enumerate(reversed(places))}


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
    wiring : who hands on to whom
    microbatches : of a replica in one step
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
    wiring: Wiring
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
        return len(self.actors) // (self.stages * self.parts)


def hand_over(step: Step, stage: int, wiring: Wiring) -> tuple[int, Step] | None:
    """Return the stage and the step that the result of `step` is for; None where it is for none.

    A step for a backward stands for both ways in which it may be run, whole or split.
    """
    if step.kind == WEIGHT:
        return None
    place = wiring.onward(stage, step.chunk, forward=step.kind == FORWARD)
    if place is None:
        return None
    return place.stage, Step(step.kind, step.microbatch, place.chunk)


__all__ = [
    "BACKWARD",
    "FORWARD",
    "INPUT",
    "KINDS",
    "WEIGHT",
    "WHOLE",
    "Actor",
    "Block",
    "Code",
    "Fused",
    "Limit",
    "LinkUse",
    "Order",
    "Position",
    "Program",
    "Row",
    "Step",
    "Tail",
    "address",
    "completing",
    "hand_over",
    "order_of",
    "whole_batch",
    "words",
]
