"""All valid layouts of some scenarios with the bounds of their objective, the most promising first.

spaces --a task for each number of stages--> bounds of time and memory --sorted--> candidates
"""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from math import inf, isfinite
from typing import Any, Final, NamedTuple

import numpy as np

from clustersim.arrays import Booleans, Floats, Integers
from clustersim.catalog.changes import Change
from clustersim.records import dataclass
from clustersim.runs.workers import Workers
from clustersim.scenario.load import Loaded, load
from clustersim.studies.search.loop import Deadline
from clustersim.studies.search.step.lower_bound.layout_values import Layout
from clustersim.studies.search.step.lower_bound.step_bound import StepBounds
from clustersim.studies.search.step.own_layout import OwnLayout, own_layout
from clustersim.studies.search.step.space import Space, StageLayouts


class StepLimits(NamedTuple):
    """Limits of a step: its time [s], and its energy [J]."""

    seconds: float = inf
    joules: float = inf


NO_LIMITS: Final = StepLimits()


@dataclass(frozen=True)
class Base:
    """A scenario whose layouts are searched.

    Attributes
    ----------
    scenario, changes : file or name, and its changes
    loaded : both together
    space : its layouts
    key : cache key of the scenario
    scale : objective of a step of one second, of one of energy that of a joule; of a time or
        price, one over it
    capacity : memory of a device that may be used [B]
    energy : whether the objective is one of energy
    most : limits of a step
    room : memory of a device over the errors of predicted peaks [B]
    fixed : keys that are no part of the settings of a layout
    common : changes of all scenarios that are searched, the first of `changes` [count]
    """

    scenario: str
    changes: tuple[Change, ...]
    loaded: Loaded
    key: str
    space: Space
    scale: float
    capacity: float
    fixed: tuple[str, ...] = ()
    common: int = 0
    energy: bool = False
    most: StepLimits = NO_LIMITS
    room: float = inf

    def settings(self, layout: Layout) -> dict[str, Any]:
        """Return the values of the keys of a layout that were searched."""
        values = layout.settings
        return {key: value for key, value in values.items() if key not in self.fixed}


def excluded_by_rule(bases: Sequence[Base]) -> Counter[str]:
    """Return how many layouts each rule excludes."""
    total: Counter[str] = Counter()
    for base in bases:
        total.update(base.space.excluded)
    return total


@dataclass(frozen=True, eq=False)
class Candidates:
    """Layouts that memory does not exclude, by the best objective that their bound allows.

    Attributes
    ----------
    cost : step time (or energy) over `Base.scale`, a lower bound, in ascending order
    part : scenario and number of stages, as an index into `parts`
    shape, column : of each candidate in its part
    parts : of the spaces
    roomy : whether each can have room for the errors of predicted peaks
    memory : layouts that the bound of their memory excludes [count]
    limited : layouts that cannot be within the limits of a step, by a bound [count]
    unbounded : layouts whose bounds were not known in time [count]
    own : places of the layouts that the scenarios themselves have
    """

    cost: Floats
    part: Integers
    shape: Integers
    column: Integers
    roomy: Booleans
    parts: tuple[tuple[Base, StageLayouts], ...]
    memory: int
    limited: int
    unbounded: int = 0
    own: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.cost)

    def layout(self, at: int) -> tuple[Base, Layout]:
        """Return a candidate with its scenario."""
        base, layouts = self.parts[self.part[at]]
        return base, layouts.layout(int(self.shape[at]), int(self.column[at]))


class PartBounds(NamedTuple):
    """Bounds of the layouts of one number of stages.

    Attributes
    ----------
    seconds : of the step time of those that neither memory nor a limit excludes [s]
    shape, column : of each of them
    roomy : whether each of them can have room for the errors of predicted peaks
    excluded : layouts that memory excludes [count]
    joules : of their energy, where that is needed; else empty [J]
    limited : layouts that the limits of a step exclude [count]
    """

    seconds: Floats
    shape: Integers
    column: Integers
    roomy: Booleans
    excluded: int
    joules: Floats
    limited: int


OnBounds = Callable[[int, int], None]
"""Is called with the number of layouts that are bounded and of all valid ones."""


