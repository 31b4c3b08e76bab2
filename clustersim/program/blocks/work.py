"""Work of a block: its units, each with its kernels and with what is moved before and after it.

    embedding | layer | ... | layer | logits, loss        forward
    loss, logits | recomputed, layer | ... | embedding    backward

Weights are copied from the host, if they are kept there, and then gathered from the ranks that
share them; gradients are reduced and then copied to the host.  What no unit waits for is pushed.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clustersim.program.collectives.axes import Call
from clustersim.program.job import Job
from clustersim.program.layers import StackedLayer
from clustersim.program.movement.offload import ends_fetch, host_fetch, host_push
from clustersim.program.movement.sharding import ends_moves, layer_fetch, layer_push
from clustersim.program.schedules.steps import WHOLE
from clustersim.records import dataclass
from clustersim.timeline import BACKWARD, FORWARD, INPUT, WEIGHT
from clustersim.workload.kernels import Axis, Collective, Kernel, flat
from clustersim.workload.layers.ends import boundary_gather
from clustersim.workload.ops import HostCopy, backward, forward, of_inputs, of_weights

Transfers = Sequence[Collective | HostCopy]


class UnitWork(NamedTuple):
    """What a block runs in one unit.

    Attributes
    ----------
    kernels : in order, with the collectives between them
    fetch, push : moves of its weights before it, and of its gradients after it
    layer : the layer that it is; None for what precedes the layers, or follows them
    """

    kernels: list[Kernel]
    fetch: Transfers = ()
    push: Transfers = ()
    layer: StackedLayer | None = None


@dataclass(frozen=True)
class BlockWork:
    """What a block runs.

    Attributes
    ----------
    units : in the order in which they run: what precedes its layers, each layer, what follows them
    counts : the different layers, and how often each occurs
    """

    units: tuple[UnitWork, ...]
    counts: tuple[tuple[UnitWork, int], ...]

    @property
    def ends(self) -> tuple[UnitWork, UnitWork]:
        """The units before and after the layers."""
        return self.units[0], self.units[-1]

    @property
    def transfers(self) -> list[Collective | HostCopy]:
        """All moves of weights and gradients."""
        return [transfer for unit in self.units for transfer in (*unit.fetch, *unit.push)]

    @property
    def moved(self) -> list[Collective]:
        """The collectives of these moves."""
        return [transfer for transfer in self.transfers if isinstance(transfer, Collective)]

    @property
    def inner(self) -> list[Collective]:
        """The collectives between kernels."""
        kernels = (kernel for unit in self.units for kernel in flat(unit.kernels))
        return [kernel for kernel in kernels if isinstance(kernel, Collective)]


Work = dict[tuple[int, str], BlockWork]
"""Work of the blocks of a job, by what a chunk consists of and kind of step."""


def work_of(job: Job, kinds: Iterable[str]) -> Work:
    """Return the work of all blocks of some kinds; chunks of the same layers have the same."""
    work: Work = {}
    for kind in kinds:
        for stage in dict.fromkeys(job.layers.alike):
            for chunk in range(job.plan.chunks):
                key = job.layers.content(stage, chunk), kind
                if key not in work:
                    work[key] = block_work(job, stage, chunk, kind)
    return work


def block_work(job: Job, stage: int, chunk: int, kind: str) -> BlockWork:
    """Return the work of a block.

    Where a backward is split, that of the inputs fetches and that of the weights pushes. Where only
    the weight gradients of the output head wait, the layers are part of that of the inputs.
    """
    stacked, ends = job.layers.stacked(stage, chunk), kernels_of_ends(job, stage, chunk, kind)
    kind, head_alone = kind_of_layers(job, kind), kind == WEIGHT and not job.schedule.split
    if head_alone:  # whose gradient is reduced with those of the layers
        stacked = ()
    counts = Counter(stacked)
    if head_alone or (job.plan.zero < 2 and not job.offload.any):
        before, after = map(UnitWork, ends)
        layers = {layer: UnitWork(layer_kernels(job, layer, kind), layer=layer) for layer in counts}
    else:
        before, after = map(UnitWork, ends, *_moves_of_ends(job, stage, chunk, kind))
        layers = {
            layer: UnitWork(
                layer_kernels(job, layer, kind), *_moves_of_layer(job, layer, kind), layer
            )
            for layer in counts
        }
    order = stacked if kind == FORWARD else stacked[::-1]
    return BlockWork(
        (before, *(layers[layer] for layer in order), after),
        tuple((layers[layer], times) for layer, times in counts.items()),
    )


def kind_of_layers(job: Job, kind: str) -> str:
    """Return the kind of step as which layers run, whose backward may be whole in a step ``I``."""
    return BACKWARD if kind == INPUT and not job.schedule.split else kind


# --- kernels --------------------------------------------------------------------------------------


def kernels_of_ends(
    job: Job, stage: int, chunk: int, kind: str
) -> tuple[list[Kernel], list[Kernel]]:
    """Return the kernels of a block before its layers and after them."""
    first, last = job.plan.ends(stage, chunk)
    pipeline, layers = job.framework.pipeline, job.layers
    gathers = pipeline.gathers_forward if kind == FORWARD else pipeline.gathers_backward
    received = not (first if kind == FORWARD else last)
    gathered = boundary_gather(job.shard, gathers if pipeline.sharded and received else 0)
    if kind == FORWARD:
        embedding = forward(layers.embedding) if first else []
        return gathered + embedding, forward(layers.head) if last else []
    head = backward_kernels(gathered + (backward(layers.head) if last else []), kind)
    if not job.schedule.split and kind == WEIGHT:
        return head, []
    whole = kind if job.schedule.split else BACKWARD
    return head, backward_kernels(backward(layers.embedding), whole) if first else []


def layer_kernels(job: Job, stacked: StackedLayer, kind: str) -> list[Kernel]:
    """Return the kernels of a layer, recomputed ones first."""
    ops = job.layers.ops(stacked.layer)
    if kind == FORWARD:
        return forward(ops)
    repeated = [op for op in ops if op.name in stacked.recomputed and kind != WEIGHT]
    return forward(repeated) + backward_kernels(backward(ops), kind)


def backward_kernels(kernels: Iterable[Kernel], kind: str) -> list[Kernel]:
    """Return the kernels of a backward that a step of some kind runs: all, or a part."""
    if kind == INPUT:
        return of_inputs(kernels)
    return of_weights(kernels) if kind == WEIGHT else list(kernels)


# --- moves ----------------------------------------------------------------------------------------


def _moves_of_ends(
    job: Job, stage: int, chunk: int, kind: str
) -> tuple[list[Transfers], list[Transfers]]:
    """Return what is fetched by the units before and after the layers, and what they push."""
    nothing: list[Transfers] = [[], []]
    if kind == FORWARD:
        collectives = ends_moves(job, stage, chunk, FORWARD)
        copies = ends_fetch(job, stage, chunk)
        pairs = zip(copies, collectives, strict=True)
        return [[*copied, *gathered] for copied, gathered in pairs], nothing
    return nothing, nothing if kind == INPUT else [*ends_moves(job, stage, chunk, BACKWARD)]


def _moves_of_layer(job: Job, stacked: StackedLayer, kind: str) -> tuple[Transfers, Transfers]:
    """Return what is fetched for a layer, and what it pushes."""
    direction = FORWARD if kind == FORWARD else BACKWARD
    gathered = layer_fetch(job, stacked, direction)
    pushed = layer_push(job, stacked, direction)
    return (
        [*host_fetch(job, stacked, direction), *gathered] if kind != WEIGHT else [],
        [*pushed, *host_push(job, stacked, direction)] if kind != INPUT else [],
    )


# --- collectives ----------------------------------------------------------------------------------


class Calls(NamedTuple):
    """How often a rank of a stage runs each collective for one microbatch.

    Attributes
    ----------
    inner : between kernels
    moves : of weights and gradients
    all : both together
    """

    inner: Counter[Call]
    moves: Counter[Call]
    all: dict[Call, int]


def calls_by_stage(job: Job, work: Work) -> list[Calls]:
    """Return the collectives of each stage; stages of the same layers have the same."""
    of_first = {stage: _calls(job, stage, work) for stage in dict.fromkeys(job.layers.alike)}
    return [of_first[first] for first in job.layers.alike]


def _calls(job: Job, stage: int, work: Work) -> Calls:
    inner, moves = Counter[Call](), Counter[Call]()
    for chunk in range(job.plan.chunks):
        for kind in WHOLE:
            block = work[job.layers.content(stage, chunk), kind]
            before, after = block.ends
            for unit, times in ((before, 1), *block.counts, (after, 1)):
                for kernel in flat(unit.kernels):
                    if isinstance(kernel, Collective):
                        inner[Call.of(kernel)] += times
            moves.update(map(Call.of, block.moved))
    return Calls(inner, moves, dict(inner + moves))


def operations_of(calls: Iterable[Calls]) -> dict[Axis, list[str]]:
    """Return for each axis the collectives of its groups, in alphabetical order."""
    operations: dict[Axis, set[str]] = {}
    for of_stage in calls:
        for axis, operation, _ in of_stage.all:
            operations.setdefault(axis, set()).add(operation)
    return {axis: sorted(operations[axis]) for axis in sorted(operations)}
