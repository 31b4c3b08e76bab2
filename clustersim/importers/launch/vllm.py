"""The command of a vLLM server: ``vllm serve``, its module, or its container.

Names are those of vllm-project/vllm, vllm/engine/arg_utils.py and vllm/config.
"""

import json
from collections.abc import Mapping
from typing import Final

from clustersim.importers.launch.options import Option
from clustersim.importers.launch.serving import after, quantised, service
from clustersim.importers.launch.table import (
    Given,
    Read,
    Reads,
    count,
    flag,
    number,
    switch,
    word,
)


def _program(words: tuple[str, ...]) -> int | None:
    served = after(words, "vllm", "serve")
    if served is not None:
        return served
    own = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
    modules = (index for index, text in enumerate(words) if text in own or "/vllm-openai" in text)
    return next(modules, None)


def _capture_sizes(option: Option) -> list[int]:
    """Return the sizes of graphs, in words or as a list of JSON."""
    text = " ".join(option.words())
    try:
        sizes = json.loads(text) if text.startswith("[") else [int(each) for each in text.split()]
        return sorted({int(size) for size in sizes})
    except (ValueError, TypeError, RecursionError):
        raise option.wrong("must be whole numbers") from None


READS: Final[Reads] = {
    **dict.fromkeys(("model",), word("of.model")),
    **dict.fromkeys(("tensor-parallel-size", "tp"), count("plan.tensor")),
    **dict.fromkeys(("pipeline-parallel-size", "pp"), count("plan.pipeline")),
    **dict.fromkeys(("data-parallel-size", "dp"), count("of.data")),
    **dict.fromkeys(("prefill-context-parallel-size", "pcp"), count("plan.context")),
    **dict.fromkeys(("enable-expert-parallel", "ep"), flag("of.experts")),
    "dtype": word("of.wide"),
    **dict.fromkeys(("quantization", "q"), Read("of.quantised", quantised)),
    "kv-cache-dtype": word("of.cached"),
    "max-num-seqs": count("engine.scheduler.sequences"),
    "max-num-batched-tokens": count("engine.scheduler.tokens"),
    "enable-chunked-prefill": switch("engine.scheduler.chunked"),
    "no-enable-chunked-prefill": flag("engine.scheduler.chunked", False),
    "async-scheduling": switch("engine.scheduler.ahead"),
    "no-async-scheduling": flag("engine.scheduler.ahead", False),
    "block-size": count("engine.scheduler.block"),
    "gpu-memory-utilization": number("engine.memory.share"),
    "enforce-eager": flag("of.eager"),
    **dict.fromkeys(
        ("cudagraph-capture-sizes", "cuda-graph-sizes"), Read("engine.graphs.sizes", _capture_sizes)
    ),
    "disable-custom-all-reduce": flag("engine.collectives.library", "nccl"),
    "enable-dbo": flag("engine.collectives.overlapped"),
}
"""Options that are read, each with its key."""

_LENGTHS: Final = "lengths of requests are those of load"
_FRONT: Final = "the front end is not modelled"
_START: Final = "start of the server"
_TEXT: Final = "text and its tokens, not their time"

