"""Does it fit?  What each stage holds at its peak, by part, and why not if not.

    held all the time      parameters, states of the optimiser, buffers
    held by a microbatch   from its forward to its backward: activations, logits
    held inside a block    while it runs: the layer that is run again, the gradient of the logits

Activations are counted from the schedule itself: what a stage has taken forward and not yet
backward, step by step, and on top of that what the block at work holds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
"""What is kept from step to step."""

Parts = Mapping[str, float]
"""Bytes by part; those that are missing hold nothing [B]."""


class Peak(NamedTuple):
    """The most bytes of activations and the most microbatches, one for each chunk, held at once."""

    nbytes: float
    microbatches: int


class ChunkMemory(NamedTuple):
    """What a microbatch holds in one chunk of a stage, by part [B].

    Attributes
    ----------
    kept : from the end of its forward to the end of its backward
    forward : on top of that at the fullest moment of its forward
    backward : the same of its backward; below 0 for what is given up by then
    weights : where a backward is split, what is left between its two parts
    """

    kept: Parts
    forward: Parts
    backward: Parts
    weights: Parts = MappingProxyType({})


@dataclass(frozen=True)
class StageMemory:
    """What one stage's ranks hold.

    Attributes
    ----------
    steady : held all the time, by part [B]
    chunks : what microbatches hold, by chunk
    step : buffers of the optimiser step, after the last microbatch [B]
    parts : at the peak, by part [B]
    in_flight : microbatches held at the peak, one for each chunk that is held
    host : kept in the memory of the host for one rank, by part [B]
    ranks : of the whole job on this stage
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
        """All parts together [B]."""
        return sum(self.parts.values())

    @property
    def states(self) -> float:
        """What one rank keeps from step to step, on its device and on the host [B]."""
        return sum(where.get(part, 0.0) for where in (self.parts, self.host) for part in STATES)


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class MemoryAnswer:
    """The peak of the fullest stage, and whether its devices have room for it.

    Attributes
    ----------
    peak_bytes : the most that a device of the fullest stage holds [B]
    capacity_bytes : memory of a device [B]
    fits : whether the peak is within the capacity, on device and host
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
    verdict: str
    stage: int
    parts: Mapping[str, float]
    state_bytes: float
    host: HostMemory
    advice: tuple[Remedy, ...]


@dataclass(frozen=True)
class Verdict:
    """Whether the fullest stage fits its devices, and what to know about it.

    Attributes
    ----------
    stages : every stage, in order
    capacity : memory of a device [B]
    node : ranks that share the memory of one host
    host_capacity : memory of a host [B]; infinite where nobody says it
    advice : what would make it fit, the fastest first, where somebody looked for it
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
        """What the host of a node keeps that holds ranks of the stage that asks most of it [B]."""
        most = max(self.stages, key=lambda stage: sum(stage.host.values()))
        return {part: self.node * nbytes for part, nbytes in most.host.items()}

    @property
    def state_bytes(self) -> float:
        """What all ranks of the job together keep from step to step [B]."""
        return sum(stage.ranks * stage.states for stage in self.stages)

    @property
    def fits(self) -> bool:
        """Whether the fullest stage fits its devices, and what it offloads the host."""
        return self.fullest.peak <= self.capacity and sum(self.host.values()) <= self.host_capacity

    @property
    def reason(self) -> str:
        """The verdict in words: *fits*, or by how much not and because of what."""
        stage = self.fullest
        used = f"{stage.peak / GIB:.1f} of {self.capacity / GIB:.1f} GiB on stage {stage.stage}"
        if self.fits:
            return f"fits: {used}"
        if stage.peak <= self.capacity:
            return self._host_reason()
        part, nbytes = max(stage.parts.items(), key=lambda item: item[1])
        over = (stage.peak - self.capacity) / GIB
        return (
            f"does not fit: {used}, {over:.1f} GiB too many; most of it is {_words(part)}"
            f" ({nbytes / GIB:.1f} GiB)"
        )

    def _host_reason(self) -> str:
        asked = sum(self.host.values())
        part, nbytes = max(self.host.items(), key=lambda item: item[1])
        return (
            f"does not fit: {asked / GIB:.1f} of {self.host_capacity / GIB:.1f} GiB of the host's"
            f" memory, {(asked - self.host_capacity) / GIB:.1f} GiB too many; most of it is"
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
            verdict=self.reason,
            stage=self.fullest.stage,
            parts=self.fullest.parts,
            state_bytes=self.state_bytes,
            host=HostMemory(sum(self.host.values()), capacity, self.host),
            advice=self.advice,
        )


