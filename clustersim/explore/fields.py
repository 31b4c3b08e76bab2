"""The fields of the form: keys of a scenario, each with its label and what may be chosen."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, Literal, TypeAlias

from clustersim.catalog.finding import entry_names
from clustersim.program.schedules import SCHEDULES
from clustersim.records import dataclass

Kind: TypeAlias = Literal["step", "run", "service"]
"""Kinds of questions."""

KINDS: Final[Mapping[Kind, str]] = {
    "step": "Train a step",
    "run": "Train a whole run",
    "service": "Serve requests",
}
"""Kinds of questions with their names."""

_TRAIN: Final[tuple[Kind, ...]] = ("step", "run")
_SERVE: Final[tuple[Kind, ...]] = ("service",)
_ANY: Final[tuple[Kind, ...]] = ("step", "run", "service")

WHOLE: Final = re.compile(r"[1-9][0-9]{0,11}")
"""A whole number of at least 1."""

AMOUNT: Final = re.compile(r"[0-9][0-9.,]{0,15}(e[0-9]{1,2})? ?[A-Za-z/%]{0,9}")
"""A number with its unit, which can be no name of a file."""

POWERS: Final = tuple(str(2**power) for power in range(11))


@dataclass(frozen=True)
class Field:
    """A key of a scenario that the form offers.

    Attributes
    ----------
    key : dotted key
    group : heading that it stands below
    kinds : questions that have it
    entries : kind of catalogue entries that may be chosen; empty if `values` are
    values : words that may be chosen; none where a number is typed
    pattern : of a number that is typed
    hint : unit or meaning, next to the label
    """

    key: str
    label: str
    group: str
    kinds: tuple[Kind, ...] = _ANY
    entries: str = ""
    values: tuple[str, ...] = ()
    pattern: re.Pattern[str] = WHOLE
    hint: str = ""

    @property
    def choices(self) -> Sequence[str]:
        """Texts that may be chosen; none of a number that is typed."""
        return _entries(self.entries) if self.entries else self.values

    def allows(self, text: str) -> bool:
        """Return whether a text is a choice, or a number of the right form."""
        choices = self.choices
        return text in choices if choices else self.pattern.fullmatch(text) is not None


@cache
def _entries(kind: str) -> tuple[str, ...]:
    return tuple(entry_names(kind))


FIELDS: Final = (
    Field("model", "Model", "Model and software", entries="model"),
    Field("framework", "Framework", "Model and software", _TRAIN, entries="framework"),
    Field("engine", "Engine", "Model and software", _SERVE, entries="engine"),
    Field(
        "precision",
        "Precision",
        "Model and software",
        _TRAIN,
        values=("bf16", "fp16", "fp8", "mxfp8", "nvfp4", "tf32", "fp32"),
    ),
    Field(
        "precision",
        "Weights",
        "Model and software",
        _SERVE,
        values=("bf16", "fp16", "fp8", "fp8-block", "int8", "int4", "nvfp4", "mxfp4"),
    ),
    Field("cluster.name", "Machine", "Machine", entries="cluster"),
    Field("cluster.nodes", "Nodes", "Machine"),
    Field("plan.tensor", "Tensor", "Layout", values=POWERS[:7]),
    Field("plan.pipeline", "Pipeline", "Layout", values=("1", "2", "3", "4", "6", *POWERS[3:8])),
    Field("plan.context", "Context", "Layout", _TRAIN, values=POWERS[:6]),
    Field("plan.expert", "Expert", "Layout", values=POWERS[:8]),
    Field("plan.zero", "ZeRO stage", "Layout", _TRAIN, values=("0", "1", "2", "3")),
    Field("plan.schedule", "Schedule", "Layout", _TRAIN, values=(*SCHEDULES,)),
    Field("plan.chunks", "Chunks", "Layout", _TRAIN, values=("1", "2", "3", "4", "6", "8")),
    Field("recompute", "Recomputation", "Layout", _TRAIN, values=("none", "selective", "full")),
    Field(
        "plan.layers", "Layers", "Layout", _TRAIN, values=("even", "with-ends", "filled", "by-work")
    ),
    Field("plan.sequence_parallel", "Sequence par.", "Layout", _TRAIN, values=("true", "false")),
    Field(
        "plan.context_method",
        "Context by",
        "Layout",
        _TRAIN,
        values=("ring", "all-gather", "ulysses"),
    ),
    Field("plan.replicas", "Replicas", "Layout", _SERVE),
    Field("batch.global", "Batch", "Batch", _TRAIN, hint="sequences"),
    Field("batch.micro", "Microbatch", "Batch", _TRAIN, hint="sequences"),
    Field("batch.sequence", "Sequence", "Batch", _TRAIN, hint="tokens"),
    Field("training.tokens", "Tokens", "Run", ("run",), pattern=AMOUNT, hint="300B, 15T"),
    Field("training.failures", "Failures as of", "Run", ("run",), entries="reliability"),
    Field("load.concurrency", "Users", "Load", _SERVE, hint="at a time"),
    Field("load.rate", "or rate", "Load", _SERVE, pattern=AMOUNT, hint="requests/s"),
    Field("load.input", "Prompt", "Load", _SERVE, hint="tokens"),
    Field("load.output", "Output", "Load", _SERVE, hint="tokens"),
    Field("limits.ttft", "First token within", "Limits", _SERVE, pattern=AMOUNT, hint="2 s"),
    Field("limits.tpot", "Token within", "Limits", _SERVE, pattern=AMOUNT, hint="50 ms"),
)
"""The fields in their order."""


def fields_of(kind: Kind) -> tuple[Field, ...]:
    """Return the fields of a kind of question."""
    return tuple(field for field in FIELDS if kind in field.kinds)


SETTING: Final = re.compile(
    r"([a-z_]+(?:\.[a-z0-9_]+|\[[0-9]{1,4}\])*)"
    rf"=((?:[x/] ?)?{AMOUNT.pattern}|true|false|null)"
)
"""A further change: a number, a factor or a switch, which can be no name of a file."""
