"""From a serving scenario to its replicas: layouts, number formats, load of experts, drafting."""

from clustersim.catalog.records.engines import EngineRecord
from clustersim.catalog.records.models import ModelRecord
from clustersim.errors import PlanError
from clustersim.inference.formats import Formats
from clustersim.inference.layout import Layout
from clustersim.inference.replica import build_replica
from clustersim.inference.step_costs import NO_DRAFTING, Drafting, StepCosts
from clustersim.inference.tables import MOST_KEYS
from clustersim.records import dataclass
from clustersim.scenario.load import LoadedService
from clustersim.scenario.serving import (
    FormatsFile,
    PoolFile,
    ReplicaFile,
    ServingScenario,
    replica_devices,
)
from clustersim.topology.cluster import Cluster, build_cluster
from clustersim.units import counted
from clustersim.workload.model import Transformer, build_model
from clustersim.workload.routing import zipf_shares


@dataclass(frozen=True, eq=False)
class Pool:
    """Replicas that are alike.

    Attributes
    ----------
    name : ``prefill``, ``decode``, or ``replica`` where a replica does both
    costs : of a step, and memory
    replicas : number of them
    first : their first device
    """

    name: str
    costs: StepCosts
    replicas: int
    first: int

    @property
    def layout(self) -> Layout:
        """Layout of a replica."""
        return self.costs.replica.layout

    @property
    def devices(self) -> int:
        """Devices of all of them."""
        return self.replicas * self.layout.devices


def build_pools(loaded: LoadedService, prompts: int) -> tuple[Pool, ...]:
    """Return the replicas of a scenario: one pool, or those for prefill and decode.

    Parameters
    ----------
    prompts : tokens of all prompts, of which a static batch has no more

    Raises
    ------
    PlanError
        one line for each problem of the layout.
    """
    scenario, plan = loaded.scenario, loaded.scenario.plan
    cluster = build_cluster(scenario.cluster, scenario.cluster.nodes, issuer="engine")
    _check_devices(loaded, cluster)
    _check_experts(loaded)
    files: dict[str, ReplicaFile] = {"replica": plan}
    if plan.prefill is not None and plan.decode is not None:
        files = {"prefill": plan.prefill, "decode": plan.decode}
    static = scenario.engine.scheduler.batching == "static"
    most_tokens = prompts if static else None
    pools, first = [], 0
    for name, file in files.items():
        costs = _step_costs(loaded, cluster, file, first, most_tokens)
        pools.append(Pool(name, costs, file.replicas, first))
        first += replica_devices(file)
    return tuple(pools)


def _step_costs(
    loaded: LoadedService, cluster: Cluster, file: ReplicaFile, first: int, most_tokens: int | None
) -> StepCosts:
    """Return the costs of a step of a replica; problems with the file and line of their keys."""
    scenario = loaded.scenario
    model = served_model(scenario.model, file.tensor)
    layout = Layout(file.tensor, file.pipeline, file.expert, file.attention_data, file.context)
    formats, shares = formats_of(scenario), _shares(scenario, model, file.expert)
    try:
        drafting = _drafting(scenario, cluster, file, first)
        engine = _engine(scenario.engine, file)
        replica = build_replica(cluster, model, layout, formats, engine, shares, first)
    except PlanError as problems:
        lines = [line.partition(": ") for line in str(problems).splitlines()]
        located = [f"{loaded.where(*key.split('.'))}: {text}" for key, _, text in lines]
        raise PlanError("\n".join(located)) from None
    return StepCosts(replica, drafting, most_tokens)


def served_model(record: ModelRecord, tensor: int) -> Transformer:
    """Return a model whose requests may exceed the sequences of its training, and its windows."""
    longest = record.sequence if record.positions == "learned" else MOST_KEYS
    return build_model(record, max(record.sequence, longest), 1, tensor)


