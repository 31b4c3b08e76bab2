"""A timeline for the Perfetto viewer, in the Chrome trace event format.

    process   a replica class
    thread    a stage (a tensor rank of it, if these are not folded)
    X         a block 'F12', or a reduction or optimiser step after the last block
    s -> f    a dependency, from a block to the block of another stage that waits for it
    C         counters: memory of a rank of each stage, and load of the busiest links; each kind is
              a process below the replica classes

Large steps are reduced to their first and last microbatches, and their counters to the levels that
can be seen; ``otherData`` describes how.  The format:
"Trace Event Format", Google, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim import __version__
from clustersim.program.schedules.steps import Step, receiver_of
from clustersim.records import dataclass
from clustersim.reports.step.counters import Counter, link_counters, memory_counters
from clustersim.timeline import BACKWARD, FORWARD, INPUT, KINDS, TAIL, WEIGHT

if TYPE_CHECKING:
    from clustersim.program.program import Program
    from clustersim.simulation.step.result import Result
    from clustersim.timeline import Track

MOST_EVENTS: Final = 20_000
"""More than this makes the viewer slow to open and hard to read."""

_EACH: Final = 3  # events of a block: itself, its input, its output


@dataclass(frozen=True)
class Sample:
    """Which part of a step is written.

    Attributes
    ----------
    classes : replica classes, from the first
    ends : microbatches at either end
    """

    classes: int
    ends: int
    microbatches: int

    @property
    def whole(self) -> bool:
        """Whether no microbatch is left out."""
        return 2 * self.ends >= self.microbatches

    def chosen(self, microbatch: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which rows are in the sample."""
        return (microbatch < self.ends) | (microbatch >= self.microbatches - self.ends)

    def __str__(self) -> str:
        last, ends = self.microbatches - 1, self.ends
        shown = f"0-{last}" if self.whole else f"0-{ends - 1} and {last - ends + 1}-{last}"
        return (
            f"microbatches {shown} of {self.microbatches} in replica classes 0-{self.classes - 1}"
        )


