"""Configurations of Primus for Megatron: the overrides of a trainer, as parsed arguments.

The model and the defaults of the trainer are in other files, which ``model`` and ``config`` name.
Names and defaults are those of AMD-AGI/Primus, primus/configs/modules/megatron: pre_trainer.yaml,
trainer_base.yaml, primus_megatron_module.yaml and primus_turbo.yaml (read 2026-11-24).
"""

import re
from dataclasses import replace
from functools import partial
from typing import Final

from clustersim.importers.launch import megatron, megatron_config
from clustersim.importers.launch.megatron_config import not_read
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


PRIMUS: Final = Launch(_options, READS, partial(not_read, "primus", READS), _finish)
"""Configurations of Primus."""
