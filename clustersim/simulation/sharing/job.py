"""A job on its nodes of a shared machine: what all kinds of jobs have in common."""

from typing import Self

from clustersim.arrays import Booleans, Floats, Integers
from clustersim.memory.verdict import MemoryAnswer
from clustersim.program.fold import Folded, JobTraffic
from clustersim.program.operations import Operations


class SharedJob:
    """A job on its nodes of a shared machine.

    Attributes
    ----------
    kind : ``training step``, ``service``, ``trace`` or ``traffic``
    start : instant of its first step [s]
    phase : the same as a share of a step alone, which is added
    steps : steps of one pass through its graph of operations
    tokens : of one step; None of other jobs
    memory : whether it fits; None of other jobs
    """

    kind: str
    phase: float = 0.0
    steps: int = 1

    def __init__(
        self, name: str, nodes: tuple[int, ...], start: float,
        tokens: float | None = None, memory: MemoryAnswer | None = None,
    ) -> None:  # fmt: skip
        self.name, self.nodes, self.start = name, nodes, start
        self.tokens, self.memory = tokens, memory

    @property
    def carried(self) -> tuple[Integers, Floats]:
        """Bytes of one step on each link that it uses, by number [B]."""
        raise NotImplementedError

    @property
    def traffic(self) -> JobTraffic:
        """Its traffic on the links of the machine."""
        raise NotImplementedError

    @property
    def alone(self) -> float | None:
        """Time of a step with the machine to itself [s]; None if a replay states it."""
        raise NotImplementedError

    def meeting(self, links: Booleans) -> Self:
        """Return the job whose collectives inside blocks share links that others use as well."""
        return self

    def operations(self, folded: Folded) -> Operations:
        """Return one pass as a graph of operations."""
        raise NotImplementedError
