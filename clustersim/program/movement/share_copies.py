"""Shares of new weights that the host copies one by one once they are gathered.

    for each tensor of the stage, for each rank that owns a share of it: one copy

The device waits meanwhile: nothing else is left to do in a step.
"""

from clustersim.program.job import Job

ENDS = 3
"""Tensors of embedding, final norm and logits."""


def copying_seconds(job: Job, stage: int) -> float:
    r"""Return what the host takes to copy gathered shares into the weights of a stage [s].

    .. math:: h N (n L + n_e)

    with h for each copy, N ranks that share the states, L layers of n tensors, and those of the
    ends that the stage has. Hugging Face nanotron, ``distributed.py``, ``all_gather_coalesced``,
    ``update_output``, copies them in a loop.
    """
    plan, each = job.plan, job.framework.gradients.share_each
    if each is None or not 1 <= plan.zero <= 2 or plan.sharers == 1:
        return 0.0
    layers = sum(len(plan.layers_of(stage, chunk)) for chunk in range(plan.chunks))
    ends = ENDS if stage in (0, plan.pipeline - 1) else 0
    return each.value * plan.sharers * (_tensors(job) * layers + ends)


def _tensors(job: Job) -> int:
    """Return the weights of a layer: one product ahead of the core and one behind, MLP, norms."""
    merged = job.framework.kernels.gate_merged
    apart = job.model.gated and merged is not None and not merged.value
    return 2 + (3 if apart else 2) + 2
