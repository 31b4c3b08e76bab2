"""The collective library of a machine: its algorithms, and the cost of each message."""

from collections.abc import Mapping
from dataclasses import field, replace
from math import inf
from typing import Final, Literal

from clustersim.answers import built_from, record
from clustersim.catalog.libraries import OPERATIONS, LibraryRecord
from clustersim.records import dataclass

Issuer = Literal["benchmark", "training", "engine"]
"""The program that calls a library."""

ENGINE_RATES: Final = dict.fromkeys(OPERATIONS, 1.0)
"""Engines state a rate of their own, of all operations."""


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
    rates : of operations with a measured table, share of its bandwidth that a program reaches
    skew : time that a call in a program takes beyond its table [s]
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
    rates: Mapping[str, float] = field(default_factory=dict)
    skew: float = 0.0

    def issued_by(self, issuer: Issuer) -> "Library":
        """Return the library as a benchmark, a step of training or an engine finds it.

        A benchmark waits for each of its calls; the host of the others issues calls ahead of the
        device.  An engine states a rate and a skew of its own.
        """
        if issuer == "benchmark":
            return replace(self, rates={})
        overhead = self.call_overhead if self.queued_overhead is None else self.queued_overhead
        queued = replace(self, call_overhead=overhead)
        return queued if issuer == "training" else replace(queued, rates=ENGINE_RATES, skew=0.0)


def build_library(record: LibraryRecord, devices: int) -> Library:
    """Return the library that a catalogue file describes, on nodes of some devices."""
    algorithms = {
        algorithm: tuple(
            built_from(Protocol, facts, name=name) for name, facts in sorted(protocols.items())
        )
        for algorithm, protocols in record.algorithms.items()
    }
    choices = {operation: tuple(names) for operation, names in record.choices.items()}
    rates = record.rate or {}
    library = built_from(Library, record, algorithms=algorithms, choices=choices, rates=rates)
    return library if devices > PAIR else replace(library, pairing=1.0)
