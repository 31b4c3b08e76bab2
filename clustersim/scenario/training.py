"""A whole training run: its length, its failures, its checkpoints, and how it restarts."""

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from clustersim.catalog.facts import (
    Amount,
    Bytes,
    Count,
    NotNegative,
    Positive,
    Seconds,
    Share,
    Strict,
)
from clustersim.catalog.reliability import Duration, ReliabilityRecord
from clustersim.units import parse

AUTO: Final = "auto"
"""The interval with the highest efficiency."""

TRAINING_METRICS: Final = (
    "days",
    "useful_days",
    "goodput",
    "interruptions",
    "checkpoint_bytes",
    "save_s",
)
"""Metrics of published numbers of whole runs."""

MAX_REPLICATIONS: Final = 100_000
"""Maximum number of replications of a whole run."""

Value = str | int | float | bool


def _interval(value: object) -> str:
    """Return an interval as text, checked: ``auto``, ``500 steps`` or a time."""
    text = str(value).strip()
    if text == AUTO:
        return text
    number, _, unit = text.partition(" ")
    if unit in ("step", "steps"):
        if not number.isdecimal() or int(number) < 1:
            raise ValueError(f"'{text}': a number of steps is whole and at least 1 (500 steps)")
        return text
    try:
        seconds = parse(text, "seconds")
    except ValueError as problem:
        raise ValueError(f"{problem}; or auto, or 500 steps") from None
    if seconds <= 0:
        raise ValueError("must be greater than 0")
    return text


def steps_of_interval(text: str) -> int | None:
    """Return the steps of an interval that is given in steps; None for a time.

    >>> steps_of_interval("500 steps"), steps_of_interval("30 min")
    (500, None)
    """
    number, _, unit = text.partition(" ")
    return int(number) if unit in ("step", "steps") else None


class BatchStage(BaseModel):
    """A part of the run with a batch or sequences of its own; missing keys are as in `batch`."""

    model_config = ConfigDict(
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,
    )

    tokens: Amount | None = Field(
        None, description="tokens of this part; the remaining ones in the last part if missing"
    )
    global_: Annotated[Count | None, Field(alias="global")] = Field(
        None, description="sequences of one step"
    )
    sequence: Count | None = Field(None, description="tokens of a sequence")
    set: dict[str, Value] = Field({}, description="other keys that differ in this part, by path")


class EvaluationFile(Strict):
    """Evaluations between steps."""

    every: Count = Field(description="steps between two evaluations")
    length: Duration


class CheckpointFile(Strict):
    """When the state is saved, and where to."""

    every: Annotated[str, BeforeValidator(_interval)] = Field(
        AUTO,
        description="interval of work between two saves: auto for the one with the highest"
        " goodput, 500 steps, or 30 min",
    )
    mode: Literal["synchronous", "asynchronous", "local", "memory"] = Field(
        "synchronous",
        description="what blocks the work: writing to storage; the copy to the host, which is"
        " written while steps run; writing to drives of the node; or the copy to the host, which"
        " is sent to the hosts of other nodes",
    )
    copies: Annotated[int, Field(ge=2, le=64)] = Field(
        2, description="nodes with each part of the state, its own included (mode: memory)"
    )
    block: Seconds | None = Field(
        None, description="time for which a save blocks the work, where it is not to be predicted"
    )
    durable: Seconds | None = Field(
        None, description="time until a save is durable, where it is not to be predicted"
    )
    size: Bytes | None = Field(
        None, description="bytes of a checkpoint, where they are not to be predicted"
    )

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if "copies" in self.model_fields_set and self.mode != "memory":
            raise ValueError(f"copies: has no effect with mode '{self.mode}' (mode: memory)")
        if self.block is not None and self.durable is not None and self.durable < self.block:
            raise ValueError("durable: a save is durable at the end of its block at the earliest")
        return self


class RestartFile(Strict):
    """From a failure until work resumes, except waiting for a node."""

    detection: Seconds = 0.0
    scheduling: Seconds = 0.0
    initialisation: Seconds = 0.0
    loading: Seconds | None = Field(
        None, description="time to load a checkpoint; predicted from the storage if missing"
    )
    warmup: Seconds = 0.0


