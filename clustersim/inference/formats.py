"""Number formats of a served model, by part, and the kernels that multiply them.

weights    activations    products
fp8        8 bits         fp8 by fp8
int8       16 bits        int8-weights: read narrow, multiplied in 16 bits
int8       8 bits         int8 by int8
int4       16 bits        int4-weights
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from clustersim.cost.surfaces.formats import FORMATS
from clustersim.errors import PlanError
from clustersim.topology.accelerator import Accelerator

if TYPE_CHECKING:
    from clustersim.catalog.records.engines import EngineRecord

SIXTEEN: Final = ("fp16", "bf16")
"""Formats of 16 bits."""

PRODUCTS: Final[Mapping[tuple[str, str], str]] = {
    ("fp16", "fp16"): "fp16",
    ("bf16", "bf16"): "bf16",
    ("fp8", "fp8"): "fp8",
    ("fp8-block", "fp8"): "fp8-block",
    ("int8", "int8"): "int8",
    ("nvfp4", "nvfp4"): "nvfp4",
    ("mxfp4", "mxfp4"): "mxfp4",
    ("mxfp4", "mxfp8"): "mxfp4-mxfp8",
}
"""Kernels of products by the formats of weights and activations, as in `cost.surfaces.formats`.
Weights in other formats than their activations are multiplied in 16 bits."""

ALONE: Final[Mapping[str, str]] = {
    "fp8": "int8-weights",
    "fp8-block": "int8-weights",
    "int8": "int8-weights",
    "int4": "int4-weights",
    "nvfp4": "nvfp4-weights",
    "mxfp4": "mxfp4-weights",
}
"""Kernels of weights that are read narrow and multiplied in 16 bits."""

WEIGHTS: Final[Mapping[str, float]] = {
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "fp8-block": 1.0 + 4 / 128**2,
    "int8": 1.0,
    "int4": 0.5 + 2.5 / 128,
    "nvfp4": 9 / 16,
    "mxfp4": 17 / 32,
}
"""Size of a weight in memory with its share of scales [B]: of 4 bytes for a block of 128 by 128,
of 16 and 4 bits for 128 numbers in int4 (GPTQ, AWQ), of 8 bits for 16 and 32 in the others."""

USUAL: Final[Mapping[str, str]] = {
    "fp8": "fp8", "fp8-block": "fp8", "nvfp4": "nvfp4", "mxfp4": "mxfp8",
}  # fmt: skip
"""Activations of weights where the scenario names none; 16 bits with all others."""

BLOCKS: Final = frozenset({"nvfp4", "mxfp4"})
"""Formats of 4 bits, whose blocks have scales in the products of devices that multiply 4 bits."""

KV_BYTES: Final[Mapping[str, float]] = {"fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0}
"""Size of a cached number [B]."""


NARROW_PROMPTS: Final = "fp8/fp8"
"""Formats of queries and cached keys where both have 8 bits."""


class Formats(NamedTuple):
    """Number formats of a served model.

    Attributes
    ----------
    weights : of the linear layers
    activations : of the inputs of their products; None for the usual ones of the weights
    kv : of cached keys and values
    wide : the 16-bit format of all other numbers: embedding, logits, router, residuals
    attention, experts : of the weights of these parts, where they differ
    """

    weights: str = "bf16"
    activations: str | None = None
    kv: str = "bf16"
    wide: str = "bf16"
    attention: str | None = None
    experts: str | None = None

    def weight(self, part: str) -> str:
        """Return the format of the weights of ``attention``, ``mlp``, ``experts`` or ``head``."""
        if part == "head":
            return self.wide
        own = {"attention": self.attention, "experts": self.experts}.get(part)
        return own or self.weights

    def kernel(self, part: str, device: Accelerator) -> str:
        """Return the kernel that multiplies the weights of a part on a device.

        A device without a peak in the format of the activations multiplies in 16 bits, and one
        without products in 4 bits scales no blocks of mxfp4 either.
        """
        weight = self.weight(part)
        stated = self.activations if weight == self.weights else None
        activation = stated or USUAL.get(weight, self.wide)
        if weight in SIXTEEN:
            return weight
        kernel = PRODUCTS.get((weight, activation))
        needed = {FORMATS[kernel].peak} if kernel is not None else set()
        if weight in BLOCKS:
            needed.add("fp4")
        if kernel is not None and needed <= device.peak.keys():
            return kernel
        return ALONE[weight]

    def attention_kernel(self) -> str:
        """Return the formats of queries and cached keys, as in `cost.surfaces.decode`."""
        return "bf16/fp8" if KV_BYTES[self.kv] == 1 else "bf16/bf16"


def check_formats(formats: Formats, engine: "EngineRecord") -> None:
    """Check that an engine has kernels for the formats.

    Raises
    ------
    PlanError
        with one line for each part whose format it lacks.
    """
    facts = engine.formats
    weights, activations, kv = facts.weights, facts.activations, facts.kv
    allowed: Mapping[str, Sequence[str]] = {
        "weights": weights, "attention": weights, "experts": weights,
        "activations": activations, "kv": kv,
    }  # fmt: skip
    problems = [
        f"precision.{part}: engine '{engine.name}' has no {name} (allowed: {', '.join(names)})"
        for part, names in allowed.items()
        if (name := getattr(formats, part)) is not None and name not in names
    ]
    if problems:
        raise PlanError("\n".join(problems))
