"""Offloading: what is copied between device and host for each layer, and once a step.

    forward    weights from the host | layer | kept activations to the host
    backward   weights and kept activations from the host | layer | gradients to the host
    tail       optimiser on the host | new weights to the device

A rank copies its own share of what sharded data parallelism distributes; it gathers the rest from
the other ranks.
"""

from clustersim.cost.host import HostRate, host_optimiser_seconds, host_rate
from clustersim.program.job import Job
from clustersim.program.layers import StackedLayer
from clustersim.timeline import BACKWARD, FORWARD
from clustersim.workload.ops import HostCopy
from clustersim.workload.parameters import Parameters


class HostLink:
    """Time of copies on a cluster whose devices all copy at once."""

    def __init__(self, job: Job) -> None:
        self._rate: HostRate = host_rate(job.cluster)

    def seconds(self, copy: HostCopy) -> float:
        """Return the time of a copy [s]."""
        rate = self._rate.to_host if copy.direction == "to-host" else self._rate.from_host
        return self._rate.latency + copy.nbytes / rate


def host_fetch(job: Job, stacked: StackedLayer, kind: str) -> list[HostCopy]:
    """Return the copies from the host before a layer."""
    copies = []
    if job.offload.parameters and (kind == FORWARD or job.plan.reshard):
        share = _share(job, job.weights.gathered_of(stacked.layer))
        copies.append(HostCopy("weights", share, "from-host"))
    if job.offload.activations and kind == BACKWARD:
        copies.append(HostCopy("activations", job.layers.kept(stacked), "from-host"))
    return copies


def ends_fetch(job: Job, stage: int, chunk: int) -> list[list[HostCopy]]:
    """Return the copies from the host before and after the layers, which stay until the end."""
    if not job.offload.parameters:
        return [[], []]
    weights = job.weights
    ends = weights.outside_layers(stage, chunk)
    shares = [_share(job, end.scaled(weights.gathered_bytes)) for end in ends]
    return [[HostCopy("weights", share, "from-host")] if share else [] for share in shares]


def host_push(job: Job, stacked: StackedLayer, kind: str) -> list[HostCopy]:
    """Return the copies to the host after a layer."""
    if kind == FORWARD:
        if not job.offload.activations:
            return []
        return [HostCopy("activations", job.layers.kept(stacked), "to-host")]
    if not (job.offload.host_optimiser and _reduced(job)):
        return []
    share = _share(job, job.weights.trained_of(stacked.layer))
    return [HostCopy("gradients", _gradient_bytes(job) * share, "to-host")]


def host_seconds(job: Job, stacked: StackedLayer) -> float:
    """Return how long the host copies for a layer and microbatch, both directions at once [s]."""
    link, seconds = HostLink(job), 0.0
    for kind in (FORWARD, BACKWARD):
        busy = {"from-host": 0.0, "to-host": 0.0}
        for copy in (*host_fetch(job, stacked, kind), *host_push(job, stacked, kind)):
            busy[copy.direction] += link.seconds(copy)
        seconds += max(busy.values())
    return seconds


def host_tail(job: Job, trained: Parameters) -> float:
    """Return the time of the optimiser on the host for a stage, with its copies [s].

    Gradients that were not sent layer by layer are copied first; new weights are copied to the
    device if they are kept there.

    Parameters
    ----------
    trained : parameters of the stage
    """
    link, owned = HostLink(job), _share(job, trained)
    facts = job.framework.optimiser
    updated = facts.updated if facts.host_updated is None else facts.host_updated
    seconds = host_optimiser_seconds(job.cluster, updated * owned)
    if not _reduced(job):
        seconds += link.seconds(HostCopy("gradients", _gradient_bytes(job) * owned, "to-host"))
    if not job.offload.parameters:
        seconds += link.seconds(HostCopy("weights", job.shard.width * owned, "from-host"))
    return seconds


def _reduced(job: Job) -> bool:
    """Return whether the gradients of a layer are reduced as soon as they are computed."""
    return job.reduces_in_blocks or job.plan.copies == 1


def _share(job: Job, parameters: Parameters) -> float:
    """Return the share of a rank in weights, or in bytes of weights, of a layer or stage."""
    return job.weights.on_rank(parameters, sharded=job.plan.zero >= 1)


def _gradient_bytes(job: Job) -> float:
    """Return the bytes of a gradient in a copy to the host [B]."""
    sharding = job.framework.sharding
    return job.reduced_bytes if sharding is None else sharding.reduce
