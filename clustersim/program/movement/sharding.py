"""Sharding: which collectives gather and reduce the weights that ranks share, and when.

    zero 1   optimiser states sharded   reduced and gathered once a step
    zero 2   gradients as well          reduced layer by layer, after each microbatch or the last
    zero 3   weights as well            gathered for the forward of a layer, and for its backward
                                        again where they were released in between (reshard)

Rajbhandari et al. 2020, arXiv:1910.02054; Zhao et al. 2023, arXiv:2304.11277.  Weights outside the
experts are sharded over ranks of the data axis; those of experts over the ranks that hold the same
experts.  In hybrid sharding, groups of `shard` ranks hold a copy each, and gradients are summed
over the copies once they are reduced within them.

Where the factors of adapters are units of their own, a limit of two units in flight delays gathers:

    forward of a layer    ... | up | A | B |   activation | down | A |   B |    next layer
                                           ^ its copy from the host    ^ its gather

PyTorch's FSDP keeps two units in flight: the host waits for the release of an earlier unit before
it gathers another one (``_limiter_utils.py``, ``_FreeEventQueue``).  With layers alone a layer is
gathered while the previous one is computed.  Factors of adapters that are wrapped as units count as
much as layers, so that a layer is gathered when the last factors of the previous one are done.  Its
copy from the host precedes the wait (``_runtime_utils.py``, ``_unshard``), but the host has waited
for the factor before.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from clustersim.catalog.records.frameworks import ShardingFacts
from clustersim.cost.kernels.products import stream_seconds
from clustersim.program.job import Job
from clustersim.program.layers import StackedLayer
from clustersim.timeline import BACKWARD, FORWARD
from clustersim.workload.kernels import Axis, Collective, Gemm, Kernel, flat
from clustersim.workload.model import Layer
from clustersim.workload.ops import forward
from clustersim.workload.parameters import Parameters


class Replicated(NamedTuple):
    """Weights, or bytes of weights, that the ranks of an axis hold in common.

    Attributes
    ----------
    amount : of one rank, all of its layer
    sharers : ranks that shard them
    copies : groups of sharers
    """

    axis: Axis
    amount: float
    sharers: int
    copies: int = 1


def replicated(job: Job, parameters: Parameters) -> list[Replicated]:
    """Return the weights of a rank by the axis over which they are shared, if they are."""
    plan = job.plan
    dense = parameters.dense(plan.tensor)
    experts = parameters.of_experts(plan.expert, plan.expert_tensor)
    groups = [
        Replicated("data", dense, plan.sharers, plan.copies // plan.sharers),
        Replicated("expert-data", experts, plan.expert_copies),
    ]
    return [group for group in groups if group.amount and group.sharers * group.copies > 1]


def layer_fetch(job: Job, stacked: StackedLayer, kind: str) -> list[Collective]:
    """Return the gathers that a layer waits for."""
    sharding = job.framework.sharding
    if sharding is None or kind not in job.gathering_kinds:
        return []
    twice = sharding.recompute_gathers and kind == BACKWARD and stacked.recomputed
    gathered = job.weights.gathered_of(stacked.layer)
    if job.adapter_units:
        gathered = gathered.plus(_bytes_of_factors(job, stacked.layer).scaled(-1))
    gathers = [*_gathers(job, gathered, sharding.calls)]
    return gathers * (2 if twice else 1)


def layer_push(job: Job, stacked: StackedLayer, kind: str) -> list[Collective]:
    """Return the collectives that no unit waits for: gathers of factors, and reductions."""
    return [*_factors_gathered(job, stacked, kind), *_layer_reductions(job, stacked.layer, kind)]


def _factors_gathered(job: Job, stacked: StackedLayer, kind: str) -> list[Collective]:
    """Return the gathers of the factors of adapters that are units of their own.

    Each is gathered while the product before its own is computed, so that no layer waits for them:
    forward, in the recomputation and backward.
    """
    if not job.adapter_units or kind not in job.gathering_kinds:
        return []
    times = 2 if kind == BACKWARD and stacked.recomputed else 1
    gathered = _bytes_of_factors(job, stacked.layer)
    return [*_gathers(job, gathered, _factors(job, stacked.layer))] * times


def _bytes_of_factors(job: Job, layer: Layer) -> Parameters:
    """Return the bytes in which the adapters of a layer are gathered [B]."""
    return job.weights.trained_of(layer).scaled(job.weights.gathered_bytes)


def _layer_reductions(job: Job, layer: Layer, kind: str) -> list[Collective]:
    """Return the reductions that follow a layer."""
    sharding = job.framework.sharding
    if sharding is None or kind != BACKWARD or not job.reduces_in_blocks:
        return []
    weights = job.weights.trained_of(layer)
    calls = _factors(job, layer) if job.adapter_units else sharding.calls
    reductions = [*_reductions(job, sharding, weights, calls)]
    if sharding.small:
        norms = Parameters(whole=weights.whole)
        reductions += _reductions(job, sharding, norms, sharding.small)
    return reductions


def ends_moves(job: Job, stage: int, chunk: int, kind: str) -> list[list[Collective]]:
    """Return the collectives of the units before and after the layers of a block.

    Weights outside of the layers are gathered for the forward and stay until the backward, in
    which their gradients are reduced: PyTorch's FSDP does not release its root in between.
    """
    before, after = job.weights.outside_layers(stage, chunk)
    if kind == FORWARD:
        if FORWARD not in job.gathering_kinds:
            return [[], []]
        width = job.weights.gathered_bytes
        return [[*_gathers(job, end.scaled(width), 1)] for end in (before, after)]
    sharding = job.framework.sharding
    if sharding is None or not job.reduces_in_blocks:
        return [[], []]
    before, after = job.weights.trained_outside(stage, chunk)
    return [[*_reductions(job, sharding, end, 1)] for end in (after, before)]


def local_seconds(job: Job, collectives: Iterable[Collective]) -> float:
    """Return the time of collectives outside the network [s].

    The host prepares the shares of all ranks one by one; the device copies them to and from a
    contiguous buffer.
    """
    sharding, plan = job.framework.sharding, job.plan
    if sharding is None:
        return 0.0
    ranks = {"data": plan.sharers, "expert-data": plan.expert_copies}
    shares, copied = 0.0, 0.0
    for collective in collectives:
        shares += ranks.get(collective.axis, plan.copies // plan.sharers)
        gathers = collective.operation == "all-gather"
        copies = sharding.gather_copied if gathers else sharding.reduce_copied
        copied += copies * collective.nbytes
    return sharding.host_each * shares + stream_seconds(copied, job.cluster.accelerator)


def _gathers(job: Job, nbytes: Parameters, calls: int) -> Iterator[Collective]:
    for group in replicated(job, nbytes):
        if group.sharers > 1:
            gather = Collective("weights", "all-gather", group.amount / calls, group.axis)
            yield from [gather] * calls


def _reductions(
    job: Job, sharding: ShardingFacts, weights: Parameters, calls: int
) -> Iterator[Collective]:
    for group in replicated(job, weights.scaled(sharding.reduce)):
        nbytes = group.amount / calls
        if group.sharers > 1:
            yield from [Collective("gradients", "reduce-scatter", nbytes, group.axis)] * calls
        if group.copies > 1:
            summed = nbytes / group.sharers
            yield from [Collective("gradients", "all-reduce", summed, "copies")] * calls


# --- factors of adapters as units -----------------------------------------------------------------


class Tails(NamedTuple):
    """The kernels of a layer that follow the request of the next one.

    Attributes
    ----------
    gather, copy : after that of its gather, and of its copy from the host
    """

    gather: Sequence[Kernel]
    copy: Sequence[Kernel]


def _factors(job: Job, layer: Layer) -> int:
    """Return the factors of the adapters of a layer."""
    return len(_last_uses([*flat(forward(job.layers.ops(layer)))]))


def tails(kernels: Iterable[Kernel], kind: str) -> Tails:
    """Return what follows the requests of the next layer: all where there are few adapters.

    In the forward the host requests the next layer after this one, and waits for the last factor
    but one.  In the backward it requests it with the last factor, whose predecessor in the forward
    is that layer (``_exec_order_utils.py``, ``get_handle_to_backward_prefetch``), and waits for the
    last but two.

    Parameters
    ----------
    kernels : of the layer, with recomputed ones first
    """
    chain = [*kernels]
    used = _last_uses(chain)
    waits = 2 if kind == FORWARD else 3

    def after(last: int) -> Sequence[Kernel]:
        return chain[used[-last] + 1 :] if last <= len(used) else chain

    return Tails(after(waits), after(waits + 1))


def _last_uses(kernels: Sequence[Kernel]) -> list[int]:
    """Return the places of the last uses of factors in a chain of kernels."""
    return [
        index for index, kernel in enumerate(kernels) if isinstance(kernel, Gemm) and kernel.factor
    ]
