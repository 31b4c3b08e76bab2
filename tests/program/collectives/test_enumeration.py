"""Arrays of routes and loads against the messages that they stand for, one at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boxes import DATA
from clustersim.arrays import multisets, numbered, ranked
from clustersim.engine.replay import replay
from clustersim.program.collectives.communicator import Communicator
from clustersim.program.collectives.messages import places_on_machine
from clustersim.program.compile import Compilation
from clustersim.scenario.load import from_mapping, load
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.topology.cluster import build_cluster

MODEST = settings(max_examples=25, deadline=None)

MACHINES = {
    "dragonfly": ("frontier", 130, {}),
    "hashed dragonfly": ("frontier", 130, {"fabric.routing": "hashed", "fabric.detour": None}),
    "minimal dragonfly": ("frontier", 130, {"fabric.routing": "minimal", "fabric.detour": None}),
    "rail-optimised fat tree": ("superpod-h100", 70, {}),
    "fat tree of racks": ("meta-24k", 400, {}),
    "hashed fat tree": ("meta-24k", 400, {"fabric.routing": "hashed"}),
    "pods of rails": (
        "superpod-h100", 48, {"fabric.nodes_per_leaf": 4, "fabric.leaves_per_pod": 24}
    ),
    "pods of racks": ("meta-24k", 48, {"fabric.leaves_per_pod": 6}),
    "torus": ("fugaku", 3456, {}),
    "direct links": ("dgx-1v", 3, {}),
}  # fmt: skip


def built(name):
    """Return a machine by its name in `MACHINES`."""
    cluster, nodes, changes = MACHINES[name]
    changes = [f"cluster.{key}={value or 'null'}" for key, value in changes.items()]
    data = {**DATA, "cluster": {"name": cluster, "nodes": nodes}}
    return build_cluster(from_mapping("test", data, changes).scenario.cluster, nodes)


BUILT = {}


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_routes_of_many_messages_are_those_of_each(name, data):
    """Links by name, capacity and latency: by arrays as hop by hop, also by the receiver's rail."""
    cluster = BUILT.setdefault(name, built(name))
    device = st.integers(0, cluster.devices - 1)
    pairs = data.draw(st.lists(st.tuples(device, device), min_size=1, max_size=12))
    a, b = np.array(pairs).T
    routes = cluster.routes(a, b)
    links = np.split(routes.links, np.cumsum(routes.counts)[:-1])

    for own, latency, network, ends in zip(
        links, routes.latency, routes.network, pairs, strict=True
    ):
        hops = cluster.hops(*ends)
        assert [cluster.links.names[link] for link in own] == [hop.name for hop in hops]
        assert [cluster.links.kinds[link] for link in own] == [hop.kind for hop in hops]
        assert cluster.links.capacities[own].tolist() == [hop.bandwidth for hop in hops]
        assert [cluster.links.number(hop) for hop in hops] == own.tolist()
        assert latency == pytest.approx(sum(hop.latency for hop in hops), rel=1e-12)
        assert network == (ends[0] // cluster.node.devices != ends[1] // cluster.node.devices)


@MODEST
@given(st.sampled_from(["dragonfly", "rail-optimised fat tree", "hashed fat tree"]), st.data())
def test_groups_in_equivalent_places_carry_what_each_carries_alone(name, data):
    """Rows of a communicator have the costs and the loads of communicators of their own."""
    cluster = BUILT.setdefault(name, built(name))
    size = cluster.node.devices
    local = data.draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=4, unique=True))
    nodes = [
        data.draw(st.lists(st.integers(0, cluster.nodes - 1), min_size=3, max_size=3, unique=True))
        for _ in range(4)
    ]
    rows = np.array([[[n * size + i for n in own for i in local]] for own in nodes])
    together = Communicator(cluster, rows)
    operation = data.draw(st.sampled_from(["all-reduce", "all-gather", "all-to-all"]))

    for row, groups in enumerate(rows):
        alone = Communicator(cluster, groups)
        assert together.choices(operation) == alone.choices(operation)
        for algorithm in alone.choices(operation):
            load = pytest.approx(alone.load(algorithm, operation).shares, rel=1e-12)
            assert together.load(algorithm, operation).total.of_row(row) == load
        assert together.cost(operation, 1e6, row) == alone.cost(operation, 1e6)


