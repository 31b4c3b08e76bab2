"""The matrix of `nvidia-smi topo -m`.

            GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity
    GPU0     X    NV12  PXB   48-63         3
    GPU1    NV12   X    PXB   48-63         3

NV# counts the NVLinks of a *path*: if the sum over all peers exceeds the links of the chip, they
lead to a switch; otherwise they are direct.  PIX stays below one PCIe bridge, PXB crosses several,
PHB and NODE a host bridge of one NUMA node, SYS the link between sockets.  The implied tree is
built from the leaves: bridges of PIX groups, bridges of PXB groups, one end per NUMA node.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import networkx as nx

from clustersim.importers.machines.hardware import MOST_LINKS, by_product
from clustersim.importers.machines.sketch import Clues, End, Nic, Sketch, Wire
from clustersim.importers.source import Source
from clustersim.records import dataclass

MOST_ENDS: Final = 256

_CELL: Final = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|SOC|NV([0-9]{1,3})")
_NEAR: Final = (("PIX",), ("PIX", "PXB"), ("PIX", "PXB", "PHB", "NODE"))
"""Cells of two ends below one bridge, below one tree of bridges, and in one NUMA node."""

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Matrix:
    """The cells by the names of row and column, and each device's NUMA node or cores."""

    names: list[str]
    cells: dict[tuple[str, str], str]
    numa: dict[str, str]

    @property
    def gpus(self) -> list[str]:
        """The rows of devices."""
        return [name for name in self.names if re.fullmatch(r"GPU[0-9]+", name)]

    @property
    def nics(self) -> list[str]:
        """The rows of NICs."""
        gpus = set(self.gpus)
        return [name for name in self.names if name not in gpus]

    def links(self, a: str, b: str) -> int:
        """Return the NVLinks on the path between two devices."""
        match = _CELL.fullmatch(self.cells.get((a, b), ""))
        return int(match[1]) if match and match[1] else 0


def read(source: Source) -> Sketch:
    """Return the node of a matrix.

    Raises
    ------
    CatalogError
        with the line, when there is no matrix, or it is not square or not symmetric.
    """
    matrix = _matrix(source)
    gpus, remarks = matrix.gpus, list[str]()
    clues = Clues("nvidia", product=_products(source))
    rows = [[matrix.links(a, b) for b in gpus if a != b] for a in gpus]
    crossbar = _crossbar(rows, clues, remarks)
    number = {name: i for i, name in enumerate(gpus)}
    direct = [
        Wire(number[a], number[b], "nvlink", matrix.links(a, b))
        for a in gpus
        for b in gpus
        if crossbar is None and number[a] < number[b] and matrix.links(a, b)
    ]
    wires, parents, hosts = _tree(matrix, number)
    labels = _legend(source)
    return Sketch(
        origin="nvidia-smi topo -m",
        devices=len(gpus),
        clues=clues,
        crossbar=crossbar,
        wires=(*direct, *wires),
        nics=tuple(Nic(labels.get(name, name), parents[name]) for name in matrix.nics),
        hosts=hosts,
        remarks=tuple(remarks),
    )


# --- the text -------------------------------------------------------------------------------------


def _matrix(source: Source) -> Matrix:
    lines = [(number, _ESCAPES.sub("", line).split()) for number, line in source.lines]
    heads = (i for i, (_, words) in enumerate(lines) if words[:1] == ["GPU0"] and _is_head(words))
    start = next(heads, None)
    if start is None:
        raise source.wrong(None, "has no matrix (a line that begins with GPU0 and names columns)")
    line, words = lines[start]
    names = _columns(words)
    if len(set(names)) != len(names):
        raise source.wrong(line, "names a column twice")
    if len(names) > MOST_ENDS:
        raise source.wrong(line, f"names more than {MOST_ENDS} columns")
    cells: dict[tuple[str, str], str] = {}
    numa: dict[str, str] = {}
    for number, row in lines[start + 1 :]:
        if row and row[0] in names and (row[0], row[0]) not in cells:
            _take_row(source, number, row, names, cells)
            numa[row[0]] = " ".join(_affinity(row[1 + len(names) :]))
    missing = [name for name in names if name not in numa]
    if missing:
        raise source.wrong(line, f"the matrix has no row for {missing[0]} (is the text truncated?)")
    _check_symmetric(source, line, names, cells)
    return Matrix(names, cells, numa)


def _is_head(words: Sequence[str]) -> bool:
    return not any(_CELL.fullmatch(word) for word in words[1:])


def _columns(words: Sequence[str]) -> list[str]:
    """Return the names of the columns before those of the affinities."""
    end = next((i for i, word in enumerate(words) if word in ("CPU", "NUMA")), len(words))
    if end < len(words) and words[end - 1] == "GPU" and end > 1:  # "GPU NUMA ID"
        end -= 1
    return list(words[:end])


