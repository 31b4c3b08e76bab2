"""Readers of architectures without experts; each returns the keys of a model file.

Defaults of optional keys are those of the configuration classes in the `transformers` library,
``models/<name>/configuration_<name>.py``.
"""

from collections.abc import Sequence
from typing import Any, Final

from clustersim.importers.models.config import Config

Shape = dict[str, Any]

ATTENTION = ["qkv", "output"]
EVERYWHERE = ["qkv", "output", "mlp", "norm"]

MOST_LAYERS = 10_000
"""Upper limit of layers: more are a typo, and are counted one by one."""


def gpt2(config: Config) -> Shape:
    """GPT-2: learned positions, GELU, biases everywhere, tied."""
    hidden = config.count("n_embd")
    config.only("add_cross_attention", (False,), "no encoder in a model file")
    return {
        "family": "gpt",
        "layers": config.count("n_layer", most=MOST_LAYERS),
        "hidden": hidden,
        "heads": config.count("n_head"),
        "ffn": config.count("n_inner", default=4 * hidden),
        "vocab": config.count("vocab_size"),
        "sequence": config.count("n_positions"),
        "tied": config.flag("tie_word_embeddings", True),
        "dropout": dropped(config, ("resid_pdrop", "attn_pdrop", "embd_pdrop"), 0.1),
    }


def gpt_neox(config: Config) -> Shape:
    """GPT-NeoX and Pythia: rotary positions, not tied, attention parallel to the MLP."""
    parallel = config.flag("use_parallel_residual", True)
    bias = config.flag("attention_bias", True)
    return {
        "family": "gpt",
        **_widths(config),
        "ffn": config.count("intermediate_size"),
        "positions": "rotary",
        **({"parallel_block": "own-norms"} if parallel else {}),
        "tied": config.flag("tie_word_embeddings", False),
        "biases": EVERYWHERE if bias else ["mlp", "norm"],
        "dropout": dropped(config, ("hidden_dropout", "attention_dropout"), 0.0),
    }


def bloom(config: Config) -> Shape:
    """BLOOM: ALiBi, and a norm behind the embedding."""
    hidden = config.count("hidden_size", "n_embed")
    if not config.given("seq_length"):
        config.notes.append("sequence 2048: not in the file; that of the published models")
    return {
        "family": "gpt",
        "layers": config.count("n_layer", "num_hidden_layers", most=MOST_LAYERS),
        "hidden": hidden,
        "heads": config.count("n_head", "num_attention_heads"),
        "ffn": config.count("n_inner", default=4 * hidden),
        "vocab": config.count("vocab_size"),
        "sequence": config.count("seq_length", default=2048),
        "positions": "alibi",
        "tied": config.flag("tie_word_embeddings", True),
        "dropout": dropped(config, ("hidden_dropout", "attention_dropout"), 0.0),
        "embedding_norm": True,
    }


def mpt(config: Config) -> Shape:
    """MPT: ALiBi, rotary or learned positions, with or without biases.

    `no_bias` and `attn_config.alibi` are required: their defaults differ between llm-foundry and
    `transformers`.
    """
    attention, mlp = config.inside("attn_config"), config.inside("ffn_config")
    heads, hidden = config.count("n_heads"), config.count("d_model")
    attention.only("qk_ln", (False,), "norms across all heads")
    attention.only("qk_gn", (False,), "norms in groups of heads")
    attention.only("sliding_window_size", (-1,), "sliding window of this architecture")
    kinds = {"multihead_attention": heads, "multiquery_attention": 1}
    kind = attention.value("attn_type") or "multihead_attention"
    if kind == "grouped_query_attention":
        kinds[kind] = attention.count("kv_n_heads")
    attention.only("attn_type", kinds, f"known are {', '.join(kinds)}")
    layernorms = dict.fromkeys(("low_precision_layernorm", "layernorm"), "layer")
    rmsnorms = dict.fromkeys(("low_precision_rmsnorm", "rmsnorm"), "rms")
    shape = {
        "family": "gpt",
        "layers": config.count("n_layers", most=MOST_LAYERS),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kinds.get(str(kind), heads),
        "ffn": config.count("expansion_ratio", default=4) * hidden,
        "vocab": config.count("vocab_size"),
        "sequence": config.count("max_seq_len"),
        "norm": config.one_of("norm_type", layernorms | rmsnorms, "low_precision_layernorm"),
        "mlp": mlp.one_of("ffn_type", {"mptmlp": "gelu", "mptglu": "gated"}, "mptmlp"),
        "positions": _mpt_positions(config, attention),
        "tied": config.flag("tie_word_embeddings", True),
        "biases": [] if config.flag("no_bias") else EVERYWHERE,
        "dropout": dropped(config, ("resid_pdrop", "emb_pdrop"), 0.0)
        or attention.share("attn_pdrop", 0.0) > 0,
    }
    attention.check_all_read()
    mlp.check_all_read()
    return shape


