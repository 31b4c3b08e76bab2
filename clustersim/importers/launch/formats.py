"""The launch formats by name, and how the content of a file shows its format."""

import re
from collections.abc import Mapping
from typing import Final

from clustersim.importers.launch.megatron import MEGATRON
from clustersim.importers.launch.table import Launch

LAUNCHES: Final[Mapping[str, tuple[Launch, re.Pattern[str]]]] = {
    "megatron": (
        MEGATRON,
        re.compile(
            r"^[^#\n]*(?:--tensor-model-parallel-size|--num-attention-heads|pretrain_gpt\w*\.py)",
            re.MULTILINE,
        ),
    ),
}
"""Each launch format: how it is read, and a pattern of its files."""


def launch_format(text: str) -> str | None:
    """Return the launch format of a text, the first that its content shows; None for another text.

    >>> launch_format("torchrun pretrain_gpt.py --num-layers 32")
    'megatron'
    """
    return next((name for name, (_, sign) in LAUNCHES.items() if sign.search(text)), None)
