"""A run proves itself: each law that is checked after a replay can be broken, and is then named."""

from dataclasses import replace

import numpy as np
import pytest

from clustersim.engine.direct_replay import DirectReplay
from clustersim.engine.event_replay import EventReplay
from clustersim.engine.network.checks import (
    TransferSeries,
    check_delivered,
    overloaded_links,
    peak_demand,
)
from clustersim.engine.replay import replay, run_to_end
from clustersim.engine.replay import result as outcome
from clustersim.errors import SimulationError
from clustersim.metrics.bounds import check_step, compute_bound, path_bound
from clustersim.metrics.communication import HotLink
from clustersim.simulation.step.simulate import simulate
from clustersim.timeline import Timeline
from clustersim.traffic import Traffic, link_text


@pytest.fixture(scope="module")
def result():
    return simulate("frontier-175b", ["batch.global=64"])


def check(result, **changed):
    parts = {name: getattr(result, name) for name in ("timeline", "links", "attribution")}
    check_step(result.program, **parts | changed)


def hurried(timeline: Timeline, factor: float) -> Timeline:
    """Return a timeline in which everything happens that much earlier."""

    def earlier(track):
        tail = tuple(
            replace(s, ready=s.ready * factor, start=s.start * factor, end=s.end * factor)
            for s in track.tail
        )
        times = {name: getattr(track, name) * factor for name in ("free", "sent", "start", "end")}
        return replace(track, **times, tail=tail)

    return Timeline(tuple(earlier(track) for track in timeline.tracks))


def test_a_sound_result_passes(result):
    """What a replay returns keeps all laws."""
    check(result)


def test_a_step_shorter_than_its_critical_path_is_refused(result):
    """The step lasts at least as long as the way of a microbatch through a stage and its blocks."""
    longest = path_bound(result.program)
    factor = 0.999 * longest / result.timeline.duration

    assert compute_bound(result.program.actors[-1]) < longest
    with pytest.raises(SimulationError, match="its critical path"):
        check(result, timeline=hurried(result.timeline, factor))


def test_exposed_communication_names_its_links(result):
    """Each part of the communication is listed once, the longest first, with a link of its kind."""
    exposed = {component.part: component for component in result.answer.exposed}
    seconds = [component.seconds for component in exposed.values()]

    assert seconds == sorted(seconds, reverse=True)
    for part, whole in result.attribution.items():
        if part.endswith("_communication"):
            assert (part in exposed) == (whole > 0)
            assert part not in exposed or exposed[part].seconds == whole
    limits = result.program.limits
    assert exposed["pipeline_communication"].link == limits["pipeline"].link
    assert exposed["pipeline_communication"].kind == limits["pipeline"].kind


TORUS = {
    "title": "Tensor groups of a torus that share links",
    "cluster": {"name": "fugaku", "nodes": 96, "fabric": {"job": [4, 2, 2, 1, 3, 2]}},
    "model": "megatron-1.7b", "framework": "megatron-lm", "precision": "fp16", "recompute": "full",
    "plan": {"tensor": 8, "data": 12}, "batch": {"global": 48, "micro": 4, "sequence": 2048},
}  # fmt: skip


@pytest.mark.parametrize(
    ("scenario", "settings", "links", "by"),
    [
        (TORUS, [], "cluster.fabric.link", "link"),
        ("frontier-1t", [], "cluster.node.interconnect.kinds.xgmi", "library"),
        ("llama3-405b-16k", ["cluster.nodes=16", "plan.data=1", "plan.context=1",
         "batch.global=16"], "cluster.node.interconnect", "link"),
    ],
)  # fmt: skip
def test_a_link_was_the_bottleneck_where_faster_links_changed_nothing(
    scenario, settings, links, by
):
    """The library is named where it limits tensor groups; elsewhere faster links save time."""
    before, after = (
        simulate(scenario, [*settings, *more]) for more in ([], [f"{links}.bandwidth=x2"])
    )
    part = next(each for each in before.answer.exposed if each.part == "tensor_communication")
    seconds = [each.attribution["tensor_communication"] for each in (before, after)]

    assert part.by == before.program.limits["tensor"].by == by
    assert (seconds[1] > 0.99 * seconds[0]) == (by == "library")


def test_a_small_part_of_a_step_was_its_bottleneck(result):
    """Communication and bubble below a tenth of a step are none; above it the longest one is."""
    answer = result.answer
    small = replace(answer, bubble_fraction=0.05, step_time_s=1e3 * answer.step_time_s)
    link = link_text(answer.exposed[0].link, answer.exposed[0].by)

    assert small.facts()["bottleneck"] == "none over 10 % of the step"
    assert replace(small, bubble_fraction=0.2).facts()["bottleneck"] == "pipeline bubble"
    longest = replace(small, step_time_s=2 * answer.exposed[0].seconds)
    part = answer.exposed[0].part.replace("_", " ")
    assert longest.facts()["bottleneck"] == f"{part} over {link}"


