"""The command of an SGLang server: ``python -m sglang.launch_server``.

Names are those of sgl-project/sglang, python/sglang/srt/server_args.py.
"""

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


SGLANG: Final = service("sglang", _program, READS, _derive)
"""Commands of SGLang."""
