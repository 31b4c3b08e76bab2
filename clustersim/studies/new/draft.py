"""The draft of a new scenario: what is stated, what is assumed, and the layouts to search.

model, machine, sequence --usual values--> Draft --search--> layout
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.changes import Change, Settings, changes_of
from clustersim.catalog.finding import find_in
from clustersim.catalog.reading import dotted
from clustersim.catalog.records.frameworks import FrameworkRecord
from clustersim.catalog.records.models import ModelRecord
from clustersim.errors import CatalogError, ScenarioError
from clustersim.plan.checks import divisors
from clustersim.records import dataclass
from clustersim.scenario.entries import entry, entry_of_file
from clustersim.scenario.machine import (
    FORMATS,
    cluster_name,
    load_cluster,
    training_formats,
    usual_framework,
    usual_precision,
    usual_sequence,
)
from clustersim.scenario.schema import ClusterUse

ENGINE: Final = "vllm"
"""The usual engine of services."""

STEP_TOKENS: Final = 4_194_304
"""Tokens of a step, about, as of `clustersim size`: batches of Llama 3 and its contemporaries."""

LONG: Final = 8192
"""Sequences from which ranks may share them [tokens]."""

LENGTHS: Final = {"input": 1024, "output": 256}
"""Lengths of requests that are assumed [tokens]."""

USERS: Final = 64
"""Users that are assumed where no load is stated."""

OPTIONS: Final = {
    "model": "--model",
    "cluster": "--cluster",
    "cluster.name": "--cluster",
    "cluster.nodes": "--nodes",
    "framework": "--framework",
    "engine": "--engine",
}
"""Keys on which drafts depend, and the options that state them."""


@dataclass(frozen=True)
class Draft:
    """A scenario before its layout is known.

    Attributes
    ----------
    data : plain values of the scenario
    assumed : keys that are not stated, with the reason
    free : values of keys that are searched, as of `search`
    fixed : keys that are not searched, with their values
    changes : further values that are stated
    devices : of the nodes
    objective : by which a layout is the best of the whole machine
    """

    data: dict[str, Any]
    assumed: dict[str, str]
    free: tuple[str, ...]
    fixed: dict[str, Any] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    devices: int = 0
    objective: str = "tokens_per_s"


@dataclass(frozen=True)
class Machine:
    """A model and the machine that it runs on.

    Attributes
    ----------
    model : model file, by name
    cluster : cluster file, by name
    nodes : number of nodes that are used
    precision : number format; the usual one of the machine if None
    """

    model: str
    cluster: str
    nodes: int = 1
    precision: str | None = None

    def title(self) -> str:
        """Return the title of the scenario."""
        return f"{self.model} on {self.nodes:,} {'node' if self.nodes == 1 else 'nodes'} of" + (
            f" {cluster_name(self.cluster)}"
        )

    def values(self, formats: Sequence[str]) -> tuple[dict[str, Any], dict[str, str], ClusterUse]:
        """Return the plain values that all scenarios have, what is assumed, and the machine."""
        use = load_cluster(self.cluster, self.nodes)
        if self.nodes > use.size:
            raise ScenarioError(
                f"--nodes {self.nodes}: '{cluster_name(self.cluster)}' has {use.size:,} nodes"
            )
        name = use.node.accelerator.name
        assumed = {"precision": f"the first of {', '.join(formats)} that {name} has; --precision"}
        data = {
            "title": self.title(),
            "cluster": {"name": cluster_name(self.cluster), "nodes": self.nodes},
            "model": self.model,
            "precision": self.precision or usual_precision(use, formats),
        }
        assumed = {} if self.precision else assumed
        if _model(self.model).experts:
            data["experts"] = {"load": "balanced"}
            assumed["experts.load"] = "all experts get as many tokens; zipf is an uneven load"
        return data, assumed, use


def step_draft(
    machine: Machine,
    sequence: int | None = None,
    batch: int | None = None,
    framework: str | None = None,
) -> Draft:
    """Return the draft of a training step.

    Parameters
    ----------
    sequence : tokens of a sequence; the usual ones of the model if None
    batch : sequences of a step; about `STEP_TOKENS` if None

    Raises
    ------
    ScenarioError, CatalogError
        when a name is unknown, or a number is not positive.
    """
    _check_counts({"--sequence": sequence, "--batch": batch, "--nodes": machine.nodes})
    model = _model(machine.model)
    use = load_cluster(machine.cluster, machine.nodes)
    library = use.node.library
    profile = framework or usual_framework(use)
    record = _entry("framework", profile)
    assert isinstance(record, FrameworkRecord), "an entry of that kind"
    data, assumed, _ = machine.values(training_formats(profile))
    devices, tokens = use.nodes * use.node.devices, sequence or usual_sequence(model.sequence)
    if framework is None:
        assumed["framework"] = (
            f"{profile}, the usual one of machines with {library.name}; others have others, so"
            " that machines are compared with one --framework"
        )
    if sequence is None:
        assumed["batch.sequence"] = _sequences(model, tokens)
    if batch is None:
        assumed["batch.global"] = f"about {STEP_TOKENS / 1e6:.1f} million tokens of a step"
    sizes = {"global": batch or usual_batch(tokens, devices), "micro": 1, "sequence": tokens}
    data |= {"plan": {}, "batch": sizes, "framework": profile}
    free, fixed = _layouts(use, model, record, tokens)
    return Draft(data, assumed, free, fixed, devices=devices)


def _sequences(model: ModelRecord, tokens: int) -> str:
    """Return why a sequence has some tokens, and how to state others."""
    if tokens == model.sequence:
        return f"the sequences of {model.name}"
    return (
        f"usual ones, of the {model.sequence:,} that {model.name} takes; --sequence states others"
    )


def usual_batch(sequence: int, devices: int) -> int:
    """Return the sequences of a step of about `STEP_TOKENS` that many layouts can share.

    It is a multiple of the largest divisor of the devices that is not above it.

    >>> usual_batch(8192, 64), usual_batch(8192, 48), usual_batch(8192, 3000)
    (512, 528, 500)
    """
    count = max(1, round(STEP_TOKENS / sequence))
    shared = max(each for each in divisors(devices) if each <= count)
    return shared * max(1, round(count / shared))


def _layouts(
    use: ClusterUse, model: ModelRecord, framework: FrameworkRecord, sequence: int
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the values of a layout that are searched, and the keys that are fixed."""
    devices, node = use.nodes * use.node.devices, use.node.devices
    schedules = [each for each in ("1f1b", "interleaved-1f1b") if each in framework.schedules]
    several = sequence >= LONG and framework.context is not None
    values: dict[str, Sequence[Any]] = {
        "plan.tensor": divisors(node),
        "plan.pipeline": [each for each in divisors(devices) if each <= min(model.layers, 64)],
        "plan.context": [each for each in (1, 2, 4, 8) if each == 1 or several],
        "plan.schedule": schedules or framework.schedules,
        "plan.chunks": [1, 2, 4],
        "plan.layers": ["even", "with-ends"],
        "batch.micro": [1, 2, 4, 8],
        "recompute": ["none", "selective", "full"],
    }
    free = tuple(f"{key}={','.join(map(str, each))}" for key, each in values.items())
    return free, {
        "plan.placement.order": ["tensor", "context", "data", "pipeline"],
        "plan.shard": 0,
    }


