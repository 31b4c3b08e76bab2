"""The configuration of Hugging Face Accelerate with FSDP, as ``accelerate config`` writes it.

It states neither model nor batch.  Names are those of huggingface/accelerate,
src/accelerate/utils/dataclasses.py, FullyShardedDataParallelPlugin.
"""

from collections.abc import Mapping
from typing import Final

from clustersim.importers.launch import fsdp
from clustersim.importers.launch.fsdp import START, put_sharding
from clustersim.importers.launch.syntax.yaml_file import yaml_options
from clustersim.importers.launch.table import Given, Launch, Reads, count, one_of

READS: Final[Reads] = {
    "distributed-type": one_of("of.type", {"FSDP": "sharded", "MULTI_GPU": "whole"}),
    "num-machines": count("of.nodes"),
    "num-processes": count("of.all_processes"),
    "mixed-precision": one_of("precision", {"bf16": "bf16", "fp16": "fp16", "no": "fp32"}),
    **{f"fsdp-config.fsdp-{name}": read for name, read in fsdp.READS.items()},
}
"""Options that are read, each with its key."""

_OTHER: Final = "not modelled within FSDP of PyTorch: set plan"

IGNORED: Final[Mapping[str, str]] = {
    **{f"fsdp-config.fsdp-{name}": why for name, why in fsdp.IGNORED.items()},
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
    "machine-rank": START,
    "main-process-*": START,
    "main-training-function": START,
    "same-network": START,
    "compute-environment": START,
    "rdzv-*": START,
    "debug": "logging",
}
"""Options that are not read, or patterns of them, each with the reason; the first match counts."""


def _finish(given: Given) -> None:
    """Derive the keys of the scenario; the batch is assumed, as it is in the program."""
    given.put("framework.name", "pytorch-fsdp")
    sharded = given.pop("type", "sharded") == "sharded"
    put_sharding(given, "FULL_SHARD" if sharded else "NO_SHARD")
    given.usual("precision", "fp32")
    if given.values["precision"] != "fp32" and given.values["plan.zero"]:
        given.usual("framework.sharding.reduce", 2)
    given.assume("batch.micro", 1, "not in the file: set batch.micro and batch.global")
    given.assume("batch.sequence", 2048, "not in the file: set batch.sequence")


ACCELERATE: Final = Launch(yaml_options, READS, IGNORED, _finish)
"""Configurations of Accelerate."""
