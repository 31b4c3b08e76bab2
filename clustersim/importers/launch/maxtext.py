"""The configuration of MaxText as YAML, and commands that launch a job of it.

python3 -m MaxText.train configs/llama3_8b.yml per_device_batch_size=4 ici_fsdp_parallelism=8
                         | options of the file | options of the command

Degrees inside a slice (ici) and between slices (dcn) are multiplied.  Names and defaults are those
of AI-Hypercomputer/maxtext, src/maxtext/configs/base.yml, commit 000b810.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.reading import Place, parse_yaml
from clustersim.errors import CatalogError
from clustersim.importers.draft import assumed
from clustersim.importers.launch import commands
from clustersim.importers.launch.options import Option, options_in
from clustersim.importers.launch.serving import fact_of_model, state_model
from clustersim.importers.launch.syntax.shell import Word
from clustersim.importers.launch.table import (
    Given,
    Launch,
    Read,
    Reads,
    count,
    flag,
    ignored,
    number,
    one_of,
    switch,
    word,
    words,
)
from clustersim.importers.source import Source, read_source

_PROGRAM: Final = re.compile(r"(?:.*[./])?maxtext[./](?:.*[./])?train(?:\.py)?", re.IGNORECASE)
_SETTING: Final = re.compile(r"(\w+)=(.*)", re.DOTALL)


def _options(source: Source) -> list[Option]:
    """Return the options of a configuration, or of a command and the configuration it names."""
    if not PROGRAM.search(source.text):
        return _of_file(source)
    command, index = commands.launching(source, _program)
    launchers = commands.of_launchers(source, command[:index])
    return [*launchers, *_of_command(source, command[index + 1 :])]


PROGRAM: Final = re.compile(r"^[^#\n]*maxtext(?:[./][^\s=]{,80}train\b|\.\$)", re.I | re.M)
"""Text of a script that launches MaxText."""


def _program(words: tuple[str, ...]) -> int | None:
    return next((index for index, text in enumerate(words) if _PROGRAM.fullmatch(text)), None)


def _of_file(source: Source) -> list[Option]:
    document = parse_yaml(source.text, source.file, CatalogError)
    return [option for option in options_in(document) if option.values != (None,)]


def _of_command(source: Source, words: Sequence[Word]) -> list[Option]:
    """Return the options of the configuration that is next to the script, and then `name=value`."""
    found: list[Option] = []
    for each in words:
        place = Place(source.file, each.line)
        setting = _SETTING.fullmatch(each.text)
        if setting is not None:
            name, value = setting.groups()
            plain = name.replace("_", "-")
            found.append(Option(plain, (value.strip("'\""),), name, place, each.unknown))
        elif each.text.endswith((".yml", ".yaml")):
            path = Path(source.file).parent / each.text
            named = Option("config", (each.text,), "config", place)
            found = [named, *(_of_file(read_source(path)) if path.is_file() else []), *found]
    return found


def _degree(option: Option) -> int:
    """Return a degree of parallelism; -1 is all other devices."""
    value = option.whole()
    if value == 0 or value < -1:
        raise option.wrong("must be at least 1, or -1 for all other devices")
    return value


_AXES: Final[Mapping[str, str]] = {
    "data": "data",
    "fsdp": "fsdp",
    "fsdp-transpose": "fsdp",
    "expert": "expert",
    "sequence": "context",
    "context": "context",
    "context-usp-ulysses": "context",
    "tensor": "tensor",
    "tensor-transpose": "tensor",
    "tensor-sequence": "tensor",
    "pipeline": "pipeline",
}
"""Axes of the mesh, each with the one that it is modelled as."""

_LEVELS: Final = ("ici", "dcn")

_NORMS: Final = ("attention norm", "mlp norm", "activation")
_MLP: Final = ("up", "gate", "down")

_POLICIES: Final[Mapping[str, Any]] = {
    "full": "full",
    "minimal": [*_NORMS, "attention"],
    "minimal_with_context": [*_NORMS],
    "minimal_flash": [*_NORMS],
    "save_dot_except_mlp": [*_NORMS, "attention", *_MLP],
    "save_dot_except_mlpwi": [*_NORMS, "attention", "up", "gate"],
    "save_dot_with_context_except_mlp": [*_NORMS, *_MLP],
    "save_qkv_proj": [*_NORMS, "attention", "projection", *_MLP],
    "save_out_proj": [*_NORMS, "qkv", "attention", *_MLP],
    "custom": "custom",
}
"""Policies of rematerialisation, each with the operations that it recomputes: those that it does
not save by name (src/maxtext/layers/decoders.py, get_remat_policy)."""

_KEPT: Final = ("context", "mlpwi", "mlpwi-0", "mlpwi-1", "mlpwo", "query-proj", "key-proj",
                "value-proj", "kv-proj", "qkv-proj", "out-proj")  # fmt: skip
"""Tensors of a custom policy that are saved, offloaded, or recomputed, as by default."""

_CUDNN: Final = "cudnn_flash_te"
_WIDTHS: Final = {"float32": 4, "bfloat16": 2, "": None}
_GATED: Final = ("llama2", "default", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe")

READS: Final[Reads] = {
    "model-name": word("of.model"),
    "base-emb-dim": count("model.hidden"),
    "base-num-query-heads": count("model.heads"),
    "base-num-kv-heads": count("model.kv_heads"),
    "base-mlp-dim": count("model.ffn"),
    "base-num-decoder-layers": count("model.layers"),
    "head-dim": count("model.head_size"),
    "vocab-size": count("model.vocab"),
    "logits-via-embedding": switch("model.tied"),
    "decoder-block": one_of("of.block", dict.fromkeys(_GATED, "gated")),
    "mlp-activations": words("of.activations"),
    "global-parameter-scale": one_of("of.scale", {"1": 1}),
    "num-experts": count("of.experts"),
    "num-experts-per-tok": count("of.top_k"),
    "base-moe-mlp-dim": Read("of.expert_ffn", lambda option: max(0, option.whole())),
    "shared-experts": Read("of.shared", Option.whole),
    "first-num-dense-layers": Read("of.first_dense", Option.whole),
    "capacity-factor": number("of.capacity"),
    "megablox": switch("of.grouped"),
    "sparse-matmul": switch("of.sparse"),
    "per-device-batch-size": number("of.each_batch"),
    "gradient-accumulation-steps": count("of.steps"),
    "num-pipeline-microbatches": Read("of.microbatches", _degree),
    "max-target-length": count("batch.sequence"),
    "dtype": one_of("of.wide", {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}),
    "quantization": one_of(
        "of.narrow", {"": None, "fp8": "fp8", "fp8_full": "fp8", "nanoo_fp8": "fp8",
                      "te_fp8_delayedscaling": "fp8", "te_fp8_currentscaling": "fp8",
                      "te_mxfp8": "mxfp8", "te_nvfp4": "nvfp4", "te_nvfp4_no_rht": "nvfp4"},
    ),
    "weight-dtype": one_of("of.weight_bytes", _WIDTHS),
    "mu-dtype": one_of("of.moment_bytes", _WIDTHS),
    "grad-dtype": one_of("of.gradient_bytes", _WIDTHS),
    "remat-policy": one_of("of.policy", _POLICIES),
    "decoder-layer-input": one_of("of.inputs", {"device": "device", "offload": "offload"}),
    **{name: Read(f"of.kept_{name}", Option.word) for name in _KEPT},
    "optimizer-memory-host-offload": flag("offload.optimiser"),
    "parameter-memory-host-offload": flag("offload.parameters"),
    "attention": one_of(
        "of.attention",
        {"autoselected": "flash", "flash": "flash", _CUDNN: "cudnn",
         "dot_product": "unfused"},
    ),
    "context-parallel-strategy": one_of(
        "plan.context_method", {"all_gather": "all-gather", "ring": "ring", "ulysses": "ulysses"}
    ),
    "shard-optimizer-over-data": flag("of.sharded_states"),
    "num-layers-per-pipeline-stage": count("of.layers_per_chunk"),
    "num-slices": Read("of.slices", _degree),
    **{
        f"{level}-{axis}-parallelism": Read(f"of.{level}_{axis}", _degree)
        for level in _LEVELS
        for axis in _AXES
    },
}  # fmt: skip
"""Options that are read, each with its key."""


def _finish(given: Given) -> None:
    """Derive the keys of the scenario, with the defaults of MaxText."""
    given.put("framework.name", "maxtext")
    _model(given)
    given.usual("batch.sequence", 2048)
    _layout(given)
    _pipeline(given)
    _precision(given)
    _memory(given)
    _kernels(given)


_NAMES: Final[Mapping[str, str]] = {
    "deepseek3-671b": "deepseek-v3",
    "deepseek3.2-671b": "deepseek-v3.2",
    "llama4-17b-16e": "llama4-scout",
    "llama4-17b-128e": "llama4-maverick",
}
"""Models of the catalogue whose names in MaxText do not begin with theirs."""


def _model(given: Given) -> None:
    """State the model by its name, or its shape with the defaults of base.yml."""
    name = given.pop("model", "default")
    name = _NAMES.get(name, name)
    activations = given.pop("activations", ["silu", "linear"])
    given.pop("block")
    given.pop("scale")
    experts = _experts(given)
    if name not in ("default", ""):
        state_model(given, name)
    if "model" in given.values:
        return
    if "linear" not in activations:
        raise given.wrong("of.activations", "is not modelled (modelled: silu and linear, a gate)")
    usual = {"hidden": 2048, "heads": 16, "kv_heads": 16, "ffn": 7168, "layers": 16,
             "head_size": 128, "vocab": 32_000, "tied": False, "norm": "rms", "mlp": "gated",
             "positions": "rotary", "biases": []}  # fmt: skip
    for key, value in usual.items():
        given.usual(f"model.{key}", value)
    given.usual("model.sequence", given.get("batch.sequence", 2048))
    if experts is not None:
        given.values["model.experts"] = {**experts, "ffn": experts["ffn"] or given.get("model.ffn")}


def _experts(given: Given) -> dict[str, Any] | None:
    """Return the experts of the file's shape, if it has some."""
    found, capacity = given.pop("experts", 1), given.pop("capacity", -1.0)
    table = {
        "count": found,
        "top_k": given.pop("top_k", 1),
        "ffn": given.pop("expert_ffn", 0),
        "shared": given.pop("shared", 0),
        "first_dense": given.pop("first_dense", 0),
        "capacity": capacity if capacity > 0 else 0,
    }
    needed = ("count", "top_k", "ffn")
    return {k: v for k, v in table.items() if v or k in needed} if found > 1 else None


