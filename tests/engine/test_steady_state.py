"""Periods that repeat are derived: the replay that runs every period gives the same bits."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clustersim.engine.clock import time_grid
from clustersim.engine.direct_replay import DirectReplay
from clustersim.engine.event_replay import EventReplay
from clustersim.engine.repeated_events import skip_repeated_events
from clustersim.engine.replay import direct_replay, result, run_to_end
from clustersim.engine.steady_state import skip_repeated_periods
from clustersim.program.program import Tail
from clustersim.program.schedules import SCHEDULES
from clustersim.traffic import Traffic
from strategies import Shape, uniform_program

MANY = settings(max_examples=60, deadline=None)


class Case(NamedTuple):
    """A program of unequal stages, transfers that take time, and a tail that all share."""

    shape: Shape
    forward: float
    backward: float
    latency: float
    nbytes: float
    factors: tuple[float, ...]
    blocking: bool
    overlapped: bool

    def program(self, links=()):
        """Return the program; `links` are those of each stage's sends, its own if left out."""
        piece = Traffic("gradients", (), (), 0.0, self.latency)
        tail = Tail(((piece,),) * self.shape.chunks, self.overlapped, None, 0.5, ())
        program = uniform_program(
            self.shape, self.forward, self.backward, latency=self.latency, nbytes=self.nbytes,
            factors=self.factors, tail=tail, blocking=self.blocking
        )  # fmt: skip
        actors = list(program.actors)
        for stage, link in enumerate(links):
            sends = actors[stage].send.items()
            send = {code: sent and sent._replace(links=(link,)) for code, sent in sends}
            actors[stage] = replace(actors[stage], send=send)
        return replace(program, actors=tuple(actors))


@st.composite
def cases(draw):
    """Up to 6 stages, 3 chunks and 130 microbatches, as the schedule allows."""
    schedule = SCHEDULES[draw(st.sampled_from(sorted(SCHEDULES)))]
    least, most = schedule.chunks
    chunks = draw(st.integers(least, most or 3))
    shapes = [
        (stages, microbatches)
        for stages in range(1, 7)
        for microbatches in range(30, 131)
        if schedule.misfit(stages, microbatches, chunks) is None
    ]
    shape = Shape(schedule.name, *draw(st.sampled_from(shapes)), chunks)
    length = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.0, 3.0))
    factor = st.one_of(st.sampled_from([0.5, 1.0, 1.001]), st.floats(0.1, 3.0))
    seconds = st.one_of(st.sampled_from([1.0, 2.0]), st.floats(0.01, 10.0))
    factors = tuple(draw(factor) for _ in range(shape.stages))
    lengths = draw(seconds), draw(seconds), draw(length), draw(length)
    return Case(shape, *lengths, factors, draw(st.booleans()), draw(st.booleans()))


def skipping(program):
    """Return the direct replay of a program, and how many steps of it were not run."""
    direct, skipped = DirectReplay(program), []
    for rank in direct.ranks:
        skip = rank.skip
        rank.skip = lambda steps, *rest, skip=skip: (skipped.append(steps), skip(steps, *rest))
    skip_repeated_periods(direct)
    return run_to_end(direct), sum(skipped)


def assert_same(one, other):
    """Both replays have the same record, to the last bit, and have counted the same.

    Instants behind the end of their grid are rounded: a step that is longer is the same to 1e-12.
    """
    end, (one, other) = one.grid.end, map(result, (one, other))
    exact = one.timeline.duration <= end
    for a, b in zip(one.timeline.tracks, other.timeline.tracks, strict=True):
        for name in ("free", "sent", "start", "end"):
            pair, rounding = (getattr(a, name), getattr(b, name)), 0.0 if exact else 1e-12
            assert np.allclose(*pair, rtol=rounding, atol=0.0, equal_nan=True), name
        assert a.tail == b.tail or not exact
    assert one.timeline.collectives == other.timeline.collectives or not exact
    assert (one.activities, one.solves) == (other.activities, other.solves)


LONGER_THAN_ITS_GRID = Case(
    Shape("v-min", 4, 56, 2), 10.0, 1.0, 0.0, 0.0, (0.5, 1.0, 1.5, 1.2904883507157354),
    blocking=False, overlapped=False,
)  # fmt: skip
"""A step of 2,129 s whose instants are exact up to 2,048 s: the last ones are rounded."""


@MANY
@given(cases())
@example(LONGER_THAN_ITS_GRID)
def test_derived_periods_are_those_of_the_replay_that_runs_them(case):
    """Skipping periods changes no instant, whatever the schedule, the stages and the sends."""
    program = case.program()

    assert_same(skipping(program)[0], run_to_end(DirectReplay(program)))


