"""The network: its times do not depend on the solver, and bytes and capacity are conserved.

Uncontended and shared transfers are compared by a second network in which all transfers share;
the scalar and the array solver, by networks in which all transfers or none are in arrays.
"""

import random
from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simpy import Environment
from simpy.events import Timeout

from clustersim.engine.network import network as network_module
from clustersim.engine.network.background_traffic import (
    REPETITIONS,
    Slowdown,
    contended_seconds,
    contention_of,
    slowdowns,
)
from clustersim.engine.network.local_rates import LocalRates
from clustersim.engine.network.network import Network
from clustersim.engine.network.transfer import DONE, SHARED, UNCONTENDED, WAITING
from clustersim.errors import SimulationError
from clustersim.traffic import Traffic


class SharedNetwork(Network):
    """A network without uncontended transfers: all wait, share, and are solved."""

    def start(self, traffic, done):
        transfer = super().start(traffic, done)
        if transfer.phase == UNCONTENDED and transfer.route.demands:
            self._wait(transfer, traffic.latency)
        return transfer


def one(name="a", links=(0,), nbytes=20.0, latency=0.0, weights=None, cap=inf):
    return Traffic(name, links, weights or (1.0,) * len(links), nbytes, latency, cap)


def run(
    capacities, starts, make: Callable[..., Network] = Network
) -> tuple[Network, dict[str, float], list[str]]:
    """Start each traffic at its instant; return the network, the ends by name, and their order."""
    env = Environment()
    network = make(env, capacities)
    ends: dict[str, float] = {}

    def note(transfer):
        ends[transfer.traffic.name] = env.now

    for instant, traffic in starts:
        Timeout(env, instant).callbacks.append(
            lambda _, traffic=traffic: network.start(traffic, note)
        )
    env.run()
    return network, ends, list(ends)


@st.composite
def scenes(draw):
    """Capacities and starts: few links and few instants, so that many meet and many tie."""
    capacities = draw(st.lists(st.integers(1, 12).map(float), min_size=1, max_size=4))
    places = st.lists(st.integers(0, len(capacities) - 1), unique=True, max_size=3).map(tuple)
    count = draw(st.integers(1, 9))
    starts = []
    for i in range(count):
        links = draw(places)
        traffic = Traffic(
            f"t{i}",
            links,
            tuple(draw(st.sampled_from([0.5, 1.0, 1.0, 3.0])) for _ in links),
            draw(st.sampled_from([0.0, 1.0, 7.0, 30.0, 31.0])),
            draw(st.sampled_from([0.0, 0.0, 0.5, 2.0])),
            draw(st.sampled_from([inf, inf, 0.7, 2.0])),
        )
        starts.append((draw(st.integers(0, 6).map(float)), traffic))
    return capacities, starts


@given(scenes())
@settings(max_examples=120)
def test_alone_and_shared_end_at_the_same_instants(scene):
    """Whether a transfer ran alone or was solved makes no difference to any end."""
    quick, ends, _ = run(*scene)
    slow, expected, _ = run(*scene, make=SharedNetwork)

    assert ends == {name: pytest.approx(end, rel=1e-12) for name, end in expected.items()}
    assert quick.solves <= slow.solves
    quick.check()
    slow.check()


@given(scenes())
def test_bytes_delivered_are_bytes_asked(scene):
    """Rates integrated over time are the payloads, and each link carried weight times payload."""
    capacities, starts = scene
    network, _, _ = run(capacities, starts)

    carried = [0.0] * len(capacities)
    for _, traffic in starts:
        for link, weight in zip(traffic.links, traffic.weights, strict=True):
            carried[link] += weight * traffic.nbytes
    assert network.conservation.sent == sum(traffic.nbytes for _, traffic in starts)
    assert network.conservation.delivered == pytest.approx(network.conservation.sent, rel=1e-9)
    assert network.routes.carried == pytest.approx(carried, rel=1e-9)
    assert network.conservation.worst_load <= 1 + 1e-12


@given(scenes(), st.sampled_from([1.0, 64.0, 4096.0]))
def test_shifting_all_starts_shifts_all_ends(scene, shift):
    """Nothing depends on what the clock shows."""
    capacities, starts = scene
    _, ends, _ = run(capacities, starts)
    _, later, _ = run(capacities, [(instant + shift, traffic) for instant, traffic in starts])

    assert later == {name: pytest.approx(end + shift, rel=1e-12) for name, end in ends.items()}


