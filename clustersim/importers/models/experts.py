"""Readers of architectures with a mixture of experts; defaults and shapes as in `dense`."""

from typing import Any

from clustersim.importers.models.config import Config
from clustersim.importers.models.dense import (
    ATTENTION,
    CHUNKED,
    FULL,
    SLIDING,
    Shape,
    gated,
    mistral,
    no_qwen_window,
    note_partial_rotary,
    window_of,
)


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
    no_qwen_window(config)
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
    _note_prediction(config)
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


def _note_prediction(config: Config) -> None:
    if config.count("num_nextn_predict_layers", default=0, least=0):
        config.notes.append("the module for multi-token prediction is omitted")


def _groups(config: Config) -> dict[str, Any]:
    """Return the groups to which the experts of a token are limited, if any."""
    count, limit = config.count("n_group", default=1), config.count("topk_group", default=1)
    return {"groups": {"count": count, "limit": limit}} if limit < count else {}


def deepseek_v3(config: Config) -> Shape:
    """DeepSeek-V3 and Kimi K2: as V2, with a router bias that balances the load."""
    return {**deepseek_v2(config), "biases": ["router"]}


def deepseek_v32(config: Config) -> Shape:
    """DeepSeek-V3.2 and GLM-5: as V3, with an indexer that chooses the tokens of a query."""
    config.only("index_topk_freq", (1,), "tokens that several layers share")
    for key in ("index_topk_pattern", "indexer_types"):
        config.only(key, (), "tokens that several layers share")
    config.value("qk_head_dim")
    config.value("mlp_layer_types")  # as first_k_dense_replace
    shape = deepseek_v3(config)
    indexer = {
        "heads": config.count("index_n_heads"),
        "head_size": config.count("index_head_dim"),
        "tokens": config.count("index_topk"),
    }
    return {**shape, "latent": {**shape["latent"], "indexer": indexer}}


def gpt_oss(config: Config) -> Shape:
    """gpt-oss: sinks, biases of attention and experts, a window in some layers."""
    shape = gated(config)
    biases = ATTENTION if config.flag("attention_bias", True) else []
    kinds = [FULL if i % 2 else SLIDING for i in range(shape["layers"])]
    return {
        **shape,
        "biases": [*biases, "mlp"],
        "sinks": True,
        "window": window_of(config, config.count("sliding_window"), kinds),
        "experts": {
            "count": config.count("num_local_experts"),
            "top_k": config.count("num_experts_per_tok", "experts_per_token"),
            "ffn": shape["ffn"],
        },
    }


def glm4_moe(config: Config) -> Shape:
    """GLM-4.5: grouped queries, shared experts, dense layers first, a router bias."""
    shape = gated(config)
    _note_prediction(config)
    note_partial_rotary(config, 0.5)
    biases = ["qkv"] if config.flag("attention_bias", False) else []
    return {
        **shape,
        "biases": [*biases, "router"],
        "qk_norm": config.flag("use_qk_norm", False),
        "experts": {
            "count": config.count("n_routed_experts", default=128),
            "top_k": config.count("num_experts_per_tok", default=8),
            "ffn": config.count("moe_intermediate_size"),
            "shared": config.count("n_shared_experts", default=1, least=0),
            "first_dense": config.count("first_k_dense_replace", default=1, least=0),
            **_groups(config),
        },
    }


def llama4_text(config: Config) -> Shape:
    """Llama 4: one shared expert, experts in every n-th layer, chunks of tokens in most layers."""
    shape = gated(config, ffn="intermediate_size_mlp")
    return {
        **shape,
        "biases": ATTENTION if config.flag("attention_bias", False) else [],
        "qk_norm": _unweighted_norms(config),
        "window": _chunks(config, shape["layers"]),
        "experts": {
            "count": config.count("num_local_experts", default=16),
            "top_k": config.count("num_experts_per_tok", default=1),
            "ffn": config.count("intermediate_size"),
            "shared": 1,
            "every": _every(config, shape["layers"]),
        },
    }


def _every(config: Config, layers: int) -> int:
    """Return the interval of layers with experts, the last of each."""
    every = config.count("interleave_moe_layer_step", default=1)
    listed = config.items("moe_layers")
    if listed and isinstance(listed[0], int):
        every = max(1, listed[0] + 1)
    if listed and listed != list(range(every - 1, layers, every)):
        config.wrong("moe_layers", "experts must be in each n-th layer, the last of n")
    return every


def _unweighted_norms(config: Config) -> bool:
    """Return whether queries and keys are normalised, with a remark on their weights."""
    normalised = config.flag("use_qk_norm", True)
    if normalised:
        config.notes.append(
            "norms of queries and keys are modelled in all layers and with weights: those of the"
            " model are in layers with rotary positions, without weights"
        )
    return normalised


def _chunks(config: Config, layers: int) -> dict[str, Any] | None:
    """Return the chunks of attention, in all layers with rotary positions."""
    interval = config.count("no_rope_layer_interval", default=4)
    rotary = config.items("no_rope_layers") or [(i + 1) % interval != 0 for i in range(layers)]
    if len(rotary) != layers:
        config.wrong("no_rope_layers", f"must have one entry for each of the {layers} layers")
        return None
    if config.given("attention_chunk_size") and config.value("attention_chunk_size") is None:
        return None
    tokens = config.count("attention_chunk_size", default=8192)
    window = window_of(config, tokens, [CHUNKED if turned else FULL for turned in rotary])
    return window and {**window, "chunked": True}
