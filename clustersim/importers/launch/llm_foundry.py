"""The configuration of a training run of MosaicML's llm-foundry as YAML.

model: {name: mpt_causal_lm, d_model: 4096, ...}    -->  the shape of a model
model: {name: hf_causal_lm, pretrained_model_name_or_path: ...}  -->  a model of the catalogue
fsdp_config, precision, global_train_batch_size     -->  layout, precision, batch

Names and defaults are those of mosaicml/llm-foundry, llmfoundry/utils/config_utils.py, commit
0081bd2, and llmfoundry/models/mpt/configuration_mpt.py, commit 0085285; those of fsdp_config are of
mosaicml/composer, composer/utils/parallelism.py, commit 008dac7.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from clustersim.importers.launch.adapters import put_adapters
from clustersim.importers.launch.fsdp import (
    PREFETCH,
    put_optimiser,
    put_sharding,
    strategy,
)
from clustersim.importers.launch.options import Option
from clustersim.importers.launch.serving import state_model
from clustersim.importers.launch.syntax.yaml_file import yaml_options
from clustersim.importers.launch.table import (
    Given,
    Launch,
    Read,
    Reads,
    count,
    flag,
    ignored,
    number,
    one_of,
    switch,
    whole,
    word,
    words,
)


def _microbatch(option: Option) -> int | None:
    """Return the sequences of a microbatch; none for auto, the most that fit."""
    return None if option.value == "auto" else option.count()


def _mesh(option: Option) -> list[int]:
    """Return the lengths of a mesh: copies of the weights, and ranks of each."""
    try:
        mesh = [int(part) for part in option.words()]
    except ValueError:
        mesh = []
    if len(mesh) not in (1, 2) or min(mesh) < 1:
        raise option.wrong("must be one or two whole numbers (copies of the weights, shards)")
    return mesh


def _kernels(option: Option) -> str:
    """Return the kernels of attention of a model of Hugging Face."""
    return "torch" if option.value in ("eager", False) else "flash"


_BYTES: Final = one_of("of.reduce", {"bf16": 2, "fp16": 2, "fp32": 4, "float32": 4, "bfloat16": 2})

MODEL: Final[Reads] = {
    "model.name": one_of(
        "of.kind", {"mpt_causal_lm": "own", "mosaic_gpt": "own", "hf_causal_lm": "named"}
    ),
    "model.pretrained-model-name-or-path": word("of.model"),
    "model.d-model": count("model.hidden"),
    "model.n-heads": count("model.heads"),
    "model.n-layers": count("model.layers"),
    **dict.fromkeys(("model.expansion-ratio", "model.mlp-ratio"), number("of.expansion")),
    "model.vocab-size": count("model.vocab"),
    "model.max-seq-len": count("model.sequence"),
    "model.tie-word-embeddings": switch("model.tied"),
    "model.no-bias": switch("of.no_biases"),
    "model.learned-pos-emb": switch("of.learned"),
    "model.norm-type": one_of(
        "model.norm",
        {"low_precision_layernorm": "layer", "layernorm": "layer", "low_precision_rmsnorm": "rms",
         "rmsnorm": "rms", "triton_rmsnorm": "rms"},
    ),
    **dict.fromkeys(("model.resid-pdrop", "model.emb-pdrop"), number("of.dropout_outside")),
    "model.attn-config.attn-pdrop": number("of.dropout_inside"),
    "model.attn-config.attn-type": one_of(
        "of.attention_type",
        {"multihead_attention": "all", "multiquery_attention": "one",
         "grouped_query_attention": "groups"},
    ),
    "model.attn-config.kv-n-heads": count("of.kv_heads"),
    **dict.fromkeys(
        ("model.attn-config.attn-impl", "model.attn-impl",
         "model.config-overrides.attn-config.attn-impl"),
        one_of("of.attention", {"flash": "flash", "triton": "triton", "torch": "torch"}),
    ),
    "model.attn-config.alibi": switch("of.alibi"),
    "model.alibi": switch("of.alibi"),
    "model.attn-config.rope": switch("of.rotary"),
    "model.attn-config.sliding-window-size": whole("of.window"),
    "model.ffn-config.ffn-type": one_of("model.mlp", {"mptmlp": "gelu", "mptglu": "gated"}),
    "model.ffn-config.ffn-hidden-size": count("model.ffn"),
    **dict.fromkeys(
        ("model.attn-implementation", "model.use-flash-attention-2"),
        Read("of.attention", _kernels),
    ),
    "model.peft-config.r": count("of.rank"),
    "model.peft-config.peft-type": one_of("of.adapter", {"LORA": "lora", "lora": "lora"}),
    "model.peft-config.target-modules": words("of.modules"),
    "model.peft-config.lora-dropout": number("of.dropout"),
    "model.peft-config.use-dora": flag("of.dora"),
}  # fmt: skip
"""Options of the model that are read, each with its key."""

READS: Final[Reads] = {
    **MODEL,
    "max-seq-len": count("batch.sequence"),
    "global-train-batch-size": count("batch.global"),
    "device-train-microbatch-size": Read("batch.micro", _microbatch),
    "precision": one_of(
        "precision", {"amp_bf16": "bf16", "amp_fp16": "fp16", "amp_fp8": "fp8", "fp32": "fp32"}
    ),
    "optimizer.name": word("of.optimiser"),
    "fsdp-config.sharding-strategy": Read("of.strategy", strategy),
    "fsdp-config.reshard-after-forward": word("of.reshard"),
    "fsdp-config.mixed-precision": one_of(
        "of.mixed", {"DEFAULT": None, "PURE": (2, 2), "FULL": (4, 4)}
    ),
    "fsdp-config.mixed-precision.reduce-dtype": _BYTES,
    "fsdp-config.activation-checkpointing": flag("recompute", "full"),
    "fsdp-config.activation-cpu-offload": flag("offload.activations"),
    "fsdp-config.backward-prefetch": PREFETCH,
    "fsdp-config.cpu-offload": flag("of.offload"),
    "fsdp-config.data-parallel-shard-degree": whole("of.shard"),
    "fsdp-config.data-parallel-replicate-degree": count("of.copies"),
    "fsdp-config.device-mesh": Read("of.mesh", _mesh),
    "tp-config.tensor-parallel-degree": count("plan.tensor"),
}
"""Options that are read, each with its key."""


def _finish(given: Given) -> None:
    """Derive the keys of the scenario, with the defaults of llm-foundry."""
    given.need("batch.sequence", "max_seq_len")
    given.need("batch.global", "global_train_batch_size")
    given.usual("precision", "bf16")
    given.assume("batch.micro", 1, "not a number in the file: set batch.micro")
    named = given.pop("kind", "own") == "named"
    given.put("framework.name", "pytorch-fsdp" if named else "llm-foundry", "of.kind")
    if named:
        given.need("of.model", "model.pretrained_model_name_or_path")
        state_model(given, given.pop("model"))
    else:
        _shape(given)
    _attention(given, named)
    _sharding(given)
    put_optimiser(given)
    if given.pop("adapter") or "of.rank" in given.values:
        put_adapters(given)


def _shape(given: Given) -> None:
    """State the shape of a model of llm-foundry, with the defaults of its configuration."""
    shape = given.values
    for key in ("hidden", "heads", "layers"):
        option = {"hidden": "d_model"}.get(key, f"n_{key}")
        given.need(f"model.{key}", f"model.{option}")
    defaults: Mapping[str, Any] = {
        "norm": "layer",
        "mlp": "gelu",
        "tied": True,
        "vocab": 50_368,
        "sequence": shape["batch.sequence"],
        "ffn": round(given.pop("expansion", 4) * shape["model.hidden"]),
    }
    for key, value in defaults.items():
        given.usual(f"model.{key}", value)
    kinds: Mapping[str, int | None] = {"all": None, "one": 1, "groups": given.pop("kv_heads")}
    shape["model.kv_heads"] = kinds[given.pop("attention_type", "all")]
    alibi, rotary, learned = given.pop("alibi"), given.pop("rotary"), given.pop("learned", True)
    learned_or_none = "learned" if learned else "none"
    shape["model.positions"] = "alibi" if alibi else "rotary" if rotary else learned_or_none
    shape["model.biases"] = [] if given.pop("no_biases") else ["qkv", "output", "mlp", "norm"]
    dropouts = given.pop("dropout_outside", 0), given.pop("dropout_inside", 0)
    shape["model.dropout"] = any(dropouts)
    window = given.pop("window", -1)
    if window > 0:
        given.put("model.window", {"tokens": window}, "of.window")


def _attention(given: Given, named: bool) -> None:
    """State the kernels of attention: those of the profile of llm-foundry are of 2023."""
    kernels = given.pop("attention", "torch" if named else "flash")
    if kernels == "torch":
        given.put("framework.kernels.attention", "unfused", "of.attention")
    elif kernels == "flash" and not named:
        given.usual("framework.kernels.attention_share", 1)


def _sharding(given: Given) -> None:
    """State the shards; without `fsdp_config` each rank has all weights."""
    mixed: Sequence[int] | None = given.pop("mixed")
    reduced = given.pop("reduce", mixed[1] if mixed else None)
    if mixed and mixed[0] == 4:
        given.usual("framework.sharding.gather", 4)
    if reduced is not None:
        given.usual("framework.sharding.reduce", reduced)
    mesh, shard = given.pop("mesh", []), given.pop("shard", -1)
    if len(mesh) == 2:
        given.put("of.copies", mesh[0], "of.mesh")
    shard = mesh[-1] if mesh else shard
    if shard > 0:
        copies = given.get("of.copies", 1)
        given.put("plan.data", shard * copies, "of.mesh" if mesh else "of.shard")
    put_sharding(given, "FULL_SHARD" if given.states("fsdp-config") else "NO_SHARD")


LLM_FOUNDRY: Final = Launch(
    partial(yaml_options, references=True), READS, partial(ignored, "llm-foundry"), _finish
)
"""Configurations of llm-foundry."""
