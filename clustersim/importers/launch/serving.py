"""What the commands of inference engines share: names of models, formats, the load of requests."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.files import read_text
from clustersim.catalog.finding import entry_names, find
from clustersim.catalog.records.models import FAMILIES
from clustersim.catalog.tree import bare
from clustersim.importers.launch import commands
from clustersim.importers.launch.options import Option, positionals
from clustersim.importers.launch.syntax.yaml_file import yaml_options
from clustersim.importers.launch.table import Given, Launch, Reads, ignored
from clustersim.importers.models import import_config
from clustersim.importers.source import Source, named_source

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

_IN_NAMES: Final[Mapping[str, str]] = {
    **QUANTISED,
    "fp4": "nvfp4",
    "w8a8": "int8",
    "w8a16": "int8",
    "8bit": "int8",
    "w4a16": "int4",
    "4bit": "int4",
}
"""The same by the words of names of models: NVIDIA's FP4, compressed-tensors, bitsandbytes."""

_UNSTATED: Final = frozenset({"quantized", "quantised", "bnb", "gguf", "exl2"})
"""Words of names of models with quantised weights that state no format."""

_VARIANTS: Final = frozenset({"instruct", "chat", "base", "it", "hf", "dynamic", "block", "kv"})
"""Words by which names of weights of one shape differ, next to those of quantisation."""

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
    files: Sequence[str] = ("config",),
    *,
    files_win: bool = False,
) -> Launch:
    """Return the launch format of an engine: its program, its table, and the degrees of its plan.

    Parameters
    ----------
    derive : states `plan.replicas`, `plan.attention_data` and `plan.expert`
    files : options that name a YAML file with further ones, next to the script
    files_win : whether these win over those of the command
    """

    def options(source: Source) -> list[Option]:
        command, index = commands.launching(source, program)
        found = commands.launched(source, program)
        named = positionals(command, index + 1)
        model = [Option.of("model", named[0], source)] if named else []
        left, further = _of_files(source, found, files)
        return [*model, *left, *further] if files_win else [*model, *further, *left]

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


def _of_files(
    source: Source, found: Sequence[Option], files: Sequence[str]
) -> tuple[list[Option], list[Option]]:
    """Return options without those that name a file that is here, and the options of these."""
    left: list[Option] = []
    further: list[Option] = []
    for option in found:
        named = option.name in files and option.values and not option.unknown
        file = named_source(source, option.word()) if named else None
        if file is None:
            left.append(option)
        else:
            further += yaml_options(file)
    return left, further


def _model(given: Given) -> None:
    """State the model of the catalogue by its name on Hugging Face, or by the name of a folder."""
    name = given.pop("model")
    if name is None or "model" in given.values:
        if "model" not in given.values:
            raise given.missing("the model")
        return
    state_model(given, name)
    if "model" not in given.assumed or "of.quantised" in given.values:
        return
    if (named := _quantised_by_name(name)) is not None:
        given.values["of.quantised"] = named
        given.assumed["precision"] = f"by the name {name}"
    elif not _UNSTATED.isdisjoint(_words(name)):
        given.assumed["precision"] = (
            f"not quantised: the name {name} states no format (--set precision=int4)"
        )


def _quantised_by_name(name: str) -> str | None:
    """Return the format of weights by the words of a name; numbers of bits precede methods.

    >>> _quantised_by_name("Qwen/Qwen2-72B-Instruct-GPTQ-Int8"), _quantised_by_name("Qwen3-8B")
    ('int8', None)
    """
    found = [word for word in _words(name) if word in _IN_NAMES]
    found.sort(key=lambda word: not any(letter.isdigit() for letter in word))
    return _IN_NAMES[found[0]] if found else None


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
    """Return the model of the catalogue whose weights have a name on Hugging Face.

    Otherwise it is the one with the longest name that begins that name, in the same version; a
    number after it is that of its parameters, or of a date.

    >>> catalogue_model("meta-llama/Llama-3.1-70B-Instruct"), catalogue_model("deepseek_v3-671B")
    ('llama3.1-70b', 'deepseek-v3')
    """
    last, plain = name.rstrip("/").rpartition("/")[2], _plain_words(name)
    weights = {each: _weights_of(each) for each in entry_names("model")}
    for each, names in weights.items():
        if any(_plain_words(published) == plain for published in names):
            return each
    stated, known = _letters(last), {_letters(each): each for each in weights}
    fitting = [key for key in known if re.search(rf"(?<![a-z0-9]){key}|^[a-z]+{key}", stated)]
    whole = [
        key
        for key in fitting
        if not re.search(rf"{key}[0-9]", stated) or _is_sized(last, key, known[key])
    ]
    same = [key for key in whole if not _other_version(last, weights[known[key]])]
    return known[max(same, key=len)] if same else None


_SIZE: Final = re.compile(
    r"[-_](?:(?P<date>\d{4})|(?P<size>\d{1,4}(?:\.\d)?)(?P<unit>[bt]))(?![a-z0-9])"
)
"""What may follow the name of a model: the month and day of its weights, or its parameters."""


def _is_sized(name: str, key: str, model: str) -> bool:
    """Whether the number after a name is a date, or the parameters of a model to a tenth.

    All of them, or the active ones: ``Llama-4-Maverick-17B``.
    """
    after = re.search("[^a-z0-9]*".join(key), name.lower())
    size = after and _SIZE.match(name.lower(), after.end())
    if not size or size["date"]:
        return bool(size)
    stated = float(size["size"]) * (1e9 if size["unit"] == "b" else 1e12)
    record = find("model", model).data
    known = [bare(record[key]) for key in ("parameters", "active") if key in record]
    return any(abs(stated / each - 1) < 0.1 for each in known)


def _weights_of(model: str) -> list[str]:
    """Return the names on Hugging Face of weights that have the shape of a model."""
    data = find("model", model).data
    return [name for name in (data.get("hugging_face"), *data.get("same_shape", ())) if name]


def _other_version(name: str, published: Sequence[str]) -> bool:
    """Return whether a name and all published ones end in different versions, as v0.1 and v0.2."""
    stated, *known = (set(_VERSION.findall(each.lower())) for each in (name, *published))
    return bool(stated and known and all(each and each != stated for each in known))


_VERSION: Final = re.compile(r"(?<![a-z0-9])v[0-9]+[.][0-9]+")


def _words(name: str) -> list[str]:
    """Return the words of a name on Hugging Face, without its owner."""
    return re.findall(r"[a-z0-9]+", name.rstrip("/").rpartition("/")[2].lower())


def _plain_words(name: str) -> list[str]:
    """Return the words of a name that state the model, not how it was trained or quantised."""
    return [word for word in _words(name) if word not in _VARIANTS and word not in _IN_NAMES]


def fact_of_model(model: object, key: str) -> Any:
    """Return a fact of a model of the catalogue; none of a model in another file."""
    if not isinstance(model, str) or model not in entry_names("model"):
        return None
    data = find("model", model).data
    return bare({**FAMILIES[data["family"]], **data}.get(key))


def has_experts(model: str) -> bool:
    """Return whether a model of the catalogue, or of a configuration, has experts."""
    if model.endswith(".json"):
        return "experts" in import_config(model, read_text(Path(model))).data
    return fact_of_model(model, "experts") is not None


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
