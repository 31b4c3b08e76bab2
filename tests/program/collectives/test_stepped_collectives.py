"""Collectives step by step: what each member holds at the end, what it sends, how long it takes."""

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from simpy import Environment

import stepped_collectives as stepped
from boxes import PLAIN, STEP, fixed, ideal, machine
from clustersim.cost.closed_form import passes
from clustersim.engine.network.network import Network
from clustersim.program.collectives.algorithm import HALVES
from clustersim.program.collectives.algorithms import ALGORITHMS
from clustersim.program.collectives.ring import hierarchical_edges, ring_edges
from clustersim.program.collectives.torus import torus_edges
from clustersim.program.collectives.trees import tree_edges
from clustersim.traffic import Traffic
from enumerated import loads_of_edges
from stepped_collectives import in_rounds

MODEST = settings(max_examples=20, deadline=None)

# --- the result -----------------------------------------------------------------------------------


def each(blocks):
    """Return a start where every member holds all blocks, with its own data."""
    return lambda member: dict.fromkeys(range(blocks), (member,))


def outcome(program, start):
    """Return what the members hold at the end, what is summed in order."""
    held = program.outcome([start(member) for member in range(program.members)])
    return [{block: tuple(sorted(got)) for block, got in own.items()} for own in held]


def check_halves(program, operation):
    """Assert that a program leaves what an all-reduce, or one of its halves, promises."""
    ranks, whole = program.members, tuple(range(program.members))
    owned = [range(member, program.blocks, ranks) for member in range(ranks)]
    if operation == "all-gather":
        held = outcome(program, lambda member: dict.fromkeys(owned[member], (member,)))

        assert held == [{b: (b % ranks,) for b in range(program.blocks)}] * ranks
        return
    held = outcome(program, each(program.blocks))
    for member, own in enumerate(held):
        kept = owned[member] if operation == "reduce-scatter" else range(program.blocks)

        assert {block: own[block] for block in kept} == dict.fromkeys(kept, whole)


@st.composite
def all_reduces(draw):
    """An all-reduce or a half of it, step by step, by each algorithm that has it."""
    operation = draw(st.sampled_from(HALVES))
    nodes, local, ranks = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 9))
    shape = draw(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=3))
    lengths, closed = zip(*shape, strict=True)
    assume(any(length > 1 for length in lengths))
    programs = {
        "ring": (stepped.ring(operation, ranks), operation),
        "halving": (in_rounds("halving-doubling", operation, 2**nodes), operation),
        "doubling": (in_rounds("doubling", "all-reduce", 2**nodes), "all-reduce"),
        "bruck": (in_rounds("bruck", "all-gather", nodes + local * ranks), "all-gather"),
        "trees": (stepped.tree(ranks, local), "all-reduce"),
        "levels": (stepped.hierarchical(operation, nodes, local), operation),
        "torus": (stepped.torus(operation, lengths, closed), operation),
    }
    program, operation = programs[draw(st.sampled_from(sorted(programs)))]
    return program.pipelined(draw(st.integers(1, 3))), operation


@settings(max_examples=60, deadline=None)
@given(all_reduces())
def test_an_all_reduce_and_its_halves_leave_what_they_promise(algorithm):
    """Every contribution is counted once: in all blocks, in the owned ones, or put side by side.

    By a ring, halving and doubling, Bruck's rounds, double trees, rings on two levels, and on a
    torus along rings or lines; whole or in pieces, for any number of ranks that it allows.
    """
    check_halves(*algorithm)


@MODEST
@given(st.sampled_from(["bruck", "pairwise", "grouped"]), st.integers(1, 17))
def test_an_all_to_all_takes_every_block_as_far_as_it_is_to_go(algorithm, ranks):
    """Block d of each rank ends at the rank d further on, and no other block with it."""
    program = in_rounds(algorithm, "all-to-all", ranks)
    held = outcome(program, each(ranks))

    assert held == [{d: ((member - d) % ranks,) for d in range(ranks)} for member in range(ranks)]


