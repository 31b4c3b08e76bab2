"""Electrical power of a job: of its devices by what they do, and of everything around them.

    network  switches and transceivers of the fabric
    nodes    fans + (hosts + devices) / efficiency of the power supplies

Each component of a step has one of four states of a device; its power is that of the state.
"""

from typing import Final, Literal, NamedTuple

from clustersim.answers import record
from clustersim.catalog.records.machines import ClusterRecord
from clustersim.topology.accelerator import DevicePower, device_power

State = Literal["compute", "memory", "communication", "waiting"]

STATES: Final[tuple[State, ...]] = ("compute", "memory", "communication", "waiting")
"""States of a device in a step."""

STATE_OF: Final[dict[str, State]] = {
    "matmul": "compute",
    "attention": "compute",
    "memory_bound": "memory",
    "dispatch": "waiting",
    "tensor_communication": "communication",
    "context_communication": "communication",
    "expert_communication": "communication",
    "sharding_communication": "communication",
    "host_transfer": "communication",
    "imbalance": "waiting",
    "overlap_slowdown": "compute",
    "disturbance": "compute",
    "waiting_for_slowest": "waiting",
    "pipeline_communication": "communication",
    "data_communication": "communication",
    "embedding_communication": "communication",
    "synchronisation": "communication",
    "optimiser": "memory",
    "bubble_fill": "waiting",
    "bubble_steady": "waiting",
    "bubble_drain": "waiting",
}
"""The state of a device in each component of a step; a disturbed device is assumed to compute."""


class Draw(NamedTuple):
    """Electrical power of a job by component [W]; `total` is what its machine draws.

    Attributes
    ----------
    devices, hosts, fans, supplies, network : of all nodes of the job; `supplies` are the losses of
        power supplies
    """

    devices: float
    hosts: float
    fans: float
    supplies: float
    network: float

    @property
    def total(self) -> float:
        """Power of all components."""
        return sum(self)


@record
class MachinePower:
    """Electrical power of the nodes of a job.

    Attributes
    ----------
    device : of one device by its state
    devices, nodes : of the job [count]
    host, fans, network : of one node [W]
    supply : efficiency of the power supplies of a node
    """

    device: DevicePower
    devices: int
    nodes: int
    host: float
    fans: float = 0.0
    supply: float = 1.0
    network: float = 0.0

    def of(self, device: float) -> Draw:
        """Return the power of the job while its mean device draws `device` [W]."""
        devices, hosts = device * self.devices, self.host * self.nodes
        supplies = (devices + hosts) * (1 / self.supply - 1)
        return Draw(devices, hosts, self.fans * self.nodes, supplies, self.network * self.nodes)

    def watts(self, part: str) -> float:
        """Return the power of a device in a component of a step [W]."""
        return self.in_state(STATE_OF[part])

    def in_state(self, state: State) -> float:
        """Return the power of a device in a state [W]."""
        watts: float = getattr(self.device, state)
        return watts


def machine_power(cluster: ClusterRecord, nodes: int) -> MachinePower | None:
    """Return the power of some nodes of a cluster; None where devices or nodes have no facts."""
    device, node, network = (
        device_power(cluster.node.accelerator),
        cluster.node.power,
        cluster.power,
    )
    if device is None or node is None:
        return None
    return MachinePower(
        device=device,
        devices=nodes * cluster.node.devices,
        nodes=nodes,
        host=node.host,
        fans=_value(node.fans, 0.0),
        supply=_value(node.supply, 1.0),
        network=0.0 if network is None else network.switches,
    )


def missing_power(cluster: ClusterRecord) -> str:
    """Return which file states no power, for which `machine_power` is None; else nothing."""
    if cluster.node.accelerator.power is None:
        return f"accelerator {cluster.node.accelerator.name} has no power"
    return f"node {cluster.node.name} has no power" if cluster.node.power is None else ""


def _value(value: float | None, missing: float) -> float:
    return missing if value is None else value