def service_draft(
    machine: Machine,
    rate: float | None = None,
    concurrency: int | None = None,
    lengths: Mapping[str, int | None] = LENGTHS,
    engine: str | None = None,
) -> Draft:
    """Return the draft of a service.

    Parameters
    ----------
    rate : requests that arrive in a second
    concurrency : users, each with a request; `USERS` if there is no rate either
    lengths : tokens of the `input` and `output` of a request; those of `LENGTHS` if None

    Raises
    ------
    ScenarioError, CatalogError
        when a name is unknown, or a number is not positive.
    """
    counts = {"--rate": rate, "--concurrency": concurrency, "--nodes": machine.nodes}
    _check_counts(counts | {f"--{key}": value for key, value in lengths.items()})
    if rate is not None and concurrency is not None:
        raise ScenarioError("--rate, --concurrency: a service has one load (leave one out)")
    data, assumed, use = machine.values(FORMATS[:2])
    released = _model(machine.model).released
    if released is not None and machine.precision is None:
        data["precision"] = released.precision
        assumed["precision"] = f"as the weights of {machine.model} were released; --precision"
    load: dict[str, Any] = {"concurrency": concurrency or USERS} if rate is None else {"rate": rate}
    if rate is None and concurrency is None:
        assumed["load.concurrency"] = "--concurrency or --rate states the load"
    for key, usual in LENGTHS.items():
        load[key] = lengths.get(key) or usual
        if not lengths.get(key):
            assumed[f"load.{key}"] = f"--{key} states the tokens of a request"
    if engine is None:
        assumed["engine"] = "the usual one; --engine names another"
    else:
        _entry("engine", engine)
    data |= {"plan": {}, "engine": engine or ENGINE, "load": load}
    stages = {1, *(each for each in divisors(use.nodes) if each <= 4)}
    free = (
        f"plan.tensor={','.join(map(str, divisors(use.node.devices)))}",
        f"plan.pipeline={','.join(map(str, sorted(stages)))}",
    )
    devices = use.nodes * use.node.devices
    # at a rate all layouts that sustain it have the same throughput
    objective = "tokens_per_s" if rate is None else "latency"
    return Draft(data, assumed, free, {"pools": False}, (), devices, objective)


def with_settings(draft: Draft, settings: Settings) -> Draft:
    """Return a draft with further values, which are neither assumed nor searched.

    Raises
    ------
    ScenarioError
        for a key that an option states.
    """
    changes = changes_of(settings)
    stated = {dotted(change.path) for change in changes}
    for key in stated & OPTIONS.keys():
        raise ScenarioError(f"--set {key}: is stated by an option (use {OPTIONS[key]})")
    free = tuple(each for each in draft.free if each.partition("=")[0] not in stated)
    fixed = {key: value for key, value in draft.fixed.items() if key not in stated}
    assumed = {key: why for key, why in draft.assumed.items() if key not in stated}
    return replace(draft, changes=changes, free=free, fixed=fixed, assumed=assumed)


def _model(name: str) -> ModelRecord:
    record = _entry("model", name)
    assert isinstance(record, ModelRecord), "an entry of that kind"
    return record


def _entry(kind: str, name: str) -> object:
    """Return the record that an option names, of the working folder or of the catalogue."""
    try:
        own = find_in(Path(), kind, name) is not None
        return (entry_of_file(Path(f"{name}.yaml")) if own else entry(kind, name)).record
    except CatalogError as error:
        raise CatalogError(f"{OPTIONS[kind]}: {error}") from None


def _check_counts(counts: Mapping[str, float | None]) -> None:
    """Check that the numbers of options are positive, where they are given."""
    for option, value in counts.items():
        if value is not None and value <= 0:
            raise ScenarioError(f"{option} {value}: must be greater than 0")
