"""The fastest layout of a model on a machine, of a few that are likely to be it.

model-parallel degrees, the smallest product first --memory--> those that fit --replay--> fastest

A larger product costs communication and saves memory, so that the first ones that fit are fast.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from clustersim.catalog.finding import find
from clustersim.catalog.frameworks import FrameworkRecord
from clustersim.errors import PlanError
from clustersim.plan.checks import divisors
from clustersim.scenario.entries import entry
from clustersim.scenario.load import Loaded, from_mapping
from clustersim.simulation.result import Result
from clustersim.simulation.simulate import simulate_if_it_fits
from clustersim.studies.size.answer import SizeLayout

MOST_REPLAYS: Final = 6
"""Layouts of a model that are replayed."""

MOST_STAGES: Final = 64
"""Maximum number of pipeline stages that are tried."""

MICROBATCHES: Final = (4, 2, 1)
"""Sequences of a microbatch that are tried, the largest that fits is replayed."""

RECOMPUTE: Final = ("none", "full")
"""Recomputation that is tried, the second where the first does not fit."""


@dataclass(frozen=True)
class Machine:
    """What steps run on.

    Attributes
    ----------
    cluster : name of the cluster file
    per_node, nodes : devices of a node, and nodes
    batch_tokens : tokens of a step, about
    settings : further keys of the scenarios, as changes
    """

    cluster: str
    nodes: int
    per_node: int
    framework: str
    precision: str
    batch_tokens: float
    settings: tuple[str, ...] = ()

    @property
    def devices(self) -> int:
        """Devices of all nodes."""
        return self.nodes * self.per_node

    def with_nodes(self, nodes: int) -> "Machine":
        """Return the same with another number of nodes."""
        return replace(self, nodes=nodes)


class Degrees(NamedTuple):
    """Parallel degrees of a layout."""

    tensor: int
    pipeline: int
    data: int


class Trained(NamedTuple):
    """The steps of a model: its layout, and the result of its replay."""

    layout: SizeLayout
    result: Result


def fastest_layout(model: str | Mapping[str, Any], machine: Machine) -> Trained | None:
    """Return the fastest of some layouts of a model; None if none of them fits.

    Parameters
    ----------
    model : name of a catalogue file, or the keys of one
    """
    found: list[Trained] = []
    problems: list[PlanError] = []
    for degrees in (possible := _degrees(model, machine)):
        try:
            trained = _trained(model, machine, degrees)
        except PlanError as problem:  # such as stages that do not divide key and value heads
            problems.append(problem)
            continue
        if trained is not None:
            found.append(trained)
        if len(found) == MOST_REPLAYS:
            break
    if len(problems) == len(possible):
        raise problems[0]
    return max(found, key=lambda one: one.result.tokens_per_s, default=None)


def _degrees(model: str | Mapping[str, Any], machine: Machine) -> list[Degrees]:
    """Return the degrees that divide devices, heads and layers, the smallest product first."""
    shape = _loaded(model, machine, Degrees(1, 1, machine.devices), 1, "none").scenario.model
    found = []
    for tensor in divisors(machine.per_node):
        for pipeline in divisors(shape.layers):
            cell = tensor * pipeline
            if pipeline <= MOST_STAGES and not machine.devices % cell and not shape.heads % tensor:
                found.append(Degrees(tensor, pipeline, machine.devices // cell))
    return sorted(found, key=lambda one: (one.tensor * one.pipeline, one.pipeline))


def _trained(model: str | Mapping[str, Any], machine: Machine, degrees: Degrees) -> Trained | None:
    """Return the steps of a layout with the largest microbatch that fits; None if none does."""
    for recompute in RECOMPUTE:
        for micro in _microbatches(model, machine, degrees):
            loaded = _loaded(model, machine, degrees, micro, recompute)
            result = simulate_if_it_fits(loaded)
            if isinstance(result, Result):
                return Trained(_layout(loaded, result), result)
    return None


def _microbatches(model: str | Mapping[str, Any], machine: Machine, degrees: Degrees) -> list[int]:
    """Return the microbatches of a step of about the requested tokens, the largest first."""
    most = machine.batch_tokens / _sequence(model) / degrees.data
    return [micro for micro in MICROBATCHES if micro == 1 or micro <= most]


def _layout(loaded: Loaded, result: Result) -> SizeLayout:
    given = loaded.scenario
    plan, batch = given.plan, given.batch
    return SizeLayout(
        tensor=plan.tensor,
        pipeline=plan.pipeline,
        data=plan.data,
        zero=plan.zero,
        micro=batch.micro,
        batch=batch.global_,
        sequence=batch.sequence,
        recompute=str(given.recompute),
        step_time_s=result.step_time,
        memory_bytes=result.memory.fullest.peak,
    )


def _loaded(
    model: str | Mapping[str, Any], machine: Machine, degrees: Degrees, micro: int, recompute: str
) -> Loaded:
    sequence = _sequence(model)
    tensor, pipeline, data = degrees
    replicas = data * micro
    rounds = max(1, round(machine.batch_tokens / sequence / replicas))
    scenario = {
        "title": "a step",
        "cluster": {"name": machine.cluster, "nodes": machine.nodes},
        "model": model,
        "plan": {
            "tensor": tensor,
            "pipeline": pipeline,
            "data": data,
            "zero": _zero(machine, data),
            "sequence_parallel": tensor > 1,
        },
        "batch": {"global": rounds * replicas, "micro": micro, "sequence": sequence},
        "precision": machine.precision,
        "recompute": recompute,
        "framework": machine.framework,
    }
    return from_mapping("size", scenario, machine.settings)


def _zero(machine: Machine, data: int) -> int:
    """Return the ZeRO stage: 1 where the framework offers it, else the highest that it does."""
    offered = _offered(machine.framework)
    if data == 1 and 0 in offered:
        return 0
    return 1 if 1 in offered else max(offered)


@lru_cache
def _offered(framework: str) -> list[int]:
    record = entry("framework", framework).record
    assert isinstance(record, FrameworkRecord)
    return list(record.zero.value)


def _sequence(model: str | Mapping[str, Any]) -> int:
    """Return the tokens of a sequence of a model: those of its file."""
    given = find("model", model).mapping() if isinstance(model, str) else model
    return int(given["sequence"])


__all__ = ["Machine", "Trained", "fastest_layout"]
