"""How the layers of a model are divided: different chunks and stages, and where each occurs.

Most chunks of a pipeline hold the same layers, so that a bound needs the time of a few of them.
"""

from functools import cached_property
from itertools import accumulate

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.plan.parallelism import Plan
from clustersim.records import dataclass
from clustersim.workload.model import Layer
from clustersim.workload.ops import Recompute


@dataclass(frozen=True, eq=False)
class Division:
    """The layers of all chunks of a pipeline.

    Attributes
    ----------
    layers, repeated : of each different chunk by kind of layer: all, and recomputed ones [count]
    first, last : whether a chunk holds the embedding, and whether it holds the logits, as 0 or 1
    number : which of the different chunks each chunk of each stage is
    share : of the microbatches of a replica that goes through each chunk
    chains : whether a microbatch passes the first chunks of all stages in their order
    """

    layers: Floats
    repeated: Floats
    first: Floats
    last: Floats
    number: Integers
    share: float
    chains: bool

    @property
    def stages(self) -> int:
        """Stages of the pipeline."""
        return len(self.number)

    @cached_property
    def content(self) -> tuple[bytes, ...]:
        """What the different chunks hold, as a key."""
        held = self.layers, self.repeated, self.first, self.last
        return tuple(each.tobytes() for each in held)

    @cached_property
    def on_stage(self) -> Floats:
        """How many of each different chunk, in rows, each stage runs for one microbatch."""
        rows = np.zeros((len(self.layers), self.stages))
        for stage, numbers in enumerate(self.number.tolist()):
            for number in numbers:
                rows[number, stage] += self.share
        return rows

    @cached_property
    def leading(self) -> Floats:
        """Which of the different chunks, in rows, the first chunk of each stage is, as 0 or 1."""
        rows = np.zeros((len(self.layers), self.stages))
        rows[self.number[:, 0], np.arange(self.stages)] = 1.0
        return rows

    @cached_property
    def stage_kinds(self) -> "StageKinds":
        """The different stages by the parameters that they hold."""
        held = np.stack([self.layers[of].sum(axis=0) for of in self.number])
        ends = np.stack([(self.first[of].max(), self.last[of].max()) for of in self.number])
        rows = np.concatenate([held, ends], axis=1)
        kinds, number = np.unique(rows, axis=0, return_inverse=True)
        return StageKinds(kinds[:, :-2], kinds[:, -2], kinds[:, -1], number.ravel())


@dataclass(frozen=True, eq=False)
class StageKinds:
    """The different stages of a pipeline by the parameters that they hold.

    Attributes
    ----------
    layers : by kind of layer [count]
    first, last : whether they hold the embedding, and whether they hold the logits, as 0 or 1
    number : which of the different stages each stage is
    """

    layers: Floats
    first: Floats
    last: Floats
    number: Integers


def divide_layers(plan: Plan, stack: tuple[Layer, ...], recompute: Recompute) -> Division:
    """Return how a plan divides the layers of a model."""
    kinds = {layer: number for number, layer in enumerate(dict.fromkeys(stack))}
    of_layer = [kinds[layer] for layer in stack]
    known: dict[tuple[object, ...], int] = {}
    number = np.zeros((plan.pipeline, plan.chunks), dtype=np.int64)
    for stage in range(plan.pipeline):
        owned = [plan.layers_of(stage, chunk) for chunk in range(plan.chunks)]
        begins = [0, *accumulate(map(len, owned))]
        for chunk, layers in enumerate(owned):
            counts, repeated = [0] * len(kinds), [0] * len(kinds)
            for place, layer in enumerate(layers, begins[chunk]):
                counts[of_layer[layer]] += 1
                repeated[of_layer[layer]] += recompute.applies(stage, place)
            row = (*counts, *repeated, *plan.ends(stage, chunk))
            number[stage, chunk] = known.setdefault(row, len(known))
    rows = np.array([*known], dtype=np.float64)
    count = len(kinds)
    return Division(
        layers=rows[:, :count],
        repeated=rows[:, count : 2 * count],
        first=rows[:, -2],
        last=rows[:, -1],
        number=number,
        share=1 / plan.wired.copies,
        chains=plan.wiring != "mirrored",
    )
