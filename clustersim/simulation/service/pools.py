"""From a serving scenario to its replicas: costs of steps, KV blocks, rules, links of pools."""

from dataclasses import dataclass
from itertools import count
from math import inf

from clustersim.cost import closed_form
from clustersim.engine.requests.handover import KvLinks
from clustersim.engine.requests.scheduling import ReplicaModel, Scheduling
from clustersim.errors import PlanError
from clustersim.inference.batch import Batch, Prompt
from clustersim.inference.drafting import NONE, Drafting
from clustersim.inference.formats import Formats
from clustersim.inference.layout import Layout
from clustersim.inference.step_costs import Service
from clustersim.scenario.load import LoadedService
from clustersim.scenario.serving import FormatsFile, ReplicaFile, ServingScenario, replica_devices
from clustersim.topology.cluster import Cluster, build_cluster
from clustersim.traffic import Traffic
from clustersim.workload.model import Transformer, build_model
from clustersim.workload.routing import zipf_shares


@dataclass(frozen=True, eq=False)
class Pool:
    """Replicas that are alike.

    Attributes
    ----------
    name : ``prefill``, ``decode``, or ``replica`` where a replica does both
    service : cost of a step, and memory
    replicas : number of them
    first : their first device
    """

    name: str
    service: Service
    replicas: int
    first: int

    @property
    def devices(self) -> int:
        """Devices of all of them."""
        return self.replicas * self.service.layout.devices


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
    given, plan = loaded.scenario, loaded.scenario.plan
    cluster = build_cluster(given.cluster, given.cluster.nodes, queued=True)
    _check_devices(loaded, cluster)
    _check_experts(loaded)
    wished: dict[str, ReplicaFile] = {"replica": plan}
    if plan.prefill is not None and plan.decode is not None:
        wished = {"prefill": plan.prefill, "decode": plan.decode}
    pools, first = [], 0
    for name, wish in wished.items():
        model = build_model(given.model, given.model.sequence, 1, wish.tensor)
        service = _service(loaded, cluster, model, wish, first, prompts)
        pools.append(Pool(name, service, wish.replicas, first))
        first += replica_devices(wish)
    return tuple(pools)


def _service(
    loaded: LoadedService,
    cluster: Cluster,
    model: Transformer,
    wish: ReplicaFile,
    first: int,
    prompts: int,
) -> Service:
    given = loaded.scenario
    layout = Layout(wish.tensor, wish.pipeline, wish.expert, wish.attention_data, wish.context)
    static = given.engine.scheduler.batching.value == "static"
    try:
        return Service(
            cluster, model, layout, _formats(given), given.engine,
            _shares(given, model, wish.expert), first, _drafting(loaded, cluster, wish, first),
            prompts if static else None,
        )  # fmt: skip
    except PlanError as problems:
        lines = str(problems).splitlines()
        raise PlanError("\n".join(_placed(loaded, line) for line in lines)) from None


def _drafting(loaded: LoadedService, cluster: Cluster, wish: ReplicaFile, first: int) -> Drafting:
    """Return how tokens are drafted; a draft model is distributed as the attention is."""
    given = loaded.scenario.speculation
    if given is None:
        return NONE
    if given.draft is None:
        return Drafting(given.tokens, share=given.share or 0.0)
    if wish.pipeline > 1:
        raise PlanError(
            f"speculation: a draft model needs one stage, not {wish.pipeline}"
            " (plan.pipeline: 1, or share instead of draft)"
        )
    model = build_model(given.draft, given.draft.sequence, 1, wish.tensor)
    layout = Layout(wish.tensor, attention_data=wish.attention_data, context=wish.context)
    formats = _formats(loaded.scenario)._replace(attention=None, experts=None)
    service = Service(cluster, model, layout, formats, loaded.scenario.engine, first=first)
    return Drafting(given.tokens, service)


def _placed(loaded: LoadedService, problem: str) -> str:
    """Return a problem with the file and line of the key that it begins with."""
    key, _, rest = problem.partition(": ")
    return f"{loaded.where(*key.split('.'))}: {rest}"


def _check_devices(loaded: LoadedService, cluster: Cluster) -> None:
    """Check that the cluster has the devices of all replicas."""
    given = loaded.scenario
    if given.cluster.nodes > given.cluster.size.value:
        raise PlanError(
            f"{loaded.where('cluster', 'nodes')}: {given.cluster.nodes} nodes, but"
            f" '{given.cluster.name}' has {given.cluster.size.value}"
        )
    if given.devices > cluster.devices:
        raise PlanError(
            f"{loaded.where('plan')}: the replicas need {given.devices:,} devices, but"
            f" {given.cluster.nodes:,} nodes of '{given.cluster.name}' have {cluster.devices:,}"
            f" (cluster.nodes: {-(-given.devices // given.cluster.node.devices.value):,})"
        )


def _check_experts(loaded: LoadedService) -> None:
    """Check that the load of experts belongs to the experts of the model."""
    given = loaded.scenario
    wish, shape = given.experts, given.model.experts
    if wish is None:
        return
    if shape is None:
        raise PlanError(
            f"{loaded.where('experts')}: '{given.model.name}' has no experts (leave it out)"
        )
    for key, wrong in (
        ("histogram", wish.load == "histogram" and len(wish.histogram) != shape.count),
        ("tasks", wish.load == "task-gate" and len(wish.tasks) > shape.count),
    ):
        if wrong:
            raise PlanError(
                f"{loaded.where('experts', key)}: {len(getattr(wish, key))} entries, but"
                f" '{given.model.name}' has {shape.count} experts"
            )


