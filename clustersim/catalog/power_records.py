"""Electrical power as catalogue files state it: of accelerators, nodes and networks."""

from typing import Self

from pydantic import model_validator

from clustersim.catalog.facts import Fact, Fraction, Strict, Watts


class PowerFacts(Strict):
    """Electrical power of a device, as shares of its `limit` while it runs kernels of a kind.

    `limit` is the power of the board at which it lowers its clock, `idle` the power without a
    process.  The shares are means: `compute` of matrix products and attention, `memory` of kernels
    that memory limits, `communication` of exposed collectives, `waiting` of a process that runs no
    kernel.  `training` is the mean of typical steps, for estimates without a replay.
    """

    limit: Fact[Watts]
    idle: Fact[Watts]
    compute: Fact[Fraction]
    memory: Fact[Fraction]
    communication: Fact[Fraction]
    waiting: Fact[Fraction]
    training: Fact[Fraction]

    @model_validator(mode="after")
    def _works_above_idle(self) -> Self:
        limit, idle = self.limit, self.idle
        for name in ("waiting", "communication", "memory", "training", "compute"):
            watts = limit * getattr(self, name)
            if watts < idle or (name == "compute" and watts == idle):
                raise ValueError(f"{name}: is {watts:g} W, not above the idle {idle:g} W")
        return self


class NodePowerFacts(Strict):
    """Electrical power of a node without its devices, in training.

    `host` is that of processors, memory, NICs and switches inside the node, `fans` that of its
    fans, none if missing.  `supply` is the efficiency of its power supplies, 1 if missing.
    """

    host: Fact[Watts]
    fans: Fact[Watts] | None = None
    supply: Fact[Fraction] | None = None


class NetworkPowerFacts(Strict):
    """Electrical power of the fabric: `switches` and transceivers, divided by the nodes."""

    switches: Fact[Watts]
