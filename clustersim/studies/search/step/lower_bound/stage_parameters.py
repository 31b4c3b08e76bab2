"""The trained parameters of the stages of a job, from which their states and their tails follow."""

from collections.abc import Sequence

from clustersim.program.job import Job
from clustersim.workload.finetune import trainable
from clustersim.workload.parameters import Parameters, embedding_parameters, head_parameters


class StageParameters:
    """The trained parameters of stages.

    Parameters
    ----------
    job : of one layout; those of equal degrees and of equal ends have the same
    """

    def __init__(self, job: Job) -> None:
        self._layers = [trainable(job.model, layer, job.finetune) for layer in job.model.kinds]
        self._embedding, self._logits = _ends(job)

    def of(self, layers: Sequence[float], first: float, last: float) -> Parameters:
        """Return those of a stage, by kind of layer and with its ends, as `StageKinds`."""
        total = self._embedding.scaled(first).plus(self._logits.scaled(last))
        for count, layer in zip(layers, self._layers, strict=True):
            total = total.plus(layer.scaled(count))
        return total


def _ends(job: Job) -> tuple[Parameters, Parameters]:
    """Return the trained parameters of the embedding and of the logits, as in `program.weights`."""
    if job.finetune is not None:
        return Parameters(), Parameters()
    before = embedding_parameters(job.model)
    after = head_parameters(job.model, alone=not job.plan.wired.ends_meet)
    return (
        Parameters() if "embedding" in job.frozen_ends else before,
        Parameters(whole=after.whole) if "logits" in job.frozen_ends else after,
    )
