"""How a model is distributed over ranks: a mesh of tensor, context, data and pipeline axes.

Ranks count along the tensor axis first, then context, data and pipeline, as Megatron-LM
(``mpu/initialize.py``) and DeepSpeed (``PipeModelDataParallelTopology``) number them:

    rank = ((stage * data + replica) * context + slice) * tensor + tensor rank

A cell is the ranks that work on one microbatch of a stage together, tensor times context.  Experts
are shared by ranks of one stage in the same order: first those that share an expert, then those
that hold other experts, then copies of both.

Wirings: the virtual stage that each chunk of a stage is, and where its output goes.

    loop       chunk c of stage s is virtual stage c p + s      0 1 2 3 | 4 5 6 7
    v          every other chunk goes back up the stages        0 1 2 3 | 7 6 5 4
    mirrored   two whole models, the second in reverse          0 1 2 3 | 3 2 1 0

with p stages; the examples are of four stages with two chunks each.  In a mirrored wiring half of
the microbatches go through either model.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Final, Literal, NamedTuple, get_args

from clustersim.answers import record
from clustersim.records import dataclass

WiringName = Literal["loop", "v", "mirrored"]

WIRINGS: Final[tuple[str, ...]] = get_args(WiringName)


class Place(NamedTuple):
    """A chunk of a stage."""

    stage: int
    chunk: int


@record
class Wiring:
    """How the chunks of all stages make up the model."""

    name: WiringName
    stages: int
    chunks: int

    @property
    def virtual_stages(self) -> int:
        """Virtual stages that the model is divided into."""
        return self.stages if self.name == "mirrored" else self.stages * self.chunks

    @property
    def copies(self) -> int:
        """Chunks that are the same virtual stage."""
        return self.stages * self.chunks // self.virtual_stages

    @cached_property
    def ends_meet(self) -> bool:
        """Whether the first stage holds the end of the model as well."""
        return any(self.virtual_stage(0, c) == self.virtual_stages - 1 for c in range(self.chunks))

    def virtual_stage(self, stage: int, chunk: int) -> int:
        """Return the virtual stage of a chunk, counted from the embedding."""
        along = self.stages - 1 - stage if self._reversed(chunk) else stage
        return along if self.name == "mirrored" else chunk * self.stages + along

    @lru_cache(maxsize=1 << 13)  # noqa: B019 - small objects, of which layouts have equal ones
    def onward(self, stage: int, chunk: int, *, forward: bool) -> Place | None:
        """Return the chunk that receives the output of another; None at either end of the model."""
        along = self.virtual_stage(stage, chunk) + (1 if forward else -1)
        if not 0 <= along < self.virtual_stages:
            return None
        if self.name != "mirrored":
            chunk, along = divmod(along, self.stages)
        return Place(self.stages - 1 - along if self._reversed(chunk) else along, chunk)

    def upward(self, chunk: int, *, forward: bool) -> bool:
        """Return whether a chunk sends to the next stage, rather than to the one before."""
        return forward != self._reversed(chunk)

    def fed(self, stage: int, chunk: int, *, forward: bool) -> bool:
        """Return whether a chunk receives the output of another one."""
        return self.onward(stage, chunk, forward=not forward) is not None

    def batch(self, chunk: int, microbatches: int) -> range:
        """Return the microbatches that go through a chunk."""
        if self.name != "mirrored":
            return range(microbatches)
        half = microbatches // self.chunks
        return range(chunk * half, (chunk + 1) * half)

    def _reversed(self, chunk: int) -> bool:
        return self.name != "loop" and chunk % 2 == 1


AXES = ("tensor", "context", "data", "pipeline")
"""Axes of the mesh, innermost first: the ranks that communicate most are neighbours."""


@dataclass(frozen=True)
class Plan:
    """A layout.

    Attributes
    ----------
    tensor, context, data, pipeline : degrees; their product is the number of ranks
    chunks : model chunks of each stage
    wiring : which virtual stage each chunk of a stage is
    zero : ZeRO stage, 0 to 3
    micro : sequences of a microbatch
    microbatches : microbatches of a replica in one step
    layers : of each virtual stage, in order; a chunk of a stage is one of them
    sequence_parallel : whether tensor ranks share norms and dropouts by tokens
    context_method : ``ring``, ``all-gather`` or ``ulysses``
    expert, expert_tensor : ranks that share the experts, and those that share one expert; they are
        ranks of one stage, counted in the same order
    shard : ranks that share what ZeRO shards; all that hold the same weights if it is 0
    reshard : whether the gathered weights of a layer are freed after its forward (ZeRO-3)
    """

    tensor: int
    data: int
    pipeline: int
    chunks: int
    schedule: str
    zero: int
    micro: int
    microbatches: int
    layers: tuple[int, ...]
    context: int = 1
    sequence_parallel: bool = False
    context_method: str = "ring"
    expert: int = 1
    expert_tensor: int = 1
    shard: int = 0
    reshard: bool = True
    wiring: WiringName = "loop"

    @cached_property
    def wired(self) -> Wiring:
        """How the chunks of all stages make up the model."""
        return Wiring(self.wiring, self.pipeline, self.chunks)

    @property
    def ranks(self) -> int:
        """Ranks of the whole job."""
        return self.cell * self.data * self.pipeline

    @property
    def cell(self) -> int:
        """Ranks that work on one microbatch of one stage together: tensor times context."""
        return self.tensor * self.context

    @property
    def degrees(self) -> dict[str, int]:
        """Ranks along each axis, in the order in which ranks count, innermost first."""
        return {
            "tensor": self.tensor,
            "context": self.context,
            "data": self.data,
            "pipeline": self.pipeline,
        }

    @property
    def copies(self) -> int:
        """Ranks that hold the same weights outside the experts."""
        return self.context * self.data

    @property
    def expert_copies(self) -> int:
        """Ranks that hold the same weights of experts."""
        return self.cell * self.data // (self.expert * self.expert_tensor)

    @property
    def sharers(self) -> int:
        """Ranks that share what ZeRO shards."""
        return self.shard or self.copies

    def rank(self, stage: int, replica: int, part: int) -> int:
        """Return the rank at a place of the mesh; `part` counts through the cell."""
        return (stage * self.data + replica) * self.cell + part

    def ends(self, stage: int, chunk: int) -> tuple[bool, bool]:
        """Return whether a chunk holds the embedding, and whether it holds the logits."""
        number = self.wired.virtual_stage(stage, chunk)
        return number == 0, number == self.wired.virtual_stages - 1

    def layers_of(self, stage: int, chunk: int) -> range:
        """Return the layers of one chunk of a stage, by their numbers."""
        number = self.wired.virtual_stage(stage, chunk)
        return range(self._bounds[number], self._bounds[number + 1])

    @cached_property
    def _bounds(self) -> list[int]:
        """The first layer of each virtual stage, and the number of layers."""
        return [*accumulate(self.layers, initial=0)]


def even_layers(layers: int, parts: int) -> tuple[int, ...]:
    """Return equal shares of the layers for each virtual stage, the later the larger.

    >>> even_layers(10, 4)
    (2, 3, 2, 3)
    """
    return tuple((i + 1) * layers // parts - i * layers // parts for i in range(parts))


def with_ends(layers: int, parts: int) -> tuple[int, ...]:
    """Return equal shares when embedding and logits count as a layer each.

    DeepSpeed, ``PipelineModule``, ``partition_method='type:transformer|embedding'``; Megatron-Core,
    ``account_for_embedding_in_pipeline_split`` and ``account_for_loss_in_pipeline_split``.

    >>> with_ends(70, 12)
    (5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5)
    """
    shares = list(even_layers(layers + 2, parts))
    shares[0] -= 1
    shares[-1] -= 1
    return tuple(shares)


def filled(layers: int, parts: int) -> tuple[int, ...]:
    """Return equal shares of the layers, rounded up, with the remaining ones in the last share.

    DeepSpeed, ``runtime/utils.py``, ``partition_balanced``, which Megatron-DeepSpeed uses with
    ``partition_method='type:transformer'``. Where a share would be empty, see `even_layers`.

    >>> filled(78, 12)
    (7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1)
    """
    most = -(-layers // parts)
    full, rest = divmod(layers, most)
    shares = [most] * full + [rest] * (rest > 0)
    return tuple(shares) if len(shares) == parts else even_layers(layers, parts)


def by_work(layers: Sequence[float], logits: float, parts: int) -> tuple[int, ...]:
    """Return shares of the layers that end where their share of all work is exceeded.

    The logits count as work, the last share has the remaining layers, and none is empty. nanotron,
    ``models/base.py``, ``build_model``.

    Parameters
    ----------
    layers, logits : their work in any unit, the layers in order

    >>> by_work([1.0] * 16, 4.0, 2)
    (11, 5)
    >>> by_work([1.0] * 16, 4.0, 4)
    (6, 5, 4, 1)
    """
    total, done, shares = sum(layers) + logits, 0.0, [0]
    for number, work in enumerate(layers):
        ended = len(shares) < parts and (
            done > total * len(shares) / parts or len(layers) - number == parts - len(shares)
        )
        if shares[-1] and ended:
            shares.append(0)
        shares[-1] += 1
        done += work
    return tuple(shares)
