"""What the figures of a run show, as plain data.

A picture is made from a result in a moment, can be pickled, and needs nothing else to be drawn:
`figures` does that, in another process if need be.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim import __version__
from clustersim.render.tables import kind_of, percent
from clustersim.units import format_seconds

if TYPE_CHECKING:
    from clustersim.simulation.answer import PublishedCheck
    from clustersim.simulation.simulate import Result
    from clustersim.timeline import Span, Track

KINDS: Final = (
    "forward",
    "backward",
    "backward of inputs",
    "backward of weights",
    "communication",
    "optimiser",
)
"""What a row of the timeline can be."""

_ROWS: Final = ("stage", "kind", "microbatch", "chunk", "start", "end")


@dataclass(frozen=True)
class TimelinePicture:
    """The blocks of one replica class, and what follows them, one row each, stage by stage.

    Attributes
    ----------
    name : of the scenario
    title : the finding
    caption : what is drawn, of which scenario, by which version
    kind : of the row, by its place in `KINDS`; blocks come first, as in `timeline.KINDS`
    microbatch, chunk : of the block; -1 after the last block
    start, end : [s]
    """

    name: str
    title: str
    caption: str
    stages: int
    chunks: int
    duration: float
    stage: NDArray[np.int32]
    kind: NDArray[np.int8]
    microbatch: NDArray[np.int32]
    chunk: NDArray[np.int32]
    start: NDArray[np.float64]
    end: NDArray[np.float64]

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return what is drawn as a table: a column by name."""
        return {
            "stage": self.stage,
            "kind": np.array(KINDS)[self.kind],
            "microbatch": self.microbatch,
            "chunk": self.chunk,
            "start_s": self.start,
            "end_s": self.end,
        }

    def within(self, begin: float, end: float) -> "TimelinePicture":
        """Return the picture without the rows that lie outside an interval."""
        rows = (self.end > begin) & (self.start < end)
        return replace(self, **{name: getattr(self, name)[rows] for name in _ROWS})


class Bar(NamedTuple):
    """One part of the step time [s]."""

    part: str
    kind: str
    seconds: float


class Beside(NamedTuple):
    """A published number beside the predicted one, in the unit of the metric."""

    metric: str
    published: float
    predicted: float


@dataclass(frozen=True)
class BreakdownPicture:
    """Where the mean rank's time goes, and what was published about it."""

    name: str
    title: str
    caption: str
    duration: float
    bars: tuple[Bar, ...]
    published: tuple[Beside, ...]

    def columns(self) -> dict[str, list[Any]]:
        """Return what is drawn as a table: a column by name."""
        return {
            "part": [bar.part for bar in self.bars],
            "kind": [bar.kind for bar in self.bars],
            "seconds": [bar.seconds for bar in self.bars],
            "share_of_step": [bar.seconds / self.duration for bar in self.bars],
        }


def timeline_picture(result: "Result") -> TimelinePicture:
    """Return what the timeline shows: the first replica class, and the first part of its stages."""
    tracks = [t for t in result.timeline.tracks if t.replica == 0 and t.tensor_rank == 0]
    columns = [_track_columns(track) for track in tracks]
    joined = {name: np.concatenate([c[name] for c in columns]) for name in _ROWS}
    return TimelinePicture(
        name=result.name,
        title=f"{result.name}: {percent(result.bubble_fraction)} of the step is bubble",
        caption=f"{_signature(result)}; {_whose(result)}",
        stages=result.program.stages,
        chunks=result.program.chunks,
        duration=result.step_time,
        stage=joined["stage"],
        kind=joined["kind"],
        microbatch=joined["microbatch"],
        chunk=joined["chunk"],
        start=joined["start"],
        end=joined["end"],
    )


def _track_columns(track: "Track") -> dict[str, NDArray[Any]]:
    """Return the blocks of one stage, then what follows them."""
    tail = [span for span in track.tail if span.end > span.start]
    rows, after = len(track.start), [-1] * len(tail)
    return {
        "stage": np.full(rows + len(tail), track.stage, np.int32),
        "kind": np.concatenate([track.kind, [_tail_kind(s) for s in tail]]).astype(np.int8),
        "microbatch": np.concatenate([track.microbatch, after]).astype(np.int32),
        "chunk": np.concatenate([track.chunk, after]).astype(np.int32),
        "start": np.concatenate([track.start, [span.start for span in tail]]),
        "end": np.concatenate([track.end, [span.end for span in tail]]),
    }


def _tail_kind(span: "Span") -> int:
    return KINDS.index("optimiser" if span.name == "optimiser" else "communication")


def _signature(result: "Result") -> str:
    return f"scenario {result.name}, clustersim {__version__}"


def _whose(result: "Result") -> str:
    """Return whom the picture shows, where that is not everybody."""
    program, data = result.program, result.scenario.plan.data
    alike = len(program.actors[0].replicas)
    part = ", tensor rank 0 of each stage" if program.tensor_ranks > 1 else ""
    if program.classes == 1:
        return (
            f"one of {data} replicas, which are alike{part}" if data > 1 else f"one replica{part}"
        )
    return (
        f"replica class 0 of {program.classes}, which stands for {alike} of {data} replicas{part}"
    )


def breakdown_picture(result: "Result") -> BreakdownPicture:
    """Return what the breakdown shows: parts by kind, the larger first."""
    bars = [Bar(part, kind_of(part), s) for part, s in result.attribution.items()]
    bars = [bar for bar in bars if bar.seconds > 5e-5 * result.step_time]
    totals = dict.fromkeys(("compute", "communication", "imbalance", "bubble", "optimiser"), 0.0)
    for bar in bars:
        totals[bar.kind] += bar.seconds
    bars.sort(key=lambda bar: (-totals[bar.kind], bar.kind, -bar.seconds))
    again = format_seconds(result.recomputed, 3)
    share = {kind: percent(seconds / result.step_time) for kind, seconds in totals.items()}
    uneven = f", {share['imbalance']} imbalance" if totals["imbalance"] else ""
    return BreakdownPicture(
        name=result.name,
        title=f"{result.name}: {share['compute']} of the step computes,"
        f" {share['communication']} is communication{uneven}, {share['bubble']} bubble",
        caption=f"{_signature(result)}; mean of all ranks; {again} of it computes a second time",
        duration=result.step_time,
        bars=tuple(bars),
        published=tuple(_beside(check) for check in result.published if check.error is not None),
    )


def _beside(check: "PublishedCheck") -> Beside:
    convention = f" ({check.convention})" if check.convention else ""
    return Beside(check.metric + convention, check.value, check.predicted)


__all__ = [
    "Bar",
    "Beside",
    "BreakdownPicture",
    "KINDS",
    "TimelinePicture",
    "breakdown_picture",
    "timeline_picture",
]
