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
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

from clustersim.catalog.finding import entry_names, find
from clustersim.catalog.reliability import ReliabilityRecord
from clustersim.failures.causes import first_order_goodput, interval_goodput, spares_needed
from clustersim.scenario.entries import entry
from clustersim.scenario.load import load, load_cluster
from clustersim.simulation.training_run.answer import TrainAnswer
from clustersim.simulation.training_run.train import train
from clustersim.validation.cases.machines import machine_of
from clustersim.validation.cases.reasons import Ungradable, not_stated
from clustersim.validation.cases.rows import Missing, Row, Section, family_row
from clustersim.validation.cases.values import Count, Text
from clustersim.validation.grading import Grade, graded

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


class Machine(Section):
    """The machine of a row."""

    name: Text = None


class Failures(Section):
    """Failures of a row."""

    per_node_day: Stated = None
    interruptions: Stated = None


class Checkpoint(Section):
    """Checkpoints of a row."""

    interval_s: Stated = None
    block_s: Stated = None
    size_tb: Stated = None


class Restart(Section):
    """Restarts of a row."""

    u0_s: Stated = None
    spares_p99: Stated = None


class Model(Section):
    """The model of a row."""

    params_b: Stated = None


class Measured(Section):
    """Measured or published numbers of a row."""

    ettr_published: Stated = None
    ettr_min: Stated = None
    effective_training_time_min: Stated = None
    mttf_h: Stated = None
    how: Text = None


class Derived(Section):
    """Arithmetic on a row."""

    ettr_formula: Stated = None
    save_s: Stated = None


class GoodputRow(Section):
    """What a row states in addition to a `Row`."""

    kind: Text = None
    devices: Count = None
    nodes: Count = None
    system: Annotated[Machine, Missing] = Machine()
    model: Annotated[Model, Missing] = Model()
    failures: Annotated[Failures, Missing] = Failures()
    checkpoint: Annotated[Checkpoint, Missing] = Checkpoint()
    restart: Annotated[Restart, Missing] = Restart()
    measured: Annotated[Measured, Missing] = Measured()
    derived: Annotated[Derived, Missing] = Derived()


def grade_goodput_case(row: Row) -> tuple[list[Grade], dict[str, str]]:
    """Return the grades of a row of the family ``goodput``, and what was assumed for them.

    Raises
    ------
    Ungradable
        for rows that are inputs of a prediction, or leave out what it needs.
    """
    given = family_row(row, GoodputRow)
    graders = {
        "model-check": _formula,
        "mttf": _mean_time,
        "run": _run,
        "checkpoint": _checkpoint,
        "restart": _spares,
    }
    grader = graders.get(given.kind or "")
    if grader is None:
        why = _REASONS.get(given.kind or "", "no number that a run predicts")
        raise Ungradable.because(why)
    return grader(row, given)


_REASONS: Final[Mapping[str, str]] = {
    "failure-rate": "a failure rate, which is an input of runs",
    "counterfactual": "a measure against failures that no run has",
}
"""Why rows of a kind are not predicted."""


def _at_least(metric: str, bound: float, predicted: float) -> Grade:
    """Return the grade of a lower bound: no error where it holds."""
    return Grade(metric, None, bound, predicted, min(0.0, predicted / bound - 1), None)


# --- laws -----------------------------------------------------------------------------------------


def _formula(_: Row, given: GoodputRow) -> tuple[list[Grade], dict[str, str]]:
    rate, interval, restart = (
        given.failures.per_node_day,
        given.checkpoint.interval_s,
        given.restart.u0_s,
    )
    if given.nodes is None or rate is None or interval is None or restart is None:
        raise Ungradable(not_stated("nodes, rate, interval or restart"))
    mean = DAY / (given.nodes * rate)
    predicted = first_order_goodput(interval, given.checkpoint.block_s or 0.0, mean, restart)
    numbers = {
        "ettr_formula": given.derived.ettr_formula,
        "ettr_published": given.measured.ettr_published,
    }
    grades = [graded(name, value, predicted) for name, value in numbers.items() if value]
    if not grades:
        raise Ungradable(not_stated("effective training time"))
    return grades, {}


