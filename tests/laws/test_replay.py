"""The replay of small programs against closed forms, and what may not change its answer."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bubbles import bubble_fraction, uniform_step
from clustersim.engine.event_replay import EventReplay
from clustersim.engine.replay import replay, result, run_to_end
from clustersim.errors import SimulationError
from clustersim.memory.levels import Peak, peak_activations
from clustersim.metrics.attribution import BUBBLES, PARTS, attributed, average
from clustersim.program.program import Tail
from clustersim.program.schedules import SCHEDULES
from clustersim.timeline import KINDS, WEIGHT
from clustersim.traffic import Traffic
from strategies import CLASSIC, Shape, durations, shapes, uniform_program

MODEST = settings(max_examples=40, deadline=None)


def held_by_stage_0(program) -> Peak:
    order = program.order
    kind = np.array([KINDS.index(order.codes[code].kind) for code in order.of[0]])
    return peak_activations(kind, np.zeros(len(kind), int), [1.0])


def step_time(program):
    return replay(program).timeline.duration


def bubble(program):
    """Seconds that a rank waits for others, on average."""
    parts = average(replay(program).timeline, program.actors)
    return sum(parts[name] for name in BUBBLES)


@st.composite
def uneven(draw, schedules=tuple(SCHEDULES)):
    """A program of unequal stages, transfers that take time, and a tail that all share."""
    shape = draw(shapes(schedules))
    length = st.floats(0.0, 3.0)
    piece = Traffic("gradients", (), (), 0.0, draw(length))
    tail = Tail(
        gradients=((piece,),) * shape.chunks,
        overlapped=draw(st.booleans()),
        embedding=None,
        optimiser=draw(length),
        parameters=(Traffic("parameters", (), (), 0.0, draw(length)),),
    )
    return shape, {
        "forward": draw(durations()),
        "backward": draw(durations()),
        "latency": draw(length),
        "nbytes": draw(length),
        "factors": [draw(st.floats(0.1, 3.0)) for _ in range(shape.stages)],
        "tail": tail,
        "norm_sync": draw(length),
        "blocking": draw(st.booleans()),
    }


# --- closed forms ---------------------------------------------------------------------------------


def test_four_stages_and_eight_microbatches_take_33():
    """1F1B with p = 4, m = 8 and F = B = W = 1, the backward doing B and W: (8 + 3)(1 + 2) = 33."""
    assert step_time(uniform_program(Shape("1f1b", 4, 8, 1), 1.0, 2.0)) == 33.0


@MODEST
@given(shapes(["1f1b", "gpipe"]), durations(), durations())
def test_a_uniform_pipeline_takes_its_closed_form(shape, forward, backward):
    """Equal stages and free links: (m + p - 1) forwards and backwards, 1F1B and GPipe alike."""
    taken = step_time(uniform_program(shape, forward, backward))
    rounds = shape.microbatches + shape.stages - 1

    assert taken == pytest.approx(rounds * (forward + backward), rel=1e-12)
    assert taken == pytest.approx(
        uniform_step(shape.stages, shape.microbatches, forward, backward), rel=1e-12
    )


@MODEST
@given(shapes(["interleaved-1f1b"]), durations(), durations())
def test_chunks_divide_the_bubble(shape, forward, backward):
    """Interleaving v chunks of a v-th of the work: m (f + b) + (p - 1)(f + b) / v."""
    _, p, m, v = shape
    both = forward + backward
    program = uniform_program(shape, forward, backward)

    assert step_time(program) == pytest.approx(m * both + (p - 1) * both / v, rel=1e-12)
    assert step_time(program) == pytest.approx(uniform_step(p, m, forward, backward, v), rel=1e-12)


@MODEST
@given(shapes(), durations(), durations())
def test_the_bubble_is_its_closed_form(shape, forward, backward):
    """A rank of a uniform pipeline waits (p - 1) / (v m + p - 1) of the step."""
    program = uniform_program(shape, forward, backward)
    share = bubble_fraction(shape.stages, shape.microbatches, shape.chunks)

    assert bubble(program) == pytest.approx(share * step_time(program), rel=1e-9, abs=1e-9)


def test_two_chunks_halve_the_bubble():
    """With p = 4 and m = 8 the bubble is 3 x 3 = 9 s with one chunk and 4.5 s with two."""
    assert bubble(uniform_program(Shape("1f1b", 4, 8, 1))) == pytest.approx(9.0)
    assert bubble(uniform_program(Shape("interleaved-1f1b", 4, 8, 2))) == pytest.approx(4.5)


@MODEST
@given(shapes(["1f1b"]), durations(), durations())
def test_gpipe_takes_as_long_as_1f1b_and_holds_the_whole_batch(shape, forward, backward):
    """GPipe and 1F1B take equal time; stage 0 holds m microbatches against min(p, m)."""
    gpipe = uniform_program(shape._replace(schedule="gpipe"), forward, backward)
    one = uniform_program(shape, forward, backward)

    assert step_time(gpipe) == pytest.approx(step_time(one), rel=1e-12)
    held = [held_by_stage_0(program) for program in (gpipe, one)]
    assert [peak.microbatches for peak in held] == [
        shape.microbatches,
        min(shape.stages, shape.microbatches),
    ]
    assert [peak.nbytes for peak in held] == [peak.microbatches for peak in held]


@MODEST
@given(st.integers(1, 16), durations(), durations(), st.floats(0, 10), st.floats(0, 10))
def test_blocking_sends_of_two_stages_take_their_closed_form(m, forward, backward, latency, nbytes):
    """Two stages that wait for their sends of t take (m + 1)(f + b + t).

    Each stage's round is one forward, one backward and one send; the first microbatch passes
    through both stages and both ways on top of it.
    """
    program = uniform_program(
        Shape("1f1b", 2, m, 1), forward, backward, latency=latency, nbytes=nbytes, blocking=True
    )

    expected = (m + 1) * (forward + backward + latency + nbytes)
    assert step_time(program) == pytest.approx(expected, rel=1e-9)


@MODEST
@given(st.integers(1, 8), durations(), durations(), st.floats(0, 10))
def test_one_microbatch_passes_every_stage_and_link_twice(stages, forward, backward, latency):
    """A single microbatch takes p (f + b) + 2 (p - 1) t, sends blocking or not."""
    expected = stages * (forward + backward) + 2 * (stages - 1) * latency
    for blocking in (True, False):
        program = uniform_program(
            Shape("1f1b", stages, 1, 1), forward, backward, latency=latency, blocking=blocking
        )
        assert step_time(program) == pytest.approx(expected, rel=1e-12)


# --- order ----------------------------------------------------------------------------------------


@MODEST
@given(uneven(), st.data())
def test_longer_blocks_never_make_a_step_faster(case, data):
    """Making one stage slower does not shorten the step."""
    shape, given_ = case
    slower = list(given_["factors"])
    slower[data.draw(st.integers(0, shape.stages - 1))] *= data.draw(st.floats(1.0, 3.0))

    before = step_time(uniform_program(shape, **given_))
    after = step_time(uniform_program(shape, **{**given_, "factors": slower}))
    assert after >= before * (1 - 1e-12)


@MODEST
@given(uneven())
def test_sends_that_do_not_block_are_never_slower(case):
    """Computing on while a send is under way does not lengthen the step."""
    shape, given_ = case
    waiting = step_time(uniform_program(shape, **{**given_, "blocking": True}))
    behind = step_time(uniform_program(shape, **{**given_, "blocking": False}))

    assert behind <= waiting * (1 + 1e-12)


@MODEST
@given(uneven(), st.floats(1.0, 10.0))
def test_more_bandwidth_of_links_that_nobody_shares_is_never_slower(case, factor):
    """Faster links of their own do not lengthen the step."""
    shape, given_ = case
    before = step_time(uniform_program(shape, **given_))

    assert step_time(uniform_program(shape, **given_, bandwidth=factor)) <= before * (1 + 1e-12)


@MODEST
@given(uneven(CLASSIC))
def test_a_step_is_no_shorter_than_its_critical_paths(case):
    """Neither the busiest stage's work nor one microbatch's way there and back fits in less."""
    shape, given_ = case
    both = given_["forward"] + given_["backward"]
    busiest = shape.microbatches * both * max(given_["factors"])
    hops = 2 * (shape.stages * shape.chunks - 1) * (given_["latency"] + given_["nbytes"])
    through = both * sum(given_["factors"]) + hops
    tail = given_["tail"]
    after = tail.optimiser + given_["norm_sync"] + tail.parameters[0].latency

    taken = step_time(uniform_program(shape, **given_))
    assert taken >= max(busiest, through) * (1 - 1e-12) + after * (1 - 1e-9)


# --- books ----------------------------------------------------------------------------------------


@MODEST
@given(uneven())
def test_the_parts_of_every_rank_add_up_to_the_step(case):
    """Attribution of each rank sums to the step time, the average too, and no part is negative."""
    shape, given_ = case
    program = uniform_program(shape, **given_)
    timeline = replay(program).timeline
    step = timeline.duration

    for parts in attributed(timeline.tracks, program.actors, step):
        assert math.fsum(parts.values()) == pytest.approx(step, rel=1e-9)
        assert min(parts.values()) >= -1e-9 * step
    mean = average(timeline, program.actors)
    assert tuple(mean) == PARTS
    assert math.fsum(mean.values()) == pytest.approx(step, rel=1e-9)


@MODEST
@given(uneven())
def test_blocks_of_a_stream_never_overlap(case):
    """Each block begins when the stream is free or later, and ends before the next begins."""
    shape, given_ = case
    program = uniform_program(shape, **given_)
    for track, actor in zip(replay(program).timeline.tracks, program.actors, strict=True):
        assert len(track.start) == len(actor.steps)
        assert (track.start >= track.free[: len(track.start)]).all()
        assert (track.start[1:] >= track.end[:-1]).all()


@MODEST
@given(uneven())
def test_no_input_is_used_before_it_is_there(case):
    """A forward begins a transfer after the forward below it ended; a backward likewise."""
    shape, given_ = case
    timeline = replay(uniform_program(shape, **given_)).timeline
    ended, began = {}, {}
    for track in timeline.tracks:
        for i in range(len(track.start)):
            part = shape.wiring.virtual_stage(track.stage, int(track.chunk[i]))
            name = bool(track.backward[i]), int(track.microbatch[i]), part
            if KINDS[track.kind[i]] != WEIGHT:
                ended[name] = float(track.end[i]), track.stage
                began[name] = float(track.start[i]), track.stage
    moved = given_["latency"] + given_["nbytes"]
    for (backward, microbatch, part), (start, stage) in began.items():
        end, source = ended.get((backward, microbatch, part + (1 if backward else -1)), (0.0, None))
        if source is not None:
            assert start >= (end + moved * (source != stage)) * (1 - 1e-12)


@MODEST
@given(uneven())
def test_two_replays_give_the_same_bytes(case):
    """The same program gives the same record, to the last bit."""
    shape, given_ = case
    program = uniform_program(shape, **given_)
    first, second = replay(program).timeline, replay(program).timeline

    for one, other in zip(first.tracks, second.tracks, strict=True):
        for name in ("free", "sent", "start", "end", "microbatch", "chunk", "backward"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
        assert one.tail == other.tail


def test_transfers_on_one_link_are_shared():
    """Three stages, three microbatches, all transfers of 1 s on one link: 16 s instead of 14 s.

    At 3 s stage 0 sends F2 while stage 1 sends F0: each gets half, both arrive at 5 s instead of
    4 s. On the way back B2 of stage 2 meets B0 of stage 1 at 11 s and costs another second.
    """
    program = uniform_program(Shape("gpipe", 3, 3, 1), 1.0, 1.0, nbytes=10.0, bandwidth=10.0)
    actors = [
        replace(a, send={key: sent and sent._replace(links=(0,)) for key, sent in a.send.items()})
        for a in program.actors
    ]
    shared = replay(replace(program, actors=tuple(actors)))

    assert step_time(program) == pytest.approx(14.0)
    assert shared.timeline.duration == pytest.approx(16.0)
    assert shared.activities == 2 * 2 * 3
    assert shared.solves > 0


@MODEST
@given(uneven(), st.data())
def test_transfers_judged_alone_end_as_they_do_in_the_network(case, data):
    """Where sends block, the uncontended replay gives the times of the event replay.

    Some stages send over links of other stages, so that some steps are contended; there a
    difference of 1e-11 grows with each period, up to 2e-8 in 100 of them.
    """
    shape, given_ = case
    program = uniform_program(shape, **{**given_, "blocking": True})
    links = [data.draw(st.sampled_from([2 * s, 0, 1])) for s in range(shape.stages)]
    tail = program.actors[0].tail
    if data.draw(st.booleans()):
        reduction = Traffic("gradients", (0,), (1.0,), data.draw(st.floats(0.1, 5.0)), 0.1, 1.0)
        tail = replace(tail, gradients=((reduction,),))
    actors = tuple(
        replace(
            actor,
            send={key: sent and sent._replace(links=(link,)) for key, sent in actor.send.items()},
            tail=replace(tail, overlapped=False),
        )
        for actor, link in zip(program.actors, links, strict=True)
    )
    program = replace(program, actors=actors)
    quick = replay(program)
    slow = result(run_to_end(EventReplay(program)))

    assert quick.activities == slow.activities
    for one, other in zip(quick.timeline.tracks, slow.timeline.tracks, strict=True):
        for name in ("free", "sent", "start", "end"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-6, nan_ok=True)
        assert one.finish == pytest.approx(other.finish, rel=1e-6)


def test_a_collective_that_one_rank_class_misses_is_named():
    """Ranks that wait for a collective that never begins are an error that names them."""
    tail = Tail((), False, None, 0.0, ())
    program = uniform_program(Shape("1f1b", 2, 1, 1), tail=tail)
    lonely = replace(tail, embedding=Traffic("tied embedding", (), (), 0.0, 1.0))
    actors = (replace(program.actors[0], tail=lonely), program.actors[1])

    with pytest.raises(SimulationError) as caught:
        replay(replace(program, actors=actors))
    assert str(caught.value) == (
        "1 rank classes did not finish: stage 0 of replica class 0, tensor rank 0 waits for"
        " tied embedding"
    )


def test_the_table_of_a_timeline_has_one_row_a_block():
    """Columns of all tracks are as long as there are blocks."""
    timeline = replay(uniform_program(Shape("interleaved-1f1b", 2, 4, 2))).timeline
    columns = timeline.columns()

    assert timeline.blocks == 2 * 2 * 4 * 2
    assert {name: len(column) for name, column in columns.items()} == dict.fromkeys(columns, 32)
    assert np.array_equal(np.unique(columns["stage"]), [0, 1])


def test_the_table_of_a_timeline_in_parts_is_the_same():
    """Parts of a table, of whole tracks, are its rows in their order."""
    timeline = replay(uniform_program(Shape("interleaved-1f1b", 4, 4, 2))).timeline
    parts = list(timeline.batches(rows=20))

    assert [len(part["stage"]) for part in parts] == [32, 32]
    for name, column in timeline.columns().items():
        assert np.array_equal(np.concatenate([part[name] for part in parts]), column)
