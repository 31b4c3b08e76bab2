"""The configuration of DeepSpeed as JSON, and scripts that launch a job of it.

deepspeed train.py --deepspeed ds_config.json --per_device_train_batch_size 1 ...
                               | options of the file  | options of the Trainer

Names and defaults are those of deepspeedai/DeepSpeed, deepspeed/runtime/zero/config.py, commit
1b88ac3, and docs/_pages/config-json.md, commit 00376da; those of the Trainer, which also fills in
``"auto"``, are those of huggingface/transformers, src/transformers/integrations/deepspeed.py,
commit 0234833.
"""

import re
from functools import partial
from pathlib import Path
from typing import Final

from clustersim.importers.launch import commands
from clustersim.importers.launch.options import Option, options_in
from clustersim.importers.launch.serving import fact_of_model, state_model
from clustersim.importers.launch.syntax.json_file import read_json
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
)
from clustersim.importers.source import Source, read_source

_SCRIPT: Final = re.compile(r"(?:.*/)?\w[\w-]*\.py")
_CONFIGURATIONS: Final = ("deepspeed", "deepspeed-config", "deepspeed-config-file")


def _options(source: Source) -> list[Option]:
    """Return the options of a configuration, or of a script and the configuration it names."""
    if source.text.lstrip().startswith("{"):
        return options_of_file(source)
    found = commands.launched(source, _script)
    return [*_named_file(source, found), *found]


def _script(words: tuple[str, ...]) -> int | None:
    """Return the index of the training script in a command that has a configuration."""
    if not any(word.startswith("--deepspeed") for word in words):
        return None
    return next((index for index, word in enumerate(words) if _SCRIPT.fullmatch(word)), None)


def options_of_file(source: Source) -> list[Option]:
    """Return the options of a configuration; those without a value are left out."""
    return [option for option in options_in(read_json(source)) if option.values != (None,)]


def _named_file(source: Source, found: list[Option]) -> list[Option]:
    """Return the options of the configuration that a script names, next to the script."""
    named = next((option for option in found if option.name in _CONFIGURATIONS), None)
    if named is None or not named.values:
        return []
    path = Path(source.file).parent / named.word()
    if not path.is_file():
        raise named.wrong("no such file (the configuration of DeepSpeed, next to the script)")
    return options_of_file(read_source(path))


def _auto(read: Read) -> Read:
    """Read an option whose value ``auto`` leaves it to the Trainer."""
    return Read(read.key, lambda option: None if option.value == "auto" else read.convert(option))


def _stage(option: Option) -> int:
    """Return a stage of ZeRO; true is stage 1."""
    if isinstance(option.value, bool):
        return int(option.value)
    if option.value not in (0, 1, 2, 3):
        raise option.wrong("must be a stage of ZeRO: 0, 1, 2 or 3")
    return int(option.value)


_DEVICE: Final = {"cpu": True, "none": None}
_BYTES: Final = {"fp32": 4, "fp16": 2, "bf16": 2, "bfp16": 2}

