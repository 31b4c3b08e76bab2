"""Collectives and messages of a replica: small ones in a node, others by the machine's links.

tensor group       all-reduce: the engine's own kernels up to a size, then the library's
expert group       dispatch to experts and combination, or gather and reduce-scatter
stages             one message to the next stage
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.catalog.records.engines import EngineCollectives
from clustersim.cost import closed_form
from clustersim.cost.kernels.price_list import KernelPrices, LinkRates
from clustersim.cost.surfaces.exchange import LIBRARY
from clustersim.inference.layout import Layout
from clustersim.program.collectives.communicator import Communicator
from clustersim.topology.cluster import Cluster

GATHERED: Final = "all-gather"
"""Exchange of tokens by a gather of all of them and a reduce-scatter of the results."""


class Links:
    """The communication of a replica, on devices `first` and after."""

    def __init__(
        self,
        cluster: Cluster,
        layout: Layout,
        engine: EngineCollectives,
        kernels: KernelPrices,
        first: int = 0,
    ) -> None:
        self.cluster, self.layout, self.engine, self.kernels = cluster, layout, engine, kernels
        self._mesh = layout.mesh + first
        stage = self._mesh[0]
        self._tensor = _group(cluster, stage.reshape(-1, layout.tensor))
        self._stage = _group(cluster, stage.reshape(1, -1))
        self._context = _group(cluster, np.swapaxes(stage, 1, 2).reshape(-1, layout.context))

    def tensor_reduce(self, nbytes: Floats) -> Floats:
        """Return the times of all-reduces over a tensor group [s]."""
        return self._reduce(self._tensor, nbytes)

    def tensor_gather(self, nbytes: Floats) -> Floats:
        """Return the times to gather what the devices of a tensor group hold [s]."""
        return self._collective(self._tensor, "all-gather", nbytes)

    def context_gather(self, nbytes: Floats) -> Floats:
        """Return the times to gather what the devices of a context group hold [s]."""
        return self._collective(self._context, "all-gather", nbytes)

    def exchange(
        self, tokens: Floats, chosen: int, hidden: int, width: float, *, prompts: bool
    ) -> Floats:
        """Return the times of a dispatch to experts and of the combination after them [s].

        Parameters
        ----------
        tokens : of each device
        chosen : experts of a token
        width : size of a number on its way to its expert [B]
        prompts : whether the step is one of prompts, for which engines have other kernels
        """
        fact = self.engine.prefill if prompts else self.engine.decode
        library, ranks = fact, self.layout.stage
        if self._stage is None:
            return np.zeros_like(tokens)
        if library == GATHERED:
            sent = 2.0 * hidden * tokens * ranks
            gathered = self._collective(self._stage, "all-gather", sent)
            return gathered + self._collective(self._stage, "reduce-scatter", sent)
        if self.kernels.has("dispatch", library):
            shape = {
                "experts": float(chosen), "bytes": 2.0 * hidden, "ranks": float(ranks),
                "nodes": float(self._stage.span.nodes), "merged": float(prompts),
            }  # fmt: skip
            rates = self._stage.rates
            return self.kernels.exchange(
                "dispatch", library, tokens, rates, **shape
            ) + self.kernels.exchange("combine", library, tokens, rates, **shape)
        sent = tokens * min(chosen, ranks) * hidden
        dispatched = self._collective(self._stage, "all-to-all", width * sent)
        return dispatched + self._collective(self._stage, "all-to-all", 2.0 * sent)

    def send(self, nbytes: Floats) -> Floats:
        """Return the times of all messages from stage to stage [s]."""
        total = np.zeros_like(nbytes)
        library = self.cluster.library
        for stage, other in zip(self._mesh[:-1], self._mesh[1:], strict=True):
            route = self.cluster.route(int(stage.flat[-1]), int(other.flat[0]))
            rate = self.cluster.rate(route)
            total = total + np.array(
                [
                    closed_form.message_cost(
                        size, route.network, rate, route.latency, library
                    ).seconds
                    for size in nbytes.tolist()
                ]
            )
        return total

    def _reduce(self, group: "_Group | None", nbytes: Floats) -> Floats:
        if group is None:
            return np.zeros_like(nbytes)
        usual = self._collective(group, "all-reduce", nbytes)
        library, limit = self.engine.library, self.engine.limit
        ranks = group.span.ranks
        if library is None or limit is None or library == LIBRARY or group.span.nodes > 1:
            return usual
        most = limit.get(str(ranks))  # type: ignore[call-overload]
        if most is None or not self.kernels.has("all-reduce", library):
            return usual
        own = self.kernels.collective("all-reduce", library, ranks, nbytes, group.rates.inside)
        return np.where(nbytes <= most, own, usual)

    def _collective(self, group: "_Group | None", operation: str, nbytes: Floats) -> Floats:
        """Return the times of collectives of the library [s]."""
        if group is None:
            return np.zeros_like(nbytes)
        sent = nbytes / self.engine.rate
        return self.engine.skew + group.communicator.seconds(operation, sent)


class _Group(NamedTuple):
    """A communicator, and the payload bandwidth of the links between its devices."""

    communicator: Communicator
    rates: LinkRates

    @property
    def span(self) -> closed_form.GroupSpan:
        """Ranks and nodes of a group."""
        return self.communicator.span


def _group(cluster: Cluster, groups: Integers) -> _Group | None:
    """Return the communicator of groups; None where they have one device."""
    if groups.shape[1] < 2:
        return None
    return _Group(Communicator(cluster, groups), link_rates(cluster, groups[0].tolist()))


def narrowest_link(cluster: Cluster, devices: Sequence[int]) -> tuple[str, float]:
    """Return the narrowest link between neighbours of a ring, and its payload [B/s]."""
    links = [
        link
        for device, other in pairwise([*devices, devices[0]])
        for link in cluster.route(device, other).links
    ]
    capacities = cluster.links.capacities  # of links that these routes have numbered
    narrowest = min(links, key=lambda link: (float(capacities[link]), link))
    return cluster.links.names[narrowest], float(capacities[narrowest])


def link_rates(cluster: Cluster, devices: Sequence[int]) -> LinkRates:
    """Return the payload bandwidth between neighbours of a ring, of the slowest pair [B/s]."""
    size = cluster.node.devices
    inside: list[float] = []
    network: list[float] = []
    for device, other in pairwise([*devices, devices[0]]):
        rate = cluster.rate(cluster.route(device, other))
        (inside if device // size == other // size else network).append(rate)
    return LinkRates(min(inside, default=None), min(network, default=None))
