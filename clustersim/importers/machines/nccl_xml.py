"""Topology XML of NCCL and RCCL (`NCCL_TOPO_DUMP_FILE` writes it).

    <system> <cpu numaid=...> <pci busid=... class=... link_speed=... link_width=...>
                                <gpu dev=... sm=... gcn=...> <nvlink target=... count=... .../>
                                <nic> <net name=... speed=.../>

Nested ``pci`` elements are bridges.  Classes begin with 0x03 for a GPU, 0x02 for a NIC, 0x0604 for
a bridge; ``tclass`` 0x068000 marks NVLinks to a switch, 0x068001 to a CPU.  As in NCCL
2.30.7, ``src/graph/xml.cc`` and ``topo.cc``.
"""

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from clustersim.importers.machines.sketch import Clues, End, Nic, Sketch, Wire
from clustersim.importers.source import Element, Source, natural, parse_xml
from clustersim.records import dataclass

MOST_DEVICES: Final = 1024
MOST_HOSTS: Final = 64

_ENCODING: Final = ((6.0, 8 / 10), (40.0, 128 / 130), (1000.0, 242 / 256))
"""Encoding efficiency of a PCIe lane up to each rate [GT/s]: 8b/10b, 128b/130b, FLIT."""

_GEN3, _WIDE = 8.0, 16
"""Speed [GT/s] and width that NCCL assumes for a link where they are missing (``topo.cc``)."""

_FASTEST_NET: Final = 3_200_000
"""Higher net speeds [Mb/s] are ignored: published samples have speeds of 200,000,000."""


def pcie_bandwidth(gigatransfers: float, lanes: int) -> float:
    r"""Return the raw rate of a PCIe link per direction [B/s].

    .. math:: r \\, n \\, e / 8

    with r transfers per second and lane, n lanes and the efficiency e of the encoding.
    PCI Express Base Specification 6.0, section 4.2.

    >>> round(pcie_bandwidth(32.0, 16) / 1e9, 2)
    63.02
    """
    share = next(share for limit, share in _ENCODING if gigatransfers <= limit)
    return gigatransfers * 1e9 * lanes * share / 8


def read(source: Source) -> Sketch:
    """Return the node of an NCCL or RCCL topology file.

    Raises
    ------
    CatalogError
        with the line, when it has another format or is inconsistent.
    """
    root = parse_xml(source)
    if root.tag != "system":
        raise source.wrong(root.line, f"<{root.tag}> is not the root of a topology (<system> is)")
    return _Reader(source).sketch(root)


@dataclass
class _Gpu:
    """A GPU; `number` is its position in the file."""

    pci: Element
    gpu: Element | None
    cpu: str
    host: str
    number: int


