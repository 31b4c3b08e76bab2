"""The timeline: the record of a replay, one row for each block of each rank class.

Columns are plain arrays, so that a step of hundreds of thousands of blocks is evaluated by a few
vector operations and written as Parquet without conversion.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from clustersim.records import dataclass

T = TypeVar("T")

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]

FORWARD: Final = "F"
BACKWARD: Final = "B"
INPUT: Final = "I"
WEIGHT: Final = "W"
KINDS: Final = (FORWARD, BACKWARD, INPUT, WEIGHT)
"""Kinds of steps: forward, whole backward, backward of the inputs, backward of the weights."""

GRADIENTS: Final = "gradients"
EMBEDDING: Final = "embedding"
NORM: Final = "gradient norm"
OPTIMISER: Final = "optimiser"
PARAMETERS: Final = "parameters"
TAIL: Final = (GRADIENTS, EMBEDDING, NORM, OPTIMISER, PARAMETERS)
"""Operations that follow the last block of a rank, in this order."""


BATCH: Final = 1_000_000
"""Rows of a part of a long table [count]."""


@dataclass(frozen=True)
class Span:
    """One operation after a rank's last block: its name, and when it began and ended [s].

    `ready` is when the rank itself was ready for it; a collective begins when all its ranks are.
    """

    name: str
    ready: float
    start: float
    end: float


@dataclass(frozen=True, repr=False)
class Track:
    """The record of one rank class.

    Attributes
    ----------
    tensor_rank : rank within the tensor and context group, 0 where the group is folded
    multiplicity : ranks that the class represents
    kind, microbatch, chunk : of each step, `kind` as its index in `KINDS`
    free : when the compute stream was free for the step, after blocking sends; one more at the
        end, when it was free for the tail [s]
    sent : departure of the transfer that the step waited for; NaN where it waited for none [s]
    start, end : of the block [s]
    tail : operations after the last block
    """

    replica: int
    stage: int
    tensor_rank: int
    multiplicity: int
    kind: NDArray[np.int8]
    microbatch: Integers
    chunk: Integers
    free: Floats
    sent: Floats
    start: Floats
    end: Floats
    tail: tuple[Span, ...]

    def __repr__(self) -> str:
        """Return the track in one line."""
        position = f"replica {self.replica}, stage {self.stage}, tensor rank {self.tensor_rank}"
        return f"<Track: {position}, {len(self.start):,} blocks>"

    @property
    def backward(self) -> NDArray[np.bool_]:
        """Which rows are backward steps, whole or split."""
        return self.kind > 0

    @property
    def finish(self) -> float:
        """When the rank finished the step [s]."""
        return max([float(self.end[-1]), *(span.end for span in self.tail)])


class Steps(NamedTuple):
    """The steps of several tracks, one track after another, as columns of `Track`.

    Attributes
    ----------
    first : row of the first step of each track, and the number of rows
    freed : when the compute stream was free after the step [s]
    """

    first: NDArray[np.int64]
    free: Floats
    freed: Floats
    sent: Floats
    start: Floats
    end: Floats

    @classmethod
    def of(cls, tracks: "Sequence[Track]") -> "Steps":
        """Return the steps of some tracks."""
        lengths = [len(track.start) for track in tracks]
        return cls(
            np.cumsum([0, *lengths]),
            np.concatenate([track.free[:-1] for track in tracks]),
            np.concatenate([track.free[1:] for track in tracks]),
            *(np.concatenate([getattr(t, name) for t in tracks]) for name in cls._fields[3:]),
        )

    def of_rows(self, values: Any) -> NDArray[Any]:
        """Return values of tracks for each of their rows."""
        return np.repeat(np.array(values), np.diff(self.first))


class CollectiveSpan(NamedTuple):
    """A collective of several rank classes, after their blocks or concurrent with them.

    `begin` is when its bytes began to flow [s]; `nbytes` is the payload of each flow [B].
    """

    name: str
    nbytes: float
    begin: float
    end: float


@dataclass(frozen=True, repr=False)
class Timeline:
    """All rank classes of a step, in the order of the program's actors.

    Attributes
    ----------
    collectives : collectives of several rank classes, in the order of their ends
    """

    tracks: tuple[Track, ...]
    collectives: tuple[CollectiveSpan, ...] = ()

    def __repr__(self) -> str:
        """Return the timeline in one line."""
        return f"<Timeline: {len(self.tracks)} tracks, {self.blocks:,} blocks, {self.duration:g} s>"

    @cached_property
    def duration(self) -> float:
        """Time of the step: when the last rank has finished [s]."""
        return max(track.finish for track in self.tracks)

    @property
    def blocks(self) -> int:
        """Blocks of all tracks."""
        return sum(len(track.start) for track in self.tracks)

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """Return the blocks of all tracks as one table: a column by name."""
        tracks = self.tracks
        lengths = [len(track.start) for track in tracks]
        positions = {
            column: np.repeat(np.array([getattr(t, name) for t in tracks], np.int32), lengths)
            for column, name in (
                ("replica", "replica"),
                ("stage", "stage"),
                ("part", "tensor_rank"),
            )
        }
        measures = ("backward", "microbatch", "chunk", "start", "end")
        columns = positions | {"kind": np.array(KINDS)[np.concatenate([t.kind for t in tracks])]}
        columns |= {n: np.concatenate([getattr(t, n) for t in tracks]) for n in measures}
        return columns | {"free": np.concatenate([t.free[: len(t.start)] for t in tracks])}

    def batches(self, rows: int = BATCH) -> Iterator[dict[str, NDArray[np.generic]]]:
        """Yield the same table in parts of whole tracks, each of at least `rows` rows."""
        for tracks in in_batches(self.tracks, [len(track.start) for track in self.tracks], rows):
            yield Timeline(tracks).columns()


def in_batches(values: Sequence[T], rows: Sequence[int], most: int) -> Iterator[tuple[T, ...]]:
    """Yield consecutive values together until they have at least `most` rows.

    >>> list(in_batches("abcde", [3, 1, 2, 2, 1], 4))
    [('a', 'b'), ('c', 'd'), ('e',)]
    """
    batch, count = list[T](), 0
    for value, length in zip(values, rows, strict=True):
        batch.append(value)
        count += length
        if count >= most:
            yield tuple(batch)
            batch, count = [], 0
    if batch:
        yield tuple(batch)
