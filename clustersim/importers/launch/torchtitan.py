"""The configuration of a torchtitan job as TOML, as it was until February 2026.

Names and defaults are those of pytorch/torchtitan, torchtitan/config/job_config.py, commit 000204a.
"""

from collections.abc import Mapping
from typing import Any, Final

from clustersim.catalog.finding import find
from clustersim.importers.launch.fsdp import put_offload
from clustersim.importers.launch.options import Option, options_in
from clustersim.importers.launch.serving import catalogue_model
from clustersim.importers.launch.table import (
    Given,
    Launch,
    Read,
    Reads,
    count,
    flag,
    one_of,
    switch,
    whole,
    word,
    words,
)
from clustersim.importers.launch.toml_file import read_toml
from clustersim.importers.source import Source


def _options(source: Source) -> list[Option]:
    return options_in(read_toml(source))


def degree(option: Option) -> int | None:
    """Return a degree; none for -1, which leaves it to the devices."""
    value = option.whole()
    if value == 0 or value < -1:
        raise option.wrong("must be at least 1, or -1 for all other devices")
    return value if value > 0 else None


READS: Final[Reads] = {
    "model.name": word("of.model"),
    "model.flavor": word("of.flavor"),
    "model.converters": words("of.converters"),
    "training.local-batch-size": count("of.local"),
    "training.batch-size": count("of.local"),
    "training.global-batch-size": Read("batch.global", degree),
    "training.seq-len": count("batch.sequence"),
    "training.mixed-precision-param": one_of("of.wide", {"bfloat16": "bf16", "float32": "fp32"}),
    "training.enable-cpu-offload": flag("of.offload"),
    "training.compile": switch("of.compiled"),
    "compile.enable": switch("of.compiled"),
    "parallelism.data-parallel-replicate-degree": count("of.copies"),
    "parallelism.data-parallel-shard-degree": Read("of.shard", degree),
    "parallelism.fsdp-reshard-after-forward": one_of(
        "of.reshard", {"default": "default", "always": "always", "never": "never"}
    ),
    "parallelism.tensor-parallel-degree": count("plan.tensor"),
    "parallelism.enable-async-tensor-parallel": flag("framework.kernels.tensor_pipelined"),
    "parallelism.pipeline-parallel-degree": count("plan.pipeline"),
    "parallelism.pipeline-parallel-schedule": one_of(
        "plan.schedule",
        {"1F1B": "1f1b", "GPipe": "gpipe", "Interleaved1F1B": "interleaved-1f1b"},
    ),
    "parallelism.pipeline-parallel-layers-per-stage": count("of.layers_per_stage"),
    "parallelism.pipeline-parallel-first-stage-less-layers": whole("of.first_less"),
    "parallelism.pipeline-parallel-last-stage-less-layers": whole("of.last_less"),
    "parallelism.pipeline-parallel-microbatch-size": count("of.microbatch"),
    "parallelism.context-parallel-degree": count("plan.context"),
    "parallelism.context-parallel-rotate-method": one_of(
        "plan.context_method", {"allgather": "all-gather", "alltoall": "ring"}
    ),
    "activation-checkpoint.mode": one_of(
        "of.recompute", {"none": "none", "selective": "selective", "full": "full"}
    ),
    "activation-checkpoint.selective-ac-option": word("of.selective"),
}
"""Options that are read, each with its key."""

_LOSS: Final = "changes the loss, not the time of a step"
_STAGES: Final = "stages by names of modules are not read: set plan.layers"

IGNORED: Final[Mapping[str, str]] = {
    "model.tokenizer-path": "tokenizer: the vocabulary is that of the model",
    "model.hf-assets-path": "tokenizer: the vocabulary is that of the model",
    "model.print-after-conversion": "logging",
    "training.mixed-precision-reduce": "gradients are reduced in 32 bits",
    "training.dtype": "weights are held in 32 bits",
    "training.dataset*": "data loading is not modelled",
    "training.steps": "length of the run: set the section training",
    "training.max-norm": _LOSS,
    "training.seed": _LOSS,
    "training.deterministic": "not modelled: slower deterministic kernels",
    "training.gc-*": "pauses of the collector: set disturbances",
    "compile.*": "of compile.enable",
    "parallelism.enable-compiled-autograd": "not modelled: a compiled backward as a whole",
    "parallelism.disable-loss-parallel": "logits are over the tensor ranks",
    "parallelism.pipeline-parallel-split-points": _STAGES,
    "parallelism.module-fqns-per-model-part": _STAGES,
    "parallelism.pipeline-parallel-schedule-csv": "own schedules: set plan.schedule to a file",
    "parallelism.expert-parallel-degree": "no experts in this profile",
    "parallelism.expert-tensor-parallel-degree": "no experts in this profile",
    "activation-checkpoint.per-op-*": "of selective-ac-option op",
    "activation-checkpoint.*": "of the mode of recomputation",
    "float8.enable-fsdp-float8-all-gather": "weights are gathered in 16 bits",
    "float8.*": "the recipe of the profile, one scale for each tensor",
    "mx.*": "the recipe of the profile",
    "quantize.*": "the recipe of the profile",
    "optimizer.*": "modelled as a fused Adam with 32-bit moments",
    "lr-scheduler.*": _LOSS,
    "checkpoint.*": "checkpoints: state a run in the section training",
    "validation.*": "evaluations: state a run in the section training",
    "comm.*": "no effect on a step without faults",
    "fault-tolerance.*": "no effect on a step without faults",
    "memory-estimation.*": "no effect on a step",
    "experimental.*": "code of its own is not read",
    "debug.*": _LOSS,
    **dict.fromkeys(("job.*", "profiling.*", "metrics.*"), "logging"),
}
"""Options that are not read, or patterns of them, each with the reason; the first match counts."""


