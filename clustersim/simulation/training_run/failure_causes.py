"""The causes of failures of a scenario's job: rates of its parts, and how each restarts."""

from collections.abc import Iterator
from dataclasses import replace

from clustersim.catalog.reliability import CauseFacts
from clustersim.errors import PlanError
from clustersim.failures.causes import FailureCause
from clustersim.failures.renewal import NEVER
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import Scenario
from clustersim.scenario.training import RestartFile, Training
from clustersim.simulation.training_run.checkpoint_flows import CheckpointTimes


def failure_causes(
    loaded: Loaded, training: Training, times: CheckpointTimes
) -> tuple[FailureCause, ...]:
    """Return the causes of failures of a job that occur.

    Raises
    ------
    PlanError
        when replicas are to recover the state, and the job has one replica.
    """
    record, scenario = training.failures, loaded.scenario
    if training.recovery == "replica":
        _check_replicas(loaded, scenario)
    if record is None:
        return ()
    nodes, node = scenario.cluster.nodes, scenario.cluster.node
    parts = {"job": 1, "node": nodes, "device": nodes * node.devices}
    parts["link"] = nodes * len(node.nics.devices)
    return tuple(
        cause
        for name, facts in record.causes.items()
        for cause in _causes(name, facts, record.rate(name) * parts[facts.per], training, times)
        if cause.rate > 1 / NEVER
    )


def restart_seconds(restart: RestartFile, load: float) -> float:
    """Return the time from a failure until work resumes, without waiting for a node [s]."""
    loading = load if restart.loading is None else restart.loading
    return (
        restart.detection + restart.scheduling + restart.initialisation + loading + restart.warmup
    )


def _causes(
    name: str, facts: CauseFacts, rate: float, training: Training, times: CheckpointTimes
) -> Iterator[FailureCause]:
    """Yield a cause of some rate, and its share that hangs the job."""
    whole = restart_seconds(training.restart, times.load)
    seconds = whole if facts.recovery is None else facts.recovery
    usable = times.durable if facts.replaces else times.on_nodes
    hangs = training.hangs
    share = 0.0 if hangs is None else hangs.share
    cause = FailureCause(
        name=name,
        rate=rate * (1 - share),
        restart=seconds,
        shape=1.0 if facts.shape is None else facts.shape,
        replaces=bool(facts.replaces),
        lag=max(0.0, usable - times.block),
        by_step=training.recovery == "replica" and facts.per != "job",
    )
    yield cause
    if hangs is not None and share:
        detected = seconds - training.restart.detection + hangs.timeout
        yield replace(cause, name=f"{name} (hang)", rate=rate * share, restart=detected)


def _check_replicas(loaded: Loaded, scenario: Scenario) -> None:
    """Reject recovery from other replicas where none has the whole state."""
    plan, where = scenario.plan, loaded.where("training", "recovery")
    if plan.data == 1:
        raise PlanError(f"{where}: 'replica' needs another replica (plan.data is 1)")
    if plan.zero and (plan.shard == 0 or plan.shard >= plan.data * plan.context):
        raise PlanError(
            f"{where}: 'replica' needs the whole state in another replica, and ZeRO shards it over"
            " all of them (plan.zero: 0, or plan.shard below the ranks of the data axis)"
        )
