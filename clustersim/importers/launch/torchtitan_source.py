"""Jobs of torchtitan as options: TOML, configurations in Python, and commands that select one.

config.toml                                                     until February 2026
torchrun -m torchtitan.train --job.config_file config.toml --training.local_batch_size=2
def llama3_8b(): return Trainer.Config(training=...)            since then
torchrun -m torchtitan.train --module llama3 --config llama3_8b --training.local_batch_size=2
                                       | options of this one     | and those that replace them

The configurations of torchtitan's own registry are those of pytorch/torchtitan,
torchtitan/models/llama3/config_registry.py, commit 00d1c0e, and
torchtitan/models/qwen3/config_registry.py, commit 0269495.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.reading import Place
from clustersim.errors import ScenarioError
from clustersim.escaping import escaped
from clustersim.importers.launch import commands
from clustersim.importers.launch.options import Option, options_in
from clustersim.importers.launch.syntax.python_file import Recipe, read_recipes
from clustersim.importers.launch.syntax.shell import read_variables
from clustersim.importers.launch.syntax.toml_file import read_toml
from clustersim.importers.source import Source, named_source, read_source

_TABLES: Final = r"^\[(?:parallelism|activation_checkpoint)\]"
"""Text of a TOML file of a job."""

_IMPORTS: Final = r"^[ \t]*(?:from|import)[ \t]+torchtitan"
"""Text of a Python file with configurations."""

_COMMAND: Final = r"^[^#\n]*(?:-m\s+torchtitan\.train|(?:\./|/|\s)run_train\.sh)"
"""Text of a script that launches a job."""

SIGN: Final = rf"{_TABLES}|{_IMPORTS}|{_COMMAND}"
"""Text of a job in any of its forms."""

_MODEL: Final = re.compile(r"from torchtitan\.models\.(\w+) import model_registry")

REGISTRY: Final[Mapping[str, Mapping[str, Any]]] = {
    "llama3_8b": {
        "training.local_batch_size": 1,
        "training.seq_len": 8192,
        "activation_checkpoint.mode": "selective",
    },
    "llama3_70b": {
        "training.local_batch_size": 8,
        "training.seq_len": 8192,
        "parallelism.tensor_parallel_degree": 8,
        "activation_checkpoint.mode": "full",
    },
    "llama3_405b": {
        "training.local_batch_size": 2,
        "training.seq_len": 8192,
        "parallelism.tensor_parallel_degree": 8,
        "parallelism.enable_async_tensor_parallel": True,
        "activation_checkpoint.mode": "full",
        "compile.enable": True,
        "model.converters": "float8",
    },
    "qwen3_32b": {
        "training.local_batch_size": 2,
        "training.seq_len": 4096,
        "activation_checkpoint.mode": "full",
    },
}
"""Configurations that a command can name without their file, with what changes speed or memory."""


def job_options(source: Source) -> list[Option]:
    """Return the options of a job, whichever form its file has.

    Raises
    ------
    CatalogError, ScenarioError
        when the file cannot be read, or has no configuration or several.
    """
    if re.search(_TABLES, source.text, re.MULTILINE):
        return options_in(read_toml(source))
    if re.search(_IMPORTS, source.text, re.MULTILINE):
        return [*_of_file(source, None)]
    return _of_command(source)


def _recipe(source: Source, name: str | None) -> Recipe:
    """Return the configuration of a Python file: that of a name, or the only one."""
    recipes = [recipe for recipe in read_recipes(source) if _is_job(recipe)]
    if name is None:
        recipes = [recipe for recipe in recipes if not recipe.called] or recipes
    else:
        recipes = [recipe for recipe in recipes if recipe.name == name]
    if len(recipes) == 1:
        return recipes[0]
    names = ", ".join(f"{recipe.name} (line {recipe.place.line})" for recipe in recipes)
    what = f"has {len(recipes)} configurations: {names} (keep one)" if names else None
    missing = f"has no configuration {name}" if name else "has no configuration Trainer.Config(...)"
    raise ScenarioError(f"{escaped(source.file)}: {escaped(what or missing)}")


def _is_job(recipe: Recipe) -> bool:
    return recipe.target.endswith("Trainer.Config") or recipe.target in REGISTRY


def _of_file(source: Source, name: str | None) -> Iterator[Option]:
    """Return the options of a configuration, after those of the one that it changes."""
    recipe = _recipe(source, name)
    named = Option("config", (recipe.name,), "configuration", recipe.place)
    if recipe.target in REGISTRY:
        yield from _registered(replace(named, values=(recipe.target,)))
    else:
        yield named
    for number, line in source.lines:
        if module := _MODEL.match(line):
            yield Option("model.name", (module[1],), "model", Place(source.file, number))
    yield from recipe.options


def _registered(named: Option) -> Iterator[Option]:
    """Return the options of a configuration of torchtitan's registry, at the place of its name."""
    name = str(named.value)
    yield replace(named, name="registry")
    for key, value in REGISTRY[name].items():
        yield Option(key.replace("_", "-"), (value,), f"{name}: {key}", named.place)


# --- commands -------------------------------------------------------------------------------------


def _program(words: tuple[str, ...]) -> int | None:
    """Return the index of the program in the words of a command."""
    for index, text in enumerate(words):
        if text == "torchtitan.train" or text.rpartition("/")[2] == "run_train.sh":
            return index
    return None


def _of_command(source: Source) -> list[Option]:
    """Return the options of the named configuration, and those of the command."""
    given = [*_of_variables(source), *commands.launched(source, _program)]
    options = {option.name: option for option in given}
    found = [option for option in given if option.name not in ("config", "job.config-file")]
    config, module = options.get("config"), options.get("module")
    if config is None and (file := options.get("job.config-file")):
        named = named_source(source, file.word())
        if named is None:
            raise file.wrong("no such file (the configuration, next to the script)")
        return [*options_in(read_toml(named)), *found]
    if config is None:
        return found
    return [*_named(source, config, module), *found]


def _of_variables(source: Source) -> Iterator[Option]:
    """Return the options that ``run_train.sh`` takes from variables."""
    names = {
        "MODULE": "module",
        "CONFIG": "config",
        "CONFIG_FILE": "job.config-file",
        "NGPU": "launch.nproc-per-node",
    }
    variables = read_variables(source)
    for variable, name in names.items():
        for word in variables.get(variable, [])[:1]:
            place = Place(source.file, word.line)
            yield Option(name, (word.text,), variable, place, word.unknown)


def _named(source: Source, config: Option, module: Option | None) -> Iterator[Option]:
    """Return the options of a configuration: of a Python file next to the script, or of torchtitan.

    Raises
    ------
    ScenarioError
        when it is in neither.
    """
    name = config.word()
    parts = [] if module is None else module.word().split(".")
    folder = Path(source.file).parent
    inside = folder.joinpath(*parts)
    for path in (inside.with_suffix(".py"), inside / "config_registry.py"):
        if parts and path.is_file():
            yield from _of_file(read_source(path), name)
            return
    if name not in REGISTRY:
        raise config.wrong(
            f"no Python file of its module is next to the script, and it is not known (known:"
            f" {', '.join(REGISTRY)})"
        )
    yield from _registered(config)
