"""Memory of every stage at its peak, by part, and whether the devices have room for it.

    held all the time      parameters, optimiser states, buffers
    held by a microbatch   from its forward to its backward: activations, logits
    held inside a block    while it runs: the recomputed layer, the gradient of the logits

Activations are counted from the schedule: microbatches of a stage between forward and backward,
step by step, and in addition what the running block holds.
"""

import math
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from clustersim.answers import record
from clustersim.units import GIB

PARTS: Final = (
    "parameters",
    "master_weights",
    "gradients",
    "optimiser",
    "quantised_base",
    "gathered_layers",
    "communication_buffers",
    "transfers",
    "offload_staging",
    "activations",
    "logits",
    "workspace",
    "runtime",
    "fragmentation",
)
"""Parts of a device's memory, in the order in which they are drawn on top of each other."""

STATES: Final = ("parameters", "master_weights", "gradients", "optimiser", "quantised_base")
"""Parts that are kept from step to step."""

PREDICTION_ERROR: Final = 0.15
"""Excess of predicted live memory over a measured peak that hardly any run reaches [unitless].

Two of the 105 runs of ``validation/cases.yaml`` with a measured peak are predicted further above
it; four of five peaks are predicted within it.  Unused blocks never exceed the capacity.
"""

Parts = Mapping[str, float]
"""Bytes by part; a missing part is 0 [B]."""


class ChunkMemory(NamedTuple):
    """What a microbatch holds in one chunk of a stage, by part [B].

    Attributes
    ----------
    kept : from the end of its forward to the end of its backward
    forward : in addition at the fullest moment of its forward
    backward : the same of its backward; below 0 for what has been freed by then
    weights : where a backward is split, what remains between its two halves
    """

    kept: Parts
    forward: Parts
    backward: Parts
    weights: Parts = MappingProxyType({})


@record
class StageMemory:
    """Memory of the ranks of one stage.

    Attributes
    ----------
    steady : held all the time, by part [B]
    chunks : what microbatches hold, by chunk
    step : buffers of the optimiser step, after the last microbatch [B]
    parts : at the peak, by part [B]
    in_flight : microbatches held at the peak, one for each chunk that is held
    host : memory of the host for one rank, by part [B]
    ranks : number of ranks of the whole job on this stage
    """

    stage: int
    steady: Parts = field(hash=False)
    chunks: tuple[ChunkMemory, ...] = field(hash=False)
    step: float
    parts: dict[str, float] = field(hash=False)
    in_flight: int = 0
    host: dict[str, float] = field(default_factory=dict, hash=False)
    ranks: int = 1

    @property
    def peak(self) -> float:
        """Sum of all parts [B]."""
        return sum(self.parts.values())

    @property
    def states(self) -> float:
        """Training states of one rank, on its device and on the host [B]."""
        return sum(where.get(part, 0.0) for where in (self.parts, self.host) for part in STATES)


@record
class Remedy:
    """A change after which a job fits.

    Attributes
    ----------
    change : settings for `--set`
    step_time_s : step time of the changed job; null where it is too large to be replayed again [s]
    peak_bytes : peak of its fullest stage [B]
    """

    change: str
    step_time_s: float | None
    peak_bytes: float


@record
class HostMemory:
    """What the host of a node holds for its ranks.

    Attributes
    ----------
    peak_bytes : what the host of a node holds for its ranks [B]
    capacity_bytes : memory of a host; null where no source states it [B]
    parts : the same by part [B]
    """

    peak_bytes: float
    capacity_bytes: float | None
    parts: Mapping[str, float]


@record
class MemoryAnswer:
    """The peak of the fullest stage, and whether its devices have room for it.

    Attributes
    ----------
    peak_bytes : the most that a device of the fullest stage holds [B]
    capacity_bytes : memory of a device [B]
    fits : whether the job can fit: false only if the peak exceeds the capacity of device or host
        by more than the error of memory predictions
    tight : whether the predicted peak exceeds the capacity of a device by less than that error
    verdict : the same in words, with the reason
    stage : number of the fullest stage
    parts : the peak of that stage by part [B]
    state_bytes : parameters, master weights, gradients and optimiser states of all ranks, on
        device and host [B]
    host : memory of the host with the highest peak
    advice : changes after which a job fits that does not, the fastest first; none where it fits
    """

    peak_bytes: float
    capacity_bytes: float
    fits: bool
    tight: bool
    verdict: str
    stage: int
    parts: Mapping[str, float]
    state_bytes: float
    host: HostMemory
    advice: tuple[Remedy, ...]


