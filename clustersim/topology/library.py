"""The collective library of a machine: its algorithms, and the cost of each message."""

from dataclasses import dataclass, replace
from math import inf
from typing import Final

from clustersim.answers import built_from, record
from clustersim.catalog.libraries import LibraryRecord


@dataclass(frozen=True)
class Protocol:
    """A transfer protocol between neighbours, for one algorithm.

    Attributes
    ----------
    base : cost per call [s]
    device_hop, network_hop : cost of a step inside a node, and across the network [s]
    bandwidth : share of a link that carries payload
    chunk : cost per step for every chunk of a pipelined buffer [s]
    limit, network_limit : highest bus bandwidth inside a node, and over several [B/s]
    shared_limit : the same for each rank on a node, where groups share the NICs of nodes [B/s]
    """

    name: str
    base: float
    device_hop: float
    network_hop: float
    bandwidth: float
    chunk: float = 0.0
    limit: float = inf
    network_limit: float = inf
    shared_limit: float = inf


PAIR: Final = 2
"""Devices of a node whose file states the bandwidth of a pair."""


@record
class Library:
    """NCCL, RCCL, an MPI or another library.

    Attributes
    ----------
    call_overhead : launch and synchronisation of a call that is timed alone [s]
    algorithms : the protocols of each algorithm
    choices : the algorithms of each operation
    post : cost of each message for a sender of many [s]
    relay : whether a message to another rail is forwarded by the device on that rail
    channels : compute units that a collective occupies while others compute
    message : highest rate of one message to another node [B/s]
    pairing : time of a byte in a ring of two devices of a larger node, over that of a larger ring
    queued_overhead : the same as `call_overhead` where the host has issued the call ahead [s]
    """

    name: str
    call_overhead: float
    algorithms: dict[str, tuple[Protocol, ...]]
    choices: dict[str, tuple[str, ...]]
    post: float = 0.0
    relay: bool = False
    channels: int = 0
    message: float = inf
    pairing: float = 1.0
    queued_overhead: float | None = None

    @property
    def queued(self) -> "Library":
        """The library as a program finds it whose host issues calls ahead of the device."""
        overhead = self.queued_overhead
        return self if overhead is None else replace(self, call_overhead=overhead)


def build_library(record: LibraryRecord, devices: int) -> Library:
    """Return the library that a catalogue file describes, on nodes of some devices."""
    algorithms = {
        algorithm: tuple(
            built_from(Protocol, facts, name=name) for name, facts in sorted(protocols.items())
        )
        for algorithm, protocols in record.algorithms.items()
    }
    choices = {operation: tuple(names) for operation, names in record.choices.items()}
    library = built_from(Library, record, algorithms=algorithms, choices=choices)
    return library if devices > PAIR else replace(library, pairing=1.0)