def candidates_of(
    bases: Sequence[Base], executor: Workers, on_bounds: OnBounds, deadline: Deadline
) -> Candidates:
    """Return the candidates of some scenarios.

    Parameters
    ----------
    executor : computes the bounds of each scenario and number of stages
    on_bounds : is called with the progress
    deadline : of the search; where it is near, the bounds that are known by then suffice, and the
        scenarios' own layouts may have none
    """
    parts = [(base, layouts) for base in bases for layouts in base.space.layouts]
    own = [own_layout(base.loaded, layouts, base.space.rules) for base, layouts in parts]
    pieces = _pieces(parts, own, deadline)
    known = _known_in_time(parts, pieces, executor, on_bounds, deadline)
    bounds, memory, limited = [], 0, 0
    for at, found in known.items():
        piece, base = pieces[at], parts[pieces[at].part][0]
        memory, limited = memory + found.excluded, limited + found.limited
        places = np.full(len(found.seconds), piece.part)
        cost = (found.joules if base.energy else found.seconds) / base.scale
        bounds.append((cost, places, found.shape, found.column + piece.first, found.roomy))
    left = [piece for at, piece in enumerate(pieces) if at not in known]
    others = _unbounded(
        own, lambda part, one: any(each.part == part and each.has(one.column) for each in left)
    )
    unbounded = sum(piece.size for piece in left) - len(others)
    return _sorted([*bounds, *others], parts, own, (memory, limited, unbounded))


def own_candidates(bases: Sequence[Base]) -> Candidates:
    """Return the scenarios' own layouts, without bounds: no others were generated in time."""
    parts = [(base, layouts) for base in bases for layouts in base.space.layouts]
    own = [own_layout(base.loaded, layouts, base.space.rules) for base, layouts in parts]
    unknown = sum(base.space.unknown for base in bases)
    none = (np.zeros(0), _NONE, _NONE, _NONE, _NO[:0])
    return _sorted([none, *_unbounded(own, lambda *_: True)], parts, own, (0, 0, unknown))


_Bounds = tuple[Floats, Integers, Integers, Integers, Booleans]
"""Cost, part, shape, column and room of some layouts."""


def _unbounded(
    own: Sequence[OwnLayout | None], chosen: Callable[[int, OwnLayout], bool]
) -> list[_Bounds]:
    """Return own layouts of parts without bounds, whose cost may be any."""
    return [
        (np.zeros(1), np.array([part]), np.array([one.shape]), np.array([one.column]), _NO)
        for part, one in enumerate(own)
        if one is not None and chosen(part, one)
    ]


def _sorted(
    bounds: Sequence[_Bounds],
    parts: Sequence[tuple[Base, StageLayouts]],
    own: Sequence[OwnLayout | None],
    counts: tuple[int, int, int],
) -> Candidates:
    """Return candidates by their bounds: cost, part, shape, column and room of each.

    Parameters
    ----------
    counts : layouts that memory and limits exclude, and those without bounds
    """
    cost, part, shape, column, roomy = (np.concatenate(each) for each in zip(*bounds, strict=True))
    order = np.lexsort((column, shape, part, cost))
    part, shape, column = part[order], shape[order], column[order]
    first = [
        np.flatnonzero((part == at) & (shape == one.shape) & (column == one.column)).tolist()
        for at, one in enumerate(own)
        if one is not None
    ]
    return Candidates(
        cost[order],
        part,
        shape,
        column,
        roomy[order],
        tuple(parts),
        *counts,
        tuple(at for found in first for at in found),
    )


class _Piece(NamedTuple):
    """Some columns of a part, whose bounds are one task.

    Attributes
    ----------
    part : whose columns they are
    first : number of the first column
    size : valid layouts [count]
    """

    part: int
    first: int
    layouts: StageLayouts
    size: int

    def has(self, column: int) -> bool:
        """Whether a column of the part is one of these."""
        return self.first <= column < self.first + len(self.layouts.columns)


COLUMNS: Final = 512
"""Columns of a task of a search with a deadline, whose bounds take less than a second."""

SHARE_OF_BOUNDS: Final = 0.5
"""Share of the time of a search with a deadline that its bounds may take; replays take the rest."""


