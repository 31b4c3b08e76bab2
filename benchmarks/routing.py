"""How fast the largest torus is built and routed: all 158,976 nodes of Fugaku.

Run it as `python benchmarks/routing.py`.
"""

import gc
import random
import resource
import time

import numpy as np

from clustersim.catalog.fabrics import Torus
from clustersim.scenario.load import load
from clustersim.topology.cluster import Cluster, build_cluster

SHAPE = [24, 23, 24, 2, 3, 2]
NODES = 158_976
RINGS, RANKS = 288, 48
LIMIT_SECONDS, LIMIT_BYTES = 5.0, 1e9


def fugaku() -> Cluster:
    """Return a machine of one-device nodes on the six axes of the Tofu Interconnect D."""

    def fact(value: object) -> dict[str, object]:
        return {"value": value, "assumed": "the benchmark"}

    fabric = Torus.model_validate(
        {
            "type": "torus",
            "shape": fact(SHAPE),
            "axes": list("XYZabc"),
            "ring": fact([24, 23, 24, 0, 3, 0]),
            "link": {"bandwidth": fact("6.8 GB/s"), "latency": fact("0.1 us")},
        }
    )
    base = load("megatron21-t1-39b").scenario.cluster
    node = base.node.model_copy(
        update={
            "devices": base.node.devices.model_copy(update={"value": 1}),
            "nics": base.node.nics.model_copy(
                update={"devices": base.node.nics.devices.model_copy(update={"value": [0]})}
            ),
        }
    )
    return build_cluster(base.model_copy(update={"node": node, "fabric": fabric}), NODES)


def rings_usage(cluster: Cluster) -> np.ndarray:
    """Return how many flows cross each link while rings all over the machine run at once."""
    apart = NODES // RINGS
    links = [
        link
        for start in range(0, apart * RINGS, apart)
        for rank in range(RANKS)
        for link in cluster.route(start + rank, start + (rank + 1) % RANKS).links
    ]
    return np.bincount(links, minlength=len(cluster.links))


def links_to_the_next(cluster: Cluster) -> int:
    """Find the way from each node's router to that of the next node; return their links."""
    fabric = cluster.fabric
    switches = [fabric.port(node, 0).switch for node in range(NODES)]
    return sum(
        len(fabric.between(a, b))
        for a, b in zip(switches, switches[1:] + switches[:1], strict=True)
    )


def messages_per_second(cluster: Cluster, count: int) -> float:
    """Return the rate at which messages between random nodes are routed."""
    rng = random.Random(1)
    pairs = [(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(count)]
    began = time.process_time()
    for a, b in pairs:
        cluster.route(a, b)
    return count / (time.process_time() - began)


def main() -> None:
    """Print processor time and memory of each part, and fail where the whole takes too much."""
    load("megatron21-t1-39b")  # reading the catalogue is not what is measured
    gc.disable()  # as a simulation does: all routes are kept
    began = time.process_time()
    cluster = fugaku()
    built = time.process_time()
    usage = rings_usage(cluster)
    used = time.process_time()
    links = links_to_the_next(cluster)
    ended = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    rate = messages_per_second(cluster, 20_000)

    print(f"{built - began:6.3f} s  building {NODES:,} nodes")
    print(
        f"{used - built:6.3f} s  {RINGS} rings of {RANKS} at once: {usage.sum():,} flows over links"
    )
    print(f"{ended - used:6.3f} s  one message from each node to the next, {links:,} links")
    print(f"{ended - began:6.3f} s  together, and {peak / 1e6:,.0f} MB at most")
    print(f"{rate:,.0f} messages a second between random nodes, whose links are new")
    assert ended - began < LIMIT_SECONDS, "slower than the stated limit"
    assert peak < LIMIT_BYTES, "more memory than the stated limit"


if __name__ == "__main__":
    main()
