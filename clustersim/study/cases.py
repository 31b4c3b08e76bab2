"""Measured training runs as they are written down, and the settings that a run needs of them.

    rows of a file --read_cases--> Entry (Case, or why it cannot be read) --settings_of--> Settings

A row is read tolerantly, because it was typed from a paper: every field may be missing or null, and
one field of a wrong type costs its own row, never the file.  A setting is what the row states, else
what its block `assumed` gives, else our stated default; which of them is kept beside the value.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from clustersim.catalog.reading import read_yaml, shown
from clustersim.errors import ScenarioError

MOST: Final = 10**9
"""No count of devices, layers, tokens or sequences is larger."""


RECOMPUTE: Final = ("none", "selective", "full")
SCHEDULES: Final = ("none", "gpipe", "1f1b", "interleaved-1f1b")


class Reason(NamedTuple):
    """Why a case cannot be graded: a `kind` that other cases share, and what is so in this one."""

    kind: str
    detail: str


NOT_STATED: Final = " not stated"
"""The end of each reason that names what a case leaves out."""


def joined(reasons: Iterable[Reason]) -> str:
    """Return reasons as one text; what is not stated is listed together, at the end.

    >>> names = ["gated MLP", "layers not stated", "heads not stated"]
    >>> joined(Reason(name, name) for name in names)
    'gated MLP; not stated: layers, heads'
    """
    details = [reason.detail for reason in reasons]
    told = [detail for detail in details if not detail.endswith(NOT_STATED)]
    left_out = [d.removesuffix(NOT_STATED) for d in details if d.endswith(NOT_STATED)]
    if left_out:
        told.append(f"not stated: {', '.join(left_out)}")
    return "; ".join(told)


class Ungradable(Exception):  # noqa: N818 - an answer about the case, not a failure
    """A case turned out not to be gradable."""

    def __init__(self, *reasons: Reason) -> None:
        super().__init__(joined(reasons))
        self.reasons = reasons


# --- values as people type them -------------------------------------------------------------------

_WHOLE: Final = re.compile(r"\s*(\d+)(?=$|[\s,;:(])")
_WORD: Final = re.compile(r"\s*([A-Za-z0-9][\w.+-]*)(?=\s*(?:$|[,;:(]))")


def whole(value: object) -> int | None:
    """Return a count: a whole number, or a text that begins with one.

    >>> whole("51200: GPT-2 vocabulary padded"), whole("1 (not stated)"), whole(8.0), whole(None)
    (51200, 1, 8, None)
    >>> whole("4*hidden")
    Traceback (most recent call last):
    ValueError: '4*hidden' is not a whole number
    """
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and (match := _WHOLE.match(value)):
        value = int(match[1]) if len(match[1]) < 20 else MOST + 1
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{_quoted(value)} is not a whole number")
    if not 0 <= value <= MOST:
        raise ValueError(f"{_quoted(value)} is not from 0 to {MOST:,}")
    return value


def count(value: object) -> int | None:
    """Return a count of at least one; texts as in `whole`."""
    found = whole(value)
    if found == 0:
        raise ValueError("0 is not a count of at least 1")
    return found


def number(value: object) -> float | None:
    """Return a number above 0 that a measurement can be, also where it is written as a text."""
    if value is None:
        return None
    try:
        found = float(value) if isinstance(value, str | int | float) else 0.0
    except (ValueError, OverflowError):
        found = 0.0
    if isinstance(value, bool) or not 1e-12 <= found <= 1e15:
        raise ValueError(f"{_quoted(value)} is not a number from 1e-12 to 1e15")
    return found


def flag(value: object) -> bool | None:
    """Return yes or no, also from a text such as ``"true when tp > 1"``."""
    if value is None or isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if not word.startswith(("true", "false")):
        raise ValueError(f"{_quoted(value)} is neither true nor false")
    return word.startswith("true")


def text(value: object) -> str | None:
    """Return a text; a number that stands in its place is one."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        raise ValueError(f"{_quoted(value)} is not a text")
    return str(value)