def _degrees(given: Given) -> dict[str, int | None]:
    """Return the degree of each axis, within slices and between them; None for the other devices.

    By default data parallelism is over slices, and sharded data parallelism within each.
    """
    degrees: dict[str, int | None] = dict.fromkeys(_AXES.values(), 1)
    slices = given.pop("slices", -1)
    usual = {"ici_fsdp": -1, "dcn_data": slices if slices > 0 else -1}
    for axis, part in _AXES.items():
        for level in _LEVELS:
            stated = given.pop(f"{level}_{axis}", usual.get(f"{level}_{axis}", 1))
            before = degrees[part]
            degrees[part] = None if stated < 0 or before is None else before * stated
            if stated != 1 and f"of.{level}_{axis}" in given.options:
                given.options[f"plan.{part}"] = given.options[f"of.{level}_{axis}"]
    return degrees


def _layout(given: Given) -> None:
    degrees = _degrees(given)
    for part in ("tensor", "pipeline", "context", "expert"):
        degree = degrees[part]
        if degree is None:
            raise given.wrong(f"plan.{part}", "must be stated (only data and fsdp may be -1)")
        if degree > 1:
            given.values[f"plan.{part}"] = degree
    if given.get("plan.tensor", 1) > 1:
        given.values["plan.sequence_parallel"] = True
    if given.get("plan.context", 1) > 1:
        given.usual("plan.context_method", "all-gather")
    else:
        given.disregard("plan.context_method", "no effect without context ranks")
    _sharding(given, degrees["fsdp"], degrees["data"])


