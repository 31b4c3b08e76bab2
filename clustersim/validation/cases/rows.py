"""Measured training runs as rows of a YAML file: the format, and one entry for each row.

    rows of a file --read_entries--> Entry (a Row, or why it cannot be read)

Rows were typed from papers: every field may be missing or null, and a field of a wrong type makes
its own row unreadable, never the file.  A key that its family does not have rejects the file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from clustersim.catalog.files import shown
from clustersim.catalog.problems import as_stated, reason
from clustersim.catalog.reading import read_yaml
from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.validation.cases.keys import key_problems
from clustersim.validation.cases.reasons import Reason, Ungradable
from clustersim.validation.cases.texts import Amount, Count, Flag, Names, Number, Text, Word

Missing = BeforeValidator(lambda value: {} if value is None else value)
"""Read null as a section without keys."""


class Section(BaseModel):
    """A section of a row; keys of other readers of the row are skipped."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Source(Section):
    """Where the numbers were read.

    `confidence` is high for numbers printed in a source that was read, medium for numbers that are
    second-hand, digitised or partly inferred, low for recalled ones.
    """

    title: Text = None
    ref: Text = None
    confidence: Word = None
    note: Text = None


class System(Section):
    """The machine; `gpus` counts devices (a GCD is one), `clock_ghz` is their clock in the run."""

    name: Text = None
    accelerator: Text = None
    gpus: Count = None
    gpus_per_node: Count = None
    interconnect: Text = None
    clock_ghz: Number = None


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
    topk: Count = None
    capacity_factor: Number = None
    moe_ffn: Count = None
    shared_experts: Amount = None
    first_dense_layers: Amount = None
    gated_mlp: Flag = None
    tied_embeddings: Flag = None
    learned_positions: Flag = None
    attention: Text = None


class Parallel(Section):
    """The layout; `interleave` is chunks of a stage, `schedule` is absent without a pipeline."""

    tp: Count = None
    pp: Count = None
    dp: Count = None
    ep: Count = None
    expert_tp: Count = None
    cp: Count = None
    interleave: Count = None
    schedule: Word = None
    zero_stage: Amount = None
    sequence_parallel: Flag = None
    fsdp: Flag = None
    sharding: Text = None
    mp_mode: Word = None


class Lengths(Section):
    """Lengths of packed samples [tokens]: their `mean`, `spread` and the `filled` share."""

    mean: Number = None
    spread: Number = None
    filled: Number = None


class Batch(Section):
    """Sequences of a step (`global`) and of a microbatch (`micro`), and what is packed into one."""

    model_config = ConfigDict(populate_by_name=True)

    global_: Annotated[Count, Field(alias="global")] = None
    micro: Count = None
    grad_accum: Count = None
    lengths: Annotated[Lengths, Missing] = Lengths()


class Measured(Section):
    """The measured numbers of the source, in the units of the names."""

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


class Row(Section):
    """One measured run as it was written.

    Attributes
    ----------
    id, group : unique name; the set it comes from (one source, one machine)
    recompute : none, selective, full or custom; None where the source does not state it
    recompute_modules, recompute_ops : what is recomputed selectively, by Megatron-Core's names of
        modules and by names of operations
    attention : the kernel of attention
    flops_convention : what the source counts as FLOPs
    assumed : settings that a simulator needs and the source does not give, with the reason
    note : remarks, such as options of the software
    family : what is measured, where it is not a step: jitter
    written : the whole row as it is written
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
    recompute_modules: Names = None
    recompute_ops: Names = None
    attention: Word = None
    precision: Word = None
    offload: Any = None
    finetune: Any = None
    scope: Text = None
    flops_convention: Text = None
    note: Text = None
    family: Word = None
    written: dict[str, Any] = {}

    @property
    def recomputed(self) -> dict[str, list[str]]:
        """What is recomputed selectively, as the keys of a scenario; empty where none is listed."""
        listed = {"modules": self.recompute_modules, "ops": self.recompute_ops}
        return {key: names for key, names in listed.items() if names}


def part(*path: str) -> Any:
    """Return a field of a row that is a key inside its sections; None if it is missing or null."""
    return Field(None, validation_alias=AliasPath(path[0], *path[1:]))


OfFamily = TypeVar("OfFamily", bound=Section)
"""The rows of a family that is no step."""


OWN_SHAPE: Final = frozenset({"inference"})
"""Families whose rows have other sections than those of a step; they are read where graded."""

COMMON: Final = ("source", "note", "family")
"""Keys that rows of all families have."""

NO_GROUP: Final = "(no group)"
"""The group of rows that name none."""


@dataclass(frozen=True)
class Entry:
    """One row of a file, or the problem that keeps it from being read."""

    id: str
    group: str
    row: Row | None = None
    problem: Reason | None = None


def read_entries(path: Path) -> list[Entry]:
    """Read a file of measured cases.

    Raises
    ------
    ScenarioError
        when the file does not exist, is not YAML, is not a list, or has an unknown key.
    """
    document = read_yaml(path, finite=False)  # rows are read one by one
    if not isinstance(document.data, list):
        raise ScenarioError(f"{shown(path)}: is not a list of measured cases (items begin '- id:')")
    if problems := key_problems(document):
        raise ScenarioError("\n".join(problems))
    return parse_entries(document.data)


def parse_entries(rows: list[Any]) -> list[Entry]:
    """Return an entry for each row, in order; only the first row of an id is readable."""
    numbers: dict[str, int] = {}
    entries = []
    for number, row in enumerate(rows, 1):
        entry = _entry(row, number)
        first = numbers.setdefault(entry.id, number)
        if first != number:
            reason = Reason("duplicate id", f"row {number} has the id of row {first}")
            entry = Entry(f"{entry.id} (row {number})", entry.group, problem=reason)
        entries.append(entry)
    return entries


def _entry(row: object, number: int) -> Entry:
    here = f"row {number}"
    if not isinstance(row, Mapping):
        reason = Reason("malformed", f"{here} is {as_stated(row)}, not a table of keys")
        return Entry(here, NO_GROUP, problem=reason)
    name, group = _name(row.get("id")) or here, _name(row.get("group")) or NO_GROUP
    keys = row if row.get("family") not in OWN_SHAPE else {key: row.get(key) for key in COMMON}
    try:
        parsed = Row.model_validate({**keys, "id": name, "group": group, "written": dict(row)})
    except ValidationError as error:
        return Entry(name, group, problem=_malformed(error))
    return Entry(name, group, parsed)


def family_row(row: Row, kind: type[OfFamily]) -> OfFamily:
    """Return a row as its family has it: a `kind`.

    Raises
    ------
    Ungradable
        when a key is not of its type.
    """
    try:
        return kind.model_validate(row.written)
    except ValidationError as error:
        raise Ungradable(_malformed(error)) from None


def _malformed(error: ValidationError) -> Reason:
    return Reason("malformed", "; ".join(_message(problem) for problem in error.errors()))


def _name(value: object) -> str:
    return str(value) if isinstance(value, str | int | float) else ""


def _message(problem: Any) -> str:
    where = ".".join(str(key) for key in problem["loc"])
    return f"{where}: {'missing' if problem['type'] == 'missing' else reason(problem)}"