def sample(program: "Program", most: int = MOST_EVENTS) -> Sample:
    """Return the largest sample of at most `most` events, but for one microbatch at either end."""
    threads = program.stages * program.tensor_ranks
    steps = max(sum(program.order.times(stage).values()) for stage in range(program.stages))
    each = threads * 2 * -(-steps // program.microbatches) * _EACH
    fixed = threads * (3 + len(TAIL))
    classes = max(1, min(program.classes, most // (each + fixed)))
    ends = max(1, (most - fixed * classes) // (each * classes))
    return Sample(classes, min(ends, -(-program.microbatches // 2)), program.microbatches)


def write_trace(result: "Result", path: Path) -> None:
    """Write a trace that https://ui.perfetto.dev opens."""
    chosen = sample(result.program)
    counted = {"memory": memory_counters(result), "links": link_counters(result)}
    about = {
        "scenario": result.name,
        "title": result.scenario.title,
        "version": __version__,
        "step_time_s": result.step_time,
        "replica_classes": result.program.classes,
        "shown": str(chosen),
        "complete": chosen.whole and chosen.classes == result.program.classes,
        "counters": {kind: levels_text(counters) for kind, counters in counted.items()},
    }
    counters = counter_events(counted, result.program.classes, TITLES)
    write_events(path, about, [*events(result, chosen), *counters])


TITLES: Final = {"memory": "memory of a rank, by stage", "links": "busiest links"}
"""Names of the processes of counters."""


def write_events(path: Path, about: Mapping[str, Any], lines: Iterable[str]) -> None:
    """Write a trace of some events, with what it is of."""
    head = f'{{"displayTimeUnit":"ms","otherData":{json.dumps(about)},"traceEvents":[\n'
    path.write_text(head + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


def levels_text(counters: Sequence[Counter]) -> str:
    """Return how well counters follow what they count."""
    if not any(counter.thinned for counter in counters):
        return "every change"
    return f"joined to at most {max(len(counter.time) for counter in counters)} levels each"


def counter_events(
    counted: Mapping[str, Sequence[Counter]], first: int, titles: Mapping[str, str]
) -> Iterator[str]:
    """Yield counters, each kind in a process of its own from the number `first` on."""
    for pid, (kind, counters) in enumerate(counted.items(), first):
        yield metadata_event("process_name", pid, 0, "name", titles[kind])
        yield metadata_event("process_sort_index", pid, 0, "sort_index", pid)
        for counter in counters:
            head = (
                f'{{"ph":"C","name":{json.dumps(counter.name)},"cat":"{kind}","pid":{pid},"tid":0'
            )
            instants = np.rint(counter.time * 1e9).astype(np.int64).tolist()
            for instant, level in zip(instants, counter.level.tolist(), strict=True):
                value = f'{{"{counter.unit}":{level:.6g}}}'
                yield f'{head},"ts":{microseconds(instant)},"args":{value}}}'


def events(result: "Result", chosen: Sample) -> Iterator[str]:
    """Yield the events as JSON: names first, then each thread in the order of time."""
    program = result.program
    tracks = [track for track in result.timeline.tracks if track.replica < chosen.classes]
    for track in tracks:
        yield from _names(track, program)
    for track in tracks:
        yield from _blocks(track, program, chosen)
        yield from _tail(track, program)


def _thread(track: "Track", program: "Program") -> int:
    return track.stage * program.tensor_ranks + track.tensor_rank


def _names(track: "Track", program: "Program") -> Iterator[str]:
    """Yield what the viewer calls a process and a thread, and where it puts them."""
    pid, tid = track.replica, _thread(track, program)
    if tid == 0:
        replicas = len(program.actors[pid * program.stages * program.tensor_ranks].replicas)
        name = f"replica class {pid} ({replicas} replicas)"
        yield metadata_event("process_name", pid, tid, "name", name)
        yield metadata_event("process_sort_index", pid, tid, "sort_index", pid)
    rank = f" tensor rank {track.tensor_rank}" if program.tensor_ranks > 1 else ""
    yield metadata_event("thread_name", pid, tid, "name", f"stage {track.stage}{rank}")
    yield metadata_event("thread_sort_index", pid, tid, "sort_index", tid)


def metadata_event(kind: str, pid: int, tid: int, key: str, value: str | int) -> str:
    """Return the name or the place of a process or a thread."""
    named = {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {key: value}}
    return json.dumps(named, separators=(",", ":"))


def _blocks(track: "Track", program: "Program", chosen: Sample) -> Iterator[str]:
    """Yield each block with the arrows that end and begin at it.

    Written by hand, because a dictionary and `json.dumps` for each took five times as long.
    Instants are whole nanoseconds, so that neighbours do not overlap by rounding.
    """
    rows = chosen.chosen(track.microbatch)
    starts = np.rint(track.start[rows] * 1e9).astype(np.int64)
    ends = np.rint(track.end[rows] * 1e9).astype(np.int64)
    # One nanosecond earlier, because an arrow has to leave from inside its block.
    leaves = np.maximum(starts, ends - 1)
    instants = (map(microseconds, array.tolist()) for array in (starts, ends - starts, leaves))
    thread = f'"pid":{track.replica},"tid":{_thread(track, program)}'
    codes = _codes(track, program)
    columns = (c[rows].tolist() for c in (track.kind, track.chunk, track.microbatch))
    for kind, chunk, mb, start, duration, leave in zip(*columns, *instants, strict=True):
        code = codes[kind, chunk]
        yield (
            f'{{"ph":"X","name":"{code.kind}{mb}{code.ending}","cat":"{code.category}",{thread},'
            f'"ts":{start},"dur":{duration},"args":{{"microbatch":{mb},"chunk":{chunk}}}}}'
        )
        number = mb * 2 * program.chunks
        if code.into is not None:
            arrow = code.into + number
            yield f'{{"ph":"f","bp":"e",{_SEND},"id":{arrow},{thread},"ts":{start}}}'
        if code.out_of is not None:
            arrow = code.out_of + number
            yield f'{{"ph":"s",{_SEND},"id":{arrow},{thread},"ts":{leave}}}'


_CATEGORY: Final = {
    FORWARD: "forward",
    BACKWARD: "backward",
    INPUT: "backward of inputs",
    WEIGHT: "backward of weights",
}
_SEND: Final = '"name":"dependency","cat":"pipeline"'


def microseconds(nanoseconds: int) -> str:
    """Return nanoseconds as microseconds, the unit of the format."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def _tail(track: "Track", program: "Program") -> Iterator[str]:
    """Yield what follows the last block: reductions, optimiser."""
    for span in track.tail:
        yield event(span.name, "tail", track.replica, _thread(track, program), span.start, span.end)


def event(name: str, category: str, pid: int, tid: int, begin: float, end: float) -> str:
    """Return an event from begin to end [s], in whole nanoseconds."""
    start, stop = round(begin * 1e9), round(end * 1e9)
    return (
        f'{{"ph":"X","name":{json.dumps(name)},"cat":"{category}","pid":{pid},"tid":{tid},'
        f'"ts":{microseconds(start)},"dur":{microseconds(stop - start)},"args":{{}}}}'
    )


class _Code(NamedTuple):
    """What the blocks of a track with one kind and chunk have in common.

    The number of an arrow identifies the block that it ends at: replica class, stage, tensor rank,
    step.

    Attributes
    ----------
    ending : of the names of blocks, after the microbatch
    into, out_of : number of the arrow into and out of the block of microbatch 0, if there is one
    """

    kind: str
    ending: str
    category: str
    into: int | None
    out_of: int | None


def _codes(track: "Track", program: "Program") -> dict[tuple[int, int], _Code]:
    """Return the codes of a track by the number of the kind and by the chunk."""
    first = track.replica * program.stages * program.tensor_ranks + track.tensor_rank

    def number(stage: int, kind: str, chunk: int) -> int:
        rank = first + stage * program.tensor_ranks
        return (rank * program.microbatches * program.chunks + chunk) * 2 + (kind != FORWARD)

    def code(kind: str, chunk: int) -> _Code:
        step = Step(kind, 0, chunk)
        target = receiver_of(step, track.stage, program.wiring)
        onward = target is not None and target[0] != track.stage
        return _Code(
            kind,
            str(step)[2:],
            _CATEGORY[kind],
            number(track.stage, kind, chunk) if _is_fed(step, track.stage, program) else None,
            number(target[0], kind, target[1].chunk) if target and onward else None,
        )

    kinds, chunks = enumerate(KINDS), range(program.chunks)
    return {(n, chunk): code(kind, chunk) for n, kind in kinds for chunk in chunks}


def _is_fed(step: Step, stage: int, program: "Program") -> bool:
    """Whether a block waits for a block of another stage."""
    before = program.wiring.onward(stage, step.chunk, forward=step.kind != FORWARD)
    return step.kind != WEIGHT and before is not None and before.stage != stage