def _finish(given: Given) -> None:
    """Derive the keys of the scenario, with the defaults of torchtitan."""
    _model(given)
    compiled = given.pop("compiled", False)
    given.put("framework.name", "torchtitan" if compiled else "torchtitan-eager", "of.compiled")
    pipeline, tensor = given.get("plan.pipeline", 1), given.get("plan.tensor", 1)
    if tensor > 1:
        given.put("plan.sequence_parallel", True, "plan.tensor")
    if given.get("plan.context", 1) > 1:
        given.usual("plan.context_method", "all-gather")
    else:
        given.disregard("plan.context_method", "no effect without context ranks")
    given.usual("batch.sequence", 2048)
    local, micro = given.pop("local", 8), given.pop("microbatch", 1)
    given.put("batch.micro", local if pipeline == 1 else micro, "of.local")
    given.values["of.accumulation"] = 1 if pipeline == 1 else max(1, local // micro)
    put_shards(given)
    _stages(given, pipeline)
    _precision(given)
    put_recomputation(given, "selective")
    put_offload(given)


def _model(given: Given) -> None:
    name = "-".join(str(part) for part in (given.pop("model"), given.pop("flavor")) if part)
    if "model" in given.values:
        return
    known = catalogue_model(name)
    if known is None:
        raise given.wrong(
            "of.flavor", f"'{name}' is in no file of the catalogue (name one with --model)"
        )
    given.put("model", known, "of.flavor")
    given.assumed["model"] = f"the file of the catalogue for {name}"


def put_shards(given: Given) -> None:
    """State the ranks of a shard, their copies, and whether gathered weights are released."""
    shard, copies = given.pop("shard"), given.pop("copies", 1)
    given.put("plan.zero", 0 if shard == 1 else 3, "of.shard")
    if shard is not None:
        given.put("plan.data", shard * copies, "of.shard")
    if copies > 1 and shard != 1:
        given.values["of.copies"] = copies
    reshard = given.pop("reshard", "default")
    kept = reshard == "never" or (reshard == "default" and given.get("plan.pipeline", 1) > 1)
    if kept and shard != 1:
        given.put("plan.reshard", False, "of.reshard")


def _stages(given: Given, pipeline: int) -> None:
    each = given.pop("layers_per_stage")
    less = given.pop("first_less", 0), given.pop("last_less", 0)
    if pipeline == 1:
        given.disregard("plan.schedule", "no effect without a pipeline")
        return
    if given.get("plan.schedule") == "interleaved-1f1b":
        given.usual("plan.chunks", 2)
        if each is not None:
            layers = int(find("model", given.values["model"]).data["layers"]) + sum(less)
            given.put("plan.chunks", max(1, round(layers / each / pipeline)), "of.layers_per_stage")
    if less == (1, 1):
        given.put("plan.layers", "with-ends", "of.last_less")


def _precision(given: Given) -> None:
    converters = " ".join(given.pop("converters", []))
    wide = given.pop("wide", "bf16")
    narrow = {"mx": "mxfp8", "float8": "fp8"}
    name = next((form for key, form in narrow.items() if key in converters), wide)
    given.put("precision", name, "of.converters")


def put_recomputation(given: Given, usual: str) -> None:
    """State which layers are recomputed, of a mode or the usual one."""
    mode, option = given.pop("recompute", usual), str(given.pop("selective", "2"))
    if mode != "selective":
        given.put("recompute", mode, "of.recompute")
        return
    every = int(option) if option.isdecimal() and int(option) > 0 else 2
    table: dict[str, Any] = {"mode": "full", "every": every}
    given.put("recompute", table if every > 1 else "full", "of.recompute")
    if not option.isdecimal():
        given.notes.append("recomputation by operations, of every second product: one layer in 2")


TORCHTITAN: Final = Launch(_options, READS, IGNORED, _finish)
"""Configurations of torchtitan."""
