"""Schedules and their steps, and the same steps as numbers.

    F   forward          I   backward of the inputs, for which the previous stage waits
    B   whole backward   W   backward of the weights, for which no other step waits

Two steps that run concurrently are written ``F3&B1``: both begin when both inputs have arrived, and
both send their results at the end.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import chain, pairwise
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.answers import record
from clustersim.plan.parallelism import Wiring, WiringName
from clustersim.records import dataclass
from clustersim.timeline import BACKWARD, FORWARD, INPUT, KINDS, WEIGHT

Numbers = NDArray[np.int64]

WHOLE: Final = (FORWARD, BACKWARD)
"""The steps of a microbatch where no backward is split."""


class Step(NamedTuple):
    """One microbatch through one model chunk of a stage, forward or backward.

    `joined` is whether it runs concurrently with the step after it.
    """

    kind: str
    microbatch: int
    chunk: int = 0
    joined: bool = False

    @property
    def unpaired(self) -> "Step":
        """The same step without its concurrent one."""
        return self._replace(joined=False) if self.joined else self

    def __str__(self) -> str:
        chunk = f".{self.chunk}" if self.chunk else ""
        return f"{self.kind}{self.microbatch}{chunk}{'&' * self.joined}"


Row = tuple[Step, ...]
"""The steps of one stage, in order."""


def steps_text(steps: Iterable[Step]) -> str:
    """Return steps in their notation: ``F0 F1&B0 W0``."""
    return " ".join(str(step) for step in steps).replace("& ", "&")


@lru_cache(maxsize=64)
def whole_batch(kind: str, microbatches: int, chunk: int = 0) -> tuple[Step, ...]:
    """Return the steps of all microbatches in order, cached for all stages."""
    return tuple(Step(kind, microbatch, chunk) for microbatch in range(microbatches))


class Code(NamedTuple):
    """A step without its microbatch; its block and the transfer of its result depend on this.

    Attributes
    ----------
    paired : kind and chunk of the concurrent step, if there is one
    leads : whether it is the first of the pair
    """

    kind: str
    chunk: int
    paired: tuple[str, int] | None = None
    leads: bool = False


class Repetition(NamedTuple):
    """Consecutive steps of a stage in which the same codes repeat for later microbatches.

    Attributes
    ----------
    start, stop : index of its first step, and of the step after its last one
    steps : of one period [count]
    shift : address of the input of a step minus that of the same step one period before
    """

    start: int
    stop: int
    steps: int
    shift: int


class Columns(NamedTuple):
    """The steps of a stage as columns of a `Track`: `kind` as its index in `KINDS`."""

    kind: NDArray[np.int8]
    microbatch: NDArray[np.int32]
    chunk: NDArray[np.int32]


@record
class Order:
    """The steps of all stages as numbers.

    Attributes
    ----------
    codes : all different codes
    of : for each stage, the codes of its steps, as indices into `codes`
    inputs : for each stage, the address of the input of each step: with v chunks it is
        2 v microbatch + 2 chunk, and one more for a backward
    repetitions : for each stage, the parts of its steps that repeat, in order
    chunks : model chunks of a stage
    """

    codes: tuple[Code, ...]
    of: tuple[Numbers, ...]
    inputs: tuple[Numbers, ...]
    repetitions: tuple[tuple[Repetition, ...], ...]
    chunks: int

    def step(self, stage: int, at: int) -> Step:
        """Return a step of a stage by its index."""
        kind, chunk, _, leads = self.codes[self.of[stage][at]]
        return Step(kind, int(self.inputs[stage][at]) // (2 * self.chunks), chunk, leads)

    def row(self, stage: int) -> Row:
        """Return the steps of a stage."""
        return tuple(self.step(stage, at) for at in range(len(self.of[stage])))

    def columns(self, stage: int) -> tuple[Numbers, Numbers]:
        """Return the kind, as an index into `KINDS`, and the chunk of the steps of a stage."""
        kinds, chunks = self.kinds_and_chunks
        return kinds[self.of[stage]], chunks[self.of[stage]]

    @cached_property
    def microbatches(self) -> tuple[int, ...]:
        """For each stage, how many microbatches each chunk runs forward, then backward, once each.

        0 where steps are paired, and where some of them are missing, twice or in another order.
        """
        paired = any(code.paired for code in self.codes)
        return tuple(0 if paired else self._whole_batch(stage) for stage in range(len(self.of)))

    def _whole_batch(self, stage: int) -> int:
        """Return how many microbatches a stage runs, each whole; 0 where one is not."""
        (kinds, _), inputs = self.columns(stage), self.inputs[stage]
        width = int((kinds == KINDS.index(FORWARD)).sum())
        if not width or width % self.chunks or inputs.min() < 0 or inputs.max() >= 2 * width:
            return 0
        index = np.full((len(KINDS), width), -1)
        index[kinds, inputs // 2] = np.arange(len(kinds))
        forward, whole, ahead, weight = index
        apart = (whole < 0) & (ahead > forward) & (weight > ahead)
        once = (whole > forward) & (ahead < 0) & (weight < 0)
        each = int((index >= 0).sum()) == len(kinds) and (forward >= 0) & (apart | once)
        return width // self.chunks if np.all(each) else 0

    @cached_property
    def kinds_and_chunks(self) -> tuple[Numbers, Numbers]:
        """The kind, as an index into `KINDS`, and the chunk of each code."""
        kinds = np.array([KINDS.index(code.kind) for code in self.codes], np.int64)
        return kinds, np.array([code.chunk for code in self.codes], np.int64)

    @cached_property
    def track_columns(self) -> tuple[Columns, ...]:
        """The steps of each stage as columns of its record."""
        return tuple(
            Columns(
                kind.astype(np.int8),
                (self.inputs[stage] // (2 * self.chunks)).astype(np.int32),
                chunk.astype(np.int32),
            )
            for stage, (kind, chunk) in enumerate(map(self.columns, range(len(self.of))))
        )

    @cached_property
    def steps_of(self) -> tuple[dict[Code, Numbers], ...]:
        """For each stage, the indices of its steps of each code, of all codes."""
        return tuple(
            {code: np.flatnonzero(codes == number) for number, code in enumerate(self.codes)}
            for codes in self.of
        )

    @cached_property
    def by_code(self) -> tuple[tuple[Numbers, list[int]], ...]:
        """For each stage, its steps code by code, and where those of each code begin among them."""
        return tuple(
            (
                np.concatenate([*of_stage.values()]),
                np.cumsum([0, *map(len, of_stage.values())]).tolist(),
            )
            for of_stage in self.steps_of
        )

    def times(self, stage: int) -> Counter[Code]:
        """Return how often a stage runs each code in a step."""
        return self._times[stage]

    @cached_property
    def _times(self) -> tuple[Counter[Code], ...]:
        return tuple(
            Counter({code: len(steps) for code, steps in of_stage.items() if len(steps)})
            for of_stage in self.steps_of
        )


def order_of(rows: Sequence[Row], chunks: int, shift: int = 1) -> Order:
    """Return the steps of all stages as numbers.

    Parameters
    ----------
    shift : microbatches by which a period of repeated steps follows the one before
    """
    steps = [*chain.from_iterable(rows)]
    letters = "".join(map(itemgetter(0), steps)).encode()
    kind = _NUMBER_OF_LETTER[np.frombuffer(letters, np.uint8)]
    microbatch, chunk, joined = (
        np.fromiter(map(itemgetter(at), steps), np.int64, len(steps)) for at in (1, 2, 3)
    )
    codes, number = _numbered(steps, kind, chunk, joined)
    address = 2 * (chunks * microbatch + chunk) + (kind > 0)
    bounds = np.cumsum([len(row) for row in rows])[:-1]
    of, inputs = tuple(np.split(number, bounds)), tuple(np.split(address, bounds))
    repetitions = tuple(map(partial(repeated, shift=2 * chunks * shift), of, inputs))
    return Order(codes, of, inputs, repetitions, chunks)


def repeated(codes: Numbers, inputs: Numbers, shift: int) -> tuple[Repetition, ...]:
    """Return the parts of a stage's steps that run through at least two whole periods.

    Each step is compared with the step of the same code whose input address is `shift` higher: a
    part repeats as long as these two are the same number of steps apart.
    """
    if not len(codes):
        return ()
    index = np.arange(len(codes))
    position = np.full((codes.max() + 1, inputs.max() + 1 + shift), -1)
    position[codes, inputs] = index
    apart = np.maximum(position[codes, inputs + shift] - index, 0)
    bounds = [0, *(np.flatnonzero(np.diff(apart)) + 1).tolist(), len(codes)]
    parts = [(a, b, int(apart[a])) for a, b in pairwise(bounds)]
    return tuple(Repetition(a, b + n, n, shift) for a, b, n in parts if 0 < n <= b - a)


_NUMBER_OF_LETTER: Final = np.zeros(128, np.int64)
_NUMBER_OF_LETTER[[ord(kind) for kind in KINDS]] = range(len(KINDS))


def _numbered(
    steps: Sequence[Step], kind: Numbers, chunk: Numbers, joined: Numbers
) -> tuple[tuple[Code, ...], Numbers]:
    """Return the codes of the steps of all stages, by the first step of each, and their numbers.

    Parameters
    ----------
    kind, chunk, joined : of each step, `kind` as its index in `KINDS`
    """
    key = kind * (chunk.max(initial=0) + 1) + chunk
    if joined.any():
        first, other = np.flatnonzero(joined), np.zeros_like(key)
        other[first], other[first + 1] = key[first + 1] + 1, key[first] + 1
        key = 2 * ((key.max() + 2) * key + other) + joined
    at = np.full(key.max(initial=0) + 1, len(key))
    at[key[::-1]] = np.arange(len(key))[::-1]  # the first step of each code, which is set last
    known = np.argsort(at)[: (at < len(key)).sum()]
    number = np.empty_like(at)
    number[known] = range(len(known))
    return tuple(_code(steps, index) for index in at[known].tolist()), number[key]


def _code(steps: Sequence[Step], at: int) -> Code:
    """Return the code of a step, which may be paired with the next or the previous step."""
    kind, _, chunk, joined = steps[at]
    if not joined and not (at > 0 and steps[at - 1].joined):
        return Code(kind, chunk)
    other = steps[at + 1 if joined else at - 1]
    return Code(kind, chunk, (other.kind, other.chunk), joined)


def completing(order: Order, stage: int) -> dict[int, int]:
    """Return the indices of the steps that complete a chunk's gradients, numbered in order."""
    chunks = {code.chunk for code in order.codes}
    steps: list[int] = []
    numbers = order.of[stage].tolist()
    for at in range(len(numbers) - 1, -1, -1):
        code = order.codes[numbers[at]]
        if code.kind in (BACKWARD, WEIGHT) and code.chunk in chunks:
            chunks.discard(code.chunk)
            steps.append(at)
            if not chunks:
                break
    return {at: number for number, at in enumerate(reversed(steps))}