def _take_row(
    source: Source,
    line: int,
    row: Sequence[str],
    names: Sequence[str],
    cells: dict[tuple[str, str], str],
) -> None:
    values = row[1 : 1 + len(names)]
    if len(values) < len(names):
        raise source.wrong(line, f"{row[0]}: {len(values)} cells, but {len(names)} columns")
    for name, value in zip(names, values, strict=True):
        if not _CELL.fullmatch(value):
            raise source.wrong(
                line, f"{row[0]}, {name}: {value!r} is not a connection (X, NV#, SYS, ...)"
            )
        cells[row[0], name] = value
    if cells[row[0], row[0]] != "X":
        raise source.wrong(line, f"{row[0]}: X is not on the diagonal")


def _affinity(rest: Sequence[str]) -> Sequence[str]:
    """Return the NUMA node if given, otherwise the cores."""
    return rest[1:2] if len(rest) > 1 and rest[1] != "N/A" else rest[:1]


def _check_symmetric(
    source: Source, line: int, names: Sequence[str], cells: dict[tuple[str, str], str]
) -> None:
    for a in names:
        for b in names:
            if cells[a, b] != cells[b, a]:
                both = f"{cells[a, b]} in one direction, {cells[b, a]} in the other"
                raise source.wrong(line, f"the matrix is not symmetric: {a}-{b} is {both}")


def _legend(source: Source) -> dict[str, str]:
    """Return the names of NIC0, NIC1, ... from the legend of newer drivers."""
    matches = (re.fullmatch(r"\s*(NIC[0-9]+):\s*(\S+)\s*", line) for _, line in source.lines)
    return {match[1]: match[2] for match in matches if match}


def _products(source: Source) -> str:
    """Return the product name if the text includes the output of `nvidia-smi`."""
    makers = re.compile(r"NVIDIA|Tesla|GeForce|Quadro")
    lines = [line for _, line in source.lines if makers.search(line) and "NVIDIA-SMI" not in line]
    return lines[0][:200] if lines else ""


# --- interpretation -------------------------------------------------------------------------------


def _crossbar(rows: list[list[int]], clues: Clues, remarks: list[str]) -> tuple[int, ...] | None:
    """Return each device's links to switches if a row exceeds the links of the chip, or None."""
    if len(rows) < 2 or not all(row and min(row) > 0 for row in rows):
        return None
    named = by_product(clues)
    most = named[0].links if named else MOST_LINKS
    if max(sum(row) for row in rows) <= most:
        return None
    remarks.append(f"NV{max(rows[0])} to every peer exceeds the {most} links of a chip: a switch")
    return tuple(max(row) for row in rows)


def _tree(
    matrix: Matrix, number: dict[str, int]
) -> tuple[list[Wire], dict[str, End], tuple[str, ...]]:
    """Return the PCIe links, the end of each NIC, and the host bridges."""
    groups = [_groups(matrix, near, numa=i == 2) for i, near in enumerate(_NEAR)]
    names = _bridges(matrix.names, groups)
    wires: dict[tuple[End, End], None] = {}
    below: dict[str, End] = {}
    for name in matrix.names:
        above = [names[i, groups[i][name]] for i in range(3) if (i, groups[i][name]) in names]
        if name in number:
            wires[number[name], above[0]] = None
        else:
            below[name] = above[0]
        wires |= dict.fromkeys(pairwise(above))
    hosts = tuple(end for (level, _), end in names.items() if level == 2)
    return [Wire(a, b, "pcie") for a, b in wires], below, hosts


def _bridges(names: Sequence[str], groups: Sequence[dict[str, str]]) -> dict[tuple[int, str], str]:
    """Return the name of each bridge by its level and group.

    A group of one has no bridge; every NUMA node has an end.
    """
    bridges: dict[tuple[int, str], str] = {}
    for name in names:
        for level in (0, 1):
            group = groups[level][name]
            members = [other for other in names if groups[level][other] == group]
            inner = {groups[0][other] for other in members} if level else set(members)
            if len(inner) > 1:
                bridges.setdefault((level, group), f"pcie{len(bridges)}")
    nodes = dict.fromkeys(groups[2][name] for name in names)
    return bridges | {(2, node): f"cpu{i}" for i, node in enumerate(nodes)}


def _groups(matrix: Matrix, near: Iterable[str], *, numa: bool) -> dict[str, str]:
    """Return for each end the first end of its group: those joined by cells of `near`.

    Between devices NVLink hides the PCIe path, so devices of the same affinity are also in one NUMA
    node.
    """
    graph = nx.Graph([(a, b) for (a, b), cell in matrix.cells.items() if cell in near])
    graph.add_nodes_from(matrix.names)
    if numa:
        first: dict[str, str] = {}
        for name in matrix.gpus:
            if label := matrix.numa[name]:
                graph.add_edge(first.setdefault(label, name), name)
    groups = [sorted(group, key=matrix.names.index) for group in nx.connected_components(graph)]
    return {name: group[0] for group in groups for name in group}
