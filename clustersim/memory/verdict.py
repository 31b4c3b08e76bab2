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
from clustersim.evidence import Reach
from clustersim.memory.peak_errors import shipped_peak_errors
from clustersim.memory.room import UNFIT, UNLIKELY, Room
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

SHOWN: Final = 0.05 * GIB
"""Least unused blocks that a verdict names [B]."""

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
    reserve : unused blocks that the allocator would keep with memory to spare, and frees before an
        allocation fails [B]
    """

    stage: int
    steady: Parts = field(hash=False)
    chunks: tuple[ChunkMemory, ...] = field(hash=False)
    step: float
    parts: dict[str, float] = field(hash=False)
    in_flight: int = 0
    host: dict[str, float] = field(default_factory=dict, hash=False)
    ranks: int = 1
    reserve: float = 0.0

    @property
    def peak(self) -> float:
        """Sum of all parts: what it needs, and of the reserve what its device has room for [B]."""
        return sum(self.parts.values())

    @property
    def need(self) -> float:
        """The most that it holds at once and cannot free [B]."""
        return self.peak - self.parts.get("fragmentation", 0.0)

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
    tight : whether it fits with less room than the errors of predictions
    adapters : whether it trains adapters of frozen weights instead of the whole model
    """

    change: str
    step_time_s: float | None
    peak_bytes: float
    tight: bool = False
    adapters: bool = False


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
class MemoryRoom:
    """Need, reserve and capacity of a device of the fullest stage.

    Attributes
    ----------
    need_bytes : the most that it holds at once and cannot free [B]
    reserve_bytes : unused blocks that its allocator keeps in addition, with memory to spare [B]
    capacity_bytes : memory of a device [B]
    tight : whether it fits with less room than the measured errors of memory predictions
    chance : share of measured peaks so far below their predictions that it would fit; null where
        it fits
    """

    need_bytes: float
    reserve_bytes: float
    capacity_bytes: float
    tight: bool
    chance: float | None


@record
class MemoryAnswer:
    """The peak of the fullest stage, and whether its devices have room for it.

    Attributes
    ----------
    need_bytes : the most that a device of the fullest stage holds at once and cannot free [B]
    reserve_bytes : unused blocks that its allocator keeps in addition with memory to spare, and
        frees before an allocation fails [B]
    capacity_bytes : memory of a device [B]
    peak_bytes : the need, and of the reserve what the device has room for [B]
    fits : whether the need is within the capacity of device and host
    tight : whether it fits with less room than the measured errors of memory predictions
    chance : share of measured peaks so far below their predictions that the job would fit; null
        where it fits
    verdict : `fits`, `tight`, `probably does not fit` or `does not fit`, and the reason
    errors : the error of predicted peaks by measured ones
    stage : number of the fullest stage
    parts : the peak of that stage by part [B]
    state_bytes : parameters, master weights, gradients and optimiser states of all ranks, on
        device and host [B]
    host : memory of the host with the highest peak
    advice : changes after which a job fits that does not, the fastest first; none where it fits
    """

    need_bytes: float
    reserve_bytes: float
    capacity_bytes: float
    peak_bytes: float
    fits: bool
    tight: bool
    chance: float | None
    verdict: str
    errors: Reach
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
    accelerator, framework : names of device and software, which select the measured errors
    advice : changes with which it fits, the fastest first, where these were requested
    """

    stages: tuple[StageMemory, ...]
    capacity: float
    node: int = 1
    host_capacity: float = math.inf
    accelerator: str = ""
    framework: str = ""
    advice: tuple[Remedy, ...] = ()

    @cached_property
    def fullest(self) -> StageMemory:
        """The stage that needs most, the first of equals."""
        return max(self.stages, key=lambda stage: stage.need)

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
    def fits(self) -> bool:
        """Whether the needs of devices and hosts are within their capacity."""
        return self.fullest.need <= self.capacity and self._within_host

    @property
    def room(self) -> Room:
        """Need, reserve and capacity of a device of the fullest stage."""
        errors = shipped_peak_errors(self.accelerator, self.framework)
        return Room(self.fullest.need, self.fullest.reserve, self.capacity, errors)

    @property
    def tight(self) -> bool:
        """Whether it fits with less room than the errors of predictions."""
        return self.fits and self.room.tight

    @property
    def _within_host(self) -> bool:
        return sum(self.host.values()) <= self.host_capacity

    @property
    def reason(self) -> str:
        """The verdict in words: *fits*, *tight*, or what is missing and which part is largest."""
        room, stage = self.room, self.fullest
        if room.outcome != UNFIT and not self._within_host:
            return self._host_reason()
        used = f"{stage.peak / GIB:.1f} of {self.capacity / GIB:.1f} GiB on stage {stage.stage}"
        if room.fits:
            return f"{room.outcome}: {used}{_reserve(room)}{_margin(room)}"
        part, nbytes = max(stage.parts.items(), key=lambda item: item[1])
        over = (stage.peak - self.capacity) / GIB
        return (
            f"{room.outcome}: {used}, {over:.1f} GiB too many{_chance(room)}; most of it is"
            f" {_words(part)} ({nbytes / GIB:.1f} GiB)"
        )

    def _host_reason(self) -> str:
        needed = sum(self.host.values())
        part, nbytes = max(self.host.items(), key=lambda item: item[1])
        return (
            f"{UNFIT}: {needed / GIB:.1f} of {self.host_capacity / GIB:.1f} GiB of the host's"
            f" memory, {(needed - self.host_capacity) / GIB:.1f} GiB too many; most of it is"
            f" {_words(part)} ({nbytes / GIB:.1f} GiB)"
        )

    @property
    def answer(self) -> MemoryAnswer:
        """The same in the keys of ``run --json``."""
        capacity = self.host_capacity if math.isfinite(self.host_capacity) else None
        room = self.room
        return MemoryAnswer(
            need_bytes=room.need,
            reserve_bytes=room.reserve,
            capacity_bytes=self.capacity,
            peak_bytes=self.fullest.peak,
            fits=self.fits,
            tight=self.tight,
            chance=room.chance if self._within_host else 0.0,
            verdict=self.reason,
            errors=shipped_peak_errors(self.accelerator, self.framework).reach,
            stage=self.fullest.stage,
            parts=self.fullest.parts,
            state_bytes=self.state_bytes,
            host=HostMemory(sum(self.host.values()), capacity, self.host),
            advice=self.advice,
        )


def _reserve(room: Room) -> str:
    """Return the unused blocks that an allocator has to free, if any."""
    if room.missing < SHOWN:
        return ""
    kept = (room.reserve - room.missing) / GIB
    return (
        f", of which {kept:.1f} GiB are unused blocks of the allocator (with more room it would"
        f" keep {room.missing / GIB:.1f} GiB more)"
    )


def _margin(room: Room) -> str:
    """Return the errors that leave less room than there is, of a job that is tight."""
    if not room.tight or room.errors is None:
        return ""
    reach = room.errors.reach
    most = "" if reach.above is None else f" by up to {100 * (reach.above - 1):.0f} %"
    return f"; measured peaks exceed predictions{most}"


def _chance(room: Room) -> str:
    """Return the chance that a job fits whose predicted need exceeds the capacity."""
    if room.outcome != UNLIKELY or room.errors is None or room.chance is None:
        return ""
    rows = room.errors.reach.rows
    return f"; {100 * room.chance:.0f} % chance that it fits, by {rows} measured peaks"


def _words(part: str) -> str:
    return part.replace("_", " ")