@pytest.mark.large
@MANY
@given(cases(), st.data())
def test_derived_periods_of_contended_transfers_are_those_of_the_event_replay(case, data):
    """Where some stages send over links of others, skipping gives the bits of the event replay."""
    links = [data.draw(st.sampled_from([2 * s, 0, 1])) for s in range(case.shape.stages)]
    program = case.program(links)
    direct = direct_replay(program)
    if direct is not None:
        assert_same(direct, direct_replay(program, exact=True))
        events = run_to_end(EventReplay(program, direct.grid))
        for one, other in zip(direct.ranks, events.ranks, strict=True):
            for a, b in zip(one.columns().values(), other.columns().values(), strict=True):
                assert np.allclose(a, b, rtol=1e-12, atol=1e-12, equal_nan=True)


def separate(program):
    """Return a program with a collective in the middle of each block, on a link of its sends."""
    actors = []
    for actor in program.actors:
        link = 2 * actor.position.stage
        inner = Traffic("tensor", (link,), (1.0,), 0.3, 0.1)
        blocks = {
            code: replace(
                block,
                seconds=block.seconds._replace(data=0.4),
                segments=(block.segments[0] / 2, inner, block.segments[0] / 2),
            )
            for code, block in actor.blocks.items()
        }
        actors.append(replace(actor, blocks=blocks))
    return replace(program, actors=tuple(actors))


def events_of(program, *, skip):
    """Return the event replay of a program on its grid, and how often periods were derived."""
    events, skipped = EventReplay(program, time_grid(program)), []
    for rank in events.ranks:
        repeat = rank.repeat
        rank.repeat = lambda *of, repeat=repeat: (skipped.append(of[0] * of[1]), repeat(*of))
    if skip:
        skip_repeated_events(events)
    return run_to_end(events), sum(skipped)


@MANY
@given(cases(), st.data())
def test_derived_periods_of_separate_collectives_are_those_of_the_replay_that_runs_them(case, data):
    """Collectives inside blocks contend with sends, and skipping changes no instant."""
    links = [data.draw(st.sampled_from([2 * s, 0, 1])) for s in range(case.shape.stages)]
    program = separate(case.program(links))

    assert_same(events_of(program, skip=True)[0], events_of(program, skip=False)[0])


@pytest.mark.parametrize(
    "name", ["1f1b", pytest.param("interleaved-1f1b", marks=pytest.mark.large), "zb-h1"]
)
def test_most_of_a_long_batch_with_separate_collectives_is_derived(name):
    """One million activities on 8 devices were replayed for 18 s: nine in ten steps are derived."""
    shape = Shape(name, 4, 4000, SCHEDULES[name].chunks[0])
    case = Case(shape, 1.0, 2.0, 0.1, 0.2, (1.0,) * 4, blocking=False, overlapped=False)
    program = separate(case.program(links=(0,) * 4))
    events, skipped = events_of(program, skip=True)

    assert events.network.contended
    assert skipped > 0.9 * sum(len(codes) for codes in program.order.of)
    assert_same(events, events_of(program, skip=False)[0])


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_most_of_a_long_batch_is_derived(name, blocking):
    """Of 4 stages and 4,000 microbatches, fewer than one step in ten is run."""
    shape = Shape(name, 4, 4000, SCHEDULES[name].chunks[0])
    factors = (1.0, 1.25, 0.75, 1.0)
    case = Case(shape, 1.0, 2.0, 0.1, 0.2, factors, blocking=blocking, overlapped=False)
    program = case.program()
    direct, skipped = skipping(program)

    assert skipped > 0.9 * sum(len(codes) for codes in program.order.of)
    assert_same(direct, run_to_end(DirectReplay(program)))


def test_periods_repeat_in_cycles_of_several_microbatches():
    """Waits that go around all stages repeat after 4 microbatches, and are skipped as well.

    With free transfers each stage would be busy; 0.1 s of latency on each of the 8 hops of the
    circuit is waited for once in 4 microbatches.
    """
    shape = Shape("1f1b", 4, 4000, 1)
    program = uniform_program(shape, 1.0, 2.0, latency=0.1)
    direct, skipped = skipping(program)
    later = np.diff(np.diff(direct.ranks[0].columns()["start"][::2])[1000:1100])

    assert later.any()
    assert skipped > 0.9 * sum(len(codes) for codes in program.order.of)


def test_contended_transfers_that_repeat_are_derived():
    """Two stages that always send over one link at once: solved for a few of 2,000 periods."""
    shape = Shape("1f1b", 3, 2000, 1)
    case = Case(shape, 1.0, 1.0, 0.0, 1.0, (1.0, 1.0, 1.0), blocking=False, overlapped=False)
    program = case.program(links=(0, 0, 0))
    direct = direct_replay(program)
    plain = direct_replay(program, exact=True)

    assert direct.shared
    assert_same(direct, plain)
    assert next(direct.env._eid) < next(plain.env._eid) / 10


def test_steps_that_take_different_times_are_run():
    """A rank with an additional time of its own for each step has no periods."""
    program = uniform_program(Shape("1f1b", 2, 400, 1))
    actors = (program.actors[0], replace(program.actors[1], extra=np.linspace(0.0, 1.0, 800)))
    direct, skipped = skipping(replace(program, actors=actors))

    assert skipped == 0
    assert_same(direct, run_to_end(EventReplay(direct.program, direct.grid)))
