"""The configuration of litgpt as YAML, and the command that launches it: Lightning Fabric on FSDP.

litgpt finetune_lora checkpoints/meta-llama/Llama-3.1-8B --config lora.yaml --devices 8
                                                         | next to the script

Names and defaults are those of Lightning-AI/litgpt: litgpt/pretrain.py, commit 0363060,
litgpt/finetune/full.py, commit 0077627, litgpt/finetune/lora.py, commit c16c72c, litgpt/args.py,
commit 02f2fca, and litgpt/config.py.  Formats of FSDP by precision are those of
Lightning-AI/pytorch-lightning, src/lightning/fabric/plugins/precision/fsdp.py.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from clustersim.importers.launch import commands
from clustersim.importers.launch.adapters import put_adapters
from clustersim.importers.launch.fsdp import (
    put_narrow_states,
    put_optimiser,
    put_sharding,
)
from clustersim.importers.launch.options import Option, positionals
from clustersim.importers.launch.serving import after, state_model
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
)
from clustersim.importers.source import Source, named_source

TASKS: Final[Mapping[str, str]] = {
    "pretrain": "pretrain",
    "finetune_full": "full",
    "finetune_lora": "lora",
    "finetune": "lora",
}
"""What each command does."""

COMMAND: Final = r"litgpt\s+(?:pretrain|finetune\w*)(?![\w/])"
"""Pattern of the command."""


def _program(words: tuple[str, ...]) -> int | None:
    found = (after(words, "litgpt", task) for task in (*TASKS, *_OTHER_TASKS))
    return next((index for index in found if index is not None), None)


_OTHER_TASKS: Final = ("finetune_adapter", "finetune_adapter_v2")


def _options(source: Source) -> list[Option]:
    """Return the options of a file, or of a command and the file that it names."""
    if not re.search(rf"^[^#\n]*{COMMAND}", source.text, re.MULTILINE):
        return yaml_options(source)
    command, index = commands.launching(source, _program)
    found = commands.launched(source, _program)
    task = Option.of("task", command[index], source)
    name = "model-name" if task.value == "pretrain" else "checkpoint-dir"
    model = [Option.of(name, word, source) for word in positionals(command, index + 1)[:1]]
    return [*_named_file(source, found), task, *model, *found]


def _named_file(source: Source, found: list[Option]) -> list[Option]:
    """Return the options of the file that a command names, next to the script or here."""
    option = next((option for option in found if option.name == "config"), None)
    if option is None:
        return []
    file = named_source(source, option.word())
    if file is None:
        raise option.wrong("is no file next to the script (download it: nothing is fetched)")
    return yaml_options(file)


def _devices(option: Option) -> int | None:
    """Return the devices of a node; none for all of them."""
    return None if str(option.value) in ("auto", "-1") else option.count()


_CONFIG: Final[Reads] = {
    "n-layer": count("model.layers"),
    "n-embd": count("model.hidden"),
    "n-head": count("model.heads"),
    "n-query-groups": count("model.kv_heads"),
    "head-size": count("model.head_size"),
    "intermediate-size": count("model.ffn"),
    "block-size": count("model.sequence"),
    "vocab-size": count("of.vocab"),
    "padding-multiple": count("of.multiple"),
    "padded-vocab-size": count("model.vocab"),
    "bias": switch("of.biases"),
    "norm-class-name": one_of("model.norm", {"LayerNorm": "layer", "RMSNorm": "rms"}),
    "mlp-class-name": one_of(
        "model.mlp", {"GptNeoxMLP": "gelu", "LLaMAMLP": "gated", "GemmaMLP": "gated"}
    ),
    "parallel-residual": switch("of.parallel"),
    "shared-attention-norm": switch("of.shared_norm"),
}
"""Options of the shape of a model that are read, each with its key."""

_TABLES: Final = ("model-config", "model")
"""Tables of the shape: that of today, and that of the first releases."""

READS: Final[Reads] = {
    "task": one_of("of.task", TASKS),
    "model-name": word("of.named"),
    "checkpoint-dir": word("of.checkpoint"),
    **{f"{table}.{name}": read for table in _TABLES for name, read in _CONFIG.items()},
    "train.global-batch-size": count("batch.global"),
    "train.micro-batch-size": count("batch.micro"),
    "train.max-seq-length": count("batch.sequence"),
    "train.tie-embeddings": switch("of.tied"),
    "precision": one_of(
        "of.precision",
        {"bf16-true": "bf16-true", "bf16-mixed": "bf16-mixed", "16-true": "fp16",
         "16-mixed": "fp16", "32-true": "fp32"},
    ),
    "quantize": one_of(
        "of.bits",
        {"bnb.nf4": 4, "bnb.nf4-dq": 4, "bnb.fp4": 4, "bnb.fp4-dq": 4, "bnb.int8-training": 8},
    ),
    "devices": Read("of.processes", _devices),
    "num-nodes": count("of.nodes"),
    "lora-r": count("of.rank"),
    "lora-dropout": number("of.dropout"),
    "lora-query": switch("of.lora_query"),
    "lora-key": switch("of.lora_key"),
    "lora-value": switch("of.lora_value"),
    "lora-projection": switch("of.lora_projection"),
    "lora-mlp": switch("of.lora_mlp"),
    "lora-head": flag("of.lora_head"),
    **dict.fromkeys(("optimizer", "optimizer.class-path"), word("of.optimiser")),
}  # fmt: skip
"""Options that are read, each with its key."""


def _finish(given: Given) -> None:
    """Derive the keys of the scenario, with the defaults of litgpt."""
    task = given.pop("task") or _task(given)
    given.put("framework.name", "pytorch-fsdp")
    _model(given)
    given.usual("batch.global", 512 if task == "pretrain" else 16)
    given.usual("batch.micro", 4 if task == "pretrain" else 1)
    if "model.layers" in given.values:
        given.usual("batch.sequence", given.values["model.sequence"])
    given.assume("batch.sequence", 2048, "no train.max_seq_length: set batch.sequence")
    single = given.get("of.each") == 1 and given.get("of.nodes", 1) == 1
    if task != "pretrain" and not single and not given.states("devices"):
        given.notes.append("devices is not in the file, 1 by default: all of a node are modelled")
    _layout(given, task, single)
    _precision(given)
    _adapters(given, task, single)


def _task(given: Given) -> str:
    """Return what a file without a command is for, by the options that only one command has."""
    if "of.checkpoint" not in given.values:
        return "pretrain"
    return "lora" if "of.rank" in given.values else "full"


def _model(given: Given) -> None:
    """State the model: by the table of its shape, or by its name."""
    named, checkpoint = given.pop("named"), given.pop("checkpoint")
    if "model.layers" in given.values:
        _shape(given)
    elif named or checkpoint:
        key = "of.named" if named else "of.checkpoint"
        given.options["of.model"] = given.options[key]
        state_model(given, named or checkpoint)


def _shape(given: Given) -> None:
    """State the shape of a model of litgpt, with the defaults of its configuration."""
    shape = given.values
    defaults: Mapping[str, Any] = {
        "heads": 32, "hidden": 4096, "norm": "layer", "mlp": "gelu", "sequence": 4096
    }  # fmt: skip
    for key, value in defaults.items():
        given.usual(f"model.{key}", value)
    given.usual("model.ffn", 4 * shape["model.hidden"])
    vocabulary, multiple = given.pop("vocab", 50_254), given.pop("multiple", 512)
    given.usual("model.vocab", -(-vocabulary // multiple) * multiple)
    given.usual("model.kv_heads", shape["model.heads"])
    shape["model.positions"] = "rotary"
    shape["model.tied"] = bool(given.pop("tied"))
    norms = ["norm"] if shape["model.norm"] == "layer" else []
    linear = ["qkv", "output", "mlp"] if given.pop("biases", True) else []
    shape["model.biases"] = [*linear, *norms]
    shape["model.dropout"] = False
    parallel, shared = given.pop("parallel", True), given.pop("shared_norm", False)
    if parallel:
        shape["model.parallel_block"] = "one-norm" if shared else "own-norms"


def _layout(given: Given, task: str, single: bool) -> None:
    """State the strategy of sharding and the recomputation, which follow from the command."""
    usual = "HYBRID_SHARD" if task == "pretrain" else "FULL_SHARD"
    put_sharding(given, "NO_SHARD" if single else usual)
    given.usual("framework.sharding.each_microbatch", False)
    if task == "pretrain":
        for part in ("gated_fused", "norm_fused", "rotary_fused", "bias_gelu_fused"):
            given.usual(f"framework.kernels.{part}", True)
    elif not single:
        given.usual("recompute", "full")


def _precision(given: Given) -> None:
    """State the formats; mixed precision gathers in 32 bits, and reduces in 16."""
    stated = given.pop("precision", "bf16-mixed")
    narrow = stated == "bf16-true" or "of.bits" in given.values
    given.put("precision", "bf16" if stated.startswith("bf16") else stated, "of.precision")
    if narrow and given.values["precision"] == "bf16":
        put_narrow_states(given)
    elif stated == "bf16-mixed":
        given.usual("framework.sharding.gather", 4)
        given.usual("framework.sharding.reduce", 2)
    put_optimiser(given)


_MODULES: Final = {
    "query": (True, ["q_proj"]),
    "key": (False, ["k_proj"]),
    "value": (True, ["v_proj"]),
    "projection": (False, ["o_proj"]),
    "mlp": (False, ["mlp"]),
}
"""Modules that have adapters by an option, and whether they have them by default."""


def _adapters(given: Given, task: str, single: bool) -> None:
    stated = [
        module
        for part, (usual, names) in _MODULES.items()
        if given.pop(f"lora_{part}", usual)
        for module in names
    ]
    head, bits = given.pop("lora_head"), given.pop("bits", 16)
    if bits < 16 and not single:
        raise given.wrong("of.bits", "needs one device (quantised weights are not sharded)")
    if task == "lora":
        given.values["of.modules"] = [*stated, *["lm_head"] * bool(head)]
        given.usual("of.dropout", 0.05)
        put_adapters(given, bits)


LITGPT: Final = Launch(
    _options, {**READS, **commands.READS}, partial(ignored, "commands", "litgpt"), _finish
)
"""Configurations and commands of litgpt."""
