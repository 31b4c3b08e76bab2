"""Arguments of Megatron-LM and Megatron-Core: scripts, and ``MODEL_ARGS`` of YAML files.

Names and defaults are those of NVIDIA/Megatron-LM, megatron/training/arguments.py, commit 000c4ac.
"""

import re
from functools import partial
from typing import Any, Final

from clustersim.catalog.finding import find
from clustersim.catalog.reading import parse_yaml
from clustersim.errors import CatalogError
from clustersim.importers.launch import commands, megatron_layers
from clustersim.importers.launch.megatron_layers import blocks_of, by_layer
from clustersim.importers.launch.options import Option, options_in
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
    whole,
    word,
)
from clustersim.importers.source import Source
from clustersim.workload.ops import MODULES

_YAML: Final = re.compile(r"^MODEL_ARGS:", re.MULTILINE)
_PROGRAM: Final = re.compile(r"(?:.*/)?(?:pretrain|train|finetune)\w*\.py")


def _options(source: Source) -> list[Option]:
    """Return the arguments of a script, or of a YAML file of the functional tests."""
    if _YAML.search(source.text):
        document = parse_yaml(source.text, source.file, CatalogError)
        arguments = document.part("MODEL_ARGS")
        return [option for option in options_in(arguments) if option.values != (None,)]
    return commands.launched(source, _is_program)


def _is_program(words: tuple[str, ...]) -> int | None:
    """Return the index of the training script in the words of a command, if it has one."""
    scripts = (index for index, text in enumerate(words) if _PROGRAM.fullmatch(text))
    if (script := next(scripts, None)) is not None:
        return script
    return 0 if any(text.startswith("--num-layers") for text in words) else None


def _window(option: Option) -> int:
    """Return the tokens that a query sees, of ``(left, right)``: itself and those to the left."""
    numbers = re.findall(r"-?[0-9]{1,9}", " ".join(option.words()))
    if not numbers or int(numbers[0]) < 0:
        raise option.wrong("must be the tokens to the left and to the right, such as 127,0")
    return int(numbers[0]) + 1


def _modules(option: Option) -> list[str]:
    """Return the modules that are recomputed selectively."""
    if unknown := [name for name in option.words() if name not in MODULES]:
        raise option.wrong(f"has no module '{unknown[0]}' (modules: {', '.join(MODULES)})")
    return [*option.words()]


_OPTIMISERS: Final = {"adam": None, "sgd": "sgd", "muon": "muon", "dist_muon": "muon"}


def _optimiser(option: Option) -> str | None:
    """Return an optimiser; None for Adam, and where a class of settings is named."""
    name = option.word()
    if "." in name:
        return None
    if name not in _OPTIMISERS:
        raise option.wrong(f"is not modelled (modelled: {', '.join(_OPTIMISERS)})")
    return _OPTIMISERS[name]


