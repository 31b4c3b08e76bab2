"""What the commands of inference engines share: names of models, formats, the load of requests."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.files import read_text
from clustersim.catalog.finding import entry_names, find
from clustersim.catalog.records.models import FAMILIES
from clustersim.catalog.tree import bare
from clustersim.importers.launch import commands
from clustersim.importers.launch.options import Option, positionals
from clustersim.importers.launch.table import Given, Launch, Reads, ignored
from clustersim.importers.models import import_config
from clustersim.importers.source import Source

QUANTISED: Final[Mapping[str, str]] = {
    "fp8": "fp8",
    "w8a8-fp8": "fp8",
    "fbgemm-fp8": "fp8",
    "modelopt": "fp8",
    "modelopt-fp8": "fp8",
    "modelopt-fp4": "nvfp4",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
    "w8a8-int8": "int8",
    "int8": "int8",
    "awq": "int4",
    "awq-marlin": "int4",
    "gptq": "int4",
    "gptq-marlin": "int4",
    "int4": "int4",
}
"""Formats of weights by the methods of quantisation that engines and names of models have."""

_WIDE: Final = {
    "auto": "bf16",
    "half": "fp16",
    "float16": "fp16",
    "bfloat16": "bf16",
}

_CACHED: Final = {"auto": None, "fp8": "fp8", "fp8-e4m3": "fp8", "fp8-e5m2": "fp8", "int8": "int8"}


def service(
    engine: str,
    program: commands.Program,
    reads: Reads,
    derive: Callable[[Given], None],
) -> Launch:
    """Return the launch format of an engine: its program, its table, and the degrees of its plan.

    Parameters
    ----------
    derive : states `plan.replicas`, `plan.attention_data` and `plan.expert`
    """

    def options(source: Source) -> list[Option]:
        command, index = commands.launching(source, program)
        found = commands.launched(source, program)
        named = positionals(command, index + 1)
        model = [Option.of("model", named[0], source)] if named else []
        return [*model, *found]

    def finish(given: Given) -> None:
        given.put("engine.name", engine)
        _model(given)
        derive(given)
        _formats(given)
        given.assume("load.concurrency", 32, "not in the command of a server")
        given.assume("load.input", 1024, "not in the command of a server")
        given.assume("load.output", 256, "not in the command of a server")

    unread = partial(ignored, "commands", engine)
    return Launch(options, {**reads, **commands.READS}, unread, finish, service=True)


def _model(given: Given) -> None:
    """State the model of the catalogue by its name on Hugging Face, or by the name of a folder."""
    name = given.pop("model")
    if name is None or "model" in given.values:
        if "model" not in given.values:
            raise given.missing("the model")
        return
    state_model(given, name)
    named = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word in QUANTISED]
    if named and "model" in given.assumed and "of.quantised" not in given.values:
        given.values["of.quantised"] = QUANTISED[named[0]]
        given.assumed["precision"] = f"by the name {name}"


def state_model(given: Given, name: str) -> None:
    """State the model of a name on Hugging Face, or of a folder with its configuration.

    Raises
    ------
    ScenarioError
        when it is in no file of the catalogue.
    """
    if "model" in given.values:
        return
    config = Path(name) / "config.json"
    if config.is_file():
        given.put("model", str(config.resolve()), "of.model")
        return
    nearest = catalogue_model(name)
    if nearest is None:
        raise given.wrong("of.model", "is in no file of the catalogue (name one with --model)")
    given.put("model", nearest, "of.model")
    given.assumed["model"] = f"the file of the catalogue for {name}"


def catalogue_model(name: str) -> str | None:
    """Return the model of the catalogue with the longest name that begins a name, if there is one.

    >>> catalogue_model("meta-llama/Llama-3.1-70B-Instruct")
    'llama3.1-70b'
    """
    stated = _letters(name.rstrip("/").rpartition("/")[2])
    known = {_letters(each): each for each in entry_names("model")}
    fitting = [key for key in known if re.search(rf"(?<![a-z0-9]){key}|^[a-z]+{key}", stated)]
    whole = [key for key in fitting if not re.search(rf"{key}[0-9]", stated)]
    return known[max(whole, key=len)] if whole else _published(name)


def _published(name: str) -> str | None:
    """Return the model of the catalogue whose weights have that name on Hugging Face."""
    names = ((find("model", each).data.get("hugging_face"), each) for each in entry_names("model"))
    return next((each for published, each in names if published == name), None)


def fact_of_model(model: object, key: str) -> Any:
    """Return a fact of a model of the catalogue; none of a model in another file."""
    if not isinstance(model, str) or model not in entry_names("model"):
        return None
    data = find("model", model).data
    return bare({**FAMILIES[data["family"]], **data}.get(key))


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _formats(given: Given) -> None:
    """State the formats of weights, of the cache and of all else.

    Without a method, engines load weights as they were released.
    """
    wide = _chosen(given, "wide", _WIDE, "auto")
    narrow = given.pop("quantised")
    cached = _chosen(given, "cached", _CACHED, "auto")
    released = None if narrow else _released(given.values["model"])
    if released is not None:
        given.assumed["precision"] = "weights as they were released"
    weights = narrow or wide
    if cached is None and released is None and weights in ("bf16", "fp8"):
        given.put("precision", weights, "of.quantised")
        return
    parts = released or {"weights": weights}
    table = {**parts, "kv": cached, "wide": wide if narrow or released else None}
    stated = {part: form for part, form in table.items() if form is not None}
    given.put("precision", stated if len(stated) > 1 else weights, "of.quantised")


def _released(model: str) -> dict[str, str] | None:
    """Return the formats of the weights of a model of the catalogue, or of a configuration."""
    released: dict[str, str] | None
    if model.endswith(".json"):
        draft = import_config(model, read_text(Path(model)))
        released = draft.data.get("released")
    else:
        released = fact_of_model(model, "released")
    return released


def _chosen(given: Given, key: str, values: Mapping[str, Any], otherwise: str) -> Any:
    stated = str(given.pop(key, otherwise)).lower().replace("_", "-")
    if stated not in values:
        raise given.wrong(f"of.{key}", f"is not modelled (modelled: {', '.join(values)})")
    return values[stated]


def quantised(option: Option) -> str | None:
    """Return the format of weights of a method of quantisation."""
    method = option.word().lower().replace("_", "-")
    if method in ("none", "null"):
        return None
    if method not in QUANTISED:
        raise option.wrong(f"is not modelled (modelled: {', '.join(QUANTISED)})")
    return QUANTISED[method]


def after(words: tuple[str, ...], *names: str) -> int | None:
    """Return the index of the last of some words in a row, if a command has them.

    >>> after(("exec", "engine", "serve", "model"), "engine", "serve")
    2
    """
    for index in range(len(words) - len(names) + 1):
        row = words[index : index + len(names)]
        if all(word.rpartition("/")[2] == name for word, name in zip(row, names, strict=True)):
            return index + len(names) - 1
    return None
