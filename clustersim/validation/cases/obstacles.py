"""What stands against running a case: what the model does not have, and what nobody tells of it."""

from typing import Final

from clustersim.program.schedules import SCHEDULES
from clustersim.validation.cases.architecture import FAMILIES, attention_of
from clustersim.validation.cases.cases import Case
from clustersim.validation.cases.finetuning import (
    ALL_WEIGHTS,
    METHODS,
    OFFLOADS,
    method_of,
    odd_count,
    told,
)
from clustersim.validation.cases.reasons import NOT_STATED, Reason
from clustersim.validation.cases.settings import CHEAPEST, PRECISIONS, RECOMPUTE, Settings


def obstacles(case: Case, settings: Settings) -> list[Reason]:
    """Return what the model does not have, and what the case does not tell."""
    return [*_architecture(case), *_layout(case, settings), *_untold(case, settings)]


def _architecture(case: Case) -> list[Reason]:
    model, found = case.model, []
    if model.family not in (None, *FAMILIES):
        found.append(Reason("unknown model family", f"family '{model.family}'"))
    if attention_of(model.attention) is None:
        found.append(Reason("another kind of attention", f"attention '{model.attention}'"))
    return found


def _layout(case: Case, settings: Settings) -> list[Reason]:
    found = []
    if settings.recompute not in (None, CHEAPEST, *RECOMPUTE):
        what = f"recomputation of another kind: '{settings.recompute}'"
        found.append(Reason("recomputation of another kind", what))
    if told(case.offload) and str(case.offload).lower() not in OFFLOADS:
        found.append(Reason("another offload", f"offload '{case.offload}'"))
    method = method_of(case.finetune)
    if told(case.finetune) and method not in (*METHODS, *ALL_WEIGHTS):
        found.append(Reason("another finetuning", f"finetuning '{method}'"))
    elif odd := odd_count(case.finetune):
        found.append(Reason("another finetuning", f"finetuning with {odd}"))
    if settings.precision is not None and settings.precision not in PRECISIONS:
        what = f"precision {settings.precision}"
        found.append(Reason(what, what))
    pipelined = (settings.pipeline or 1) > 1
    if pipelined and settings.schedule not in (None, *SCHEDULES):
        what = f"schedule '{settings.schedule}' with {settings.pipeline} stages"
        found.append(Reason("another schedule", what))
    return found


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
"""What settings are called in a reason; others by their own name."""


def _untold(case: Case, settings: Settings) -> list[Reason]:
    model = case.model
    needed = {"model family": model.family, "layers": model.layers, "hidden width": model.hidden}
    needed |= {"heads": model.heads, "ffn width": model.ffn or model.moe_ffn}
    if (model.experts or 0) > 1:
        needed |= {"experts of a token": model.topk}
    names = [name for name, value in needed.items() if value is None]
    names += [_NAMES.get(name, name) for name in settings.missing]
    return [Reason(f"{name}{NOT_STATED}", f"{name}{NOT_STATED}") for name in names]
