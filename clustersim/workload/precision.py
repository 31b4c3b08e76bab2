"""Precisions: how wide numbers are where they are computed with, kept and sent."""

from typing import Final, NamedTuple


class Precision(NamedTuple):
    """A recipe of training.

    Attributes
    ----------
    peak : the peak rate of an accelerator that its matrix products run at
    width : bytes of an activation as it is kept between operations and sent [B]
    operand : bytes of an input of a matrix product [B]
    cast : whether inputs of products are converted first, with their largest value found
    """

    name: str
    peak: str
    width: int
    operand: int
    cast: bool = False

    @property
    def wide(self) -> str:
        """The peak rate of products that are left in 16 bits where the others have 8."""
        return "bf16" if self.cast else self.peak


PRECISIONS: Final = {
    recipe.name: recipe
    for recipe in (
        Precision("fp32", "fp32", 4, 4),
        Precision("tf32", "tf32", 4, 4),
        Precision("fp16", "fp16", 2, 2),
        Precision("bf16", "bf16", 2, 2),
        Precision("fp8", "fp8", 2, 1, cast=True),
        Precision("mxfp8", "fp8", 2, 1, cast=True),
    )
}
"""By name. In fp8 and mxfp8 the linear layers' products have 8-bit inputs, attention and all that
is kept between operations stay in bf16: Transformer Engine, ``fp8_autocast``."""
