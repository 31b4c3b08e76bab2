"""Machines that several test files share: those of the catalogue, and one of round numbers."""

from functools import cache

from clustersim.program.collectives.communicator import Communicator, Prescribed
from clustersim.scenario.load import from_mapping
from clustersim.topology.cluster import Cluster, build_cluster
from clustersim.topology.fabrics.fabric import SwitchFabric
from clustersim.topology.library import Library, Protocol
from clustersim.topology.links import Hop
from clustersim.topology.node import Cable, Node

DATA = {
    "title": "a test",
    "model": "gpt-22b",
    "batch": {"global": 8, "micro": 1, "sequence": 2048},
    "precision": "bf16",
    "framework": "megatron-deepspeed",
}


@cache
def machine(name, nodes, job=None, *, issuer="benchmark"):
    """Return the first nodes of a shipped machine, or a block of its torus."""
    fabric = {"fabric": {"job": list(job)}} if job else {}
    data = {**DATA, "cluster": {"name": name, "nodes": nodes, **fabric}}
    return build_cluster(from_mapping("test", data).scenario.cluster, nodes, issuer=issuer)


STEP = Protocol("simple", base=0.0, device_hop=10e-6, network_hop=20e-6, bandwidth=1.0)
PLAIN = Library("plain", 0.0, {"ring": (STEP,)}, {}, post=1e-6)


def ideal(nodes, local=8, nic=10e9):
    """Return nodes of one crossbar of 100 GB/s that adds up, a NIC a device, on one switch."""
    node = Node(
        name="box",
        devices=local,
        cables=(),
        crossbar=Cable(100e9, 0.0, "crossbar"),
        reduces=1.0,
        nic_ends=tuple(range(local)),
        bus=1e12,
    )
    fabric = SwitchFabric(Hop("", nic, 0.0, "nic"), local, reduces=True)
    return Cluster("ideal", nodes, node, machine("dgx-a100", 1).accelerator, PLAIN, fabric)


def fixed(cluster, algorithm, operation, *groups):
    """Return a communicator whose operation goes by an algorithm."""
    return Communicator(cluster, groups, {operation: Prescribed(algorithm, "here.it.stands")})


def training(cluster, nodes, model, plan, batch, framework, *changes, **keys):
    """Return a scenario on nodes of a shipped machine: global batch, microbatch and sequence."""
    data = {
        "title": "a test",
        "cluster": {"name": cluster, "nodes": nodes},
        "model": model,
        "plan": plan,
        "batch": dict(zip(("global", "micro", "sequence"), batch, strict=True)),
        "precision": "bf16",
        "framework": framework,
        **keys,
    }
    return from_mapping("test", data, changes)
