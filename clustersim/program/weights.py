"""Weights of layers and stages: which are trained, and how many bytes they are stored in.

A model that is trained as a whole stores all weights as its framework does; with adapters, the
frozen weights have the bits of their quantisation.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from clustersim.plan.parallelism import Plan
from clustersim.program.layers import Layers, StackedLayer
from clustersim.workload.finetune import Finetune, Frozen, frozen_bytes, trainable
from clustersim.workload.model import Layer, Transformer
from clustersim.workload.parameters import (
    Parameters,
    embedding_parameters,
    head_parameters,
    layer_parameters,
)


class Weights:
    """Parameters of the layers and stages of a job.

    Parameters
    ----------
    finetune : adapters that are trained instead of the model; None without any
    frozen_ends : ends of the model that are not trained where its layers are
    stored_bytes : of a weight that is not quantised [B]
    gathered_bytes : of such a weight as it is gathered or copied [B]
    """

    def __init__(
        self,
        model: Transformer,
        plan: Plan,
        layers: Layers,
        finetune: Finetune | None,
        frozen_ends: frozenset[str],
        stored_bytes: float,
        gathered_bytes: float,
    ) -> None:
        self._model, self._plan, self._layers = model, plan, layers
        self._finetune, self._frozen_ends = finetune, frozen_ends
        kinds = model.kinds
        self._whole = {layer: layer_parameters(model, layer) for layer in kinds}
        self._trained = {layer: trainable(model, layer, finetune) for layer in kinds}
        self._trained_of_stage: dict[int, Parameters] = {}
        self._frozen_of_stage: dict[int, Frozen] = {}
        self._stored_bytes = stored_bytes
        self.gathered_bytes = gathered_bytes

    # --- of a stage ------------------------------------------------------------------------------

    def of_stage(self, stage: int) -> Parameters:
        """Return the parameters of a stage, not yet divided over its ranks."""
        return self._total(self._whole, stage).plus(self.ends_of_stage(stage))

    def _total(self, of_layer: Mapping[Layer, Parameters], stage: int) -> Parameters:
        """Return the sum over the layers of a stage."""
        total = Parameters()
        for layer, count in Counter(self._layers.of_stage(stage)).items():
            total = total.plus(of_layer[layer].scaled(count))
        return total

    def outside_layers(self, stage: int, chunk: int) -> tuple[Parameters, Parameters]:
        """Return the parameters of a chunk before its layers and after them."""
        first, last = self._plan.ends(stage, chunk)
        before = embedding_parameters(self._model) if first else Parameters()
        alone = not self._plan.wired.ends_meet
        return before, head_parameters(self._model, alone=alone) if last else Parameters()

    def trained_outside(self, stage: int, chunk: int) -> tuple[Parameters, Parameters]:
        """Return those of `outside_layers` that are trained; a frozen head keeps its norm."""
        if self._finetune is not None:
            return Parameters(), Parameters()
        before, after = self.outside_layers(stage, chunk)
        return (
            Parameters() if "embedding" in self._frozen_ends else before,
            Parameters(whole=after.whole) if "logits" in self._frozen_ends else after,
        )

    def ends_of_stage(self, stage: int, *, trained: bool = False) -> Parameters:
        """Return the parameters of a stage outside its layers, or those that are trained."""
        ends = self.trained_outside if trained else self.outside_layers
        total = Parameters()
        for chunk in range(self._plan.chunks):
            for end in ends(stage, chunk):
                total = total.plus(end)
        return total

    def trained(self, stage: int) -> Parameters:
        """Return the trained parameters of a stage, as `of_stage`: without frozen ones."""
        first = self._layers.alike[stage]
        if first not in self._trained_of_stage:
            of_layers = self._total(self._trained, first)
            ends = self.ends_of_stage(first, trained=True)
            self._trained_of_stage[first] = of_layers.plus(ends)
        return self._trained_of_stage[first]

    def chunk_share(self, stage: int, chunk: int) -> float:
        """Return the share of a stage's trained parameters that one of its chunks holds."""

        def amount(layers: Iterable[StackedLayer]) -> float:
            trained = (self.trained_of(stacked.layer) for stacked in layers)
            return sum(self.on_rank(parameters) for parameters in trained)

        own = amount(self._layers.stacked(stage, chunk))
        own += sum(self.on_rank(end) for end in self.trained_outside(stage, chunk))
        whole = self.on_rank(self.trained(stage))
        return own / whole if whole else 1 / self._plan.chunks

    def frozen(self, stage: int) -> Frozen:
        """Return the bytes of the parameters of a stage that are not trained."""
        first = self._layers.alike[stage]
        if first not in self._frozen_of_stage:
            self._frozen_of_stage[first] = self._frozen(first)
        return self._frozen_of_stage[first]

    def _frozen(self, stage: int) -> Frozen:
        total, width = Frozen(), self._stored_bytes
        for layer, count in Counter(self._layers.of_stage(stage)).items():
            frozen = frozen_bytes(self._model, layer, self._finetune, width)
            total = total.plus(frozen.scaled(count))
        trained = self.ends_of_stage(stage, trained=True)
        ends = self.ends_of_stage(stage).plus(trained.scaled(-1))
        return total.plus(Frozen(ends.scaled(width)))

    # --- of a layer ------------------------------------------------------------------------------

    def trained_of(self, layer: Layer) -> Parameters:
        """Return the parameters of a layer that are trained."""
        return self._trained[layer]

    def gathered_of(self, layer: Layer) -> Parameters:
        """Return the bytes in which the weights of a layer are gathered and copied.

        Constants of quantised weights stay on every device and are not included.
        """
        width = self.gathered_bytes
        frozen = frozen_bytes(self._model, layer, self._finetune, width).weights
        return frozen.plus(self.trained_of(layer).scaled(width))

    # --- of a rank -------------------------------------------------------------------------------

    def on_rank(self, parameters: Parameters, *, sharded: bool = False) -> float:
        """Return the amount of some parameters, or of their bytes, on one rank.

        Parameters
        ----------
        sharded : whether ZeRO shards them over the ranks that hold the same parameters
        """
        return on_rank(self._plan, parameters, sharded=sharded)


def on_rank(plan: Plan, parameters: Parameters, *, sharded: bool = False) -> float:
    """Return the amount of some parameters on one rank of a layout, as `Weights.on_rank`."""
    dense = parameters.dense(plan.tensor)
    experts = parameters.of_experts(plan.expert, plan.expert_tensor)
    if not sharded:
        return dense + experts
    copies = plan.expert_copies * plan.sharers // plan.copies
    return dense / plan.sharers + experts / max(1, copies)