CONFIGURATION: Final[Reads] = {
    "train-batch-size": _auto(count("batch.global")),
    "train-micro-batch-size-per-gpu": _auto(count("batch.micro")),
    "gradient-accumulation-steps": _auto(count("of.accumulation")),
    "bf16.enabled": _auto(switch("of.bf16")),
    "bfloat16.enabled": _auto(switch("of.bf16")),
    "fp16.enabled": _auto(switch("of.fp16")),
    "bf16.bf16-master-weights-and-grads": flag("of.narrow_master"),
    "fp16.fp16-master-weights-and-grads": flag("of.narrow_master"),
    "bf16.bf16-optimizer-states": flag("of.narrow_states"),
    "data-types.grad-accum-dtype": one_of("of.gradients", _BYTES),
    "communication-data-type": one_of("of.wire", _BYTES),
    "zero-optimization": Read("plan.zero", _stage),
    "zero-optimization.stage": Read("plan.zero", _stage),
    "zero-optimization.overlap-comm": switch("of.overlap"),
    "zero-optimization.reduce-scatter": switch("of.scatter"),
    "zero-optimization.use-multi-rank-bucket-allreduce": switch("of.joined"),
    "zero-optimization.reduce-bucket-size": Read(
        "of.bucket", lambda option: option.value if option.value == "auto" else option.whole()
    ),
    "zero-optimization.stage3-prefetch-bucket-size": _auto(whole("of.prefetch")),
    "zero-optimization.offload-optimizer.device": one_of("offload.optimiser", _DEVICE),
    "zero-optimization.offload-param.device": one_of("offload.parameters", _DEVICE),
    "zero-optimization.offload-optimizer.ratio": number("of.ratio"),
    "zero-optimization.cpu-offload": flag("offload.optimiser"),
    "zero-optimization.cpu-offload-param": flag("offload.parameters"),
    "zero-optimization.zero-quantized-weights": flag("framework.sharding.gather", 1),
    "zero-optimization.mics-shard-size": whole("of.shard"),
    "activation-checkpointing.partition-activations": switch("of.checkpoints"),
    "activation-checkpointing.cpu-checkpointing": switch("of.host_checkpoints"),
    "tensor-parallel.autotp-size": whole("of.tensor"),
    "sequence-parallel-size": count("plan.context"),
}
"""Options of a configuration that are read, each with its key."""

TRAINER: Final[Reads] = {
    "model-name-or-path": word("of.model"),
    "model-name": word("of.model"),
    "per-device-train-batch-size": count("of.each_batch"),
    "bf16": flag("of.bf16"),
    "fp16": flag("of.fp16"),
    "gradient-checkpointing": flag("recompute", "full"),
    **dict.fromkeys(
        ("block-size", "max-seq-length", "max-length", "max-seq-len", "model-max-length",
         "cutoff-len"),
        count("batch.sequence"),
    ),
    "attn-implementation": one_of(
        "of.attention",
        {"eager": "unfused", "sdpa": "flash", "flash_attention_2": "flash",
         "flash_attention_3": "flash"},
    ),
    "launch.num-nodes": commands.READS["launch.nodes"],
    "launch.num-gpus": commands.READS["launch.nproc-per-node"],
    "launch.num-machines": commands.READS["launch.nodes"],
}  # fmt: skip
"""Options of scripts of the Trainer, and of the launcher ``deepspeed``."""


def _finish(given: Given) -> None:
    """Derive the keys of the scenario, with the defaults of DeepSpeed and of the Trainer."""
    _model(given)
    _batch(given)
    precision = _precision(given)
    _layout(given)
    put_engine(given, precision)


def put_engine(given: Given, precision: str) -> None:
    """State what the options of ZeRO mean, next to a format of products."""
    given.put("framework.name", "deepspeed")
    given.usual("plan.zero", 0)
    _states(given, precision)
    _exchange(given)
    _memory(given)


def _model(given: Given) -> None:
    name = given.pop("model")
    config = Path(given.source.file).parent / "config.json"
    if name is not None:
        state_model(given, name)
    elif config.is_file() and "model" not in given.values:
        given.values["model"] = str(config.resolve())
        given.assumed["model"] = "the config.json next to the file"


def _batch(given: Given) -> None:
    each = given.pop("each_batch")
    if each is not None and given.get("batch.micro", each) != each:
        micro = given.values["batch.micro"]
        raise given.wrong(
            "of.each_batch", f"contradicts train_micro_batch_size_per_gpu {micro} (or set it auto)"
        )
    if each is not None:
        given.put("batch.micro", each, "of.each_batch")
    if "batch.global" not in given.values:
        given.assume("batch.micro", 8, "the default of the Trainer: set batch.micro")
    elif "of.accumulation" in given.values:
        given.values["of.exact"] = True
    given.assume("batch.sequence", 2048, "not in the file: set batch.sequence")


