"""Networks between nodes, as a cluster file states them."""

from math import prod
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog.facts import (
    MAX_DEVICES,
    Bandwidth,
    Fact,
    InNode,
    Nodes,
    Parts,
    Seconds,
    Share,
    Strict,
    Whole,
)

MAX_AXES: Final = 16
"""Maximum number of axes of a torus."""


MAX_QUEUE_PAIRS: Final = 256
"""Maximum number of queue pairs of a flow."""

QueuePairs = Annotated[int, Field(ge=1, le=MAX_QUEUE_PAIRS, strict=True)]


class FabricLink(Strict):
    """A cable between switches, per direction."""

    bandwidth: Fact[Bandwidth]
    latency: Fact[Seconds]


def check_queue_pairs(count: int, routing: str) -> None:
    """Check that flows are hashed if they have several queue pairs."""
    if count > 1 and routing != "hashed":
        raise ValueError(f"queue_pairs: has no effect on routing '{routing}' (routing: hashed)")


class SingleSwitch(Strict):
    """All NICs on one ideal switch."""

    type: Literal["switch"]


class FatTree(Strict):
    """Leaves, spines and cores; rail-optimised when NIC i of every node has a leaf of its own.

    `routing` is how flows choose among equal cables: ``adaptive`` spreads each over all of them by
    their load, ``sprayed`` in equal shares, ``hashed`` assigns each of its `queue_pairs` to one by
    the two ends of the flow and `seed`, ``static`` by the destination alone. `reduces` is whether
    the switches add up the messages that pass them (SHARP).
    """

    type: Literal["fat-tree"]
    rail_optimised: Fact[bool]
    nodes_per_leaf: Fact[Parts]
    leaf_uplinks: Fact[Parts]
    leaves_per_pod: Fact[Parts]
    pod_uplinks: Fact[Parts]
    link: FabricLink
    routing: Fact[Literal["adaptive", "hashed", "static", "sprayed"]]
    seed: int = 0
    queue_pairs: QueuePairs = 1
    reduces: Fact[bool] | None = None

    @model_validator(mode="after")
    def _hashes(self) -> Self:
        check_queue_pairs(self.queue_pairs, self.routing)
        return self


class Dragonfly(Strict):
    """Groups of switches, all to all inside a group, and every pair of groups joined.

    `routing`: ``adaptive`` spreads a flow over all cables of a switch and of a group, ``minimal``
    takes one cable by arithmetic, ``hashed`` one of the equal ones for each of its `queue_pairs`,
    by its two ends and `seed`, ``sprayed`` all of them in equal shares.
    `detour` is the share of adaptive traffic between groups that goes by a third one (Valiant).
    """

    type: Literal["dragonfly"]
    groups: Fact[Parts]
    switches_per_group: Fact[Parts]
    nodes_per_switch: Fact[Parts]
    links_per_group_pair: Fact[InNode]
    link: FabricLink
    routing: Fact[Literal["adaptive", "minimal", "hashed", "sprayed"]]
    seed: int = 0
    queue_pairs: QueuePairs = 1
    detour: Fact[Share] | None = None

    @model_validator(mode="after")
    def _hashes(self) -> Self:
        check_queue_pairs(self.queue_pairs, self.routing)
        return self

    def check_room(self, nodes: int, nics: int) -> None:
        """Reject more nodes than the groups hold, where each NIC of a node has a switch.

        Raises
        ------
        ValueError
            in one line.
        """
        each = self.switches_per_group // nics * self.nodes_per_switch
        if nodes > self.groups * each:
            raise ValueError(
                f"nodes: {nodes:,} nodes, but the {self.groups} groups of the fabric hold"
                f" {self.groups * each:,}, {each} each: {self.switches_per_group} switches of"
                f" {self.nodes_per_switch} nodes, of which a node takes {nics}, one for each NIC"
                " (more fabric.groups, fabric.switches_per_group or fabric.nodes_per_switch)"
            )


class Torus(Strict):
    """A grid of routers, one for each node, of any dimension.

    `shape` is the machine's length along each axis and `axes` their names. An axis of a job is a
    ring where the job's length is a multiple of `ring` there, and a line where `ring` is 0.
    `joined` are pairs of axes that make one ring together: the axes of a virtual torus.

    `job` is the block of nodes of a scenario, by axis. `virtual` numbers its nodes by the virtual
    torus instead of by the axes themselves.
    """

    type: Literal["torus"]
    shape: Fact[Annotated[list[Nodes], Field(min_length=1, max_length=MAX_AXES)]]
    axes: list[str]
    ring: Fact[list[Whole]]
    joined: Fact[list[tuple[int, int]]] | None = None
    link: FabricLink
    job: list[Nodes] | None = None
    virtual: bool = False

    @model_validator(mode="after")
    def _axes_agree(self) -> Self:
        axes = len(self.shape)
        for key, names in (("axes", self.axes), ("ring", self.ring), ("job", self.job)):
            if names is not None and len(names) != axes:
                raise ValueError(f"{key}: has {len(names)} entries, but 'shape' has {axes} axes")
        if self.job is not None and any(
            length > whole for length, whole in zip(self.job, self.shape, strict=True)
        ):
            raise ValueError(f"job: {self.job} is longer than the machine's {self.shape}")
        if prod(self.shape) > MAX_DEVICES:
            raise ValueError(f"shape: has {prod(self.shape):,} nodes (at most {MAX_DEVICES:,})")
        joined = [] if self.joined is None else self.joined
        if joined and sorted(axis for pair in joined for axis in pair) != list(range(axes)):
            raise ValueError("joined: must name each axis once, by its number from 0")
        if self.virtual and not joined:
            raise ValueError("virtual: needs 'joined', the pairs of axes that make rings")
        return self


class LinkList(Strict):
    """Cables one by one: ``[end, end, bandwidth per direction]``.

    An end is a NIC, ``n0.nic0``, or a switch by any other name. NICs of one number are connected;
    where others are not, nodes forward between these rails (rail-only, planes). Of several
    shortest paths each of the `queue_pairs` of a flow takes one by its two ends and `seed`, unless
    `routing` is ``static`` (by the destination alone) or ``sprayed`` (all of them in equal shares).
    """

    type: Literal["links"]
    links: Fact[Annotated[list[tuple[str, str, Bandwidth]], Field(min_length=1)]]
    latency: Fact[Seconds]
    routing: Fact[Literal["hashed", "static", "sprayed"]] | None = None
    seed: int = 0
    queue_pairs: QueuePairs = 1

    @model_validator(mode="after")
    def _hashes(self) -> Self:
        check_queue_pairs(self.queue_pairs, self.routing or "hashed")
        return self


FabricShape = Annotated[
    SingleSwitch | FatTree | Dragonfly | Torus | LinkList, Field(discriminator="type")
]
