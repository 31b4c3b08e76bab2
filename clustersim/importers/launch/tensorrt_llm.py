"""The command of a TensorRT-LLM server: ``trtllm-serve``.

Names are those of NVIDIA/TensorRT-LLM, tensorrt_llm/commands/serve.py, commit 0020914.
"""

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


def _derive(given: Given) -> None:
    given.usual("plan.tensor", 1)


TENSORRT_LLM: Final = service("tensorrt-llm", _program, READS, _derive)
"""Commands of TensorRT-LLM."""
