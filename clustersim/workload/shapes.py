"""Shapes of models of any size, as those of a family that many have trained.

    family   MLP            key and value heads   vocabulary
    llama    gated, 8/3 h   8 from 32 heads on    32,000
    gpt      4 h            all heads             51,200

Heads are 128 wide, and a model is about 110 times as wide as it has layers, between the 102 of
Llama 2 70B and the 130 of Llama 3 405B.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from clustersim.catalog.records.models import ModelRecord
from clustersim.records import dataclass
from clustersim.workload.model import build_model
from clustersim.workload.parameters import model_parameters

HEAD: Final = 128
"""Width of a head."""

assumed_width_per_layer: Final = 110
"""Width over layers; assumed, between those of published models."""

_STEPS: Final = ((4096, 1024), (2048, 512), (1024, 256))
"""Smallest widths that are a multiple of a number, and that number."""

_LAYERS: Final = ((64, 16), (32, 8), (16, 4), (-math.inf, 2))
"""The same of layers, so that pipelines can divide them."""


@dataclass(frozen=True)
class Family:
    """How the dimensions of a model follow from its width and layers.

    Attributes
    ----------
    base : family of the model file
    ffn : width inside the MLP, by that of the model
    matrices : of the MLP
    grouped : key and value heads of models with 32 heads or more; as many as heads if 0
    """

    name: str
    base: str
    ffn: Callable[[int], int]
    matrices: int
    grouped: int
    vocab: int
    sequence: int

    def kv_heads(self, heads: int) -> int:
        """Return the key and value heads of a model with some heads."""
        return self.grouped if self.grouped and heads >= 32 and not heads % self.grouped else heads

    def per_layer(self, width: int) -> float:
        """Return the parameters of a layer without norms and biases."""
        shared = self.kv_heads(width // HEAD) / (width // HEAD)
        return width * width * (2 + 2 * shared) + self.matrices * width * self.ffn(width)

    def ends(self, width: int) -> float:
        """Return the parameters of the embedding, and of the logits where these are apart."""
        return width * self.vocab * (1 if self.base == "gpt" else 2)


def _eight_thirds(width: int) -> int:
    return -(-width * 8 // (3 * 256)) * 256


FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "llama": Family("llama", "llama", _eight_thirds, 3, 8, 32_000, 4096),
        "gpt": Family("gpt", "gpt", lambda width: 4 * width, 2, 0, 51_200, 2048),
    }
)
"""The families by name."""

SMALLEST: Final = 128
"""Width of the smallest model, whose multiple the others are."""


def shape_of(family: Family, parameters: float) -> dict[str, Any]:
    """Return the keys of a model file of about this many parameters.

    >>> shape = shape_of(FAMILIES["llama"], 7e9)
    >>> shape["hidden"], shape["layers"], round(shape["parameters"]["value"] / 1e9, 1)
    (4096, 40, 7.4)
    """
    wide = (parameters * assumed_width_per_layer / 11) ** (1 / 3)
    step = next((step for least, step in _STEPS if wide >= least), SMALLEST)
    width = max(SMALLEST, round(wide / step) * step)
    layers = (parameters - family.ends(width)) / family.per_layer(width)
    each = next(each for least, each in _LAYERS if layers >= least)
    layers = max(each, round(layers / each) * each)
    heads = width // HEAD
    shape = {
        "kind": "model",
        "name": f"{family.name}-like",
        "title": f"A model as those of the family {family.name}",
        "family": family.base,
        "layers": int(layers),
        "hidden": width,
        "heads": heads,
        "kv_heads": family.kv_heads(heads),
        "ffn": family.ffn(width),
        "vocab": family.vocab,
        "sequence": family.sequence,
        "source": "shapes",
        "sources": {"shapes": {"title": "clustersim, workload/shapes.py"}},
    }
    return {**shape, "parameters": {"value": _count(shape), "assumed": "sum of its shape"}}


def _count(shape: Mapping[str, Any]) -> float:
    counted = {**shape, "parameters": {"value": 1.0, "assumed": "not counted yet"}}
    record = ModelRecord.model_validate(counted)
    return float(round(model_parameters(build_model(record, record.sequence, 1, 1))))
