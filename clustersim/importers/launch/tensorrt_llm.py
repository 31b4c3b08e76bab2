"""The command of a TensorRT-LLM server: ``trtllm-serve``.

Names are those of NVIDIA/TensorRT-LLM, tensorrt_llm/commands/serve.py, commit 0020914.
"""

from collections.abc import Mapping
from typing import Final

from clustersim.importers.launch.serving import after, service
from clustersim.importers.launch.table import Given, Reads, count, flag, number, word


def _program(words: tuple[str, ...]) -> int | None:
    found = after(words, "trtllm-serve", "serve")
    return after(words, "trtllm-serve") if found is None else found


READS: Final[Reads] = {
    "model": word("of.model"),
    **dict.fromkeys(("tp-size", "tensor-parallel-size"), count("plan.tensor")),
    **dict.fromkeys(("pp-size", "pipeline-parallel-size"), count("plan.pipeline")),
    **dict.fromkeys(("cp-size", "context-parallel-size"), count("plan.context")),
    **dict.fromkeys(("ep-size", "moe-expert-parallel-size"), count("plan.expert")),
    "gpus-per-node": count("of.processes"),
    "kv-cache-dtype": word("of.cached"),
    "max-batch-size": count("engine.scheduler.sequences"),
    "max-num-tokens": count("engine.scheduler.tokens"),
    "enable-chunked-prefill": flag("engine.scheduler.chunked"),
    **dict.fromkeys(
        ("free-gpu-memory-fraction", "kv-cache-free-gpu-memory-fraction"),
        number("engine.memory.share"),
    ),
}
"""Options that are read, each with its key."""

_FRONT: Final = "the front end is not modelled"
_START: Final = "start of the server"
_POOLS: Final = "separate pools: set plan.prefill and plan.decode"

IGNORED: Final[Mapping[str, str]] = {
    "max-seq-len": "lengths of requests are those of load",
    "max-beam-width": "not modelled: beam search",
    "backend": "modelled as the PyTorch backend",
    "config": "options in another file",
    "extra-llm-api-options": "options in another file",
    "moe-cluster-parallel-size": "not modelled: clusters of experts",
    "cluster-size": "not modelled: clusters of experts",
    "num-postprocess-workers": _FRONT,
    "fail-fast-on-attention-window-too-large": _START,
    "trust-remote-code": _START,
    "revision": _START,
    "custom-module-dirs": _START,
    "custom-tokenizer": _START,
    "tokenizer": _START,
    "server-role": _POOLS,
    "disagg-cluster-uri": _POOLS,
    "metadata-server-config-file": _POOLS,
    "media-io-kwargs": "images are not modelled",
    "log-level": "logging",
    "otlp-traces-endpoint": "logging",
    **dict.fromkeys(
        ("host", "port", "reasoning-parser", "tool-parser", "chat-template", "grpc",
         "served-model-name"),
        _FRONT,
    ),
}  # fmt: skip
"""Options that are not read, or patterns of them, each with the reason."""


def _derive(given: Given) -> None:
    given.usual("plan.tensor", 1)


TENSORRT_LLM: Final = service("tensorrt-llm", _program, READS, IGNORED, _derive)
"""Commands of TensorRT-LLM."""