@record
class Verdict:
    """Memory of all stages, and whether it fits.

    Attributes
    ----------
    stages : every stage, in order
    capacity : memory of a device [B]
    node : ranks that share the memory of one host
    host_capacity : memory of a host [B]; infinite where no source states it
    advice : changes with which it fits, the fastest first, where these were requested
    """

    stages: tuple[StageMemory, ...]
    capacity: float
    node: int = 1
    host_capacity: float = math.inf
    advice: tuple[Remedy, ...] = ()

    @property
    def fullest(self) -> StageMemory:
        """The stage with the highest peak, the first of equals."""
        return max(self.stages, key=lambda stage: stage.peak)

    @cached_property
    def host(self) -> dict[str, float]:
        """Memory of a host with ranks of the stage that needs most of it, by part [B]."""
        most = max(self.stages, key=lambda stage: sum(stage.host.values()))
        return {part: self.node * nbytes for part, nbytes in most.host.items()}

    @property
    def state_bytes(self) -> float:
        """Training states of all ranks of the job [B]."""
        return sum(stage.ranks * stage.states for stage in self.stages)

    @property
    def within(self) -> bool:
        """Whether the predicted peaks of devices and hosts are within their capacity."""
        return self.fullest.peak <= self.capacity and self._within_host

    @property
    def tight(self) -> bool:
        """Whether a device lacks less memory than the error of predictions, and its host none."""
        return not self.within and self.fits

    @property
    def fits(self) -> bool:
        """Whether the job can fit: a layout is rejected only beyond the error of predictions."""
        return can_fit(self.fullest.peak, self.capacity) and self._within_host

    @property
    def _within_host(self) -> bool:
        return sum(self.host.values()) <= self.host_capacity

    @property
    def reason(self) -> str:
        """The verdict in words: *fits*, *tight*, or what is missing and which part is largest."""
        stage = self.fullest
        used = f"{stage.peak / GIB:.1f} of {self.capacity / GIB:.1f} GiB on stage {stage.stage}"
        if self.within:
            return f"fits: {used}"
        if self.tight:
            return f"tight: {used}, within the {100 * PREDICTION_ERROR:.0f} % error of predictions"
        if stage.peak <= self.capacity:
            return self._host_reason()
        part, nbytes = max(stage.parts.items(), key=lambda item: item[1])
        over = (stage.peak - self.capacity) / GIB
        return (
            f"does not fit: {used}, {over:.1f} GiB too many; most of it is {_words(part)}"
            f" ({nbytes / GIB:.1f} GiB)"
        )

    def _host_reason(self) -> str:
        needed = sum(self.host.values())
        part, nbytes = max(self.host.items(), key=lambda item: item[1])
        return (
            f"does not fit: {needed / GIB:.1f} of {self.host_capacity / GIB:.1f} GiB of the host's"
            f" memory, {(needed - self.host_capacity) / GIB:.1f} GiB too many; most of it is"
            f" {_words(part)} ({nbytes / GIB:.1f} GiB)"
        )

    @property
    def answer(self) -> MemoryAnswer:
        """The same in the keys of ``run --json``."""
        capacity = self.host_capacity if math.isfinite(self.host_capacity) else None
        return MemoryAnswer(
            peak_bytes=self.fullest.peak,
            capacity_bytes=self.capacity,
            fits=self.fits,
            tight=self.tight,
            verdict=self.reason,
            stage=self.fullest.stage,
            parts=self.fullest.parts,
            state_bytes=self.state_bytes,
            host=HostMemory(sum(self.host.values()), capacity, self.host),
            advice=self.advice,
        )


def can_fit(peak: float, capacity: float) -> bool:
    """Return whether a predicted peak can fit, given the error of memory predictions.

    >>> can_fit(84.0, capacity=80.0), can_fit(100.0, capacity=80.0)
    (True, False)
    """
    return peak <= (1 + PREDICTION_ERROR) * capacity


def _words(part: str) -> str:
    return part.replace("_", " ")
