"""The command of an SGLang server: ``python -m sglang.launch_server``.

Names are those of sgl-project/sglang, python/sglang/srt/server_args.py.
"""

from collections.abc import Mapping
from typing import Final

from clustersim.importers.launch.serving import after, quantised, service
from clustersim.importers.launch.table import (
    Given,
    Read,
    Reads,
    count,
    flag,
    number,
    whole,
    word,
)


def _program(words: tuple[str, ...]) -> int | None:
    module = after(words, "sglang.launch_server")
    return after(words, "sglang", "serve") if module is None else module


READS: Final[Reads] = {
    **dict.fromkeys(("model", "model-path"), word("of.model")),
    **dict.fromkeys(("tp", "tp-size", "tensor-parallel-size"), count("of.tensor")),
    **dict.fromkeys(("pp", "pp-size", "pipeline-parallel-size"), count("plan.pipeline")),
    **dict.fromkeys(("dp", "dp-size", "data-parallel-size"), count("of.data")),
    **dict.fromkeys(("ep", "ep-size", "expert-parallel-size"), count("plan.expert")),
    "enable-dp-attention": flag("of.attention"),
    **dict.fromkeys(("enable-ep-moe", "enable-deepep-moe"), flag("of.experts")),
    "nnodes": count("of.nodes"),
    "dtype": word("of.wide"),
    "quantization": Read("of.quantised", quantised),
    "kv-cache-dtype": word("of.cached"),
    "max-running-requests": count("engine.scheduler.sequences"),
    "chunked-prefill-size": whole("of.chunk"),
    "enable-mixed-chunk": flag("engine.scheduler.mixed"),
    "disable-overlap-schedule": flag("engine.scheduler.ahead", False),
    "page-size": count("engine.scheduler.block"),
    "mem-fraction-static": number("engine.memory.share"),
    "disable-cuda-graph": flag("of.eager"),
    "disable-custom-all-reduce": flag("engine.collectives.library", "nccl"),
    "enable-two-batch-overlap": flag("engine.collectives.overlapped"),
}
"""Options that are read, each with its key."""

_FRONT: Final = "the front end is not modelled"
_START: Final = "start of the server"
_TEXT: Final = "text and its tokens, not their time"
_KERNELS: Final = "kernels are those of the profile"
_ORDER: Final = "requests in the order of their arrival"
_POOLS: Final = "separate pools: set plan.prefill and plan.decode"
_DRAFT: Final = "its acceptance is not in the file: set speculation"

