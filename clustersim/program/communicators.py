"""The communicators of every axis, and the cost of collectives inside blocks.

tensor, context            of a cell: the groups of one stage of one replica
expert, data and others    of a stage: the groups of all replicas
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from clustersim.cost.closed_form import Cost
from clustersim.plan.placement import Placement
from clustersim.program.collectives.communicator import Communicator
from clustersim.program.job import Job
from clustersim.workload.kernels import Axis, Collective

OF_CELL: tuple[Axis, ...] = ("tensor", "context")

Pattern = tuple[tuple[str, Hashable], ...]
"""What the costs of the collectives of a block depend on: for each axis, its signature."""


def groups_of_stage(placement: Placement, axis: Axis, stage: int) -> list[tuple[int, ...]]:
    """Return the devices of the groups along an axis that spans replicas."""
    groups: dict[str, Callable[[int], list[tuple[int, ...]]]] = {
        "expert": placement.expert_groups,
        "expert-tensor": placement.expert_tensor_groups,
        "data": placement.shard_groups,
        "copies": placement.shard_copies,
        "expert-data": placement.expert_copies,
    }
    return groups[axis](stage)


class Communicators:
    """The communicators of a job, made once.

    Parameters
    ----------
    operations : for each axis, the collectives of its groups inside blocks
    """

    def __init__(self, job: Job, operations: Mapping[Axis, Sequence[str]]) -> None:
        self.job = job
        self.operations = {axis: sorted(names) for axis, names in operations.items() if names}
        self._communicators: dict[tuple[Axis, int, int], Communicator] = {}
        self._signatures: dict[tuple[Axis, int, int], Hashable] = {}
        self._examples: dict[tuple[Axis, Hashable], Communicator] = {}
        self._patterns: dict[tuple[int, int], Pattern] = {}

    def communicator(self, axis: Axis, stage: int, replica: int = 0) -> Communicator:
        """Return the communicator of an axis on a stage of a replica."""
        key = axis, stage, replica if axis in OF_CELL else 0
        if key not in self._communicators:
            self._communicators[key] = self.job.communicator(self._devices(axis, stage, replica))
        return self._communicators[key]

    def _devices(self, axis: Axis, stage: int, replica: int) -> list[tuple[int, ...]]:
        placement = self.job.placement
        if axis in OF_CELL:
            of_cell: dict[str, Callable[[int, int], list[tuple[int, ...]]]] = {
                "tensor": placement.tensor_groups,
                "context": placement.context_groups,
            }
            return of_cell[axis](stage, replica)
        return groups_of_stage(placement, axis, stage)

    def pattern(self, stage: int, replica: int) -> Pattern:
        """Return the signatures on which the times of blocks of a cell depend, by axis."""
        key = stage, replica
        if key not in self._patterns:
            self._patterns[key] = tuple(
                (axis, self._signature(axis, stage, replica)) for axis in self.operations
            )
        return self._patterns[key]

    def patterns(self, replica: int) -> Hashable:
        """Return the patterns of all stages of a replica."""
        return tuple(self.pattern(stage, replica) for stage in range(self.job.plan.pipeline))

    def _signature(self, axis: Axis, stage: int, replica: int) -> Hashable:
        key = axis, stage, replica if axis in OF_CELL else 0
        if key not in self._signatures:
            communicator = self.communicator(axis, stage, replica)
            signature = communicator.signature(self.operations[axis])
            self._signatures[key] = signature
            self._examples.setdefault((axis, signature), communicator)
        return self._signatures[key]

    def example(self, axis: Axis, pattern: Pattern) -> Communicator:
        """Return a communicator of an axis with the signature of a pattern."""
        return self._examples[axis, dict(pattern)[axis]]

    def cost(self, collective: Collective, pattern: Pattern) -> Cost:
        """Return the closed-form cost of a collective."""
        return self.example(collective.axis, pattern).cost(collective.operation, collective.nbytes)

    def carried(
        self, axis: Axis, stage: int, replica: int, calls: Iterable[tuple[str, float, float]]
    ) -> dict[int, float]:
        """Return the load of collectives on each link [B].

        Parameters
        ----------
        calls : operation, bytes of the buffer [B], and number of calls
        """
        communicator = self.communicator(axis, stage, replica)
        example = self.example(axis, self.pattern(stage, replica))
        streams: dict[tuple[str, str], float] = {}
        for operation, nbytes, times in calls:
            cost = example.cost(operation, nbytes)
            key = cost.algorithm, operation
            wire = cost.nbytes / example.load(*key).unit
            streams[key] = streams.get(key, 0.0) + times * wire
        carried: dict[int, float] = {}
        for key, stream in streams.items():
            for link, share in communicator.load(*key).shares.items():
                carried[link] = carried.get(link, 0.0) + share * stream
        return carried