IGNORED: Final[Mapping[str, str]] = {
    "max-model-len": _LENGTHS,
    "enable-prefix-caching": "prompts share no prefix",
    "no-enable-prefix-caching": "prompts share no prefix",
    "prefix-caching-hash-algo": "prompts share no prefix",
    "swap-space": "preempted requests are computed again",
    "cpu-offload-gb": "not modelled: weights on the host",
    "kv-offloading-*": "not modelled: cached keys on the host",
    "kv-transfer-config": "separate pools: set plan.prefill and plan.decode",
    "num-gpu-blocks-override": "the cache has the memory that is left",
    "kv-cache-memory-bytes": "the cache has the memory that is left",
    "num-lookahead-slots": "set speculation",
    "speculative-config": "its acceptance is not in the file: set speculation",
    "speculative-*": "its acceptance is not in the file: set speculation",
    "num-speculative-tokens": "its acceptance is not in the file: set speculation",
    "enable-lora*": "not modelled: adapters of requests",
    "max-lora*": "not modelled: adapters of requests",
    "lora-*": "not modelled: adapters of requests",
    "compilation-config": "passes of the compiler are those of the profile",
    "optimization-level": "passes of the compiler are those of the profile",
    "O*": "passes of the compiler are those of the profile",
    "max-seq-len-to-capture": "graphs by the number of tokens only",
    "max-cudagraph-capture-size": "sizes of graphs are those of the profile",
    "attention-*": "kernels of attention are those of the profile",
    "moe-backend": "kernels of experts are those of the profile",
    "mla-*": "kernels of attention are those of the profile",
    "all2all-backend": "the exchange of tokens is that of the profile",
    "enable-eplb": "loads of experts are balanced: set experts",
    "eplb-config": "loads of experts are balanced: set experts",
    "num-redundant-experts": "loads of experts are balanced: set experts",
    "expert-placement-strategy": "loads of experts are balanced: set experts",
    "dbo-*": "of enable-dbo",
    "decode-context-parallel-size": "not modelled: cached keys over tensor ranks",
    "dcp*": "not modelled: cached keys over tensor ranks",
    "disable-cascade-attn": "prompts share no prefix",
    "disable-sliding-window": "windows are those of the model",
    "disable-hybrid-kv-cache-manager": "windows are those of the model",
    "max-num-partial-prefills": "prompts in the order of their arrival",
    "max-long-partial-prefills": "prompts in the order of their arrival",
    "long-prefill-token-threshold": "prompts in the order of their arrival",
    "scheduling-policy": "requests in the order of their arrival",
    "scheduler-*": "requests in the order of their arrival",
    "stream-interval": _FRONT,
    "disable-chunked-mm-input": "images are not modelled",
    "distributed-executor-backend": "workers are processes",
    "distributed-timeout-seconds": _START,
    "data-parallel-*": "ranks of data are on the stated machine",
    "nnodes": "as many nodes as the replicas need",
    "node-rank": _START,
    "master-*": _START,
    "headless": _START,
    "ray-workers-use-nsight": _START,
    "worker-*": _START,
    "api-server-count": _FRONT,
    "rope-*": "rotations are those of the model",
    "hf-*": "the shape is that of the model file",
    "revision": _START,
    "code-revision": _START,
    "tokenizer*": _TEXT,
    "trust-remote-code": _START,
    "skip-tokenizer-init": _TEXT,
    "config-format": _START,
    "config": "options in another file",
    "runner": _TEXT,
    "task": _TEXT,
    "model-impl": "layers of vLLM",
    "logits-processor*": _TEXT,
    "structured-outputs-config": "not modelled: grammars of the output",
    "guided-decoding-*": "not modelled: grammars of the output",
    "reasoning-*": _TEXT,
    "enable-reasoning": _TEXT,
    "override-*": _TEXT,
    "generation-config": _TEXT,
    "load-format": _START,
    "download-dir": _START,
    "model-loader-extra-config": _START,
    "safetensors-load-strategy": _START,
    "max-parallel-loading-workers": _START,
    "ignore-patterns": _START,
    "use-tqdm-on-load": _START,
    "seed": _TEXT,
    "device": "the machine is named",
    "max-logprobs": _TEXT,
    "logprobs-mode": _TEXT,
    "limit-mm-per-prompt": "images are not modelled",
    "mm-*": "images are not modelled",
    "disable-mm-*": "images are not modelled",
    "media-*": "images are not modelled",
    "interleave-mm-strings": "images are not modelled",
    "language-model-only": "images are not modelled",
    "skip-mm-profiling": "images are not modelled",
    "calculate-kv-scales": "scales of cached keys are known",
    "use-v2-block-manager": "without effect in vLLM",
    "enable-sleep-mode": _START,
    "preemption-mode": "preempted requests are computed again",
    "num-scheduler-steps": "one step at a time",
    "multi-step-stream-outputs": "one step at a time",
    "delay-factor": "prompts in the order of their arrival",
    **dict.fromkeys(
        ("host", "port", "api-key", "served-model-name", "chat-template*", "allow*", "uds",
         "enable-auto-tool-choice", "tool-*", "uvicorn-*", "ssl-*", "root-path", "middleware",
         "return-*", "disable-frontend-*", "enable-request-*", "response-role", "prompt-adapters",
         "h11-*", "enable-server-load-tracking", "enable-tokenizer-info-endpoint",
         "exclude-tools-*", "enable-force-include-usage", "disable-fastapi-docs"),
        _FRONT,
    ),
    **dict.fromkeys(
        ("disable-log-*", "enable-log-*", "no-enable-log-*", "log-*", "max-log-len",
         "show-hidden-*", "otlp-*", "collect-detailed-traces", "profiler-config",
         "enable-layerwise-nvtx-tracing", "enable-mfu-metrics", "kv-events-config",
         "cudagraph-metrics", "kv-cache-metrics*", "aggregate-engine-logging"),
        "logging",
    ),
}  # fmt: skip
"""Options that are not read, or patterns of them, each with the reason."""


def _derive(given: Given) -> None:
    data = given.pop("data", 1)
    if given.pop("experts"):
        given.put("plan.expert", data * given.get("plan.tensor", 1), "of.experts")
        given.put("plan.attention_data", data, "of.data")
    else:
        given.put("plan.replicas", data, "of.data")
    if given.pop("eager"):
        given.put("engine.graphs", None, "of.eager")


VLLM: Final = service("vllm", _program, READS, IGNORED, _derive)
"""Commands of vLLM."""
