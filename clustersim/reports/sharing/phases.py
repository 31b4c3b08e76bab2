"""When each job of a shared machine computes and communicates, next to the others."""

from itertools import combinations
from typing import Final

import numpy as np

from clustersim.arrays import Booleans, Floats, Integers
from clustersim.render.charts.picture import Axis
from clustersim.render.charts.timeline import BlockKind, Timeline
from clustersim.render.plotly.timeline import MOST_BARS
from clustersim.render.tables import percent
from clustersim.simulation.sharing.answer import ShareAnswer
from clustersim.simulation.sharing.recording import JobRecord, Recording, Spans

PHASE_KINDS: Final = (
    BlockKind("computes", ("compute", "compute"), computes=False),
    BlockKind("communicates", ("communication", "communication"), computes=False),
    BlockKind("both", ("optimiser", "optimiser"), computes=False),
)
"""Kinds of phases of a job."""

SAMPLES: Final = 4_000
"""Instants at which jobs are compared."""


def phases(answer: ShareAnswer, recording: Recording) -> Timeline:
    """Return the phases of all jobs over their last steps."""
    begin, end = recording.window
    parts = [_phases(job, begin, end, len(recording.jobs)) for job in recording.jobs]
    lanes = [np.full(len(kinds), lane) for lane, (_, _, kinds) in enumerate(parts)]
    starts, ends, kinds = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    count = len(starts)
    return Timeline(
        title=_finding(answer, recording),
        caption=f"{answer.title} ({answer.name})",
        description=f"A lane for each of {len(parts)} jobs, time from left to right, with what the"
        " job does.",
        note="The last steps of all jobs; a job computes or communicates while any of its devices"
        " does.",
        contents="phases of the jobs",
        time=Axis("time", "s", limits=(0.0, end - begin)),
        lanes="job",
        count=len(parts),
        kinds=PHASE_KINDS,
        shades=1,
        lane=np.concatenate(lanes).astype(np.int32),
        kind=kinds.astype(np.int8),
        number=np.full(count, -1, np.int32),
        shade=np.zeros(count, np.int32),
        start=starts - begin,
        end=ends - begin,
        waiting="waits",
        names=tuple(job.name for job in recording.jobs),
    )


def _phases(job: JobRecord, begin: float, end: float, jobs: int) -> tuple[Floats, Floats, Integers]:
    """Return begin, end and kind of the phases of a job; of too many, the kind at each interval."""
    spans = np.concatenate([*job.computing, *job.communicating])
    edges = np.unique(np.concatenate([[begin, end], spans[(spans > begin) & (spans < end)]]))
    most = MOST_BARS // jobs
    if len(edges) > most:
        edges = np.linspace(begin, end, most + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    kind = _inside(job.computing, middle) + 2 * _inside(job.communicating, middle) - 1
    first = np.flatnonzero(np.append(True, np.diff(kind) != 0)[: len(kind)])
    last = np.append(first[1:], len(kind)).astype(np.int64)
    busy = kind[first] >= 0
    return edges[first][busy], edges[last][busy], kind[first][busy]


def _inside(spans: Spans, instants: Floats) -> Booleans:
    """Return whether each instant is in one of some spans."""
    begin, end = spans
    inside: Booleans = np.searchsorted(begin, instants, side="right") > np.searchsorted(
        end, instants, side="right"
    )
    return inside


def _finding(answer: ShareAnswer, recording: Recording) -> str:
    """Return how long the two jobs communicate together that cost each other most."""
    begin, end = recording.window
    instants = begin + (np.arange(SAMPLES) + 0.5) * (end - begin) / SAMPLES
    sending = {job.name: _inside(job.communicating, instants) for job in recording.jobs}
    if len(sending) == 1:
        ((name, sends),) = sending.items()
        return f"{name} communicates {percent(float(sends.mean()))} of the time"
    worst = max(answer.jobs, key=lambda job: job.slowdown)
    pairs = [(worst.name, part.job) for part in worst.blame[:1]] or combinations(sending, 2)
    one, other = max(pairs, key=lambda pair: float((sending[pair[0]] & sending[pair[1]]).mean()))
    share = float((sending[one] & sending[other]).mean())
    if not share:
        return f"{one} and {other} never communicate at the same time"
    return f"{one} and {other} communicate at the same time {percent(share)} of the time"
