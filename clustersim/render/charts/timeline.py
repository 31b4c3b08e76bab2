"""Blocks in lanes over time, such as what the stages of a pipeline compute and when they wait."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from clustersim.records import dataclass
from clustersim.render.charts.picture import Axis, Cell, Entry, Picture
from clustersim.render.tables import percent


class BlockKind(NamedTuple):
    """A kind of blocks.

    Attributes
    ----------
    colours : of the first and of the last shade
    computes : whether its blocks compute a microbatch, and carry its number
    """

    name: str
    colours: tuple[str, str]
    computes: bool = True


COMPUTE_KINDS: Final = (
    BlockKind("forward", ("forward-0", "forward-1")),
    BlockKind("backward", ("backward-0", "backward-1")),
    BlockKind("backward of inputs", ("backward-0", "backward-1")),
    BlockKind("backward of weights", ("weights-0", "weights-1")),
)
"""Kinds of blocks, as `clustersim.timeline.KINDS` counts them."""

STEP_KINDS: Final = (
    *COMPUTE_KINDS,
    BlockKind("gradients and parameters", ("communication", "communication"), computes=False),
    BlockKind("optimiser", ("optimiser", "optimiser"), computes=False),
)
"""Kinds of blocks of a training step."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline(Picture):
    """Blocks in lanes, lane by lane in the order of time; between blocks a lane waits.

    Attributes
    ----------
    time : with the limits that are visible
    lanes : what a lane is, such as a stage
    count : number of lanes
    kinds : that `kind` counts from 0
    shades : number of shades of a colour, such as the chunks of a stage
    lane, kind, number, shade : of each block; the number is -1 where it has none
    start, end : of each block, in the unit of the axis
    waiting : what the ground between blocks means
    at_end : whether the end of the view matters most, if it has too many blocks
    ends : when the lanes end, where the axis is longer; None where it is not
    explained : kinds that the legend has in any case, so that several pictures share one
    names : of the lanes; their numbers if empty
    as_shares : whether a page shows the share of time that lanes compute, of few blocks too
    """

    time: Axis
    lanes: str
    count: int
    kinds: tuple[BlockKind, ...]
    shades: int
    lane: NDArray[np.int32]
    kind: NDArray[np.int8]
    number: NDArray[np.int32]
    shade: NDArray[np.int32]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    waiting: str = "waiting (bubble)"
    at_end: bool = False
    ends: float | None = None
    explained: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    as_shares: bool = False

    def name(self, lane: int) -> str:
        """Return the name of a lane."""
        return self.names[lane] if self.names else str(lane)

    @property
    def limits(self) -> tuple[float, float]:
        """The first and the last instant that are visible."""
        return self.time.limits or (0.0, float(self.end.max(initial=0.0)))

    @property
    def computes(self) -> NDArray[np.bool_]:
        """Whether each block computes."""
        return self._computing(self.kind)

    def _computing(self, kind: NDArray[np.int8]) -> NDArray[np.bool_]:
        of_kind = np.array([kind.computes for kind in self.kinds])
        chosen: NDArray[np.bool_] = of_kind[kind]
        return chosen

    def _blocks_of(self, lane: int) -> slice:
        """Return the rows of a lane; lanes are in order."""
        return slice(*np.searchsorted(self.lane, [lane, lane + 1]).tolist())

    def within(self, begin: float, end: float) -> Self:
        """Return the view of an interval: its limits and the blocks that it shows."""
        rows = np.flatnonzero((self.end > begin) & (self.start < end))
        return replace(self.take(rows), time=replace(self.time, limits=(begin, end)))

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Return the same with some of the blocks."""
        columns = ("lane", "kind", "number", "shade", "start", "end")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})

    def legend(self) -> list[Entry]:
        """Return names and colours: kinds of one colour together, then the ground."""
        shared: dict[tuple[str, str], list[str]] = {}
        for kind in sorted({*np.unique(self.kind).tolist(), *self.explained}):
            name, colours, _ = self.kinds[kind]
            shared.setdefault(colours, []).append(name)
        entries = []
        for (first, last), names in shared.items():
            if self.shades == 1 or first == last:
                entries.append(Entry(", ".join(names), first))
            else:
                entries.append(Entry(f"{', '.join(names)}, first chunk", first))
                entries.append(Entry(f"{', '.join(names)}, last chunk", last))
        return [*entries, Entry(self.waiting, "bubble")]

    def busy(self, lane: int, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of each interval between `edges` that a lane computes."""
        rows = self._blocks_of(lane)
        blocks = self._computing(self.kind[rows])
        return covered(self.start[rows][blocks], self.end[rows][blocks], edges).clip(0, 1)

    def rows(self) -> Iterator[Sequence[Cell]]:
        """Yield for each lane when it begins and ends, and how long it computes.

        Without microbatches the share of time of each kind, as kinds do not overlap.
        """
        if not any(kind.computes for kind in self.kinds):
            yield from self._shares()
            return
        unit, (begin, end) = self.time.unit, self.limits
        end = end if self.ends is None else min(end, self.ends)
        yield [
            self.lanes,
            "blocks",
            f"first begins [{unit}]",
            f"last ends [{unit}]",
            f"computes [{unit}]",
            "share",
        ]
        seconds = (np.minimum(self.end, end) - np.maximum(self.start, begin)) * self.computes
        for lane in np.unique(self.lane).tolist():
            rows = self._blocks_of(lane)
            first, last = float(self.start[rows].min()), float(self.end[rows].max())
            work = float(seconds[rows].sum())
            yield [lane, len(self.lane[rows]), first, last, work, percent(work / (end - begin))]

    def _shares(self) -> Iterator[Sequence[Cell]]:
        yield [self.lanes, *(f"{kind.name} [%]" for kind in self.kinds), f"{self.waiting} [%]"]
        begin, end = self.limits
        for lane in range(self.count):
            rows = self._blocks_of(lane)
            seconds = (self.end - self.start)[rows]
            each = np.bincount(self.kind[rows], seconds, len(self.kinds)) / (end - begin) * 100
            yield [self.name(lane), *each.tolist(), max(0.0, 100 - float(each.sum()))]

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """Return a row for each block: a column by name."""
        return {
            self.lanes: self.lane,
            "kind": np.array([kind.name for kind in self.kinds])[self.kind],
            "microbatch": self.number,
            "chunk": self.shade,
            f"start_{self.time.unit}": self.start,
            f"end_{self.time.unit}": self.end,
        }


def on_one_axis(timelines: Sequence[Timeline]) -> list[Timeline]:
    """Return timelines with one time axis, as long as the longest one, and with one legend."""
    longest = max(each.limits[1] for each in timelines)
    shades = max(each.shades for each in timelines)
    kinds = sorted({kind for each in timelines for kind in np.unique(each.kind).tolist()})
    return [
        replace(
            each,
            time=replace(each.time, limits=(0.0, longest)),
            ends=each.limits[1],
            shades=shades,
            explained=tuple(kinds),
        )
        for each in timelines
    ]


def covered(
    start: NDArray[np.float64], end: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of each interval between `edges` that blocks cover, these in order.

    >>> covered(np.array([0.0, 3.0]), np.array([1.0, 4.0]), np.array([0.0, 2.0, 3.5, 4.0]))
    array([0.5       , 0.33333333, 1.        ])
    """
    if not len(start):
        return np.zeros(len(edges) - 1)
    lengths = np.cumsum(end - start)
    times = np.stack([start, end], axis=1).ravel()
    sums = np.stack([np.concatenate([[0.0], lengths[:-1]]), lengths], axis=1).ravel()
    before: NDArray[np.float64] = np.interp(edges, times, sums)
    return np.diff(before) / np.diff(edges)
