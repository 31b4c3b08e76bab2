"""The runs of a study as one table: a row for each variant, with its point and its outcome."""

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from clustersim.metrics.attribution import PARTS
from clustersim.runs.variants import MEMORY_ONLY, RAN, SERVED, MemoryEstimate, Run, Value, Variant
from clustersim.simulation.service.measures import SERVICE_MEASURES, service_measures
from clustersim.simulation.step.answer import RunAnswer

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
"""Values by column: the axes, the verdict, its reason and the measures."""

FITS: Final = "fits"
DOES_NOT_FIT: Final = "does not fit"

MEASURES: Final = (
    "step_time_s",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "samples_per_s",
    "tflops_per_device_model",
    "tflops_per_device_hardware",
    "tflops_per_device_executed",
    "mfu",
    "hfu",
    "bubble_fraction",
    "bubble_overhead",
    "exposed_fraction",
    "memory_peak_bytes",
    "memory_capacity_bytes",
    "devices",
)
"""Columns of numbers; the components of the step time follow."""

RUN_MEASURES: Final = ("days", "goodput", "energy", "cost")
"""Columns of numbers of whole runs, where the scenario has one; energy in kWh, cost in USD."""


def verdict_text(run: Run) -> str:
    """Return ``fits``, ``does not fit``, ``invalid`` or ``failed``."""
    if run.verdict in (RAN, SERVED, MEMORY_ONLY):
        return FITS if run.fits else DOES_NOT_FIT
    return run.verdict


def measures(answer: RunAnswer) -> dict[str, float]:
    """Return the numbers of an answer by column, in the units of their names."""
    step, rate = answer.step_time_s, answer.tflops_per_device
    return {
        "step_time_s": step,
        "tokens_per_s": answer.tokens_per_s,
        "tokens_per_s_per_device": answer.tokens_per_s_per_device,
        "samples_per_s": answer.samples_per_s,
        "tflops_per_device_model": rate.model,
        "tflops_per_device_hardware": rate.hardware,
        "tflops_per_device_executed": rate.executed,
        "mfu": answer.mfu,
        "hfu": answer.hfu,
        "bubble_fraction": answer.bubble_fraction,
        "bubble_overhead": answer.bubble_overhead,
        "exposed_fraction": sum(entry.seconds for entry in answer.exposed) / step,
        **{f"{name}_s": answer.attribution[name] for name in PARTS},
        **_memory(MemoryEstimate(answer.memory, answer.counts.devices)),
        **run_measures(answer),
    }


def run_measures(answer: RunAnswer) -> dict[str, float]:
    """Return the numbers of the whole run, as far as they are predicted."""
    given = answer.training
    if given is None:
        return {}
    values = given.days, given.goodput, given.energy_kwh, given.cost
    numbers = dict(zip(RUN_MEASURES, values, strict=True))
    return {name: value for name, value in numbers.items() if value is not None}


def _memory(estimate: MemoryEstimate) -> dict[str, float]:
    return {
        "memory_peak_bytes": estimate.memory.peak_bytes,
        "memory_capacity_bytes": estimate.memory.capacity_bytes,
        "devices": estimate.devices,
    }


def row(variant: Variant, run: Run | None) -> Row:
    """Return one row: the point, the verdict with its reason, and the numbers of a run.

    The verdict of a run that is not completed is None.
    """
    start: Row = {
        **variant.point,
        "verdict": None if run is None else verdict_text(run),
        "why": None if run is None else run.why,
    }
    if run is not None and run.answer is not None:
        return start | measures(run.answer)
    if run is not None and run.service is not None:
        return start | service_measures(run.service)
    if run is not None and run.estimate is not None:
        return start | _memory(run.estimate)
    return start


def axis_columns(rows: Sequence[Row]) -> list[str]:
    """Return the axes of some rows: the columns in front of the verdict."""
    return [*dict.fromkeys(key for one in rows for key in takewhile("verdict".__ne__, one))]


def data_frame(rows: Sequence[Row]) -> "pd.DataFrame":
    """Return the rows of a study as a frame; values that a row lacks are empty.

    An axis of texts and numbers becomes one of texts, as Parquet requires one type.
    """
    import pandas as pd  # imports in 0.3 s

    axes = axis_columns(rows)
    names = [*axes, "verdict", "why", *_number_columns(rows)]
    for axis in axes:
        if {type(one[axis]) for one in rows if axis in one} - {int, float}:
            rows = [one | {axis: _text(one[axis])} if axis in one else one for one in rows]
    return pd.DataFrame(rows, columns=[*dict.fromkeys(names)]).astype({"devices": "Int64"})


def _number_columns(rows: Sequence[Row]) -> list[str]:
    """Return the columns of numbers: those of services, or of training steps and whole runs."""
    if any("ttft" in one for one in rows):
        return [*SERVICE_MEASURES]
    of_run = [name for name in RUN_MEASURES if any(name in one for one in rows)]
    return [*MEASURES, *(f"{name}_s" for name in PARTS), *of_run]


def _text(value: Value) -> str:
    """Return a value as it is written in a scenario."""
    return str(value).lower() if isinstance(value, bool) else str(value)