def word(value: object) -> str | None:
    """Return the one word that a text says before its explanation, in lower case.

    >>> word("none (nanotron default)"), word("full: the scripts say so"), word("Selective")
    ('none', 'full', 'selective')

    A text that only begins with such a word says something else, and is kept whole.

    >>> word("none or selective; not stated")
    'none or selective; not stated'
    """
    words = text(value)
    if words is None:
        return None
    match = _WORD.match(words)
    return (match[1] if match else words).strip().lower()


def one_of(*allowed: str) -> Callable[[object], str | None]:
    """Return a reader of one of the words `allowed`; any other text is no value."""

    def read(value: object) -> str | None:
        found = word(value)
        if found is not None and found not in allowed:
            raise ValueError(f"{_quoted(value)} is none of {', '.join(allowed)}")
        return found

    return read


def _quoted(value: object) -> str:
    shown_value = repr(value)
    return shown_value if len(shown_value) <= 40 else f"{shown_value[:37]}..."


Count = Annotated[int | None, BeforeValidator(count)]
Amount = Annotated[int | None, BeforeValidator(whole)]
Number = Annotated[float | None, BeforeValidator(number)]
Flag = Annotated[bool | None, BeforeValidator(flag)]
Text = Annotated[str | None, BeforeValidator(text)]
Word = Annotated[str | None, BeforeValidator(word)]


def _or_empty(value: object) -> object:
    return {} if value is None else value


Missing = BeforeValidator(_or_empty)
"""A section that is null is one without keys."""


# --- the format -----------------------------------------------------------------------------------


