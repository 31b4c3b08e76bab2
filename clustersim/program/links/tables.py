"""The traffic of many names in a few tables, so that one operation on arrays serves all names.

stage 0 to 1: replica 0, replica 1, ... | stage 1 to 2: replica 0, replica 1, ... | ...
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from clustersim.arrays import Booleans, Floats, Integers
from clustersim.records import dataclass
from clustersim.traffic import LinkRows, Name, Traffic, TrafficRows, Transfers, stacked

MOST_ENTRIES: Final = 1 << 14
"""Links of all rows after which a table is full, which bounds the memory of operations on it.

The traffic of many replicas has as many for each name, and is not copied.
"""


@dataclass(frozen=True, eq=False)
class TrafficTable:
    """The traffic of several names, the rows of one name after those of another.

    Attributes
    ----------
    names : of the traffic, each with as many rows
    titles : of the same, as errors quote them
    moved : all rows
    """

    names: tuple[Name, ...]
    titles: tuple[str, ...]
    moved: TrafficRows

    @property
    def rows(self) -> int:
        """Rows of each name."""
        return len(self.moved) // len(self.names)

    @property
    def crossings(self) -> LinkRows:
        """How many flows of each row cross each link [flows]."""
        return self.moved.crossings

    @property
    def name_and_row(self) -> tuple[Integers, Integers]:
        """For each entry of the crossings the place of its name, and its row in that name.

        Made each time: they are as large as the crossings themselves.
        """
        names, rows, counts = len(self.names), self.rows, self.crossings.counts
        index = np.repeat(np.arange(names), rows)
        return np.repeat(index, counts), np.repeat(np.tile(np.arange(rows), names), counts)

    def only(self, links: Booleans) -> "TrafficTable":
        """Return the traffic on some links only."""
        crossings = self.crossings.only(links[self.crossings.links])
        return replace(self, moved=replace(self.moved, crossings=crossings))

    def each_name(self, values: Sequence[float]) -> Floats:
        """Return a value for each row from one for each name."""
        return np.repeat(np.array(values, dtype=np.float64), self.rows)

    def entries(self) -> Iterator[tuple[str, int, int, float]]:
        """Yield the title, the row of this name, the link and the flows of each crossing."""
        name, row = self.name_and_row
        titles = (self.titles[number] for number in name.tolist())
        links, flows = self.crossings.links.tolist(), self.crossings.values.tolist()
        return zip(titles, row.tolist(), links, flows, strict=True)

    def traffic(self) -> Iterator[tuple[Name, int, Traffic]]:
        """Yield each name, row, and the traffic of this row."""
        rows, moved, crossings = self.rows, self.moved, self.crossings
        starts, links, weights = (
            array.tolist() for array in (crossings.starts, crossings.links, crossings.values)
        )
        amounts = np.stack([moved.nbytes, moved.latency, moved.cap], axis=1).tolist()
        for at, each in enumerate(amounts):
            name, row = divmod(at, rows)
            own = slice(starts[at], starts[at + 1])
            traffic = Traffic(self.titles[name], tuple(links[own]), tuple(weights[own]), *each)
            yield self.names[name], row, traffic


def tables_of(transfers: Transfers) -> list[TrafficTable]:
    """Return traffic in tables, in the same order; all names have the same number of rows."""
    parts: list[list[Name]] = []
    entries = MOST_ENTRIES
    for name, moved in transfers.items():
        if entries >= MOST_ENTRIES:
            parts.append([])
            entries = 0
        parts[-1].append(name)
        entries += len(moved.crossings.links)
    return [_table(names, [transfers[name] for name in names]) for names in parts]


def _table(names: Sequence[Name], moved: Sequence[TrafficRows]) -> TrafficTable:
    titles = tuple(each.name for each in moved)
    if len(moved) == 1:
        return TrafficTable(tuple(names), titles, moved[0])
    whole = TrafficRows(
        "",
        stacked([each.crossings for each in moved]),
        np.concatenate([each.nbytes for each in moved]),
        np.concatenate([each.latency for each in moved]),
        np.concatenate([each.cap for each in moved]),
    )
    return TrafficTable(tuple(names), titles, whole)
