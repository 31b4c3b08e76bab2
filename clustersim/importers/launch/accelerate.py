"""The configuration of Hugging Face Accelerate with FSDP, as ``accelerate config`` writes it.

It states neither model nor batch.  Names are those of huggingface/accelerate,
src/accelerate/utils/dataclasses.py, FullyShardedDataParallelPlugin.
"""

from collections.abc import Mapping
from typing import Final

from clustersim.catalog.reading import parse_yaml
from clustersim.errors import CatalogError
from clustersim.importers.launch.options import Option, options_in
from clustersim.importers.launch.table import Given, Launch, Read, Reads, count, flag, one_of
from clustersim.importers.source import Source

_STRATEGIES: Final = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD")
"""Strategies of sharding, in the order of their numbers from 1."""


def _options(source: Source) -> list[Option]:
    document = parse_yaml(source.text, source.file, CatalogError)
    return [option for option in options_in(document) if option.values != (None,)]


def _strategy(option: Option) -> str:
    """Return a strategy of sharding by its name or its number."""
    stated = option.word()
    names = {str(number): name for number, name in enumerate(_STRATEGIES, 1)}
    name = names.get(stated, stated)
    if name not in _STRATEGIES:
        raise option.wrong(f"is not modelled (modelled: {', '.join(_STRATEGIES)})")
    return name


READS: Final[Reads] = {
    "distributed-type": one_of("of.type", {"FSDP": "sharded", "MULTI_GPU": "whole"}),
    "num-machines": count("of.nodes"),
    "num-processes": count("of.all_processes"),
    "mixed-precision": one_of("precision", {"bf16": "bf16", "fp16": "fp16", "no": "fp32"}),
    "fsdp-config.fsdp-sharding-strategy": Read("of.strategy", _strategy),
    "fsdp-config.fsdp-reshard-after-forward": Read("of.reshard", lambda option: option.word()),
    "fsdp-config.fsdp-offload-params": flag("of.offload"),
    "fsdp-config.fsdp-activation-checkpointing": flag("recompute", "full"),
    "fsdp-config.fsdp-backward-prefetch": one_of(
        "framework.sharding.prefetch", {"BACKWARD_PRE": 1, "BACKWARD_POST": 0, "NO_PREFETCH": 0}
    ),
}
"""Options that are read, each with its key."""

_START: Final = "start of the job"
_UNIT: Final = "a unit is a layer"
_OTHER: Final = "not modelled within FSDP of PyTorch: set plan"

IGNORED: Final[Mapping[str, str]] = {
    "fsdp-config.fsdp-version": "modelled as FSDP1",
    "fsdp-config.fsdp-auto-wrap-policy": _UNIT,
    "fsdp-config.fsdp-transformer-layer-cls-to-wrap": _UNIT,
    "fsdp-config.fsdp-min-num-params": _UNIT,
    "fsdp-config.fsdp-forward-prefetch": "the host issues the next gather early",
    "fsdp-config.fsdp-use-orig-params": "weights are one flat tensor for each unit",
    "fsdp-config.fsdp-cpu-ram-efficient-loading": _START,
    "fsdp-config.fsdp-sync-module-states": _START,
    "fsdp-config.fsdp-state-dict-type": "checkpoints: state a run in the section training",
    "parallelism-config.*": _OTHER,
    "tp-size": _OTHER,
    "megatron-lm-config.*": _OTHER,
    "deepspeed-config.*": _OTHER,
    "dynamo-config.*": "modelled without compilation",
    "fp8-config.*": "of mixed-precision fp8",
    "downcast-bf16": "of TPUs",
    "tpu-*": "of TPUs",
    "gradient-accumulation-steps": "set batch.global",
    "enable-cpu-affinity": "the host is that of the profile",
    "use-cpu": "the machine is named",
    "gpu-ids": "the machine is named",
    "machine-rank": _START,
    "main-process-*": _START,
    "main-training-function": _START,
    "same-network": _START,
    "compute-environment": _START,
    "rdzv-*": _START,
    "debug": "logging",
}
"""Options that are not read, or patterns of them, each with the reason; the first match counts."""


def _finish(given: Given) -> None:
    """Derive the keys of the scenario; the batch is assumed, as it is in the program."""
    given.put("framework.name", "pytorch-fsdp")
    sharded = given.pop("type", "sharded") == "sharded"
    strategy = given.pop("strategy", "FULL_SHARD" if sharded else "NO_SHARD")
    given.put("plan.zero", 0 if strategy == "NO_SHARD" else 3, "of.strategy")
    reshard = str(given.pop("reshard", "true")).upper()
    strategy = reshard if reshard in _STRATEGIES else strategy
    if strategy == "SHARD_GRAD_OP" or reshard == "FALSE":
        given.put("plan.reshard", False, "of.reshard")
    if strategy == "HYBRID_SHARD":
        given.put("plan.shard", given.get("of.each"), "of.strategy")
    given.usual("precision", "fp32")
    if given.values["precision"] != "fp32" and strategy != "NO_SHARD":
        given.usual("framework.sharding.reduce", 2)
    if given.pop("offload"):
        given.put("offload.parameters", True, "of.offload")
        given.put("offload.optimiser", True, "of.offload")
    given.assume("batch.micro", 1, "not in the file: set batch.micro and batch.global")
    given.assume("batch.sequence", 2048, "not in the file: set batch.sequence")


ACCELERATE: Final = Launch(_options, READS, IGNORED, _finish)
"""Configurations of Accelerate."""
