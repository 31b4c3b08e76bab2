"""Recomputation: which operations of which layers are run again in the backward.

none        everything that the backward needs is kept
selective   the attention core is run again: cheap to compute, large to keep
full        only the input of a layer is kept, and its whole forward is run again
ops         those that are named are run again
"""

from collections.abc import Iterable
from dataclasses import dataclass

from clustersim.workload.ops import Op, names

SELECTIVE = frozenset({"attention"})
"""What selective recomputation runs again. Korthikanti et al. 2022, section 5."""


@dataclass(frozen=True)
class Recompute:
    """What is run again, where.

    Attributes
    ----------
    mode : ``none``, ``selective``, ``full`` or ``ops``
    ops : names of operations, for mode ``ops``
    every : of as many layers of a stage, the first is recomputed
    stages : that recompute; None for all
    """

    mode: str = "none"
    ops: frozenset[str] = frozenset()
    every: int = 1
    stages: frozenset[int] | None = None

    @property
    def outputs(self) -> bool:
        """Whether what operations that are run again hand on is kept.

        A checkpoint of selective recomputation keeps it. Operations that are named are run again
        when it is asked for: Megatron-Core, ``tensor_parallel/random.py``,
        ``CheckpointWithoutOutput``.
        """
        return self.mode != "ops"

    def applies(self, stage: int, place: int) -> bool:
        """Return whether a layer is recomputed: the one at `place` of a stage, counted from 0."""
        here = self.stages is None or stage in self.stages
        return self.mode != "none" and here and place % self.every == 0

    def of(self, ops: Iterable[Op]) -> frozenset[str]:
        """Return the operations of a recomputed layer that are run again."""
        return {
            "none": lambda: frozenset[str](),
            "selective": lambda: SELECTIVE,
            "full": lambda: names(ops),
            "ops": lambda: self.ops,
        }[self.mode]()


NONE = Recompute()