class Section(BaseModel):
    """A part of a row; keys that nothing here uses may stand in it."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Source(Section):
    """Where the numbers were read.

    `confidence` is high for what is printed in a source that was read, medium for what is
    second-hand, digitised or partly inferred, low for what is recalled.
    """

    title: Text = None
    ref: Text = None
    confidence: Word = None
    note: Text = None


class System(Section):
    """The machine; `gpus` counts devices, a GCD as one."""

    name: Text = None
    accelerator: Text = None
    gpus: Count = None
    gpus_per_node: Count = None
    interconnect: Text = None


class ModelShape(Section):
    """The architecture; `params_b` is in 10^9."""

    name: Text = None
    family: Word = None
    layers: Count = None
    hidden: Count = None
    heads: Count = None
    kv_heads: Count = None
    head_dim: Count = None
    ffn: Count = None
    vocab: Count = None
    seq: Count = None
    params_b: Number = None
    experts: Amount = None
    gated_mlp: Flag = None
    tied_embeddings: Flag = None
    learned_positions: Flag = None
    attention: Text = None


class Parallel(Section):
    """The layout; `interleave` is chunks of a stage, `schedule` none without a pipeline."""

    tp: Count = None
    pp: Count = None
    dp: Count = None
    ep: Count = None
    cp: Count = None
    interleave: Count = None
    schedule: Word = None
    zero_stage: Amount = None
    sequence_parallel: Flag = None
    fsdp: Flag = None
    sharding: Text = None


class Batch(Section):
    """Sequences of a step (`global`) and of a microbatch (`micro`)."""

    model_config = ConfigDict(populate_by_name=True)

    global_: Annotated[Count, Field(alias="global")] = None
    micro: Count = None
    grad_accum: Count = None


class Measured(Section):
    """What the source prints, in the units of the names."""

    step_time_s: Number = None
    tokens_per_s_per_gpu: Number = None
    tflops_per_gpu: Number = None
    mfu_pct: Number = None
    hfu_pct: Number = None
    samples_per_s: Number = None
    run_time_s: Number = None
    run_samples: Number = None
    scaling_efficiency_pct: Number = None
    layer_forward_ms: Number = None
    layer_backward_ms: Number = None
    layer_total_ms: Number = None
    time_to_train_s: Number = None
    memory_gb_per_gpu: Number = None
    memory_unit: Text = None


class Case(Section):
    """One measured run.

    Attributes
    ----------
    id, group : unique name; the set it comes from (one source, one machine)
    recompute : none, selective or full; None where the source does not say
    flops_convention : what the source counts as FLOPs
    assumed : what a simulator needs and the source does not give, with the reason
    """

    id: str
    group: str
    source: Annotated[Source, Missing] = Source()
    system: Annotated[System, Missing] = System()
    model: Annotated[ModelShape, Missing] = ModelShape()
    parallel: Annotated[Parallel, Missing] = Parallel()
    batch: Annotated[Batch, Missing] = Batch()
    measured: Annotated[Measured, Missing] = Measured()
    assumed: Annotated[dict[str, Any], Missing] = {}
    recompute: Word = None
    precision: Word = None
    offload: Any = None
    finetune: Any = None
    scope: Text = None
    flops_convention: Text = None


NO_GROUP: Final = "(no group)"
"""The group of rows that name none."""


@dataclass(frozen=True)
class Entry:
    """One row of a file: a case, or what stops it from being read."""

    id: str
    group: str
    case: Case | None = None
    trouble: Reason | None = None


def read_cases(path: Path) -> list[Entry]:
    """Read a file of measured cases.

    Raises
    ------
    ScenarioError
        when the file is not there, is not YAML, or is not a list.
    """
    rows = read_yaml(path).data
    if not isinstance(rows, list):
        raise ScenarioError(f"{shown(path)}: is not a list of measured cases (items begin '- id:')")
    return entries(rows)


def entries(rows: list[Any]) -> list[Entry]:
    """Return each row as an entry, in order; of rows with one id only the first is a case."""
    found: dict[str, int] = {}
    read = []
    for place, row in enumerate(rows, 1):
        entry = _entry(row, place)
        first = found.setdefault(entry.id, place)
        if first != place:
            reason = Reason("its id stands twice", f"row {place} has the id of row {first}")
            entry = Entry(f"{entry.id} (row {place})", entry.group, trouble=reason)
        read.append(entry)
    return read


def _entry(row: object, place: int) -> Entry:
    here = f"row {place}"
    if not isinstance(row, Mapping):
        told = f"{here} is {_quoted(row)}, not a mapping"
        return Entry(here, NO_GROUP, trouble=Reason("malformed", told))
    name, group = _name(row.get("id")) or here, _name(row.get("group")) or NO_GROUP
    try:
        case = Case.model_validate({**row, "id": name, "group": group})
    except ValidationError as problems:
        told = "; ".join(_complaint(problem) for problem in problems.errors())
        return Entry(name, group, trouble=Reason("malformed", told))
    return Entry(name, group, case)


def _name(value: object) -> str:
    return str(value) if isinstance(value, str | int | float) else ""


def _complaint(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    what = problem["msg"].removeprefix("Value error, ")
    told = problem["type"] == "value_error" or isinstance(problem.get("input"), list | dict)
    return f"{where}: {what}" + ("" if told else f", not {_quoted(problem.get('input'))}")


# --- settings -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """What a run needs to be told, None where nobody says it.

    Attributes
    ----------
    devices, tensor, pipeline, data : of the job
    chunks : model chunks of a stage
    sequences, micro : of a step and of a microbatch
    vocab : rows of the embedding, before padding for the layout
    assumed : for each setting that the source does not state, why it has its value
    missing : settings that nobody gives and that have no default
    """

    devices: int | None
    tensor: int | None
    pipeline: int | None
    data: int | None
    chunks: int | None
    schedule: str | None
    zero: int | None
    sequences: int | None
    micro: int | None
    sequence: int | None
    vocab: int | None
    recompute: str | None
    precision: str | None
    sequence_parallel: bool | None
    attention: str | None
    assumed: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """Settings that are needed and that nobody gives."""
        optional = {"attention", "sequence_parallel"}
        return [
            f.name for f in fields(self) if f.name not in optional and getattr(self, f.name) is None
        ]

    @property
    def complete(self) -> bool:
        """Whether the source itself states everything that shapes the step."""
        return not set(self.assumed) - {"vocab", "sequence_parallel"}


class _Chooser:
    """Takes settings one by one and remembers which of them were assumed, and why."""

    def __init__(self, case: Case) -> None:
        self.given = case.assumed
        self.assumed: dict[str, str] = {}

    def take(
        self,
        name: str,
        stated: Any,
        read: Callable[[object], Any],
        keys: tuple[str, ...] = (),
        default: tuple[Any, str] | None = None,
    ) -> Any:
        """Return what is stated, else the first of `keys` that is assumed, else the default."""
        if stated is not None:
            return stated
        for key in keys:
            value = _readable(read, self.given.get(key))
            if value is not None:
                self.assumed[name] = "assumed in the case"
                return value
        if default is not None:
            value, self.assumed[name] = default
            return value
        return None


def _readable(read: Callable[[object], Any], value: object) -> Any:
    """Return an assumed value, or None where its text is a remark."""
    try:
        return read(value)
    except ValueError:
        return None


def settings_of(case: Case) -> Settings:
    """Return what the row states, else assumes, else what we assume."""
    chooser = _Chooser(case)
    take, parallel, batch = chooser.take, case.parallel, case.batch
    tensor = take("tensor", parallel.tp, count, ("tp",))
    pipeline = take("pipeline", parallel.pp, count, ("pp",))
    data = take("data", parallel.dp, count, ("dp",))
    devices = take("devices", case.system.gpus, count, ("gpus",))
    data = data or _quotient(devices, tensor, pipeline)
    devices = devices or _product(tensor, pipeline, data)
    micro = take("micro", batch.micro, count, ("micro",))
    micro = micro or _quotient(batch.global_, data, batch.grad_accum)
    steps = batch.grad_accum or _readable(count, case.assumed.get("microbatches"))
    sequences = take("sequences", batch.global_, count, ("global_batch",))
    sequences = sequences or _product(data, micro, steps)
    schedule, chunks = _schedule(chooser, parallel, pipeline)
    vocab = _readable(count, case.assumed.get("padded_vocab"))
    return Settings(
        devices=devices,
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        chunks=chunks,
        schedule=schedule,
        zero=take("zero", parallel.zero_stage, whole, ("zero_stage",), (0, "not stated")),
        sequences=sequences,
        micro=micro,
        sequence=take("sequence", case.model.seq, count, ("seq",)),
        vocab=vocab or take("vocab", case.model.vocab, count, ("vocab",), (50257, "that of GPT-2")),
        recompute=take("recompute", case.recompute, one_of(*RECOMPUTE), ("recompute",)),
        precision=take("precision", case.precision, word),
        sequence_parallel=take(
            "sequence_parallel", parallel.sequence_parallel, flag, ("sequence_parallel",)
        ),
        attention=_readable(word, case.assumed.get("attention")),
        assumed=chooser.assumed,
    )


def _schedule(
    chooser: _Chooser, parallel: Parallel, pipeline: int | None
) -> tuple[str | None, int | None]:
    """Return the schedule and its chunks; without a pipeline there is nothing to choose."""
    if pipeline == 1:
        return "1f1b", 1
    chunks = chooser.take("chunks", parallel.interleave, count, ("interleave",))
    usual = "1f1b" if chunks in (None, 1) else "interleaved-1f1b"
    schedule = chooser.take(
        "schedule",
        parallel.schedule,
        one_of(*SCHEDULES),
        ("schedule",),
        (usual, "not stated: the usual one"),
    )
    return schedule, 1 if chunks is None and schedule != "interleaved-1f1b" else chunks


def _quotient(total: int | None, *parts: int | None) -> int | None:
    """Return `total` over the product of `parts` where that is a whole number."""
    product = _product(*parts)
    if total is None or not product or total % product:
        return None
    return total // product


def _product(*parts: int | None) -> int | None:
    product = 1
    for part in parts:
        if part is None:
            return None
        product *= part
    return product
