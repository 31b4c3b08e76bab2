"""The collective library of a machine: what each message costs before its first byte moves."""

from dataclasses import dataclass

from clustersim.catalog.records import LibraryRecord


@dataclass(frozen=True)
class Protocol:
    """One way of moving bytes between neighbours.

    Attributes
    ----------
    base : paid once for each call [s]
    device_hop, network_hop : paid for each step inside a node, and across the network [s]
    bandwidth : share of a link that carries payload
    """

    name: str
    base: float
    device_hop: float
    network_hop: float
    bandwidth: float


@dataclass(frozen=True)
class Library:
    """NCCL, RCCL, or what else a machine has; `call_overhead` is launch and synchronisation [s]."""

    name: str
    call_overhead: float
    protocols: tuple[Protocol, ...]


def build_library(record: LibraryRecord) -> Library:
    """Return the library that a catalogue file describes."""
    return Library(
        name=record.name,
        call_overhead=record.call_overhead.value,
        protocols=tuple(
            Protocol(
                name=name,
                base=facts.base.value,
                device_hop=facts.device_hop.value,
                network_hop=facts.network_hop.value,
                bandwidth=facts.bandwidth.value,
            )
            for name, facts in sorted(record.protocols.items())
        ),
    )