def receiver_of(step: Step, stage: int, wiring: Wiring) -> tuple[int, Step] | None:
    """Return the stage and the step that receive the result of a step; None for no receiver.

    A backward represents both a whole and a split one.
    """
    if step.kind == WEIGHT:
        return None
    target = wiring.onward(stage, step.chunk, forward=step.kind == FORWARD)
    if target is None:
        return None
    return target.stage, Step(step.kind, step.microbatch, target.chunk)


def with_head_deferred(row: Row, chunk: int, most: int) -> Row:
    """Return the steps of the last stage with weight gradients of the output head at their end.

    The first microbatches run their backward without these gradients (``I``), and compute them
    (``W``) after the last backward, while other stages still run theirs.  Megatron-Core,
    ``pipeline_parallel/schedules.py``, ``finish_embedding_wgrad_compute``, and
    ``tensor_parallel/layers.py``, ``wgrad_deferral_limit``.

    Parameters
    ----------
    chunk : the last one, with the head
    most : number of these microbatches
    """
    heads = [step for step in row if step.kind == BACKWARD and step.chunk == chunk][:most]
    deferred = {*heads}
    return (
        *(step._replace(kind=INPUT) if step in deferred else step for step in row),
        *(step._replace(kind=WEIGHT) for step in heads),
    )


