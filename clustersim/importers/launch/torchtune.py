"""The configuration of a recipe of torchtune as YAML: fine-tuning on FSDP2 of PyTorch.

model: {_component_: torchtune.models.llama3_1.lora_llama3_1_8b}  -->  model, finetune

All numbers are of `dtype`: weights, gradients and moments.  Names and defaults are those of
pytorch/torchtune, recipes/full_finetune_distributed.py, commit 015b39c, recipes/configs/llama3_1,
and recipes/lora_finetune_distributed.py, commit 00360f7.
"""

from functools import partial
from typing import Final

from clustersim.importers.launch.adapters import put_adapters
from clustersim.importers.launch.fsdp import (
    put_narrow_states,
    put_offload,
    put_optimiser,
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
    word,
    words,
)
from clustersim.importers.launch.torchtitan import degree, put_recomputation, put_shards


def _loss(option: Option) -> None:
    """Reject losses of preferences and of distillation, whose step is another one."""
    if any(part in option.word().lower() for part in ("rlhf", "dpo", "kd", "forwardkl")):
        raise option.wrong("is not modelled (only training on the next token)")


READS: Final[Reads] = {
    "model.-component-": word("of.model"),
    "model.lora-attn-modules": words("of.modules"),
    "model.apply-lora-to-mlp": flag("of.mlp"),
    "model.apply-lora-to-output": flag("of.head"),
    "model.lora-rank": count("of.rank"),
    "model.lora-dropout": number("of.dropout"),
    "model.use-dora": flag("of.dora"),
    "model.quantize-base": flag("of.quantised"),
    "tokenizer.max-seq-len": count("batch.sequence"),
    "dataset.packed": switch("of.packed"),
    "batch-size": count("batch.micro"),
    "gradient-accumulation-steps": count("of.accumulation"),
    "dtype": one_of("precision", {"bf16": "bf16", "fp32": "fp32"}),
    "enable-fp8-training": flag("of.fp8"),
    "optimizer.-component-": word("of.optimiser"),
    **dict.fromkeys(("loss.-component-", "kd-loss.-component-"), Read("of.loss", _loss)),
    "compile": switch("of.compiled"),
    "compile.model": switch("of.compiled"),
    "enable-activation-checkpointing": flag("of.recompute", "full"),
    "ac-mode": one_of("of.mode", {"full": "full", "selective": "selective"}),
    "ac-option": word("of.selective"),
    "enable-activation-offloading": flag("offload.activations"),
    **dict.fromkeys(("fsdp-cpu-offload", "fsdp.cpu-offload"), flag("of.offload")),
    "fsdp-reshard-after-forward": switch("of.reshard", "always", "never"),
    "fsdp-sharding-strategy": Read("of.strategy", strategy),
    "data-parallel-shard-dim": Read("of.shard", degree),
    "data-parallel-replicate-dim": count("of.copies"),
    "tensor-parallel-dim": count("plan.tensor"),
    "context-parallel-dim": count("plan.context"),
    "context-parallel-rotate-method": one_of(
        "plan.context_method", {"allgather": "all-gather", "alltoall": "ring"}
    ),
}
"""Options that are read, each with its key."""


def _finish(given: Given) -> None:
    """Derive the keys of the scenario, with the defaults of the recipes."""
    builder = str(given.need("of.model", "model._component_")).rpartition(".")[2]
    method, _, name = builder.partition("_")
    adapters = method in ("lora", "qlora")
    given.pop("model")
    state_model(given, name if adapters else builder)
    compiled = given.pop("compiled", False)
    given.put("framework.name", "torchtitan" if compiled else "torchtitan-eager", "of.compiled")
    given.need("batch.micro", "batch_size")
    given.usual("of.accumulation", 1)
    given.assume("batch.sequence", 2048, "no tokenizer.max_seq_len: set batch.sequence")
    if not given.pop("packed", False):
        given.notes.append("sequences are modelled as full: dataset.packed is not set")
    _precision(given)
    _layout(given)
    _recompute(given)
    if adapters:
        _adapters(given, method)


def _precision(given: Given) -> None:
    """State the format of products, and the states in the same one."""
    given.usual("precision", "bf16")
    narrow = given.pop("fp8")
    if given.values["precision"] == "bf16":
        put_narrow_states(given)
    put_optimiser(given)
    if narrow:
        given.put("precision", "fp8", "of.fp8")


def _layout(given: Given) -> None:
    if given.get("plan.tensor", 1) > 1:
        given.put("plan.sequence_parallel", True, "plan.tensor")
    if given.get("plan.context", 1) > 1:
        given.usual("plan.context_method", "all-gather")
    else:
        given.disregard("plan.context_method", "no effect without context ranks")
    stated = given.pop("strategy", "FULL_SHARD")
    if stated == "SHARD_GRAD_OP":
        given.put("of.reshard", "never", "of.strategy")
    elif stated == "NO_SHARD":
        given.put("of.shard", 1, "of.strategy")
    given.usual("of.reshard", "always")
    put_shards(given)
    put_offload(given)


def _recompute(given: Given) -> None:
    """State the recomputation; the older switch counts before the mode, as in the recipes."""
    mode = given.pop("mode")
    if mode is not None and "of.recompute" not in given.values:
        given.put("of.recompute", mode, "of.mode")
    put_recomputation(given, "none")


def _adapters(given: Given, method: str) -> None:
    """State adapters; frozen weights are quantised by the name of the builder, or by an option."""
    quantised = given.pop("quantised", False) or method == "qlora"
    modules = [*given.pop("modules", []), *["w1", "w2", "w3"] * bool(given.pop("mlp"))]
    given.values["of.modules"] = [*modules, *["output"] * bool(given.pop("head"))]
    put_adapters(given, 4 if quantised else 16)


TORCHTUNE: Final = Launch(
    partial(yaml_options, references=True), READS, partial(ignored, "torchtune"), _finish
)
"""Configurations of recipes of torchtune."""
