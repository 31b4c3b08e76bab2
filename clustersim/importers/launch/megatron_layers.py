"""Arguments of Megatron-Core for layers without attention or an MLP, and for sparse attention.

--hybrid-override-pattern M-M*-      letters by layer: Mamba-2, attention, an MLP, experts
--linear-attention-freq 4            layers of a Gated DeltaNet or attention, and an MLP
--experimental-attention-variant dsa an indexer chooses the tokens that a query attends to

Names and defaults are those of NVIDIA/Megatron-LM, megatron/training/arguments.py, and
megatron/core: ssm/mamba_mixer.py, models/hybrid and transformer/transformer_config.py (read
2026-11-29).
"""

import ast
import re
from typing import Any, Final

from clustersim.importers.launch.options import Option
from clustersim.importers.launch.table import Given, Read, Reads, count, flag, one_of
from clustersim.importers.models.hybrid import DELTA_CHUNK

_DELTA: Final = "G"
"""Letter of a layer with a Gated DeltaNet, which a model here has in place of Mamba-2."""

_LETTERS: Final = "M*-E"

_MAMBA_CHUNK: Final = 128
"""Tokens of a chunk: `chunk_size` of `MambaMixer`."""

_EXPANDED: Final = 2
"""Width of all heads of Mamba-2 over that of the model, where their number is not stated."""


def _letters(option: Option) -> str:
    """Return the letters of a pattern, without bars between stages and layers of predictions."""
    letters = option.word().partition("/")[0].replace("|", "")
    other = sorted({*letters} - {*_LETTERS, _DELTA})
    if other or not letters:
        known = f"M, {_DELTA}, *, - and E"
        raise option.wrong(f"must have the letters {known}" + (f", not {other[0]}" * bool(other)))
    if {"M", _DELTA} <= {*letters}:
        raise option.wrong(f"M and {_DELTA} in one model are not modelled (one of them)")
    return letters


