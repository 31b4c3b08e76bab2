"""Offloading: what is copied between device and host around each layer, and once a step.

    forward    weights from the host | layer | what it keeps to the host
    backward   weights and what it kept from the host | layer | gradients to the host
    tail       optimiser on the host | new weights to the device

A rank copies its own share of what sharded data parallelism shares out; the rest comes from the
other ranks.
"""

from clustersim.cost.host import HostRate, host_latency, host_optimiser_seconds, host_rate
from clustersim.program.job import Job, StackedLayer
from clustersim.program.steps import BACKWARD, FORWARD
from clustersim.program.weights import held, stored, times, trained_of, weight_width
from clustersim.workload.offload import HostCopy
from clustersim.workload.parameters import Parameters


class HostLink:
    """What copies take on a cluster whose devices all copy at once."""

    def __init__(self, job: Job) -> None:
        self._rate: HostRate = host_rate(job.cluster)
        self._latency = host_latency(job.cluster)

    def seconds(self, copy: HostCopy) -> float:
        """Return the time of a copy [s]."""
        rate = self._rate.to_host if copy.direction == "to-host" else self._rate.from_host
        return self._latency + copy.nbytes / rate


def host_fetch(job: Job, stacked: StackedLayer, kind: str) -> list[HostCopy]:
    """Return what comes from the host before a layer."""
    found = []
    if job.offload.parameters and (kind == FORWARD or job.plan.reshard):
        found.append(HostCopy("weights", _share(job, stored(job, stacked.layer)), "from-host"))
    if job.offload.activations and kind == BACKWARD:
        found.append(HostCopy("activations", job.kept(stacked), "from-host"))
    return found


def ends_fetch(job: Job, stage: int, chunk: int, kind: str) -> list[list[HostCopy]]:
    """Return what comes from the host below and above the layers, where it stays until the end."""
    if kind == BACKWARD or not job.offload.parameters:
        return [[], []]
    width = weight_width(job)
    shares = [_share(job, times(width, end)) for end in job.outside(stage, chunk)]
    return [[HostCopy("weights", share, "from-host")] if share else [] for share in shares]


def host_push(job: Job, stacked: StackedLayer, kind: str, *, reduced: bool) -> list[HostCopy]:
    """Return what goes to the host behind a layer.

    Parameters
    ----------
    reduced : whether the layer's gradients are reduced as soon as they are made
    """
    if kind == FORWARD:
        kept_there = job.offload.activations
        return [HostCopy("activations", job.kept(stacked), "to-host")] if kept_there else []
    if not (job.offload.host_optimiser and reduced):
        return []
    share = _share(job, trained_of(job, stacked.layer))
    return [HostCopy("gradients", _gradient(job) * share, "to-host")]


def host_tail(job: Job, stage: int, *, reduced: bool) -> float:
    """Return the time of the optimiser on the host, with the copies around it [s].

    Gradients that were not sent layer by layer go there first; new weights come back where they
    live on the device.
    """
    facts, link = job.framework.optimiser, HostLink(job)
    owned = _share(job, job.trained(stage))
    each = facts.updated if facts.host_updated is None else facts.host_updated
    seconds = host_optimiser_seconds(job.cluster, each.value * owned)
    if not reduced:
        seconds += link.seconds(HostCopy("gradients", _gradient(job) * owned, "to-host"))
    if not job.offload.parameters:
        seconds += link.seconds(HostCopy("weights", job.shard.width * owned, "from-host"))
    return seconds


def _share(job: Job, parameters: Parameters) -> float:
    """Return the share of a rank in weights, or in bytes of weights, of a layer or stage."""
    return held(job, parameters, shared=job.plan.zero >= 1)


def _gradient(job: Job) -> float:
    """Return the bytes of a gradient on its way to the host [B]."""
    sharding = job.framework.sharding
    return job.gradient_bytes if sharding is None else sharding.reduce.value
