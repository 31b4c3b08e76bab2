"""The configuration of Hugging Face Accelerate with FSDP, as ``accelerate config`` writes it.

It states neither model nor batch.  Names are those of huggingface/accelerate,
src/accelerate/utils/dataclasses.py, FullyShardedDataParallelPlugin.
"""

from collections.abc import Mapping
from typing import Final

from clustersim.importers.launch import fsdp
from clustersim.importers.launch.fsdp import put_sharding
from clustersim.importers.launch.syntax.yaml_file import yaml_options
from clustersim.importers.launch.table import Given, Launch, Reads, count, ignored, one_of, under

READS: Final[Reads] = {
    "distributed-type": one_of("of.type", {"FSDP": "sharded", "MULTI_GPU": "whole"}),
    "num-machines": count("of.nodes"),
    "num-processes": count("of.all_processes"),
    "mixed-precision": one_of("precision", {"bf16": "bf16", "fp16": "fp16", "no": "fp32"}),
    **{f"fsdp-config.fsdp-{name}": read for name, read in fsdp.READS.items()},
}
"""Options that are read, each with its key."""


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


def _ignored() -> Mapping[str, str]:
    return {**under("fsdp-config.fsdp-", ignored("fsdp")), **ignored("accelerate")}


ACCELERATE: Final = Launch(yaml_options, READS, _ignored, _finish)
"""Configurations of Accelerate."""
