"""Number formats of released weights, as `quantization_config` states them.

Methods and their keys are those of transformers, ``utils/quantization_config.py``, and of the
library compressed-tensors, ``quantization/quant_args.py``.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from clustersim.importers.models.config import Config

Stated = Mapping[str, Any]


def _eight(stated: Stated) -> str | None:
    return "fp8-block" if stated.get("weight_block_size") else "fp8"


def _whole(stated: Stated) -> str | None:
    bits = stated.get("bits")
    return f"int{bits}" if bits in (4, 8) else None


def _grouped(stated: Stated) -> str | None:
    """Return the format of the first group of layers of compressed-tensors."""
    groups = stated.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = first.get("weights") if isinstance(first, dict) else None
    if not isinstance(weights, dict):
        return None
    kind = f"{weights.get('type', 'int')}{weights.get('num_bits')}"
    if kind == "float8" and weights.get("strategy") == "block":
        return "fp8-block"
    return {"float8": "fp8", "float4": "nvfp4", "int8": "int8", "int4": "int4"}.get(kind)


def _optimised(stated: Stated) -> str | None:
    return {"FP8": "fp8", "NVFP4": "nvfp4"}.get(str(stated.get("quant_algo")))


METHODS: Final[Mapping[str, Callable[[Stated], str | None]]] = {
    "fp8": _eight,
    "fbgemm_fp8": _eight,
    "mxfp4": lambda _: "mxfp4",
    "awq": _whole,
    "gptq": _whole,
    "compressed-tensors": _grouped,
    "modelopt": _optimised,
}
"""The format of weights by `quant_method`."""

_KEPT: Final = ("modules_to_not_convert", "ignore")
"""Keys with the layers whose weights have 16 bits."""


def released_formats(config: Config) -> dict[str, str] | None:
    """Return the formats of the weights; None where they have 16 bits, or are not modelled."""
    stated = config.value("quantization_config")
    if not isinstance(stated, dict):
        return None
    method = str(stated.get("quant_method"))
    weights = METHODS[method](stated) if method in METHODS else None
    if weights is None:
        config.notes.append(f"quantization_config: {method} is not modelled; weights of 16 bits")
        return None
    kept = [layer for key in _KEPT if isinstance(stated.get(key), list) for layer in stated[key]]
    if any("attn" in str(layer) for layer in kept):
        return {"weights": weights, "attention": "bf16"}
    return {"weights": weights}
