"""The configuration of a training run of Axolotl as YAML: the Trainer of Hugging Face on FSDP.

adapter: qlora, load_in_4bit: true   -->  finetune
fsdp, fsdp_config, or deepspeed      -->  plan.zero; without them each rank has all weights

Names and defaults are those of axolotl-ai-cloud/axolotl, src/axolotl/utils/schemas: config.py and
training.py, commit 002a637, peft.py, commit 00564c8, model.py, commit 04980d4, fsdp.py, commit
06dcd85.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from clustersim.importers.launch import deepspeed, fsdp
from clustersim.importers.launch.adapters import put_adapters
from clustersim.importers.launch.deepspeed import options_of_file, put_engine
from clustersim.importers.launch.fsdp import (
    STRATEGIES,
    put_narrow_states,
    put_optimiser,
    put_sharding,
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
    under,
    word,
    words,
)
from clustersim.importers.source import Source, named_source

_STRATEGIES: Final = {"hybrid_shard_zero2": "HYBRID_SHARD", "auto_wrap": "", "offload": ""} | {
    name.lower(): name for name in STRATEGIES
}
"""Words of the option `fsdp`, with their strategy of sharding."""


def _fsdp(option: Option) -> dict[str, Any]:
    """Return the strategy and the offload that a list of words means."""
    stated = [part for text in option.words() for part in text.split()]
    unknown = [part for part in stated if part not in _STRATEGIES]
    if unknown:
        raise option.wrong(f"{unknown[0]}: is not modelled (modelled: {', '.join(_STRATEGIES)})")
    strategies = [_STRATEGIES[part] for part in stated if _STRATEGIES[part]]
    return {"strategy": strategies[:1], "offload": "offload" in stated}


def _recomputed(option: Option) -> str | None:
    """Return how layers are recomputed: with their inputs on the device or on the host."""
    stated = option.word().lower()
    if stated in ("offload", "unsloth"):
        return "host"
    if stated == "offload_disk":
        raise option.wrong("is not modelled (modelled: true, false, offload)")
    return "device" if option.is_set() else None


def _options(source: Source) -> list[Option]:
    """Return the options of a file, and of the configuration of DeepSpeed that it names."""
    found = yaml_options(source)
    named = next((option for option in found if option.name == "deepspeed"), None)
    file = None if named is None else named_source(source, named.word())
    options = [] if file is None else options_of_file(file)
    return [*found, *(replace(option, name=f"deepspeed.{option.name}") for option in options)]


def _of_name(option: Option) -> dict[str, Any]:
    """Return what the name of a configuration of DeepSpeed means, as Axolotl ships them.

    Of the folder deepspeed_configs: zero1.json, zero2.json, zero3_bf16_cpuoffload_all.json.
    """
    name = Path(option.word()).name
    stage = re.match(r"zero([123])(?![0-9])", name)
    host = "cpuoffload" in name
    return {
        "stage": int(stage[1]) if stage else None,
        "parameters": host,
        "optimiser": host and "offload_params" not in name,
    }


def _preference(option: Option) -> None:
    if option.is_set():
        raise option.wrong("is not modelled (only training on the next token)")


_ZERO: Final[Reads] = {
    f"deepspeed.{name}": read
    for name, read in deepspeed.CONFIGURATION.items()
    if name.startswith("zero-optimization")
}
"""Options of ZeRO, of the configuration that a file names or has."""

READS: Final[Reads] = {
    "base-model": word("of.model"),
    "sequence-len": count("batch.sequence"),
    "sample-packing": switch("of.packed"),
    "pad-to-sequence-len": switch("of.padded"),
    "micro-batch-size": count("batch.micro"),
    "gradient-accumulation-steps": count("of.accumulation"),
    "batch-size": count("of.each_rank"),
    **dict.fromkeys(("bf16", "bfloat16"), switch("of.bf16")),
    **dict.fromkeys(("fp16", "float16"), switch("of.fp16")),
    "fp8": flag("of.fp8"),
    "tf32": switch("of.tf32"),
    "optimizer": word("of.optimiser"),
    "gradient-checkpointing": Read("of.recomputed", _recomputed),
    "activation-offloading": flag("offload.activations"),
    "eager-attention": flag("framework.kernels.attention", "unfused"),
    "attn-implementation": one_of(
        "of.attention",
        {"eager": "unfused", "sdpa": None, "flash_attention_2": None, "flash_attention_3": None},
    ),
    "liger-rms-norm": flag("framework.kernels.norm_fused"),
    **dict.fromkeys(
        ("liger-glu-activation", "liger-swiglu"), flag("framework.kernels.gated_fused")
    ),
    "liger-rope": flag("framework.kernels.rotary_fused"),
    **dict.fromkeys(("sequence-parallel-degree", "context-parallel-size"), count("plan.context")),
    "tensor-parallel-size": count("plan.tensor"),
    "dp-shard-size": count("of.shard"),
    "dp-replicate-size": count("of.copies"),
    "rl": Read("of.preference", _preference),
    "reward-model": Read("of.preference", _preference),
    "process-reward-model": Read("of.preference", _preference),
    # Adapters
    "adapter": one_of("of.adapter", {"lora": "lora", "qlora": "qlora"}),
    "load-in-4bit": flag("of.four_bits"),
    "load-in-8bit": flag("of.eight_bits"),
    "lora-r": count("of.rank"),
    "lora-dropout": number("of.dropout"),
    "lora-target-modules": words("of.modules"),
    "lora-target-linear": flag("of.all_linear"),
    "peft-use-dora": flag("of.dora"),
    # Sharding
    "deepspeed": Read("of.deepspeed", _of_name),
    **_ZERO,
    "fsdp": Read("of.fsdp", _fsdp),
    **{f"fsdp-config.fsdp-{name}": read for name, read in fsdp.READS.items()},
    **{f"fsdp-config.{name}": read for name, read in fsdp.READS.items()},
}
"""Options that are read, each with its key."""


def _finish(given: Given) -> None:
    """Derive the keys of the scenario, with the defaults of Axolotl."""
    given.need("of.model", "base_model")
    state_model(given, given.pop("model"))
    given.usual("batch.sequence", 512)
    _batch(given)
    precision = _precision(given)
    adapter = given.pop("adapter")
    given.put("framework.name", "fsdp-qlora" if adapter else "pytorch-fsdp", "of.adapter")
    _adapters(given, adapter)
    if given.states("deepspeed"):
        _engine(given, precision)
    else:
        _sharding(given)
        whole = given.values["plan.zero"] == 0
        if whole and adapter is None and precision == "bf16":
            put_narrow_states(given)
        put_optimiser(given)
    _memory(given)


def _batch(given: Given) -> None:
    """State the microbatch; batch_size is that of a rank over all its microbatches."""
    each = given.pop("each_rank")
    steps = given.get("of.accumulation")
    if each is not None and steps is not None and "batch.micro" in given.values:
        raise given.wrong("of.each_rank", "contradicts gradient_accumulation_steps (choose one)")
    if each is not None and steps is not None:
        given.put("batch.micro", max(1, each // steps), "of.each_rank")
    micro = given.need("batch.micro", "micro_batch_size")
    given.usual("of.accumulation", max(1, each // micro) if each is not None else 1)
    if not given.pop("packed", False) and not given.pop("padded", False):
        given.notes.append("sequences are modelled as full: sample_packing is not set")
    given.pop("padded")


def _precision(given: Given) -> str:
    """State the format of products: bf16 if the file states none."""
    narrow = given.pop("fp8")
    bf16, fp16, tf32 = given.pop("bf16"), given.pop("fp16"), given.pop("tf32")
    if bf16 and fp16:
        raise given.wrong("of.fp16", "contradicts bf16 (choose one)")
    wide = "fp16" if fp16 else "bf16" if bf16 is not False else "tf32" if tf32 else "fp32"
    given.put("precision", "fp8" if narrow else wide, "of.fp8" if narrow else f"of.{wide}")
    return str(given.values["precision"])


def _adapters(given: Given, adapter: str | None) -> None:
    four, eight = given.pop("four_bits"), given.pop("eight_bits")
    bits = 4 if four else 8 if eight else 16
    if four and eight:
        raise given.wrong("of.eight_bits", "contradicts load_in_4bit (choose one)")
    if adapter is None:
        if bits < 16:
            key = "of.four_bits" if four else "of.eight_bits"
            raise given.wrong(key, "needs an adapter (adapter: qlora, or leave it out)")
        return
    if adapter == "qlora" and bits != 4:
        raise given.wrong("of.adapter", "needs weights of 4 bits (load_in_4bit: true)")
    given.options.setdefault(
        "of.bits", given.options.get("of.four_bits", given.options["of.adapter"])
    )
    if given.pop("all_linear"):
        given.values["of.modules"] = ["all-linear"]
    put_adapters(given, bits)


def _sharding(given: Given) -> None:
    """State the shards; without a table of FSDP each rank has all weights."""
    stated = given.pop("fsdp", {"strategy": [], "offload": False})
    for name in stated["strategy"]:
        given.usual("of.strategy", name)
    if stated["offload"]:
        given.usual("of.offload", True)
    shard = given.pop("shard")
    if shard is not None:
        given.put("plan.data", shard * given.get("of.copies", 1), "of.shard")
    sharded = given.states("fsdp") or given.states("fsdp-config") or (shard or 1) > 1
    put_sharding(given, "FULL_SHARD" if sharded else "NO_SHARD")


def _engine(given: Given, precision: str) -> None:
    """State the stage of ZeRO: of the configuration, or of its name where there is no such file."""
    if given.states("fsdp") or given.states("fsdp-config"):
        raise given.wrong("of.deepspeed", "contradicts fsdp_config (choose one)")
    named = given.pop("deepspeed")
    if "plan.zero" not in given.values:
        if named is None or named["stage"] is None:
            raise given.wrong("of.deepspeed", "is no file, and its name states no stage of ZeRO")
        given.put("plan.zero", named["stage"], "of.deepspeed")
        given.assumed["plan.zero"] = "by the name of the configuration: no such file"
        for part in ("parameters", "optimiser"):
            if named[part]:
                given.put(f"offload.{part}", True, "of.deepspeed")
    put_engine(given, precision)
    put_optimiser(given)


def _memory(given: Given) -> None:
    recomputed = given.pop("recomputed")
    if recomputed is not None:
        given.put("recompute", "full", "of.recomputed")
    if recomputed == "host":
        given.put("offload.activations", True, "of.recomputed")
    if given.pop("attention"):
        given.put("framework.kernels.attention", "unfused", "of.attention")


def _ignored() -> Mapping[str, str]:
    stated = {f"deepspeed.{name}" for name in deepspeed.CONFIGURATION} - {*_ZERO}
    return {
        **under("fsdp-config.fsdp-", ignored("fsdp")),
        **under("fsdp-config.", ignored("fsdp")),
        **under("deepspeed.", ignored("deepspeed")),
        **dict.fromkeys(sorted(stated), "as the options of this file state"),
        **ignored("axolotl"),
    }


AXOLOTL: Final = Launch(_options, READS, _ignored, _finish)
"""Configurations of Axolotl."""
