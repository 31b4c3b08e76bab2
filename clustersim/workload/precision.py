"""Precisions: the width of numbers in computation, storage and communication."""

from typing import Final, NamedTuple


class Precision(NamedTuple):
    """A precision recipe.

    Attributes
    ----------
    peak : the name of the accelerator's peak rate for matrix products
    width : bytes of an activation in storage and communication [B]
    operand : bytes of an input of a matrix product [B]
    cast : whether inputs of products are converted first, with a search for their maximum
    whole : whether converted tensors have one scale
    """

    name: str
    peak: str
    width: int
    operand: int
    cast: bool = False
    whole: bool = False

    @property
    def wide(self) -> str:
        """The peak rate of products that stay in 16 bits in 8-bit recipes."""
        return "bf16" if self.cast else self.peak


PRECISIONS: Final = {
    recipe.name: recipe
    for recipe in (
        Precision("fp32", "fp32", 4, 4),
        Precision("tf32", "tf32", 4, 4),
        Precision("fp16", "fp16", 2, 2),
        Precision("bf16", "bf16", 2, 2),
        Precision("fp8", "fp8", 2, 1, cast=True, whole=True),
        Precision("mxfp8", "fp8", 2, 1, cast=True),
    )
}
"""By name. In fp8 and mxfp8 the products of linear layers have 8-bit inputs; attention and stored
activations stay in bf16: Transformer Engine, ``fp8_autocast``."""