def by_layer(option: Option) -> int | list[int]:
    """Return a frequency, or a list of 0 and 1 by layer: ``([0]*3+[1]*58)``."""
    several = len(option.values) > 1
    text = f"[{','.join(option.words())}]" if several else str(option.value).strip()
    if not text.startswith(("[", "(")):
        return option.count()
    if not re.fullmatch(r"[0-9\s\[\]()+*,]{,2000}", text):
        raise option.wrong("must be a number, or a list such as ([0]*3+[1]*58)")
    try:
        return _list(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise option.wrong("must be a number, or a list such as ([0]*3+[1]*58)") from None


def _list(node: ast.expr) -> list[int]:
    if isinstance(node, ast.List):
        items = [item.value for item in node.elts if isinstance(item, ast.Constant)]
        return [item for item in items if isinstance(item, int)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_list(node.left), *_list(node.right)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        times = node.right
        if isinstance(times, ast.Constant) and isinstance(times.value, int):
            return _list(node.left) * min(times.value, 4_096)
    raise ValueError("is no list")


def _latent_experts(option: Option) -> None:
    raise option.wrong("experts of a narrower width than the model are not modelled")


READS: Final[Reads] = {
    "hybrid-override-pattern": Read("of.letters", _letters),
    "hybrid-layer-pattern": Read("of.letters", _letters),
    "is-hybrid-model": flag("of.divided"),
    "mamba-num-heads": count("of.mamba_heads"),
    "mamba-head-dim": count("of.mamba_head_size"),
    "mamba-state-dim": count("of.mamba_state"),
    "mamba-num-groups": count("of.mamba_groups"),
    "experimental-attention-variant": one_of(
        "of.variant", {"gated_delta_net": "delta", "dsa": "sparse"}
    ),
    "linear-attention-type": one_of("of.variant", {"gated_delta_net": "delta"}),
    "linear-attention-freq": Read("of.mixers", by_layer),
    "linear-conv-kernel-dim": count("of.delta_convolution"),
    "linear-key-head-dim": count("of.delta_state"),
    "linear-value-head-dim": count("of.delta_head_size"),
    "linear-num-key-heads": count("of.delta_groups"),
    "linear-num-value-heads": count("of.delta_heads"),
    "attention-output-gate": flag("model.attention_gate"),
    "dsa-indexer-n-heads": count("of.indexer_heads"),
    "dsa-indexer-head-dim": count("of.indexer_head_size"),
    "dsa-indexer-topk": count("of.indexer_tokens"),
    "moe-latent-size": Read("of.latent_experts", _latent_experts),
}
"""Options that are read, each with its key."""


def count_layers(given: Given) -> None:
    """State the number of layers where the file has a pattern of them."""
    letters, divided = given.get("of.letters"), given.pop("divided")
    if letters is None and divided:
        raise given.wrong("of.divided", "the layers are not known (add --hybrid-override-pattern)")
    if letters is None:
        return
    given.usual("model.layers", len(letters))
    if given.get("model.layers") != len(letters):
        raise given.wrong("model.layers", f"but the pattern has {len(letters)} layers")


def blocks_of(given: Given) -> int:
    """Return the layers as the arguments count them: each of a mixer and an MLP without a pattern.

    Requires the number of layers of the scenario.
    """
    return int(given.get("of.blocks", given.values["model.layers"]))


def state_layers(given: Given) -> None:
    """State what each layer consists of, where not all have attention and an MLP."""
    letters, variant = given.pop("letters"), given.pop("variant")
    if letters is not None:
        _patterned(given, letters)
    elif variant == "delta":
        given.values["of.blocks"] = given.values["model.layers"]
        letters = _alternating(given)
        _patterned(given, letters)
    if variant == "sparse":
        _indexer(given)


def _patterned(given: Given, letters: str) -> None:
    """State a pattern with the mixer of its layers; the experts are those of all its E."""
    given.values["model.layers"] = len(letters)
    given.values["model.pattern"] = letters.replace(_DELTA, "M")
    if _DELTA in letters:
        given.values["model.mamba"] = _delta(given)
    elif "M" in letters:
        given.values["model.mamba"] = _mamba(given)
    experts = given.get("model.experts")
    if experts is not None and "E" not in letters:
        given.disregard("model.experts", "no layer of the pattern has experts")
    elif experts is not None:
        for key in ("first_dense", "every"):
            experts.pop(key, None)


def _alternating(given: Given) -> str:
    """Return the letters of layers that are a mixer and an MLP or experts, two each."""
    layers, mixers = given.values["model.layers"], given.pop("mixers", 1)
    if isinstance(mixers, int):
        mixers = [int((index + 1) % mixers > 0) for index in range(layers)]
    if len(mixers) != layers:
        raise given.wrong("of.mixers", f"must have one number for each of the {layers} layers")
    experts = given.get("model.experts")
    dense, every = (experts or {}).get("first_dense", 0), (experts or {}).get("every", 1)
    text = ""
    for index, mixer in enumerate(mixers):
        routed = experts and index >= dense and (index - dense + 1) % every == 0
        text += (_DELTA if mixer else "*") + ("E" if routed else "-")
    return text


def _mamba(given: Given) -> dict[str, Any]:
    size = given.pop("mamba_head_size", 64)
    return {
        "heads": given.pop("mamba_heads", _EXPANDED * given.values["model.hidden"] // size),
        "head_size": size,
        "groups": given.pop("mamba_groups", 8),
        "state": given.pop("mamba_state", 128),
        "chunk": _MAMBA_CHUNK,
    }


def _delta(given: Given) -> dict[str, Any]:
    return {
        "heads": given.pop("delta_heads", 32),
        "head_size": given.pop("delta_head_size", 128),
        "groups": given.pop("delta_groups", 16),
        "state": given.pop("delta_state", 128),
        "convolution": given.pop("delta_convolution", 4),
        "chunk": DELTA_CHUNK,
        "rule": "delta",
    }


def _indexer(given: Given) -> None:
    """State the indexer of sparse attention, which is that of latent attention."""
    latent = given.get("model.latent")
    if latent is None:
        raise given.wrong("of.variant", "is modelled with --multi-latent-attention only")
    parts = {
        "heads": given.need("of.indexer_heads", "--dsa-indexer-n-heads"),
        "head_size": given.need("of.indexer_head_size", "--dsa-indexer-head-dim"),
        "tokens": given.need("of.indexer_tokens", "--dsa-indexer-topk"),
    }
    for part in parts:
        given.pop(f"indexer_{part}")
    latent["indexer"] = parts
