"""A measured case as a scenario.

    Case --scenario_of--> Loaded

The cluster file is unchanged but for the number of nodes, and of devices in a node where the job
has fewer.
"""

from typing import Any, Final

from clustersim.program.schedules import SCHEDULES
from clustersim.scenario.load import Loaded, from_mapping
from clustersim.validation.cases.case import FAMILIES, Case
from clustersim.validation.cases.nodes import nodes_of
from clustersim.validation.cases.reasons import Ungradable
from clustersim.validation.cases.rows import ModelShape
from clustersim.validation.cases.settings import CUSTOM, PRECISIONS, Settings

FUSED: Final = 0.1
"""Fusion bound of cases: without fusion, those between 1 % and this bound differ by 0.4 % at most,
and take up to a hundred times as long."""


def scenario_of(case: Case, recompute: str | None = None) -> Loaded:
    """Return a case as a scenario.

    Parameters
    ----------
    recompute : recomputation, that of the case without it; a word has its meaning in the software

    Raises
    ------
    Ungradable
        when the case has reasons against running it, its layout another number of devices, or its
        devices do not fill whole nodes.
    ScenarioError, CatalogError
        when the scenario is invalid.
    """
    if case.reasons or case.machine is None:
        raise Ungradable(*case.reasons)
    settings, software = case.settings, case.framework
    nodes, changes = nodes_of(
        settings,
        case.machine.cluster,
        case.machine.settings,
        case.machine.take or case.row.system.gpus_per_node,
        case.row.system.accelerator,
    )
    word = recompute or settings.recompute or ""
    data: dict[str, Any] = {
        "title": case.row.id,
        "cluster": {"name": case.machine.cluster, "nodes": nodes},
        "model": model_of(case),
        "plan": _plan(case.row.model, settings, software.uneven),
        "batch": {
            "global": settings.sequences,
            "micro": settings.micro,
            "sequence": settings.sequence,
        },
        "precision": PRECISIONS[settings.precision or ""],
        "recompute": _recompute(case, word),
        "framework": software.framework,
        "assumed": dict(settings.assumed),
        "fusion_bound": FUSED,
    }
    if lengths := case.row.batch.lengths.model_dump(exclude_none=True):
        data["batch"]["lengths"] = lengths
    tuned = {"offload": dict(case.offload), "finetune": case.finetune and dict(case.finetune)}
    data |= {key: value for key, value in tuned.items() if value}
    changes |= {**case.options, **_software(settings, case.framework.pipelined)}
    if "plan.zero" in case.options:
        changes["framework.zero"] = [case.options["plan.zero"]]
    return from_mapping(case.row.id, data, changes)


def _software(settings: Settings, pipelined: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the software that follow from the settings of a run."""
    options = dict(pipelined) if (settings.pipeline or 1) > 1 else {}
    axes = [axis for axis in ("tensor", "pipeline") if (getattr(settings, axis) or 1) > 1]
    options |= {"framework.axes": axes} if axes else {}
    if settings.schedule is not None:
        options["framework.schedules"] = [settings.schedule]  # it ran, so it was offered
    if settings.zero is not None and "zero" not in settings.assumed:
        options["framework.zero"] = [settings.zero]
    if settings.kernel is not None:
        options["framework.kernels.attention"] = settings.kernel
    return options


def _recompute(case: Case, word: str) -> Any:
    """Return what a word for recomputation means in a run."""
    if word in ("selective", CUSTOM) and case.row.recomputed:
        return case.row.recomputed
    return case.framework.recompute.get(word, word)


def _plan(model: ModelShape, settings: Settings, uneven: str) -> dict[str, Any]:
    """Return the layout; layers that do not divide are divided with both ends if that works.

    Parameters
    ----------
    uneven : the division otherwise, ``with-ends`` or ``filled``
    """
    schedule, layers = SCHEDULES[settings.schedule or "1f1b"], model.layers or 0
    parts = schedule.wired(settings.pipeline or 1, settings.chunks or 1).virtual_stages
    keys = ("tensor", "pipeline", "data", "zero", "schedule", "chunks")
    plan: dict[str, Any] = {key: getattr(settings, key) for key in keys}
    used = {
        "context": settings.context > 1 and settings.context,
        "expert": settings.expert > 1 and settings.expert,
        "expert_tensor": settings.expert_tensor > 1 and settings.expert_tensor,
        "layers": layers % parts and (uneven if (layers + 2) % parts else "with-ends"),
        "sequence_parallel": settings.sequence_parallel and settings.tensor != 1,
        "shard": settings.shard,
    }
    plan |= {key: value for key, value in used.items() if value}
    return plan if settings.reshard else {**plan, "reshard": False}


# --- the model ------------------------------------------------------------------------------------


def model_of(case: Case) -> dict[str, Any]:
    """Return the model of a case as a file of the catalogue.

    Properties that the case does not state have the usual value of its family.
    """
    model, settings, source = case.row.model, case.settings, case.row.source
    data = {
        "kind": "model",
        "name": model.name or case.row.id,
        "family": FAMILIES[model.family or ""],
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": model.heads,
        "ffn": model.ffn or model.moe_ffn,
        "vocab": settings.vocab,
        "sequence": settings.sequence,
        "parameters": _parameters(model, settings),
        "source": "case",
        "sources": {"case": {"title": source.title or case.row.id, "where": source.ref}},
    }
    if "latent" not in case.attention:
        data |= {"kv_heads": model.kv_heads, "head_size": model.head_dim}
    return data | dict(case.attention) | _stated_properties(model)


def _stated_properties(model: ModelShape) -> dict[str, Any]:
    """Return the stated properties that otherwise have the usual value of a family."""
    properties: dict[str, Any] = {}
    if model.gated_mlp is not None:
        properties["mlp"] = "gated" if model.gated_mlp else "gelu"
    if model.tied_embeddings is not None:
        properties["tied"] = model.tied_embeddings
    if model.learned_positions:
        properties["positions"] = "learned"
    if (model.experts or 0) > 1:
        properties["experts"] = {
            "count": model.experts,
            "top_k": model.topk,
            "ffn": model.moe_ffn or model.ffn,
            "shared": model.shared_experts or 0,
            "first_dense": model.first_dense_layers or 0,
        }
        if model.capacity_factor is not None:
            properties["experts"]["capacity"] = model.capacity_factor
    return properties


def _parameters(model: ModelShape, settings: Settings) -> dict[str, Any]:
    if model.params_b is not None:
        return {"value": model.params_b * 1e9, "source": "case"}
    layers, hidden, ffn = model.layers or 0, model.hidden or 0, model.ffn or model.moe_ffn or 0
    count = layers * (4 * hidden * hidden + 2 * hidden * ffn) + hidden * (settings.vocab or 0)
    return {"value": float(count), "assumed": "counted from the shape"}
