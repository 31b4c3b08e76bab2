"""Configurations of Primus for Megatron: the overrides of a trainer, as parsed arguments.

The model and the defaults of the trainer are in other files, which ``model`` and ``config`` name.
Names and defaults are those of AMD-AGI/Primus, primus/configs/modules/megatron: pre_trainer.yaml,
trainer_base.yaml, primus_megatron_module.yaml and primus_turbo.yaml (read 2026-11-24).
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from clustersim.importers.launch import megatron, megatron_config
from clustersim.importers.launch.options import Option
from clustersim.importers.launch.serving import state_model
from clustersim.importers.launch.syntax.yaml_file import yaml_options
from clustersim.importers.launch.table import Given, Launch, Read, Reads, flag, one_of
from clustersim.importers.source import Source

_OVERRIDES: Final = re.compile(r"modules\.(?:pre|post|sft)-trainer\.(?:overrides\.)?")
_DEFAULT: Final = re.compile(r"\$\{\w+:([^${}]*)\}")
"""A variable of the environment with a default, which the file states."""


def _options(source: Source) -> list[Option]:
    return [_override(option) for option in yaml_options(source)]


def _override(option: Option) -> Option:
    """Return an override without its section, a variable with a default as the default."""
    shown = option.shown.rpartition(".")[2] if _OVERRIDES.match(option.name) else option.shown
    named = replace(option, name=_OVERRIDES.sub("", option.name), shown=shown)
    found = _DEFAULT.fullmatch(str(option.values[0])) if option.values else None
    return named if found is None else replace(named, values=(found[1],), unknown="")


READS: Final[Reads] = {
    **megatron_config.READS,
    "framework": one_of("of.framework", {"megatron": "megatron"}),
    "model": Read("of.model", Option.word),
    "use-turbo-deepep": flag("of.turbo_dispatch"),
}
"""Options that are read, each with its key."""

_LOG: Final = "logging"
_START: Final = "start of the job"
_KERNELS: Final = "kernels are those of the accelerator's file"

IGNORED: Final[Mapping[str, str]] = {
    "config": "defaults in another file: as pre_trainer.yaml",
    "work-group": _START,
    "user-name": _START,
    "exp-name": _START,
    "workspace": _START,
    "extends": "defaults in another file: as pre_trainer.yaml",
    "includes": "defaults in another file: as pre_trainer.yaml",
    "trainable": _START,
    "*sink-level": _LOG,
    "disable-tensorboard": _LOG,
    "disable-wandb": _LOG,
    "disable-mlflow": _LOG,
    "mlflow-*": _LOG,
    "use-rocm-mem-info*": _LOG,
    "disable-profiler-activity-cpu": _LOG,
    "torch-profiler-*": _LOG,
    "dump-pp-data": _LOG,
    "disable-compile-dependencies": _START,
    "pp-warmup": _START,
    "auto-continue-train": "checkpoints: state a run in the section training",
    "disable-last-saving": "checkpoints: state a run in the section training",
    "no-fp8-weight-transpose-cache": "not modelled: weights in 8 bits without a transposed copy",
    "decoder-pipeline-manual-split-list": "uneven stages by a list are not read: set plan.layers",
    "patch-moe-overlap": "not modelled: the exchange next to products of experts",
    "recompute-layer-ids": "recomputation of single layers is not read: set recompute",
    "enable-primus-turbo": _KERNELS,
    "use-turbo-*": _KERNELS,
    "turbo-deepep-*": "compute units of the exchange are those of the library",
    "turbo-sync-free-moe-stage": "not modelled: experts without counts on the host",
    "turbo-*": _KERNELS,
    "enable-turbo-attention-float8": _KERNELS,
    "mxfp4-*": "not modelled: training in 4 bits",
    "te-precision-config-file": "not modelled: precision by module",
    "use-sink-attention": "state softmax-type",
    "sink-*": "state softmax-type and window-size",
    "moe-use-fused-router-with-aux-score": "a detail inside of kernels that the profile has as"
    " measured",
    "patch-zero-bubble": "not modelled: schedules without bubbles",
    "*zero-bubble*": "not modelled: schedules without bubbles",
    "multiprocessing-context": "data loading is not modelled",
    "enable-gloo-process-groups": _START,
    "standalone-embedding-stage": "not modelled: a stage for the embedding alone",
    "hf-*": "tokenizer: only its vocabulary counts",
    **{key: why for key, why in megatron_config.IGNORED.items() if key not in READS},
}
"""Options that are not read, or patterns of them, each with the reason; the first match counts."""


def _finish(given: Given) -> None:
    """Derive the keys of the scenario, with the defaults of the trainer."""
    given.pop("framework")
    name = str(given.pop("model", "")).removesuffix(".yaml")
    shaped = "model.hidden" in given.values
    if name and not shaped:
        state_model(given, name)
    if not given.get("of.fp16"):
        given.usual("of.bf16", True)
    given.usual("plan.zero", 1)
    given.usual("framework.experts.grouped", True)
    if given.pop("turbo_dispatch"):
        given.usual("of.dispatcher", "flex")
        given.usual("of.once_per_node", True)
    megatron.finish(given)


PRIMUS: Final = Launch(_options, READS, IGNORED, _finish)
"""Configurations of Primus."""
