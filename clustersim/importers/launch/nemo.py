"""Configurations of NeMo and Megatron-Bridge: dumped YAML, the launcher's YAML, recipes in Python.

ConfigContainer.to_yaml     model.hidden_size                          hidden-size
NeMo 1.x, the launcher      model.encoder_seq_length   --sections-->   seq-length
NeMo 2.0                    trainer.strategy.ddp.bucket_size           bucket-size

What all of them set in the end are the classes of Megatron-Core.  Names and defaults are those of
NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/training/config.py, comm_overlap.py and
mixed_precision.py; NVIDIA/NeMo, nemo/lightning/pytorch/strategies/megatron_strategy.py,
nemo/collections/llm/recipes and examples/nlp/language_modeling/conf/megatron_gpt_config.yaml; and
NVIDIA/NeMo-Framework-Launcher, launcher_scripts/conf/training (read 2026-11-24).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NoReturn

from clustersim.catalog.finding import find
from clustersim.errors import ScenarioError
from clustersim.escaping import escaped
from clustersim.importers.launch import megatron, megatron_config
from clustersim.importers.launch.megatron_config import not_read
from clustersim.importers.launch.options import Option, options_in
from clustersim.importers.launch.serving import catalogue_model
from clustersim.importers.launch.syntax.python_file import Recipe, read_recipes, target_of
from clustersim.importers.launch.syntax.yaml_file import yaml_document
from clustersim.importers.launch.table import (
    Given,
    Launch,
    Read,
    Reads,
    count,
    flag,
    one_of,
    word,
    words,
)
from clustersim.importers.source import Source

# --- options by section ---------------------------------------------------------------------------

_PYTHON: Final = re.compile(r"^(?:import|from) [\w.]+|^def \w+\(", re.MULTILINE)

_SECTIONS: Final[Mapping[str, str]] = {
    r"trainer\.strategy\.ddp\.": "ddp.",
    r"trainer\.strategy\.": "model.",
    r"trainer\.plugins(?:\.0)?": "mixed-precision",
    r"trainer\.precision$": "precision",
    r"model\.optim\b": "optim",
    r"model\.data\b": "dataset",
    r"model\.tokenizer\b": "tokenizer",
    r"model\.config$": "model-config",
    r"model\.0$": "model-path",
    r"model\.config\.": "model.",
    r"optim\.config\.": "optimizer.",
    r"data\b": "dataset",
}
"""Beginnings of names in NeMo, each with the section of Megatron-Bridge; the first one counts."""

_CORE: Final = ("optimizer", "model", "train", "comm-overlap", "ddp", "mixed-precision")
"""Sections with classes of Megatron-Core; of two that have the same name, the later one counts."""


def _options(source: Source) -> list[Option]:
    if _PYTHON.search(source.text):
        options = _of_recipe(source)
    else:
        document = yaml_document(source, references=True)
        options = options_in(replace(document, data=_without_targets(document.data)))
    stated = [option for option in options if option.values != (None,)]
    return [_bare(option) for option in sorted(stated, key=_section_rank)]


def _without_targets(value: Any) -> Any:
    """Return the values of a dump, with what names a class or a value as the name."""
    if not isinstance(value, dict):
        return value
    inner = {key: _without_targets(item) for key, item in value.items() if key != "_call_"}
    target = inner.get("_target_")
    arguments = inner.get("_args_") or []
    known = isinstance(arguments, list) and all(isinstance(part, int | str) for part in arguments)
    if isinstance(target, str) and known and inner.keys() <= {"_target_", "_args_"}:
        return ".".join([target, *map(str, arguments)])
    return inner


def _section_rank(option: Option) -> int:
    section = _sectioned(option.name).partition(".")[0]
    return _CORE.index(section) if section in _CORE else -1


def _sectioned(name: str) -> str:
    for pattern, section in _SECTIONS.items():
        if re.match(pattern, name):
            return re.sub(rf"^{pattern}", section, name)
    return name


def _bare(option: Option) -> Option:
    """Return an option of a class of Megatron-Core without its section."""
    name = _sectioned(option.name).removesuffix(".-target-")
    section, _, rest = name.partition(".")
    return replace(option, name=rest if rest and section in _CORE else name)


def _of_recipe(source: Source) -> list[Option]:
    """Return the options of the only job of a Python file, and those of all else in it."""
    recipes = [recipe for recipe in read_recipes(source) if not recipe.called]
    jobs = [recipe for recipe in recipes if any(map(_is_of_job, recipe.options))]
    jobs = jobs or [one for one in recipes if _of_library(one.target)]
    if not jobs:
        raise ScenarioError(f"{escaped(source.file)}: has no recipe or configuration of a job")
    if len(jobs) > 1:
        names = ", ".join(f"{job.name[:40]} (line {job.place.line})" for job in jobs[:4])
        raise ScenarioError(
            f"{escaped(source.file)}: has {len(jobs)} jobs: {escaped(names)} (keep one)"
        )
    (job,) = jobs
    others = [
        replace(option, name=f"other.{recipe.name}.{option.name}")
        for recipe in recipes
        if recipe is not job
        for option in recipe.options
    ]
    origin = tuple(name for name in (job.target, job.module.rpartition(".")[2]) if name)
    return [*others, Option("recipe", origin, "recipe", job.place), *_overlaps(job)]


def _is_of_job(option: Option) -> bool:
    section = _sectioned(option.name).partition(".")[0]
    return section in ("model", "train", "trainer", "dataset")


def _overlaps(job: Recipe) -> list[Option]:
    """Return the options of a job, those of the callback of overlaps as a section."""
    callback = next(
        (o.name for o in job.options if "CommOverlapCallback" in str(o.values[:1])), "none"
    )
    return [
        replace(option, name=option.name.replace(callback, "comm-overlap", 1))
        if f"{option.name}.".startswith(f"{callback}.")
        else option
        for option in job.options
    ]


# --- tables ---------------------------------------------------------------------------------------

_RECIPE: Final = re.compile(r"(?:.*\.)?_?[a-z]\w*_(?:recipe|config|common)(?:_\w+)?")
"""Functions of the libraries that return a whole job."""

_LONGEST_NAME: Final = 200
"""Limit of the name of such a function [characters]."""

_BACKENDS: Final = {"1": "flash", "2": "fused", "3": "unfused", "4": "local", "5": "auto"}
"""Numbers of `AttnBackend` of Megatron-Core, which a dump has."""


def _of_library(target: str) -> bool:
    return len(target) <= _LONGEST_NAME and _RECIPE.fullmatch(target) is not None


def _backend(option: Option) -> str:
    stated = option.word().rpartition(".")[2]
    name = _BACKENDS.get(stated, stated)
    if name not in _BACKENDS.values():
        raise option.wrong(f"is not modelled (modelled: {', '.join(_BACKENDS.values())})")
    return name


def _precision(option: Option) -> str | None:
    """Return a recipe of precision by its name, such as ``bf16_with_mxfp8_mixed``."""
    name = target_of(option).replace("-", "_")
    if name.endswith(("MixedPrecision", "MixedPrecisionConfig")):
        return None
    wide = re.search("bf16|fp16", name)
    if wide is None or "mxfp4" in name:
        raise option.wrong("is not modelled (modelled: recipes of bf16, fp16, fp8 and nvfp4)")
    return f"{wide[0]} {name}"


def _wide(option: Option) -> str:
    stated = option.word().removesuffix("-mixed").removesuffix("-true")
    names = {"bf16": "bf16", "16": "fp16", "fp16": "fp16", "32": "fp32", "fp32": "fp32"}
    if stated not in names:
        raise option.wrong(f"is not modelled (modelled: {', '.join(names)})")
    return names[stated]


def _norm(option: Option) -> str:
    stated = option.word().lower()
    if stated not in ("layernorm", "rmsnorm", "layernorm1p"):
        raise option.wrong("is not modelled (modelled: layernorm, rmsnorm, layernorm1p)")
    return "rms" if stated == "rmsnorm" else "layer"


def _activation(option: Option) -> str | None:
    """Return the kind of layer of an activation of NeMo 1.x."""
    return "gated" if re.search("glu$", option.word()) and "quick" not in option.word() else None


def _adapters(option: Option) -> NoReturn:
    raise option.wrong("adapters of this format are not read (remove it, and set adapters)")


def _sharded(option: Option) -> int | None:
    return 1 if re.search("distributed", target_of(option)) else None


READS: Final[Reads] = {
    **megatron_config.READS,
    "seq-length": count("of.model_sequence"),
    "encoder-seq-length": count("batch.sequence"),
    "dataset.seq-length": count("batch.sequence"),
    "dataset.sequence-length": count("batch.sequence"),
    "dataset.micro-batch-size": count("batch.micro"),
    "dataset.global-batch-size": count("batch.global"),
    "trainer.num-nodes": count("of.nodes"),
    "trainer.devices": count("of.processes"),
    "num-nodes": count("of.nodes"),
    "num-gpus-per-node": count("of.processes"),
    "recipe": words("of.recipe"),
    "dist.use-tp-pp-dp-mapping": megatron.READS["use-tp-pp-dp-mapping"],
    "model": Read("of.model", target_of),
    "model-config": Read("of.model_config", target_of),
    "model-path": Read("of.model_path", lambda option: option.word()),
    "attention-backend": Read("of.attention", _backend),
    "mixed-precision": Read("of.precision", _precision),
    "precision": Read("of.wide", _wide),
    "fp8-params": flag("of.fp8_gather"),
    "comm-overlap": Read("of.overlaps", lambda _: True),
    "bias-activation-fusion": Read("of.fused", Option.is_set),
    "normalization": Read("model.norm", _norm),
    "activation": Read("model.mlp", _activation),
    "bias": Read("of.no_biases", lambda option: None if option.is_set() else True),
    "activations-checkpoint-granularity": megatron.READS["recompute-granularity"],
    "activations-checkpoint-method": megatron.READS["recompute-method"],
    "activations-checkpoint-num-layers": megatron.READS["recompute-num-layers"],
    "ub-tp-comm-overlap": megatron.READS["tp-comm-overlap"],
    "tokenizer.type": word("of.tokenizer"),
    "tokenizer.tokenizer-type": word("of.tokenizer"),
    "optim": Read("plan.zero", _sharded),
    "optim.name": Read("plan.zero", _sharded),
    "optim.overlap-grad-sync": megatron.READS["overlap-grad-reduce"],
    "optim.overlap-param-sync": megatron.READS["overlap-param-gather"],
    "optim.grad-sync-dtype": one_of(
        "framework.gradients.bytes_each", {"bf16": 2, "fp16": 2, "fp32": 4}
    ),
    "peft": Read("of.peft", _adapters),
    "model.peft": Read("of.peft", _adapters),
}
"""Options that are read, each with its key; those of Megatron-Core without their section."""


# --- derived keys ---------------------------------------------------------------------------------


def _finish(given: Given) -> None:
    """Derive the keys of the scenario, with the defaults of the classes and of the recipes."""
    names = given.pop("recipe", [""])
    recipe = names[0]
    library = _of_library(recipe)
    _model(given, names)
    sequence = given.pop("model_sequence")
    if sequence is not None:
        given.usual("batch.sequence", sequence)
        given.usual("model.sequence", sequence)
    if given.pop("overlaps") or library:
        given.usual("framework.gradients.overlap", "always")
        given.usual("framework.gradients.gather_overlap", True)
    if library:
        _recipe_defaults(given, recipe)
    _formats(given, library)
    megatron.finish(given)


def _model(given: Given, recipe: Sequence[str]) -> None:
    """State the shape of the model, or a model of the catalogue by the name of its class.

    Parameters
    ----------
    recipe : the function that returns the job, and the module that it is imported from
    """
    names = [given.pop("model_path"), given.pop("model_config"), given.pop("model"), *recipe]
    hidden = given.get("model.hidden")
    if given.pop("fused") is False:
        gated = given.get("model.mlp") == "gated"
        given.usual(f"framework.kernels.{'gated_fused' if gated else 'bias_gelu_fused'}", False)
    if hidden is not None:
        given.usual("model.ffn", 4 * hidden)
    if "of.query_groups" in given.values:
        given.usual("of.grouped_queries", True)
    if (
        "model" in given.values
        or {"model.layers", "model.hidden", "model.heads"} <= given.values.keys()
    ):
        return
    stated = next((name for name in names if name), None)
    if stated is None:
        return
    models = {str(name): catalogue_model(_plain(str(name))) for name in names if name}
    stated = next((name for name, model in models.items() if model), str(stated))
    known = models[stated]
    if known is None:
        raise ScenarioError(
            f"{escaped(given.source.file)}: '{escaped(stated[:80])}' is in no file of the"
            " catalogue (name one with --model)"
        )
    given.put("model", known)
    given.assumed["model"] = f"the file of the catalogue for {stated[:80]}"
    _check_shape(given, known)


def _plain(name: str) -> str:
    """Return the name of a model from that of a class or a function.

    >>> _plain("Llama31Config70B"), _plain("llama3_8b_16k_pretrain_config")
    ('Llama3170B', 'llama3_8b')
    """
    return re.sub(
        r"_\d+k(?=_|$)|_(?:pretrain|finetune|sft|peft)_.*|Model|Provider|Config", "", name
    )


def _check_shape(given: Given, name: str) -> None:
    """Check what the file states of a model that it names."""
    record = find("model", name).data
    for key in ("layers", "hidden", "heads", "ffn"):
        stated = given.get(f"model.{key}")
        if stated not in (None, record.get(key)):
            raise given.wrong(
                f"model.{key}", f"'{name}' has {record.get(key)} (name another one with --model)"
            )
    for key in [key for key in given.values if key.startswith("model.")]:
        given.disregard(key, f"the shape is that of the model '{name}'")


def _recipe_defaults(given: Given, recipe: str) -> None:
    """State what a recipe of a library has and the file does not."""
    given.usual("plan.zero", 1)
    given.usual("framework.experts.grouped", True)
    given.usual("of.dispatcher", "alltoall")
    elsewhere = f"not in the file: {recipe} may set another one"
    for key in ("plan.tensor", "plan.pipeline", "plan.context"):
        given.assume(key, 1, elsewhere)
    given.assume("batch.micro", 1, elsewhere)
    given.assume("batch.sequence", 4096, elsewhere)


def _formats(given: Given, library: bool) -> None:
    """State the precision by the name of its recipe."""
    named = given.pop("precision", "bf16" if library else "").partition(" ")
    wide = given.pop("wide", named[0])
    if wide in ("bf16", "fp16"):
        given.usual(f"of.{wide}", True)
    if "fp4" in named[2]:
        given.usual("of.fp4", "nvfp4")
    elif "fp8" in named[2]:
        recipes = {"mxfp8": "mxfp8", "subchannel": "blockwise", "delayed": "delayed"}
        recipe = next((form for key, form in recipes.items() if key in named[2]), "tensorwise")
        given.usual("of.fp8", "hybrid")
        given.usual("of.fp8_recipe", recipe)
        given.usual("of.fp8_gather", recipe != "blockwise")


NEMO: Final = Launch(_options, READS, partial(not_read, "nemo", READS), _finish)
"""Configurations and recipes of NeMo and Megatron-Bridge."""
