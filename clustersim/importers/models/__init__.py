"""Import of a Hugging Face ``config.json`` as a model file, offline.

    config.json --read_config--> Config --reader of the architecture--> keys of a model file

Parameters are computed from the shape, as a configuration does not state them.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.checking import checked
from clustersim.catalog.problems import as_stated
from clustersim.catalog.reading import Place
from clustersim.catalog.records.models import FAMILIES, ModelRecord
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError
from clustersim.importers.draft import Draft
from clustersim.importers.models import dense, experts, hybrid
from clustersim.importers.models.config import Config, not_modelled, other_file, read_config
from clustersim.importers.models.released import released_formats
from clustersim.suggestions import nearest
from clustersim.workload.model import build_model
from clustersim.workload.parameters import active_parameters, model_parameters

READERS: Final[Mapping[str, Callable[[Config], dict[str, Any]]]] = {
    "gpt2": dense.gpt2,
    "gpt_neox": dense.gpt_neox,
    "bloom": dense.bloom,
    "mpt": dense.mpt,
    "llama": dense.llama,
    "mistral": dense.mistral,
    "qwen2": dense.qwen2,
    "qwen3": dense.qwen3,
    "phi3": dense.phi3,
    "gemma2": dense.gemma2,
    "gemma3_text": dense.gemma3_text,
    "mixtral": experts.mixtral,
    "qwen3_moe": experts.qwen3_moe,
    "deepseek_v2": experts.deepseek_v2,
    "deepseek_v3": experts.deepseek_v3,
    "kimi_k2": experts.deepseek_v3,
    "deepseek_v32": experts.deepseek_v32,
    "glm_moe_dsa": experts.deepseek_v32,
    "gpt_oss": experts.gpt_oss,
    "glm4_moe": experts.glm4_moe,
    "llama4_text": experts.llama4_text,
    "nemotron_h": hybrid.nemotron_h,
    "qwen3_next": hybrid.qwen3_next,
    "qwen3_5_text": hybrid.qwen3_next,
    "qwen3_5_moe_text": hybrid.qwen3_next,
}
"""Each architecture by its `model_type`."""

WITH_TEXT: Final = {
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
}
"""Architectures of text and images, with that of their text, whose keys are in `text_config`."""

_COUNTED: Final = "computed from the shape; not in the file"


def import_config(file: str, text: str, name: str | None = None) -> Draft:
    """Return the model file of a Hugging Face configuration.

    Parameters
    ----------
    file : name of the file in messages and sources
    name : name of the model; its architecture if empty or None

    Raises
    ------
    CatalogError
        with a line for each problem: missing, unknown or invalid keys.
    """
    config = read_config(file, text)
    kind = _architecture(config)
    config.only("is_encoder_decoder", (False,), "no encoder in a model file")
    shape = _text_shape(config, kind) if kind in WITH_TEXT else READERS[kind](config)
    shape["released"] = released_formats(config)
    config.check_all_read()
    config.stop_if_wrong()
    name = name or kind.replace("_", "-")
    title = f"Hugging Face configuration ({kind})"
    data = model_file(shape, name, f"{name}, imported", file, title)
    return Draft(data, notes=tuple(dict.fromkeys(config.notes)))


def _architecture(config: Config) -> str:
    """Return the architecture of a configuration, if it is supported."""
    kind = config.value("model_type")
    supported = (*READERS, *WITH_TEXT)
    known = ", ".join(supported)
    if problem := other_file(config.data):
        raise CatalogError(f"{config.file}: {problem}")
    if kind is None:
        config.wrong("model_type", f"missing (one of {known})")
    elif isinstance(kind, str) and kind in not_modelled():
        config.wrong("model_type", f"unsupported architecture {kind!r}: {not_modelled()[kind]}")
    elif not isinstance(kind, str) or kind not in supported:
        hint = nearest(str(kind), supported)
        config.wrong(
            "model_type", f"unsupported architecture {as_stated(kind)}{hint} (supported: {known})"
        )
    config.stop_if_wrong()
    return str(kind)


def _text_shape(config: Config, kind: str) -> dict[str, Any]:
    """Return the keys of a model file for the text of a model of text and images."""
    if not config.data.get("text_config"):
        config.wrong("text_config", "missing, but required (the shape of the text)")
    part = config.inside("text_config")
    part.only("model_type", (WITH_TEXT[kind],), f"the text of {kind} is {WITH_TEXT[kind]}")
    config.stop_if_wrong()
    shape = READERS[WITH_TEXT[kind]](part)
    part.check_all_read()
    for key in ("vision_config", "audio_config"):
        config.value(key)
    if not part.given("tie_word_embeddings") and config.given("tie_word_embeddings"):
        shape["tied"] = config.flag("tie_word_embeddings", shape["tied"])
    config.value("tie_word_embeddings")
    config.notes.append("only the text is imported: images have no part in a model file")
    return shape


def model_file(
    shape: dict[str, Any], name: str, title: str, file: str, source: str
) -> dict[str, Any]:
    """Return the plain values of a model file of a shape, with its number of parameters.

    Parameters
    ----------
    shape : keys of a model file; those with the defaults of the family are left out
    source : title of the file that the shape is from

    Raises
    ------
    CatalogError
        with the file, when the shape is invalid.
    """
    data = _uncounted(shape, name, title, Path(file).name, source)
    record = _checked(data, file)
    model = build_model(record, record.sequence, multiple=1, tensor=1)
    data["parameters"]["value"] = int(model_parameters(model))
    if model.experts:
        data["active"]["value"] = int(active_parameters(model))
    return data


def _uncounted(
    shape: dict[str, Any], name: str, title: str, file: str, source: str
) -> dict[str, Any]:
    """Return the same before its parameters are counted."""
    family = FAMILIES[shape["family"]]
    if shape.get("kv_heads") == shape["heads"]:
        shape["kv_heads"] = None
    if shape.get("head_size") and shape["head_size"] * shape["heads"] == shape["hidden"]:
        shape["head_size"] = None
    stated = {k: v for k, v in shape.items() if v is not None and v != family.get(k)}
    counted = {"parameters": {"value": 1, "assumed": _COUNTED}}
    if "experts" in shape:
        counted["active"] = {"value": 1, "assumed": _COUNTED}
    return {
        "kind": "model",
        "name": name,
        "title": title,
        **stated,
        **counted,
        "source": "import",
        "sources": {"import": {"title": source, "where": file}},
    }


def _checked(data: dict[str, Any], file: str) -> ModelRecord:
    """Return the record of a model file; errors name `file`."""
    return checked(ModelRecord, Tree(dict(data), {(): Place(file)}), CatalogError)
