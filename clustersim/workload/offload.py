"""Offload to host memory, with copies on demand.

    parameters    each rank's shard of a layer is copied from the host before the layer is gathered;
                  gradients of trained weights are copied to the host
    optimiser     states stay on the host, which runs the optimiser: gradients are copied to it and
                  weights from it
    activations   saved activations are copied to the host in the forward and back in the backward

Rajbhandari et al. 2021, ZeRO-Infinity, arXiv:2104.07857; PyTorch, ``CPUOffload`` of FSDP.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class Offload:
    """What is offloaded to the host.

    Attributes
    ----------
    parameters : weights and gradients, copied layer by layer
    optimiser : optimiser states; the optimiser runs on the host
    activations : activations saved from forward to backward
    """

    parameters: bool = False
    optimiser: bool = False
    activations: bool = False

    @property
    def any(self) -> bool:
        """Whether anything is offloaded."""
        return self.parameters or self.optimiser or self.activations

    @property
    def host_optimiser(self) -> bool:
        """Whether the host runs the optimiser: if it holds weights or states."""
        return self.parameters or self.optimiser


NO_OFFLOAD = Offload()


class HostCopy(NamedTuple):
    """A copy between device and host memory: bytes per device [B]."""

    name: str
    nbytes: float
    direction: Literal["to-host", "from-host"]
