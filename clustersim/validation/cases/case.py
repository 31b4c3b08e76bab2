"""A measured run in plain values: the one step that turns the words of a row into them.

    Row --case_of--> Case: settings, machine, software, options, and the reasons that exclude it

Each setting that the row does not state stands in `Settings.assumed` with the reason for its value.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from clustersim.program.schedules import SCHEDULES
from clustersim.records import dataclass
from clustersim.validation.cases.machines import (
    FrameworkChoice,
    MachineChoice,
    default_framework,
    framework_of,
    machine_of,
)
from clustersim.validation.cases.nodes import usual_precision
from clustersim.validation.cases.reasons import Reason, Ungradable, not_stated
from clustersim.validation.cases.rows import ModelShape, Row
from clustersim.validation.cases.settings import (
    CHEAPEST,
    CUSTOM,
    PRECISIONS,
    RECOMPUTE,
    Settings,
    case_settings,
)
from clustersim.validation.cases.texts import (
    MeasuredPeak,
    attention_of,
    convention_of,
    finetune_of,
    is_given,
    measured_peak,
    memory_unit,
    offload_of,
)
from clustersim.workload.ops import MODULES

FAMILIES: Final = {"gpt": "gpt", "llama": "llama", "moe": "llama"}
"""Model families of cases and of the catalogue: a mixture of experts is a Llama with experts."""

LAYOUT: Final = (
    "tensor", "pipeline", "data", "context", "expert", "expert_tensor", "chunks", "schedule",
    "zero", "shard", "reshard", "micro", "sequence_parallel", "recompute",
)  # fmt: skip
"""Settings of the layout; any other difference makes another job."""


@dataclass(frozen=True)
class Case:
    """One measured run in plain values.

    Attributes
    ----------
    row : the row as it was written
    attention, finetune, offload : keys of a scenario
    machine : None where there is no cluster file for it
    framework, options : the profile of its software and the options of this run
    memory_unit, peak : the unit of the measured memory [B], and which peak it is
    convention : FLOPs that the source counts by its words, ``model`` or ``hardware``
    job, layout : the job as a text that is equal for equal jobs, and its layout
    reasons : why the case cannot be run; empty where it can
    """

    row: Row
    attention: Mapping[str, Any]
    settings: Settings
    finetune: Mapping[str, Any] | None
    offload: Mapping[str, bool]
    machine: MachineChoice | None
    framework: FrameworkChoice
    options: Mapping[str, Any]
    memory_unit: float
    peak: MeasuredPeak
    convention: str | None
    job: str
    layout: Mapping[str, Any]
    reasons: tuple[Reason, ...]

    @property
    def complete(self) -> bool:
        """Whether source and tables state everything that changes the step time."""
        sure = self.row.source.confidence in ("high", "medium")
        return sure and self.settings.complete and self.framework.source is not None


def case_of(row: Row) -> Case:
    """Return a row in plain values, with all reasons that exclude it."""
    reasons: list[Reason] = []

    def read(reader: Callable[[], Any], kind: str) -> Any:
        """Return a value, or None and record why it cannot be read."""
        try:
            return reader()
        except ValueError as problem:
            reasons.append(Reason(kind, str(problem)))
            return None

    framework = framework_of(row)
    settings = case_settings(row, framework.usual if framework else None)
    framework = framework or default_framework(settings.zero or 0, settings.context)
    machine: MachineChoice | None = None
    try:
        machine = machine_of(row)
    except Ungradable as problem:
        reasons += problem.reasons
    settings = _with_precision(settings, machine)
    attention = attention_of(row.model.attention)
    reasons += _architecture(row.model, attention)
    if settings.recompute == CUSTOM and not row.recomputed:
        reasons.append(not_stated("what is recomputed (recompute_ops or recompute_modules)"))
    elif settings.recompute not in (None, CHEAPEST, CUSTOM, *RECOMPUTE):
        reasons.append(_unknown("unsupported recomputation", settings.recompute))
    offload = read(lambda: offload_of(row.offload), "unsupported offload")
    finetune = read(lambda: finetune_of(row.finetune), "unsupported finetuning")
    reasons += [*_unsupported(row, settings), *_not_stated(row.model, settings)]
    return Case(
        row=row,
        attention=attention or {},
        settings=settings,
        finetune=finetune,
        offload=offload or {},
        machine=machine,
        framework=framework,
        options=framework.options(row),
        memory_unit=memory_unit(row.measured.memory_unit),
        peak=measured_peak(row.measured.memory_unit, framework.memory),
        convention=convention_of(row.flops_convention),
        job=_job(row, settings),
        layout=_layout(row, settings),
        reasons=tuple(reasons),
    )


def _with_precision(settings: Settings, machine: MachineChoice | None) -> Settings:
    """Return settings with the usual precision of the devices, where none is stated."""
    if settings.precision is not None or machine is None:
        return settings
    reason = "not stated: 16 bits, the wider range where the devices have it"
    assumed = {**settings.assumed, "precision": reason}
    return replace(settings, precision=usual_precision(machine.cluster), assumed=assumed)


def _architecture(model: ModelShape, attention: Mapping[str, Any] | None) -> list[Reason]:
    reasons = []
    if model.family not in (None, *FAMILIES):
        reasons.append(_unknown("unknown model family", model.family))
    if attention is None:
        reasons.append(_unknown("unsupported attention", model.attention))
    return reasons


def _unknown(kind: str, value: str | None) -> Reason:
    return Reason(kind, f"{kind} '{value}'")


def _unsupported(row: Row, settings: Settings) -> list[Reason]:
    reasons = [
        _unknown("unsupported recomputed module", name)
        for name in row.recompute_modules or ()
        if name not in MODULES
    ]
    if row.attention is not None and settings.kernel is None:
        reasons.append(_unknown("unsupported kernel of attention", row.attention))
    if settings.precision is not None and settings.precision not in PRECISIONS:
        reasons.append(_unknown("unsupported precision", settings.precision))
    if (settings.pipeline or 1) > 1 and settings.schedule not in (None, *SCHEDULES):
        kind = "unsupported schedule"
        detail = f"{kind} '{settings.schedule}' with {settings.pipeline} stages"
        reasons.append(Reason(kind, detail))
    return reasons


_NAMES: Final = {
    "devices": "number of devices",
    "tensor": "tensor degree",
    "pipeline": "pipeline degree",
    "data": "data degree",
    "chunks": "chunks of a stage",
    "sequences": "global batch",
    "micro": "microbatch",
    "sequence": "sequence length",
    "recompute": "recomputation",
}
"""Names of settings in a reason; others have their own name."""


def _not_stated(model: ModelShape, settings: Settings) -> list[Reason]:
    needed = {"model family": model.family, "layers": model.layers, "hidden width": model.hidden}
    needed |= {"heads": model.heads, "ffn width": model.ffn or model.moe_ffn}
    if (model.experts or 0) > 1:
        needed |= {"experts of a token": model.topk}
    names = [name for name, value in needed.items() if value is None]
    names += [_NAMES.get(name, name) for name in settings.missing]
    return [not_stated(name) for name in names]


def _layout(row: Row, settings: Settings) -> dict[str, Any]:
    """Return the layout of the job of a row."""
    fields = asdict(settings)
    offload = {"offload": row.offload if is_given(row.offload) else None}
    return {name: fields[name] for name in LAYOUT} | offload | row.recomputed


def _job(row: Row, settings: Settings) -> str:
    """Return everything but the layout of a job, as a text."""
    model = row.model.model_dump(exclude={"name", "params_b", "seq"})
    fields = {
        "system": row.system.model_dump(exclude={"gpus"}),
        "devices": settings.devices,
        "model": model | {"vocab": settings.vocab, "sequence": settings.sequence},
        "batch": [settings.sequences, row.batch.lengths.model_dump(exclude_none=True)],
        "precision": [settings.precision, row.parallel.mp_mode],
        "finetune": row.finetune if is_given(row.finetune) else None,
        "attention": settings.kernel,
    }
    return json.dumps(fields, sort_keys=True, default=str)
