"""Fine-tuning: which weights are trained, and how those that are not are stored.

A linear layer W of k inputs and n outputs stays frozen. Beside it an adapter is trained:

    lora    y = x W + x A B                       A is k by r, B is r by n
    dora    y = m (x W + x A B) / |W + A B|       and one magnitude m for each output
    qlora   lora beside weights of few bits, made wide again before every product

Hu et al. 2021, arXiv:2106.09685; Liu et al. 2024, arXiv:2402.09353; Dettmers et al. 2023,
arXiv:2305.14314.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from clustersim.workload.model import Layer, Transformer
from clustersim.workload.parameters import Parameters, layer_parameters


@dataclass(frozen=True)
class Finetune:
    """Adapters beside frozen weights.

    Attributes
    ----------
    method : ``lora`` (low-rank products beside the linear layers), ``dora`` (with a norm of the
        sum) or ``qlora`` (beside weights of few bits)
    rank : inner dimension of the adapters
    targets : linear layers that have one, of ``qkv``, ``output`` and ``mlp``
    bits : of a frozen weight: 16, 8 or 4
    quantiser : ``bnb`` or ``hqq``, whose blocks and constants differ
    dropout : whether an adapter drops some of its input out
    merged : whether layers that read the same input are one, with one adapter
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
        """Whether frozen weights have to be made wide before a product."""
        return self.bits < 16

    def constants(self, inputs: int) -> float:
        """Return the bytes of constants beside one weight of a row of `inputs` weights [B]."""
        return _CONSTANTS[self.quantiser, self.bits](inputs) if self.quantised else 0.0

    def adapter(self, inputs: int, outputs: int) -> int:
        """Return the trained parameters beside a linear layer: r (k + n), and n magnitudes."""
        return self.rank * (inputs + outputs) + (outputs if self.method == "dora" else 0)


def _nf4(_inputs: int) -> float:
    """Blocks of 64 with an 8-bit scale each, and a 32-bit one for 256 of these.

    Dettmers et al. 2023, section 3, double quantisation: 0.127 bits a weight.
    """
    return 1 / 64 + 4 / (64 * 256)


def _row_wise(inputs: int) -> float:
    """A 32-bit scale for each row. bitsandbytes, ``nn/modules.py``, ``Int8Params``, ``SCB``."""
    return 4 / inputs


def _hqq(_inputs: int) -> float:
    """Groups of 64 with scale and zero in 8 bits; two 16-bit numbers for 128 scales.

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
    """A linear layer: what it is a target as, its inputs k and its outputs n.

    `split_inputs` tells whether tensor ranks share its inputs instead of its outputs.
    """

    target: str
    inputs: int
    outputs: int
    split_inputs: bool = False


def linears(model: Transformer, *, merged: bool = False) -> list[Linear]:
    """Return the linear layers of a layer with an MLP, each as it can have an adapter.

    Queries, keys and values are three, and so are the products of a gated MLP, as in Hugging
    Face's ``modeling_llama.py``; merged they are one each.
    """
    h, d, f = model.hidden, model.head_size, model.ffn
    qkv = [model.heads * d, model.kv_heads * d, model.kv_heads * d]
    up = [f] * (2 if model.gated else 1)
    return [
        *(Linear("qkv", h, n) for n in ([sum(qkv)] if merged else qkv)),
        Linear("output", model.heads * d, h, split_inputs=True),
        *(Linear("mlp", h, n) for n in ([sum(up)] if merged else up)),
        Linear("mlp", f, h, split_inputs=True),
    ]


def trainable(model: Transformer, layer: Layer, finetune: Finetune | None) -> Parameters:
    """Return the parameters of a layer that are trained: all of them, or those of its adapters.

    Of an adapter tensor ranks share the factor that lies along the side of W which they share;
    they hold the other one whole.
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
    """Bytes of frozen weights, by how ranks share them.

    Attributes
    ----------
    weights : the numbers themselves, which sharded data parallelism shares as well
    constants : scales of quantised blocks, which every rank keeps on its device: they hang on the
        weight and are no parameter, so that nothing shards or offloads them
    """

    weights: Parameters = Parameters()
    constants: Parameters = Parameters()

    def plus(self, other: "Frozen") -> "Frozen":
        """Return both together."""
        return Frozen(self.weights.plus(other.weights), self.constants.plus(other.constants))


def frozen_bytes(
    model: Transformer, layer: Layer, finetune: Finetune | None, width: float = 2.0
) -> Frozen:
    """Return what the frozen weights of a layer take: nothing where all of it is trained.

    Only linear layers are quantised. The constants stay whole on every device: ``QuantState`` of
    bitsandbytes and ``meta`` of HQQ are attributes of the layer (AnswerDotAI/fsdp_qlora,
    ``train.py``, ``load_and_quantize``).

    Parameters
    ----------
    width : bytes of a weight that is not quantised [B]
    """
    if finetune is None:
        return Frozen()
    held = layer_parameters(model, layer)
    weights = Parameters(*(width * count for count in held))
    if not finetune.quantised:
        return Frozen(weights)
    narrower, constants = 0.0, 0.0
    for each in linears(model):
        size = each.inputs * each.outputs
        narrower += size * (width - finetune.bits / 8)
        constants += size * finetune.constants(each.inputs)
    weights = weights.plus(Parameters(split=-narrower))
    return Frozen(weights, Parameters(split=constants))


def tuned_flops(model: Transformer, finetune: Finetune | None, sequences: int) -> float:
    r"""Return what fine-tuning computes more than training all weights; less is negative [FLOP].

    .. math:: B s (6 P_{adapters} - 2 P_{frozen})

    Frozen linear layers and logits have no product for the gradient of their weight; adapters have
    three, forward and backward. The norm of DoRA is not counted.
    """
    if finetune is None:
        return 0.0
    adapters = sum(
        finetune.rank * (each.inputs + each.outputs)
        for each in linears(model, merged=finetune.merged)
        if each.target in finetune.targets
    )
    frozen = sum(each.inputs * each.outputs for each in linears(model))
    of_layers = model.layers * (6.0 * adapters - 2.0 * frozen)
    return sequences * model.sequence * (of_layers - 2.0 * model.hidden * model.vocab)