def _mpt_positions(config: Config, attention: Config) -> str:
    learned = config.flag("learned_pos_emb", True)
    alibi, rope = attention.flag("alibi"), attention.flag("rope", False)
    if alibi or rope:
        return "alibi" if alibi else "rotary"
    return "learned" if learned else "none"


def llama(config: Config) -> Shape:
    """Llama: norms by root mean square, rotary positions, a gated MLP, grouped queries."""
    biases = ATTENTION if config.flag("attention_bias", False) else []
    return {
        **gated(config),
        "biases": [*biases, "mlp"] if config.flag("mlp_bias", False) else biases,
    }


def mistral(config: Config) -> Shape:
    """Mistral: Llama with a window of 4,096 tokens, unless the file has another."""
    tokens = None
    if not config.given("sliding_window") or config.value("sliding_window") is not None:
        tokens = config.count("sliding_window", default=4096)
    return {**gated(config), "window": None if tokens is None else {"tokens": tokens}}


def qwen2(config: Config) -> Shape:
    """Qwen2: Llama with biases on queries, keys and values."""
    no_qwen_window(config)
    return {**gated(config), "biases": ["qkv"]}


def qwen3(config: Config) -> Shape:
    """Qwen3: Llama with norms of queries and keys, and a separate head size."""
    no_qwen_window(config)
    biases = ATTENTION if config.flag("attention_bias", False) else []
    return {**gated(config, head_size=128), "biases": biases, "qk_norm": True}


def phi3(config: Config) -> Shape:
    """Phi-3 and Phi-4: Llama with merged projections, as many weights, and a window if given."""
    shape = gated(config)
    config.only("attention_bias", (False,), "biases around merged projections")
    config.only("lm_head_bias", (False,), "a bias of the logits")
    tokens = None
    if config.value("sliding_window") is not None:
        tokens = config.count("sliding_window")
    note_partial_rotary(config, 1.0)
    return {
        **shape,
        "dropout": shape["dropout"] or dropped(config, ("resid_pdrop", "embd_pdrop"), 0.0),
        "window": None if tokens is None else {"tokens": tokens},
    }


# --- shared parts --------------------------------------------------------------------------------


def gated(config: Config, *, head_size: int | None = None, ffn: str = "intermediate_size") -> Shape:
    """Return the keys that the architectures after Llama share.

    Parameters
    ----------
    head_size : default of `head_dim`; `hidden_size` over the heads if None
    ffn : the key of the width inside an MLP
    """
    widths = _widths(config)
    heads = widths["heads"]
    kv_heads = config.count("num_key_value_heads", default=heads)
    stated = config.value("head_dim") is not None or head_size is not None
    return {
        "family": "llama",
        **widths,
        "kv_heads": kv_heads,
        "head_size": config.count("head_dim", default=head_size) if stated else None,
        "ffn": config.count(ffn),
        "tied": config.flag("tie_word_embeddings", False),
        "dropout": dropped(config, ("attention_dropout",), 0.0),
    }


def _widths(config: Config) -> Shape:
    return {
        "layers": config.count("num_hidden_layers", most=MOST_LAYERS),
        "hidden": config.count("hidden_size"),
        "heads": config.count("num_attention_heads"),
        "vocab": config.count("vocab_size"),
        "sequence": config.count("max_position_embeddings"),
    }


def note_partial_rotary(config: Config, default: float) -> None:
    """Remark on heads that have rotary positions in some of their width only."""
    share = config.value("partial_rotary_factor")
    if (default if share is None else share) != 1:
        config.notes.append("partial rotary positions are modelled on the whole width of a head")


def no_qwen_window(config: Config) -> None:
    """Reject a window of some layers; without `use_sliding_window` it is ignored."""
    config.only("use_sliding_window", (False,), "window of the layers from `max_window_layers`")
    if any(kind != "full_attention" for kind in config.items("layer_types")):
        config.wrong("layer_types", "only full_attention is supported")
    config.value("sliding_window")


def dropped(config: Config, keys: tuple[str, ...], default: float) -> bool:
    """Whether any of some shares of dropout is above 0."""
    shares = [config.share(key, default) for key in keys]
    return any(share > 0 for share in shares)


# --- windows of attention ------------------------------------------------------------------------


