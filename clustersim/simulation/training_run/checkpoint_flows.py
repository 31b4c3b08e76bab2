"""Checkpoints as flows: how long a save blocks the work, until it is durable, and a load.

    synchronous    devices --NIC--> storage                                block = durable
    asynchronous   devices --> host, then host --NIC--> storage            block | drain
    local          devices --> drives of the node, then --NIC--> storage   block | drain
    memory         devices --> host, then host --NIC--> hosts of peers     block | copies

Flows of all ranks share the storage by max-min fairness; each is limited by its share of the links
of its node.  The fabric between NICs and storage is taken as wide enough.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from math import ceil, inf
from typing import Any, Final

from clustersim.catalog.records.machines import StorageFacts
from clustersim.cost.host import host_rate
from clustersim.engine.network.background_traffic import contended_seconds
from clustersim.engine.network.fairness import Problem, max_min_rates
from clustersim.errors import PlanError
from clustersim.memory.states import memory_recipe
from clustersim.program.job import Job
from clustersim.records import dataclass
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import ClusterUse, Scenario
from clustersim.scenario.training import CheckpointFile
from clustersim.simulation.step.build import build_job
from clustersim.traffic import Traffic


@dataclass(frozen=True)
class RankStates:
    """Ranks that save and load the same amounts.

    Attributes
    ----------
    ranks : number of ranks
    saved : bytes that each of them saves [B]
    loaded : bytes that each of them loads [B]
    """

    ranks: int
    saved: float
    loaded: float


@dataclass(frozen=True)
class Contention:
    """A drain and the steps that run with it, on the NICs of a node.

    Attributes
    ----------
    share : share of the NICs that steps have [unitless]
    step : time of a step with the drain over the time without it [unitless]
    drain : time of the drain with steps over the time without them [unitless]
    """

    share: float = 1.0
    step: float = 1.0
    drain: float = 1.0


@dataclass(frozen=True)
class CheckpointTimes:
    """Times of a checkpoint of a job.

    Attributes
    ----------
    nbytes : of a checkpoint [B]
    block : time for which a save blocks the work [s]
    durable : time from the start of a save until it is durable [s]
    on_nodes : time until it survives failures that lose no node [s]
    load : time to load one [s]
    limit : what limits the rate of writing, in words
    node_rate : rate at which each node drains a save while steps run; 0 if it does not [B/s]
    contention : of this drain with the steps
    storage : name of the storage; None without one
    assumed : keys of the cluster that are assumed for it, with the reason
    """

    nbytes: float
    block: float
    durable: float
    on_nodes: float
    load: float
    limit: str
    node_rate: float = 0.0
    contention: Contention = Contention()
    storage: str | None = None
    assumed: Mapping[str, str] = field(default_factory=dict)

    @property
    def drain(self) -> float:
        """Time between the end of the block and durability [s]."""
        return self.durable - self.block


assumed_storage: Final = (
    "storage of a DGX SuperPOD for each 32 nodes of 8 devices, as NVIDIA's reference architecture"
    " of H100 recommends it (table 6, better): 20 GB/s of writes and 40 GB/s of reads, of which a"
    " node reaches 4 and 8 GB/s"
)
"""The storage of clusters that state none: a common one, as recommended."""

_UNIT_NODES: Final = 32

_NODE_DEVICES: Final = 8
"""Devices of a node of that architecture: a rack of 72 is nine of them."""


def storage_of(cluster: ClusterUse) -> tuple[StorageFacts, Mapping[str, str]]:
    """Return the storage of a cluster, and the keys that are assumed for it with the reason."""
    stated = cluster.storage
    if stated is not None and stated.write is not None:
        return stated, {}
    each = max(1.0, cluster.node.devices / _NODE_DEVICES)
    units = ceil(cluster.nodes * each / _UNIT_NODES)

    def rate(gigabytes: float) -> dict[str, Any]:
        return {"value": f"{gigabytes} GB/s", "assumed": assumed_storage}

    assumed = {
        "name": "assumed storage of a DGX SuperPOD",
        "network": {"value": "separate", "assumed": assumed_storage},
        "write": {"bandwidth": rate(20 * units)},
        "read": {"bandwidth": rate(40 * units)},
        "client": {"write": rate(4 * each), "read": rate(8 * each)},
    }
    local = {} if stated is None else {"local": stated.local}
    storage = StorageFacts.model_validate(assumed).model_copy(update=local)
    return storage, {"cluster.storage": assumed_storage}


def rank_states(job: Job) -> list[RankStates]:
    """Return what the ranks of a job save and load.

    Weights are saved by the ranks of one replica, and master weights and optimiser states by the
    ranks that have them: all with ZeRO, those of one replica without.  Each rank loads its own.
    Frozen weights and gradients are not saved.
    """
    recipe, plan, states = memory_recipe(job), job.plan, []
    stated = job.framework.state[job.precision].saved
    saved = recipe.weights + recipe.master + recipe.optimiser
    saved = saved if stated is None else stated
    weight = min(recipe.weights, saved)
    ranks = plan.cell * plan.data
    for stage in range(plan.pipeline):
        trained = job.weights.trained(stage)
        weights = weight * job.weights.on_rank(trained, sharded=plan.zero >= 3)
        others = (saved - weight) * job.weights.on_rank(trained, sharded=plan.zero >= 1)
        whole, of_weights = saved * trained.all, weight * trained.all
        savers = max(1, round(of_weights / weights)) if weights else 1
        savers = min(savers, ranks)
        rest = (whole - of_weights) / ranks if plan.zero else 0.0
        own = of_weights / savers + rest if plan.zero else whole / savers
        states.append(RankStates(savers, own, weights + others))
        states.append(RankStates(ranks - savers, rest, weights + others))
    return [state for state in states if state.ranks]


def copy_seconds(job: Job, states: Sequence[RankStates]) -> float:
    """Return the time of a copy of the largest share of a rank to its host [s]."""
    host = host_rate(job.cluster)
    return host.latency + max(state.saved for state in states) / host.to_host


def predict_checkpoint(loaded: Loaded, checkpoint: CheckpointFile) -> CheckpointTimes:
    """Return the times of a checkpoint of a scenario, without the steps that run with its drain.

    Raises
    ------
    PlanError
        when the cluster has no storage that the mode needs.
    """
    job = build_job(loaded)
    states = rank_states(job)
    nbytes = checkpoint.size or sum(state.ranks * state.saved for state in states)
    scale = nbytes / sum(state.ranks * state.saved for state in states)
    states = [replace(s, saved=s.saved * scale, loaded=s.loaded * scale) for s in states]
    saving = _Saving(loaded, job, states, nbytes)
    times = saving.times(checkpoint)
    block = times.block if checkpoint.block is None else checkpoint.block
    durable = block + times.drain if checkpoint.durable is None else checkpoint.durable
    on_nodes = min(max(times.on_nodes, block), max(durable, block))
    return replace(times, block=block, durable=max(durable, block), on_nodes=on_nodes)


class _Saving:
    """The paths of the states of a job to what they are saved on."""

    def __init__(self, loaded: Loaded, job: Job, states: list[RankStates], nbytes: float) -> None:
        self._loaded, self._job, self._states, self._nbytes = loaded, job, states, nbytes
        self._scenario: Scenario = loaded.scenario
        self._storage, self._assumed = storage_of(loaded.scenario.cluster)

    def times(self, checkpoint: CheckpointFile) -> CheckpointTimes:
        """Return the times of a save and of a load."""
        stated = checkpoint.block is not None and checkpoint.durable is not None
        if stated and self._assumed:
            return CheckpointTimes(
                self._nbytes, checkpoint.block or 0.0, checkpoint.durable or 0.0,
                checkpoint.block or 0.0, 0.0, "stated in the scenario",
            )  # fmt: skip
        if checkpoint.mode == "memory":
            return self._memory(checkpoint.copies)
        name, assumed = self._storage.name, self._assumed
        return replace(self._stored(checkpoint.mode), storage=name, assumed=assumed)

    def _stored(self, mode: str) -> CheckpointTimes:
        """Return the times of a save to the storage: at once, or after a copy on the nodes."""
        if mode == "synchronous":
            seconds, limit = self._moved()
            load, _ = self._moved(reads=True)
            return CheckpointTimes(self._nbytes, seconds, seconds, seconds, load, limit)
        block = self._on_drives() if mode == "local" else self._copied()
        seconds, limit = self._moved()
        load, _ = self._moved(reads=True)
        durable = block + seconds
        on_nodes = block if mode == "local" else durable
        rate = self._of_fullest_node() / seconds if self._on_fabric() else 0.0
        return CheckpointTimes(self._nbytes, block, durable, on_nodes, load, limit, rate)

    def _on_drives(self) -> float:
        """Return the time of a save to the drives of the nodes, after a copy to the hosts [s]."""
        local = self._storage.local
        if local is None:
            raise PlanError(
                f"{self._where('mode')}: 'local' needs drives of the nodes, which cluster"
                f" '{self._scenario.cluster.name}' does not state (cluster.storage.local)"
            )
        per_node = self._of_fullest_node()
        if local.capacity is not None and per_node > local.capacity:
            raise PlanError(
                f"{self._where('mode')}: a node saves {per_node / 1e9:,.0f} GB, more than the"
                f" {local.capacity / 1e9:,.0f} GB of its drives (cluster.storage.local)"
            )
        return max(per_node / local.write, self._copied())

    def _memory(self, copies: int) -> CheckpointTimes:
        nodes = self._scenario.cluster.nodes
        if copies > nodes:
            raise PlanError(
                f"{self._where('copies')}: {copies} copies need as many nodes, the job has {nodes}"
            )
        copy, rate = self._copied(), nic_rate(self._scenario)
        seconds = (copies - 1) * self._of_fullest_node() / rate
        load = self._of_fullest_node(loaded=True) / rate
        return CheckpointTimes(
            self._nbytes, copy, copy + seconds, copy + seconds, load, "NICs of the nodes", rate
        )

    # --- rates ------------------------------------------------------------------------------------

    def _where(self, key: str) -> str:
        return self._loaded.where("training", "checkpoint", key)

    def _on_fabric(self) -> bool:
        return self._storage.network == "fabric"

    def _copied(self) -> float:
        """Return the time of a copy of the largest share of a rank to its host [s]."""
        return copy_seconds(self._job, self._states)

    def _of_fullest_node(self, *, loaded: bool = False) -> float:
        """Return the bytes that a node saves or loads, where all its ranks are of one kind [B]."""
        amounts = [state.loaded if loaded else state.saved for state in self._states]
        return max(amounts) * self._job.cluster.node.devices

    def _moved(self, *, reads: bool = False) -> tuple[float, str]:
        """Return when the last flow between ranks and storage ends [s], and what limits it most."""
        storage = self._storage
        rate = storage.read if reads else storage.write
        assert rate is not None, "a system that is written is read"
        of_node = [nic_rate(self._scenario)] if self._on_fabric() else []
        if storage.client is not None:
            of_node.append(storage.client.read if reads else storage.client.write)
        cap = min(of_node, default=inf) / self._job.cluster.node.devices
        amounts = [(state.ranks, state.loaded if reads else state.saved) for state in self._states]
        flows = [
            Traffic(str(i), (0,), (float(ranks),), nbytes, 0.0, cap)
            for i, (ranks, nbytes) in enumerate(amounts)
            if nbytes
        ]
        seconds = max(contended_seconds(flows, (), [rate.achieved]), default=0.0)
        alone = max((nbytes / cap for _, nbytes in amounts), default=0.0)
        limit = "NICs of the nodes" if 2 * alone >= seconds else "storage servers"
        if limit != "storage servers" and not self._on_fabric():
            limit = "clients of the storage"
        return seconds, limit


# --- concurrent steps -----------------------------------------------------------------------------


def share_for_steps(drain: float, nics: float) -> float:
    """Return the share of a node's NICs that steps get while a save is drained [unitless].

    The flow of the drain and a flow of the steps share the NICs by max-min fairness.

    >>> share_for_steps(10.0, 100.0), share_for_steps(90.0, 100.0)
    (0.9, 0.5)
    """
    flows = Problem([nics], [[0], [0]], [[1.0], [1.0]], [drain, inf])
    _, steps = max_min_rates(flows)
    return steps / nics


def nic_rate(scenario: Scenario) -> float:
    """Return the payload rate of all NICs of a node, in one direction [B/s]."""
    nic, nics = scenario.cluster.nic, scenario.cluster.node.nics
    return len(nics.devices) * nic.bandwidth * nic.efficiency


def with_steps(times: CheckpointTimes, nics: float, busy: float, slower: float) -> CheckpointTimes:
    """Return the times of a checkpoint whose drain shares the NICs with steps.

    Parameters
    ----------
    nics : rate of the NICs of a node [B/s]
    busy : share of a step in which it uses them [unitless]
    slower : time of a step with its share of the NICs over that with all of them [unitless]
    """
    share = share_for_steps(times.node_rate, nics)
    left = min(times.node_rate, nics / 2)
    rate = times.node_rate * (1 - busy) + left * busy
    longer = times.node_rate / rate
    durable = times.block + times.drain * longer
    on_nodes = times.on_nodes if times.on_nodes <= times.block else durable
    return replace(
        times, durable=durable, on_nodes=on_nodes, contention=Contention(share, slower, longer)
    )
