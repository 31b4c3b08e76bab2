"""Max-min fairness: the inequalities, and what may not change the answer."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.engine.network.fairness import (
    FEW_CROSSINGS,
    Problem,
    max_min_rates,
    rates_in_rounds,
    rates_level_by_level,
)
from clustersim.engine.network.incremental_fairness import IncrementalRates
from clustersim.engine.network.limiting import limiting_links
from clustersim.traffic import Traffic

SOLVERS = [max_min_rates, rates_level_by_level, rates_in_rounds]
CLOSE = 1e-9


@st.composite
def problems(draw, most=8):
    """Activities that cross some links with weights around one; some have caps."""
    amounts = st.integers(1, 40).map(float)
    capacities = draw(st.lists(amounts, min_size=1, max_size=most))
    places = st.lists(st.integers(0, len(capacities) - 1), unique=True, min_size=1)
    links = draw(st.lists(places, min_size=1, max_size=most))
    weight = st.sampled_from([0.25, 1 / 3, 1.0, 1.0, 2.0, 7.0])
    weights = [[draw(weight) for _ in route] for route in links]
    caps = [draw(st.one_of(st.just(inf), amounts)) for _ in links]
    return Problem(capacities, links, weights, caps)


@given(problem=problems(), data=st.data())
def test_links_that_cannot_limit_change_no_rate(problem, data):
    """Whichever of the activities run, their rates are those on the links that can limit them."""
    crossings = zip(problem.links, problem.weights, strict=True)
    moved = [Traffic("t", tuple(links), tuple(w), 1.0, 0.0) for links, w in crossings]
    limiting = limiting_links(moved, problem.capacities)
    some = data.draw(st.lists(st.integers(0, len(moved) - 1), min_size=1, unique=True))
    running = Problem(problem.capacities, *([of[a] for a in some] for of in problem[1:]))
    kept = [
        [(link, weight) for link, weight in zip(*each, strict=True) if link in limiting]
        for each in zip(running.links, running.weights, strict=True)
    ]
    fewer = running._replace(
        links=[[link for link, _ in route] for route in kept],
        weights=[[weight for _, weight in route] for route in kept],
    )

    assert all(kept)
    assert max_min_rates(fewer) == pytest.approx(max_min_rates(running), rel=CLOSE)


def with_copy(problem, a, weights=None):
    """Return a problem with one activity twice, and with other weights of all before the copy."""
    weights = weights or problem.weights
    return problem._replace(
        links=[*problem.links, problem.links[a]],
        weights=[*weights, weights[a]],
        caps=[*problem.caps, problem.caps[a]],
    )


def scaled(problem, a, factor):
    """Return the weights of a problem, those of one activity times a factor."""
    return [[factor ** (b == a) * w for w in route] for b, route in enumerate(problem.weights)]


def loads(problem, rates):
    """What the rates put on each link."""
    total = [0.0] * len(problem.capacities)
    for rate, route, weights in zip(rates, problem.links, problem.weights, strict=True):
        for link, weight in zip(route, weights, strict=True):
            total[link] += weight * rate
    return total


@pytest.mark.parametrize("solver", SOLVERS)
@given(problem=problems())
def test_no_link_above_capacity_and_no_flow_above_its_cap(solver, problem):
    """Weights times rates on a link stay within its capacity, and each rate within its cap."""
    rates = solver(problem)

    for load, capacity in zip(loads(problem, rates), problem.capacities, strict=True):
        assert load <= capacity * (1 + CLOSE)
    for rate, cap in zip(rates, problem.caps, strict=True):
        assert 0 < rate <= cap


@pytest.mark.parametrize("solver", SOLVERS)
@given(problem=problems())
def test_every_flow_has_a_bottleneck(solver, problem):
    """Each flow is at its cap, or crosses a full link on which no flow is faster."""
    rates = solver(problem)
    load = loads(problem, rates)

    for a, route in enumerate(problem.links):
        bottlenecks = [
            link
            for link in route
            if load[link] >= problem.capacities[link] * (1 - CLOSE)
            and all(
                rates[b] <= rates[a] * (1 + CLOSE)
                for b, other in enumerate(problem.links)
                if link in other
            )
        ]
        assert bottlenecks or rates[a] == problem.caps[a]


@given(problems(most=25))
def test_both_solvers_give_the_same_rates(problem):
    """Level by level or all local bottlenecks at once: the fair rates are the same."""
    assert rates_in_rounds(problem) == pytest.approx(rates_level_by_level(problem), rel=1e-12)


@given(problems(), st.sampled_from([1e-3, 3.0, 1e10]))
def test_rates_scale_with_capacities(problem, factor):
    """Links and caps that are all faster by a factor make all rates faster by it."""
    faster = problem._replace(
        capacities=[c * factor for c in problem.capacities],
        caps=[c * factor for c in problem.caps],
    )

    expected = [rate * factor for rate in max_min_rates(problem)]
    assert max_min_rates(faster) == pytest.approx(expected, rel=1e-12)


@given(st.data())
def test_order_of_activities_and_names_of_links_do_not_matter(data):
    """Renaming links and reordering activities changes no rate."""
    problem = data.draw(problems())
    order = data.draw(st.permutations(range(len(problem.links))))
    name = data.draw(st.permutations(range(len(problem.capacities))))
    capacities = [0.0] * len(name)
    for link, capacity in enumerate(problem.capacities):
        capacities[name[link]] = capacity
    renamed = Problem(
        capacities,
        [[name[link] for link in problem.links[a]] for a in order],
        [problem.weights[a] for a in order],
        [problem.caps[a] for a in order],
    )

    rates = max_min_rates(problem)
    assert max_min_rates(renamed) == pytest.approx([rates[a] for a in order], rel=1e-12)


@given(st.data())
def test_weight_two_is_two_equal_flows(data):
    """An activity whose weights are doubled runs like two copies of it."""
    problem = data.draw(problems())
    a = data.draw(st.integers(0, len(problem.links) - 1))
    double = problem._replace(weights=scaled(problem, a, 2))

    expected = max_min_rates(with_copy(problem, a))
    assert expected[a] == pytest.approx(expected[-1], rel=1e-12)
    assert max_min_rates(double) == pytest.approx(expected[:-1], rel=1e-12)


@given(st.data())
def test_an_activity_cut_in_two_of_half_its_flows_changes_nothing(data):
    """Two activities of half the weights run at the rate of the whole, and so does all else."""
    problem = data.draw(problems())
    a = data.draw(st.integers(0, len(problem.links) - 1))
    cut = with_copy(problem, a, scaled(problem, a, 0.5))

    rates = max_min_rates(problem)
    assert max_min_rates(cut) == pytest.approx([*rates, rates[a]], rel=1e-12)


@given(st.data())
def test_a_second_flow_beside_the_first_gains_at_most_its_share(data):
    """Two flows instead of one: each at half to all of its rate; who was slower keeps its rate.

    Until a link of theirs is full all rates rise as before, and there both stop: at r' <= r.  The
    rates of the others on that link are the same in the end, so r <= 2 r'.  Who was faster
    than r' may lose, or gain where its rivals lost.
    """
    problem = data.draw(problems())
    a = data.draw(st.integers(0, len(problem.links) - 1))
    before, after = max_min_rates(problem), max_min_rates(with_copy(problem, a))

    assert before[a] / 2 * (1 - CLOSE) <= after[a] <= before[a] * (1 + CLOSE)
    for old, new in zip(before, after, strict=False):
        if old < after[a] * (1 - CLOSE):
            assert new == pytest.approx(old, rel=1e-12)


@given(st.data())
def test_rates_below_those_of_who_leaves_stay(data):
    """Without one activity, all that were slower than it keep their rates."""
    problem = data.draw(problems())
    a = data.draw(st.integers(0, len(problem.links) - 1))
    without = Problem(problem.capacities, *(p[:a] + p[a + 1 :] for p in problem[1:]))
    before, after = max_min_rates(problem), max_min_rates(without)

    for old, new in zip(before[:a] + before[a + 1 :], after, strict=True):
        if old < before[a] * (1 - CLOSE):
            assert new == pytest.approx(old, rel=1e-12)


# --- rates that are kept while flows come and go --------------------------------------------------


def joined(incremental, problem, rows):
    """Let some activities of a problem, caps at most their slowest link, join the incremental."""
    links = [problem.links[a] for a in rows]
    weights = [problem.weights[a] for a in rows]
    incremental.add(
        np.array([len(route) for route in links]),
        np.array([link for route in links for link in route]),
        np.array([weight for route in weights for weight in route]),
        np.array([alone(problem, a) for a in rows]),
    )


def alone(problem, a):
    """The rate of an activity that has its links to itself."""
    crossings = zip(problem.links[a], problem.weights[a], strict=True)
    return min([problem.caps[a], *(problem.capacities[link] / w for link, w in crossings)])


@given(data=st.data())
@settings(max_examples=60)
def test_incremental_rates_are_those_of_a_fresh_solve(data):
    """The rates are the same, whatever was added or removed in any order."""
    problem = data.draw(problems(most=12))
    incremental, rows = IncrementalRates(), []
    incremental.add_links(problem.capacities)  # `rows`: the activity of each; None when removed
    absent = data.draw(st.permutations(range(len(problem.links))))
    while absent:
        count = data.draw(st.integers(1, len(absent)))
        coming, absent = absent[:count], absent[count:]
        joined(incremental, problem, coming)
        rows += coming
        incremental.solve()
        for row in data.draw(st.sets(st.sampled_from(range(len(rows))), max_size=2)):
            if rows[row] is not None:
                incremental.remove(row)
                rows[row] = None
        worst, _ = incremental.solve()
        here = [a for a in rows if a is not None]
        links, weights, caps = ([facts[a] for a in here] for facts in problem[1:])
        rest = Problem(problem.capacities, links, weights, caps)
        fresh = max_min_rates(rest)

        kept = [rate for rate, a in zip(incremental.rate, rows, strict=True) if a is not None]
        assert kept == pytest.approx(fresh, rel=1e-11)
        assert worst <= 1 + CLOSE
        assert incremental.load == pytest.approx(loads(rest, fresh), rel=1e-9, abs=1e-9)


# --- by hand --------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_three_links_by_hand(solver):
    """L0 = 10 for A, B, C; L1 = 6 for B, D; L2 = 20 for C, D, E: B = D = 3, A = C = 3.5, E = 13.5.

    L1 offers 3, the least, and freezes B and D.  L0 has 7 left for A and C.  L2 has 20 - 3 - 3.5.
    """
    links = [[0], [0, 1], [0, 2], [1, 2], [2]]
    weights = [[1.0] * len(route) for route in links]

    assert solver(Problem([10.0, 6.0, 20.0], links, weights, [inf] * 5)) == [
        3.5,
        3.0,
        3.5,
        3.0,
        13.5,
    ]


@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_and_a_cap_by_hand(solver):
    """12 for A of weight 2, B of weight 1 and C capped at 1: C takes 1, then A = B = 11 / 3."""
    rates = solver(Problem([12.0], [[0], [0], [0]], [[2.0], [1.0], [1.0]], [inf, inf, 1.0]))

    assert rates == pytest.approx([11 / 3, 11 / 3, 1.0], rel=1e-15)


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_crosses_no_link_runs_at_its_cap(solver):
    """An activity without links gets its cap, be it infinite; no activity at all gets no rate."""
    free = Problem([1.0], [[], [], [0]], [[], [], [1.0]], [5.0, inf, inf])
    assert solver(free) == [5.0, inf, 1.0]
    assert solver(Problem([1.0], [], [], [])) == []


def test_a_large_problem_is_solved_in_arrays():
    """Two flows on each of many links get half of it, whichever road the size selects."""
    count = 2 * FEW_CROSSINGS
    links = [[i // 2] for i in range(count)]

    problem = Problem([4.0] * count, links, [[1.0]] * count, [inf] * count)
    assert max_min_rates(problem) == [2.0] * count
