"""How fast the network starts and completes activities, and how fast fairness is solved.

Run it as `python benchmarks/network.py`; a word picks one table: `transfers`, `solves`, `tree`.
"""

import random
import resource
import sys
import time
from collections.abc import Callable
from math import inf

from simpy import Environment

from clustersim.catalog.fabrics import FatTree
from clustersim.engine.network.fairness import max_min_rates, rates_in_rounds, rates_level_by_level
from clustersim.engine.network.network import Network, Transfer
from clustersim.scenario.load import load
from clustersim.topology.cluster import Cluster, build_cluster
from clustersim.traffic import Traffic

NODES, FLOWS = 1024, 20_000

Problem = tuple[list[float], list[list[int]], list[list[float]], list[float]]


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

    began = time.perf_counter()
    for traffic in traffics:
        network.start(traffic, repeat)
    env.run()
    elapsed = time.perf_counter() - began
    network.check()
    return total / elapsed, network.solves


def random_problem(activities: int, links: int, longest: int, seed: int = 1) -> Problem:
    """Return activities of one flow on 1 to `longest` random links each."""
    rng = random.Random(seed)
    routes = [
        rng.sample(range(links), min(links, rng.randint(1, longest))) for _ in range(activities)
    ]
    capacities = [rng.choice([5e9, 1e10, 2.5e10, 5e10]) for _ in range(links)]
    return capacities, routes, [[1.0] * len(route) for route in routes], [inf] * activities


def best_seconds(solver: Callable[..., list[float]], problem: Problem, repeats: int) -> float:
    """Return the shortest time of one solve [s]."""
    best = inf
    for _ in range(repeats):
        began = time.perf_counter()
        solver(*problem)
        best = min(best, time.perf_counter() - began)
    return best


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
        links, latency, _ = cluster.route(*rng.sample(range(cluster.devices), 2))
        nbytes = rng.uniform(1e6, 1e8)
        flows.append(Traffic(f"f{i}", links, (1.0,) * len(links), nbytes, latency))
    return flows


def print_tree(leaf_uplinks: int, pod_uplinks: int, routing: str) -> None:
    """Let all flows start at once; print how long it takes until the last one is through."""
    cluster = fat_tree(leaf_uplinks, pod_uplinks, routing)
    flows = random_pairs(cluster, FLOWS)
    env = Environment()
    network = Network(env, cluster.links.capacities)
    ends: list[float] = []
    began = time.perf_counter()
    for flow in flows:
        network.start(flow, lambda _: ends.append(env.now))
    env.run()
    elapsed = time.perf_counter() - began
    network.check()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"  {leaf_uplinks:4} and {pod_uplinks:5} uplinks, {routing:8}: {elapsed:5.1f} s,"
        f" {len(ends) / elapsed:5,.0f} completions/s, {network.solves} solves,"
        f" makespan {ends[-1] * 1e3:.4g} ms, peak {peak / 1e6:.0f} MB"
    )


# --- tables ---------------------------------------------------------------------------------------


def transfers() -> None:
    """Print how fast transfers start and end, alone and meeting."""
    print("transfers per second (start to done)")
    for hops in (1, 2, 4, 8):
        for latency in (0.0, 1e-6):
            rate, solves = transfers_per_second(chains(64, hops, latency), 64 * hops, 200_000)
            print(f"  alone, {hops} links, latency {latency:g} s: {rate:10,.0f}   solves {solves}")
    for count, links in ((2, 3), (4, 6), (16, 24), (64, 96), (256, 384)):
        rate, solves = transfers_per_second(crossing(count, links), links, 10_000)
        print(f"  {count} at once on {links} links: {rate:10,.0f}   solves {solves}")


def solves() -> None:
    """Print how long one solve takes from scratch."""
    print("one solve [us]           crossings      chosen  level by level   in rounds")
    for size, links in ((2, 2), (4, 3), (6, 4), (10, 10), (20, 20), (50, 50), (1000, 1000)):
        problem = random_problem(size, links, 7)
        chosen, plain, rounds = (
            best_seconds(solver, problem, 3 if size > 100 else 200) * 1e6
            for solver in (max_min_rates, rates_level_by_level, rates_in_rounds)
        )
        crossings = sum(map(len, problem[1]))
        name = f"{size} on {links} links"
        print(f"  {name:22} {crossings:9}  {chosen:10,.0f}  {plain:14,.0f}  {rounds:10,.0f}")


def tree() -> None:
    """Print the time of 20,000 flows on fat trees of 8,192 devices."""
    print(f"{FLOWS:,} flows at once between random pairs of {NODES * 8:,} devices on a fat tree")
    for leaf_uplinks, pod_uplinks in ((32, 1024), (16, 256), (4, 16)):
        print_tree(leaf_uplinks, pod_uplinks, "adaptive")
    print_tree(16, 256, "hashed")


TABLES = {"transfers": transfers, "solves": solves, "tree": tree}


if __name__ == "__main__":
    for table in sys.argv[1:] or TABLES:
        TABLES[table]()
