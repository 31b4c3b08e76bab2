"""What the factors of an anchor multiply in a scenario, and what its job is.

scenario --factor_paths--> {products: [cluster.node.accelerator.gemm.sustained, ...], ...}
"""

from collections.abc import Mapping
from typing import Any, Final

from clustersim.catalog.facts import facts
from clustersim.catalog.records.machines import DeviceLinks, DeviceSwitch
from clustersim.scenario.schema import Scenario

ACCELERATOR: Final = "cluster.node.accelerator."

OF_ACCELERATOR: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "products": (
        ("gemm.sustained", "gemm.best"),
        ("gemm.narrow_sustained", "gemm.narrow_best"),
    ),
    "attention": (
        ("flash_attention.forward",),
        ("flash_attention.backward",),
        ("flash_attention.cudnn.forward",),
        ("flash_attention.cudnn.backward",),
    ),
    "memory": (("memory.achieved",),),
}
"""Facts of an accelerator by factor; of alternatives the first that it has.  All are shares."""


def factor_paths(scenario: Scenario) -> dict[str, list[str]]:
    """Return the values that each factor of a scenario multiplies."""
    cluster, stated = scenario.cluster, dict(facts(scenario.cluster.node.accelerator))
    found = {
        name: [
            ACCELERATOR + path
            for choice in choices
            for path in [p for p in choice if p in stated and stated[p].value][:1]
        ]
        for name, choices in OF_ACCELERATOR.items()
    }
    found["host"] = ["framework.dispatch"] if scenario.framework.dispatch else []
    inside = cluster.node.interconnect
    place = "cluster.node.interconnect"
    if isinstance(inside, DeviceSwitch):
        found["links"] = [f"{place}.bandwidth"]
    if isinstance(inside, DeviceLinks):
        found["links"] = [f"{place}.kinds.{kind}.bandwidth" for kind in inside.kinds]
    found["network"] = ["cluster.nic.bandwidth"] if cluster.nodes > 1 else []
    return {name: paths for name, paths in found.items() if paths}


def highest(scenario: Scenario, paths: list[str]) -> float:
    """Return the largest factor with which the shares of some paths stay at most 1."""
    stated = dict(facts(scenario.cluster.node.accelerator))
    shares = [stated[path.removeprefix(ACCELERATOR)].value for path in paths if ACCELERATOR in path]
    return min((1 / share for share in shares), default=float("inf"))


def layout_of(scenario: Scenario) -> dict[str, Any]:
    """Return what distinguishes the replicas of jobs of one model."""
    plan, recompute = scenario.plan, scenario.recompute
    return {
        **{axis: getattr(plan, axis) for axis in ("tensor", "pipeline", "context", "expert")},
        "sequence": scenario.batch.sequence,
        "precision": scenario.precision,
        "recompute": recompute if isinstance(recompute, str) else recompute.mode,
    }