READS: Final[Reads] = {
    # Layout
    "tensor-model-parallel-size": count("plan.tensor"),
    "model-parallel-size": count("plan.tensor"),
    "pipeline-model-parallel-size": count("plan.pipeline"),
    "context-parallel-size": count("plan.context"),
    "cp-comm-type": one_of(
        "plan.context_method", {"p2p": "ring", "all_gather": "all-gather", "a2a": "ulysses"}
    ),
    "expert-model-parallel-size": count("plan.expert"),
    "expert-tensor-parallel-size": count("plan.expert_tensor"),
    "sequence-parallel": flag("plan.sequence_parallel"),
    "defer-embedding-wgrad-compute": flag("of.deferred"),
    "wgrad-deferral-limit": whole("of.deferral_limit"),
    "use-distributed-optimizer": flag("plan.zero", 1),
    "deepspeed": flag("of.deepspeed"),
    "zero-stage": whole("plan.zero"),
    "num-layers-per-virtual-pipeline-stage": count("of.layers_per_chunk"),
    "num-virtual-stages-per-pipeline-rank": count("plan.chunks"),
    "decoder-first-pipeline-num-layers": whole("of.first_layers"),
    "decoder-last-pipeline-num-layers": whole("of.last_layers"),
    "account-for-embedding-in-pipeline-split": flag("of.embedding_counts"),
    "account-for-loss-in-pipeline-split": flag("of.loss_counts"),
    "use-tp-pp-dp-mapping": flag("plan.placement.order", ["tensor", "context", "pipeline", "data"]),
    # Batch
    "micro-batch-size": count("batch.micro"),
    "batch-size": count("batch.micro"),
    "global-batch-size": count("batch.global"),
    "seq-length": count("batch.sequence"),
    # Precision
    "bf16": flag("of.bf16"),
    "fp16": flag("of.fp16"),
    "fp8-format": word("of.fp8"),
    "fp8-recipe": one_of(
        "of.fp8_recipe",
        {name: name for name in ("delayed", "tensorwise", "mxfp8", "blockwise", "custom")},
    ),
    "fp8-param-gather": flag("of.fp8_gather"),
    "fp4-format": one_of("of.fp4", {"e2m1": "nvfp4"}),
    "fp4-recipe": one_of("of.fp4_recipe", {"nvfp4": "nvfp4", "custom": "nvfp4"}),
    "fp4-param-gather": flag("of.fp4_gather"),
    # Memory
    "recompute-activations": flag("of.selective"),
    "recompute-granularity": one_of("of.granularity", {"full": "full", "selective": "selective"}),
    "checkpoint-activations": flag("of.granularity", "full"),
    "activations-checkpoint-method": one_of("of.method", {"uniform": "uniform", "block": "block"}),
    "recompute-method": one_of("of.method", {"uniform": "uniform", "block": "block"}),
    "recompute-num-layers": count("of.recomputed_layers"),
    "recompute-modules": Read("of.modules", _modules),
    "moe-layer-recompute": flag("of.modules", ["moe"]),
    "optimizer-cpu-offload": flag("offload.optimiser"),
    "optimizer": Read("optimiser", _optimiser),
    "cpu-offloading-num-layers": whole("of.offloaded_layers"),
    "main-grads-dtype": word("of.gradient_format"),
    "main-params-dtype": word("of.master_format"),
    "exp-avg-dtype": word("of.first_moment_format"),
    "exp-avg-sq-dtype": word("of.second_moment_format"),
    # Kernels and overlap
    "overlap-grad-reduce": flag("framework.gradients.overlap", "always"),
    "DDP-impl": one_of(
        "framework.gradients.overlap", {"torch": "without-pipeline", "local": "never"}
    ),
    "overlap-param-gather": flag("framework.gradients.gather_overlap"),
    "accumulate-allreduce-grads-in-fp32": flag("framework.gradients.bytes_each", 4),
    "grad-reduce-in-bf16": flag("framework.gradients.bytes_each", 2),
    "attention-backend": one_of(
        "of.attention", {name: name for name in ("auto", "flash", "fused", "unfused", "local")}
    ),
    "use-flash-attn": flag("of.flash"),
    "transformer-impl": word("of.implementation"),
    "no-bias-gelu-fusion": flag("framework.kernels.bias_gelu_fused", False),
    "no-bias-dropout-fusion": flag("framework.kernels.bias_dropout_fused", False),
    "no-bias-swiglu-fusion": flag("framework.kernels.gated_fused", False),
    "no-rope-fusion": flag("framework.kernels.rotary_fused", False),
    "no-persist-layer-norm": flag("framework.kernels.norm_persistent", False),
    "tp-comm-overlap": flag("framework.kernels.tensor_pipelined"),
    "moe-grouped-gemm": flag("framework.experts.grouped"),
    "moe-token-dispatcher-type": word("of.dispatcher"),
    "moe-enable-deepep": flag("of.once_per_node"),
    "moe-flex-dispatcher-backend": one_of("of.once_per_node", {"deepep": True, "hybridep": True}),
    "overlap-moe-expert-parallel-comm": flag("framework.experts.overlapped"),
    "make-vocab-size-divisible-by": count("framework.vocab_multiple"),
    "cuda-graph-impl": word("of.graphs"),
    "enable-cuda-graph": flag("of.graphs", "local"),
    "external-cuda-graph": flag("of.graphs", "transformer_engine"),
    # Shape of the model
    "num-layers": count("model.layers"),
    "encoder-num-layers": count("model.layers"),
    "hidden-size": count("model.hidden"),
    "ffn-hidden-size": count("model.ffn"),
    "num-attention-heads": count("model.heads"),
    "group-query-attention": flag("of.grouped_queries"),
    "num-query-groups": count("of.query_groups"),
    "kv-channels": count("model.head_size"),
    "max-position-embeddings": count("model.sequence"),
    "vocab-size": count("model.vocab"),
    "padded-vocab-size": count("model.vocab"),
    "tokenizer-type": word("of.tokenizer"),
    "normalization": one_of("model.norm", {"LayerNorm": "layer", "RMSNorm": "rms"}),
    "swiglu": flag("model.mlp", "gated"),
    "quick-geglu": flag("model.mlp", "gated"),
    "position-embedding-type": one_of(
        "model.positions",
        {"rope": "rotary", "learned_absolute": "learned", "none": "none", "mrope": "rotary"},
    ),
    "use-rotary-position-embeddings": flag("model.positions", "rotary"),
    "no-position-embedding": flag("of.no_positions"),
    "untie-embeddings-and-output-weights": flag("model.tied", False),
    "disable-bias-linear": flag("of.no_biases"),
    "add-qkv-bias": flag("of.query_bias"),
    "attention-dropout": number("of.attention_dropout"),
    "hidden-dropout": number("of.hidden_dropout"),
    "qk-layernorm": flag("model.qk_norm"),
    "softmax-type": word("of.softmax"),
    "window-size": Read("of.window", _window),
    "window-attn-skip-freq": Read("of.window_pattern", by_layer),
    "multi-latent-attention": flag("of.latent"),
    "q-lora-rank": count("of.latent_query"),
    "kv-lora-rank": count("of.latent_keys_values"),
    "qk-head-dim": count("of.latent_nope"),
    "qk-pos-emb-head-dim": count("of.latent_rope"),
    "v-head-dim": count("of.latent_value"),
    "num-experts": count("model.experts.count"),
    "moe-router-topk": count("of.top_k"),
    "moe-ffn-hidden-size": count("of.expert_ffn"),
    "moe-shared-expert-intermediate-size": count("of.shared_ffn"),
    "moe-layer-freq": Read("of.expert_layers", by_layer),
    "moe-router-enable-expert-bias": flag("of.router_bias"),
    "moe-expert-capacity-factor": number("of.capacity"),
    "moe-router-num-groups": count("of.router_groups"),
    "moe-router-group-topk": count("of.router_limit"),
    **megatron_layers.READS,
}
"""Options that are read, each with its key."""


