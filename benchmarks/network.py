"""The network alone: activities, one solution of max-min fairness, flows on a fat tree."""

import random
import time
from collections.abc import Callable, Iterator
from math import inf
from typing import NamedTuple

from simpy import Environment

from benchmarks.table import Table, Value
from benchmarks.timing import best_of
from clustersim.catalog.fabrics import FatTree
from clustersim.engine.network.fairness import (
    Problem,
    max_min_rates,
    rates_in_rounds,
    rates_level_by_level,
)
from clustersim.engine.network.network import Network
from clustersim.engine.network.transfer import Transfer
from clustersim.scenario.load import load
from clustersim.topology.cluster import Cluster, build_cluster
from clustersim.traffic import Traffic

NODES, FLOWS = 1024, 5_000

ACTIVITIES, MEETING = 200_000, 10_000
"""How many activities are timed that meet no other, and that meet others."""


def chains(count: int, hops: int, latency: float) -> list[Traffic]:
    """Return one activity for each of `count` senders, each on links of its own."""
    return [
        Traffic(f"t{i}", tuple(range(i * hops, (i + 1) * hops)), (1.0,) * hops, 1e6 + i, latency)
        for i in range(count)
    ]


def crossing(count: int, links: int, seed: int = 1) -> list[Traffic]:
    """Return activities of one flow on three random links each, so that they meet."""
    rng = random.Random(seed)
    return [
        Traffic(
            f"t{i}", tuple(rng.sample(range(links), 3)), (1.0,) * 3, rng.uniform(1e6, 9e6), 1e-6
        )
        for i in range(count)
    ]


def transfers_per_second(traffics: list[Traffic], links: int, total: int) -> tuple[float, int]:
    """Repeat each activity until `total` are complete; return their rate and solves."""
    env = Environment()
    network = Network(env, [1e10] * links)
    left = total - len(traffics)

    def repeat(transfer: Transfer) -> None:
        nonlocal left
        if left > 0:
            left -= 1
            network.start(transfer.traffic, repeat)

    began = time.process_time()
    for traffic in traffics:
        network.start(traffic, repeat)
    env.run()
    elapsed = time.process_time() - began
    network.check()
    return total / elapsed, network.solves


def random_problem(activities: int, links: int, longest: int, seed: int = 1) -> Problem:
    """Return activities of one flow on 1 to `longest` random links each."""
    rng = random.Random(seed)
    routes = [
        rng.sample(range(links), min(links, rng.randint(1, longest))) for _ in range(activities)
    ]
    capacities = [rng.choice([5e9, 1e10, 2.5e10, 5e10]) for _ in range(links)]
    weights = [[1.0] * len(route) for route in routes]
    return Problem(capacities, routes, weights, [inf] * activities)


# --- many flows on a fat tree ---------------------------------------------------------------------


def fat_tree(leaf_uplinks: int, pod_uplinks: int, routing: str) -> Cluster:
    """Return 8,192 devices on three levels: leaves of 32 nodes for each of 8 rails, 8 pods.

    32 leaf uplinks and 1,024 pod uplinks carry all that the NICs send; 16 and 256 a half, and a
    half of that again.
    """

    def fact(value: object) -> dict[str, object]:
        return {"value": value, "assumed": "the benchmark"}

    fabric = FatTree.model_validate(
        {
            "type": "fat-tree",
            "rail_optimised": fact(True),
            "nodes_per_leaf": fact(32),
            "leaf_uplinks": fact(leaf_uplinks),
            "leaves_per_pod": fact(32),
            "pod_uplinks": fact(pod_uplinks),
            "link": {"bandwidth": fact("25 GB/s"), "latency": fact("0.3 us")},
            "routing": fact(routing),
        }
    )
    base = load("megatron21-t1-39b").scenario.cluster
    return build_cluster(base.model_copy(update={"fabric": fabric}), NODES)


