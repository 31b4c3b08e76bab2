"""The fastest layout of a model on a machine, by a search with a small gap.

model, machine --batch--> scenario --search: bounds, replays--> fastest layout that fits
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from clustersim.answers import answer_from
from clustersim.catalog.changes import Change, changes_of
from clustersim.catalog.finding import find
from clustersim.catalog.records.frameworks import FrameworkRecord
from clustersim.errors import PlanError
from clustersim.plan.checks import divisors
from clustersim.records import dataclass
from clustersim.scenario.entries import entry
from clustersim.scenario.load import Loaded, from_mapping
from clustersim.scenario.machine import cluster_name, load_cluster, usual_sequence
from clustersim.scenario.schema import ClusterUse
from clustersim.simulation.step.result import Result
from clustersim.studies.search import FastestLayout, LayoutSearch, fixed_keys, offloads_of
from clustersim.studies.size.answer import GAP, SizeLayout
from clustersim.workload.flops import attention_flops, model_flops
from clustersim.workload.model import build_model
from clustersim.workload.ops import Recompute

COMPARED_GAP: Final = 0.05
"""The same as `GAP` for sizes on the way to the answer and next to it: a third of the replays."""

FIXED: Final = (
    *("plan.context", "plan.context_method", "plan.expert", "plan.expert_tensor"),
    *("plan.placement", "plan.shard", "plan.layers"),
)
"""Keys of a layout that are not searched: long sequences and experts need them."""

RECOMPUTE: Final = (Recompute(), Recompute("selective"), Recompute("full"))
"""Recomputation that is searched."""

NEAR: Final = 0.15
"""How far the sequences of a step may be from the request, relative to it."""


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
    settings: tuple[str | Change, ...] = ()

    @property
    def devices(self) -> int:
        """Devices of all nodes."""
        return self.nodes * self.per_node

    def record(self, nodes: int | None) -> ClusterUse:
        """Return the cluster with some number of nodes, or with all of them."""
        changes = [one for one in changes_of(self.settings) if one.path[0] == "cluster"]
        return load_cluster(self.cluster, nodes, changes)


class Trained(NamedTuple):
    """The steps of a model: its layout, the result of its replay, and its scenario."""

    layout: SizeLayout
    result: Result
    loaded: Loaded


class ModelLayouts:
    """The layouts of a model on a machine, with states on the host where none fits without.

    Parameters
    ----------
    model : name of a catalogue file, or the keys of one
    """

    def __init__(self, model: str | Mapping[str, Any], machine: Machine) -> None:
        settings = changes_of(machine.settings)
        own = any(change.path[0] == "offload" for change in settings)
        self._framework = machine.framework
        self._loaded, self._fixed = (
            _scenario_of(model, machine),
            (*FIXED, *fixed_keys(settings, ())),
        )
        self._offloads = offloads_of(self._loaded)[: 1 if own else None]
        self._searches: dict[tuple[str, ...], LayoutSearch] = {}

    def fastest(self, gap: float) -> Trained | None:
        """Return the fastest layout; None if none fits, also with states on the host.

        Parameters
        ----------
        gap : accept a layout if no other can be faster by more than this share; a smaller one than
            before resumes the search
        """
        for offload in self._offloads:
            try:
                found = self._search(offload).fastest(gap)
            except PlanError:
                if not offload:
                    raise
                continue  # not allowed by the framework, the machine or the layout
            if found is not None:
                return Trained(_layout(found), found.result, found.loaded)
        return None

    def _search(self, offload: tuple[str, ...]) -> LayoutSearch:
        if offload not in self._searches:
            changed = self._loaded.changed({f"offload.{part}": True for part in offload})
            zero = _zero(self._framework, whole="parameters" not in offload)
            values = {"plan.zero": zero, "recompute": RECOMPUTE}
            self._searches[offload] = LayoutSearch(changed, self._fixed, values)
        return self._searches[offload]


def fastest_layout(model: str | Mapping[str, Any], machine: Machine) -> Trained | None:
    """Return the fastest layout of a model to `GAP`; None if none fits."""
    return ModelLayouts(model, machine).fastest(GAP)


def least_nodes(model: str, machine: Machine, tokens: float, seconds: float) -> float:
    """Return the nodes that train a model in some time at their peak rate, without attention.

    No layout needs fewer.
    """
    scenario = _scenario_of(model, machine).scenario
    shape = build_model(scenario.model, scenario.batch.sequence, 1, 1)
    products = model_flops(shape, 1) / 3 - attention_flops(shape)  # of the forward
    each = products * (3 if scenario.finetune is None else 1) / shape.sequence
    peaks = scenario.cluster.node.accelerator.peak
    peak = peaks.get(machine.precision, max(peaks.values()))
    return each * tokens / (peak * machine.per_node * seconds)


def _layout(found: FastestLayout) -> SizeLayout:
    given, result = found.loaded.scenario, found.result
    plan, batch = given.plan, given.batch
    return answer_from(
        SizeLayout,
        plan,
        batch,
        batch=batch.global_,
        chunks=plan.chunks or 1,
        recompute=str(given.recompute),
        offload=tuple(part for part, is_held in given.offload.model_dump().items() if is_held),
        step_time_s=result.step_time,
        memory_bytes=result.memory.fullest.peak,
        tight=result.memory.tight,
        gap=found.gap,
    )


def _scenario_of(model: str | Mapping[str, Any], machine: Machine) -> Loaded:
    """Return a scenario with some layout of the devices, which the search replaces."""
    sequence, devices = _sequence(model, changes_of(machine.settings)), machine.devices
    batch = batch_of(machine.batch_tokens / sequence, devices)
    scenario = {
        "title": "a step",
        "cluster": {"name": cluster_name(machine.cluster), "nodes": machine.nodes},
        "model": model,
        "plan": {"tensor": 1, "pipeline": 1, "data": devices, "zero": _zero(machine.framework)[0]},
        "batch": {"global": batch, "micro": 1, "sequence": sequence},
        "precision": machine.precision,
        "recompute": "none",
        "framework": machine.framework,
    }
    return from_mapping("size", scenario, machine.settings, Path())


def batch_of(sequences: float, devices: int) -> int:
    """Return the sequences of a step near a number of them, which many layouts divide.

    They are a multiple of 4 sequences for each device where that is near, else of half as many,
    and so on, as long as all odd factors of the devices divide them.

    >>> batch_of(1024, 512), batch_of(1024, 96), batch_of(1024, 3072), batch_of(1, 512)
    (1024, 1152, 1152, 1)
    """
    multiple = 4 * devices
    while abs((batch := round(sequences / multiple) * multiple) / sequences - 1) > NEAR:
        if multiple % 2:
            return max(each for each in divisors(devices) if each <= max(1.0, sequences))
        multiple //= 2
    return batch


@lru_cache
def _zero(framework: str, *, whole: bool = True) -> tuple[int, ...]:
    """Return the ZeRO stages that are searched: 1, or the highest where 1 is not offered, and 0.

    Parameters
    ----------
    whole : whether each rank can have all weights of its stage; else only 3 where it is offered
    """
    record = entry("framework", framework).record
    assert isinstance(record, FrameworkRecord)
    offered = record.zero
    if not whole and 3 in offered:
        return (3,)
    stages = (1 if 1 in offered else max(offered), 0)
    return tuple(dict.fromkeys(stage for stage in stages if stage in offered))


def _sequence(model: str | Mapping[str, Any], changes: Sequence[Change]) -> int:
    """Return the tokens of a sequence: stated ones, or the usual ones of the model."""
    stated = [one.value for one in changes if one.path == ("batch", "sequence")]
    if stated and isinstance(stated[-1], int) and stated[-1] > 0:
        return stated[-1]
    given = find("model", model).mapping() if isinstance(model, str) else model
    return usual_sequence(int(given["sequence"]))
