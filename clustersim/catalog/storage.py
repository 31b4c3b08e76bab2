"""Storage that a cluster saves to and restarts from, as a cluster file states it."""

from typing import Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog.facts import Bandwidth, Bytes, Fact, Fraction, Line, Strict


class StorageRate(Strict):
    """One direction of a storage system: the servers with the network between them.

    `bandwidth` is that of all servers together, `efficiency` the share of it that checkpoints
    reach; all of it if missing.
    """

    bandwidth: Fact[Bandwidth]
    efficiency: Fact[Fraction] | None = None

    @property
    def achieved(self) -> float:
        """Rate that checkpoints reach [B/s]."""
        share = 1.0 if self.efficiency is None else self.efficiency
        return self.bandwidth * share


class NodeStorage(Strict):
    """Rates of one node: as a client of the storage system, or of its own drives."""

    write: Fact[Bandwidth]
    read: Fact[Bandwidth]


class LocalStorage(NodeStorage):
    """Drives of a node, which a checkpoint survives as long as the node does."""

    capacity: Fact[Bytes] | None = None


class StorageFacts(Strict):
    """The storage of a cluster: a shared system, drives of the nodes, or both."""

    name: Line = Field(description="name of the shared system, in the answer")
    network: Fact[Literal["fabric", "separate"]]
    write: StorageRate | None = Field(None, description="writing to the shared system")
    read: StorageRate | None = Field(None, description="reading from the shared system")
    client: NodeStorage | None = Field(
        None, description="rate of a node with the shared system; that of its NICs if missing"
    )
    local: LocalStorage | None = Field(None, description="drives of each node")

    @model_validator(mode="after")
    def _stores(self) -> Self:
        if (self.write is None) != (self.read is None):
            missing = "write" if self.write is None else "read"
            raise ValueError(f"{missing}: missing (a shared system is written and read)")
        if self.write is None and self.local is None:
            raise ValueError("has neither a shared system (write, read) nor drives (local)")
        return self
