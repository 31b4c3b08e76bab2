"""Every measured case as a scenario, run and graded.

    Entry --settings--> obstacles? --machine, framework--> scenario --simulate--> Result --> Outcome

Nothing is fitted and no case has a knob of its own: which machine and which software stand for a
case is read from two tables in `validation/`, by the words of the case.  What the model cannot
express, or a case does not tell, makes it *not gradable*, with the reason.  Many cases go through
one `concurrent.futures.Executor`.
"""

import fnmatch
import json
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Self

from pydantic import Field, model_validator

from clustersim.catalog import finding
from clustersim.catalog.checking import checked
from clustersim.catalog.records import Strict
from clustersim.catalog.tree import Tree, is_fact, nearest
from clustersim.errors import CatalogError, ClustersimError, PlanError, ScenarioError
from clustersim.scenario.load import Loaded, from_mapping
from clustersim.simulate import Result, simulate
from clustersim.study.cases import (
    NOT_STATED,
    RECOMPUTE,
    Case,
    Entry,
    Reason,
    Settings,
    Ungradable,
    settings_of,
)
from clustersim.study.grading import (
    Grade,
    Outcome,
    Validation,
    grade,
    measure,
    measured_memory,
    measured_metric,
)

MOST_BLOCKS: Final = 2_000_000
"""Blocks of a replay that one case may cost: some 15 s."""

PRECISIONS: Final = {
    "fp16": "fp16", "float16": "fp16", "half": "fp16", "bf16": "bf16", "bfloat16": "bf16",
}  # fmt: skip


# --- which machine and which software -------------------------------------------------------------


class Choice(Strict):
    """An entry of a table, with what it rests on."""

    source: str | None = None
    assumed: str | None = None

    @model_validator(mode="after")
    def _has_proof(self) -> Self:
        if (self.source is None) == (self.assumed is None):
            raise ValueError("needs either 'source' or 'assumed', and not both")
        return self


class MachineChoice(Choice):
    """A cluster file for the cases whose texts match; `settings` are facts of that machine."""

    accelerator: str
    system: str | None = None
    gpus_per_node: int | None = None
    interconnect: str | None = None
    cluster: str
    settings: dict[str, Any] = Field(default_factory=dict)

    def matches(self, case: Case) -> bool:
        """Whether this is the machine of a case."""
        system = case.system
        return (
            _alike(self.accelerator, system.accelerator)
            and _alike(self.system, system.name)
            and _alike(self.interconnect, system.interconnect)
            and self.gpus_per_node in (None, system.gpus_per_node)
        )


class MachineTable(Strict):
    """``validation/machines.yaml``: the first entry that matches."""

    kind: str
    machines: list[MachineChoice]


class FrameworkChoice(Choice):
    """A framework profile for the cases of some groups."""

    groups: list[str] = Field(default_factory=list)
    framework: str


class FrameworkTable(Strict):
    """``validation/frameworks.yaml``: the first entry that matches, else the default."""

    kind: str
    frameworks: list[FrameworkChoice]
    default: FrameworkChoice


def _alike(pattern: str | None, told: str | None) -> bool:
    if pattern is None:
        return True
    return fnmatch.fnmatchcase((told or "").lower(), pattern.lower())


@lru_cache
def machines() -> tuple[MachineChoice, ...]:
    """Return the table of machines."""
    tree = Tree.of(finding.find("validation", "machines"))
    return tuple(checked(MachineTable, tree, CatalogError).machines)


@lru_cache
def frameworks() -> FrameworkTable:
    """Return the table of frameworks."""
    tree = Tree.of(finding.find("validation", "frameworks"))
    return checked(FrameworkTable, tree, CatalogError)


def machine_of(case: Case) -> MachineChoice:
    """Return the machine that stands for that of a case.

    Raises
    ------
    Ungradable
        when the case names no accelerator, or no entry or no cluster file is there for it.
    """
    accelerator, each = case.system.accelerator, case.system.gpus_per_node
    if accelerator is None:
        told = f"accelerator{NOT_STATED}"
        raise Ungradable(Reason(told, told))
    found = next((choice for choice in machines() if choice.matches(case)), None)
    if found is None:
        among = f", {each} a node" if each else ""
        told = f"no machine file for '{accelerator}'{among}"
        raise Ungradable(Reason("no machine file", told))
    if found.cluster not in finding.names("cluster"):
        raise Ungradable(Reason("no machine file", f"no machine file '{found.cluster}'"))
    return found


def framework_of(group: str) -> FrameworkChoice:
    """Return the framework that stands for that of a group."""
    for choice in frameworks().frameworks:
        if any(_alike(pattern, group) for pattern in choice.groups):
            return choice
    return frameworks().default


# --- what cannot be expressed ---------------------------------------------------------------------


def obstacles(case: Case, settings: Settings) -> list[Reason]:
    """Return what the model does not have, and what the case does not tell."""
    return [*_architecture(case), *_layout(case, settings), *_untold(case, settings)]