def random_pairs(cluster: Cluster, count: int, seed: int = 1) -> list[Traffic]:
    """Return flows of 1 to 100 MB between random pairs of devices."""
    rng = random.Random(seed)
    flows = []
    for i in range(count):
        route = cluster.route(*rng.sample(range(cluster.devices), 2))
        nbytes = rng.uniform(1e6, 1e8)
        flows.append(Traffic(f"f{i}", route.links, route.shares, nbytes, route.latency))
    return flows


class TreeRun(NamedTuple):
    """Flows that have all ended: processor time [s], how many, solves, and the last end [s]."""

    seconds: float
    completions: int
    solves: int
    makespan: float


def flows_on_tree(leaf_uplinks: int, pod_uplinks: int, routing: str, count: int) -> TreeRun:
    """Let all flows start at once, and return how long it takes until the last one is through."""
    cluster = fat_tree(leaf_uplinks, pod_uplinks, routing)
    flows = random_pairs(cluster, count)
    env = Environment()
    network = Network(env, cluster.links.capacities)
    ends: list[float] = []
    began = time.process_time()
    for flow in flows:
        network.start(flow, lambda _: ends.append(env.now))
    env.run()
    elapsed = time.process_time() - began
    network.check()
    return TreeRun(elapsed, len(ends), network.solves, ends[-1])


# --- tables ---------------------------------------------------------------------------------------


def network(repeats: int, folder: str) -> Iterator[Table]:
    """Yield the speed of the network by itself."""
    yield _activities()
    yield _solves(repeats)
    yield _tree()


def _activities() -> Table:
    rows: list[tuple[str, float, int]] = []
    for hops in (1, 2, 4, 8):
        for latency in (0.0, 1e-6):
            rate, solves = transfers_per_second(chains(64, hops, latency), 64 * hops, ACTIVITIES)
            rows.append((f"64 on {hops} links of their own, latency {latency:g} s", rate, solves))
    for count, links in ((2, 3), (4, 6), (16, 24), (64, 96), (256, 384)):
        rate, solves = transfers_per_second(crossing(count, links), links, MEETING)
        rows.append((f"{count} on three of {links} links", rate, solves))
    return Table(
        "activities",
        "Activities of the network",
        ("concurrent activities", "activities per second", "solves"),
        rows,
        "From start to end, each followed by another one.",
    )


def _solves(repeats: int) -> Table:
    rows: list[tuple[Value, ...]] = []
    for size, links in ((2, 2), (4, 3), (6, 4), (10, 10), (20, 20), (50, 50), (1000, 1000)):
        problem = random_problem(size, links, 7)
        times = [
            1e6 * _seconds(solver, problem, repeats)
            for solver in (max_min_rates, rates_level_by_level, rates_in_rounds)
        ]
        rows.append((f"{size} on {links} links", sum(map(len, problem.links)), *times))
    return Table(
        "solves",
        "One solution of max-min fairness",
        ("flows", "crossings", "chosen [us]", "level by level [us]", "in rounds [us]"),
        rows,
    )


def _seconds(solver: Callable[..., list[float]], problem: Problem, repeats: int) -> float:
    """Return the processor time of one solution [s]."""
    count = 1 if len(problem.links) > 100 else 100

    def solve_many() -> None:
        for _ in range(count):
            solver(problem)

    return best_of(solve_many, repeats)[0] / count


def _tree() -> Table:
    shapes = ((32, 1024, "adaptive"), (16, 256, "adaptive"), (4, 16, "adaptive"))
    rows = []
    for leaf_uplinks, pod_uplinks, routing in (*shapes, (16, 256, "hashed")):
        run = flows_on_tree(leaf_uplinks, pod_uplinks, routing, FLOWS)
        shape = f"{leaf_uplinks} and {pod_uplinks:,}, {routing}"
        rate = run.completions / run.seconds
        rows.append((shape, run.seconds, rate, run.solves, 1e3 * run.makespan))
    return Table(
        "fat_tree",
        f"{FLOWS:,} concurrent flows on a fat tree",
        (
            "uplinks of a leaf and a pod",
            "processor time [s]",
            "flows per second",
            "solves",
            "makespan [ms]",
        ),
        rows,
        "Random pairs of 8,192 devices on three levels.",
    )