def _sharding(given: Given, sharded: int | None, copies: int | None) -> None:
    """State the data ranks; where both degrees are left to the devices, slices are one."""
    expert = given.get("plan.expert", 1)
    states = given.pop("sharded_states")
    given.values["plan.zero"] = 0 if sharded == 1 else 3
    if states and sharded == 1:
        given.values["plan.zero"] = 1
    if sharded is None and copies is None:
        given.assumed["plan.shard"] = "one slice: set num_slices, or dcn_data_parallelism"
    if sharded is not None and copies is not None:
        given.put("plan.data", sharded * copies * expert, "plan.fsdp")
    if sharded is None or copies is not None:
        given.values["of.copies"] = copies or 1
    elif sharded > 1:
        given.values["plan.shard"] = sharded * expert * given.get("plan.context", 1)


def _pipeline(given: Given) -> None:
    """State the microbatches: a device's share of the batch, times the devices of a replica."""
    each, steps = given.pop("each_batch", 12.0), given.pop("steps", 1)
    microbatches, layers = given.pop("microbatches", -1), given.pop("layers_per_chunk", 1)
    stages = given.get("plan.pipeline", 1)
    replica = stages * given.get("plan.tensor", 1) * given.get("plan.context", 1)
    parts = 1 if stages == 1 else stages if microbatches < 0 else microbatches
    micro = each * replica / parts
    if micro < 1 or not micro.is_integer():
        raise given.wrong(
            "of.each_batch",
            f"{each:g} sequences on each of {replica} devices are no whole number for {parts}"
            " microbatches",
        )
    given.put("batch.micro", int(micro), "of.each_batch")
    given.values["of.accumulation"] = steps * parts
    if stages == 1:
        return
    count_ = given.get("model.layers") or fact_of_model(given.get("model"), "layers") or stages
    if count_ % (stages * layers):
        raise given.wrong(
            "of.layers_per_chunk",
            f"{count_} layers are no whole number of rounds of {stages} stages",
        )
    chunks = count_ // (stages * layers)
    given.values["plan.schedule"] = "gpipe" if chunks == 1 else "looped-bfs"
    if chunks > 1:
        given.put("plan.chunks", chunks, "of.layers_per_chunk")
        given.usual("framework.schedules", ["looped-bfs"])


