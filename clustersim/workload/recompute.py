"""Activation recomputation: which operations of which layers are recomputed in the backward.

none        all activations are saved
selective   the attention core is recomputed: cheap to compute, large to save
full        only the input of a layer is saved, and its whole forward is recomputed
ops         the listed operations are recomputed
"""

from collections.abc import Iterable
from dataclasses import dataclass

from clustersim.workload.ops import Op, op_names

SELECTIVE = frozenset({"attention"})
"""Operations of selective recomputation. Korthikanti et al. 2022, section 5."""


@dataclass(frozen=True)
class Recompute:
    """A setting of activation recomputation.

    Attributes
    ----------
    mode : ``none``, ``selective``, ``full`` or ``ops``
    ops : names of operations, for mode ``ops``
    every : interval between recomputed layers of a stage
    stages : stages with recomputation; None for all
    """

    mode: str = "none"
    ops: frozenset[str] = frozenset()
    every: int = 1
    stages: frozenset[int] | None = None

    @property
    def outputs(self) -> bool:
        """Whether the outputs of recomputed operations are saved.

        Checkpoints of selective recomputation save them. Listed operations are recomputed when
        their output is needed: Megatron-Core, ``tensor_parallel/random.py``,
        ``CheckpointWithoutOutput``.
        """
        return self.mode != "ops"

    def applies(self, stage: int, place: int) -> bool:
        """Return whether the layer at index `place` of a stage is recomputed."""
        selected = self.stages is None or stage in self.stages
        return self.mode != "none" and selected and place % self.every == 0

    def of(self, ops: Iterable[Op]) -> frozenset[str]:
        """Return the recomputed operations of a recomputed layer."""
        return {
            "none": lambda: frozenset[str](),
            "selective": lambda: SELECTIVE,
            "full": lambda: op_names(ops),
            "ops": lambda: self.ops,
        }[self.mode]()


NONE = Recompute()
