"""Readers of architectures with layers of Mamba-2 or a Gated DeltaNet next to attention.

A layer of a pattern is one of a mixer, an MLP and experts, so that a block with two has two.
"""

from collections.abc import Sequence
from typing import Any, Final

from clustersim.importers.models.config import Config
from clustersim.importers.models.dense import ATTENTION, Shape, dropped, gated, note_partial_rotary

_LETTER: Final = {
    "mamba": "M",
    "linear_attention": "M",
    "attention": "*",
    "full_attention": "*",
    "mlp": "-",
    "moe": "E",
}
"""Letters of layers by their names in `layers_block_type`, old ones and new ones."""

_NO_EFFECT: Final = (
    *("expand", "use_mamba_kernels", "mamba_ssm_cache_dtype", "num_logits_to_keep"),
    *("time_step_min", "time_step_max", "time_step_floor", "time_step_limit", "time_step_rank"),
    *("rescale_prenorm_residual", "mamba_hidden_act", "moe_shared_expert_overlap"),
    *("mtp_layers_block_type", "mtp_hybrid_override_pattern"),
)
"""Keys that change no shape; the width of the heads is that of `mamba_num_heads`."""

_OF_EXPERTS: Final = (
    *("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts"),
    *("moe_shared_expert_intermediate_size", "moe_latent_size", "n_group", "topk_group"),
)


def nemotron_h(config: Config) -> Shape:
    """Nemotron-H: Mamba-2, attention without positions, and MLPs with squared ReLU."""
    pattern = _pattern(config)
    if config.value("mlp_hidden_act") in (None, "relu2"):
        config.notes.append("squared ReLU is modelled as GELU, which moves as many bytes")
    for key in ("use_bias", "mamba_proj_bias", "residual_in_fp32"):
        config.only(key, (False,), "biases of Mamba-2, or a wider residual stream")
    config.only("use_conv_bias", (True,), "a convolution without biases")
    config.only("sliding_window", (), "a window of some layers")
    for key in _NO_EFFECT:
        config.value(key)
    if config.count("num_nextn_predict_layers", default=0, least=0):
        config.notes.append("the module for multi-token prediction is omitted")
    experts = _experts(config, pattern)
    return {
        "family": "llama",
        "layers": len(pattern),
        "hidden": config.count("hidden_size"),
        "heads": config.count("num_attention_heads"),
        "kv_heads": config.count("num_key_value_heads", default=8),
        "head_size": config.count("head_dim", "attention_head_dim", default=128),
        "ffn": config.count("intermediate_size"),
        "vocab": config.count("vocab_size", default=131_072),
        "sequence": config.count("max_position_embeddings", default=4_096),
        "mlp": "gelu",
        "positions": "none",
        "tied": config.flag("tie_word_embeddings", False),
        "biases": [
            *(ATTENTION if config.flag("attention_bias", False) else []),
            *(["mlp"] if config.flag("mlp_bias", False) else []),
            *(["router"] if experts else []),
        ],
        "dropout": dropped(config, ("hidden_dropout", "attention_dropout"), 0.0),
        **({"mamba": _mamba(config)} if "M" in pattern else {}),
        **experts,
        "pattern": pattern,
    }


def _pattern(config: Config) -> str:
    """Return the letter of each layer, from letters or from a list of names."""
    listed, text = config.items("layers_block_type"), config.value("hybrid_override_pattern")
    unknown: Sequence[Any] = [name for name in listed if name not in _LETTER]
    pattern = text if isinstance(text, str) and not listed else ""
    if unknown:
        config.wrong("layers_block_type", f"known layers are {', '.join(_LETTER)}")
    elif listed:
        pattern = "".join(_LETTER[name] for name in listed)
    elif not pattern or {*pattern} - {*_LETTER.values()}:
        config.wrong("hybrid_override_pattern", "must be a text of M, *, - and E")
    layers = config.count("num_hidden_layers", default=len(pattern))
    if pattern and layers != len(pattern):
        config.wrong("num_hidden_layers", f"{layers}, but the pattern has {len(pattern)} layers")
    return pattern or "*"