SLIDING: Final = "sliding_attention"
CHUNKED: Final = "chunked_attention"
FULL: Final = "full_attention"


def window_of(config: Config, tokens: int, kinds: Sequence[str]) -> dict[str, Any] | None:
    """Return the window of a model file for the kinds of all layers, None if no layer has one.

    `layer_types` of the file overrides `kinds`.
    """
    listed = config.items("layer_types")
    if listed and len(listed) != len(kinds):
        config.wrong("layer_types", f"must have one entry for each of the {len(kinds)} layers")
        return None
    kinds = listed or kinds
    known = (SLIDING, CHUNKED, FULL)
    if any(kind not in known for kind in kinds):
        config.wrong("layer_types", f"known kinds are {', '.join(known)}")
        return None
    having = [kind != FULL for kind in kinds]
    if not any(having):
        return None
    for pattern in _patterns(having):
        if having == _layers(pattern, len(having)):
            return {"tokens": tokens, **{key: n for key, n in pattern.items() if n != 1}}
    config.wrong(
        "layer_types",
        "windows must be in the first and each n-th layer after it, or in all but each n-th layer",
    )
    return None


def _patterns(having: Sequence[bool]) -> list[dict[str, int]]:
    """Return the patterns of a model file that may fit, from the first two exceptions."""
    windows = [i for i, has in enumerate(having) if has]
    full = [i for i, has in enumerate(having) if not has]
    every = windows[1] if len(windows) > 1 else len(having)
    patterns = [{"every": every}]
    return [*patterns, {"full_every": full[0] + 1}] if full else patterns


def _layers(pattern: dict[str, int], count: int) -> list[bool]:
    if "every" in pattern:
        return [i % pattern["every"] == 0 for i in range(count)]
    return [(i + 1) % pattern["full_every"] != 0 for i in range(count)]


# --- Gemma ---------------------------------------------------------------------------------------

# Gemma 2 and 3 have heads of their own size, norms before and after attention and MLP, a tied
# embedding, and windows in most layers: every other one in Gemma 2 (arXiv:2408.00118, section 2),
# five of six in Gemma 3 (arXiv:2503.19786, section 2).


def gemma2(config: Config) -> Shape:
    """Gemma 2: a window in every other layer, logits with soft caps."""
    shape = _gemma(config, vocab=256_000, sequence=8_192)
    tokens = config.count("sliding_window", default=4096)
    config.value("sliding_window_size")  # an older name, given as well as the newer one
    _note_soft_caps(config, 50.0, 30.0)
    kinds = [FULL if i % 2 else SLIDING for i in range(shape["layers"])]
    return {**shape, "window": window_of(config, tokens, kinds)}


def gemma3_text(config: Config) -> Shape:
    """Gemma 3: a window in all but each sixth layer, norms of queries and keys."""
    shape = _gemma(config, vocab=262_208, sequence=131_072)
    tokens = config.count("sliding_window", default=4096)
    every = config.count("sliding_window_pattern", "_sliding_window_pattern", default=6)
    _note_soft_caps(config, None, None)
    config.only("use_bidirectional_attention", (False,), "attention to later tokens")
    config.notes.append(
        "rotary positions have different bases in layers with and without a window:"
        " this changes no shape and no time"
    )
    kinds = [SLIDING if (i + 1) % every else FULL for i in range(shape["layers"])]
    return {**shape, "qk_norm": True, "window": window_of(config, tokens, kinds)}


def _gemma(config: Config, *, vocab: int, sequence: int) -> Shape:
    biased = config.flag("attention_bias", False)
    return {
        "family": "llama",
        "layers": config.count("num_hidden_layers", most=MOST_LAYERS),
        "hidden": config.count("hidden_size"),
        "heads": config.count("num_attention_heads", default=8),
        "kv_heads": config.count("num_key_value_heads", default=4),
        "head_size": config.count("head_dim", default=256),
        "ffn": config.count("intermediate_size"),
        "vocab": config.count("vocab_size", default=vocab),
        "sequence": config.count("max_position_embeddings", default=sequence),
        "tied": config.flag("tie_word_embeddings", True),
        "biases": ATTENTION if biased else [],
        "dropout": config.share("attention_dropout", 0.0) > 0,
        "output_norms": True,
    }


def _note_soft_caps(config: Config, attention: float | None, final: float | None) -> None:
    """Remark on soft caps of scores and logits: they have no weights."""
    for key, default in (("attn_logit_softcapping", attention), ("final_logit_softcapping", final)):
        cap = config.value(key) if config.given(key) else default
        if cap is not None:
            config.notes.append(f"{key}: has no weights, and its time is not modelled")
