"""The links of a node as its file states them: who is joined to whom, by what, how wide."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from clustersim.catalog.records import DeviceLinks, DeviceSwitch, NodeRecord
from clustersim.render.diagram import gigabytes, whole
from clustersim.topology.node import End

BUS: Final = "bus to NIC"

MOST_LABELS: Final = 16
"""Links that each carry a label; of more, only those of kinds that differ in width do."""


class Inner(NamedTuple):
    """Equal links side by side between two ends of a node, raw rate of all together [B/s]."""

    a: End
    b: End
    kind: str
    bandwidth: float
    label: str


def inner_links(record: NodeRecord) -> list[Inner]:
    """Return the direct links of a node; links of one kind between two ends are one."""
    sums: dict[tuple[End, End, str], float] = {}
    if isinstance(record.interconnect, DeviceLinks):
        for kind, facts in record.interconnect.kinds.items():
            for a, b, *count in facts.between.value:
                ends = (b, a, kind) if (b, a, kind) in sums else (a, b, kind)
                width = facts.bandwidth.value * (count[0] if count else 1)
                sums[ends] = sums.get(ends, 0.0) + width
    widths: dict[str, set[float]] = {}
    for (_, _, kind), width in sums.items():
        widths.setdefault(kind, set()).add(width)
    few = len(sums) <= MOST_LABELS
    return [
        Inner(a, b, kind, width, gigabytes(width) if few or len(widths[kind]) > 1 else "")
        for (a, b, kind), width in sums.items()
    ]


def named_ends(record: NodeRecord) -> list[str]:
    """Return the switches and host bridges of a node, as they are first named."""
    ends = [end for link in inner_links(record) for end in (link.a, link.b)]
    return list(dict.fromkeys(end for end in ends if isinstance(end, str)))


def legend(record: NodeRecord) -> dict[str, str]:
    """Return what the legend says of each kind of link."""
    return dict(_legend(record))


def _legend(record: NodeRecord) -> Iterator[tuple[str, str]]:
    inside = record.interconnect
    if isinstance(inside, DeviceLinks):
        for kind, facts in inside.kinds.items():
            rate, payload = gigabytes(facts.bandwidth.value), whole(facts.efficiency.value)
            yield kind, f"{kind}: {rate} GB/s a link, {payload} of it payload"
    elif isinstance(inside, DeviceSwitch):
        rate, payload = gigabytes(inside.bandwidth.value), whole(inside.efficiency.value)
        yield "crossbar", f"crossbar: {rate} GB/s a device, {payload} of it payload"
    yield BUS, f"{BUS}: {gigabytes(record.nics.bus.value)} GB/s"


__all__ = ["BUS", "Inner", "inner_links", "legend", "named_ends"]