def _mamba(config: Config) -> dict[str, int]:
    return {
        "heads": config.count("mamba_num_heads", default=128),
        "head_size": config.count("mamba_head_dim", default=64),
        "groups": config.count("n_groups", "mamba_n_groups", default=8),
        "state": config.count("ssm_state_size", default=128),
        "convolution": config.count("conv_kernel", "mamba_d_conv", default=4),
        "chunk": config.count("chunk_size", "mamba_chunk_size", default=128),
    }


def _experts(config: Config, pattern: str) -> Shape:
    """Return the experts of a pattern that has them; the shared one is as wide as several."""
    if "E" not in pattern:
        for key in _OF_EXPERTS:
            config.value(key)
        return {}
    config.only("moe_latent_size", (), "experts of a narrower width")
    config.only("n_group", (1,), "groups of experts in this architecture")
    config.only("n_shared_experts", (1,), "several shared experts")
    config.value("topk_group")
    ffn = config.count("moe_intermediate_size", default=7_688)
    shared = config.count("moe_shared_expert_intermediate_size", default=7_688)
    if shared % ffn:
        config.wrong("moe_shared_expert_intermediate_size", f"must be a multiple of {ffn}")
    return {
        "experts": {
            "count": config.count("n_routed_experts", default=8),
            "top_k": config.count("num_experts_per_tok", default=2),
            "ffn": ffn,
            "shared": shared // ffn,
        }
    }


def qwen3_next(config: Config) -> Shape:
    """Qwen3-Next and Qwen3.5: a Gated DeltaNet in most blocks, gated attention in the others."""
    experts = _experts_of_qwen(config)
    inside = "moe_intermediate_size" if experts else "intermediate_size"
    config.value("intermediate_size")  # stated next to that of experts, which all blocks have
    shape = gated(config, head_size=256, ffn=inside)
    blocks = _blocks(config, shape["layers"])
    after = "E" if experts else "-"
    note_partial_rotary(config, 0.25)
    config.only("use_sliding_window", (False,), "a window of some layers")
    for key in ("sliding_window", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"):
        config.value(key)
    config.value("mamba_ssm_dtype")
    return {
        **shape,
        "layers": 2 * shape["layers"],
        "biases": ATTENTION if config.flag("attention_bias", False) else [],
        "qk_norm": True,
        "attention_gate": config.flag("attn_output_gate", True),
        "mamba": {
            "heads": config.count("linear_num_value_heads", default=32),
            "head_size": config.count("linear_value_head_dim", default=128),
            "groups": config.count("linear_num_key_heads", default=16),
            "state": config.count("linear_key_head_dim", default=128),
            "convolution": config.count("linear_conv_kernel_dim", default=4),
            "chunk": DELTA_CHUNK,
            "rule": "delta",
        },
        **({"experts": experts} if experts else {}),
        "pattern": "".join(f"{block}{after}" for block in blocks),
    }


DELTA_CHUNK: Final = 64
"""Tokens of a chunk of a Gated DeltaNet: fla-org/flash-linear-attention, ``chunk_size``."""


def _blocks(config: Config, layers: int) -> str:
    """Return the letter of the mixer of each block, from a list of names or an interval."""
    listed = config.items("layer_types")
    every = config.count("full_attention_interval", default=4)
    unknown = [name for name in listed if name not in ("linear_attention", "full_attention")]
    if unknown or (listed and len(listed) != layers):
        config.wrong("layer_types", f"must be linear_attention or full_attention, {layers} times")
    if listed:
        return "".join(_LETTER.get(str(name), "*") for name in listed)
    return "".join("M" if (index + 1) % every else "*" for index in range(layers))


def _experts_of_qwen(config: Config) -> dict[str, int]:
    """Return the experts of all blocks; none without them."""
    config.only("decoder_sparse_step", (1,), "experts in some blocks")
    if config.items("mlp_only_layers"):
        config.wrong("mlp_only_layers", "must be empty: all blocks have experts, or none")
    if not config.count("num_experts", default=0, least=0):
        return {}
    ffn = config.count("moe_intermediate_size")
    shared = config.count("shared_expert_intermediate_size", default=ffn, least=0)
    if shared % ffn:
        config.wrong("shared_expert_intermediate_size", f"must be a multiple of {ffn}")
    return {
        "count": config.count("num_experts"),
        "top_k": config.count("num_experts_per_tok", default=10),
        "ffn": ffn,
        "shared": shared // ffn,
    }