@MODEST
@given(st.booleans(), st.integers(1, 17), st.integers(1, 4))
def test_a_broadcast_reaches_all_and_a_reduce_hears_from_all(binomial, ranks, pieces):
    """From member 0 by a binomial tree or a pipelined chain, and back to it, each once."""
    out, back = (
        in_rounds("binomial", operation, ranks)
        if binomial
        else stepped.chain(operation, ranks).pipelined(pieces)
        for operation in ("broadcast", "reduce")
    )
    spread = outcome(out, lambda member: {} if member else each(out.blocks)(0))
    summed = outcome(back, each(back.blocks))

    assert spread == [dict.fromkeys(range(out.blocks), (0,))] * ranks
    assert summed[0] == dict.fromkeys(range(back.blocks), tuple(range(ranks)))


@MODEST
@given(st.integers(1, 40))
def test_a_barrier_lets_nobody_go_who_has_not_heard_of_all(ranks):
    """After ceil(log2 p) rounds each rank has heard of every other."""
    program = in_rounds("dissemination", "barrier", ranks)
    held = outcome(program, lambda member: {member: (member,)})

    assert len(program.rounds) == (ranks - 1).bit_length()
    assert held == [{other: (other,) for other in range(ranks)}] * ranks


# --- the folded load is the sum of the steps ------------------------------------------------------


def summed(edges):
    """Return what goes from each device to each other, of edges that carry something."""
    total = Counter()
    for a, b, share in edges:
        total[a, b] += share
    return {pair: pytest.approx(share) for pair, share in total.items()}


def on_devices(program, group):
    """Return what a program's members send each other, as edges between devices."""
    return [(group[a], group[b], share) for (a, b), share in program.carried().items()]


STREAMS = (*HALVES, "broadcast", "reduce")


@MODEST
@given(st.sampled_from(STREAMS), st.permutations(range(8)), st.integers(2, 8), st.booleans())
def test_a_folded_ring_carries_what_its_steps_carry(operation, order, ranks, spread):
    """In a node, or with one device of each node, pair by pair."""
    cluster = ideal(8)
    group = [8 * number if spread else number for number in order[:ranks]]
    program = (stepped.ring if operation in HALVES else stepped.chain)(operation, ranks)

    assert summed(on_devices(program, group)) == summed(ring_edges(cluster, group, operation))


@MODEST
@given(st.sampled_from(HALVES), st.integers(2, 4), st.integers(1, 4))
def test_a_ring_over_nodes_enters_and_leaves_each_by_one_gateway(operation, nodes, local):
    """A channel is the ring of all ranks with hops between nodes from gateway to gateway."""
    cluster = ideal(nodes, local)
    program = stepped.ring(operation, nodes * local).carried()
    expected = []
    for channel in range(local):
        order = [
            node * local + (channel + i) % local for node in range(nodes) for i in range(local)
        ]
        for (a, b), share in program.items():
            gateway = order[a - a % local]
            legs = [(order[a], order[b])]
            if a // local != b // local:
                legs = [(order[a], gateway), (gateway, order[b])]
            expected += [(x, y, share / local) for x, y in legs if x != y]

    assert summed(expected) == summed(ring_edges(cluster, range(nodes * local), operation))


@MODEST
@given(st.sampled_from(HALVES), st.integers(2, 9), st.integers(2, 4))
def test_folded_trees_and_levels_carry_what_their_steps_carry(operation, nodes, local):
    """Up and down trees, in chains and between gateways; in nodes and on rails; pair by pair."""
    cluster, group = ideal(nodes, local), range(nodes * local)
    levels = on_devices(stepped.hierarchical(operation, nodes, local), group)
    trees = on_devices(stepped.tree(nodes, local), group)

    assert summed(levels) == summed(hierarchical_edges(cluster, group, operation))
    assert summed(trees) == summed(tree_edges(cluster, group, "all-reduce"))


