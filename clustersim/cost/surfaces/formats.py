"""Number formats of measured kernels: bytes of activations and weights, and the peak they use."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class NumberFormat(NamedTuple):
    """Operands of a product.

    Attributes
    ----------
    peak : key among an accelerator's peaks
    activation, weight : size of a number, with its share of a scale [B]
    quantised : whether the kernel converts activations from 16 bits before the product
    """

    peak: str
    activation: float
    weight: float
    quantised: bool = False


OUTPUT: Final = 2.0
"""Size of a result [B]: all formats accumulate in 32 bits and write 16."""

FORMATS: Final[Mapping[str, NumberFormat]] = {
    "bf16": NumberFormat("bf16", 2, 2),
    "fp16": NumberFormat("fp16", 2, 2),
    "fp8": NumberFormat("fp8", 1, 1, quantised=True),
    "fp8-block": NumberFormat("fp8", 1, 1, quantised=True),
    "fp8-block-alone": NumberFormat("fp8", 1, 1),
    "fp8-row": NumberFormat("fp8", 1, 1),
    "int8": NumberFormat("int8", 1, 1, quantised=True),
    "int8-weights": NumberFormat("bf16", 2, 1),
    "int4-weights": NumberFormat("bf16", 2, 0.5),
    "nvfp4": NumberFormat("fp4", 9 / 16, 9 / 16, quantised=True),
    "nvfp4-weights": NumberFormat("bf16", 2, 9 / 16),
    "mxfp4": NumberFormat("fp4", 17 / 32, 17 / 32),
    "mxfp4-weights": NumberFormat("bf16", 2, 17 / 32),
    "mxfp4-mxfp8": NumberFormat("fp8", 33 / 32, 17 / 32, quantised=True),
}
"""Formats by name.  `fp8` has a scale for each tensor, `-block` for blocks of 128, `-row` for each
row; those and `-alone` are measured without the conversion; `-weights` are stored narrow and
multiplied in 16 bits.  A scale of 8 bits is shared by 16 numbers in nvfp4, by 32 in mxfp4: OCP
Microscaling Formats 1.0."""


def format_peak(variant: str) -> str:
    """Return the peak of products in a number format."""
    return FORMATS[variant].peak