def _mean_time(_: Row, given: GoodputRow) -> tuple[list[Grade], dict[str, str]]:
    if given.nodes is None or given.measured.mttf_h is None:
        raise Ungradable(not_stated("nodes or mean time"))
    if given.measured.how == "measured":
        why = "all failures of jobs of one size, and the rate is that of large jobs"
        raise Ungradable.because(why)
    predicted = 1 / (given.nodes * _node_rate(given)) / 3600
    return [graded("mttf_h", given.measured.mttf_h, predicted)], {}


def _node_rate(given: GoodputRow) -> float:
    """Return the failures of a node of the row's machine [1/s]."""
    if given.failures.per_node_day is not None:
        return given.failures.per_node_day / DAY
    if given.system.name not in entry_names("reliability"):
        raise Ungradable(not_stated("failure rate"))
    record = entry("reliability", given.system.name).record
    assert isinstance(record, ReliabilityRecord), "of this kind"
    if any(cause.per != "node" for cause in record.causes.values()):
        raise Ungradable(not_stated("failure rate of a node"))
    return sum(map(record.rate, record.causes))


def _spares(_: Row, given: GoodputRow) -> tuple[list[Grade], dict[str, str]]:
    spares = given.restart.spares_p99
    if spares is None or given.nodes is None:
        why = "a measured time of restarts, which is an input of runs"
        raise Ungradable.because(why)
    return [graded("spares_p99", spares, spares_needed(given.nodes, BEING_REPLACED))], {}


# --- runs -----------------------------------------------------------------------------------------


def _run(row: Row, given: GoodputRow) -> tuple[list[Grade], dict[str, str]]:
    least = given.measured.effective_training_time_min
    name = _shipped_run(row, given)
    if name is not None and least is not None:
        answer = _answer(name)
        grades = [_at_least("effective_training_time_min", least, answer.goodput)]
        if given.failures.interruptions:
            count = given.failures.interruptions
            grades.append(graded("interruptions", count, answer.interruptions))
        return grades, dict(answer.assumed)
    interval, restart = given.checkpoint.interval_s, given.restart.u0_s
    if given.measured.ettr_min is None:
        raise Ungradable(not_stated("useful share, or the job of a shipped run"))
    if given.nodes is None or interval is None or restart is None:
        raise Ungradable(not_stated("nodes, interval or mean restart"))
    mean = 1 / (given.nodes * _node_rate(given))
    predicted = interval_goodput(interval, given.checkpoint.block_s or 0.0, mean, restart)
    return [_at_least("ettr_min", given.measured.ettr_min, predicted)], {}


def _checkpoint(row: Row, given: GoodputRow) -> tuple[list[Grade], dict[str, str]]:
    name = _shipped_run(row, given)
    if name is None or given.checkpoint.size_tb is None:
        raise Ungradable(not_stated("size of the checkpoint, or machine and storage"))
    answer = _answer(name)
    grades = [graded("size_tb", given.checkpoint.size_tb, answer.checkpoint.bytes / 1e12)]
    if given.derived.save_s is not None:
        grades.append(graded("save_s", given.derived.save_s, answer.checkpoint.durable_s))
    return grades, dict(answer.assumed)


@lru_cache
def _answer(name: str) -> TrainAnswer:
    return train(name)


@lru_cache
def _jobs() -> dict[str, tuple[str, int, float]]:
    """Return accelerator, devices and parameters [10^9] of the shipped whole runs."""
    names = [name for name in entry_names("scenario") if "training" in _data(name)]
    scenarios = {name: load(name).scenario for name in names}
    return {
        name: (
            given.cluster.node.accelerator.name,
            given.devices,
            given.model.parameters / 1e9,
        )
        for name, given in scenarios.items()
    }


def _data(name: str) -> Any:
    return find("scenario", name).data


def _shipped_run(row: Row, given: GoodputRow) -> str | None:
    """Return the shipped run of the same job: accelerator, devices and parameters."""
    size = given.model.params_b
    for name, (accelerator, devices, parameters) in _jobs().items():
        if devices == given.devices and size and abs(parameters / size - 1) < SAME_SIZE:
            choice = machine_of(row)
            if load_cluster(choice.cluster, None).node.accelerator.name == accelerator:
                return name
    return None