# --- schedules ------------------------------------------------------------------------------------


StepsOfStage = Callable[[int, int, int, int], Iterator[Step]]
"""From stage, stages, microbatches and chunks to the steps of that stage."""


def _no_obstacle(stages: int, microbatches: int, chunks: int) -> str | None:
    return None


def _one_microbatch(stages: int) -> int:
    return 1


@dataclass(frozen=True)
class Schedule:
    """A schedule by its name.

    Attributes
    ----------
    title : description in a few words
    steps : the generator of a stage's steps
    chunks : minimum and maximum of model chunks of a stage
    split : whether a backward is split into the gradients of inputs and those of weights
    paired : whether forwards run concurrently with backwards of other microbatches
    obstacle : why numbers of stages, microbatches and chunks are not possible, or None
    period : from the number of stages to the microbatches after which its steps repeat
    shape : stages, microbatches and chunks, where it is written for these only
    early : the generator of a framework that does not run all forwards first where a batch has as
        many microbatches as stages
    deferred : microbatches whose weight gradients of the output head come after the last backward
    short : other name, in scenarios
    """

    name: str
    title: str
    steps: StepsOfStage
    wiring: WiringName = "loop"
    chunks: tuple[int, int | None] = (1, 1)
    split: bool = False
    paired: bool = False
    obstacle: Callable[[int, int, int], str | None] = _no_obstacle
    period: Callable[[int], int] = _one_microbatch
    shape: tuple[int, int, int] | None = None
    early: StepsOfStage | None = None
    deferred: int = 0
    short: str = ""

    def as_run(self, *, forwards_first: bool, deferred: int = 0) -> "Schedule":
        """Return the schedule as a framework runs it.

        Parameters
        ----------
        forwards_first : whether all forwards come first with as many microbatches as stages
        deferred : microbatches whose weight gradients of the output head come last
        """
        steps = self.steps if forwards_first or not self.early else self.early
        return replace(self, steps=steps, deferred=0 if self.split else deferred)

    @property
    def parted(self) -> bool:
        """Whether some backwards come in two steps."""
        return self.split or self.deferred > 0

    def wired(self, stages: int, chunks: int) -> Wiring:
        """Return the wiring of its chunks."""
        return Wiring(self.wiring, stages, chunks)

    def rows(self, stages: int, microbatches: int, chunks: int) -> list[Row]:
        """Return the steps of every stage."""
        rows = [tuple(self.steps(s, stages, microbatches, chunks)) for s in range(stages)]
        if self.deferred and stages > 1 and self.wiring == "loop":
            rows[-1] = with_head_deferred(rows[-1], chunks - 1, self.deferred)
        return rows

    def misfit(self, stages: int, microbatches: int, chunks: int) -> str | None:
        """Return why a shape is not possible, in words that follow its name, or None."""
        least, most = self.chunks
        if not least <= chunks <= (most or chunks):
            needed = f"{least}" if most == least else f"at least {least}"
            return f"needs {needed} chunk{'s' * (least > 1)} a stage, and there are {chunks}"
        if stages == 1 and least > 1:
            return "needs at least 2 stages"
        return self.obstacle(stages, microbatches, chunks)
