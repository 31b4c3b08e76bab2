"""The command of a vLLM server: ``vllm serve``, its module, or its container.

Names are those of vllm-project/vllm, vllm/engine/arg_utils.py and vllm/config.
"""

import json
from typing import Final

from clustersim.importers.launch.options import Option
from clustersim.importers.launch.serving import after, has_experts, quantised, service
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


def _derive(given: Given) -> None:
    """State the degrees: data ranks of a model with experts share these by their tensor degree.

    vLLM, docs/serving/data_parallel_deployment.md.
    """
    data = given.pop("data", 1)
    if given.pop("experts"):
        given.put("plan.expert", data * given.get("plan.tensor", 1), "of.experts")
        given.put("plan.attention_data", data, "of.data")
    elif data > 1 and has_experts(given.values["model"]):
        given.put("plan.attention_data", data, "of.data")
    else:
        given.put("plan.replicas", data, "of.data")
    if given.pop("eager"):
        given.put("engine.graphs", None, "of.eager")


VLLM: Final = service("vllm", _program, READS, _derive)
"""Commands of vLLM."""
