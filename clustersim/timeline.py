"""What happened when: the record of a replay, one row for each block of each rank class.

Columns are plain arrays, so that a step of hundreds of thousands of blocks is measured by a few
vector operations and written as Parquet without a detour.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]

FORWARD: Final = "F"
BACKWARD: Final = "B"
INPUT: Final = "I"
WEIGHT: Final = "W"
KINDS: Final = (FORWARD, BACKWARD, INPUT, WEIGHT)
"""What a step does: forward, the whole backward, or that of its inputs and of its weights apart."""

GRADIENTS: Final = "gradients"
EMBEDDING: Final = "embedding"
NORM: Final = "gradient norm"
OPTIMISER: Final = "optimiser"
PARAMETERS: Final = "parameters"
TAIL: Final = (GRADIENTS, EMBEDDING, NORM, OPTIMISER, PARAMETERS)
"""What follows the last block of a rank, in this order."""


@dataclass(frozen=True)
class Span:
    """One thing after a rank's last block: its name and when it began and ended [s].

    `ready` is when the rank itself was ready for it; a collective begins when all its ranks are.
    """

    name: str
    ready: float
    start: float
    end: float


@dataclass(frozen=True)
class Track:
    """The record of one rank class.

    Attributes
    ----------
    kind, microbatch, chunk : which step each row is, `kind` by its place in `KINDS`
    free : when the stream was free for it, its sends done where they block; one more at the end,
        when it was free for what follows the last block [s]
    sent : when the transfer that it waited for set out; NaN where it waited for none [s]
    start, end : of the block [s]
    tail : what came after the last block
    """

    replica: int
    stage: int
    part: int
    multiplicity: int
    kind: NDArray[np.int8]
    microbatch: Integers
    chunk: Integers
    free: Floats
    sent: Floats
    start: Floats
    end: Floats
    tail: tuple[Span, ...]

    @property
    def backward(self) -> NDArray[np.bool_]:
        """Which rows are backward, all of it or a part."""
        return self.kind > 0

    @property
    def finish(self) -> float:
        """When the rank was done with the step [s]."""
        return max([float(self.end[-1]), *(span.end for span in self.tail)])


class Joint(NamedTuple):
    """A collective of rank classes after their blocks or beside them.

    `begin` is when its bytes began to flow [s]; `nbytes` is the payload of each flow [B].
    """

    name: str
    nbytes: float
    begin: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """All rank classes of a step, in the order of the program's actors; `joint` as they ended."""

    tracks: tuple[Track, ...]
    joint: tuple[Joint, ...] = ()

    @property
    def duration(self) -> float:
        """Time of the step: until the last rank is done [s]."""
        return max(track.finish for track in self.tracks)

    @property
    def blocks(self) -> int:
        """Blocks of all tracks."""
        return sum(len(track.start) for track in self.tracks)

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """Return the blocks of all tracks as one table: a column by name."""
        tracks = self.tracks
        lengths = [len(track.start) for track in tracks]
        whose = {
            name: np.repeat(np.array([getattr(t, name) for t in tracks], np.int32), lengths)
            for name in ("replica", "stage", "part")
        }
        names = ("backward", "microbatch", "chunk", "start", "end")
        columns = whose | {"kind": np.array(KINDS)[np.concatenate([t.kind for t in tracks])]}
        columns |= {n: np.concatenate([getattr(t, n) for t in tracks]) for n in names}
        return columns | {"free": np.concatenate([t.free[: len(t.start)] for t in tracks])}