def _pieces(
    parts: Sequence[tuple[Base, StageLayouts]],
    own: Sequence[OwnLayout | None],
    deadline: Deadline,
) -> list[_Piece]:
    """Return the tasks of all bounds in their order.

    Without a deadline they are whole parts, the heaviest first.  With one they are small: first
    that of the scenario's own layout, then some columns of each part, of those with the stages of
    the scenario and with few columns first.
    """
    wide = [len(layouts.columns) for _, layouts in parts]
    if deadline.seconds is None:
        sizes = [(at, 0, number) for at, number in enumerate(wide)]
        sizes.sort(key=lambda one: -one[2])
    else:
        other = [layouts.stages != base.loaded.scenario.plan.pipeline for base, layouts in parts]
        sizes = [
            (at, first, COLUMNS)
            for at, number in enumerate(wide)
            for first in range(0, number, COLUMNS)
        ]
        firsts = {(at, one.column // COLUMNS) for at, one in enumerate(own) if one is not None}
        sizes.sort(
            key=lambda one: (
                *((one[0], one[1] // COLUMNS) not in firsts, one[1]),
                *(other[one[0]], wide[one[0]]),
            )
        )
    pieces = ((at, first, parts[at][1].columns_from(first, number)) for at, first, number in sizes)
    return [_Piece(*piece, int(piece[2].allowed.sum())) for piece in pieces]


def _known_in_time(
    parts: Sequence[tuple[Base, StageLayouts]],
    pieces: Sequence[_Piece],
    executor: Workers,
    on_bounds: OnBounds,
    deadline: Deadline,
) -> dict[int, PartBounds]:
    """Return the bounds of the pieces that end before the replays have to begin.

    Only as many tasks are in flight as workers need, so that none waits before the replays.

    Raises
    ------
    ScenarioError
        when no task ends in time.
    """
    soon, valid = deadline.part(SHARE_OF_BOUNDS), sum(piece.size for piece in pieces)
    known: dict[int, PartBounds] = {}
    running: dict[Future[PartBounds], int] = {}
    following = 0
    while len(known) < len(pieces) and (patience := (soon if known else deadline).patience) != 0:
        while following < len(pieces) and len(running) < executor.capacity:
            base, layouts = parts[pieces[following].part][0], pieces[following].layouts
            running[executor.submit(_task(base), layouts)] = following
            following += 1
        for future in wait(running, patience, FIRST_COMPLETED).done:
            known[running.pop(future)] = future.result()
        on_bounds(sum(pieces[at].size for at in known), valid)
    if not known:
        deadline.check()
    return known


def _task(base: Base) -> partial[PartBounds]:
    """Return what bounds layouts of a base in another process, which reads the scenario again."""
    scenario = base.scenario, base.changes, base.key
    names = ("capacity", "energy", "most", "room")
    limits: dict[str, Any] = {name: getattr(base, name) for name in names}
    return partial(_bounds, scenario, **limits)


def _bounds(
    scenario: tuple[str, tuple[Change, ...], str], layouts: StageLayouts, **limits: Any
) -> PartBounds:
    return part_bounds(_bounds_of(*scenario), layouts, **limits)


def part_bounds(
    bounds: StepBounds,
    layouts: StageLayouts,
    capacity: float,
    *,
    energy: bool = False,
    most: StepLimits = NO_LIMITS,
    room: float = inf,
) -> PartBounds:
    """Return bounds of the layouts that can fit, and how many cannot.

    Parameters
    ----------
    capacity : memory of a device that may be used [B]
    room : memory of a device that leaves room for the errors of predictions [B]
    energy : whether energy is bounded as well
    most : limits of a step
    """
    energy = energy or isfinite(most.joules)
    held = bounds.memory(layouts.shapes, layouts.columns, layouts.stages)
    of_host = bounds.jobs.cluster.node.host_memory
    fits = layouts.allowed & (held.device <= capacity)
    if of_host is not None:
        fits &= held.host <= of_host
    column = np.flatnonzero(fits.any(axis=0))
    columns = bounds.tables.columns([layouts.columns[at] for at in column], layouts.stages)
    seconds, joules, shapes, places = [np.zeros(0)], [np.zeros(0)], [_NONE], [_NONE]
    roomy = [_NO[:0]]
    limited = 0
    for number, (shape, possible) in enumerate(zip(layouts.shapes, fits[:, column], strict=True)):
        if not possible.any():
            continue
        least = bounds.seconds(shape, columns)
        spent = bounds.joules(shape, columns, least) if energy else np.zeros(0)
        within = least <= most.seconds
        if energy:
            within &= spent <= most.joules
        limited += int((possible & ~within).sum())
        kept = np.flatnonzero(possible & within)
        seconds.append(least[kept])
        joules.append(spent[kept] if energy else spent)
        shapes.append(np.full(len(kept), number))
        places.append(column[kept])
        roomy.append(held.device[number, column[kept]] <= room)
    return PartBounds(
        np.concatenate(seconds),
        np.concatenate(shapes),
        np.concatenate(places),
        np.concatenate(roomy),
        int((layouts.allowed & ~fits).sum()),
        np.concatenate(joules),
        limited,
    )


_NONE = np.zeros(0, dtype=np.int64)
_NO = np.zeros(1, dtype=np.bool_)
_KNOWN: dict[str, StepBounds] = {}


def _bounds_of(scenario: str, changes: tuple[Change, ...], key: str) -> StepBounds:
    """Return the bounds of a scenario; each process keeps those of the latest one."""
    if key not in _KNOWN:
        _KNOWN.clear()
        _KNOWN[key] = StepBounds(load(scenario, changes))
    return _KNOWN[key]