def _architecture(case: Case) -> list[Reason]:
    model, found = case.model, []
    if model.family not in (None, "gpt"):
        found.append(Reason("model family other than gpt", f"family '{model.family}'"))
    if model.gated_mlp:
        found.append(Reason("gated MLP", "gated MLP"))
    if model.kv_heads is not None and model.heads is not None and model.kv_heads != model.heads:
        told = f"{model.kv_heads} key and value heads for {model.heads} heads"
        found.append(Reason("grouped key and value heads", told))
    if model.head_dim and model.heads and model.hidden != model.head_dim * model.heads:
        told = f"{model.heads} heads of {model.head_dim} in a width of {model.hidden}"
        found.append(Reason("heads that do not make up the width", told))
    if (model.experts or 0) > 1:
        found.append(Reason("mixture of experts", f"{model.experts} experts"))
    if model.attention is not None:
        found.append(Reason("another kind of attention", f"attention '{model.attention}'"))
    if model.tied_embeddings is False:
        found.append(Reason("untied embeddings", "untied embeddings"))
    if model.learned_positions is False:
        found.append(Reason("positions that are not learned", "positions that are not learned"))
    return found


def _layout(case: Case, settings: Settings) -> list[Reason]:
    parallel, found = case.parallel, []
    if (parallel.ep or 1) > 1:
        found.append(Reason("expert parallelism", f"expert parallelism over {parallel.ep}"))
    if (parallel.cp or 1) > 1:
        found.append(Reason("context parallelism", f"context parallelism over {parallel.cp}"))
    if settings.sequence_parallel and settings.tensor != 1:
        found.append(Reason("sequence parallelism", "sequence parallelism"))
    if settings.recompute == "selective":
        found.append(Reason("selective recomputation", "selective recomputation"))
    elif settings.recompute not in (None, *RECOMPUTE):
        told = f"recomputation of another kind: '{settings.recompute}'"
        found.append(Reason("recomputation of another kind", told))
    if sharded := _sharded(case, settings):
        found.append(Reason("sharded weights or gradients (ZeRO 2 and 3, FSDP)", sharded))
    if _told(case.offload):
        found.append(Reason("offload", f"offload '{case.offload}'"))
    if _told(case.finetune):
        found.append(Reason("finetuning", f"finetuning {_method(case.finetune)}"))
    if settings.precision is not None and settings.precision not in PRECISIONS:
        told = f"precision {settings.precision}"
        found.append(Reason(told, told))
    pipelined = (settings.pipeline or 1) > 1
    if pipelined and settings.schedule not in (None, "gpipe", "1f1b", "interleaved-1f1b"):
        told = f"schedule '{settings.schedule}' with {settings.pipeline} stages"
        found.append(Reason("another schedule", told))
    return found


def _sharded(case: Case, settings: Settings) -> str | None:
    if (settings.zero or 0) > 1:
        return f"ZeRO stage {settings.zero}"
    if case.parallel.fsdp:
        return "FSDP"
    return case.parallel.sharding


def _told(value: object) -> bool:
    """Whether a field says something else than no."""
    return value not in (None, False, "", {}, []) and str(value).strip().lower() != "none"


def _method(finetune: object) -> str:
    method = finetune.get("method") if isinstance(finetune, Mapping) else finetune
    return f"'{method}'"


_NAMES: Final = {
    "devices": "number of devices",
    "tensor": "tensor degree",
    "pipeline": "pipeline degree",
    "data": "data degree",
    "chunks": "chunks of a stage",
    "sequences": "global batch",
    "micro": "microbatch",
    "sequence": "sequence length",
    "recompute": "recomputation",
}
"""What settings are called in a reason; others by their own name."""


def _untold(case: Case, settings: Settings) -> list[Reason]:
    model = case.model
    needed = {"model family": model.family, "layers": model.layers, "hidden width": model.hidden}
    needed |= {"heads": model.heads, "ffn width": model.ffn}
    names = [name for name, value in needed.items() if value is None]
    names += [_NAMES.get(name, name) for name in settings.missing]
    return [Reason(f"{name}{NOT_STATED}", f"{name}{NOT_STATED}") for name in names]


# --- a case as a scenario -------------------------------------------------------------------------


