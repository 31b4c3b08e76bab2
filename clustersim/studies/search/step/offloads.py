"""What hosts can hold where no layout fits in the memory of the devices."""

from typing import Final

from clustersim.scenario.load import Loaded
from clustersim.simulation.step.build import framework_of

OFFLOADS: Final = ((), ("optimiser",), ("parameters",), ("parameters", "activations"))
"""What the host holds, in the order in which it is tried: less of it is faster."""


def offloads_of(loaded: Loaded) -> tuple[tuple[str, ...], ...]:
    """Return what to try for a scenario in that order: nothing more where hosts cannot hold it."""
    stated = any(loaded.scenario.offload.model_dump().values())
    return OFFLOADS if _hosts_hold(loaded) and not stated else OFFLOADS[:1]


def _hosts_hold(loaded: Loaded) -> bool:
    """Whether the hosts have memory for gradients and states, as each offload of states needs."""
    scenario = loaded.scenario
    host = scenario.cluster.node.host
    if host is None or scenario.precision not in scenario.framework.state:
        return host is not None
    if scenario.finetune is not None:
        return True
    state = framework_of(scenario).state[scenario.precision]
    needed = scenario.model.parameters * (state.gradients + state.optimiser)
    return needed <= host.memory * scenario.cluster.nodes
