"""The layouts of a service: degrees of a replica, number of replicas, pools of their own.

devices of a replica = tensor x pipeline x attention_data

A replica has tensor degrees that divide the heads, stages in powers of two or that divide the
layers, groups of attention where there are experts, and experts over all devices of a stage or
none.  All counts of replicas up to `MANY`, of pools up to `FEW`, and powers of two beyond, are
tried.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

from clustersim.records import dataclass
from clustersim.scenario.serving import ServingPlanFile, ServingScenario

DEGREES: Final = ("tensor", "pipeline", "expert", "attention_data", "replicas")
"""Keys of a layout, of either pool."""

FREE: Final = (*(f"plan.{name}" for name in DEGREES), "pools")
"""Keys that are free unless they are set."""

FEW: Final = 8
MANY: Final = 64
"""Replicas up to which each count is tried: of pools, whose counts multiply, and of one pool."""

Pool = Mapping[str, int]
"""Degrees of a replica by key, and number of replicas."""


@dataclass(frozen=True)
class ServiceLayout:
    """A layout of a service.

    Attributes
    ----------
    pools : of replicas that do both, or of those for prefill and for decode
    """

    pools: tuple[Pool, ...]

    @property
    def devices(self) -> int:
        """Devices of all replicas."""
        return sum(pool["replicas"] * replica_size(pool) for pool in self.pools)

    @property
    def plain(self) -> bool:
        """Whether it has neither pools nor pipelines."""
        return len(self.pools) == 1 and self.pools[0]["pipeline"] == 1

    def is_of(self, base: ServingScenario) -> bool:
        """Return whether a scenario has this layout itself."""
        if self.devices != base.devices:
            return False
        plan = ServingPlanFile.model_validate(self.plan(base))
        return plan.model_dump(exclude_defaults=True) == base.plan.model_dump(exclude_defaults=True)

    def plan(self, base: ServingScenario) -> dict[str, Any]:
        """Return the layout as the key `plan` of a scenario."""
        rest: dict[str, Any] = {"routing": base.plan.routing}
        own = [{key: n for key, n in pool.items() if n > 1} for pool in self.pools]
        if len(own) == 1:
            return {**rest, **own[0]}
        return {**rest, "prefill": own[0], "decode": own[1], "transfer": base.plan.transfer}


def replica_size(pool: Pool) -> int:
    """Return the devices of one replica."""
    return pool["tensor"] * pool["pipeline"] * pool["attention_data"]


def layouts_of(
    base: ServingScenario, devices: int, allowed: Mapping[str, Sequence[int]], *, pools: bool
) -> list[ServiceLayout]:
    """Return all layouts of at most some devices.

    Parameters
    ----------
    allowed : the only values of keys that are not free, or not altogether
    pools : whether replicas for prefill and decode are tried
    """
    replicas = [*_replicas(base, devices, allowed)]
    alone, paired = (
        [
            {**replica, "replicas": count}
            for replica in replicas
            for count in _values(
                "replicas", _counts(devices // replica_size(replica), few), allowed
            )
        ]
        for few in (MANY, FEW)
    )
    found = [ServiceLayout((pool,)) for pool in alone]
    if not pools:
        return found
    every = (ServiceLayout(pair) for pair in product(paired, paired))
    return [*found, *(layout for layout in every if layout.devices <= devices)]


def _replicas(
    base: ServingScenario, devices: int, allowed: Mapping[str, Sequence[int]]
) -> Iterator[dict[str, int]]:
    """Yield the degrees of replicas."""
    model = base.model
    heads, layers = model.heads, model.layers
    tensors = [n for n in range(1, devices + 1) if heads % n == 0]
    stages = [n for n in range(1, devices + 1) if n <= layers and (_power(n) or layers % n == 0)]
    groups = [1] if model.experts is None else [n for n in range(1, devices + 1) if _power(n)]
    for tensor, pipeline, group in product(
        _values("tensor", tensors, allowed),
        _values("pipeline", stages, allowed),
        _values("attention_data", groups, allowed),
    ):
        stage = tensor * group
        if stage * pipeline > devices:
            continue
        experts = [1]
        if model.experts is not None:
            count = model.experts.count
            experts = [n for n in dict.fromkeys((1, stage)) if stage % n == 0 and count % n == 0]
        for expert in _values("expert", experts, allowed):
            yield {
                "tensor": tensor, "pipeline": pipeline, "expert": expert, "attention_data": group,
            }  # fmt: skip


def _values(key: str, values: Sequence[int], allowed: Mapping[str, Sequence[int]]) -> list[int]:
    """Return the values of a key; those that are allowed replace them."""
    return [*allowed.get(f"plan.{key}", values)]


def _counts(most: int, few: int) -> list[int]:
    """Return numbers of replicas: all up to a few, then powers of two."""
    return [n for n in range(1, most + 1) if n <= few or _power(n) or n == most]


def _power(number: int) -> bool:
    """Return whether a number is a power of two."""
    return number & (number - 1) == 0
