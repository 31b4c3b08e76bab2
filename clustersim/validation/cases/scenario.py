"""A measured case as the scenario that stands for it.

    Case, MachineChoice, FrameworkChoice, Settings --scenario_of--> Loaded

The cluster file is taken as it is but for the number of nodes, and of devices in a node where the
job has fewer.
"""

import math
from typing import Any, Final

from clustersim.program.schedules import SCHEDULES
from clustersim.scenario.load import Loaded, from_mapping
from clustersim.validation.cases.architecture import model_of
from clustersim.validation.cases.cases import Case
from clustersim.validation.cases.finetuning import finetune_of, offload_of
from clustersim.validation.cases.machines import FrameworkChoice, MachineChoice
from clustersim.validation.cases.nodes import node_shape, smaller_node
from clustersim.validation.cases.reasons import Reason, Ungradable
from clustersim.validation.cases.settings import PRECISIONS, Settings

FUSED: Final = 0.1
"""Fusion bound of cases: replayed piece by piece, those between 1 % and this differ by 0.4 % at
most, and take up to a hundred times as long."""


def scenario_of(
    case: Case, machine: MachineChoice, framework: FrameworkChoice, settings: Settings
) -> Loaded:
    """Return a case as a scenario.

    A word of recomputation means what it means in the case's software.

    Raises
    ------
    Ungradable
        when the layout is not of that many devices, or they are no whole nodes, or part of a
        node of direct links.
    ScenarioError, CatalogError
        when the scenario does not pass its check.
    """
    nodes, changes = _nodes(case, settings, machine)
    changes |= framework.options(case)
    if (settings.pipeline or 1) > 1:
        changes |= framework.pipelined
    if settings.schedule is not None:
        changes["framework.schedules"] = [settings.schedule]  # it ran, so it was offered
    if settings.zero is not None and "zero" not in settings.assumed:
        changes["framework.zero"] = [settings.zero]
    if settings.attention is not None and settings.attention.startswith("flash"):
        changes["framework.kernels.attention"] = "flash"
    said = settings.recompute or ""
    recompute = framework.recompute.get(said, said)
    data = {
        "title": case.id,
        "cluster": {"name": machine.cluster, "nodes": nodes},
        "model": model_of(case, settings),
        "plan": _plan(case, settings, framework.uneven),
        "batch": {
            "global": settings.sequences,
            "micro": settings.micro,
            "sequence": settings.sequence,
        },
        "precision": PRECISIONS[settings.precision or ""],
        "recompute": recompute,
        "framework": framework.framework,
        "assumed": dict(settings.assumed),
        "fusion_bound": FUSED,
    }
    tuned = {"offload": offload_of(case.offload), "finetune": finetune_of(case.finetune)}
    data |= {key: value for key, value in tuned.items() if value}
    return from_mapping(case.id, data, changes)


def _plan(case: Case, settings: Settings, uneven: str) -> dict[str, Any]:
    """Return the layout; layers that do not divide are shared out with the two ends if that does.

    Parameters
    ----------
    uneven : how else, ``with-ends`` or ``filled``
    """
    schedule, layers = SCHEDULES[settings.schedule or "1f1b"], case.model.layers or 0
    parts = schedule.wired(settings.pipeline or 1, settings.chunks or 1).parts
    plan: dict[str, Any] = {
        "tensor": settings.tensor,
        "pipeline": settings.pipeline,
        "data": settings.data,
        "zero": settings.zero,
        "schedule": settings.schedule,
        "chunks": settings.chunks,
    }
    used = {
        "context": settings.context > 1 and settings.context,
        "expert": settings.expert > 1 and settings.expert,
        "layers": layers % parts and (uneven if (layers + 2) % parts else "with-ends"),
        "sequence_parallel": settings.sequence_parallel and settings.tensor != 1,
        "shard": settings.shard,
    }
    plan |= {key: value for key, value in used.items() if value}
    return plan if settings.reshard else {**plan, "reshard": False}


def _nodes(case: Case, settings: Settings, machine: MachineChoice) -> tuple[int, dict[str, Any]]:
    """Return the nodes of a case, and the changes to the cluster file that make them up."""
    shape, changes = node_shape(machine.cluster), dict(machine.settings)
    devices = settings.devices or 0
    degrees = {axis: getattr(settings, axis) or 0 for axis in ("tensor", "pipeline", "data")}
    degrees |= {"context": settings.context} if settings.context > 1 else {}
    if math.prod(degrees.values()) != devices:
        told = " x ".join(f"{axis} {degree}" for axis, degree in degrees.items())
        told = f"{told} is not the number of devices, {devices}"
        raise Ungradable(Reason("layout refused", told))
    each = min(machine.take or case.system.gpus_per_node or shape.devices, devices)
    if each > shape.devices:
        told = f"no machine file with {each} '{case.system.accelerator}' a node"
        raise Ungradable(Reason("no machine file", told))
    if each < shape.devices:
        changes |= smaller_node(each, shape, changes)
    nodes, rest = divmod(devices, each)
    if rest:
        told = f"{devices} devices are no whole nodes of {each}"
        raise Ungradable(Reason("devices are no whole nodes", told))
    return nodes, changes
