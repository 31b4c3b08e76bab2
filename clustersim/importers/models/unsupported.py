"""What is no configuration of a supported model: other files by their keys, other architectures.

Other files in the folder of a ``config.json`` are JSON as well; each is recognised by the keys that
only it has.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

REASONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("qwen3_next", "qwen3_5", "qwen3_5_moe", "kimi_linear", "minimax", "minimax_text_01"),
        "layers with linear attention are not modelled",
    ),
    **dict.fromkeys(
        (
            *("mamba", "mamba2", "falcon_mamba", "falcon_h1", "jamba", "bamba", "zamba", "zamba2"),
            *("nemotron_h", "granitemoehybrid", "rwkv", "recurrent_gemma", "lfm2"),
        ),
        "recurrent layers (state spaces, gated convolutions) are not modelled",
    ),
    **dict.fromkeys(
        ("bert", "roberta", "modernbert", "t5", "bart", "whisper", "vit", "clip", "siglip"),
        "encoders are not modelled; model files describe decoders",
    ),
    **dict.fromkeys(
        ("gemma3n", "gemma3n_text"), "embeddings of each layer and shared keys are not modelled"
    ),
    "phi3small": "block-sparse attention is not modelled",
    "deepseek_v32": "sparse attention, whose tokens an indexer selects, is not modelled",
}
"""Known architectures that a model file cannot express, by `model_type`, with the reason."""

_NOTHING: Final = "it has no shape of a model"

_OTHER_FILES: Final = (
    (("traceEvents",), "a trace of Kineto (torch.profiler) or Chrome", _NOTHING),
    (("weight_map",), "the index of a checkpoint", _NOTHING),
    (("added_tokens", "model"), "a tokenizer", _NOTHING),
    (("tokenizer_class",), "the configuration of a tokenizer", _NOTHING),
    (("added_tokens_decoder",), "the configuration of a tokenizer", _NOTHING),
    (("chat_template",), "a chat template", _NOTHING),
    (("peft_type",), "the configuration of an adapter (PEFT)", "import that of its base model"),
    (("log_history",), "the state of a trainer", _NOTHING),
    (("nbformat",), "a notebook", _NOTHING),
    (("zero_optimization",), "a configuration of DeepSpeed", _NOTHING),
    (("train_micro_batch_size_per_gpu",), "a configuration of DeepSpeed", _NOTHING),
    (("image_processor_type",), "the configuration of an image processor", _NOTHING),
    (("processor_class",), "the configuration of a processor", _NOTHING),
    (("_class_name", "_diffusers_version"), "the configuration of a diffusion model", _NOTHING),
    (("dim", "n_layers", "n_heads"), "a params.json of Meta", "take Hugging Face's config.json"),
    (("do_sample",), "a generation configuration", _NOTHING),
    (("_from_model_config",), "a generation configuration", _NOTHING),
    (("step_time_s",), "an answer of clustersim", _NOTHING),
)
"""Keys of other files, what these are, and what to do."""

SAMPLE: Final = 64 * 1024
"""Bytes of a large file in which its keys are searched for [B]."""

_VOCABULARY: Final = 1000
"""A file of more whole numbers than this is a vocabulary."""


def other_file(data: Mapping[str, Any]) -> str | None:
    """Return what a JSON file is, if it is a known one that is no configuration of a model.

    >>> other_file({"weight_map": {}, "metadata": {}})
    'is the index of a checkpoint, not the configuration of a model (it has no shape of a model)'
    """
    if "model_type" in data and "traceEvents" not in data:
        return None
    for keys, what, advice in _OTHER_FILES:
        if all(key in data for key in keys):
            return _not_a_model(what, advice)
    if len(data) > _VOCABULARY and all(isinstance(value, int) for value in data.values()):
        return _not_a_model("a vocabulary", _NOTHING)
    return None


def other_text(text: str) -> str | None:
    """Return the same for the beginning of a file that is too large to be read as a whole."""
    keys = dict.fromkeys(re.findall(r'"([A-Za-z_]{1,40})"\s*:', text[:SAMPLE]))
    return other_file(keys)


def _not_a_model(what: str, advice: str) -> str:
    return f"is {what}, not the configuration of a model ({advice})"