@dataclass(frozen=True)
class NodeShape:
    """What a case may change about a node: how many devices, and on which of them NICs hang."""

    devices: int
    mesh: bool
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
        mesh=given["interconnect"]["type"] == "mesh",
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
        when the layout is not of that many devices, or they are no whole nodes, or part of a mesh.
    ScenarioError, CatalogError
        when the scenario does not pass its check.
    """
    nodes, changes = _nodes(case, settings, machine)
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
        if shape.mesh:
            told = f"part of a mesh node: {each} of its {shape.devices} devices"
            raise Ungradable(Reason("part of a mesh node", told))
        nics = changes.get("cluster.node.nics.devices", shape.nics)
        changes["cluster.node.devices"] = each
        changes["cluster.node.nics.devices"] = [nic for nic in nics if nic < each]
    nodes, rest = divmod(devices, each)
    if rest:
        told = f"{devices} devices are no whole nodes of {each}"
        raise Ungradable(Reason("devices are no whole nodes", told))
    return nodes, changes


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


# --- running --------------------------------------------------------------------------------------


def validate(
    cases: Sequence[Entry],
    groups: Sequence[str] = (),
    executor: Executor | None = None,
    told: Callable[[], None] | None = None,
) -> Validation:
    """Run every measured case and grade it.

    Parameters
    ----------
    groups : names of groups or patterns over them (``vtrain-*``); all without any
    executor : where scenarios run; without one they run here, one after another
    told : is called whenever a case is done

    Raises
    ------
    ScenarioError
        when no case is of a group that is asked for.
    """
    chosen = select(cases, groups)
    executor = executor or Here()
    futures = []
    for entry in chosen:
        future = executor.submit(run, entry)
        if told is not None:
            future.add_done_callback(lambda _: told())
        futures.append(future)
    return Validation(tuple(map(_collected, chosen, futures)))


def select(cases: Sequence[Entry], groups: Sequence[str]) -> list[Entry]:
    """Return the cases of some groups; errors as in `validate`."""
    known = sorted({entry.group for entry in cases})
    for pattern in groups:
        if not any(_alike(pattern, group) for group in known):
            hint = nearest(pattern, known) or f" (known: {', '.join(known)})"
            raise ScenarioError(f"--group: no case is of group '{pattern}'{hint}")
    if not groups:
        return list(cases)
    return [e for e in cases if any(_alike(pattern, e.group) for pattern in groups)]


class Here(Executor):
    """Runs each task at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the task and return a future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def _collected(entry: Entry, future: "Future[Outcome]") -> Outcome:
    """Return an outcome; a worker that died costs its cases, not the run."""
    try:
        return future.result()
    except BrokenExecutor as error:
        told = f"its worker process died ({error})"
        return Outcome(entry.id, entry.group, (Reason("its worker process died", told),))


def run(entry: Entry) -> Outcome:
    """Run one case and grade it; whatever is wrong with it becomes its reason."""
    try:
        return _run(entry)
    except Exception as error:  # one case must not end the others: it is listed with the error
        told = f"clustersim failed: {type(error).__name__}: {_one_line(str(error))}"
        return Outcome(entry.id, entry.group, (Reason("clustersim failed", told),))


def _run(entry: Entry) -> Outcome:
    case = entry.case
    if case is None:
        assert entry.trouble is not None, "an entry is a case or has a trouble"
        return Outcome(entry.id, entry.group, (entry.trouble,))
    settings, framework = settings_of(case), framework_of(case.group)
    outcome = Outcome(
        id=case.id,
        group=case.group,
        confidence=case.source.confidence,
        framework=framework.framework,
        assumed=settings.assumed,
        memory_measured=measured_memory(case.measured),
    )
    try:
        machine = _prepared(case, settings)
        loaded = scenario_of(case, settings, machine, framework)
        graded, result = _graded(case, loaded)
    except Ungradable as problem:
        return replace(outcome, reasons=problem.reasons)
    except (ScenarioError, CatalogError) as problem:
        kind = "layout refused" if isinstance(problem, PlanError) else "scenario refused"
        return replace(outcome, reasons=(Reason(kind, _refusal(problem, case)),))
    sure = case.source.confidence in ("high", "medium")
    return replace(
        outcome,
        grade=graded,
        memory_predicted=result.memory.fullest.peak,
        memory_capacity=result.memory.capacity,
        gates=sure and settings.complete and framework is not frameworks().default,
        cluster=machine.cluster,
        wall=result.wall,
    )


def _prepared(case: Case, settings: Settings) -> MachineChoice:
    """Return the machine of a case that can be run; all that stands against it together."""
    reasons: list[Reason] = []
    machine = None
    try:
        measured_metric(case)
    except Ungradable as problem:
        reasons += problem.reasons
    try:
        machine = machine_of(case)
    except Ungradable as problem:
        reasons += problem.reasons
    reasons += obstacles(case, settings)
    if reasons or machine is None:
        raise Ungradable(*reasons)
    return machine


def _graded(case: Case, loaded: Loaded) -> tuple[Grade, Result]:
    """Return the grade of a scenario and its result."""
    given = loaded.scenario
    peak = given.cluster.node.accelerator.peak[given.precision].value
    asked = measure(case, given.recompute, peak)
    blocks = 2 * given.batch.global_ * given.plan.pipeline * given.plan.chunks
    blocks //= given.plan.data * given.batch.micro
    if blocks > MOST_BLOCKS:
        told = f"{blocks:,} blocks a step, more than {MOST_BLOCKS:,}"
        raise Ungradable(Reason("too large to replay here", told))
    result = simulate(loaded)
    return grade(asked, result, case.measured), result


def _refusal(problem: ClustersimError, case: Case) -> str:
    """Return the complaint without its place: it is about the case, not about a file."""
    lines = [line.removeprefix(f"{case.id}: ") for line in str(problem).splitlines()]
    return _one_line("\n".join(lines))


def _one_line(message: str) -> str:
    return "; ".join(line.strip() for line in message.splitlines() if line.strip())
