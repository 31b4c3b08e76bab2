"""A measured case as the scenario that stands for it.

    Case, Settings, MachineChoice, FrameworkChoice --scenario_of--> Loaded

The cluster file is taken as it is but for the number of nodes, and of devices in a node where the
job has fewer.
"""

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from clustersim.catalog import finding
from clustersim.catalog.tree import is_fact
from clustersim.scenario.load import Loaded, from_mapping
from clustersim.study.cases import Case
from clustersim.study.machines import FrameworkChoice, MachineChoice
from clustersim.study.reasons import Reason, Ungradable
from clustersim.study.settings import PRECISIONS, Settings


@dataclass(frozen=True)
class NodeShape:
    """What a case may change about a node: how many devices, and on which of them NICs hang."""

    devices: int
    linked: bool
    nics: tuple[int, ...]


@lru_cache
def node_shape(cluster: str) -> NodeShape:
    """Return the shape of the nodes of a cluster file."""
    node = finding.find("cluster", cluster).mapping()["node"]
    given: dict[str, Any] = {"name": node} if isinstance(node, str) else dict(node)
    if "name" in given and "kind" not in given:
        given = {**finding.find("node", given["name"]).mapping(), **given}
    return NodeShape(
        devices=_value(given["devices"]),
        linked=given["interconnect"]["type"] == "links",
        nics=tuple(_value(given["nics"]["devices"])),
    )


def _value(fact: Any) -> Any:
    return fact["value"] if is_fact(fact) else fact


def scenario_of(
    case: Case, settings: Settings, machine: MachineChoice, framework: FrameworkChoice
) -> Loaded:
    """Return a case as a scenario.

    Raises
    ------
    Ungradable
        when the layout is not of that many devices, or they are no whole nodes, or part of a
        node of direct links.
    ScenarioError, CatalogError
        when the scenario does not pass its check.
    """
    nodes, changes = _nodes(case, settings, machine)
    changes |= framework.settings
    if settings.attention is not None and settings.attention.startswith("flash"):
        changes["framework.kernels.attention"] = "flash"
    data = {
        "title": case.id,
        "cluster": {"name": machine.cluster, "nodes": nodes},
        "model": _model(case, settings),
        "plan": {
            "tensor": settings.tensor,
            "pipeline": settings.pipeline,
            "data": settings.data,
            "zero": settings.zero,
            "schedule": settings.schedule,
            "chunks": settings.chunks,
        },
        "batch": {
            "global": settings.sequences,
            "micro": settings.micro,
            "sequence": settings.sequence,
        },
        "precision": PRECISIONS[settings.precision or ""],
        "recompute": settings.recompute,
        "framework": framework.framework,
        "assumed": dict(settings.assumed),
    }
    said = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    return from_mapping(case.id, data, said)


def _nodes(case: Case, settings: Settings, machine: MachineChoice) -> tuple[int, dict[str, Any]]:
    """Return the nodes of a case, and the changes to the cluster file that make them up."""
    shape, changes = node_shape(machine.cluster), dict(machine.settings)
    devices = settings.devices or 0
    degrees = (settings.tensor or 0, settings.pipeline or 0, settings.data or 0)
    if math.prod(degrees) != devices:
        told = "tensor {} x pipeline {} x data {} is not the number of devices, {}"
        raise Ungradable(Reason("layout refused", told.format(*degrees, devices)))
    each = min(case.system.gpus_per_node or shape.devices, devices)
    if each > shape.devices:
        told = f"no machine file with {each} '{case.system.accelerator}' a node"
        raise Ungradable(Reason("no machine file", told))
    if each < shape.devices:
        changes |= _smaller_node(each, shape, changes)
    nodes, rest = divmod(devices, each)
    if rest:
        told = f"{devices} devices are no whole nodes of {each}"
        raise Ungradable(Reason("devices are no whole nodes", told))
    return nodes, changes


def _smaller_node(each: int, shape: NodeShape, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes that leave `each` devices of a node, with the NICs that hang on them."""
    if shape.linked:
        told = f"part of a node of direct links: {each} of its {shape.devices} devices"
        raise Ungradable(Reason("part of a node of direct links", told))
    nics = changes.get("cluster.node.nics.devices", shape.nics)
    return {
        "cluster.node.devices": each,
        "cluster.node.nics.devices": [nic for nic in nics if nic < each],
    }


def _model(case: Case, settings: Settings) -> dict[str, Any]:
    """Return the model of a case as a file of the catalogue would hold it."""
    model = case.model
    layers, hidden, ffn = model.layers or 0, model.hidden or 0, model.ffn or 0
    if model.params_b is not None:
        parameters = {"value": model.params_b * 1e9, "source": "case"}
    else:
        count = layers * (4 * hidden * hidden + 2 * hidden * ffn) + hidden * (settings.vocab or 0)
        parameters = {"value": float(count), "assumed": "counted from the shape"}
    return {
        "kind": "model",
        "name": model.name or case.id,
        "family": model.family,
        "layers": layers,
        "hidden": hidden,
        "heads": model.heads,
        "ffn": ffn,
        "vocab": settings.vocab,
        "sequence": settings.sequence,
        "parameters": parameters,
        "source": "case",
        "sources": {"case": {"title": case.source.title or case.id, "where": case.source.ref}},
    }
