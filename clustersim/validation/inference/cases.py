"""Measured inference cases: rows of family ``inference`` as replicas that serve a load.

    row --words, `inference_settings`--> machine, model, formats, engine, layout --> StepCosts

``validation/inference_settings.yaml`` has what the words mean.
Every field may be missing; a row that leaves out what a prediction needs is not gradable.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, Field, PositiveInt, TypeAdapter, ValidationError

from clustersim.catalog.checking import shipped_record
from clustersim.catalog.facts import NotNegative, Record, Strict
from clustersim.catalog.records.engines import EngineRecord
from clustersim.catalog.records.machines import ClusterRecord
from clustersim.catalog.records.models import ExpertShape, ModelRecord
from clustersim.inference.formats import WEIGHTS, Formats
from clustersim.inference.layout import Layout
from clustersim.inference.replica import build_replica
from clustersim.inference.step_costs import StepCosts
from clustersim.scenario.entries import entry
from clustersim.scenario.requests import FIXED, Spread
from clustersim.simulation.service.pools import served_model
from clustersim.topology.cluster import build_cluster
from clustersim.validation.cases.machines import Choice, matches
from clustersim.validation.cases.reasons import Reason, Ungradable, not_stated
from clustersim.validation.cases.rows import Missing, Row, Section, family_row, part
from clustersim.validation.cases.texts import Count, Number, Text
from clustersim.workload.routing import zipf_shares

PoolName = Literal["prefill", "decode"]

Changes = dict[str, dict[str, Any]]
"""Facts of an engine file that differ, by section."""

UNCHANGED: Final[dict[str, dict[str, str]]] = {}
"""Formats of a model whose weights are all in the format that a case names."""


class ServingMachine(Choice):
    """A cluster file for accelerators by name, of which a case counts `devices` as one."""

    accelerators: list[str]
    cluster: str
    devices: PositiveInt = 1


class Unstated(Strict):
    """A required setting that cases of some engines do not state."""

    what: str
    engines: list[str]


class ServedModel(Strict):
    """A model file for models by name, with the number formats of its parts by a word of a case."""

    names: list[str]
    model: str
    formats: dict[str, dict[str, str]] = UNCHANGED
    unstated: Unstated | None = None


class ServingEngine(Strict):
    """An engine file for engines by name, and where it takes the format of its KV cache from.

    `cache` is ``checkpoint`` where weights of 8 bits and less have a cache of 8 bits, and
    ``argument`` where the cache has 16 bits unless requested, or unless the checkpoint of weights
    in nvfp4 contains its scales.
    """

    names: list[str]
    engine: str
    cache: Literal["checkpoint", "argument"] = "checkpoint"


class Recipe(Choice):
    """How a benchmark starts an engine for some models on some accelerators.

    `kv` is the format of the KV cache, and `changes` are the facts of the engine file that differ.
    `tokens` are numbers, and keys of the load of a case, whose sum is the most tokens of a step.
    `prompts` and `outputs` are the lengths and `tensor` the largest tensor degree that it is for,
    all if missing.
    `pools` are what differs in the plan of pools for prefill and decode.  `grouped` are the least
    devices of a replica of a pool from which each has sequences of its own, where cases state a
    tensor degree, and `sequences` the most of a replica for decode by its topology: *1p5d-tep4*.
    """

    engines: list[str]
    models: list[str] = Field(default_factory=lambda: ["*"])
    accelerators: list[str] = Field(default_factory=lambda: ["*"])
    modes: list[str] = Field(default_factory=lambda: ["agg"])
    kv: str | None = None
    changes: Changes = Field(default_factory=dict)
    tokens: list[PositiveInt | Literal["users", "isl", "osl"]] = Field(default_factory=list)
    prompts: PositiveInt | None = None
    outputs: PositiveInt | None = None
    tensor: PositiveInt | None = None
    pools: dict[PoolName, dict[str, Any]] = Field(default_factory=dict)
    grouped: dict[PoolName, PositiveInt] = Field(default_factory=dict)
    sequences: dict[str, PositiveInt] = Field(default_factory=dict)

    def fits(self, fields: "InferenceRow") -> bool:
        """Whether it is for the engine, model, machine, layout and lengths of a row."""
        load = fields.serving
        words = (
            (self.engines, load.engine),
            (self.models, fields.model),
            (self.accelerators, fields.accelerator),
            (self.modes, load.mode),
        )
        lengths = ((self.prompts, load.isl), (self.outputs, load.osl))
        return (
            all(matches_any(patterns, word or "") for patterns, word in words)
            and all(own in (None, stated) for own, stated in lengths)
            and (fields.tensor or 1) <= (self.tensor or MOST_USERS)
        )

    def engine_changes(self, load: "ServingLoad") -> Changes:
        """Return the facts of the engine that differ for a load."""
        if not self.tokens:
            return self.changes
        stated = {"users": load.batch_or_concurrency, "isl": load.isl, "osl": load.osl}
        tokens = round(sum(stated[each] if isinstance(each, str) else each for each in self.tokens))
        return self.changes | {"scheduler": self.changes.get("scheduler", {}) | {"tokens": tokens}}

    def layout(self, name: PoolName, stated: Layout) -> Layout:
        """Return the layout of a pool for that of a row."""
        if stated.devices < self.grouped.get(name, MOST_USERS):
            return stated
        return Layout(expert=stated.devices, attention_data=stated.devices)

    def started(self, name: PoolName, topology: str) -> dict[str, Any]:
        """Return what differs in the plan of a pool, apart from its layout."""
        most = self.sequences.get(topology) if name == "decode" else None
        return self.pools.get(name, {}) | ({"sequences": most} if most else {})


class Benchmark(Choice):
    """How a benchmark loads a service, by what cases state of their source.

    `popularity` is the exponent of Zipf's law of the experts that their tokens choose.  The first
    of `recipes` for an engine and a model is how it was started.
    """

    sources: list[str]
    lengths: Spread
    popularity: NotNegative = 0.0
    recipes: list[Recipe] = Field(default_factory=list)


class InferenceSettings(Strict):
    """The file."""

    kind: Literal["inference-settings"]
    formats: dict[str, str]
    machines: list[ServingMachine]
    models: list[ServedModel]
    engines: list[ServingEngine]
    benchmarks: list[Benchmark]


@lru_cache(maxsize=1)
def inference_settings() -> InferenceSettings:
    """Return the shipped file.

    Raises
    ------
    CatalogError
        when it is not valid.
    """
    return shipped_record(InferenceSettings, "validation", "inference_settings")


def matches_any(patterns: Sequence[str], text: str) -> bool:
    """Whether a text matches one of some patterns, in any case."""
    return any(matches(pattern, text) for pattern in patterns)


Checked = TypeVar("Checked", bound=Record)
Changing = TypeVar("Changing", bound=Record)

FAMILY: Final = "inference"
"""The family of rows that are graded here."""

USERS: Final = "agg"
"""The word of a row for a fixed number of users of one pool."""

TRACE: Final = "trace"
"""The word of a row for requests that arrived as in a recorded trace."""

STATIC: Final = "static"
"""The word of a row for a batch that runs from its prompts to its last token."""


class Workers(Section):
    """The workers of one of two separate pools."""

    num_workers: Count = None
    tp_size: Count = None
    pp_size: Count = None
    attention_dp_size: Count = None
    moe_ep_size: Count = None


MOST_USERS: Final = 10**6
"""Maximum number of concurrent requests of a case."""


def _users(value: object) -> object:
    """Reject a number of concurrent requests that no service has."""
    if isinstance(value, int | float) and not 1 <= value <= MOST_USERS:
        raise ValueError(f"must be from 1 to {MOST_USERS:,}, not {value}")
    return value


class ServingLoad(Section):
    """The load of a row: how requests arrive, their number and lengths."""

    mode: Text = None
    engine: Text = None
    batch_or_concurrency: Annotated[Any, AfterValidator(_users)] = None
    isl: Any = None
    osl: Any = None
    lengths: Any = None
    moe_quant: Any = None
    prefill: Workers | None = None
    decode: Workers | None = None


class ServingMeasures(Section):
    """The measured numbers of a row, in the units of their names."""

    latency_s: Number = None
    ttft_ms: Number = None
    tpot_ms: Number = None
    output_tok_s: Number = None
    output_tok_s_per_gpu: Number = None
    input_tok_s_per_gpu: Number = None


class InferenceRow(Section):
    """What a row states in addition to a `Row`; number formats in its own words."""

    accelerator: Text = part("system", "accelerator")
    model: Text = None
    weights: Any = part("precision", "weights")
    kv: Any = part("precision", "kv")
    tensor: Count = part("parallel", "tp")
    pipeline: Count = part("parallel", "pp")
    expert: Count = part("parallel", "ep")
    attention_data: Count = part("parallel", "attention_dp")
    serving: Annotated[ServingLoad, Missing] = ServingLoad()
    measured: Annotated[ServingMeasures, Missing] = ServingMeasures()


class Arrivals(NamedTuple):
    """Requests that arrive at random, as a row describes them in words.

    Attributes
    ----------
    rate : of requests [1/s]
    requests : in all
    """

    rate: float
    requests: int


class InferenceCase(NamedTuple):
    """A row as a replica and its load.

    Attributes
    ----------
    users : requests at the same time of one replica; None where they are not limited
    replicas : of the pool that generates tokens
    assumed : settings that the source does not state, each with the reason for its value
    lengths : how those of requests differ from `prompt` and `output`
    popularity : exponent of Zipf's law of the experts that tokens choose; 0 where they are equal
    changes : facts of the engine file that differ
    arrivals : of requests at a rate; None where the number of users is given, or all begin at once
    pools : plans of separate pools by name; none where a replica does both
    """

    row: InferenceRow
    costs: StepCosts
    cluster: str
    engine: str
    users: int | None
    prompt: int
    output: int
    replicas: int
    assumed: dict[str, str]
    lengths: Any
    popularity: float
    changes: Changes
    arrivals: Arrivals | None
    pools: dict[str, dict[str, Any]]

    @property
    def scenario(self) -> dict[str, Any]:
        """The serving scenario of the row, without its load."""
        formats = self.costs.replica.formats
        plans = self.pools or {"replica": _plan(self.costs.replica.layout, 1)}
        devices = sum(prod(plan[key] for key in _MESH) for plan in plans.values())
        cluster, model = self.costs.replica.links.cluster, self.costs.replica.model
        precision = {key: value for key, value in formats._asdict().items() if value is not None}
        experts = {"load": "zipf", "exponent": self.popularity}
        return ({"experts": experts} if self.popularity else {}) | {
            "title": "measured",
            "cluster": {"name": self.cluster, "nodes": -(-devices // cluster.node.devices)},
            "model": {"name": model.name, "sequence": model.sequence},
            "plan": plans.get("replica", plans),
            "precision": precision,
            "engine": {"name": self.engine, **_as_facts(self.changes)},
        }


def _as_facts(changes: Changes) -> dict[str, dict[str, Any]]:
    """Return changes of an engine file as facts, each with its reason."""
    return {
        section: {
            key: {"value": value, "assumed": "as it was started"} for key, value in own.items()
        }
        for section, own in changes.items()
    }


def _plan(layout: Layout, replicas: int) -> dict[str, int]:
    return {
        "tensor": layout.tensor, "pipeline": layout.pipeline, "expert": layout.expert,
        "attention_data": layout.attention_data, "replicas": replicas,
    }  # fmt: skip


_MESH: Final = ("tensor", "pipeline", "attention_data", "replicas")
"""Degrees of a plan whose product is its devices."""


def _pools(load: ServingLoad, recipe: Recipe | None) -> dict[str, dict[str, Any]]:
    """Return the plans of separate pools; none where a replica does both."""
    if load.prefill is None or load.decode is None:
        return {}
    workers: dict[PoolName, Workers] = {"prefill": load.prefill, "decode": load.decode}
    layouts = {name: _pool_layout(pool) for name, pool in workers.items()}
    if recipe is None:
        return {name: _plan(layouts[name], workers[name].num_workers or 1) for name in workers}
    layouts = {name: recipe.layout(name, layout) for name, layout in layouts.items()}
    decode = layouts["decode"]
    kind = "tep" if decode.attention_data == 1 else "dep"
    counts = {name: pool.num_workers or 1 for name, pool in workers.items()}
    topology = f"{counts['prefill']}p{counts['decode']}d-{kind}{decode.devices}"
    return {
        name: _plan(layouts[name], counts[name]) | recipe.started(name, topology)
        for name in workers
    }


def inference_case(row: Row) -> InferenceCase:
    """Return the replica and the load of a row.

    Raises
    ------
    Ungradable
        with all settings that are missing, or that no file describes.
    """
    fields, settings = family_row(row, InferenceRow), inference_settings()
    load, assumed = fields.serving, dict[str, str]()
    reasons = [*_missing(fields)]
    name = fields.accelerator or ""
    machine = next((m for m in settings.machines if matches_any(m.accelerators, name)), None)
    model = next((m for m in settings.models if matches_any(m.names, fields.model or "")), None)
    engine = next((e for e in settings.engines if matches_any(e.names, load.engine or "")), None)
    reasons += _unknown(fields, machine, model, engine)
    if reasons or machine is None or model is None or engine is None:
        raise Ungradable(*reasons)
    if machine.assumed is not None:
        assumed["system"] = machine.assumed
    benchmark = _benchmark(row, settings)
    recipes = [] if benchmark is None else benchmark.recipes
    recipe = next((each for each in recipes if each.fits(fields)), None)
    layout, replicas = _layout(fields, machine.devices, recipe)
    formats = _formats(fields, model, settings, engine.cache == "argument", recipe, assumed)
    cluster = _record("cluster", machine.cluster, ClusterRecord)
    nodes = -(-layout.devices // cluster.node.devices)
    if nodes > cluster.size:
        stated = f"a layout of {layout.devices:,} devices, but '{machine.cluster}' has"
        most = cluster.size * cluster.node.devices
        raise Ungradable.because("machine too small", f"{stated} {most:,}")
    record = _record("model", model.model, ModelRecord)
    changes = _limits(load) if load.mode == TRACE else recipe.engine_changes(load) if recipe else {}
    transformer = served_model(record, tensor=1)
    popularity = 0.0 if benchmark is None or transformer.experts is None else benchmark.popularity
    replica = build_replica(
        build_cluster(cluster, nodes, issuer="engine"),
        transformer,
        layout,
        formats,
        _changed(_record("engine", engine.engine, EngineRecord), changes),
        _shares(transformer.experts, popularity, layout.expert),
    )
    users = load.batch_or_concurrency
    return InferenceCase(
        fields, StepCosts(replica), machine.cluster, engine.engine,
        int(users) if isinstance(users, int | float) else None,
        round(load.isl), round(load.osl or 1), replicas, assumed,
        _lengths(load, benchmark, assumed), popularity, changes, _arrivals(row, load),
        _pools(load, recipe),
    )  # fmt: skip


def _shares(experts: ExpertShape | None, popularity: float, ranks: int) -> Sequence[float] | None:
    """Return the shares of experts in the tokens; None where they are equal."""
    if experts is None or not popularity:
        return None
    return zipf_shares(experts.count, popularity, ranks)


def _benchmark(row: Row, settings: InferenceSettings) -> Benchmark | None:
    """Return the benchmark that a row is of, by what it states of its source."""
    text = f"{row.source.ref or ''} {row.source.note or ''}"
    return next((each for each in settings.benchmarks if matches_any(each.sources, text)), None)


def _changed(record: Changing, changes: Changes) -> Changing:
    """Return a record with other facts in some of its sections."""
    sections = {key: getattr(record, key).model_copy(update=own) for key, own in changes.items()}
    return record.model_copy(update=sections)


def _lengths(load: ServingLoad, benchmark: Benchmark | None, assumed: dict[str, str]) -> Any:
    """Return how lengths of requests differ from those that a row states."""
    stated = load.lengths
    if stated is not None and stated != TRACE:
        lengths = LENGTH_WORDS.get(stated, stated) if isinstance(stated, str) else stated
        try:
            return _SPREAD.validate_python(lengths)
        except ValidationError:
            known = ", ".join(LENGTH_WORDS)
            raise Ungradable.because(
                "lengths unknown", f"no lengths '{stated}' (known: {known})"
            ) from None
    if load.mode == TRACE:
        assumed["serving.lengths"] = "spread by half of their means, which alone are stated"
        return _SPREAD.validate_python(LENGTH_WORDS["lognormal"])
    if benchmark is None:
        assumed["serving.lengths"] = "fixed, as no others are stated"
        return FIXED
    return benchmark.lengths


LENGTH_WORDS: Final[Mapping[str, Any]] = {
    FIXED: FIXED,
    "uniform": {"uniform": 0.8},
    "lognormal": {"lognormal": 0.5},
}
"""Lengths of requests by the word of a row: those of InferenceX, whose ``random-range-ratio`` is
0.8, and log-normal ones with an assumed deviation of half of their mean.  The throughput of two
traces is predicted 12 to 14 % higher without any, and 38 % lower with as much as the mean."""

_SPREAD: Final[TypeAdapter[Any]] = TypeAdapter(Spread)


def _arrivals(row: Row, load: ServingLoad) -> Arrivals | None:
    """Return the arrivals of a trace: ``poisson 10 req/s, max_num_seqs 128``, and the number."""
    if load.mode != TRACE:
        return None
    rate = re.search(r"poisson ([\d.]+) req/s", str(load.batch_or_concurrency))
    count = re.search(r"(\d+)\b[^;]* requests", row.source.note or "")
    if rate is None or count is None:
        what = "rate of arrivals" if rate is None else "number of requests"
        raise Ungradable(not_stated(what))
    return Arrivals(float(rate[1]), int(count[1]))


def _limits(load: ServingLoad) -> Changes:
    """Return the limits of a scheduler that a trace states: sequences, and tokens of a step."""
    named = {"sequences": "max_num_seqs", "tokens": "max_num_batched_tokens"}
    words = str(load.batch_or_concurrency)
    matches = {key: re.search(rf"\b{name} (\d+)", words) for key, name in named.items()}
    limits = {key: int(match[1]) for key, match in matches.items() if match is not None}
    return {"scheduler": limits} if limits else {}


def _record(kind: str, name: str, of: type[Checked]) -> Checked:
    record = entry(kind, name).record
    assert isinstance(record, of), f"{kind} files are {of.__name__}"
    return record


def _missing(fields: InferenceRow) -> list[Reason]:
    """Return what a row leaves out."""
    load = fields.serving
    needed = {
        "input length": isinstance(load.isl, int | float),
        "output length": isinstance(load.osl, int | float) or load.mode in _WITHOUT_OUTPUT,
        "number formats": fields.weights is not None,
        "layout": fields.tensor is not None or load.decode is not None,
    }
    if load.mode in _WITH_USERS:
        needed["number of users"] = isinstance(load.batch_or_concurrency, int | float)
    return [not_stated(what) for what, known in needed.items() if not known]


_WITHOUT_OUTPUT: Final = frozenset({"disagg_prefill", "disagg_decode", "prefill_only"})
_WITH_USERS: Final = frozenset({"static", "agg", "disagg", "disagg_decode", "decode_only"})


def _unknown(
    fields: InferenceRow, machine: object, model: ServedModel | None, engine: object
) -> list[Reason]:
    """Return what no file describes, or a required setting of the model that is not stated."""
    words = {
        "machine": (machine, fields.accelerator),
        "model": (model, fields.model),
        "engine": (engine, fields.serving.engine),
    }
    reasons = [
        Reason(f"no file of its {what}", f"no {what} file of '{word}'")
        for what, (file, word) in words.items()
        if file is None
    ]
    unstated = None if model is None else model.unstated
    if unstated and matches_any(unstated.engines, fields.serving.engine or ""):
        reasons.append(not_stated(unstated.what))
    return reasons


def _layout(fields: InferenceRow, devices: int, recipe: Recipe | None) -> tuple[Layout, int]:
    """Return the layout of a replica, and the replicas of the pool that generates tokens."""
    pool = fields.serving.decode
    if pool is not None:
        stated = _pool_layout(pool)
        layout = stated if recipe is None else recipe.layout("decode", stated)
        return layout, pool.num_workers or 1
    degrees = fields.pipeline or 1, fields.expert or 1, fields.attention_data or 1
    return Layout((fields.tensor or 1) * devices, *degrees), 1


def _pool_layout(pool: Workers) -> Layout:
    return Layout(
        pool.tp_size or 1, pool.pp_size or 1, pool.moe_ep_size or 1, pool.attention_dp_size or 1
    )


def _formats(
    fields: InferenceRow,
    model: ServedModel,
    settings: InferenceSettings,
    requested: bool,
    recipe: Recipe | None,
    assumed: dict[str, str],
) -> Formats:
    """Return the number formats of a row; those of an unstated cache are assumed.

    Parameters
    ----------
    requested : whether the engine has a cache of 8 bits on request only
    recipe : how the engine was started, where that is recorded
    """
    words = settings.formats
    stated = fields.weights
    weights = words.get(str(fields.serving.moe_quant), words.get(str(stated), ""))
    if not isinstance(stated, str):
        weights = "bf16"
        assumed["precision.weights"] = "16 bits, as no quantisation is named"
    if weights not in WEIGHTS:
        raise Ungradable.because("number format unknown", f"no number format '{stated}'")
    wide = weights if WEIGHTS[weights] == WEIGHTS["bf16"] else "bf16"
    parts = model.formats.get(weights, {"weights": weights})
    kv = words.get(str(fields.kv), "")
    if not kv and recipe is not None and recipe.kv is not None:
        kv = recipe.kv
        assumed["precision.kv"] = f"as in the recipe: {recipe.source or recipe.assumed}"
    elif not kv:
        scaled = parts["weights"] == "nvfp4" or not (requested or weights == wide)
        kv = "fp8" if scaled else wide
        assumed["precision.kv"] = (
            "8 bits, as in checkpoints of these weights" if scaled else "16 bits, the default"
        )
    return Formats(kv=kv, wide=wide, **parts)
