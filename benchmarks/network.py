"""How fast the network starts and completes activities, and how fast fairness is solved.

Run it as `python benchmarks/network.py`.
"""

import random
import time
from collections.abc import Callable
from math import inf

from simpy import Environment

from clustersim.engine.fairness import max_min_rates, rates_in_rounds, rates_level_by_level
from clustersim.engine.network import Network, Transfer
from clustersim.traffic import Traffic

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
    """Let each activity start itself again until `total` are done; return their rate and solves."""
    env = Environment()
    network = Network(env, [1e10] * links)
    left = total - len(traffics)

    def again(transfer: Transfer) -> None:
        nonlocal left
        if left > 0:
            left -= 1
            network.start(transfer.traffic, again)

    began = time.perf_counter()
    for traffic in traffics:
        network.start(traffic, again)
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


def main() -> None:
    """Print both tables."""
    print("transfers per second (start to done)")
    for hops in (1, 2, 4, 8):
        for latency in (0.0, 1e-6):
            rate, solves = transfers_per_second(chains(64, hops, latency), 64 * hops, 200_000)
            print(f"  alone, {hops} links, latency {latency:g} s: {rate:10,.0f}   solves {solves}")
    for count, links in ((2, 3), (4, 6), (16, 24), (64, 96), (256, 384)):
        rate, solves = transfers_per_second(crossing(count, links), links, 10_000)
        print(f"  {count} at once on {links} links: {rate:10,.0f}   solves {solves}")
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


if __name__ == "__main__":
    main()
