"""Sharding: what is gathered and reduced of the weights that ranks share out, and when.

    zero 1   optimiser states shared out   reduced and gathered once a step
    zero 2   gradients as well             reduced layer by layer, after each microbatch or the last
    zero 3   weights as well               gathered for the forward of a layer, and for its backward
                                           again where they were given up in between (reshard)

Rajbhandari et al. 2020, arXiv:1910.02054; Zhao et al. 2023, arXiv:2304.11277.  Weights outside the
experts are shared out over ranks of the data axis; those of experts over the ranks that hold the
same experts.  In a hybrid, groups of `shard` ranks hold a copy each, and gradients are summed over
the copies once they are reduced within them.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from clustersim.catalog.frameworks import ShardingFacts
from clustersim.cost.compute import stream_seconds
from clustersim.program.job import Job, StackedLayer
from clustersim.program.steps import BACKWARD, FORWARD
from clustersim.program.weights import stored, times, trained_of, weight_width
from clustersim.workload.kernels import Axis, Collective
from clustersim.workload.model import Layer
from clustersim.workload.parameters import Parameters


class Held(NamedTuple):
    """Weights, or bytes of weights, that the ranks of an axis hold alike.

    Attributes
    ----------
    amount : of one rank, all of its layer
    sharers : ranks that share them out
    copies : groups of sharers
    """

    axis: Axis
    amount: float
    sharers: int
    copies: int = 1


def alike(job: Job, parameters: Parameters) -> list[Held]:
    """Return the weights of a rank by who holds them alike, those that nobody shares left out."""
    plan = job.plan
    dense = Held("data", parameters.dense(plan.tensor), plan.sharers, plan.copies // plan.sharers)
    experts = parameters.of_experts(plan.expert, plan.expert_tensor)
    found = [dense, Held("expert-data", experts, plan.expert_copies)]
    return [each for each in found if each.amount and each.sharers * each.copies > 1]


def gathers(job: Job, kind: str) -> bool:
    """Return whether blocks gather the weights of their layers.

    Weights that are kept from forward to backward are gathered in the forward only; those that a
    pipeline keeps until the last backward of a step, once it is over.
    """
    facts = job.framework.sharding
    if job.plan.zero < 3 or facts is None:
        return False
    if job.plan.pipeline > 1 and not job.plan.reshard and _kept_in_pipeline(facts):
        return False
    return kind == FORWARD or job.plan.reshard


def _kept_in_pipeline(facts: ShardingFacts) -> bool:
    return facts.kept_in_pipeline is not None and facts.kept_in_pipeline.value


def reduces(job: Job) -> bool:
    """Return whether blocks reduce the gradients of their layers, each when it is made."""
    facts = job.framework.sharding
    if job.plan.zero < 2 or facts is None:
        return False
    return facts.each_microbatch.value or job.plan.microbatches == 1


def layer_fetch(job: Job, stacked: StackedLayer, kind: str) -> list[Collective]:
    """Return the gathers that a layer waits for."""
    if not gathers(job, kind):
        return []
    facts = job.framework.sharding
    twice = facts is not None and facts.again is not None and facts.again.value
    times = 2 if twice and kind == BACKWARD and stacked.recomputed else 1
    return [*_gathers(job, stored(job, stacked.layer), _calls(job))] * times


def layer_push(job: Job, layer: Layer, kind: str) -> list[Collective]:
    """Return the reductions that follow a layer."""
    if kind != BACKWARD or not reduces(job):
        return []
    weights, facts = trained_of(job, layer), job.framework.sharding
    found = [*_reductions(job, weights, _calls(job))]
    if facts is not None and facts.small is not None:
        norms = Parameters(whole=weights.whole)
        found += _reductions(job, norms, facts.small.value)
    return found


def ends_moved(job: Job, stage: int, chunk: int, kind: str) -> list[list[Collective]]:
    """Return what the part of a block before its layers moves, and the part after them.

    What stands outside of the layers is gathered for the forward and stays until the backward, in
    which its gradients are reduced: PyTorch's FSDP does not give up its root in between.
    """
    below, above = job.outside(stage, chunk)
    if kind == FORWARD:
        wanted, width = gathers(job, FORWARD), weight_width(job)
        return [[*_gathers(job, times(width, end), 1)] if wanted else [] for end in (below, above)]
    wanted = reduces(job) and job.finetune is None
    return [[*_reductions(job, end, 1)] if wanted else [] for end in (above, below)]


def share_seconds(job: Job, moved: Iterable[Collective]) -> float:
    """Return what collectives take beside the network [s].

    The host prepares the shares of all ranks one by one, the device copies them to and from a
    buffer in which they lie together.
    """
    facts, plan = job.framework.sharding, job.plan
    if facts is None:
        return 0.0
    ranks = {"data": plan.sharers, "expert-data": plan.expert_copies}
    each = 0.0 if facts.host_each is None else facts.host_each.value
    shares, copied = 0.0, 0.0
    for one in moved:
        shares += ranks.get(one.axis, plan.copies // plan.sharers)
        fact = facts.gather_copied if one.operation == "all-gather" else facts.reduce_copied
        copied += 0.0 if fact is None else fact.value * one.nbytes
    return each * shares + stream_seconds(copied, job.cluster.accelerator)


def _calls(job: Job) -> int:
    facts = job.framework.sharding
    return 1 if facts is None or facts.calls is None else facts.calls.value


def _gathers(job: Job, nbytes: Parameters, calls: int) -> Iterator[Collective]:
    for each in alike(job, nbytes):
        if each.sharers > 1:
            one = Collective("weights", "all-gather", each.amount / calls, each.axis)
            yield from [one] * calls


def _reductions(job: Job, weights: Parameters, calls: int) -> Iterator[Collective]:
    facts = job.framework.sharding
    assert facts is not None
    for each in alike(job, times(facts.reduce.value, weights)):
        nbytes = each.amount / calls
        if each.sharers > 1:
            yield from [Collective("gradients", "reduce-scatter", nbytes, each.axis)] * calls
        if each.copies > 1:
            yield from [
                Collective("gradients", "all-reduce", nbytes / each.sharers, "copies")
            ] * calls
