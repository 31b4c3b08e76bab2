"""XML of `lstopo` (hwloc 1.x and 2.x).

    <topology> <object type="Machine"> <object type="Package"> <object type="NUMANode"/>
      <object type="Bridge" bridge_type="0-1">                        a host bridge
        <object type="Bridge" bridge_type="1-1" pci_link_speed=...>   a port of PCIe
          <object type="PCIDev" pci_type="0302 [10de:20b2] ..." pci_link_speed=...>
            <object type="OSDev" name="nvml0" gp_index=...> <info name="GPUModel" value=...>
    <distances2 name="NVLinkBandwidth" ...> <indexes>... <u64values>...

Speeds of PCIe are in GB/s without the encoding.  A port states the rate of the link below it, as
does the device at the other end of this link.  No object states links between devices; if hwloc was
built with NVML or ROCm SMI, a matrix in MB/s has 25,000 (NVLink 1: 20,000) for each NVLink to a
device or to a port of an NVSwitch, and a matrix of hops the pairs on xGMI.  hwloc 2.12,
``hwloc/topology-nvml.c``, ``topology-rsmi.c`` and ``topology-xml.c``, read 2026-11-24.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

from clustersim.importers.machines.sketch import Clues, End, Nic, Sketch, Wire
from clustersim.importers.source import Element, Source, natural, parse_xml
from clustersim.records import dataclass

MOST_DEVICES: Final = 1024

_GPU: Final = re.compile(r"(?:03|12)[0-9a-f]{2} \[(10de|1002):", re.IGNORECASE)
"""Display controllers and processing accelerators of a maker of GPUs."""

_MAKERS: Final = {"10de": "nvidia", "1002": "amd"}
_NUMBERED: Final = re.compile(r"(?:nvml|rsmi|cuda)([0-9]{1,4})")
"""Names of GPUs in libraries that number them as a job does."""

_WITH_MEMORY: Final = ("Machine", "Package", "Socket", "Group")
_BRIDGE: Final = "Bridge"
_NETWORK, _OPEN_FABRICS = "2", "3"
"""Kinds of devices of the operating system: ``ib0`` or ``eth0``, and ``mlx5_0``."""

_ACTIVE: Final = "4"
"""State of an active port of InfiniBand."""

_LINK_RATES: Final = (25_000, 20_000)
_IDLE: Final = 4.1e9
"""A GPU whose link is not faster [B/s], that of 16 lanes of Gen 1, may be saving power."""

_SWITCH: Final = "switch"


def read(source: Source) -> Sketch:
    """Return the node of an XML file of lstopo.

    Raises
    ------
    CatalogError
        with the line, when it has another format, no GPU, or an inconsistent matrix.
    """
    root = parse_xml(source, doctype=True)
    if root.tag != "topology":
        raise source.wrong(root.line, f"<{root.tag}> is not the root of a topology (<topology> is)")
    gpus = _numbered([pci for pci in _objects(root, "PCIDev") if _GPU.match(pci.get("pci_type"))])
    if not gpus:
        raise source.wrong(root.line, "lists no GPU of NVIDIA or AMD (was lstopo run as --no-io?)")
    if len(gpus) > MOST_DEVICES:
        raise source.wrong(root.line, f"lists more than {MOST_DEVICES} GPUs")
    return _Reader(source, gpus, {id(pci): i for i, pci in enumerate(gpus)}).sketch(root)


@dataclass
class _Reader:
    """Walks the tree once; the matrices refer to its objects.

    Attributes
    ----------
    gpus : the PCI devices of the GPUs in the order of their numbers
    number : the number of a GPU by the identity of its PCI device
    hosts : the name of a host bridge by the identity of the object with its memory
    """

    source: Source
    gpus: list[Element]
    number: dict[int, int]
    nics: list[Nic] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    hosts: dict[int, str] = field(default_factory=dict)
    bridges: int = 0
    remarks: list[str] = field(default_factory=list)

    def sketch(self, root: Element) -> Sketch:
        for machine in root.all("object"):
            self._visit(machine, machine)
        if max(len(self.nics), self.bridges) > MOST_DEVICES:
            raise self.source.wrong(root.line, f"lists more than {MOST_DEVICES} NICs")
        direct, crossbar = self._links(root)
        products = list(dict.fromkeys(map(_product, self.gpus)))
        if len(products) > 1:
            self.remarks.append(f"GPUs of several kinds ({', '.join(products)}): the first is used")
        return Sketch(
            origin="lstopo XML",
            devices=len(self.gpus),
            clues=Clues(_maker(self.gpus[0]), product=products[0]),
            crossbar=crossbar,
            wires=(*direct, *self.wires),
            nics=tuple(sorted(self.nics, key=lambda nic: natural(nic.name))),
            hosts=tuple(self.hosts.values()),
            silent=not direct and crossbar is None,
            remarks=(*self.remarks, *self._idle()),
        )

    # --- the tree of PCIe -------------------------------------------------------------------------

    def _visit(self, element: Element, host: Element) -> None:
        """Read the host bridges inside an object; `host` is the nearest object with memory.

        The memory of an object is inside it in hwloc 2, and around it in hwloc 1.
        """
        inner = element.all("object")
        local = any(child.get("type") == "NUMANode" for child in inner)
        if element.get("type") == "NUMANode" or (element.get("type") in _WITH_MEMORY and local):
            host = element
        for child in inner:
            if child.get("type") != _BRIDGE:
                self._visit(child, host)
            elif self._leads_on(child):
                name = self.hosts.setdefault(id(host), f"cpu{len(self.hosts)}")
                self._descend(child, name, [])

    def _descend(self, bridge: Element, parent: End, ports: list[Element]) -> None:
        """Read what is below a bridge; `ports` are those since the last fork of the tree."""
        ends = [child for child in bridge.all("object") if self._leads_on(child)]
        if len(ends) > 1 and ports:
            name, self.bridges = f"pcie{self.bridges}", self.bridges + 1
            self.wires.append(Wire(name, parent, "pcie", bandwidth=_rate(ports)))
            parent, ports = name, []
        for child in ends:
            if child.get("type") == _BRIDGE:
                self._descend(child, parent, [*ports, child])
            elif id(child) in self.number:
                rate = _rate([*ports, child])
                self.wires.append(Wire(self.number[id(child)], parent, "pcie", bandwidth=rate))
            else:
                self._take_nic(child, parent, _rate([*ports, child]))

    def _leads_on(self, element: Element) -> bool:
        """Whether an object is or contains a GPU, or a NIC with a name."""
        return any(
            id(pci) in self.number or (pci.get("pci_type").startswith("02") and _network(pci))
            for pci in _objects(element, "PCIDev")
        )

    def _take_nic(self, pci: Element, parent: End, rate: float | None) -> None:
        states = [state for device in pci.all("object") for state in _port_states(device)]
        if states and _ACTIVE not in states:
            self.remarks.append(f"omitted {_network(pci)}: none of its ports is active")
        else:
            self.nics.append(Nic(_network(pci), parent, bus=rate))

    def _idle(self) -> Iterator[str]:
        """Yield a remark if GPUs have the rate of a link that saves power."""
        slow = [w for w in self.wires if isinstance(w.a, int) and 0 < (w.bandwidth or 0) <= _IDLE]
        if slow:
            yield (
                f"PCIe of {len(slow)} GPUs at {min(w.bandwidth or 0 for w in slow) / 1e9:.3g} GB/s:"
                " the rate at that time, which is low while a GPU is idle (run lstopo under load)"
            )

    # --- links between devices --------------------------------------------------------------------

    def _links(self, root: Element) -> tuple[list[Wire], tuple[int, ...] | None]:
        """Return the links from device to device, and each device's links to switches."""
        matrices = {
            element.get("name"): element
            for element in root.children
            if element.tag in ("distances2", "distances2hetero")
        }
        if nvlink := matrices.get("NVLinkBandwidth"):
            return self._nvlinks(nvlink, *self._matrix(root, nvlink))
        if hops := matrices.get("XGMIHops"):
            ends, rows = self._matrix(root, hops)
            return [Wire(a, b, "xgmi", 0) for a, b, hop in _pairs(ends, rows) if hop == 1], None
        return [], None

    def _nvlinks(
        self, matrix: Element, ends: Sequence[End | None], rows: Sequence[Sequence[int]]
    ) -> tuple[list[Wire], tuple[int, ...] | None]:
        each = next((r for r in _LINK_RATES if all(v % r == 0 for row in rows for v in row)), None)
        if each is None:
            raise self.source.wrong(matrix.line, f"rates are no multiples of {_LINK_RATES[0]} MB/s")
        counts, direct = [0] * len(self.gpus), list[Wire]()
        for a, b, rate in _pairs(ends, rows):
            if b == _SWITCH:
                counts[a] += rate // each
            else:
                direct.append(Wire(a, b, "nvlink", rate // each))
        return direct, tuple(counts) if any(counts) else None

    def _matrix(self, root: Element, matrix: Element) -> tuple[list[End | None], list[list[int]]]:
        """Return the ends of a matrix, None for one that is unknown, and its rows."""
        indexes = [word for part in matrix.all("indexes") for word in part.words()]
        values = [word for part in matrix.all("u64values") for word in part.words()]
        count = len(indexes)
        if not 1 <= count <= MOST_DEVICES or len(values) != count * count:
            raise self.source.wrong(
                matrix.line, f"{count} indexes, but {len(values)} values (expected {count**2})"
            )
        if not all(re.fullmatch("[0-9]{1,9}", value) for value in values):
            raise self.source.wrong(matrix.line, "values must be whole numbers [MB/s]")
        names = self._names(root)
        ends = [names.get(index.rpartition(":")[2]) for index in indexes]
        rows = [list(map(int, values[i : i + count])) for i in range(0, count**2, count)]
        return ends, rows

    def _names(self, root: Element) -> dict[str, End]:
        """Return the device, the switch or the host bridge by the index of its object."""
        names: dict[str, End] = {}
        for element in _objects(root):
            index, number = element.get("gp_index"), self.number.get(id(element))
            if number is not None:
                names |= {inner.get("gp_index"): number for inner in _objects(element)}
            elif element.get("type") == "PCIDev":
                names[index] = _SWITCH
            elif host := self.hosts.get(id(element)):
                names[index] = host
        return names


def _pairs(
    ends: Sequence[End | None], rows: Sequence[Sequence[int]]
) -> Iterator[tuple[int, End, int]]:
    """Yield the values of a matrix that are not 0: (device, other end, value), each pair once."""
    for a, row in zip(ends, rows, strict=True):
        for b, value in zip(ends, row, strict=True):
            later = isinstance(b, str) or (isinstance(a, int) and isinstance(b, int) and a < b)
            if isinstance(a, int) and b is not None and later and value:
                yield a, b, value


def _objects(element: Element, kind: str | None = None) -> Iterator[Element]:
    """Yield an object and the objects inside it at any depth, in the order of the file."""
    stack = [element]
    while stack:
        inner = stack.pop()
        if kind is None or inner.get("type") == kind:
            yield inner
        stack += reversed(inner.all("object"))


def _numbered(found: list[Element]) -> list[Element]:
    """Return the GPUs of a job: those with a number if there are any, of one maker otherwise."""
    known = [pci for pci in found if _own_number(pci) is not None]
    numbers = [_own_number(pci) for pci in known]
    if known and len(set(numbers)) == len(numbers):
        return sorted(known, key=lambda pci: _own_number(pci) or 0)
    by_maker = {maker: [pci for pci in found if _maker(pci) == maker] for maker in _MAKERS.values()}
    return known or next(filter(None, by_maker.values()), [])


def _own_number(pci: Element) -> int | None:
    names = (_NUMBERED.fullmatch(device.get("name")) for device in pci.all("object"))
    return next((int(name[1]) for name in names if name), None)


def _maker(pci: Element) -> str:
    match = _GPU.match(pci.get("pci_type"))
    return _MAKERS[match[1].lower()] if match else ""


def _product(pci: Element) -> str:
    """Return the product of a GPU from NVML or ROCm SMI, or from the table of PCI devices."""
    infos = [info for inner in _objects(pci) for info in inner.all("info")]
    values = {info.get("name"): info.get("value") for info in infos}
    return (values.get("GPUModel") or values.get("PCIDevice") or pci.get("name"))[:200]


def _network(pci: Element) -> str:
    """Return the name of a NIC, that of OpenFabrics first; empty without any."""
    devices = {device.get("osdev_type"): device.get("name") for device in pci.all("object")}
    return devices.get(_OPEN_FABRICS) or devices.get(_NETWORK, "")


def _port_states(device: Element) -> Iterator[str]:
    for info in device.all("info"):
        if re.fullmatch("Port[0-9]{1,3}State", info.get("name")):
            yield info.get("value")


def _rate(ports: Sequence[Element]) -> float | None:
    """Return the rate of the slowest link along some ports [B/s], None if no rate is known.

    A link has a port at each end, and the higher of two rates is used: NVML's part of hwloc states
    at most that of Gen 3 for a GPU.
    """
    speeds = [_speed(port) for port in reversed(ports)]
    links = [max(speeds[i : i + 2]) for i in range(0, len(speeds), 2)]
    return min((rate for rate in links if rate), default=None)


def _speed(port: Element) -> float:
    text = port.get("pci_link_speed")
    return float(text) * 1e9 if re.fullmatch(r"[0-9]{1,4}(?:\.[0-9]{1,9})?", text) else 0.0
