"""Terms of measured kernels: of a device, of the one that it is like, or of the nearest format.

own table -> table of the accelerator that it is like -> nearest number format -> priors
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from clustersim.topology.accelerator import KernelFits

NEAREST: Final[Mapping[str, tuple[str, ...]]] = {
    "fp16": ("bf16",),
    "bf16": ("fp16",),
    "fp8": ("fp8-row", "fp8-block"),
    "fp8-block": ("fp8-block-alone", "fp8"),
    "int8": ("fp8",),
    "int8-weights": ("bf16", "fp16"),
    "int4-weights": ("int8-weights", "mxfp4-weights", "nvfp4-weights", "bf16", "fp16"),
    "nvfp4-weights": ("mxfp4-weights", "int4-weights", "bf16"),
    "mxfp4-weights": ("nvfp4-weights", "int4-weights", "bf16"),
    "nvfp4": ("mxfp4",),
    "mxfp4": ("nvfp4",),
    "mxfp4-mxfp8": ("fp8", "mxfp4-weights"),
    "fp16/fp16": ("bf16/bf16",),
    "bf16/fp8": ("bf16/bf16",),
    "fp8/fp8": ("bf16/fp8", "bf16/bf16"),
}
"""Number formats whose terms another one has where it is not measured, the nearest first."""


class MeasuredTerms(NamedTuple):
    """Terms of a kind of kernel, with the number format or library and the accelerator measured."""

    terms: Mapping[str, float]
    variant: str
    accelerator: str


def measured_terms(
    fits: Sequence[KernelFits], kinds: Sequence[str], variants: Iterable[str]
) -> MeasuredTerms | None:
    """Return the terms of the first variant with a fit; None where none is measured.

    Parameters
    ----------
    kinds : of kernels, the preferred one first
    variants : number formats or libraries, the nearest first
    """
    for variant in variants:
        for fit in fits:
            for kind in kinds:
                if (kind, variant) in fit.terms:
                    return MeasuredTerms(fit.terms[kind, variant], variant, fit.name)
    return None
