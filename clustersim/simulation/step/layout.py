"""The layout of a scenario: degrees, schedule, layers of each stage, what is recomputed."""

from collections.abc import Sequence
from pathlib import Path

from clustersim.catalog.files import is_file
from clustersim.catalog.frameworks import FrameworkRecord
from clustersim.plan.parallelism import Plan, by_work, even_layers, filled, with_ends
from clustersim.program.schedules import SCHEDULES, Schedule
from clustersim.program.schedules.written import read_schedule
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import RecomputeFile, Scenario
from clustersim.workload.model import Transformer
from clustersim.workload.ops import Recompute
from clustersim.workload.parameters import multiplied


def layout_of(given: Scenario, schedule: Schedule, model: Transformer) -> Plan:
    """Return the layout of a scenario; unchecked."""
    plan, batch = given.plan, given.batch
    chunks = plan.chunks or schedule.chunks[0]
    return Plan(
        tensor=plan.tensor,
        data=plan.data,
        pipeline=plan.pipeline,
        chunks=chunks,
        schedule=schedule.name,
        wiring=schedule.wiring,
        zero=plan.zero,
        reshard=plan.reshard,
        micro=batch.micro,
        microbatches=max(1, batch.global_ // (plan.data * batch.micro)),
        layers=layers_of(plan.layers, model, schedule.wired(plan.pipeline, chunks).virtual_stages),
        sequence_parallel=plan.sequence_parallel,
        context=plan.context,
        context_method=plan.context_method,
        expert=plan.expert,
        expert_tensor=plan.expert_tensor,
        shard=plan.shard,
    )


def schedule_of(loaded: Loaded) -> Schedule:
    """Return the schedule that a scenario names, or reads from a file next to it.

    Raises
    ------
    ScenarioError
        when there is no such file, or it is not a schedule.
    """
    file = schedule_file(loaded)
    if file is None:
        return schedule_named(loaded.scenario.plan.schedule, loaded.scenario.framework)
    return read_schedule(file, loaded.where("plan", "schedule"))


def schedule_named(name: str, framework: FrameworkRecord) -> Schedule:
    """Return a schedule by its name, as a framework runs it."""
    first = framework.pipeline.forwards_first
    return SCHEDULES[name].as_run(forwards_first=first is None or first)


def schedule_file(loaded: Loaded) -> Path | None:
    """Return the file of steps that a scenario names; None for a schedule by name."""
    name = loaded.scenario.plan.schedule
    if name in SCHEDULES:
        return None
    neighbour = Path(loaded.place("plan", "schedule").file).parent / name
    return neighbour if is_file(neighbour) else Path(name)


def layers_of(wish: str | Sequence[int], model: Transformer, parts: int) -> tuple[int, ...]:
    """Return the layers of each part of the model; none where it cannot be divided evenly.

    Parameters
    ----------
    wish : ``plan.layers`` of a scenario: a rule by name, or the layers themselves
    """
    layers = model.layers
    if not isinstance(wish, str):
        return tuple(wish)
    if wish == "by-work":
        work = [multiplied(model, layer) for layer in model.stack]
        return by_work(work, model.vocab * model.hidden, parts)
    if wish == "even":
        return even_layers(layers, parts) if layers % parts == 0 else ()
    return {"with-ends": with_ends, "filled": filled}[wish](layers, parts)


def recompute_of(table: str | RecomputeFile) -> Recompute:
    """Return what the backward recomputes, from the key of a scenario."""
    if not isinstance(table, RecomputeFile):
        return Recompute(table)
    stages = None if table.stages is None else frozenset(table.stages)
    mode = "ops" if table.ops else table.mode
    return Recompute(mode, frozenset(table.ops), table.every, stages)
