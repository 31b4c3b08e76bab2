"""The tables of `rocm-smi --showtopo`.

    ===== Weight between two GPUs =====        15 for each xGMI hop, 20 for each PCIe segment
           GPU0         GPU1
    GPU0   0            15
    GPU1   15           0
    ===== Link Type between two GPUs =====     XGMI or PCIE
    ===== Numa Nodes =====                     GPU[0] : (Topology) Numa Node: 0

Hops are not counted in xGMI links and are ignored: two GPUs have a direct link if their weight is
that of one hop.  None of the tables has the number of links of a pair.
"""

import re
from typing import Final

from clustersim.importers.machines.sketch import Clues, Sketch, Wire
from clustersim.importers.source import Source
from clustersim.records import dataclass

MOST_DEVICES: Final = 128

_TITLE: Final = re.compile(r"=*\s*(Weight|Hops|Link Type) between two GPUs\s*=*")
_NUMA: Final = re.compile(r"GPU\[([0-9]{1,4})\]\s*:\s*\(Topology\) Numa Node:\s*(-?[0-9]{1,4})\s*")
_CODE: Final = re.compile(r"\bgfx[0-9]+[a-z]?\b")
_PRODUCT: Final = re.compile(r"Card [Ss]eries:\s*(.+)")


@dataclass(frozen=True)
class Table:
    """One of the tables: the line of its title and the cells by row and column."""

    line: int
    rows: list[list[str]]


def read(source: Source) -> Sketch:
    """Return the node of the tables.

    Raises
    ------
    CatalogError
        with the line, when a table is missing, truncated or of another size.
    """
    tables = _tables(source)
    for title in ("Weight", "Link Type"):
        if title not in tables:
            raise source.wrong(None, f"has no table '{title} between two GPUs'")
    weights, types = tables["Weight"], tables["Link Type"]
    count = len(weights.rows)
    if len(types.rows) != count:
        raise source.wrong(
            types.line, f"{len(types.rows)} rows, but {count} in the table of weights"
        )
    sockets = _sockets(source, count)
    nodes = sorted(set(sockets))
    hosts = [f"cpu{node}" for node in nodes]
    tree = [Wire(gpu, f"cpu{socket}", "pcie") for gpu, socket in enumerate(sockets)]
    return Sketch(
        origin="rocm-smi --showtopo",
        devices=count,
        clues=_clues(source),
        wires=(*_direct(source, weights, types), *tree),
        hosts=tuple(hosts),
    )


def _tables(source: Source) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    lines = source.lines
    for i, (number, line) in enumerate(lines):
        if title := _TITLE.fullmatch(line.strip()):
            tables[title[1]] = Table(number, _rows(source, i + 1))
    return tables


def _rows(source: Source, start: int) -> list[list[str]]:
    """Return the rows of the table with its column names in line `start`, counted from 0."""
    line, lines = start, source.lines
    words = lines[start][1].split() if start < len(lines) else []
    if not words or words != [f"GPU{i}" for i in range(len(words))]:
        raise source.wrong(line, "no columns GPU0, GPU1, ... below this title")
    if len(words) > MOST_DEVICES:
        raise source.wrong(line, f"more than {MOST_DEVICES} GPUs")
    rows: list[list[str]] = []
    for number, text in lines[start + 1 : start + 1 + len(words)]:
        name, *cells = text.split() or [""]
        if name != words[len(rows)] or len(cells) != len(words):
            raise source.wrong(number, f"expected {words[len(rows)]} and {len(words)} cells")
        rows.append(cells)
    if len(rows) < len(words):
        raise source.wrong(line, f"the table ends before {words[len(rows)]} (truncated?)")
    return rows


def _direct(source: Source, weights: Table, types: Table) -> list[Wire]:
    """Return the xGMI links of one hop; their count is not in the file (0)."""
    count = len(weights.rows)
    joined = {}
    for a in range(count):
        for b in range(a + 1, count):
            if types.rows[a][b] != types.rows[b][a]:
                raise source.wrong(types.line, f"GPU{a}-GPU{b} differs from GPU{b}-GPU{a}")
            if types.rows[a][b].upper() == "XGMI":
                joined[a, b] = _weight(source, weights, a, b)
    hop = min(joined.values(), default=0)
    return [Wire(a, b, "xgmi", 0) for (a, b), weight in joined.items() if weight == hop]


def _weight(source: Source, weights: Table, a: int, b: int) -> int:
    text = weights.rows[a][b]
    if not re.fullmatch("[0-9]{1,6}", text):
        raise source.wrong(weights.line, f"GPU{a}-GPU{b}: the weight {text!r} is not a number")
    return int(text)


def _sockets(source: Source, count: int) -> list[int]:
    """Return each GPU's NUMA node; 0 if the file does not state it."""
    nodes = {}
    for _, line in source.lines:
        if match := _NUMA.fullmatch(line.strip()):
            nodes[int(match[1])] = max(int(match[2]), 0)
    return [nodes.get(gpu, 0) for gpu in range(count)]


def _clues(source: Source) -> Clues:
    """Return code and product name of the chip if the output includes them."""
    code = _CODE.search(source.text)
    product = _PRODUCT.search(source.text)
    return Clues("amd", code=code[0] if code else "", product=product[1].strip() if product else "")
