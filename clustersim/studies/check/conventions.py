"""The conventions of a log: which FLOPs its rates count, and which peak its MFU is over.

The rate and the MFU that a program logs are of its own formulas.  The predicted ones, for the
measured time, are known in both conventions of FLOPs; the nearest one is named.  The peak of an MFU
is the logged rate over it, where both are logged: the dense peak of the accelerator, or twice as
much, which data sheets state for sparse matrices.
"""

from collections.abc import Mapping
from math import log
from typing import Final

from clustersim.answers import record
from clustersim.render.tables import percent
from clustersim.simulation.step.answer import RunAnswer
from clustersim.units import format_number

TOLERANCE: Final = 0.15
"""Ratio, on a logarithmic scale, up to which a number is of a convention; programs count
embeddings and attention differently."""

SPARSE: Final = "sparse peak"

PEAKS: Final[Mapping[str, float]] = {"dense peak": 1.0, SPARSE: 2.0}
"""Peaks over the dense one."""


@record
class Convention:
    """How a logged number is counted.

    Attributes
    ----------
    quantity : `tflops_per_device` or `mfu`
    stated : as logged
    name : `model FLOPs`, `hardware FLOPs`, `dense peak` or `sparse peak`; null of none of these
    predicted : of the scenario at its own step time, in this convention; null of none of these
    text : the same in words
    """

    quantity: str
    stated: float
    name: str | None
    predicted: float | None
    text: str


def conventions_of(measured: Mapping[str, float], answer: RunAnswer) -> tuple[Convention, ...]:
    """Return the conventions of the rate and of the MFU of a log, of those that it states."""
    found = []
    if "tflops_per_device" in measured:
        found.append(_flops(measured["tflops_per_device"], measured["step_time_s"], answer))
    if "mfu" in measured:
        found.append(_peak(measured, answer))
    return tuple(found)


def _nearest(number: float, references: Mapping[str, float]) -> str | None:
    """Return the reference that a number is nearest to; None beyond the tolerance."""
    distance = {name: abs(log(number / value)) for name, value in references.items()}
    name = min(distance, key=lambda each: distance[each])
    return name if distance[name] <= TOLERANCE else None


def _flops(stated: float, seconds: float, answer: RunAnswer) -> Convention:
    rate, scale = answer.tflops_per_device, answer.step_time_s / seconds
    own = {"model FLOPs": rate.model, "hardware FLOPs": rate.hardware}
    references = {name: value * scale for name, value in own.items()}
    name = _nearest(stated, references)
    values = " and ".join(f"{format_number(value)} of {key}" for key, value in references.items())
    if rate.model == rate.hardware:
        values = f"{format_number(rate.model * scale)} of the model, nothing is recomputed"
    what = f"counts {name}" if name else "is of neither convention: another model, batch or formula"
    text = f"{format_number(stated)} TFLOP/s per device {what} (at this time: {values})"
    predicted = None if name is None else own[name]
    return Convention("tflops_per_device", stated, name, predicted, text)


def _peak(measured: Mapping[str, float], answer: RunAnswer) -> Convention:
    rate, stated = answer.tflops_per_device.model, measured["mfu"]
    dense = rate / answer.mfu
    own = rate * answer.step_time_s / measured["step_time_s"]
    ratio = measured.get("tflops_per_device", own) / stated / dense
    name = _nearest(ratio, PEAKS)
    peak = f"{format_number(ratio * dense)} TFLOP/s"
    what = (
        f"the {name}" if name else f"neither the dense peak ({format_number(dense)}) nor twice it"
    )
    text = f"MFU of {percent(stated)} is over a peak of {peak}: {what}"
    if name == SPARSE:
        text += f", twice the dense one of {format_number(dense)}; over that it is"
        text += f" {percent(PEAKS[SPARSE] * stated)}"
    predicted = None if name is None else answer.mfu / PEAKS[name]
    return Convention("mfu", stated, name, predicted, text)