@given(scenes(), st.sampled_from([(0, 0), (0, 2), (4, 1), (9, 3)]))
def test_scalar_and_array_solver_end_at_the_same_instants(scene, sizes):
    """The solver of shared transfers makes no difference to any end."""
    _, expected, _ = run(*scene)
    network, ends, _ = run_with_solver_sizes(*sizes, *scene)

    assert ends == {name: pytest.approx(end, rel=1e-12) for name, end in expected.items()}
    network.check()


@given(scenes())
def test_rates_that_a_change_concerns_are_those_of_all(scene):
    """Ends are the same whether all that is connected is solved, or what a change concerns."""
    _, expected, _ = run(*scene)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network_module, "FEW_CROSSINGS", -1)
        network, ends, _ = run(*scene)

    assert ends == {name: pytest.approx(end, rel=1e-12) for name, end in expected.items()}
    network.check()


@pytest.mark.parametrize("seed", range(4))
def test_local_rates_of_many_flows_are_those_of_all(seed):
    """150 flows on 40 links: the ends are those of the scalar solver."""
    scene = busy_scene(seed)
    _, expected, _ = run_with_solver_sizes(inf, 0, *scene)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network_module, "MANY_CONCERNED", inf)
        network, ends, _ = run(*scene)

    assert ends == {name: pytest.approx(end, rel=1e-11) for name, end in expected.items()}
    network.check()


@pytest.mark.parametrize("replicas", [32, 256])
def test_a_change_of_one_replica_does_not_concern_the_others(monkeypatch, replicas):
    """A gather connects all replicas; a collective of one has three transfers at most to solve."""
    solved = []
    original = LocalRates._solve

    def counted(self):
        solved.append(len(self.rates))
        original(self)

    monkeypatch.setattr(LocalRates, "_solve", counted)
    gather = one("gather", tuple(range(replicas)), nbytes=100.0 * replicas, cap=1.0)
    own = [
        (1.0 + number / replicas, one(f"r{number}", (number,), nbytes=20.0))
        for number in range(replicas)
    ]
    network, ends, _ = run([10.0] * replicas, [(0.0, gather), *own])

    assert ends["r0"] == pytest.approx(1.0 + 20.0 / 9)
    assert len(solved) >= replicas / 2
    assert max(solved) <= 3
    network.check()


