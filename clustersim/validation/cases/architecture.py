"""The model of a measured case, as a file of the catalogue would hold it.

What the case does not tell has the value that is usual in its family.
"""

import re
from typing import Any, Final

from clustersim.validation.cases.cases import Case, ModelShape
from clustersim.validation.cases.settings import Settings

FAMILIES: Final = {"gpt": "gpt", "llama": "llama", "moe": "llama"}
"""Families of cases, and of the catalogue: today's mixtures of experts are Llamas otherwise."""

_LATENT: Final = re.compile(
    r"mla \((?:q_lora (?P<query>\d+), )?kv_lora (?P<keys_values>\d+), nope (?P<nope>\d+),"
    r" rope (?P<rope>\d+), v (?P<value>\d+)\)"
)
_WINDOW: Final = re.compile(r"(?P<alternating>alternating )?.*sliding window (?P<tokens>\d+)")


def attention_of(told: str | None) -> dict[str, Any] | None:
    """Return the keys of a model file that an attention in words stands for; None if unknown.

    >>> attention_of("mla (q_lora 1536, kv_lora 512, nope 128, rope 64, v 128)")
    {'latent': {'query': 1536, 'keys_values': 512, 'nope': 128, 'rope': 64, 'value': 128}}
    >>> attention_of("alternating full / sliding window 128")
    {'window': {'tokens': 128, 'every': 2}}
    """
    if told is None:
        return {}
    if found := _LATENT.search(told.lower()):
        widths = {name: int(width) for name, width in found.groupdict().items() if width}
        return {"latent": widths}
    if found := _WINDOW.search(told.lower()):
        return {
            "window": {"tokens": int(found["tokens"]), "every": 2 if found["alternating"] else 1}
        }
    return None


def model_of(case: Case, settings: Settings) -> dict[str, Any]:
    """Return the model of a case that tells all that is needed."""
    model = case.model
    attention = attention_of(model.attention) or {}
    found = {
        "kind": "model",
        "name": model.name or case.id,
        "family": FAMILIES[model.family or ""],
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": model.heads,
        "ffn": model.ffn or model.moe_ffn,
        "vocab": settings.vocab,
        "sequence": settings.sequence,
        "parameters": _parameters(case, settings),
        "source": "case",
        "sources": {"case": {"title": case.source.title or case.id, "where": case.source.ref}},
    }
    if "latent" not in attention:
        found |= {"kv_heads": model.kv_heads, "head_size": model.head_dim}
    return found | attention | _told(model)


def _told(model: ModelShape) -> dict[str, Any]:
    """Return what a case tells of its architecture where a family has its own usual."""
    found: dict[str, Any] = {}
    if model.gated_mlp is not None:
        found["mlp"] = "gated" if model.gated_mlp else "gelu"
    if model.tied_embeddings is not None:
        found["tied"] = model.tied_embeddings
    if model.learned_positions:
        found["positions"] = "learned"
    if (model.experts or 0) > 1:
        found["experts"] = {
            "count": model.experts,
            "top_k": model.topk,
            "ffn": model.moe_ffn or model.ffn,
            "shared": model.shared_experts or 0,
            "first_dense": model.first_dense_layers or 0,
        }
    return found


def _parameters(case: Case, settings: Settings) -> dict[str, Any]:
    model = case.model
    if model.params_b is not None:
        return {"value": model.params_b * 1e9, "source": "case"}
    layers, hidden, ffn = model.layers or 0, model.hidden or 0, model.ffn or model.moe_ffn or 0
    count = layers * (4 * hidden * hidden + 2 * hidden * ffn) + hidden * (settings.vocab or 0)
    return {"value": float(count), "assumed": "counted from the shape"}
