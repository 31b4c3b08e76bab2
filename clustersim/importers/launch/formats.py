"""The launch formats by name, and how the content of a file shows its format."""

import re
from collections.abc import Mapping
from typing import Final

from clustersim.importers.launch.accelerate import ACCELERATE
from clustersim.importers.launch.axolotl import AXOLOTL
from clustersim.importers.launch.deepspeed import DEEPSPEED
from clustersim.importers.launch.engines.sglang import SGLANG
from clustersim.importers.launch.engines.tensorrt_llm import TENSORRT_LLM
from clustersim.importers.launch.engines.vllm import VLLM
from clustersim.importers.launch.litgpt import COMMAND, LITGPT
from clustersim.importers.launch.llm_foundry import LLM_FOUNDRY
from clustersim.importers.launch.maxtext import MAXTEXT, PROGRAM
from clustersim.importers.launch.megatron import MEGATRON
from clustersim.importers.launch.nemo import NEMO
from clustersim.importers.launch.primus import PRIMUS
from clustersim.importers.launch.table import Launch
from clustersim.importers.launch.torchtitan import TORCHTITAN
from clustersim.importers.launch.torchtitan_source import SIGN
from clustersim.importers.launch.torchtune import TORCHTUNE

_OF_MEGATRON: Final = r"--tensor-model-parallel-size|--num-attention-heads|pretrain_gpt\w{,80}\.py"


def _command(pattern: str) -> re.Pattern[str]:
    """Return the pattern of a file with such a word outside of comments."""
    return re.compile(rf"^[^#\n]*(?:{pattern})", re.MULTILINE)


LAUNCHES: Final[Mapping[str, tuple[Launch, re.Pattern[str]]]] = {
    "vllm": (VLLM, _command(r"vllm\s+serve|vllm\.entrypoints|/vllm-openai")),
    "sglang": (SGLANG, _command(r"sglang\.launch_server|sglang\s+serve")),
    "trtllm": (TENSORRT_LLM, _command(r"trtllm-serve")),
    "torchtitan": (
        TORCHTITAN,
        re.compile(SIGN, re.MULTILINE),
    ),
    "accelerate": (
        ACCELERATE,
        re.compile(r"^(?:distributed_type|compute_environment):", re.MULTILINE),
    ),
    "llm-foundry": (
        LLM_FOUNDRY,
        re.compile(
            r"^(?:global_train_batch_size|device_train_microbatch_size):"
            r"|^[ \t]+name:[ \t]*(?:mpt|hf)_causal_lm\b",
            re.MULTILINE,
        ),
    ),
    "axolotl": (AXOLOTL, re.compile(r"^base_model:", re.MULTILINE)),
    "torchtune": (
        TORCHTUNE,
        re.compile(r"^[^#\n]*\b_component_:\s*[\"']?torchtune\.", re.MULTILINE),
    ),
    "litgpt": (
        LITGPT,
        re.compile(
            rf"^[^#\n]*{COMMAND}"
            r"|^train:(?!\s+_target_:)[^\n]*\n(?:(?:[ \t#][^\n]*)?\n)*?"
            r"[ \t]+(?:global|micro)_batch_size:",
            re.MULTILINE,
        ),
    ),
    "deepspeed": (
        DEEPSPEED,
        re.compile(
            r"\A\s*\{(?=[\s\S]*\"(?:zero_optimization|train_(?:micro_)?batch_size\w*)\"\s*:)"
            rf"|\A(?![\s\S]*(?:{_OF_MEGATRON}))(?=[\s\S]*^[^#\n]*--deepspeed[= \t]+[\"'$\w./])",
            re.MULTILINE,
        ),
    ),
    "maxtext": (
        MAXTEXT,
        re.compile(
            rf"{PROGRAM.pattern}|^(?:ici|dcn)_\w+_parallelism:|^base_(?:emb_dim|config):"
            r"|^per_device_batch_size:",
            re.MULTILINE | re.IGNORECASE,
        ),
    ),
    "nemo": (
        NEMO,
        re.compile(
            r"^[^#\n]*(?:\bmegatron\.bridge\b|\bnemo\.collections\b|\bimport nemo_run\b)"
            r"|\A(?=[\s\S]*^trainer:)[\s\S]*^ +(?:tensor_model_parallel_size|encoder_seq_length):",
            re.MULTILINE,
        ),
    ),
    "primus": (
        PRIMUS,
        re.compile(r"\A(?=[\s\S]*^modules:)[\s\S]*^ +(?:pre|post|sft)_trainer:", re.MULTILINE),
    ),
    "megatron": (MEGATRON, _command(_OF_MEGATRON)),
}
"""Each launch format: how it is read, and a pattern of its files."""


def launch_format(text: str) -> str | None:
    """Return the launch format of a text, the first that its content shows; None for another text.

    >>> launch_format("torchrun pretrain_gpt.py --num-layers 32")
    'megatron'
    """
    return next((name for name, (_, sign) in LAUNCHES.items() if sign.search(text)), None)
