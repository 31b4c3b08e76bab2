"""Fine-tuning: which weights are trained, and how frozen ones are stored.

A linear layer W of k inputs and n outputs is frozen, and an adapter is trained next to it:

    lora    y = x W + x A B                       A is k by r, B is r by n
    dora    y = m (x W + x A B) / |W + A B|       and one magnitude m per output
    qlora   lora with quantised weights, dequantised before every product

Hu et al. 2021, arXiv:2106.09685; Liu et al. 2024, arXiv:2402.09353; Dettmers et al. 2023,
arXiv:2305.14314.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from clustersim.records import dataclass
from clustersim.workload.model import Layer, Transformer
from clustersim.workload.parameters import Parameters, layer_parameters

ENDS: Final = ("embedding", "logits")
"""Ends of the model that can be frozen where its layers are trained."""


@dataclass(frozen=True)
class Finetune:
    """Adapters of frozen weights.

    Attributes
    ----------
    method : ``lora`` (low-rank products), ``dora`` (with a norm of the sum) or ``qlora`` (with
        quantised weights)
    rank : inner dimension of the adapters
    targets : linear layers with adapters, of ``qkv``, ``output`` and ``mlp``
    bits : bits of a frozen weight: 16, 8 or 4
    quantiser : ``bnb`` or ``hqq``, whose blocks and constants differ
    dropout : whether the input of an adapter has dropout
    merged : whether projections of the same input are merged and share one adapter
    """

    method: str
    rank: int
    targets: frozenset[str]
    bits: int = 16
    quantiser: str = "bnb"
    dropout: bool = True
    merged: bool = False

    @property
    def quantised(self) -> bool:
        """Whether frozen weights are dequantised before a product."""
        return self.bits < 16

    def constants(self, inputs: int) -> float:
        """Return the bytes of constants per weight, in rows of `inputs` weights [B]."""
        return _CONSTANTS[self.quantiser, self.bits](inputs) if self.quantised else 0.0

    def adapter(self, inputs: int, outputs: int) -> int:
        """Return the trained parameters of one adapter: r (k + n), and n magnitudes for DoRA."""
        return self.rank * (inputs + outputs) + (outputs if self.method == "dora" else 0)


def _nf4(_inputs: int) -> float:
    """Blocks of 64 weights with an 8-bit scale, and a 32-bit scale per 256 blocks.

    Dettmers et al. 2023, section 3, double quantisation: 0.127 bits per weight.
    """
    return 1 / 64 + 4 / (64 * 256)


def _row_wise(inputs: int) -> float:
    """A 32-bit scale for each row. bitsandbytes, ``nn/modules.py``, ``Int8Params``, ``SCB``."""
    return 4 / inputs


def _hqq(_inputs: int) -> float:
    """Groups of 64 weights with 8-bit scale and zero; two 16-bit numbers per 128 scales.

    HQQ, ``core/quantize.py``, ``BaseQuantizeConfig`` with ``quant_zero`` and ``quant_scale``.
    """
    return 2 / 64 + 4 / (64 * 128)


_CONSTANTS: Final[dict[tuple[str, int], Callable[[int], float]]] = {
    ("bnb", 4): _nf4,
    ("bnb", 8): _row_wise,
    ("hqq", 4): _hqq,
    ("hqq", 8): _hqq,
}


class Linear(NamedTuple):
    """A linear layer: its name as a target, its inputs k and its outputs n.

    `split_inputs`: tensor ranks split its inputs instead of its outputs.
    """

    target: str
    inputs: int
    outputs: int
    split_inputs: bool = False


def linears(model: Transformer, *, merged: bool = False) -> list[Linear]:
    """Return the linear layers of a layer with an MLP that can have adapters.

    Queries, keys and values are separate, and so are the projections of a gated MLP, as in Hugging
    Face's ``modeling_llama.py``; merged, each group is one layer.
    """
    h, d, f = model.hidden, model.head_size, model.ffn
    qkv = [model.query_heads * d, model.kv_heads * d, model.kv_heads * d]
    up = [f] * (2 if model.gated else 1)
    return [
        *(Linear("qkv", h, n) for n in ([sum(qkv)] if merged else qkv)),
        Linear("output", model.heads * d, h, split_inputs=True),
        *(Linear("mlp", h, n) for n in ([sum(up)] if merged else up)),
        Linear("mlp", f, h, split_inputs=True),
    ]


def trainable(model: Transformer, layer: Layer, finetune: Finetune | None) -> Parameters:
    """Return the trained parameters of a layer: all of them, or those of its adapters.

    Tensor ranks split the adapter factor along the split dimension of W and replicate the other.
    """
    if finetune is None:
        return layer_parameters(model, layer)
    total = Parameters()
    for each in linears(model, merged=finetune.merged):
        if each.target in finetune.targets:
            whole = finetune.rank * (each.outputs if each.split_inputs else each.inputs)
            split = finetune.adapter(each.inputs, each.outputs) - whole
            total = total.plus(Parameters(split=split, whole=whole))
    return total


class Frozen(NamedTuple):
    """Bytes of frozen weights, by how ranks split them.

    Attributes
    ----------
    weights : the weights, which sharded data parallelism shards as well
    constants : scales of quantised blocks, which every rank keeps on its device: they are
        attributes of the weight and not parameters, so they are neither sharded nor offloaded
    """

    weights: Parameters = Parameters()
    constants: Parameters = Parameters()

    def plus(self, other: "Frozen") -> "Frozen":
        """Return the sum of both."""
        return Frozen(self.weights.plus(other.weights), self.constants.plus(other.constants))

    def scaled(self, count: float) -> "Frozen":
        """Return the bytes of as many layers."""
        return Frozen(self.weights.scaled(count), self.constants.scaled(count))


def frozen_bytes(
    model: Transformer, layer: Layer, finetune: Finetune | None, width: float = 2.0
) -> Frozen:
    """Return the bytes of the frozen weights of a layer; zero if all of it is trained.

    Only linear layers are quantised. Every device keeps all constants: ``QuantState`` of
    bitsandbytes and ``meta`` of HQQ are attributes of the layer (AnswerDotAI/fsdp_qlora,
    ``train.py``, ``load_and_quantize``).

    Parameters
    ----------
    width : bytes of an unquantised weight [B]
    """
    if finetune is None:
        return Frozen()
    weights = layer_parameters(model, layer).scaled(width)
    if not finetune.quantised:
        return Frozen(weights)
    narrower, constants = 0.0, 0.0
    for each in linears(model):
        size = each.inputs * each.outputs
        narrower += size * (width - finetune.bits / 8)
        constants += size * finetune.constants(each.inputs)
    weights = weights.plus(Parameters(split=-narrower))
    return Frozen(weights, Parameters(split=constants))


def tuned_flops(
    model: Transformer,
    finetune: Finetune | None,
    sequences: int,
    frozen_ends: frozenset[str] = frozenset(),
) -> float:
    r"""Return the FLOPs of fine-tuning minus those of training all weights [FLOP].

    .. math:: B s (6 P_{adapters} - 2 P_{frozen})

    Frozen linear layers and logits have no product for their weight gradient; adapters have three
    products, forward and backward. The norm of DoRA is not counted.
    """
    if finetune is None:
        logits = model.hidden * model.vocab if "logits" in frozen_ends else 0
        return -2.0 * sequences * model.sequence * logits
    adapters = sum(
        finetune.rank * (each.inputs + each.outputs)
        for each in linears(model, merged=finetune.merged)
        if each.target in finetune.targets
    )
    frozen = sum(each.inputs * each.outputs for each in linears(model))
    of_layers = model.layers * (6.0 * adapters - 2.0 * frozen)
    return sequences * model.sequence * (of_layers - 2.0 * model.hidden * model.vocab)
