"""The words a schedule is written in: steps, and the same steps as numbers.

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

import numpy as np
from numpy.typing import NDArray

from clustersim.plan.wiring import Wiring
from clustersim.timeline import BACKWARD, FORWARD, INPUT, KINDS, WEIGHT

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
    inputs : for each stage, the address of what each step waits for: with v chunks it is
        2 v microbatch + 2 chunk, and one more for a backward
    """

    codes: tuple[Code, ...]
    of: tuple[list[int], ...]
    inputs: tuple[list[int], ...]

    def columns(self, stage: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return kind, by its place in `KINDS`, and chunk of the steps of a stage."""
        codes = np.array(self.of[stage])
        kinds = np.array([KINDS.index(code.kind) for code in self.codes])
        chunks = np.array([code.chunk for code in self.codes])
        return kinds[codes], chunks[codes]

    def times(self, stage: int) -> Counter[Code]:
        """Return how often a stage runs each code in a step."""
        return Counter({self.codes[n]: times for n, times in Counter(self.of[stage]).items()})


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
    "Code",
    "Order",
    "Row",
    "Step",
    "completing",
    "hand_over",
    "order_of",
    "whole_batch",
    "words",
]
