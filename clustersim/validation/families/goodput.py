"""Measured and published numbers of whole runs, and what is predicted for them.

    model-check    the first-order formula of effective training time
    mttf           the series law, at the rate of the row's machine
    run            a shipped run of the same job, else the closed form at the stated rates
    checkpoint     a shipped run of the same job: bytes, and time of a save
    restart        the spares that suffice

Rows that are inputs of a prediction, such as failure rates and times of restarts, are listed with
the reason.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Final

from pydantic import BeforeValidator

from clustersim.catalog.finding import entry_names, find
from clustersim.catalog.reliability import ReliabilityRecord
from clustersim.failures.causes import first_order_goodput, interval_goodput, spares_needed
from clustersim.scenario.entries import entry
from clustersim.scenario.load import load
from clustersim.scenario.machine import load_cluster
from clustersim.scenario.schema import Scenario
from clustersim.simulation.training_run.answer import TrainAnswer
from clustersim.simulation.training_run.train import train
from clustersim.validation.cases.machines import machine_of
from clustersim.validation.cases.reasons import Ungradable, not_stated
from clustersim.validation.cases.rows import Row, Section, family_row, part
from clustersim.validation.cases.texts import Count, Text
from clustersim.validation.grading import Graded, at_least, graded

FAMILY: Final = "goodput"
"""The family of rows that are graded here."""

DAY: Final = 86_400.0

BEING_REPLACED: Final = 0.0012
"""Probability that a node is being replaced; fitted to the four counts of spares that one source
states for 128 to 1,024 nodes, which any value from 0.00117 to 0.00125 gives."""

SAME_SIZE: Final = 0.02
"""Relative difference of parameters up to which two models count as the same."""


def _single(value: object) -> object:
    """Return a number; None for a range or any other value that is no single number."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return value if plain else None


Stated = Annotated[float | None, BeforeValidator(_single)]
"""A number of a row; ranges are not stated numbers."""


class GoodputRow(Section):
    """What a row states in addition to a `Row`, in the units of the names."""

    kind: Text = None
    devices: Count = None
    nodes: Count = None
    machine: Text = part("system", "name")
    parameters_b: Stated = part("model", "params_b")
    failures_per_node_day: Stated = part("failures", "per_node_day")
    interruptions: Stated = part("failures", "interruptions")
    interval_s: Stated = part("checkpoint", "interval_s")
    block_s: Stated = part("checkpoint", "block_s")
    size_tb: Stated = part("checkpoint", "size_tb")
    restart_s: Stated = part("restart", "u0_s")
    spares_p99: Stated = part("restart", "spares_p99")
    ettr_published: Stated = part("measured", "ettr_published")
    ettr_min: Stated = part("measured", "ettr_min")
    effective_training_time_min: Stated = part("measured", "effective_training_time_min")
    mttf_h: Stated = part("measured", "mttf_h")
    how: Text = part("measured", "how")
    ettr_formula: Stated = part("derived", "ettr_formula")
    save_s: Stated = part("derived", "save_s")


def grade_goodput_case(row: Row) -> Graded:
    """Return the grades of a row of the family ``goodput``, and what was assumed for them.

    Raises
    ------
    Ungradable
        for rows that are inputs of a prediction, or leave out what it needs.
    """
    fields = family_row(row, GoodputRow)
    graders = {
        "model-check": _formula,
        "mttf": _mean_time,
        "run": _run,
        "checkpoint": _checkpoint,
        "restart": _spares,
    }
    grader = graders.get(fields.kind or "")
    if grader is None:
        why = _REASONS.get(fields.kind or "", "no number that a run predicts")
        raise Ungradable.because(why)
    return grader(row, fields)


_REASONS: Final[Mapping[str, str]] = {
    "failure-rate": "a failure rate, which is an input of runs",
    "counterfactual": "a measure against failures that no run has",
}
"""Why rows of a kind are not predicted."""


# --- laws -----------------------------------------------------------------------------------------


