"""The launch formats by name, and how the content of a file shows its format."""

import re
from collections.abc import Mapping
from typing import Final

from clustersim.importers.launch.accelerate import ACCELERATE
from clustersim.importers.launch.megatron import MEGATRON
from clustersim.importers.launch.sglang import SGLANG
from clustersim.importers.launch.table import Launch
from clustersim.importers.launch.tensorrt_llm import TENSORRT_LLM
from clustersim.importers.launch.torchtitan import TORCHTITAN
from clustersim.importers.launch.vllm import VLLM


def _command(pattern: str) -> re.Pattern[str]:
    """Return the pattern of a file with such a word outside of comments."""
    return re.compile(rf"^[^#\n]*(?:{pattern})", re.MULTILINE)


LAUNCHES: Final[Mapping[str, tuple[Launch, re.Pattern[str]]]] = {
    "vllm": (VLLM, _command(r"vllm\s+serve|vllm\.entrypoints|/vllm-openai")),
    "sglang": (SGLANG, _command(r"sglang\.launch_server|sglang\s+serve")),
    "trtllm": (TENSORRT_LLM, _command(r"trtllm-serve")),
    "torchtitan": (
        TORCHTITAN,
        re.compile(r"^\[(?:parallelism|activation_checkpoint)\]", re.MULTILINE),
    ),
    "accelerate": (
        ACCELERATE,
        re.compile(r"^(?:fsdp_config|compute_environment):", re.MULTILINE),
    ),
    "megatron": (
        MEGATRON,
        _command(r"--tensor-model-parallel-size|--num-attention-heads|pretrain_gpt\w*\.py"),
    ),
}
"""Each launch format: how it is read, and a pattern of its files."""


def launch_format(text: str) -> str | None:
    """Return the launch format of a text, the first that its content shows; None for another text.

    >>> launch_format("torchrun pretrain_gpt.py --num-layers 32")
    'megatron'
    """
    return next((name for name, (_, sign) in LAUNCHES.items() if sign.search(text)), None)