class SparesFile(Strict):
    """What replaces a node that failed."""

    hot: Annotated[int, Field(ge=0, le=4096)] = Field(
        0, description="spare nodes that are ready; one replaces a failed node at once"
    )
    repair: Seconds = 0.0
    provision: Seconds | None = Field(
        None, description="time to get another node (cold spare); not possible if missing"
    )
    without: Literal["wait", "shrink"] = Field(
        "wait",
        description="what the job does without a node: wait for it, or continue with a replica"
        " less",
    )


class HangsFile(Strict):
    """Failures that stop the job without an error."""

    share: Share = Field(description="share of the failures")
    timeout: Seconds


class PlannedStopsFile(Strict):
    """Stops for maintenance or changes, each after a save."""

    every: Duration
    length: Seconds


class PublishedRun(Strict):
    """A published number of the whole run."""

    metric: Literal[TRAINING_METRICS] = Field(  # type: ignore[valid-type]
        description="days; useful_days without failures, saves and stops; goodput, the share of"
        " useful time; interruptions, with planned stops; bytes of a checkpoint; or time of a save"
    )
    value: NotNegative = Field(description="in the unit of the metric; goodput as a fraction")
    bound: Literal["at-least", "at-most"] | None = Field(
        None, description="where the source states a bound instead of a value"
    )
    source: str = Field(description="publication and the place in it")


class TrainingBase(Strict):
    """The keys of a training run that name no other file."""

    tokens: Amount | None = Field(None, description="length of the run; one of the four")
    steps: Count | None = Field(None, description="length of the run; one of the four")
    samples: Amount | None = Field(None, description="length of the run, in sequences")
    epochs: Positive | None = Field(None, description="length of the run; needs `dataset`")
    dataset: Amount | None = Field(None, description="tokens of an epoch")
    batch_schedule: Annotated[list[BatchStage], Field(max_length=100)] = Field(
        [], description="parts of the run with other batches or sequences, in order"
    )
    evaluation: EvaluationFile | None = Field(None, description="evaluations between steps")
    warmup: Seconds = 0.0
    checkpoint: CheckpointFile = Field(
        CheckpointFile.model_construct(), description="saves of the state"
    )
    restart: RestartFile = Field(
        RestartFile.model_construct(), description="restart after a failure"
    )
    recovery: Literal["restart", "replica"] = Field(
        "restart",
        description="what continues after a failure: the last save, or another replica's state"
        " after the last step",
    )
    spares: SparesFile | None = Field(
        None, description="replacement of failed nodes; replaced at once if missing"
    )
    hangs: HangsFile | None = Field(None, description="failures without an error")
    planned: PlannedStopsFile | None = Field(None, description="planned stops")
    replications: Annotated[int, Field(ge=1, le=MAX_REPLICATIONS)] = Field(
        1_000, description="replications with random failures"
    )
    seed: Annotated[int, Field(ge=0)] = Field(0, description="seed of the random failures")
    published: list[PublishedRun] = Field([], description="published numbers of the run")

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        keys = [key for key in ("tokens", "steps", "samples", "epochs") if getattr(self, key)]
        if len(keys) != 1:
            stated = f"has {' and '.join(keys)}" if keys else "has no length"
            raise ValueError(f"{stated} (give one of tokens, steps, samples, epochs)")
        if (self.epochs is None) != (self.dataset is None):
            missing = "dataset" if self.dataset is None else "epochs"
            raise ValueError(f"{missing}: missing (epochs needs dataset, the tokens of an epoch)")
        return self

    @model_validator(mode="after")
    def _stages_end(self) -> Self:
        if any(stage.tokens is None for stage in self.batch_schedule[:-1]):
            raise ValueError("batch_schedule: only the last part may lack tokens")
        return self


class Training(TrainingBase):
    """A training run whose names have been replaced by the catalogue's records."""

    failures: ReliabilityRecord | None = None


class ReliabilityName(BaseModel):
    """Failures of a machine by name; any other key of the file may be given and wins over it."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    name: str


class TrainingFile(TrainingBase):
    """A training run as it is written."""

    failures: str | ReliabilityName | None = Field(
        None,
        description="name of a file of failures; if missing, that of the cluster if it names one,"
        " else no failures; `none` for none",
    )