def _formula(_: Row, fields: GoodputRow) -> Graded:
    interval, restart = fields.interval_s, fields.restart_s
    rate = fields.failures_per_node_day
    if fields.nodes is None or rate is None or interval is None or restart is None:
        raise Ungradable(not_stated("nodes, rate, interval or restart"))
    mean = DAY / (fields.nodes * rate)
    predicted = first_order_goodput(interval, fields.block_s or 0.0, mean, restart)
    names = ("ettr_formula", "ettr_published")
    grades = [graded(name, v, predicted) for name in names if (v := getattr(fields, name))]
    if not grades:
        raise Ungradable(not_stated("effective training time"))
    return grades, {}


def _mean_time(_: Row, fields: GoodputRow) -> Graded:
    if fields.nodes is None or fields.mttf_h is None:
        raise Ungradable(not_stated("nodes or mean time"))
    if fields.how == "measured":
        why = "all failures of jobs of one size, and the rate is that of large jobs"
        raise Ungradable.because(why)
    predicted = 1 / (fields.nodes * _node_rate(fields)) / 3600
    return [graded("mttf_h", fields.mttf_h, predicted)], {}


def _node_rate(fields: GoodputRow) -> float:
    """Return the failures of a node of the row's machine [1/s]."""
    if fields.failures_per_node_day is not None:
        return fields.failures_per_node_day / DAY
    if fields.machine not in entry_names("reliability"):
        raise Ungradable(not_stated("failure rate"))
    record = entry("reliability", fields.machine).record
    assert isinstance(record, ReliabilityRecord), "of this kind"
    if any(cause.per != "node" for cause in record.causes.values()):
        raise Ungradable(not_stated("failure rate of a node"))
    return sum(map(record.rate, record.causes))


def _spares(_: Row, fields: GoodputRow) -> Graded:
    spares = fields.spares_p99
    if spares is None or fields.nodes is None:
        why = "a measured time of restarts, which is an input of runs"
        raise Ungradable.because(why)
    return [graded("spares_p99", spares, spares_needed(fields.nodes, BEING_REPLACED))], {}


# --- runs -----------------------------------------------------------------------------------------


def _run(row: Row, fields: GoodputRow) -> Graded:
    least = fields.effective_training_time_min
    name = _shipped_run(row, fields)
    if name is not None and least is not None:
        answer = _answer(name)
        grades = [at_least("effective_training_time_min", least, answer.goodput)]
        if fields.interruptions:
            count = fields.interruptions
            grades.append(graded("interruptions", count, answer.interruptions))
        return grades, dict(answer.assumed)
    interval, restart = fields.interval_s, fields.restart_s
    if fields.ettr_min is None:
        raise Ungradable(not_stated("useful share, or the job of a shipped run"))
    if fields.nodes is None or interval is None or restart is None:
        raise Ungradable(not_stated("nodes, interval or mean restart"))
    mean = 1 / (fields.nodes * _node_rate(fields))
    predicted = interval_goodput(interval, fields.block_s or 0.0, mean, restart)
    return [at_least("ettr_min", fields.ettr_min, predicted)], {}


def _checkpoint(row: Row, fields: GoodputRow) -> Graded:
    name = _shipped_run(row, fields)
    if name is None or fields.size_tb is None:
        raise Ungradable(not_stated("size of the checkpoint, or machine and storage"))
    answer = _answer(name)
    grades = [graded("size_tb", fields.size_tb, answer.checkpoint.bytes / 1e12)]
    if fields.save_s is not None:
        grades.append(graded("save_s", fields.save_s, answer.checkpoint.durable_s))
    return grades, dict(answer.assumed)


@lru_cache
def _answer(name: str) -> TrainAnswer:
    return train(name)


@lru_cache
def _whole_runs() -> dict[str, Scenario]:
    """Return the shipped whole runs by name."""
    names = [name for name in entry_names("scenario") if "training" in find("scenario", name).data]
    return {name: load(name).scenario for name in names}


def _shipped_run(row: Row, fields: GoodputRow) -> str | None:
    """Return the shipped run of the same job: accelerator, devices and parameters."""
    size = fields.parameters_b
    for name, run in _whole_runs().items():
        alike = size and abs(run.model.parameters / 1e9 / size - 1) < SAME_SIZE
        if alike and run.devices == fields.devices:
            node = load_cluster(machine_of(row).cluster, None).node
            if node.accelerator.name == run.cluster.node.accelerator.name:
                return name
    return None