def _precision(given: Given) -> None:
    wide, narrow = given.pop("wide", "bf16"), given.pop("narrow")
    name = narrow or wide
    given.put("precision", name, "of.narrow" if narrow else "of.wide")
    weight = given.pop("weight_bytes") or 4
    moment, gradient = given.pop("moment_bytes") or weight, given.pop("gradient_bytes") or 4
    state = f"framework.state.{name}"
    if (weight, moment, gradient) != (4, 4, 4):
        given.usual(f"{state}.weights", weight)
        given.usual(f"{state}.gradients", gradient)
        given.usual(f"{state}.optimiser", moment + weight)


def _memory(given: Given) -> None:
    policy, inputs = given.pop("policy", "full"), given.pop("inputs", "device")
    kept = {name: given.pop(f"kept_{name}", "remat") for name in _KEPT}
    if policy == "custom":
        other = next((name for name, where in kept.items() if where != "remat"), None)
        if other is not None:
            raise given.wrong(
                f"of.kept_{other}", "is not modelled in a custom policy (modelled: remat)"
            )
        if inputs == "offload":
            given.put("offload.activations", True, "of.inputs")
        policy = "full"
    if policy != "full":
        policy = {"ops": _operations(given, policy)}
    given.put("recompute", policy, "of.policy")
    if given.get("offload.optimiser") or given.get("offload.parameters"):
        given.usual("offload.optimiser", True)
        given.notes.append("offload: the host runs the optimiser, where MaxText copies the states")


def _operations(given: Given, names: Sequence[str]) -> list[str]:
    """Return recomputed operations by their names in a layer of the model."""
    if _has_experts(given):
        inner = {name: f"expert {name}" for name in ("up", "down", "activation")}
        return [inner.get(name, name) for name in names if name != "gate"]
    gated = (given.get("model.mlp") or fact_of_model(given.get("model"), "mlp")) == "gated"
    return [name for name in names if name != "gate" or gated]


def _has_experts(given: Given) -> bool:
    return bool(given.get("model.experts") or fact_of_model(given.get("model"), "experts"))


def _kernels(given: Given) -> None:
    attention = given.pop("attention", "flash")
    if attention == "unfused":
        given.usual("framework.kernels.attention", "unfused")
    elif attention == "cudnn":
        given.usual("framework.kernels.attention_cudnn", assumed(True, f"attention: {_CUDNN}"))
    grouped, sparse = given.pop("grouped", True), given.pop("sparse", True)
    if _has_experts(given):
        products = assumed(grouped or sparse, "megablox and sparse_matmul of the file")
        exchange = assumed(False, "an all-to-all over all ranks that share the experts")
        given.usual("framework.experts.grouped", products)
        given.usual("framework.experts.once_per_node", exchange)
    elif given.get("plan.expert", 1) > 1:
        given.disregard("plan.expert", "no effect without experts")


MAXTEXT: Final = Launch(
    _options, {**READS, **commands.READS}, partial(ignored, "commands", "maxtext"), _finish
)
"""Configurations and commands of MaxText."""