IGNORED: Final[Mapping[str, str]] = {
    "context-length": "lengths of requests are those of load",
    "max-total-tokens": "the cache has the memory that is left",
    "max-prefill-tokens": "the tokens of a step are those of chunked-prefill-size",
    "max-queued-requests": _ORDER,
    "schedule-*": _ORDER,
    "priority-*": _ORDER,
    "enable-priority-scheduling": _ORDER,
    "prefill-*": _ORDER,
    "num-continuous-decode-steps": "one step at a time",
    "disable-radix-cache": "prompts share no prefix",
    "radix-*": "prompts share no prefix",
    "enable-hierarchical-cache": "not modelled: cached keys on the host",
    "hicache-*": "not modelled: cached keys on the host",
    "enable-lmcache": "not modelled: cached keys on the host",
    "cpu-offload-gb": "not modelled: weights on the host",
    "offload-*": "not modelled: weights on the host",
    "disaggregation-*": _POOLS,
    "num-reserved-decode-tokens": _POOLS,
    "speculative-*": _DRAFT,
    "cuda-graph-*": "sizes of graphs are those of the profile",
    "disable-cuda-graph-padding": "sizes of graphs are those of the profile",
    "*piecewise-cuda-graph*": "graphs of decoding only",
    "enable-profile-cuda-graph": "logging",
    "enable-torch-compile": _KERNELS,
    "torch-*": _KERNELS,
    "attention-backend": _KERNELS,
    "*-attention-backend": _KERNELS,
    "sampling-backend": _KERNELS,
    "fp8-gemm-*": _KERNELS,
    "fp4-gemm-*": _KERNELS,
    "moe-runner-backend": _KERNELS,
    "moe-a2a-backend": "the exchange of tokens is that of the profile",
    "moe-dense-tp-size": "dense layers are over the tensor ranks",
    "moe-dp-size": "experts are over all ranks",
    "deepep-*": "the exchange of tokens is that of the profile",
    "ep-*": "loads of experts are balanced: set experts",
    "enable-eplb": "loads of experts are balanced: set experts",
    "eplb-*": "loads of experts are balanced: set experts",
    "expert-distribution-*": "loads of experts are balanced: set experts",
    "init-expert-location": "loads of experts are balanced: set experts",
    "disable-shared-experts-fusion": _KERNELS,
    "enable-flashinfer-*": _KERNELS,
    "enable-mscclpp": "collectives are those of the profile",
    "enable-nccl-nvls": "collectives are those of the profile",
    "enable-symm-mem": "collectives are those of the profile",
    "enable-torch-symm-mem": "collectives are those of the profile",
    "enable-single-batch-overlap": "not modelled: overlap within a batch",
    "tbo-*": "of enable-two-batch-overlap",
    "enable-dp-lm-head": "logits are over the tensor ranks",
    "load-balance-method": "replicas in turn: set plan.routing",
    "load-watch-interval": "replicas in turn: set plan.routing",
    "stream-interval": _FRONT,
    "enable-lora*": "not modelled: adapters of requests",
    "max-lora*": "not modelled: adapters of requests",
    "lora-*": "not modelled: adapters of requests",
    "quantization-param-path": "scales of cached keys are known",
    "torchao-config": "not modelled: quantisation of torchao",
    "modelopt-*": _START,
    "triton-*": _KERNELS,
    "flashinfer-*": _KERNELS,
    "enable-double-sparsity": "not modelled: sparse attention",
    "ds-*": "not modelled: sparse attention",
    "dsa-*": "not modelled: sparse attention",
    "nsa-*": "not modelled: sparse attention",
    "mamba-*": "not modelled: state-space layers",
    "mm-*": "images are not modelled",
    "enable-multimodal": "images are not modelled",
    "keep-mm-feature-on-device": "images are not modelled",
    "device": "the machine is named",
    "base-gpu-id": _START,
    "gpu-id-step": _START,
    "node-rank": _START,
    "dist-*": _START,
    "nccl-*": _START,
    "numa-node": _START,
    "watchdog-timeout": _START,
    "soft-watchdog-timeout": _START,
    "load-format": _START,
    "model-loader-extra-config": _START,
    "weight-loader-*": _START,
    "download-dir": _START,
    "revision": _START,
    "trust-remote-code": _START,
    "skip-server-warmup": _START,
    "warmups": _START,
    "random-seed": _TEXT,
    "tokenizer-*": _TEXT,
    "skip-tokenizer-init": _TEXT,
    "json-model-override-args": "the shape is that of the model file",
    "model-impl": "layers of SGLang",
    "is-embedding": _TEXT,
    "constrained-json-*": "not modelled: grammars of the output",
    "grammar-backend": "not modelled: grammars of the output",
    "reasoning-parser": _TEXT,
    "tool-*": _TEXT,
    "sampling-defaults": _TEXT,
    "enable-deterministic-inference": "not modelled: slower deterministic kernels",
    "enable-p2p-check": _START,
    "enable-memory-saver": _START,
    "allow-auto-truncate": _TEXT,
    "config": "options in another file",
    **dict.fromkeys(
        ("host", "port", "api-key", "admin-api-key", "served-model-name", "chat-template",
         "completion-template", "weight-version", "file-storage-path", "grpc-mode", "fastapi-*",
         "enable-cache-report", "hf-chat-template-name", "incremental-streaming-output",
         "bucket-*", "delete-ckpt-after-loading", "preferred-sampling-params"),
        _FRONT,
    ),
    **dict.fromkeys(
        ("log-*", "enable-metrics*", "collect-tokens-histogram", "decode-log-interval",
         "show-time-cost", "crash-dump-folder", "enable-request-time-stats-logging",
         "kv-events-config", "enable-trace", "otlp-*", "debug-*", "gc-*", "sleep-on-idle",
         "export-metrics-to-file*"),
        "logging",
    ),
}  # fmt: skip
"""Options that are not read, or patterns of them, each with the reason."""


def _derive(given: Given) -> None:
    tensor, data = given.pop("tensor", 1), given.pop("data", 1)
    if given.pop("experts"):
        given.usual("plan.expert", tensor)
    if given.pop("attention"):
        if tensor % data:
            raise given.wrong("of.data", f"does not divide the {tensor} tensor ranks")
        given.put("plan.attention_data", data, "of.data")
        given.put("plan.tensor", tensor // data, "of.tensor")
    else:
        given.put("plan.replicas", data, "of.data")
        given.put("plan.tensor", tensor, "of.tensor")
    chunk = given.pop("chunk")
    if chunk is not None and chunk > 0:
        given.put("engine.scheduler.tokens", chunk, "of.chunk")
    elif chunk is not None:
        given.put("engine.scheduler.chunked", False, "of.chunk")
    if given.pop("eager"):
        given.put("engine.graphs", None, "of.eager")


SGLANG: Final = service("sglang", _program, READS, IGNORED, _derive)
"""Commands of SGLang."""
