"""The runs of a study as one table: a row for each variant, with its point and what came of it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from clustersim.metrics.attribution import PARTS
from clustersim.runs.variants import FAILED, REFUSED, Run, Value, Variant

if TYPE_CHECKING:
    import pandas as pd

FITS: Final = "fits"
DOES_NOT_FIT: Final = "does not fit"
VERDICTS: Final = (FITS, DOES_NOT_FIT, REFUSED, FAILED)

MEASURES: Final = (
    "step_time_s",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "samples_per_s",
    "tflops_per_device_model",
    "tflops_per_device_hardware",
    "mfu",
    "hfu",
    "bubble_fraction",
    "bubble_overhead",
    "exposed_fraction",
    "memory_peak_bytes",
    "memory_capacity_bytes",
    "devices",
)
"""Columns of numbers that a run has; those of the attribution follow them."""


def verdict_of(run: Run) -> str:
    """Return what became of a run in a word or two: fits, does not fit, refused or failed."""
    if run.answer is None:
        return run.verdict
    return FITS if run.fits else DOES_NOT_FIT


def measures(answer: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of an answer by column, in the units of their names."""
    return (_speed(answer) if "step_time_s" in answer else {}) | _weight(answer)


def _weight(answer: Mapping[str, Any]) -> dict[str, float]:
    memory = answer["memory"]
    return {
        "memory_peak_bytes": memory["peak_bytes"],
        "memory_capacity_bytes": memory["capacity_bytes"],
        "devices": answer["counts"]["devices"],
    }


def _speed(answer: Mapping[str, Any]) -> dict[str, float]:
    step, rate = answer["step_time_s"], answer["tflops_per_device"]
    return {
        "step_time_s": step,
        "tokens_per_s": answer["tokens_per_s"],
        "tokens_per_s_per_device": answer["tokens_per_s_per_device"],
        "samples_per_s": answer["samples_per_s"],
        "tflops_per_device_model": rate["model"],
        "tflops_per_device_hardware": rate["hardware"],
        "mfu": answer["mfu"],
        "hfu": answer["hfu"],
        "bubble_fraction": answer["bubble_fraction"],
        "bubble_overhead": answer["bubble_overhead"],
        "exposed_fraction": sum(each["seconds"] for each in answer["exposed"]) / step,
        **{f"{part}_s": answer["attribution"][part] for part in PARTS},
    }


def row(variant: Variant, run: Run | None) -> dict[str, Any]:
    """Return one row: the point, the verdict with its reason, and the numbers of a run.

    A run that is still to come has the verdict None.
    """
    said: dict[str, Any] = {
        **variant.point,
        "verdict": None if run is None else verdict_of(run),
        "why": None if run is None else run.why,
    }
    answer = None if run is None else run.answer
    return said if answer is None else {**said, **measures(answer)}


def frame(found: Sequence[tuple[Variant, Run | None]]) -> "pd.DataFrame":
    """Return the rows of a study as a frame; columns that a row lacks are empty in it.

    An axis of words and numbers is one of words, as files of tables need it.
    """
    import pandas as pd  # 0.3 s that other verbs need not pay

    axes = dict.fromkeys(axis for variant, _ in found for axis in variant.point)
    columns = [*axes, "verdict", "why", *MEASURES, *(f"{part}_s" for part in PARTS)]
    rows = [row(*each) for each in found]
    for axis in axes:
        if len({type(each[axis]) for each in rows if axis in each} - {int, float}) > 0:
            rows = [each | {axis: _word(each[axis])} if axis in each else each for each in rows]
    return pd.DataFrame(rows, columns=columns).astype({"devices": "Int64"})


def _word(value: Value) -> str:
    """Return a value as it is written in a scenario."""
    return str(value).lower() if isinstance(value, bool) else str(value)


__all__ = ["DOES_NOT_FIT", "FITS", "MEASURES", "VERDICTS", "frame", "measures", "row", "verdict_of"]
