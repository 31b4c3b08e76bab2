"""The ports of a node as a table of runs tells them: how many there are, and how fast.

    "8 x 200 Gb/s per node"          --ports_of--> Ports(8, 25e9)
    "RoCE, 1600 Gb/s node to node"   --ports_of--> Ports(None, 200e9), all of them together

Only what leaves a node counts: parts of a text about NVLink, PCIe and the like are passed over.
"""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Ports:
    """How many ports, None where it is not told, and the rate of each, else of all [B/s].

    `each` is None where only the sum is told, `together` where only one of them.
    """

    count: int | None
    each: float | None
    together: float | None = None


RATES: Final = {
    "xdr": 100e9, "ndr200": 25e9, "ndr": 50e9, "hdr100": 12.5e9, "hdr": 25e9, "edr": 12.5e9,
    "fdr": 7e9, "slingshot-11": 25e9, "slingshot-10": 12.5e9, "slingshot": 25e9,
    "omni-path": 12.5e9, "opa": 12.5e9, "connectx-8": 100e9, "connectx-7": 50e9,
    "connectx-6": 25e9,
}  # fmt: skip
"""Rates that go with a name, of a port and one direction [B/s], the longer names first."""

_INSIDE: Final = re.compile(
    r"nvlink|nvswitch|pci|xgmi|infinity fabric|pair|peer|host ram|upi|sli\b"
)
_PART: Final = re.compile(r"[;,()+]|\band\b|\bbetween nodes:")
_SPEED: Final = re.compile(
    r"(?:(\d+)\s*[x*\u00d7]\s*)?(?:[a-z][\w/ -]{0,30}?\s)??(\d+(?:\.\d+)?)\s*"
    r"(t|g|m)(?:igabit|(b)(?:it)?(?:/s|ps|e)?)?(?!\w)",
    re.IGNORECASE,
)
_COUNTED: Final = re.compile(rf"(\d+)\s+(?={'|'.join(RATES)}|infiniband|roce)", re.IGNORECASE)
"""A number of ports without a cross behind it."""
_NAMED: Final = re.compile(
    rf"(?:(\d+)\s*[x*\u00d7]\s*)?(?:[a-z]+\s){{0,2}}?({'|'.join(RATES)})(?![\w-])", re.IGNORECASE
)
_OF_EACH: Final = re.compile(
    r"(?:per|a|each|/)\s*(?:gpu|gcd|device|card|port|nic|accelerator)", re.I
)
_OF_NODE: Final = re.compile(
    r"(?:per|a|each|/)\s*(?:node|host|server|box)|node to node|between nodes|ethernet|gbe\b|efa\b",
    re.I,
)
_SCALE: Final = {"t": 1e12, "g": 1e9, "m": 1e6}


def ports_of(text: str | None) -> Ports | None:
    """Return the ports that a text tells of; None where it tells none.

    >>> ports_of("NVLink3/NVSwitch in node; 8x HDR InfiniBand 200 Gb/s per node")
    Ports(count=8, each=25000000000.0, together=None)
    >>> ports_of("RoCE, 1600 Gb/s node to node")
    Ports(count=None, each=None, together=200000000000.0)
    >>> ports_of("400 Gb/s RDMA per GPU").each, ports_of("NVLink 900 GB/s")
    (50000000000.0, None)
    """
    parts = [part for part in _PART.split(text or "") if part and not _INSIDE.search(part.lower())]
    found = [ports for part in parts if (ports := _told(part)) is not None]
    counted = [ports for ports in found if ports.count is not None]
    return next(iter(counted or found), None)


def _told(part: str) -> Ports | None:
    """Return the ports of one part of a text, by a rate in figures, else by a name."""
    part = _COUNTED.sub(r"\1 x ", part)
    if match := _SPEED.search(part):
        rate = float(match[2]) * _SCALE[match[3].lower()]
        rate /= 1 if match[4] == "B" else 8
        if match[1] is not None:
            return _plausible(Ports(int(match[1]), rate))
        if _OF_NODE.search(part) and not _OF_EACH.search(part):
            return _plausible(Ports(None, None, rate))
        return _plausible(Ports(None, rate))
    if match := _NAMED.search(part):
        count = None if match[1] is None else int(match[1])
        return _plausible(Ports(count, RATES[match[2].lower()]))
    return None


def _plausible(ports: Ports) -> Ports | None:
    """Return ports that a node can have; other figures were of something else."""
    rate = ports.each or ports.together or 0.0
    return ports if 1e7 <= rate <= 1e13 and 1 <= (ports.count or 1) <= 64 else None
