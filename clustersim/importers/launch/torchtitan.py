"""Jobs of torchtitan: which options are read, whichever form the file has.

Names and defaults are those of pytorch/torchtitan, torchtitan/config/job_config.py, commit 000204a,
of TOML until February 2026, and torchtitan/config/configs.py, commit 0014ac2, of data classes.
"""

import re
from functools import partial
from typing import Any, Final

from clustersim.catalog.finding import find
from clustersim.importers.launch import commands
from clustersim.importers.launch.fsdp import put_offload
from clustersim.importers.launch.options import Option
from clustersim.importers.launch.serving import catalogue_model
from clustersim.importers.launch.table import (
    Given,
    Launch,
    Read,
    Reads,
    count,
    flag,
    ignored,
    one_of,
    switch,
    whole,
    word,
    words,
)
from clustersim.importers.launch.torchtitan_source import job_options


def degree(option: Option) -> int | None:
    """Return a degree; none for -1, which leaves it to the devices."""
    value = option.whole()
    if value == 0 or value < -1:
        raise option.wrong("must be at least 1, or -1 for all other devices")
    return value if value > 0 else None


def _class(option: Option) -> str:
    """Return the class of a part of a configuration in Python."""
    return str(option.values[0])


def _converters(option: Option) -> list[str]:
    """Return the formats of a converter of linear layers by its class."""
    name = _class(option).lower()
    form = next((form for form in ("float8", "nvfp4", "mx") if form in name), None)
    if form is None:
        raise option.wrong("is not modelled (modelled: Float8, MX and NVFP4 converters)")
    return [form]


_CHECKPOINTS: Final = {"FullAC": "full", "SelectiveAC": "selective"}


def _checkpoints(option: Option) -> str | None:
    """Return the mode of recomputation of a class of it; none for a class with a field `mode`."""
    name = _class(option).removesuffix(".Config")
    if name == "ActivationCheckpointConfig":
        return None
    if name not in _CHECKPOINTS:
        raise option.wrong(f"is not modelled (modelled: {', '.join(_CHECKPOINTS)})")
    return _CHECKPOINTS[name]


READS: Final[Reads] = {
    "config": word("of.config"),
    "registry": word("of.registry"),
    "model-spec.0": word("of.flavor"),
    "hf-assets-path": word("of.assets"),
    "model-converters.converters.0": Read("of.converters", _converters),
    "model-spec.converters.0": Read("of.converters", _converters),
    "activation-checkpoint": Read("of.recompute", _checkpoints),
    "training.num-tokens-per-microbatch-per-dp-rank": count("of.tokens"),
    "training.max-context-length": count("batch.sequence"),
    "parallelism.enable-sequence-parallel": switch("of.sequence_parallel"),
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


_OF_CLASSES: Final = {"of.selective": "op", "of.first_less": 1, "of.last_less": 1}
"""Defaults of the data classes that differ from those of the TOML files."""


def _finish(given: Given) -> None:
    """Derive the keys of the scenario, with the defaults of torchtitan."""
    if {"of.config", "of.registry"} & given.values.keys():
        for key, value in _OF_CLASSES.items():
            given.usual(key, value)
    _model(given)
    compiled = given.pop("compiled", False)
    given.put("framework.name", "torchtitan" if compiled else "torchtitan-eager", "of.compiled")
    pipeline, tensor = given.get("plan.pipeline", 1), given.get("plan.tensor", 1)
    if given.pop("sequence_parallel", True) and tensor > 1:
        given.put("plan.sequence_parallel", True, "plan.tensor")
    if given.get("plan.context", 1) > 1:
        given.usual("plan.context_method", "all-gather")
    else:
        given.disregard("plan.context_method", "no effect without context ranks")
    given.usual("batch.sequence", 2048)
    local, micro = _local(given), given.pop("microbatch", 1)
    given.put("batch.micro", local if pipeline == 1 else micro, "of.local")
    given.values["of.accumulation"] = 1 if pipeline == 1 else max(1, local // micro)
    put_shards(given)
    _stages(given, pipeline)
    _precision(given)
    put_recomputation(given, "selective")
    put_offload(given)


def _local(given: Given) -> int:
    """Return the sequences of a rank, which later configurations state in tokens."""
    tokens, local = given.pop("tokens"), given.pop("local", 8)
    if tokens is None:
        return int(local)
    if tokens % given.values["batch.sequence"]:
        raise given.wrong(
            "of.tokens", f"is no multiple of sequences of {given.values['batch.sequence']} tokens"
        )
    return int(tokens // given.values["batch.sequence"])


def _model(given: Given) -> None:
    """State the model by its name and flavor, the name of the configuration, or its tokenizer."""
    flavored = "-".join(str(part) for part in (given.pop("model"), given.pop("flavor")) if part)
    registered, config = given.pop("registry"), given.pop("config")
    if registered is not None:
        given.notes.append(f"{registered}: as in the registry of torchtitan in 2026")
    names = [flavored, registered or config or "", given.pop("assets", "")]
    if "model" in given.values:
        return
    known = {name: model for name in names if (model := catalogue_model(name))}
    if not known:
        name = next((name for name in names if name), "")
        raise given.wrong(
            "of.flavor", f"'{name}' is in no file of the catalogue (name one with --model)"
        )
    name, model = next(iter(known.items()))
    given.put("model", model, "of.flavor")
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
    narrow = {"nvfp4": "nvfp4", "mx": "mxfp8", "float8": "fp8"}
    name = next((form for key, form in narrow.items() if key in converters), wide)
    given.put("precision", name, "of.converters")


def put_recomputation(given: Given, usual: str) -> None:
    """State which layers are recomputed, of a mode or the usual one."""
    mode, option = given.pop("recompute", usual), str(given.pop("selective", "2"))
    if mode != "selective":
        given.put("recompute", mode, "of.recompute")
        return
    every = int(option) if re.fullmatch("0*[1-9][0-9]{0,8}", option) else 2
    table: dict[str, Any] = {"mode": "full", "every": every}
    given.put("recompute", table if every > 1 else "full", "of.recompute")
    if not option.isdecimal():
        given.notes.append("recomputation by operations, of every second product: one layer in 2")


TORCHTITAN: Final = Launch(
    job_options, {**READS, **commands.READS}, partial(ignored, "commands", "torchtitan"), _finish
)
"""Jobs of torchtitan."""