BLOCKS = [(4, 4, 4), (4, 8, 4), (2, 3, 4), (1, 5, 1), (8, 8, 1), (2, 2, 2), (3, 1, 2)]


@pytest.mark.parametrize("operation", HALVES)
@pytest.mark.parametrize("lengths", BLOCKS, ids=str)
def test_a_folded_torus_carries_what_its_steps_carry(operation, lengths):
    """Along closed rings (axes of whole fours) and folded lines, pair by pair."""
    nodes = lengths[0] * lengths[1] * lengths[2]
    cluster = machine("tpu-v4-pod", nodes, lengths)
    program = stepped.torus(operation, lengths, cluster.fabric.rings)

    assert summed(on_devices(program, range(nodes))) == summed(
        torus_edges(cluster, range(nodes), operation)
    )


@MODEST
@given(st.sampled_from(["ideal", "frontier"]), st.integers(2, 16))
def test_an_exchange_carries_what_its_messages_carry(name, ranks):
    """All messages of an all-to-all, posted at once, load links as one round after another does."""
    cluster = ideal(2) if name == "ideal" else machine("frontier", 2)
    steps = on_devices(in_rounds("pairwise", "all-to-all", ranks), range(ranks))

    load = fixed(cluster, "grouped", "all-to-all", range(ranks)).load("grouped", "all-to-all")
    assert load.shares == pytest.approx(loads_of_edges(cluster, steps))


# --- conservation ---------------------------------------------------------------------------------

OPTIMAL = [
    lambda operation: stepped.ring(operation, 6),
    lambda operation: in_rounds("halving-doubling", operation, 8),
    lambda operation: stepped.hierarchical(operation, 3, 2),
    lambda operation: stepped.torus(operation, (3, 4), (False, True)),
]


def in_and_out(program):
    """Return what goes into and out of every member, for each byte of the buffer."""
    into, out = ([0.0] * program.members for _ in "io")
    for (a, b), share in program.carried().items():
        out[a] += share
        into[b] += share
    return into, out


@pytest.mark.parametrize("operation", HALVES)
@pytest.mark.parametrize("build", OPTIMAL, ids=["ring", "halving", "levels", "torus"])
def test_optimal_algorithms_carry_the_least_into_and_out_of_every_rank(build, operation):
    """(p - 1) / p of the buffer into and out of every rank for each half, and not a byte more."""
    program = build(operation)
    least = passes(operation) * (program.members - 1) / program.members

    for share in (*in_and_out(program)[0], *in_and_out(program)[1]):
        assert share == pytest.approx(least)


@MODEST
@given(st.sampled_from([("bruck", "all-gather"), ("pairwise", "all-to-all")]), st.integers(1, 17))
def test_nothing_is_gathered_or_exchanged_twice(algorithm, ranks):
    """(p - 1) / p into and out of every rank, for any number of ranks."""
    into, out = in_and_out(in_rounds(*algorithm, ranks))

    assert into == out == [pytest.approx((ranks - 1) / ranks)] * ranks


@MODEST
@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 4))
def test_no_algorithm_carries_less_than_its_operation_needs(nodes, local, levels):
    """An all-reduce carries 2 (p - 1) S or more in all, and S or more into and out of each rank.

    A tree carries just that in all, but less through its leaves than through its inner members.
    """
    for program in (stepped.tree(nodes, local), in_rounds("doubling", "all-reduce", 2**levels)):
        into, out = in_and_out(program)
        least = 2 * (program.members - 1)

        assert sum(into) == pytest.approx(sum(out))
        assert sum(out) >= least - 1e-9
        if program.members > 1:
            assert min(*into, *out) >= 1 - 1e-9


# --- time -----------------------------------------------------------------------------------------