def _words(part: str) -> str:
    return part.replace("_", " ")


# --- the peak -------------------------------------------------------------------------------------


def peak_activations(
    kind: NDArray[np.int64], chunk: NDArray[np.int64], nbytes: Sequence[float], left: float = 0.0
) -> Peak:
    """Return the most that a stage keeps between forward and backward.

    Parameters
    ----------
    kind, chunk : which step each one is, in order, `kind` by its place in `timeline.KINDS`
    nbytes : kept for one microbatch in each chunk [B]
    left : share of that which is left between the two parts of a split backward
    """
    kept = np.array(nbytes)[chunk] * np.array([1.0, -1.0, left - 1.0, -left])[kind]
    held = np.cumsum(np.array([1, -1, 0, -1])[kind])
    return Peak(float(np.cumsum(kept).max()), int(held.max()))


class Levels(NamedTuple):
    """What a stage holds beside what it always holds, at every step, a column for each part [B].

    Attributes
    ----------
    during : at the fullest moment of a step
    after : between a step and the next
    held : microbatches at that fullest moment, one for each chunk that is held
    """

    parts: tuple[str, ...]
    during: NDArray[np.float64]
    after: NDArray[np.float64]
    held: NDArray[np.int64]


def levels(
    chunks: Sequence[ChunkMemory], kind: NDArray[np.int64], chunk: NDArray[np.int64]
) -> Levels:
    """Return what microbatches hold as the steps of a stage go by.

    Parameters
    ----------
    kind, chunk : of each step, `kind` by its place in `timeline.KINDS`
    """
    parts = tuple(sorted({part for memory in chunks for which in memory for part in which}))
    table = np.array([[[which.get(p, 0.0) for p in parts] for which in c] for c in chunks])
    kept, ahead, back, left = (table[:, which] for which in range(4))
    none = np.zeros_like(kept)
    changes = np.stack([kept, -kept, left - kept, -left], axis=1)
    inside = np.stack([ahead, back, back, none], axis=1)
    change, signs = changes[chunk, kind], np.array([1, -1, 0, -1])[kind]
    after = np.cumsum(change, axis=0)
    before = after - change
    during = np.where((kind == 0)[:, None], after, before) + inside[chunk, kind]
    held = np.cumsum(signs) + (signs < 0)
    return Levels(parts, during, after, held)


def at_peak(found: Levels, steady: Parts, step: float = 0.0) -> tuple[dict[str, float], int]:
    """Return what a stage holds at its peak by part, in the order of `PARTS`, and its microbatches.

    The first of several equal moments; the optimiser step, where its buffers are more than
    microbatches ever hold.
    """
    totals = found.during.sum(axis=1)
    moment = int(totals.argmax())
    moving = dict(zip(found.parts, found.during[moment].tolist(), strict=True))
    held = int(found.held[moment])
    if step > totals[moment]:
        moving, held = {"workspace": step}, 0
    return {part: steady.get(part, 0.0) + moving.get(part, 0.0) for part in PARTS}, held


__all__ = [
    "PARTS",
    "STATES",
    "ChunkMemory",
    "HostMemory",
    "Levels",
    "MemoryAnswer",
    "Parts",
    "Peak",
    "Remedy",
    "StageMemory",
    "Verdict",
    "at_peak",
    "levels",
    "peak_activations",
]