VOCABULARIES: Final = {"GPT2BPETokenizer": 50_257, "Llama2Tokenizer": 32_000}
"""Tokens of tokenizers with one vocabulary."""

BYTES: Final = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


def finish(given: Given) -> None:
    """Derive the keys of the scenario, with the defaults of the arguments."""
    if "model" in given.values and "model.layers" not in given.values:
        _named(given)
    else:
        megatron_layers.count_layers(given)
        given.need("model.layers", "--num-layers")
        given.need("model.hidden", "--hidden-size")
        given.need("model.heads", "--num-attention-heads")
    given.need("batch.sequence", "--seq-length")
    given.need("batch.micro", "--micro-batch-size")
    if "model.hidden" in given.values:
        _model(given)
    _layout(given)
    _precision(given)
    _memory(given)
    _kernels(given)


def _named(given: Given) -> None:
    """State the layers and the experts of a model of the catalogue, which the layout needs."""
    record = find("model", str(given.values["model"])).data
    given.values |= {f"model.{key}": record[key] for key in ("layers", "experts") if key in record}


def _layout(given: Given) -> None:
    tensor = given.get("plan.tensor", 1)
    pipeline = given.get("plan.pipeline", 1)
    if tensor == 1:
        given.disregard("plan.sequence_parallel", "no effect without tensor parallelism")
    if "model.experts" not in given.values:
        for key in ("plan.expert", "plan.expert_tensor"):
            given.disregard(key, "no effect without experts")
    else:
        given.usual("plan.expert_tensor", tensor)
    layers = blocks_of(given)
    ends = sum(bool(given.get(f"of.{end}_counts")) for end in ("embedding", "loss"))
    per_chunk = given.pop("layers_per_chunk")
    if per_chunk is not None:
        if (layers + ends) % (pipeline * per_chunk):
            counted = f"{layers} layers" + f" and {ends} of embedding and logits" * (ends > 0)
            raise given.wrong(
                "of.layers_per_chunk",
                f"{counted} are no whole number of chunks on {pipeline} stages",
            )
        given.put("plan.chunks", (layers + ends) // (pipeline * per_chunk), "of.layers_per_chunk")
    if given.get("plan.chunks", 1) > 1:
        given.put("plan.schedule", "interleaved-1f1b", "plan.chunks")
    else:
        given.values.pop("plan.chunks", None)
    _layers_of_stages(given, pipeline)
    _deferral(given, pipeline)


def _deferral(given: Given, pipeline: int) -> None:
    """State the deferred weight gradients of the output head: all of a batch with a limit of 0."""
    deferred, limit = given.pop("deferred"), given.pop("deferral_limit", 0)
    if not deferred:
        given.disregard("of.deferral_limit", "no effect without --defer-embedding-wgrad-compute")
    elif pipeline == 1:
        given.disregard("of.deferred", "no effect without a pipeline")
    else:
        most = limit or max(1, given.get("batch.global", 1) // given.get("batch.micro", 1))
        given.put("framework.pipeline.head_deferred", most, "of.deferred")


def _layers_of_stages(given: Given, pipeline: int) -> None:
    """State uneven layers of stages."""
    ends = given.pop("embedding_counts"), given.pop("loss_counts")
    first, last = given.pop("first_layers"), given.pop("last_layers")
    if all(ends):
        given.put("plan.layers", "with-ends", "of.loss_counts")
    elif any(ends):
        for key in ("of.embedding_counts", "of.loss_counts"):
            given.disregard(key, "only both ends together are modelled: set plan.layers")
    if first is None and last is None:
        return
    inner = pipeline - (first is not None) - (last is not None)
    blocks = blocks_of(given)
    rest, parts = blocks - (first or 0) - (last or 0), given.values["model.layers"] // blocks
    key = "of.first_layers" if first is not None else "of.last_layers"
    if given.get("plan.chunks", 1) > 1 or inner < 1 or rest % inner:
        raise given.wrong(key, f"leaves {rest} layers for {inner} stages (set plan.layers)")
    ends_first, ends_last = [[n] if n is not None else [] for n in (first, last)]
    stages = [*ends_first, *[rest // inner] * inner, *ends_last]
    given.put("plan.layers", [parts * each for each in stages], key)


def _precision(given: Given) -> None:
    bf16, fp16 = given.pop("bf16"), given.pop("fp16")
    if bf16 and fp16:
        raise given.wrong("of.fp16", "contradicts --bf16 (choose one)")
    wide = "bf16" if bf16 else "fp16" if fp16 else "fp32"
    narrow, recipe = given.pop("fp8"), given.pop("fp8_recipe", "delayed")
    four, _ = given.pop("fp4"), given.pop("fp4_recipe")
    if four and narrow:
        raise given.wrong("of.fp4", "contradicts --fp8-format (choose one)")
    name = four or (("mxfp8" if recipe == "mxfp8" else "fp8") if narrow else wide)
    given.put("precision", name, "of.fp4" if four else "of.fp8" if narrow else f"of.{wide}")
    if four is None:
        given.disregard("of.fp4_recipe", "no effect without --fp4-format")
    if narrow is None:
        given.disregard("of.fp8_recipe", "no effect without --fp8-format")
    elif recipe in ("tensorwise", "blockwise"):
        searched = {"value": True, "assumed": f"scales of the recipe {recipe}"}
        given.usual("framework.kernels.cast_searched", searched)
    if given.pop("fp8_gather") and narrow:
        given.usual(f"framework.state.{name}.weights", 2.0625 if name == "mxfp8" else 2)
    if given.pop("fp4_gather") and four:
        given.usual(f"framework.state.{name}.weights", 1.125)
    if not given.get("of.deepspeed"):
        given.usual("framework.gradients.bytes_each", 2 if wide == "fp16" else 4)
    states = {"gradients": given.pop("gradient_format"), "master": given.pop("master_format")}
    for part, stated in states.items():
        if stated is not None:
            given.usual(f"framework.state.{name}.{part}", BYTES.get(stated, 4))
    if wide == "bf16" and given.values.get("framework.gradients.bytes_each") == 2:
        given.usual(f"framework.state.{name}.gradients", 2)  # the buffer that is reduced
    moments = [given.pop(f"{moment}_moment_format") for moment in ("first", "second")]
    if any(moments):
        total = sum(BYTES.get(moment or "fp32", 4) for moment in moments)
        given.usual(f"framework.state.{name}.optimiser", total)


def _memory(given: Given) -> None:
    selective = given.pop("selective")
    method, count_ = given.pop("method"), given.pop("recomputed_layers", 1)
    usual = "selective" if selective else "full" if method else None
    granularity = given.pop("granularity", usual)
    modules = given.pop("modules", ["core_attn"])
    stage = -(-blocks_of(given) // given.get("plan.pipeline", 1))
    if granularity == "selective":
        given.put("recompute", "selective", "of.granularity")
        if modules != ["core_attn"]:
            given.put("recompute", {"modules": [*modules]}, "of.modules")
    elif granularity == "full" and method == "block" and count_ < stage:
        every = max(2, round(stage / count_))
        given.put("recompute", {"mode": "full", "every": every}, "of.recomputed_layers")
        given.notes.append(f"recomputation of {count_} of {stage} layers: one in {every}")
    elif granularity == "full":
        given.put("recompute", "full", "of.granularity")
        if count_ > 1 and method == "uniform":
            given.disregard("of.recomputed_layers", "each layer is recomputed from its own input")
    offloaded = given.pop("offloaded_layers", 0)
    if offloaded and offloaded >= stage - 1:
        given.put("offload.activations", True, "of.offloaded_layers")
    elif offloaded:
        given.disregard("of.offloaded_layers", "offload of some layers is not modelled")


def _kernels(given: Given) -> None:
    backend, flash = given.pop("attention", "auto"), given.pop("flash")
    if given.pop("deepspeed"):
        given.put("framework.name", "megatron-deepspeed", "of.deepspeed")
        given.usual("framework.kernels.attention", "flash" if flash else "fused-softmax")
        return
    graphs = given.pop("graphs", "none")
    given.put("framework.name", "megatron-core" if graphs == "none" else "megatron-core-graphs")
    given.usual("framework.gradients.overlap", "never")
    local = given.pop("implementation", "transformer_engine") == "local"
    if backend in ("unfused", "local") or (local and not flash):
        given.usual("framework.kernels.attention", "unfused")
    elif backend == "flash":
        given.usual("framework.kernels.attention_cudnn", False)
    dispatcher, once = given.pop("dispatcher", "allgather"), given.pop("once_per_node")
    if "model.experts" not in given.values:
        for key in ("framework.experts.grouped", "framework.experts.overlapped"):
            given.disregard(key, "no effect without experts")
        return
    given.usual("framework.experts.grouped", False)
    if dispatcher == "flex":
        given.usual("framework.experts.once_per_node", bool(once))
    elif dispatcher == "allgather" and given.get("plan.expert", 1) > 1:
        given.notes.append("the exchange of tokens by all-gathers is modelled as all-to-alls")


def _model(given: Given) -> None:
    """State the shape of the model, with the defaults of Megatron-LM."""
    shape = given.values
    given.usual("model.norm", "layer")
    given.usual("model.mlp", "gelu")
    if given.pop("no_positions"):
        shape["model.positions"] = "none"
    given.usual("model.positions", "learned")
    given.usual("model.tied", True)
    given.usual("model.sequence", shape["batch.sequence"])
    hidden = shape["model.hidden"]
    gated = shape["model.mlp"] == "gated"
    given.usual("model.ffn", hidden * 8 // 3 // 64 * 64 if gated else 4 * hidden)
    groups = given.pop("query_groups", 1)
    if given.pop("grouped_queries"):
        given.put("model.kv_heads", groups, "of.query_groups")
    elif groups > 1:
        given.disregard("of.query_groups", "no effect without --group-query-attention")
    no_biases = given.pop("no_biases")
    linear = ["qkv"] * bool(given.pop("query_bias")) if no_biases else ["qkv", "output", "mlp"]
    given.pop("query_bias")
    norms = ["norm"] if shape["model.norm"] == "layer" else []
    router = ["router"] if given.pop("router_bias") else []
    shape["model.biases"] = [*linear, *norms, *router]
    dropouts = given.pop("attention_dropout", 0.1), given.pop("hidden_dropout", 0.1)
    shape["model.dropout"] = any(dropouts)
    if given.pop("softmax") in ("learnable", "off-by-one"):
        shape["model.sinks"] = True
    window, pattern = given.pop("window"), given.pop("window_pattern")
    if window is not None:
        shape["model.window"] = {"tokens": window}
        if isinstance(pattern, int):
            shape["model.window"]["full_every"] = pattern
        elif pattern is not None:
            given.disregard("of.window_pattern", "windows by a list of layers: set model.window")
    tokenizer = given.pop("tokenizer", "the file")
    vocabulary = VOCABULARIES.get(tokenizer, 32_000)
    known = tokenizer in VOCABULARIES
    given.assume(
        "model.vocab",
        vocabulary,
        f"that of {tokenizer}" if known else f"{tokenizer} does not state it: set model.vocab",
    )
    _latent(given)
    _experts(given, shape["model.ffn"])
    megatron_layers.state_layers(given)


_LATENT: Final = {"query": None, "keys_values": 32, "nope": 128, "rope": 64, "value": 128}


def _latent(given: Given) -> None:
    parts: dict[str, Any] = {
        part: given.pop(f"latent_{part}", usual) for part, usual in _LATENT.items()
    }
    if given.pop("latent"):
        given.values["model.latent"] = {k: v for k, v in parts.items() if v is not None}
        for key in ("model.kv_heads", "model.head_size"):
            given.disregard(key, "latent attention has its own heads")


def _experts(given: Given, ffn: int) -> None:
    experts = given.values.pop("model.experts.count", None)
    values = {
        "count": experts,
        "top_k": given.pop("top_k", 2),
        "ffn": given.pop("expert_ffn", ffn),
    }
    shared, pattern = given.pop("shared_ffn"), given.pop("expert_layers", 1)
    capacity = given.pop("capacity")
    groups, limit = given.pop("router_groups"), given.pop("router_limit")
    if experts is None:
        return
    if shared:
        values["shared"] = max(1, round(shared / values["ffn"]))
        if shared % values["ffn"]:
            given.notes.append(f"shared experts of {shared} in all: {values['shared']} experts")
    if isinstance(pattern, list):
        values |= _layers_with_experts(given, pattern)
    elif pattern > 1:
        values["every"] = pattern
    if capacity is not None and capacity > 0:
        values["capacity"] = capacity
    if groups is not None and limit is not None:
        values["groups"] = {"count": groups, "limit": limit}
    given.put("model.experts", values, "model.experts.count")


def _layers_with_experts(given: Given, pattern: list[int]) -> dict[str, int]:
    """Return the dense layers at the start and the interval of those with experts, of a list."""
    layers = len(pattern)
    for every in range(1, layers + 1):
        groups = [0] * (every - 1) + [1]
        for dense in range(layers % every, layers, every):
            if pattern == [0] * dense + groups * ((layers - dense) // every):
                return {"first_dense": dense, **({"every": every} if every > 1 else {})}
    raise given.wrong("of.expert_layers", "must be dense layers, then groups that end with experts")


MEGATRON: Final = Launch(
    _options, {**READS, **commands.READS}, partial(ignored, "commands", "megatron"), finish
)
"""Launch files of Megatron-LM and Megatron-Core."""