def replayed(program, cluster, group, nbytes):
    """Return how long the rounds take one after another, each message a flow with its hop."""
    rounds = [
        [
            (cluster.route(group[m.source], group[m.target]), len(m.blocks) / program.blocks)
            for m in messages
        ]
        for messages in program.rounds
    ]
    env = Environment()
    network, (step,) = (
        Network(env, cluster.links.capacities.tolist()),
        cluster.library.algorithms["ring"],
    )

    def run():
        for messages in rounds:
            arrived = []
            for route, share in messages:
                hop, ones = step.network_hop if route.network else step.device_hop, (1.0,)
                arrived.append(env.event())
                network.start(
                    Traffic("step", route.links, ones * len(route.links), share * nbytes, hop),
                    lambda _, event=arrived[-1]: event.succeed(),
                )
            yield env.all_of(arrived)
        return env.now

    seconds = env.run(env.process(run()))
    network.check()
    return seconds


LAYOUTS = [(1, 2), (1, 5), (1, 8), (2, 1), (7, 1), (2, 2), (2, 3), (3, 5), (2, 4), (4, 2)]
IN_ROUNDS = [
    (name, operation, nodes, local)
    for name in sorted(ALGORITHMS)
    if ALGORITHMS[name].rounds
    for operation in ALGORITHMS[name].operations
    for nodes, local in LAYOUTS
    if name != "grouped"  # which hops once and pays for its posts instead
    and not fixed(ideal(nodes, local), name, operation, range(nodes * local)).obstacle(
        name, operation
    )
]


EQUAL_HOPS = [("ring", half, *layout) for half in HALVES for layout in [(1, 2), (1, 7), (5, 1)]]


@pytest.mark.parametrize(("algorithm", "operation", "nodes", "local"), [*IN_ROUNDS, *EQUAL_HOPS])
def test_rounds_one_after_another_take_the_closed_form(algorithm, operation, nodes, local):
    """In a node, over nodes and on both, where no two messages of a round share a link.

    The whole time agrees: hops of near and far rounds, and bytes; that of a ring where its hops are
    equal, in a node or with one device of each node.
    """
    cluster, group = ideal(nodes, local), range(nodes * local)
    nbytes = 0.0 if operation == "barrier" else 1e6
    cost = fixed(cluster, algorithm, operation, group).cost(operation, nbytes)
    rounds = stepped.ring if algorithm == "ring" else partial(in_rounds, algorithm)
    seconds = replayed(rounds(operation, len(group)), cluster, group, nbytes)

    assert seconds == pytest.approx(cost.seconds, rel=1e-9)


PIPELINED = [
    ("ring", "broadcast", 1, 8, stepped.chain("broadcast", 8)),
    ("ring", "reduce", 5, 1, stepped.chain("reduce", 5)),
    ("tree", "all-reduce", 5, 1, stepped.tree(5)),
    ("tree", "all-reduce", 3, 4, stepped.tree(3, 4)),
    ("hierarchical", "all-reduce", 3, 4, stepped.hierarchical("all-reduce", 3, 4)),
    ("hierarchical", "all-gather", 2, 3, stepped.hierarchical("all-gather", 2, 3)),
]


@pytest.mark.parametrize("pieces", [1, 4, 32])
@pytest.mark.parametrize(("algorithm", "operation", "nodes", "local", "program"), PIPELINED)
def test_pieces_one_behind_another_tend_to_the_closed_form(
    algorithm, operation, nodes, local, program, pieces
):
    """R rounds in c pieces take between 1 and 1 + (R - 1) / c times the closed form, without hops.

    So the bandwidth terms agree in the limit of many pieces, which is what the folded form means.
    """
    cluster, group = ideal(nodes, local), range(nodes * local)
    instant = replace(STEP, device_hop=0.0, network_hop=0.0)
    cluster.library = replace(PLAIN, algorithms={"ring": (instant,)})
    closed = fixed(cluster, algorithm, operation, group).cost(operation, 1e9).seconds
    seconds = replayed(program.pipelined(pieces), cluster, group, 1e9)

    assert closed <= seconds * (1 + 1e-9)
    assert seconds <= closed * (1 + (len(program.rounds) - 1) / pieces) * (1 + 1e-9)
