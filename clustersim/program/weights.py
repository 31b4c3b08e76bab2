"""Weights of a layer or a stage: which are trained, and how many bytes they are stored in.

A model that is trained as a whole stores all of them as its framework does; beside adapters the
frozen ones take their bits.
"""

from clustersim.program.job import Job
from clustersim.workload.finetune import frozen_bytes, trainable
from clustersim.workload.model import Layer
from clustersim.workload.parameters import Parameters


def trained_of(job: Job, layer: Layer) -> Parameters:
    """Return the parameters of a layer that are trained."""
    return trainable(job.model, layer, job.finetune)


def stored(job: Job, layer: Layer) -> Parameters:
    """Return the bytes that the weights of a layer are gathered and copied in, by who shares them.

    Constants of quantised weights stay on every device and are not among them.
    """
    width = weight_width(job)
    trained = trained_of(job, layer)
    frozen = frozen_bytes(job.model, layer, job.finetune, width).weights
    return frozen.plus(times(width, trained))


def times(factor: float, parameters: Parameters) -> Parameters:
    """Return each kind of parameters times a factor, such as their width [B]."""
    return Parameters(*(factor * count for count in parameters))


def weight_width(job: Job) -> float:
    """Return the bytes of a weight that is not quantised, as it is gathered [B]."""
    sharding = job.framework.sharding
    return float(job.shard.width) if sharding is None else sharding.gather.value


def held(job: Job, parameters: Parameters, *, shared: bool) -> float:
    """Return what one rank has of parameters (or of their bytes), shared out by ZeRO or not."""
    plan = job.plan
    dense = parameters.dense(plan.tensor)
    experts = parameters.of_experts(plan.expert, plan.expert_tensor)
    if not shared:
        return dense + experts
    copies = plan.expert_copies * plan.sharers // plan.copies
    return dense / plan.sharers + experts / max(1, copies)
