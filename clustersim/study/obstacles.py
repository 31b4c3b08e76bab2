"""What stands against running a case: what the model does not have, and what nobody tells of it."""

from collections.abc import Mapping
from typing import Final

from clustersim.study.cases import Case
from clustersim.study.reasons import NOT_STATED, Reason
from clustersim.study.settings import PRECISIONS, RECOMPUTE, Settings


def obstacles(case: Case, settings: Settings) -> list[Reason]:
    """Return what the model does not have, and what the case does not tell."""
    return [*_architecture(case), *_layout(case, settings), *_untold(case, settings)]


def _architecture(case: Case) -> list[Reason]:
    model, found = case.model, []
    if model.family not in (None, "gpt"):
        found.append(Reason("model family other than gpt", f"family '{model.family}'"))
    if model.gated_mlp:
        found.append(Reason("gated MLP", "gated MLP"))
    if model.kv_heads is not None and model.heads is not None and model.kv_heads != model.heads:
        told = f"{model.kv_heads} key and value heads for {model.heads} heads"
        found.append(Reason("grouped key and value heads", told))
    if model.head_dim and model.heads and model.hidden != model.head_dim * model.heads:
        told = f"{model.heads} heads of {model.head_dim} in a width of {model.hidden}"
        found.append(Reason("heads that do not make up the width", told))
    if (model.experts or 0) > 1:
        found.append(Reason("mixture of experts", f"{model.experts} experts"))
    if model.attention is not None:
        found.append(Reason("another kind of attention", f"attention '{model.attention}'"))
    if model.tied_embeddings is False:
        found.append(Reason("untied embeddings", "untied embeddings"))
    if model.learned_positions is False:
        found.append(Reason("positions that are not learned", "positions that are not learned"))
    return found


def _layout(case: Case, settings: Settings) -> list[Reason]:
    parallel, found = case.parallel, []
    if (parallel.ep or 1) > 1:
        found.append(Reason("expert parallelism", f"expert parallelism over {parallel.ep}"))
    if (parallel.cp or 1) > 1:
        found.append(Reason("context parallelism", f"context parallelism over {parallel.cp}"))
    if settings.sequence_parallel and settings.tensor != 1:
        found.append(Reason("sequence parallelism", "sequence parallelism"))
    if settings.recompute == "selective":
        found.append(Reason("selective recomputation", "selective recomputation"))
    elif settings.recompute not in (None, *RECOMPUTE):
        told = f"recomputation of another kind: '{settings.recompute}'"
        found.append(Reason("recomputation of another kind", told))
    if sharded := _sharded(case, settings):
        found.append(Reason("sharded weights or gradients (ZeRO 2 and 3, FSDP)", sharded))
    if _told(case.offload):
        found.append(Reason("offload", f"offload '{case.offload}'"))
    if _told(case.finetune):
        found.append(Reason("finetuning", f"finetuning {_method(case.finetune)}"))
    if settings.precision is not None and settings.precision not in PRECISIONS:
        told = f"precision {settings.precision}"
        found.append(Reason(told, told))
    pipelined = (settings.pipeline or 1) > 1
    if pipelined and settings.schedule not in (None, "gpipe", "1f1b", "interleaved-1f1b"):
        told = f"schedule '{settings.schedule}' with {settings.pipeline} stages"
        found.append(Reason("another schedule", told))
    return found


def _sharded(case: Case, settings: Settings) -> str | None:
    if (settings.zero or 0) > 1:
        return f"ZeRO stage {settings.zero}"
    if case.parallel.fsdp:
        return "FSDP"
    return case.parallel.sharding


def _told(value: object) -> bool:
    """Whether a field says something else than no."""
    return value not in (None, False, "", {}, []) and str(value).strip().lower() != "none"


def _method(finetune: object) -> str:
    method = finetune.get("method") if isinstance(finetune, Mapping) else finetune
    return f"'{method}'"


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
    needed |= {"heads": model.heads, "ffn width": model.ffn}
    names = [name for name, value in needed.items() if value is None]
    names += [_NAMES.get(name, name) for name in settings.missing]
    return [Reason(f"{name}{NOT_STATED}", f"{name}{NOT_STATED}") for name in names]
