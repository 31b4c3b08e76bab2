"""Which device each rank runs on: ranks fill devices in order, node by node.

With the numbering of `plan.parallelism` this puts a tensor group on neighbouring devices, the
replicas of a stage beside each other, and the stages one after another, as a launcher that counts
ranks node by node does.
"""

from dataclasses import dataclass

from clustersim.plan.parallelism import Plan


@dataclass(frozen=True)
class Placement:
    """Devices of a plan's ranks: rank r on device r."""

    plan: Plan

    def device(self, stage: int, replica: int, part: int) -> int:
        """Return the device of a rank."""
        return self.plan.rank(stage, replica, part)

    def tensor_group(self, stage: int, replica: int) -> tuple[int, ...]:
        """Return the devices that share the layers of one stage of one replica."""
        return tuple(self.plan.tensor_group(stage, replica))

    def data_groups(self, stage: int) -> list[tuple[int, ...]]:
        """Return for each tensor part of a stage the devices that hold the same weights."""
        return [tuple(self.plan.data_group(stage, part)) for part in range(self.plan.tensor)]