def run_with_solver_sizes(many_crossings, few_members, capacities, starts):
    """Run with other limits between the scalar and the array solver."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network_module, "MANY_CONCERNED", -1)
        patch.setattr(network_module, "MANY_CROSSINGS", many_crossings)
        patch.setattr(network_module, "FEW_MEMBERS", few_members)
        return run(capacities, starts)


def busy_scene(seed, count=150, links=40):
    """Starts of many flows on few links at random instants, and some all at once."""
    rng = random.Random(seed)
    capacities = [rng.choice([1.0, 2.0, 5.0, rng.uniform(1, 20)]) for _ in range(links)]
    starts = []
    for i in range(count):
        route = tuple(rng.sample(range(links), rng.randint(1, 5)))
        weights = tuple(rng.choice([1.0, 1.0, 0.5, 1 / 3]) for _ in route)
        traffic = Traffic(f"t{i}", route, weights, rng.uniform(1, 50), rng.choice([0.0, 0.5]))
        starts.append((rng.choice([0.0, 1.0, rng.uniform(0, 20)]), traffic))
    return capacities, starts


def test_links_that_no_transfer_fills_do_not_bring_a_component_into_arrays(monkeypatch):
    """40 transfers share one link and cross ten of their own each: 40 crossings, not 440."""

    def rejected(*_):
        raise AssertionError("the component is in arrays")

    monkeypatch.setattr("clustersim.engine.network.array_solver.ArraySolver.add", rejected)
    routes = [(0, *range(10 * i + 1, 10 * i + 11)) for i in range(40)]
    starts = [(0.0, one(f"t{i}", route, nbytes=40.0 + i)) for i, route in enumerate(routes)]
    network, ends, _ = run([40.0] * 401, starts)

    assert ends["t0"] == pytest.approx(40.0)
    assert ends["t39"] == pytest.approx(sum(range(40, 80)) / 40)
    network.check()


@pytest.mark.parametrize("seed", range(4))
def test_the_array_solver_ends_as_the_scalar_solver_does(seed):
    """150 flows on 40 links enter the array solver and leave it: the ends are equal to 1e-11."""
    scene = busy_scene(seed)
    _, expected, _ = run_with_solver_sizes(inf, 0, *scene)
    network, ends, _ = run(*scene)

    assert ends == {name: pytest.approx(end, rel=1e-11) for name, end in expected.items()}
    assert network.conservation.delivered == pytest.approx(network.conservation.sent, rel=1e-9)
    assert network.conservation.worst_load <= 1 + 1e-11
    network.check()


@given(scenes(), st.data())
@settings(max_examples=50)
@pytest.mark.parametrize("in_arrays", [False, True], ids=["scalar", "array"])
def test_the_order_of_simultaneous_starts_does_not_matter(in_arrays, scene, data):
    """Starts of one instant may come in any order: all end at the same instants, to 1e-12."""
    capacities, starts = scene
    other = data.draw(st.permutations(starts))
    sizes = (0, 0) if in_arrays else (inf, 0)
    _, ends, _ = run_with_solver_sizes(*sizes, capacities, starts)
    _, permuted, _ = run_with_solver_sizes(*sizes, capacities, other)

    assert permuted == {name: pytest.approx(end, rel=1e-12) for name, end in ends.items()}


@given(scenes(), st.data())
@settings(max_examples=50)
@pytest.mark.parametrize("in_arrays", [False, True], ids=["scalar", "array"])
def test_names_of_links_and_flows_do_not_matter(in_arrays, scene, data):
    """Renaming all links and flows, and reordering routes, changes no end beyond rounding."""
    capacities, starts = scene
    new = data.draw(st.permutations(range(len(capacities))))
    renamed = [0.0] * len(capacities)
    for link, capacity in enumerate(capacities):
        renamed[new[link]] = capacity

    def rename(traffic):
        crossings = sorted(zip((new[x] for x in traffic.links), traffic.weights, strict=True))
        links, weights = tuple(x for x, _ in crossings), tuple(w for _, w in crossings)
        return traffic._replace(name=f"new {traffic.name}", links=links, weights=weights)

    sizes = (0, 0) if in_arrays else (inf, 0)
    _, ends, _ = run_with_solver_sizes(*sizes, capacities, starts)
    _, other, _ = run_with_solver_sizes(*sizes, renamed, [(at, rename(t)) for at, t in starts])

    assert other == {f"new {name}": pytest.approx(end, rel=1e-12) for name, end in ends.items()}


@given(scenes())
def test_the_same_starts_give_the_same_bytes(scene):
    """Two runs agree in every digit and in the order of completion."""
    _, ends, order = run(*scene)
    _, repeated, order_repeated = run(*scene)

    assert ends == repeated
    assert order == order_repeated


def test_a_transfer_alone_takes_latency_plus_bytes_over_the_tightest_link():
    """Links 10 and 4, payload 20, latency 3: 3 + 20 / 4 = 8, without a solve."""
    network, ends, _ = run([10.0, 4.0], [(0.0, one(links=(0, 1), latency=3.0))])

    assert ends == {"a": 8.0}
    assert network.solves == 0


def test_a_heavy_link_counts_by_its_weight_and_a_cap_by_the_flow():
    """Three flows over a link of 12 get 4 each; capped at 2 they get 2: 20 / 4 and 20 / 2."""
    _, free, _ = run([12.0], [(0.0, one(weights=(3.0,)))])
    _, capped, _ = run([12.0], [(0.0, one(weights=(3.0,), cap=2.0))])

    assert (free["a"], capped["a"]) == (5.0, 10.0)


def test_a_newcomer_halves_the_rate_and_gives_it_back():
    """Link 10: a (30) alone until 1, b (10) shares until 3, then a has 10 left: 4.

    a: 10 B by 1 s, 10 B at rate 5 by 3 s, 10 B at rate 10 by 4 s.
    """
    network, ends, order = run([10.0], [(0.0, one("a", nbytes=30.0)), (1.0, one("b", nbytes=10.0))])

    assert ends == {"a": 4.0, "b": 3.0}
    assert order == ["b", "a"]
    assert network.solves == 2


def test_latency_uses_no_bandwidth():
    """Transfer b waits until 2 while a (20 on link 10) is through at 2: neither slows the other."""
    _, ends, _ = run([10.0], [(0.0, one("a")), (0.0, one("b", latency=2.0))])

    assert ends == {"a": 2.0, "b": 4.0}


def test_a_waiting_transfer_that_was_judged_alone_is_overtaken():
    """Transfer a waits until 5 and ends at 7; b, from 1 to 3, runs as if a did not exist."""
    _, ends, _ = run([10.0], [(0.0, one("a", latency=5.0)), (1.0, one("b"))])

    assert ends == {"a": 7.0, "b": 3.0}


def test_a_waiting_transfer_that_was_judged_alone_meets_the_newcomer():
    """Bytes of a begin at 2, of b (40 on link 10) at 1: b moves 10 B alone, then both at 5.

    a: 20 B at 5 from 2 to 6. b: 10 + 20 by 6, its last 10 B at 10 by 7.
    """
    _, ends, _ = run([10.0], [(0.0, one("a", latency=2.0)), (1.0, one("b", nbytes=40.0))])

    assert ends == {"a": 6.0, "b": 7.0}


def test_transfers_that_fit_beside_each_other_need_no_solve():
    """Caps of 5, 3 and 2 fill a link of 10: each runs at its cap, and nothing is solved."""
    starts = [(0.0, one(name, cap=cap)) for name, cap in (("a", 5.0), ("b", 3.0), ("c", 2.0))]
    network, ends, _ = run([10.0], starts)

    assert ends == {"a": 4.0, "b": 20 / 3, "c": 10.0}
    assert network.solves == 0


def test_thirds_of_a_link_fit_in_spite_of_rounding():
    """Three caps of a third of the capacity are not judged to be too much."""
    starts = [(0.0, one(name, cap=10.0 / 3)) for name in "abc"]
    network, ends, _ = run([10.0], starts)

    assert ends == dict.fromkeys("abc", pytest.approx(6.0, rel=1e-15))
    assert network.solves == 0


def test_starts_and_ends_of_one_instant_are_solved_once():
    """Four equal transfers that start and end together take one solve, not eight."""
    network, ends, _ = run([10.0], [(1.0, one(name)) for name in "abcd"])

    assert ends == dict.fromkeys("abcd", 9.0)
    assert network.solves == 1


def test_who_is_far_away_is_not_solved_again():
    """A meeting on one link leaves the rate and the end of another component untouched."""
    env = Environment()
    network = Network(env, [10.0, 10.0])
    ends = {}

    def note(transfer):
        ends[transfer.traffic.name] = env.now

    far = [network.start(one(name, links=(1,)), note) for name in "ab"]
    env.run(until=1.0)
    before = [(transfer.end, transfer.since) for transfer in far]
    network.start(one("c"), note)
    network.start(one("d"), note)
    env.run(until=2.0)

    assert [(transfer.end, transfer.since) for transfer in far] == before


def test_no_bytes_or_no_links_take_the_latency_only():
    """Nothing to carry, or nothing to cross, completes after the latency; a cap still holds."""
    starts = [
        (1.0, one("empty", nbytes=0.0, latency=0.5)),
        (1.0, one("local", links=(), latency=0.25)),
        (1.0, one("local and capped", links=(), latency=0.25, cap=10.0)),
    ]
    network, ends, _ = run([10.0], starts)

    assert ends == {"local": 1.25, "empty": 1.5, "local and capped": 3.25}
    network.check()


def test_a_transfer_goes_through_its_phases():
    """Uncontended, then shared; waiting, then shared; both done at the end."""
    env = Environment()
    network = Network(env, [10.0])
    first = network.start(one("a"), lambda _: None)
    second = network.start(one("b", latency=1.0), lambda _: None)

    assert (first.phase, second.phase) == (UNCONTENDED, WAITING)
    env.run(until=1.5)
    assert (first.phase, second.phase) == (SHARED, SHARED)
    assert "'a' shared" in repr(first)
    env.run()
    assert (first.phase, second.phase) == (DONE, DONE)


def test_a_chain_started_from_done_runs_back_to_back():
    """A start in the instant of an end finds the link free: ten times 2 s, without a solve."""
    env = Environment()
    network = Network(env, [10.0])
    ends = []

    def repeat(transfer):
        ends.append(env.now)
        if len(ends) < 10:
            network.start(transfer.traffic, repeat)

    network.start(one(), repeat)
    env.run()

    assert ends == [2.0 * i for i in range(1, 11)]
    assert network.solves == 0


def test_tiny_transfers_late_on_the_clock_pass_the_check():
    """A microsecond transfer after a day is judged by what the clock can resolve then."""
    network, _, _ = run([1e10], [(86400.0, one(name, nbytes=1e4)) for name in "abc"])

    network.check()


# --- check ----------------------------------------------------------------------------------------


def finished():
    network, _, _ = run([10.0, 10.0], [(0.0, one("a")), (1.0, one("b", links=(0, 1)))])
    network.check()
    return network


def test_check_names_what_is_still_in_flight():
    """A run that stops early is an error that names the transfers in flight."""
    env = Environment()
    network = Network(env, [10.0])
    for name in ("stage 0 to 1", "stage 1 to 2"):
        network.start(one(name), lambda _: None)
    env.run(until=1.0)

    with pytest.raises(SimulationError, match="in flight at 1 s: 'stage 0 to 1', 'stage 1 to 2'"):
        network.check()


def test_check_names_the_activity_whose_bytes_are_missing():
    """A transfer whose rate was wrong for a while is found by its own bytes."""
    env = Environment()
    network = Network(env, [10.0])
    network.start(one("honest"), lambda _: None)
    env.run()
    network.start(one("cheat"), lambda _: None).rate *= 0.5
    env.run()

    with pytest.raises(SimulationError, match="'cheat' delivered 10 B of 20 B"):
        network.check()


def test_check_compares_the_totals():
    """Bytes lost between the activities are an error too."""
    network = finished()
    network.conservation.delivered -= 1e-6

    with pytest.raises(SimulationError, match="all activities together delivered"):
        network.check()


def test_check_names_the_link_above_its_capacity(monkeypatch):
    """A solver that gives each flow the full link is caught by the loads it makes."""
    monkeypatch.setattr(
        "clustersim.engine.network.scalar_solver.max_min_rates",
        lambda problem: problem.caps,
    )
    network, _, _ = run([5.0, 10.0], [(0.0, one("a", links=(1,))), (0.0, one("b", links=(1,)))])

    with pytest.raises(SimulationError, match="link 1 ran at 2 of its capacity"):
        network.check()


def test_check_names_a_link_that_the_array_solver_overloads(monkeypatch):
    """In arrays, too, loads are summed from the rates and not taken from the solver."""
    monkeypatch.setattr(
        "clustersim.engine.network.incremental_fairness.rates_of_crossings",
        lambda capacity, activity, link, weight, cap: cap,
    )
    starts = [(0.0, one(name, links=(1,))) for name in "ab"]
    network, _, _ = run_with_solver_sizes(0, 0, [5.0, 10.0], starts)

    with pytest.raises(SimulationError, match="link 1 ran at 2 of its capacity"):
        network.check()


def test_check_names_a_link_whose_demand_was_not_released():
    """A demand that is not released would make later traffic look contended."""
    network = finished()
    network.routes.demands[1] += 1

    with pytest.raises(SimulationError, match="link 1 is idle"):
        network.check()


# --- with background traffic ----------------------------------------------------------------------


@given(
    nbytes=st.floats(1.0, 1e9),
    latency=st.floats(0.0, 10.0),
    widths=st.lists(st.floats(1.0, 1e9), min_size=1, max_size=5),
    cap=st.one_of(st.just(inf), st.floats(1.0, 1e9)),
)
def test_a_foreground_without_background_takes_what_it_takes_alone(nbytes, latency, widths, cap):
    """Latency plus bytes over the least of cap and links, and no link holds it back."""
    traffic = one(links=tuple(range(len(widths))), nbytes=nbytes, latency=latency, cap=cap)

    assert contended_seconds([traffic], [], widths) == [
        pytest.approx(latency + nbytes / min([*widths, cap]), rel=1e-12)
    ]
    assert slowdowns([traffic], [], widths) == [Slowdown(0.0, None)]


@given(st.floats(1.0, 1e9), st.floats(1.0, 1e9), st.floats(0.01, 100.0))
def test_an_equal_flow_in_the_background_doubles_the_time_of_the_bytes(nbytes, width, relative):
    """However often the other repeats: 2 x bytes / width, limited by that link all the time."""
    ours, theirs = one("ours", nbytes=nbytes), one("theirs", nbytes=nbytes * relative)
    seconds = pytest.approx(2 * nbytes / width, rel=1e-9)

    assert contended_seconds([ours], [theirs], [width]) == [seconds]
    assert slowdowns([ours], [theirs], [width]) == [Slowdown(seconds, 0)]


@given(scenes())
def test_background_on_other_links_changes_nothing(scene):
    """What crosses no link of the foreground leaves its times, and what held it, as they are."""
    capacities, starts = scene
    ours = [traffic for _, traffic in starts]
    elsewhere = (len(capacities), len(capacities) + 1)
    theirs = [one(f"theirs {i}", links=elsewhere, nbytes=3.0, latency=i / 4) for i in range(3)]
    wider = [*capacities, 5.0, 7.0]

    seconds = contended_seconds(ours, [], capacities)
    assert contended_seconds(ours, theirs, wider) == pytest.approx(seconds, rel=1e-12)
    held = [one.seconds for one in slowdowns(ours, [], capacities)]
    assert [one.seconds for one in slowdowns(ours, theirs, wider)] == pytest.approx(held, rel=1e-12)


def test_a_background_with_latency_leaves_the_link_to_others_meanwhile():
    """Link 10: ours is 30 B, theirs 10 B after 1 s of latency, repeated.

    1 s alone (10 B), 2 s shared (10 B), 1 s alone (10 B): 4 s, 2 of them held at link 0.
    """
    ours, theirs = one("ours", nbytes=30.0), one("theirs", nbytes=10.0, latency=1.0)

    assert contended_seconds([ours], [theirs], [10.0]) == [4.0]
    assert slowdowns([ours], [theirs], [10.0]) == [Slowdown(2.0, 0)]


def test_a_foreground_of_many_repetitions_of_the_background_is_extrapolated():
    """Link 10, theirs 10 B after 1 s: 20 B in each 3 s, 2 of them limited; 1000TB hung before."""
    ours, theirs = one("ours", nbytes=2e15), one("theirs", nbytes=10.0, latency=1.0)

    seconds, slowdown = contention_of(ours, [theirs], [10.0])
    assert seconds == pytest.approx(3e14, rel=1e-3)
    assert slowdown.seconds == pytest.approx(2e14, rel=1e-3)
    assert slowdown.link == 0


@pytest.mark.large
@given(st.lists(st.tuples(st.floats(0.1, 10.0), st.floats(0.0, 5.0)), min_size=1, max_size=3))
@settings(max_examples=2, deadline=None)
def test_the_extrapolated_time_is_the_replayed_one(others):
    """Of a foreground three times as long as what is replayed, within a few repetitions."""
    theirs = [one(f"theirs {i}", nbytes=n, latency=late) for i, (n, late) in enumerate(others)]
    alone = sum(1 / (late + n / 10.0) for n, late in others)
    ours = one("ours", nbytes=3 * REPETITIONS / alone * 10.0)

    seconds, slowdown = contention_of(ours, theirs, [10.0])
    assert [seconds] == pytest.approx(contended_seconds([ours], theirs, [10.0]), rel=2e-3)
    (replayed,) = slowdowns([ours], theirs, [10.0])
    assert slowdown.seconds == pytest.approx(replayed.seconds, rel=5e-3)


def test_the_link_that_held_longest_is_named():
    """Links 10 and 8 under ours; on the first a long background flow, on the second a capped one.

    Ours gets 5 of link 0, while link 1 has 8 - 2 = 6 for it: link 0 limits it, 20 / 5 = 4 s.
    """
    ours = one("ours", links=(0, 1))
    theirs = [one("lasting", links=(0,), nbytes=1e3), one("capped", links=(1,), cap=2.0)]

    assert slowdowns([ours], theirs, [10.0, 8.0]) == [Slowdown(4.0, 0)]


def test_a_foreground_may_hold_itself_back():
    """Two equal activities of the foreground on one link hold each other, 20 + 20 B at 10 B/s."""
    ours = [one("a"), one("b")]

    assert contended_seconds(ours, [], [10.0]) == [4.0, 4.0]
    assert slowdowns(ours, [], [10.0]) == [Slowdown(4.0, 0), Slowdown(4.0, 0)]


def test_background_that_carries_nothing_is_left_out():
    """No bytes, or no links: it could repeat without end at one instant."""
    empty, nowhere = one("empty", nbytes=0.0), one("nowhere", links=())

    assert contended_seconds([one()], [empty, nowhere], [10.0]) == [2.0]
