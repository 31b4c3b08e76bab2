"""Disturbances of a scenario: what makes some of its ranks or links differ from the others."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog.facts import Count, Fraction, Line, NotNegative, Seconds, Strict, Whole

MOST_FACTOR = 1e3
"""Maximum factor of a time, by which kernels are longer or shorter: a device that is a thousand
times slower has failed, and none is as much faster."""

Factor = Annotated[float, Field(ge=1 / MOST_FACTOR, le=MOST_FACTOR)]
Deviation = Annotated[float, Field(gt=0, le=10)]
Remaining = Annotated[float, Field(ge=1 / MOST_FACTOR, le=1)]


class DisturbanceFile(Strict):
    """What all disturbances have."""

    name: Line | None = Field(
        None, description="name in the answer, of its own; the type if missing"
    )
    seed: Whole = Field(0, description="seed of its random numbers")

    @property
    def title(self) -> str:
        """Its name in the answer."""
        return self.name or str(self.type)  # type: ignore[attr-defined]


class RanksFile(DisturbanceFile):
    """Which ranks a disturbance concerns: one key at most, all ranks without any."""

    devices: Annotated[list[Whole], Field(min_length=1)] | None = Field(
        None, description="numbers of the devices that are concerned; all of the job if missing"
    )
    nodes: Annotated[list[Whole], Field(min_length=1)] | None = Field(
        None, description="the same, as numbers of nodes"
    )
    stages: Annotated[list[Whole], Field(min_length=1)] | None = Field(
        None, description="the same, as numbers of pipeline stages"
    )

    @model_validator(mode="after")
    def _one_selection(self) -> Self:
        keys = [key for key in ("devices", "nodes", "stages") if getattr(self, key) is not None]
        if len(keys) > 1:
            raise ValueError(f"'{keys[0]}' excludes {keys[1]} (leave out one of them)")
        return self


class SlowDeviceFile(RanksFile):
    """A device that is slower than others, or faster."""

    type: Literal["slow-device"]
    factor: Factor = Field(
        1.0, description="time of its kernels, relative to that of other devices"
    )
    clock: Fraction = Field(
        1.0,
        description="its clock under a power cap, relative to that of other devices; stretches"
        " kernels that are limited by compute only",
    )

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if not self.model_fields_set & {"factor", "clock"}:
            raise ValueError("needs factor or clock (factor: 1.1, or clock: 0.9)")
        return self


class JitterFile(RanksFile):
    """Kernels whose time varies at random, independently on each device."""

    type: Literal["jitter"]
    distribution: Literal["normal", "log-normal", "exponential", "histogram"] = Field(
        "normal", description="distribution of the factor of the time; exponential adds delays"
    )
    deviation: Deviation | None = Field(
        None, description="standard deviation of the factor, of its mean; not with a histogram"
    )
    histogram: list[tuple[Factor, NotNegative]] = Field(
        [], description="measured factors, each with how often it occurs, in any unit"
    )
    each: Literal["segment", "step"] = Field(
        "segment",
        description="whether a factor is drawn for all kernels between two collectives,"
        " or for all kernels of a step",
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.distribution == "histogram":
            _check_histogram(self.histogram)
            if self.deviation is not None:
                raise ValueError("deviation: has no effect on a histogram (leave it out)")
            return self
        if self.deviation is None:
            raise ValueError(f"deviation: missing (distribution '{self.distribution}' needs it)")
        if self.histogram:
            raise ValueError("histogram: has no effect (set distribution: histogram)")
        return self


class PausesFile(RanksFile):
    """Processes that pause now and then, as for garbage collection."""

    type: Literal["pauses"]
    length: Seconds
    every: Count = Field(description="steps of training between two pauses of a process")
    planned: bool = Field(
        False,
        description="whether all processes pause in the same step; otherwise each pauses at"
        " a random forward of a random step",
    )


class LateHostFile(RanksFile):
    """A host that dispatches kernels late."""

    type: Literal["late-host"]
    delay: Seconds


class SequenceLengthsFile(DisturbanceFile):
    """Sequences of uneven lengths, packed into microbatches: attention goes by their squares."""

    type: Literal["sequence-lengths"]
    histogram: list[tuple[Count, NotNegative]] = Field(
        description="lengths in tokens, each with how often it occurs, in any unit"
    )
    balanced: bool = Field(
        False,
        description="whether sequences are distributed so that every microbatch has the same"
        " work in attention",
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        _check_histogram(self.histogram)
        return self


class SlowLinkFile(DisturbanceFile):
    """A link that carries less than others of its kind, or loses packets."""

    type: Literal["slow-link"]
    link: Line = Field(
        description="name of the link, one direction, as in the answer: n0.nic1>leaf1"
    )
    bandwidth: Remaining = Field(1.0, description="share of its bandwidth that remains")
    loss: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="share of its packets that are lost"
    )
    window: Count = Field(
        1,
        description="packets that are sent again for each lost one: 1 with selective repeat,"
        " those in flight with go-back-N",
    )

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if not self.model_fields_set & {"bandwidth", "loss"}:
            raise ValueError("needs bandwidth or loss (bandwidth: 0.5, or loss: 0.001)")
        return self


class SlowNicFile(DisturbanceFile):
    """A NIC that carries less than others, in both directions."""

    type: Literal["slow-nic"]
    node: Whole = Field(description="number of its node")
    nic: Whole = Field(description="its number in the node")
    bandwidth: Remaining = Field(description="share of its bandwidth that remains")


class FailedNicFile(DisturbanceFile):
    """A NIC that carries nothing: the devices of its node use the others."""

    type: Literal["failed-nic"]
    node: Whole = Field(description="number of its node")
    nic: Whole = Field(description="its number in the node")


class FailedCableFile(DisturbanceFile):
    """A cable that carries nothing in either direction: others of its bundle, or detours, do."""

    type: Literal["failed-cable"]
    link: Line = Field(description="name of one of its links, as in the answer: leaf0>spines0")


class FailedSwitchFile(DisturbanceFile):
    """A switch that carries nothing: its cables fail, and the NICs on it."""

    type: Literal["failed-switch"]
    switch: Line = Field(description="name of the switch, as in those of its cables: spine0.3")


def _check_histogram(histogram: list[tuple[float, float]] | list[tuple[int, float]]) -> None:
    if not sum(weight for _, weight in histogram):
        raise ValueError("histogram: is empty (list pairs of a value and how often it occurs)")


def unfolds(disturbance: DisturbanceFile) -> bool:
    """Return whether a disturbance makes all replicas of a job differ at random."""
    if isinstance(disturbance, SequenceLengthsFile):
        return not disturbance.balanced
    if not isinstance(disturbance, JitterFile):
        return False
    return disturbance.devices is None and disturbance.nodes is None and disturbance.stages is None


Disturbance = Annotated[
    SlowDeviceFile
    | JitterFile
    | PausesFile
    | LateHostFile
    | SequenceLengthsFile
    | SlowLinkFile
    | SlowNicFile
    | FailedNicFile
    | FailedCableFile
    | FailedSwitchFile,
    Field(discriminator="type"),
]
