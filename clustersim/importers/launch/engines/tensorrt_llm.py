"""The command of a TensorRT-LLM server: ``trtllm-serve``, and the YAML file that it names.

Names are those of NVIDIA/TensorRT-LLM, tensorrt_llm/commands/serve.py, commit 0020914, and
tensorrt_llm/llmapi/llm_args.py (recalled).
"""

from typing import Final

from clustersim.importers.launch.serving import after, service
from clustersim.importers.launch.table import Given, Reads, count, flag, number, switch, word


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
    "disable-overlap-scheduler": switch("engine.scheduler.ahead", on=False, off=True),
    "enable-attention-dp": flag("of.attention"),
    "batch-wait-timeout-iters": count("engine.scheduler.wait_steps"),
    "batch-wait-max-tokens-ratio": number("engine.scheduler.wait_share"),
    **dict.fromkeys(
        (
            "free-gpu-memory-fraction",
            "kv-cache-free-gpu-memory-fraction",
            "kv-cache-config.free-gpu-memory-fraction",
        ),
        number("engine.memory.share"),
    ),
    "kv-cache-config.dtype": word("of.cached"),
}
"""Options that are read, each with its key."""


FILES: Final = ("extra-llm-api-options", "config")
"""Options that name a YAML file with further ones."""


def _derive(given: Given) -> None:
    given.usual("plan.tensor", 1)
    if given.pop("attention"):
        given.put("plan.attention_data", given.values["plan.tensor"], "of.attention")
        given.put("plan.tensor", 1, "of.attention")


TENSORRT_LLM: Final = service("tensorrt-llm", _program, READS, _derive, FILES, files_win=True)
"""Commands of TensorRT-LLM."""