def _precision(given: Given) -> str:
    """State the format of products; where the Trainer decides it, bf16 is assumed."""
    bf16, fp16 = given.pop("bf16"), given.pop("fp16")
    if bf16 and fp16:
        raise given.wrong("of.fp16", "contradicts bf16 (choose one)")
    left = bf16 is None and any(_is_auto(option, "enabled") for option in given.read)
    if not bf16 and not fp16 and left:
        given.assume("precision", "bf16", "auto in the file: bf16 of the Trainer")
        return "bf16"
    name = "bf16" if bf16 else "fp16" if fp16 else "fp32"
    given.put("precision", name, f"of.{name}")
    return name


def _is_auto(option: Option, key: str) -> bool:
    return option.name.endswith(f".{key}") and option.values == ("auto",)


def _states(given: Given, precision: str) -> None:
    """State the widths of states, where they are not those of the profile."""
    state = f"framework.state.{precision}"
    wide = given.pop("gradients")
    if wide is not None:
        given.usual(f"{state}.gradients", wide)
    master, states = given.pop("narrow_master"), given.pop("narrow_states")
    if master and precision != "fp32":
        given.usual(f"{state}.master", 2)
        given.usual(f"{state}.optimiser", 4 if states else 8)
    wire = given.pop("wire", 4 if precision == "fp32" else None)
    if wire is not None:
        given.usual("framework.gradients.bytes_each", wire)
        given.usual("framework.sharding.reduce", wire)
    if precision == "fp32":
        given.usual("framework.sharding.gather", 4)


def _layout(given: Given) -> None:
    tensor, shard = given.pop("tensor", 0), given.pop("shard", -1)
    if tensor > 1:
        given.put("plan.tensor", tensor, "of.tensor")
    if given.get("plan.context", 1) > 1:
        given.values["plan.context_method"] = "ulysses"
    if shard > 0 and given.get("plan.zero") == 3:
        given.put("plan.shard", shard, "of.shard")


def _exchange(given: Given) -> None:
    """State how gradients and weights are exchanged."""
    zero = given.get("plan.zero")
    overlap = given.pop("overlap", zero == 3)
    prefetched = given.pop("prefetch", 1)
    if zero == 3 and not (overlap and prefetched):
        given.usual("framework.sharding.prefetch", 0)
    if zero in (1, 2) and overlap:
        given.usual("framework.gradients.overlap", "always")
    scatter, joined = given.pop("scatter", True), given.pop("joined", True)
    if zero in (1, 2) and scatter and not joined:
        given.usual("framework.gradients.sharded_collective", "reduce-scatter")
    bucket = given.pop("bucket", None)
    if bucket == "auto":
        hidden = fact_of_model(given.get("model"), "hidden")
        bucket = None if hidden is None else hidden * hidden
    if bucket is not None and zero:
        buffers = 2 if overlap and zero < 3 else 1
        given.usual("framework.memory.bucket", f"{bucket * 2 * buffers / 1e6:g} MB")


def _memory(given: Given) -> None:
    zero = given.get("plan.zero")
    if "offload.parameters" in given.values and zero != 3:
        raise given.wrong("offload.parameters", "needs stage 3 of ZeRO (zero_optimization.stage)")
    if "offload.optimiser" in given.values and zero == 0:
        raise given.wrong("offload.optimiser", "needs stage 1, 2 or 3 of ZeRO")
    if given.pop("ratio", 1.0) < 1:
        raise given.wrong("of.ratio", "is not modelled (modelled: 1, all states on the host)")
    checkpoints, host = given.pop("checkpoints"), given.pop("host_checkpoints")
    if checkpoints is not None or host is not None:
        given.assume(
            "recompute",
            "full",
            "activation_checkpointing is configured: or set recompute: none",
        )
    if host:
        given.put("offload.activations", True, "of.host_checkpoints")
    if given.pop("attention", "flash") == "unfused":
        given.usual("framework.kernels.attention", "unfused")


DEEPSPEED: Final = Launch(
    _options,
    {**CONFIGURATION, **TRAINER, **commands.READS},
    partial(ignored, "commands", "deepspeed"),
    _finish,
)
"""Configurations and scripts of DeepSpeed."""