@MODEST
@given(st.sampled_from(["pods of rails", "pods of racks"]), st.data())
def test_groups_in_places_that_an_exchange_of_nodes_makes_equal_have_equal_costs(name, data):
    """Nodes of a leaf, leaves of a pod and pods are exchanged: the row has the same numbers."""
    cluster = BUILT.setdefault(name, built(name))
    size = cluster.node.devices
    leaf, pod = cluster.fabric.units.values()
    node = st.integers(0, cluster.nodes - 1)
    nodes = data.draw(st.lists(node, min_size=2, max_size=6, unique=True))
    pods = data.draw(st.permutations(range(cluster.nodes // pod)))
    leaves = data.draw(st.permutations(range(pod // leaf)))
    below = data.draw(st.permutations(range(leaf)))
    images = [
        pods[node // pod] * pod + leaves[node % pod // leaf] * leaf + below[node % leaf]
        for node in nodes
    ]
    rows = np.array([[n * size + i for n in own for i in range(size)] for own in (nodes, images)])
    places = places_on_machine(cluster, rows)
    assert places[0].tolist() == places[1].tolist()
    for operation in ("all-reduce", "all-to-all"):
        both = Communicator(cluster, rows[:, None])
        one, other = (both.cost(operation, 1e8, row) for row in range(2))
        assert one == other


def test_the_places_of_groups_are_themselves_where_nodes_differ_by_more_than_their_switches():
    """On a dragonfly and with hashed routes no rows are images of each other."""
    rows = np.arange(32).reshape(4, 8)
    for name in ("dragonfly", "hashed fat tree"):
        assert places_on_machine(BUILT.setdefault(name, built(name)), rows) is rows


FOLDED = {
    "dragonfly": ("frontier-22b", "batch.global=64"),
    "fat tree": ("megatron21-t1-39b", "cluster.nodes=6", "plan.data=3", "batch.global=48"),
    "cables that many share": (
        "frontier-22b", "cluster.nodes=12", "plan.data=12", "batch.global=144",
        "cluster.fabric.routing=minimal", "framework.pipeline.blocking=false"
    ),
    "interleaved": ("megatron21-t1-145b", "cluster.nodes=16", "plan.data=2", "batch.global=32")
}  # fmt: skip


@pytest.mark.parametrize("case", FOLDED)
@settings(max_examples=2, deadline=None)
@given(st.permutations(["tensor", "pipeline", "data"]))
def test_times_are_the_same_folded_by_times_by_links_or_not_at_all(case, order):
    """Steps and loads agree for every order of placement, with fewer classes each."""
    name, *changes = FOLDED[case]
    changes.append(f"plan.placement.order=[{', '.join(order)}]")
    compilation = Compilation(build_job(load(name, changes)), fusion_bound=0.01)
    replicas, none = compilation.replicas, np.zeros(0, dtype=np.int64)
    foldings = replicas.unfolded(), replicas.folded(), replicas.folded(none)
    whole, alike, loose = (compilation.program(folded) for (folded,) in foldings)
    found = simulate(name, changes)

    assert loose.classes <= alike.classes <= whole.classes
    assert [*alike.carried] == [*whole.carried] == [*found.program.carried]
    expected = replay(whole).timeline.duration
    assert replay(alike).timeline.duration == pytest.approx(expected, rel=1e-12)
    assert found.step_time == pytest.approx(expected, rel=1e-12)


@MODEST
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 10**12)), max_size=40))
def test_equal_rows_have_equal_numbers_in_order_of_appearance(rows):
    """As numbering them one by one, however many there are."""
    known = {}
    expected = [known.setdefault(row, len(known)) for row in rows]
    many = [*rows, *((7, number) for number in range(2_000))]

    assert numbered(np.array(rows, dtype=np.int64).reshape(-1, 2)).tolist() == expected
    assert numbered(np.array(many, dtype=np.int64)).tolist()[: len(rows)] == expected
    values = np.array([row[1] for row in rows], dtype=np.int64)
    different, places = ranked(values)
    assert different[places].tolist() == values.tolist()
    assert different.tolist() == sorted({*values.tolist()})


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=12), st.randoms())
def test_multisets_have_equal_numbers_where_they_are_equal(sets, rng):
    """However their items are ordered, also empty ones and those with an item several times."""
    crossings = [(owner, item) for owner, items in enumerate(sets) for item in items]
    rng.shuffle(crossings)
    owner, item = np.array(crossings, dtype=np.int64).reshape(-1, 2).T
    numbers = multisets(owner, item.copy(), len(sets)).tolist()
    ordered = [tuple(sorted(items)) for items in sets]

    assert [numbers.index(n) for n in numbers] == [ordered.index(items) for items in ordered]