def _formats(given: ServingScenario) -> Formats:
    """Return the number formats of a scenario; those of 16 bits follow its other ones."""
    wish = given.precision
    if not isinstance(wish, FormatsFile):
        wish = FormatsFile(weights=wish)
    named = (wish.weights, wish.activations, wish.kv, wish.attention, wish.experts)
    wide = wish.wide or ("fp16" if "fp16" in named else "bf16")
    return Formats(
        weights=wish.weights,
        activations=wish.activations,
        kv=wish.kv or wide,
        wide=wide,
        attention=wish.attention,
        experts=wish.experts,
    )


def _shares(given: ServingScenario, model: Transformer, ranks: int) -> list[float] | None:
    """Return the shares of the experts in the tokens; None where they are equal."""
    wish = given.experts
    if wish is None or wish.load == "balanced" or model.experts is None:
        return None
    if wish.load == "zipf":
        return zipf_shares(model.experts.count, wish.exponent, ranks)
    if wish.load == "histogram":
        return wish.histogram
    return [*wish.tasks, *[0.0] * (model.experts.count - len(wish.tasks))]


# --- replicas on the clock ------------------------------------------------------------------------


def replica_model(pool: Pool, given: ServingScenario) -> ReplicaModel:
    """Return a replica of a pool as requests see it."""
    service, facts = pool.service, given.engine.scheduler
    static = facts.batching.value == "static"
    rules = Scheduling(
        continuous=not static,
        mixed=facts.mixed.value,
        chunked=facts.chunked.value,
        budget=inf if static else facts.tokens.value * service.layout.attention_data,
        sequences=facts.sequences.value * service.layout.attention_data,
        reserve=facts.reserved.value,
        preemption=facts.preemption.value,
        swap=_swap(service),
    )
    block = facts.block.value
    return ReplicaModel(
        seconds=service.seconds,
        slowest=service.slowest,
        blocks=service.kv_tokens // block,
        block_tokens=block,
        stages=service.layout.pipeline,
        scheduling=rules,
        gain=gain(given),
    )


def gain(given: ServingScenario) -> float:
    r"""Return the tokens that a sequence gains in a step [unitless].

    .. math:: \frac{1 - a^{d + 1}}{1 - a}

    with d drafted tokens and acceptance a. Leviathan et al. 2023, equation 1, arXiv:2211.17192.
    """
    wish = given.speculation
    if wish is None:
        return 1.0
    return sum(wish.acceptance**i for i in range(wish.tokens + 1))


def _swap(service: Service) -> float:
    """Return the time to copy a token of the KV cache of a replica to the host [s]."""
    cluster = service.replica.links.cluster
    route = cluster.to_host(0)
    rate = float(cluster.links.capacities[list(route.links)].min())
    return service.kv_bytes_per_token / (service.layout.devices * rate)


# --- from pool to pool ----------------------------------------------------------------------------


def kv_links(prefill: Pool, decode: Pool, given: ServingScenario, cluster: Cluster) -> KvLinks:
    """Return the links over which KV caches move.

    Each device sends its share to its peer.  Layer by layer, all but the last layer move while the
    prompt is processed, as far as the links are fast enough.
    """
    senders = [_holders(prefill, number) for number in range(prefill.replicas)]
    receivers = [_holders(decode, number) for number in range(decode.replicas)]
    turn = count()
    width, layers = decode.service.kv_bytes_per_token, decode.service.model.layers

    def traffic(sender: int, receiver: int, tokens: int) -> Traffic:
        number = next(turn)
        target = receivers[receiver][number % len(receivers[receiver])]
        source = senders[sender][number % len(senders[sender])]
        flows = max(len(source), len(target))
        pairs = [(source[i % len(source)], target[i % len(target)]) for i in range(flows)]
        moved = _traffic(cluster, pairs, width * tokens / flows)
        if given.plan.transfer == "whole":
            return moved
        rate = moved.uncontended_rate(cluster.links.capacities.tolist())
        during = prefill.service.seconds(Batch(0, 0, (Prompt(tokens, 0),)))
        hidden = min(moved.nbytes, rate * during) * (layers - 1) / layers
        return moved._replace(nbytes=moved.nbytes - hidden)

    return KvLinks(cluster.links.capacities.tolist(), traffic)


def _holders(pool: Pool, replica: int) -> list[list[int]]:
    """Return the devices that hold the KV cache of a request, for each group of attention."""
    layout = pool.service.layout
    mesh = layout.mesh + pool.first + replica * layout.devices
    groups = range(layout.attention_data)
    return [mesh[:, group].ravel().tolist() for group in groups]


def _traffic(cluster: Cluster, pairs: list[tuple[int, int]], nbytes: float) -> Traffic:
    """Return equal flows between pairs of devices."""
    weights: dict[int, float] = {}
    latency, cap, wire = 0.0, inf, nbytes
    for pair in pairs:
        route = cluster.route(*pair)
        rate = float(cluster.links.capacities[list(route.links)].min())
        cost = closed_form.message_cost(nbytes, route.network, rate, route.latency, cluster.library)
        latency, cap = max(latency, cost.latency), min(cap, cost.rate)
        wire = max(wire, cost.nbytes)
        for link in route.links:
            weights[link] = weights.get(link, 0.0) + 1.0
    links = tuple(sorted(weights))
    flows = tuple(weights[link] for link in links)
    return Traffic("KV cache", links, flows, wire, latency, cap)