def overlapping(result) -> Timeline:
    """Return a timeline in which a stream runs two blocks at once."""
    first, *rest = result.timeline.tracks
    start = first.start.copy()
    start[5] = first.end[4] - 1e-3
    return Timeline((replace(first, start=start), *rest))


BROKEN = [
    (
        r"stage \d+ of replica class 0.* computes .* s in",
        lambda result: {"timeline": hurried(result.timeline, 0.5)},
    ),
    (
        r"link n0\.dev0>n0\.dev1 carries",
        lambda result: {
            "links": [HotLink("n0.dev0>n0.dev1", 1e9, 1e9 * 1.01 * result.step_time, 1.01)]
        },
    ),
    ("runs two blocks at once", lambda result: {"timeline": overlapping(result)}),
    (
        "attribution adds up to",
        lambda result: {
            "attribution": {**result.attribution, "matmul": result.attribution["matmul"] * 0.99}
        },
    ),
]
"""Messages of broken laws: a step shorter than the work of a rank, a link above its capacity."""


@pytest.mark.parametrize(("message", "broken"), BROKEN)
def test_a_broken_law_is_named(result, message, broken):
    """No rank computes for longer than the step, no link carries more, no two blocks at once."""
    with pytest.raises(SimulationError, match=message):
        check(result, **broken(result))


@pytest.mark.parametrize(
    ("name", "blocking"),
    [
        ("frontier-175b", "true"),
        ("frontier-175b", "false"),
        ("korthikanti-175b-full", "false"),
        ("megatron21-t1-39b", "true"),
    ],
)
def test_transfers_replayed_alone_and_in_the_network_give_the_same_bits(name, blocking):
    """Where no link is overloaded, the replay without a clock changes no instant at all."""
    settings = [f"framework.pipeline.blocking={blocking}", "batch.global=/2"]
    program = simulate(name, settings).program
    direct = run_to_end(DirectReplay(program))
    shared = run_to_end(EventReplay(program, direct.grid))

    assert not direct.overloaded_links()
    assert direct.activities == shared.activities
    for a, b in zip(outcome(direct).timeline.tracks, outcome(shared).timeline.tracks, strict=True):
        assert (a.start == b.start).all()
        assert (a.end == b.end).all()
        assert a.finish == pytest.approx(b.finish, rel=1e-14)


def test_a_contended_step_is_replayed_in_the_network():
    """Where transfers contend, the answer is that of the event replay."""
    program = simulate("frontier-22b", ["batch.global=64", "cluster.nic.bandwidth=/8"]).program
    direct = run_to_end(DirectReplay(program))
    events = outcome(run_to_end(EventReplay(program, direct.grid)))

    assert direct.overloaded_links()
    assert replay(program).solves == events.solves > 0
    assert replay(program).timeline.duration == events.timeline.duration
    assert events.timeline.duration > outcome(direct).timeline.duration


def series(sender: int, begins: list[float], *, links=(0,), weight=1.0, cap=10.0) -> TransferSeries:
    """Return transfers of 10 bytes at `cap` bytes a second."""
    traffic = Traffic("t", links, (weight,) * len(links), 10.0, 0.0, cap)
    begin = np.array(begins)
    return TransferSeries(sender, traffic, cap, begin, begin + 10.0 / cap)


def test_transfers_that_touch_do_not_contend():
    """One transfer may begin at the instant when another ends."""
    assert not overloaded_links([series(0, [0.0, 2.0]), series(1, [1.0, 3.0])], [10.0])


def test_transfers_that_overlap_contend_for_a_link():
    """Two transfers at full rate on one link at once are too many for it."""
    pair = [series(0, [0.0, 2.0]), series(1, [2.5])]

    assert overloaded_links(pair, [10.0])
    assert not overloaded_links(pair, [20.0])
    assert not overloaded_links([pair[0], series(1, [2.5], links=(1,))], [10.0, 10.0])


def test_demands_add_up_over_time():
    """The peak demand on a link is the largest sum of demands at any instant."""
    three = [(series(i, [0.5 * i]), 0.4) for i in range(3)]

    assert peak_demand(three) == pytest.approx(0.8)


def test_bytes_that_had_no_time_to_pass_are_refused():
    """A transfer that lasted less than its bytes need did not deliver them."""
    good = series(0, [0.0, 5.0])
    bad = good._replace(end=good.end - 0.1)

    check_delivered([good])
    with pytest.raises(SimulationError, match="byte count mismatch: 9 B delivered, 10 B sent"):
        check_delivered([bad])
