"""Communication: what no computation hides, the busiest links, and the links of each group.

Neighbours in a group exchange data, the last with the first as well.  A placement decides which
links lie between them, so the links of groups show how placements differ.  Nodes are counted over
all groups.  Links are those on the routes from each neighbour to the next, in all groups of one
replica of the model, and in data groups, which join all replicas, of every stage: all links where
replicas are alike.  Of very many groups every pattern of places inside nodes is examined once, and
some more, evenly.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clustersim.answers import record
from clustersim.arrays import ranked
from clustersim.plan.placement import Placement
from clustersim.program.links.in_use import LinksInUse
from clustersim.program.program import Limit
from clustersim.topology.cluster import Cluster
from clustersim.traffic import LimitedBy

_GROUPS: Final = {
    "tensor_communication": "tensor",
    "context_communication": "context",
    "expert_communication": "expert",
    "sharding_communication": "data",
    "pipeline_communication": "pipeline",
    "data_communication": "data",
    "embedding_communication": "embedding",
}
"""The kind of group whose links limit the rate of a component."""


@record
class ExposedCommunication:
    """Communication that no computation hides.

    Attributes
    ----------
    part : kind of communication, as in `attribution`; the longest first
    seconds : mean of all ranks [s]
    link : the link that limits its rate without other traffic; null where it crosses none
    kind : kind of that link
    by : what limits its rate: that `link`, the `library` or `latency`; null where it crosses none
    """

    part: str
    seconds: float
    link: str | None
    kind: str | None
    by: LimitedBy | None = None


def exposed(
    attribution: Mapping[str, float], limits: Mapping[str, Limit]
) -> tuple[ExposedCommunication, ...]:
    """Return the communication that no computation hides, the longest first.

    Parameters
    ----------
    limits : for each kind of group, the link that limits its rate
    """
    components = []
    for part, group in _GROUPS.items():
        if attribution[part] > 0:
            limit = limits.get(group)
            link = (limit.link, limit.kind, limit.by) if limit else (None, None, None)
            components.append(ExposedCommunication(part, attribution[part], *link))
    return tuple(sorted(components, key=lambda each: (-each.seconds, each.part)))


# --- links ----------------------------------------------------------------------------------------


@record
class HotLink:
    """A link and how busy it is.

    Attributes
    ----------
    name : of the link; of links that are alike, the first
    capacity : payload that it can carry [B/s]
    nbytes : payload and protocol that it carries in the step [B]
    utilisation : `nbytes` over `capacity`, over step time
    """

    name: str
    capacity: float
    nbytes: float
    utilisation: float


def hottest(links: LinksInUse, duration: float) -> list[HotLink]:
    """Return the links with the highest utilisation; of links that are alike, one.

    Parameters
    ----------
    duration : of the step [s]
    """
    return [HotLink(*link, link.nbytes / link.capacity / duration) for link in links.busiest]


# --- groups ---------------------------------------------------------------------------------------

MOST_MEMBERS = 1024
"""Members of groups of one kind whose routes are examined, unless patterns need more."""

Groups = NDArray[np.int64]
"""Devices of several groups, a row a group, members in order."""


@record
class NodeSpan:
    """How many nodes one group spans.

    Attributes
    ----------
    fewest : nodes that a group spans, at least
    most : nodes that a group spans, at most
    """

    fewest: int
    most: int


@record
class NarrowestLink:
    """A kind of links and the narrowest of them.

    Attributes
    ----------
    kind : a kind of links between ranks that follow each other in a group
    bandwidth : payload of the narrowest of them; the narrowest kind comes first [B/s]
    """

    kind: str
    bandwidth: float


@record
class GroupLinks:
    """One kind of group, and the links between its neighbours.

    Attributes
    ----------
    group : `tensor`, `context`, `expert`, `data`, `pipeline` (the stages of a replica) or
        `embedding` (the first and last stage, which reduce the gradient of tied weights); none
        where it would have one rank
    ranks : ranks of one group
    groups : groups of this kind
    nodes : nodes that one group spans
    links : kinds of links that are crossed, the narrowest first
    """

    group: str
    ranks: int
    groups: int
    nodes: NodeSpan
    links: tuple[NarrowestLink, ...]


def links_of_groups(cluster: Cluster, placement: Placement, *, embedding: bool) -> list[GroupLinks]:
    """Return the links of each kind of group that has more than one rank.

    Parameters
    ----------
    embedding : whether the first and last stage reduce the gradient of a tied embedding
    """
    kinds = []
    for name, groups, examined, closed in _kinds(placement, embedding=embedding):
        ranks = groups.shape[1]
        if ranks > 1:
            nodes = _spans(groups // cluster.node.devices)
            sample = _sample(examined, cluster.node.devices)
            key = "links of groups", closed, sample.shape, sample.tobytes()
            compute = partial(_links, cluster, sample, closed=closed)
            links = cluster.kept.get(key, sample.size, compute)
            span = NodeSpan(int(nodes.min()), int(nodes.max()))
            kinds.append(GroupLinks(name, ranks, len(groups), span, links))
    return kinds


def _kinds(placement: Placement, *, embedding: bool) -> Iterator[tuple[str, Groups, Groups, bool]]:
    """Yield for each kind its name, all its groups, those examined, and whether they are rings."""
    plan = placement.plan
    tensor, data, stages = map(placement.groups, ("tensor", "data", "pipeline"))
    yield "tensor", tensor, tensor[:: plan.data], True
    for axis, groups in (("context", placement.groups("context")), ("expert", _experts(placement))):
        yield axis, groups, groups, True
    yield "data", data, data, True
    yield "pipeline", stages, stages[: plan.cell], plan.chunks > 1 and plan.wiring == "loop"
    if embedding:
        ends = stages[:, [0, -1]]
        yield "embedding", ends, ends[: plan.cell], True


def _experts(placement: Placement) -> Groups:
    """Return the groups of all stages whose ranks share the experts of a layer."""
    return placement.expert_groups().reshape(-1, placement.plan.expert)


def _spans(nodes: Groups) -> NDArray[np.int64]:
    """Return for each row how many different numbers it has."""
    ordered = np.sort(nodes, axis=1)
    different: NDArray[np.int64] = np.count_nonzero(np.diff(ordered, axis=1), axis=1)
    return different + 1


def _sample(groups: Groups, size: int) -> Groups:
    """Return all groups, or of too many one for each pattern of places in nodes, and some more."""
    count, members = groups.shape
    if count * members <= MOST_MEMBERS:
        return groups
    patterns = map(tuple, (groups % size).tolist())
    first: dict[tuple[int, ...], int] = {}
    for number, pattern in enumerate(patterns):
        first.setdefault(pattern, number)
    even = range(0, count, count * members // MOST_MEMBERS | 1)  # odd, to meet every tensor rank
    return groups[sorted({*first.values(), *even})]


def _links(cluster: Cluster, groups: Groups, *, closed: bool) -> tuple[NarrowestLink, ...]:
    """Return the kinds of links between neighbours with the narrowest of each, narrowest first."""
    following = np.roll(groups, -1, axis=1)
    pairs = slice(None) if closed else slice(None, -1)
    routes = cluster.routes(groups[:, pairs].ravel(), following[:, pairs].ravel())
    narrowest: dict[str, float] = {}
    examples = cluster.links.examples(ranked(routes.links)[0])
    bandwidths = cluster.links.bandwidths(np.array(examples, dtype=np.int64)).tolist()
    for link, wide in zip(examples, bandwidths, strict=True):
        kind = cluster.links.kinds[link]
        narrowest[kind] = min(wide, narrowest.get(kind, wide))
    ordered = sorted(narrowest.items(), key=lambda item: (item[1], item[0]))
    return tuple(NarrowestLink(kind, bandwidth) for kind, bandwidth in ordered)
