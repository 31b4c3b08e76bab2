"""Readers of Gemma 2 and 3; shapes as in `dense`.

Both have heads of their own size, norms before and after attention and MLP, a tied embedding, and
windows in most layers: every other one in Gemma 2, five of six in Gemma 3.  Gemma 2,
arXiv:2408.00118, section 2; Gemma 3, arXiv:2503.19786, section 2.
"""

from clustersim.importers.models.config import Config
from clustersim.importers.models.dense import (
    ATTENTION,
    FULL,
    MOST_LAYERS,
    SLIDING,
    Shape,
    window_of,
)


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
