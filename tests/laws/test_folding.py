"""Folding changes nothing: replicas that behave alike are one, and the answer keeps its digits."""

from collections import Counter
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simpy import Environment
from simpy.events import Timeout

from clustersim.answers import to_json
from clustersim.engine.network.network import Network
from clustersim.program.fold import JobTraffic, ReplicaTraffic
from clustersim.simulation.step.simulate import simulate
from clustersim.traffic import Traffic
from enumerated import traffic_rows

MINIMAL = "cluster.fabric.routing=minimal"

CASES = {
    "tensor 4, pipeline 16, data 2": ("frontier-175b", "batch.global=64"),
    "replicas that differ": ("frontier-22b", "batch.global=32"),
    "rail-optimised fat tree": (
        "megatron21-t1-39b", "cluster.nodes=4", "plan.data=2", "batch.global=32",
    ),
    "gradients overlapped with the backward": (
        "megatron21-t1-18b", "cluster.nodes=4", "plan.data=4", "batch.global=64",
    ),
    "interleaved": ("megatron21-t1-145b", "cluster.nodes=32", "plan.data=4", "batch.global=64"),
    "cables that many share": (
        "frontier-22b", "cluster.nodes=24", "plan.data=24", "batch.global=144", MINIMAL,
    ),
    "some replicas share a cable": (
        "frontier-22b", "cluster.nodes=12", "plan.data=12", "batch.global=144", MINIMAL,
        "framework.pipeline.blocking=false",
    ),
    "small groups": (
        "frontier-22b", "cluster.nodes=24", "plan.data=24", "batch.global=144", MINIMAL,
        "cluster.fabric.nodes_per_switch=2", "cluster.fabric.switches_per_group=8",
    ),
    "uneven layers, half of the stages recomputing": (
        "frontier-175b", "batch.global=64", "plan.layers=with-ends",
        "recompute={stages: [0, 1, 2, 3, 4, 5, 6, 7]}",
    ),
    "sequence parallelism": (
        "frontier-175b", "batch.global=64", "plan.sequence_parallel=true", "recompute=selective",
    ),
    "collectives of their own": (
        "frontier-175b", "cluster.nodes=16", "plan.data=4", "plan.pipeline=8", "batch.global=16",
        "fusion_bound=1e-9",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_folded_and_unfolded_agree(case):
    """`fold: off` gives the same step time and the same parts, with no fewer actors."""
    name, *given_ = CASES[case]
    folded = simulate(name, [*given_, "fold=true"])
    whole = simulate(name, [*given_, "fold=false"])

    assert folded.step_time == pytest.approx(whole.step_time, rel=1e-12)
    assert folded.attribution == pytest.approx(
        whole.attribution, rel=1e-9, abs=1e-9 * whole.step_time
    )
    assert folded.memory == whole.memory
    counts, unfolded = to_json(folded.answer)["counts"], to_json(whole.answer)["counts"]
    assert counts["devices"] == unfolded["devices"]
    plan = whole.scenario.plan
    assert unfolded["actors"] == plan.data * plan.pipeline * plan.tensor
    if case == "replicas that differ":
        assert counts["actors"] == unfolded["actors"]  # one actor for each rank already
    else:
        assert counts["actors"] < unfolded["actors"]
    ranks = sum(actor.multiplicity for actor in folded.program.actors)
    assert ranks == sum(actor.multiplicity for actor in whole.program.actors) == folded.devices


def test_a_load_on_links_is_counted_the_same_folded_or_not():
    """Links carry the same bytes in the result, whether replicas are folded or not."""
    name, *given_ = CASES["some replicas share a cable"]
    folded = simulate(name, [*given_, "fold=true"])
    whole = simulate(name, [*given_, "fold=false"])

    assert [*folded.program.carried] == [*whole.program.carried]
    assert [link.name for link in folded.links] == [link.name for link in whole.links]


# --- made-up traffic ------------------------------------------------------------------------------


@st.composite
def replicas(draw):
    """Replicas with transfers of the same names over few links, so that some are symmetric.

    A pattern is repeated with its links moved, which is what a regular machine does.
    """
    names = [("send", "F", stage) for stage in range(draw(st.integers(1, 3)))]
    period = draw(st.integers(1, 3))
    size = draw(st.integers(1, 4))
    copies = draw(st.integers(1, 4))
    links = size * copies
    capacities = [draw(st.sampled_from([4.0, 8.0]))] * links
    if draw(st.booleans()):
        capacities[draw(st.integers(0, links - 1))] = 6.0
    amounts = {n: draw(st.sampled_from([(8.0, 0.0), (24.0, 0.0), (8.0, 1.0)])) for n in names}
    patterns = []
    for _ in range(period):
        pattern = {}
        for name in names:
            crossed = draw(st.lists(st.integers(0, size - 1), unique=True, max_size=2))
            weights = tuple(draw(st.sampled_from([1.0, 1.0, 2.0])) for _ in crossed)
            pattern[name] = (tuple(crossed), weights, *amounts[name])
        patterns.append(pattern)
    own = []
    for copy in range(copies):
        for pattern in patterns:
            own.append(
                {
                    name: Traffic(
                        str(name),
                        tuple((link + copy * size) % links for link in crossed),
                        weights, nbytes, latency, inf,
                    )
                    for name, (crossed, weights, nbytes, latency) in pattern.items()
                }
            )  # fmt: skip
    joint = {}
    if draw(st.booleans()):
        everywhere = tuple(range(links))
        joint["gradients", 0] = Traffic("all", everywhere, (1.0,) * links, 16.0, 0.0, inf)
    patterns = [draw(st.sampled_from([0, 0, 0, 1])) for _ in own]
    return own, joint, capacities, patterns


def folded_and_whole(case):
    own, joint, capacities, patterns = case
    names = [f"l{i}" for i in range(len(capacities))]
    return tuple(
        fold_replicas_of(own, joint, capacities, names, patterns, fold_replicas=folded)
        for folded in (True, False)
    )


def fold_replicas_of(own, joint, capacities, names, patterns, *, fold_replicas):
    """Return replicas folded, of traffic that is given replica by replica."""
    job = JobTraffic(
        {name: traffic_rows([transfers[name] for transfers in own]) for name in own[0]},
        {name: traffic_rows([traffic]) for name, traffic in joint.items()},
        np.array(patterns),
    )
    replicas_ = ReplicaTraffic([job], np.array(capacities), names)
    (folded,) = replicas_.folded() if fold_replicas else replicas_.unfolded()
    return folded


@settings(max_examples=150, deadline=None)
@given(replicas())
def test_members_of_a_class_see_the_same_links(case):
    """Two replicas of one class cross links of the same capacity and the same load, by class."""
    own, joint, capacities, patterns = case
    folded, _ = folded_and_whole(case)
    where = {r: number for number, members in enumerate(folded.classes) for r in members}
    assert sorted(where) == list(range(len(own)))
    rates = [{n: t.uncontended_rate(capacities) for n, t in each.items()} for each in own]
    together = {n: t.uncontended_rate(capacities) for n, t in joint.items()}
    demands = [0.0] * len(capacities)
    load = [Counter() for _ in capacities]
    for replica, transfers in enumerate(own):
        for name, traffic in transfers.items():
            for link, weight in zip(traffic.links, traffic.weights, strict=True):
                demands[link] += weight * rates[replica][name]
                load[link][name, weight, where[replica]] += 1
    for name, traffic in joint.items():
        for link, weight in zip(traffic.links, traffic.weights, strict=True):
            demands[link] += weight * together[name]
            load[link][name, weight, "all"] += 1
    tight = [a > c * (1 + 1e-12) for a, c in zip(demands, capacities, strict=True)]

    def seen(replica):
        return {
            name: (
                traffic.nbytes,
                traffic.latency,
                rates[replica][name],
                frozenset(
                    (capacities[link], weight, frozenset(load[link].items()))
                    for link, weight in zip(traffic.links, traffic.weights, strict=True)
                    if tight[link]
                ),
            )
            for name, traffic in own[replica].items()
        }

    for members in folded.classes:
        assert len({patterns[member] for member in members}) == 1
        assert all(seen(member) == seen(members[0]) for member in members)


@settings(max_examples=150, deadline=None)
@given(replicas(), st.data())
def test_transfers_end_at_the_same_instants_folded_or_not(case, data):
    """On the links of the folded program, a class's transfer ends when each member's own does."""
    own, joint, *_ = case
    starts = {name: data.draw(st.sampled_from([0.0, 0.0, 1.0])) for name in [*own[0], *joint]}
    folded, whole = folded_and_whole(case)
    assert list(whole.classes) == [(r,) for r in range(len(own))]

    short, long = ends(folded, starts), ends(whole, starts)
    for (name, replica), end in long.items():
        if replica == "all":
            assert short[name, "all"] == pytest.approx(end, rel=1e-12)
        else:
            number = next(n for n, members in enumerate(folded.classes) if replica in members)
            assert short[name, number] == pytest.approx(end, rel=1e-12)


def ends(folded, starts):
    """Return when each transfer ends, begun at the instant of its name."""
    env = Environment()
    network = Network(env, folded.links.capacities)
    found = {}
    traffics = {
        (name, number): traffic
        for number, of_class in enumerate(folded.traffic)
        for name, traffic in of_class.items()
    }
    traffics |= {(name, "all"): traffic for name, traffic in folded.joint.items()}
    for key, traffic in traffics.items():

        def start(_, key=key, traffic=traffic):
            network.start(traffic, lambda _: found.update({key: env.now}))

        Timeout(env, starts[key[0]]).callbacks.append(start)
    env.run()
    network.check()
    return found


@settings(max_examples=100, deadline=None)
@given(replicas(), st.integers(1, 3), st.data())
def test_links_that_the_same_transfers_cross_alike_limit_them_as_one(case, rails, data):
    """On every rail of nodes, transfers end as on one rail, with each link replayed or folded."""
    own, joint, capacities, patterns = case
    links = len(capacities)

    def on_rails(traffic):
        crossed = [link + rail * links for rail in range(rails) for link in traffic.links]
        return traffic._replace(links=tuple(crossed), weights=traffic.weights * rails)

    own = [{name: on_rails(traffic) for name, traffic in each.items()} for each in own]
    joint = {name: on_rails(traffic) for name, traffic in joint.items()}
    capacities = capacities * rails
    starts = {name: data.draw(st.sampled_from([0.0, 0.0, 1.0])) for name in [*own[0], *joint]}
    _, whole = folded_and_whole((own, joint, capacities, patterns))
    every = SimpleNamespace(links=SimpleNamespace(capacities=capacities), traffic=own, joint=joint)

    short, long = ends(whole, starts), ends(every, starts)

    assert short == pytest.approx(long, rel=1e-12)
    assert len(whole.links.capacities) <= links


def test_a_link_that_nobody_can_fill_tells_no_replicas_apart():
    """Two replicas on links of 8 and 9 B/s with a demand of 1 B/s are one class, without links."""
    own = [{("send",): Traffic("t", (i,), (1.0,), 5.0, 0.0, 1.0)} for i in range(2)]
    folded = fold_replicas_of(own, {}, [8.0, 9.0], ["a", "b"], [0, 0], fold_replicas=True)

    assert folded.classes == ((0, 1),)
    assert folded.links.capacities == ()
    assert folded.traffic[0]["send",] == Traffic("t", (), (), 5.0, 0.0, 1.0)


def test_links_that_are_not_overloaded_tell_no_replicas_apart():
    """Replicas 0 and 1 share a link, replica 2 does not: one class unless links are overloaded."""
    routes = [(0, 2), (1, 2), (3, 4)]
    sends = [
        [Traffic(way, route, (1.0, 1.0), 5.0, 0.0, 6.0) for route in routes] for way in ("F", "B")
    ]
    own = {(rows[0].name,): traffic_rows(rows) for rows in sends}
    names = ["a", "b", "shared", "c", "d"]
    job = JobTraffic(own, {}, np.zeros(3, dtype=np.int64))
    replicas_ = ReplicaTraffic([job], np.full(5, 8.0), names)
    loose, nics, shared = (replicas_.folded(np.array(each, np.int64)) for each in ([], [0, 1], [2]))

    assert loose[0].classes == ((0, 1, 2),)
    assert nics[0].classes == shared[0].classes == replicas_.folded()[0].classes == ((0, 1), (2,))
    assert not replicas_.differ(loose, np.zeros(0, np.int64))
    assert replicas_.differ(loose, np.array([2]))
    assert not replicas_.differ(shared, np.array([0, 1, 3, 4]))


def test_replicas_of_two_jobs_are_folded_together():
    """A replica that meets the other job on a link differs from those that do not."""
    names = [f"l{i}" for i in range(4)]

    def job(routes):
        rows = [Traffic("F", (route,), (1.0,), 5.0, 0.0, 6.0) for route in routes]
        return JobTraffic({("F",): traffic_rows(rows)}, {}, np.zeros(len(routes), dtype=np.int64))

    alone = ReplicaTraffic([job([0, 0, 1, 1, 2, 2])], np.full(4, 8.0), names).folded()
    both = ReplicaTraffic([job([0, 0, 1, 1, 2, 2]), job([2, 3, 3])], np.full(4, 8.0), names)
    first, second = both.folded()

    assert alone[0].classes == ((0, 1, 2, 3, 4, 5),)
    assert first.classes == ((0, 1, 2, 3), (4, 5))
    assert second.classes == ((0,), (1, 2))
    assert first.links is second.links
    (met,) = {*first.traffic[1]["F",].links} & {*second.traffic[0]["F",].links}
    assert first.links.names[met] == "l2"
    assert [len(each.classes) for each in both.unfolded()] == [6, 3]


def test_replicas_on_one_link_carry_the_load_of_all():
    """Three flows of one class on a link of 8 B/s are one flow of weight 3 there."""
    own = [{("send",): Traffic("t", (0,), (1.0,), 5.0, 0.0)} for _ in range(3)]
    folded = fold_replicas_of(own, {}, [8.0], ["a"], [0, 0, 0], fold_replicas=True)

    assert folded.classes == ((0, 1, 2),)
    assert folded.traffic[0]["send",] == Traffic("t", (0,), (3.0,), 5.0, 0.0, 8.0)


# --- fusing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [
        ("frontier-175b", "batch.global=16"),
        ("megatron21-t1-1.7b", "cluster.nodes=1", "plan.tensor=4", "plan.pipeline=2", "plan.data=1",
         "batch.global=16", "batch.micro=1"),
    ],
    ids=["bound by the device", "bound by the host"],
)  # fmt: skip
def test_fusing_collectives_changes_a_step_by_no_more_than_it_says(case):
    """Collectives replayed on their own give the fused step time, to the bound that is reported."""
    name, *given_ = case
    fused = simulate(name, given_)
    apart = simulate(name, [*given_, "fusion_bound=1e-9"])
    bound = fused.program.fused.bound

    assert fused.program.fused.whole
    assert not apart.program.fused.whole
    assert fused.step_time <= apart.step_time * (1 + 1e-9)
    assert apart.step_time <= fused.step_time * (1 + bound + 1e-9)