def _engine(engine: EngineRecord, file: ReplicaFile) -> EngineRecord:
    """Return an engine as it is started for a pool."""
    if not isinstance(file, PoolFile):
        return engine
    stated = {name: getattr(file, name) for name in ("sequences", "tokens", "ahead")}
    changes = {name: value for name, value in stated.items() if value is not None}
    scheduler = engine.scheduler.model_copy(update=changes)
    graphs = None if file.graphs is False else engine.graphs
    return engine.model_copy(update={"scheduler": scheduler, "graphs": graphs})


def _drafting(
    scenario: ServingScenario, cluster: Cluster, file: ReplicaFile, first: int
) -> Drafting:
    """Return how tokens are drafted; a draft model is distributed as the attention is."""
    speculation = scenario.speculation
    if speculation is None:
        return NO_DRAFTING
    for record in (scenario.model, speculation.draft):
        if record is not None and record.mamba is not None:
            raise PlanError(
                f"speculation: is not modelled with layers of {record.mamba.kind}, which"
                f" '{record.name}' has (leave it out)"
            )
    if speculation.draft is None:
        return Drafting(speculation.tokens, share=speculation.share or 0.0)
    if file.pipeline > 1:
        raise PlanError(
            f"speculation: a draft model needs one stage, not {file.pipeline}"
            " (plan.pipeline: 1, or share instead of draft)"
        )
    model = served_model(speculation.draft, file.tensor)
    layout = Layout(file.tensor, attention_data=file.attention_data, context=file.context)
    formats = formats_of(scenario)._replace(attention=None, experts=None)
    replica = build_replica(cluster, model, layout, formats, scenario.engine, first=first)
    return Drafting(speculation.tokens, StepCosts(replica))


def _check_devices(loaded: LoadedService, cluster: Cluster) -> None:
    """Check that the cluster has the devices of all replicas."""
    record, devices = loaded.scenario.cluster, loaded.scenario.devices
    if record.nodes > record.size:
        raise PlanError(
            f"{loaded.where('cluster', 'nodes')}: {record.nodes} nodes, but '{record.name}' has"
            f" {record.size}"
        )
    if devices > cluster.devices:
        raise PlanError(
            f"{loaded.where('plan')}: the replicas need {devices:,} devices, but there are"
            f" {cluster.devices:,} on {counted(record.nodes, 'node')} of '{record.name}'"
            f" (cluster.nodes: {-(-devices // record.node.devices):,})"
        )


def _check_experts(loaded: LoadedService) -> None:
    """Check that the load of experts belongs to the experts of the model."""
    scenario = loaded.scenario
    load, shape = scenario.experts, scenario.model.experts
    if load is None:
        return
    if shape is None:
        raise PlanError(
            f"{loaded.where('experts')}: '{scenario.model.name}' has no experts (leave it out)"
        )
    for key, wrong in (
        ("histogram", load.load == "histogram" and len(load.histogram) != shape.count),
        ("tasks", load.load == "task-gate" and len(load.tasks) > shape.count),
    ):
        if wrong:
            raise PlanError(
                f"{loaded.where('experts', key)}: {len(getattr(load, key))} entries, but"
                f" '{scenario.model.name}' has {shape.count} experts"
            )


def formats_of(scenario: ServingScenario) -> Formats:
    """Return the number formats of a scenario; those of 16 bits follow its other ones."""
    stated = scenario.precision
    if not isinstance(stated, FormatsFile):
        stated = FormatsFile(weights=stated)
    fields = {name: getattr(stated, name) for name in Formats._fields}
    wide = stated.wide or ("fp16" if "fp16" in fields.values() else "bf16")
    return Formats(**{**fields, "wide": wide, "kv": stated.kv or wide})


def _shares(scenario: ServingScenario, model: Transformer, ranks: int) -> list[float] | None:
    """Return the shares of the experts in the tokens; None where they are equal."""
    load = scenario.experts
    if load is None or load.load == "balanced" or model.experts is None:
        return None
    if load.load == "zipf":
        return zipf_shares(model.experts.count, load.exponent, ranks)
    if load.load == "histogram":
        return load.histogram
    return [*load.tasks, *[0.0] * (model.experts.count - len(load.tasks))]
