"""Values of a scenario by dotted key: those of its layout, of the job, of its profile."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from clustersim.catalog.launching import LaunchArguments
from clustersim.catalog.records.engines import EngineRecord
from clustersim.catalog.records.frameworks import FrameworkRecord
from clustersim.catalog.records.models import ExpertShape, ModelRecord
from clustersim.scenario.load import Loaded, LoadedJob, LoadedService
from clustersim.simulation.service.pools import formats_of
from clustersim.simulation.step.build import recompute_of, recompute_value

Launched = LoadedJob
"""A scenario that a launch file can state."""

_ABSENT: Final = object()


def layout_values(loaded: Launched) -> dict[str, Any]:
    """Return the values of all keys of a layout, by dotted key."""
    return _of_step(loaded) if isinstance(loaded, Loaded) else _of_service(loaded)


def _of_step(loaded: Loaded) -> dict[str, Any]:
    given = loaded.scenario
    plan = given.plan.model_dump(mode="json")
    chunks = plan.pop("chunks")
    order = plan.pop("placement")["order"]
    axes = [axis for axis in order if plan[axis] > 1]
    values = {f"plan.{key}": value for key, value in plan.items()}
    if given.plan.context == 1:
        del values["plan.context_method"]
    return values | {
        "plan.chunks": chunks or 1,
        "plan.placement": axes,
        "batch.micro": given.batch.micro,
        "batch.global": given.batch.global_,
        "recompute": recompute_value(recompute_of(given.recompute)),
        "precision": given.precision,
    }


def _of_service(loaded: LoadedService) -> dict[str, Any]:
    plan = loaded.scenario.plan.model_dump(mode="json")
    if plan["prefill"] is None:
        del plan["prefill"], plan["decode"], plan["transfer"]
    formats = formats_of(loaded.scenario)._asdict()
    return {
        **{f"plan.{key}": value for key, value in plan.items()},
        **{f"precision.{part}": form for part, form in formats.items() if form is not None},
    }


def job_values(loaded: Launched, launch: LaunchArguments) -> dict[str, Any]:
    """Return the values of the keys of a job that have arguments, in their order."""
    values = ((key, value_at(loaded.scenario, key)) for key in launch.job or {})
    return {key: value for key, value in values if value is not _ABSENT}


def facts_of(loaded: Launched, launch: LaunchArguments) -> dict[str, Any]:
    """Return the facts of the profile that an argument controls, and that it states."""
    values = {key: value_at(profile_of(loaded), key) for key in launch.facts or {}}
    return {
        key: value
        for key, value in values.items()
        if value is not _ABSENT and (value is not None or "none" in (launch.facts or {})[key])
    }


def profile_of(loaded: Launched) -> FrameworkRecord | EngineRecord:
    """Return the framework or the engine of a scenario."""
    return loaded.scenario.framework if isinstance(loaded, Loaded) else loaded.scenario.engine


def value_at(record: Any, key: str) -> Any:
    """Return the plain value of a dotted key; that no table has is `_ABSENT`."""
    value = record
    for name in key.split("."):
        inside = value if isinstance(value, Mapping) else _fields(value)
        if name not in inside:
            return _ABSENT
        value = inside[name]
    return value


def _fields(value: Any) -> dict[str, Any]:
    """Return the plain values of a record by key; none of a value that is no record."""
    if not isinstance(value, BaseModel):
        return {}
    fields = type(value).model_fields.items()
    return {info.alias or name: getattr(value, name) for name, info in fields}


NAMES: Final = frozenset(
    {"kind", "name", "title", "extends", "source", "sources", "assumed", "launch", "note"}
)
"""Keys of catalogue files that name or describe them."""


def plain_values(value: Any, prefix: str, skipped: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Yield all values of a record by dotted key, without those of some keys."""
    inside = value if isinstance(value, Mapping) else _fields(value)
    for key, item in inside.items():
        if key in skipped:
            continue
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(item, Mapping | BaseModel):
            yield from plain_values(item, path, skipped)
        elif item is not None:
            yield path, item


def numbers_of(loaded: Launched) -> dict[str, Any]:
    """Return the numbers that texts of arguments can contain; None for one that is not whole."""
    numbers = _of_model(loaded.scenario.model)
    return numbers | (_of_job(loaded) if isinstance(loaded, Loaded) else _of_server(loaded))


def _of_server(loaded: LoadedService) -> dict[str, Any]:
    plan = loaded.scenario.plan
    return {"all_tensor": plan.tensor * plan.attention_data}


def _of_job(loaded: Loaded) -> dict[str, Any]:
    given = loaded.scenario
    plan, batch = given.plan, given.batch
    layers, rest = divmod(given.model.layers, plan.pipeline * (plan.chunks or 1))
    return {
        "data": plan.data,
        "copies": plan.data * plan.context // (plan.shard or plan.data * plan.context),
        "layers_per_chunk": None if rest else layers,
        "most_layers": layers + (rest > 0),
        "local": batch.micro if plan.pipeline == 1 else batch.global_ // plan.data,
        "longest": max(given.model.longest or given.model.sequence, batch.sequence),
        "micro": batch.micro,
        "global": batch.global_,
        "zero": plan.zero,
        "fp16": "true" if given.precision == "fp16" else "false",
        "bf16": "true" if given.precision == "bf16" else "false",
        "nodes": given.cluster.nodes,
        "devices": given.devices,
    }


def _pattern(experts: ExpertShape, layers: int) -> str:
    """Return which layers have experts, as Megatron-LM states it: ``([0]*3+[1]*58)``."""
    groups = (layers - experts.first_dense) // experts.every
    group = ",".join(["0"] * (experts.every - 1) + ["1"])
    return f"([0]*{experts.first_dense}+[{group}]*{groups})"


def _of_model(model: ModelRecord) -> dict[str, Any]:
    numbers: dict[str, Any] = {"weights": model.hugging_face or model.name}
    if model.window is not None:
        numbers["before"] = model.window.tokens - 1
    if model.experts is not None:
        experts = model.experts
        numbers |= {
            "shared_ffn": experts.shared * experts.ffn,
            "pattern": _pattern(experts, model.layers),
        }
    return numbers


def has_effect(key: str, stated: Mapping[str, str]) -> bool:
    """Return whether a key of a layout has an effect next to the others.

    Parameters
    ----------
    stated : values of the layout as `shown` returns them, and whether the model has experts
    """
    needed = {
        "plan.schedule": stated.get("plan.pipeline") != "1",
        "plan.layers": stated.get("plan.pipeline") != "1",
        "plan.reshard": stated.get("plan.zero") == "3",
        "plan.shard": stated.get("plan.zero") != "0",
        "plan.sequence_parallel": stated.get("plan.tensor") != "1",
        "plan.expert": stated.get("model.experts") == "true",
        "plan.expert_tensor": stated.get("model.experts") == "true",
    }
    return needed.get(key, True)


def shown(value: Any) -> str:
    """Return a value as keys of tables and arguments have it.

    >>> shown(True), shown(None), shown(["qkv", "mlp"]), shown({"mode": "full", "every": 2})
    ('true', 'none', 'qkv-mlp', 'mode full, every 2')
    """
    if isinstance(value, bool | None):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(each)}" for key, each in value.items())
    return "-".join(map(str, value)) if isinstance(value, list) else str(value)