@dataclass
class _Reader:
    """Walks the tree once, then resolves links, whose targets may come later in the file."""

    source: Source
    gpus: list[_Gpu] = field(default_factory=list)
    nics: list[tuple[Element, Element | None, End]] = field(default_factory=list)
    shortcuts: list[tuple[str, str, Element, Element]] = field(default_factory=list)
    silent: bool = False
    wires: list[Wire] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    bridges: dict[tuple[str, str], str] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def sketch(self, root: Element) -> Sketch:
        cpus = root.all("cpu")
        self.silent = not any(pci.all("gpu") for pci in _below(root))
        numbers = [cpu.get("numaid") for cpu in cpus]
        distinct = len(set(numbers)) == len(numbers) and all(
            re.fullmatch("[0-9]{1,4}", n) for n in numbers
        )
        for i, cpu in enumerate(cpus):
            name = f"cpu{int(numbers[i]) if distinct else i}"
            before = len(self.wires) + len(self.nics)
            for pci in cpu.all("pci"):
                self._visit(pci, name, name, cpu.get("host_hash"))
            self.nics += [(nic, net, name) for nic in cpu.all("nic") for net in nic.all("net")]
            if len(self.wires) + len(self.nics) > before:
                self.hosts.append(name)
        if not self.gpus:
            raise self.source.wrong(root.line, "lists no GPU (a <gpu>, or a <pci> of class 0x03)")
        if max(len(self.gpus), len(self.nics), len(self.bridges)) > MOST_DEVICES:
            raise self.source.wrong(root.line, f"lists more than {MOST_DEVICES} GPUs or NICs")
        if len(self.hosts) > MOST_HOSTS:
            raise self.source.wrong(root.line, f"lists more than {MOST_HOSTS} CPUs")
        return self._finished()

    def _visit(self, pci: Element, parent: End, cpu: str, host: str) -> None:
        """Read a PCI element and the elements below it."""
        gpu = next(iter(pci.all("gpu")), None)
        nets = [net for nic in pci.all("nic") for net in nic.all("net")]
        kind = pci.get("class").lower()
        if gpu is not None or (self.silent and kind.startswith("0x03")):
            self._wire(len(self.gpus), parent, pci)
            self.gpus.append(_Gpu(pci, gpu, cpu, host, len(self.gpus)))
        elif nets or pci.all("nic") or kind.startswith("0x02"):
            self.nics += [(pci, net, parent) for net in nets] or [(pci, None, parent)]
        elif any(_is_end(element) for element in _below(pci)):
            name = f"pcie{len(self.bridges)}"
            self.bridges[host, _bus(pci.get("busid"))] = name
            self._wire(name, parent, pci)
            self.shortcuts += [(name, host, pci, link) for link in pci.all("pcilink")]
            for child in pci.all("pci"):
                self._visit(child, name, cpu, host)

    def _wire(self, end: End, parent: End, pci: Element) -> None:
        self.wires.append(Wire(end, parent, "pcie", bandwidth=self._speed(pci)))

    def _speed(self, pci: Element) -> float:
        """Return the raw rate of the link from a PCI element to the one around it [B/s]."""
        speed = re.match(r"([0-9.]{1,8})", pci.get("link_speed"))
        width = pci.get("link_width")
        try:
            transfers = float(speed[1]) if speed else 0.0
        except ValueError:
            transfers = 0.0
        lanes = int(width) if re.fullmatch(r"[0-9]{1,2}", width) else 0
        if not 2 <= transfers <= 200 or not 1 <= lanes <= 32:
            self.guessed.append(pci.get("busid") or f"line {pci.line}")
        return pcie_bandwidth(
            transfers if 2 <= transfers <= 200 else _GEN3, lanes if 1 <= lanes <= 32 else _WIDE
        )

    def _finished(self) -> Sketch:
        order = self._numbers()
        wires = [Wire(_moved(w.a, order), w.b, w.kind, 1, w.bandwidth) for w in self.wires]
        counts, direct = self._links(order)
        known = [gpu.gpu for gpu in self.gpus if gpu.gpu is not None]
        if self.guessed:
            some = ", ".join(self.guessed[:4]) + (", ..." if len(self.guessed) > 4 else "")
            self.remarks.append(f"PCIe speed of {some}: not in the file; NCCL's 8 GT/s x16 is used")
        amd = any(gpu.get("gcn") for gpu in known)
        return Sketch(
            origin=f"{'RCCL' if amd else 'NCCL'} topology XML",
            devices=len(self.gpus),
            clues=self._clues(known, amd=amd),
            crossbar=tuple(counts) if any(counts) else None,
            wires=(*direct, *wires, *self._between_bridges()),
            nics=tuple(self._nics(order)),
            hosts=tuple(self.hosts),
            silent=self.silent,
            remarks=tuple(self.remarks),
        )

    def _numbers(self) -> dict[int, int]:
        """Return each GPU's device number: ``dev`` if unique, or its position in the file."""
        devs = [gpu.gpu.get("dev") if gpu.gpu is not None else "" for gpu in self.gpus]
        order = list(range(len(self.gpus)))
        if len(set(devs)) == len(devs) and all(re.fullmatch("[0-9]{1,6}", dev) for dev in devs):
            order.sort(key=lambda i: int(devs[i]))
        return {i: number for number, i in enumerate(order)}

    def _links(self, order: dict[int, int]) -> tuple[list[int], list[Wire]]:
        """Return each device's links to switches, and the links between devices and to CPUs."""
        at = {(gpu.host, _bus(gpu.pci.get("busid"))): order[gpu.number] for gpu in self.gpus}
        counts, direct = [0] * len(self.gpus), list[Wire]()
        seen: dict[tuple[int, int, str], int] = {}
        for gpu in self.gpus:
            here = order[gpu.number]
            for link in gpu.gpu.children if gpu.gpu is not None else ():
                if link.tag == "c2c":
                    each = self._count(link, "bw", 10**7) * 1e6
                    direct.append(Wire(here, gpu.cpu, "c2c", self._count(link, "count"), each))
                elif link.tag in ("nvlink", "xgmi"):
                    count, kind = self._count(link, "count"), link.get("tclass").lower()
                    peer = at.get((gpu.host, _bus(link.get("target"))))
                    if kind.startswith("0x068001"):
                        direct.append(Wire(here, gpu.cpu, link.tag, count))
                    elif peer is not None and peer != here:
                        seen[here, peer, link.tag] = seen.get((here, peer, link.tag), 0) + count
                    elif link.tag == "nvlink" and not kind.startswith("0x03"):
                        counts[here] += count
                    else:
                        target = link.get("target")
                        raise self.source.wrong(link.line, f"{link.tag} leads to no GPU: {target}")
        return counts, [*self._both_ends(seen), *direct]

    def _both_ends(self, seen: dict[tuple[int, int, str], int]) -> Iterator[Wire]:
        """Yield each pair's links once; both ends list them, and the lower count is used."""
        for (a, b, kind), count in sorted(seen.items()):
            back = seen.get((b, a, kind))
            if back is not None and back != count and a < b:
                self.remarks.append(
                    f"{kind} {a}-{b}: {count} links one way, {back} back; the lower is used"
                )
            if a < b or back is None:
                yield Wire(min(a, b), max(a, b), kind, min(count, back or count))

    def _count(self, link: Element, name: str, most: int = 1000) -> int:
        text = link.get(name)
        if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= most:
            raise self.source.wrong(link.line, f"<{link.tag}> {name}: {text!r} is not 1 to {most}")
        return int(text)

    def _between_bridges(self) -> Iterator[Wire]:
        """Yield the links between two PCIe switches outside the tree, each once."""
        seen: set[frozenset[str]] = set()
        for name, host, pci, link in self.shortcuts:
            target = self.bridges.get((host, _bus(link.get("target"))))
            if target is None:
                raise self.source.wrong(
                    link.line, f"pcilink leads to no bridge: {link.get('target')}"
                )
            if target != name and frozenset((name, target)) not in seen:
                seen.add(frozenset((name, target)))
                yield Wire(name, target, "pcie", bandwidth=self._speed(pci))

    def _clues(self, known: list[Element], *, amd: bool) -> Clues:
        if not known:
            return Clues("nvidia")
        codes = sorted({gpu.get("gcn" if amd else "sm") for gpu in known})
        if len(codes) > 1:
            self.remarks.append(f"GPUs of several kinds ({', '.join(codes)}): the first is used")
        units = known[0].get("sm")
        counted = int(units) if amd and re.fullmatch("[0-9]{1,6}", units) else None
        return Clues("amd" if amd else "nvidia", known[0].get("gcn" if amd else "sm"), counted)

    def _nics(self, order: dict[int, int]) -> Iterator[Nic]:
        nics = []
        for pci, net, end in self.nics:
            name = (net.get("name") if net else "") or pci.get("busid") or "NIC"
            bus = self._speed(pci) if pci.tag == "pci" else None
            nics.append(Nic(name, _moved(end, order), self._net_speed(net), bus))
        yield from sorted(nics, key=lambda nic: natural(nic.name))

    def _net_speed(self, net: Element | None) -> float | None:
        """Return the rate of a net [B/s], None if it is missing or implausible."""
        text = net.get("speed") if net else ""
        if not re.fullmatch("[0-9]{1,12}", text) or int(text) == 0:
            return None
        if int(text) > _FASTEST_NET:
            assert net is not None
            self.remarks.append(f"{net.get('name')}: implausible speed of {text} Mb/s ignored")
            return None
        return int(text) * 1e6 / 8


def _below(element: Element) -> Iterator[Element]:
    """Yield the PCI elements inside an element at any depth, including itself."""
    stack = [element]
    while stack:
        inner = stack.pop()
        if inner.tag == "pci":
            yield inner
        stack += inner.children


def _is_end(pci: Element) -> bool:
    """Whether a PCI element is a GPU or a NIC."""
    kind = pci.get("class").lower()
    return bool(pci.all("gpu") or pci.all("nic")) or kind.startswith(("0x02", "0x03"))


def _bus(busid: str) -> str:
    """Return a bus number in lower case without leading zeros."""
    return busid.strip().lower().lstrip("0")


def _moved(end: End, order: dict[int, int]) -> End:
    return order[end] if isinstance(end, int) else end
