"""Readers of architectures with a mixture of experts; defaults and shapes as in `dense`."""

from typing import Any

from clustersim.workload.importers.config import Config
from clustersim.workload.importers.dense import ATTENTION, Shape, gated, mistral

_ALTERNATE = ["sliding_attention", "full_attention"]


def mixtral(config: Config) -> Shape:
    """Mixtral: Mistral with experts in every layer, and a window only if given."""
    shape = mistral(config) if config.given("sliding_window") else gated(config)
    return {
        **shape,
        "experts": {
            "count": config.count("num_local_experts"),
            "top_k": config.count("num_experts_per_tok"),
            "ffn": shape["ffn"],
        },
    }


def qwen3_moe(config: Config) -> Shape:
    """Qwen3 with experts in every `decoder_sparse_step`-th layer except `mlp_only_layers`."""
    config.only("use_sliding_window", (False,), "window of the layers from `max_window_layers`")
    config.value("sliding_window")
    dense = config.items("mlp_only_layers")
    every = config.count("decoder_sparse_step", default=1)
    if dense and (every != 1 or dense != list(range(len(dense)))):
        config.wrong("mlp_only_layers", "only the first layers may have no experts")
    return {
        **gated(config),
        "biases": ATTENTION if config.flag("attention_bias", False) else [],
        "qk_norm": True,
        "experts": {
            "count": config.count("num_experts"),
            "top_k": config.count("num_experts_per_tok"),
            "ffn": config.count("moe_intermediate_size"),
            "first_dense": len(dense),
            "every": every,
        },
    }


def deepseek_v2(config: Config) -> Shape:
    """DeepSeek-V2: latent attention, shared experts, dense layers first."""
    config.only("moe_layer_freq", (1,), "experts in some layers")
    config.only("attention_bias", (False,), "biases around latent attention")
    config.value("num_key_value_heads")  # stated, but heads follow from the latent vectors
    config.value("head_dim")
    if config.count("num_nextn_predict_layers", default=0, least=0):
        config.notes.append("the module for multi-token prediction is omitted")
    shape = gated(config)
    latent = {} if config.value("q_lora_rank") is None else {"query": config.count("q_lora_rank")}
    return {
        **shape,
        "kv_heads": None,
        "head_size": None,
        "latent": {
            **latent,
            "keys_values": config.count("kv_lora_rank"),
            "nope": config.count("qk_nope_head_dim"),
            "rope": config.count("qk_rope_head_dim"),
            "value": config.count("v_head_dim"),
        },
        "experts": {
            "count": config.count("n_routed_experts"),
            "top_k": config.count("num_experts_per_tok"),
            "ffn": config.count("moe_intermediate_size"),
            "shared": config.count("n_shared_experts", default=0, least=0),
            "first_dense": config.count("first_k_dense_replace", least=0),
            **_groups(config),
        },
    }


def _groups(config: Config) -> dict[str, Any]:
    """Return the groups to which the experts of a token are limited, if any."""
    count, limit = config.count("n_group", default=1), config.count("topk_group", default=1)
    return {"groups": {"count": count, "limit": limit}} if limit < count else {}


def deepseek_v3(config: Config) -> Shape:
    """DeepSeek-V3 and Kimi K2: as V2, with a router bias that balances the load."""
    return {**deepseek_v2(config), "biases": ["router"]}


def gpt_oss(config: Config) -> Shape:
    """gpt-oss: sinks, biases of attention and experts, a window in some layers."""
    shape = gated(config)
    biases = ATTENTION if config.flag("attention_bias", True) else []
    return {
        **shape,
        "biases": [*biases, "mlp"],
        "sinks": True,
        "window": _window(config, shape["layers"]),
        "experts": {
            "count": config.count("num_local_experts"),
            "top_k": config.count("num_experts_per_tok", "experts_per_token"),
            "ffn": shape["ffn"],
        },
    }


def _window(config: Config, layers: int) -> dict[str, Any] | None:
    """Return the window and its layers; every other layer without a list."""
    tokens = config.count("sliding_window")
    kinds = config.items("layer_types") or [_ALTERNATE[i % 2] for i in range(layers)]
    if len(kinds) != layers:
        config.wrong("layer_types", f"must have one entry for each of the {layers} layers")
        return None
    having = [i for i, kind in enumerate(kinds) if kind == _ALTERNATE[0]]
    if any(kind not in _ALTERNATE for kind in kinds):
        config.wrong("layer_types", f"known kinds are {', '.join(_ALTERNATE)}")
    if not having:
        return None
    every = having[1] if len(having) > 1 else layers
    if having != list(range(0, layers, every)):
        config.wrong("layer_types", "layers with a window must be the first and each n-th after it")
    return {"tokens": tokens, "every": every}
