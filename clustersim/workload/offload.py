"""Offload: what is kept in the memory of the host, and copied over when it is needed.

    parameters    each rank's share of a layer comes from the host before the layer is gathered;
                  gradients of what is trained go back there
    optimiser     its states stay on the host, which runs it: gradients go there, weights come back
    activations   what a layer keeps goes to the host in the forward and comes back in the backward

Rajbhandari et al. 2021, ZeRO-Infinity, arXiv:2104.07857; PyTorch, ``CPUOffload`` of FSDP.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class Offload:
    """What is kept on the host.

    Attributes
    ----------
    parameters : weights and gradients, copied layer by layer
    optimiser : states of the optimiser, which then runs on the host
    activations : what layers keep from forward to backward
    """

    parameters: bool = False
    optimiser: bool = False
    activations: bool = False

    @property
    def any(self) -> bool:
        """Whether anything is."""
        return self.parameters or self.optimiser or self.activations

    @property
    def host_optimiser(self) -> bool:
        """Whether the host runs the optimiser: it does where weights or states are there."""
        return self.parameters or self.optimiser


NO_OFFLOAD = Offload()


class HostCopy(NamedTuple):
    """A copy between device and host memory: bytes of one device [B]."""

    name: str
    nbytes: float
    direction: Literal["to-host", "from-host"]
