"""A slice: the work of one rank on one microbatch.

Letters in the formulas: b sequences of a microbatch, s tokens, h hidden, f ffn, a heads,
t tensor ranks, c context ranks, V vocabulary.
"""

import math
from dataclasses import dataclass, field, fields
from typing import Final, NamedTuple

from clustersim.catalog.frameworks import FrameworkRecord, KernelFacts
from clustersim.catalog.models import ExpertShape
from clustersim.workload.finetune import Finetune
from clustersim.workload.kernels import Collective, Gemm
from clustersim.workload.model import Transformer
from clustersim.workload.routing import BALANCED, Routing


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


@dataclass(frozen=True)
class KernelChoice:
    """The kernels of a layer in a framework.

    Attributes
    ----------
    attention : ``flash``, ``fused-softmax``, ``math`` or ``unfused``
    bias_gelu_fused, bias_dropout_fused : whether these chains are fused into one kernel
    gradient_accumulation : bytes moved per weight and microbatch to accumulate gradients [B]
    loss_forward, loss_backward : bytes moved per logit by the cross-entropy [B]
    tensor_overlap : whether tensor-parallel collectives overlap with the products of the backward
    gated_fused, rotary_fused, norm_fused : whether the activation and product of a gated MLP,
        rotary position embedding and RMSNorm are one kernel each
    gate_merged : whether the gate and up projections of a gated MLP are one product
    norm_persistent : whether the backward of a norm is a single pass
    dropout_mask : bytes per element of a saved dropout mask [B]
    experts_grouped : whether the products of a rank's experts are one grouped kernel
    dispatched : bytes per element of dispatched activations; their stored width if None [B]
    rows_sorted : whether received rows are copied into the order of the experts, and back
    rows_counted : whether row counts and routing weights are separate messages
    experts_separate : whether products and conversions are issued for each expert
    experts_fused : whether activation and conversions are part of the experts' products
    experts_padded : whether rows are copied to multiples that 8-bit products need, and back
    bookkeeping : small kernels that count and number rows, forward and backward
    products_share : rate of matrix products relative to the device file
    attention_share : rate of flash attention relative to the device file
    attention_cudnn : whether flash attention is cuDNN's, if the device file has it
    query_copies, key_copies, result_copies : layout copies of queries, keys with values, and the
        result around flash attention, forward and backward; of the result only with several
        sequences per microbatch
    query_kept : tensors of their size that queries keep alive where keys are not shared [count]
    kv_repeated : whether keys and values are copied to the queries that share them
    adapters_scaled : whether the products of an adapter scale their results without a pass
    ring_result, ring_gradients : bytes moved to merge the partial results of ring attention, once
        and for each step after the first, per element of the result, and of queries, keys and
        values [B]
    ring_sent : bytes that each rank of a ring sends in the backward, once and for each step after
        the first, per element of its keys and values; both and their gradients if None [B]
    ring_waits : whether transfers of the ring are waited for before attention
    tensor_pipelined : whether tensor-parallel collectives are pipelined with adjacent products
    cast_searched : whether a separate pass finds the scale of a tensor converted to 8 bits
    loss_kept : bytes saved per logit by the loss; None for both widths of it [B]
    weight_cast_forward, weight_cast_backward : bytes moved per use to cast a weight to 8 bits; none
        if weights are cast once per step [B]
    """

    attention: str
    bias_gelu_fused: bool
    bias_dropout_fused: bool
    gradient_accumulation: float
    loss_forward: float
    loss_backward: float
    tensor_overlap: bool = False
    gated_fused: bool = True
    gate_merged: bool = True
    rotary_fused: bool = True
    norm_fused: bool = True
    norm_persistent: bool = False
    dropout_mask: float = 1
    experts_grouped: bool = True
    dispatched: float | None = None
    rows_sorted: bool = False
    rows_counted: bool = False
    experts_separate: bool = False
    experts_fused: bool = False
    experts_padded: bool = False
    bookkeeping: tuple[int, int] = (0, 0)
    cast_searched: bool = False
    products_share: float = 1.0
    attention_share: float = 1.0
    attention_cudnn: bool = False
    loss_kept: float | None = None
    weight_cast_forward: float = 0.0
    weight_cast_backward: float = 0.0
    query_copies: tuple[int, int] = (0, 0)
    key_copies: tuple[int, int] = (0, 0)
    result_copies: tuple[int, int] = (0, 0)
    query_kept: int = 1
    kv_repeated: bool = False
    adapters_scaled: bool = False
    ring_result: tuple[float, float] = (0.0, 0.0)
    ring_gradients: tuple[float, float] = (0.0, 0.0)
    ring_sent: tuple[float, float] | None = None
    ring_waits: bool = False
    tensor_pipelined: bool = False


def kernel_choice(framework: FrameworkRecord, recipe: str) -> KernelChoice:
    """Return the kernels of a framework file, with the documented defaults.

    Parameters
    ----------
    recipe : name of the precision, which may have its own gradient accumulation
    """
    facts, experts = framework.kernels, framework.experts
    known = {field.name for field in fields(KernelChoice)}
    chosen = {name: getattr(facts, name) for name in KernelFacts.model_fields if name in known}
    if experts is not None:
        chosen |= {"experts_grouped": experts.grouped, "dispatched": experts.dispatched}
        chosen |= {"rows_sorted": experts.sorted, "rows_counted": experts.counted}
        chosen |= {"experts_separate": experts.separate, "experts_fused": experts.fused}
        chosen |= {"bookkeeping": experts.bookkeeping, "experts_padded": experts.padded}
    if (own := framework.state[recipe].accumulation) is not None:
        chosen["gradient_accumulation"] = own
    return KernelChoice(**{name: value for name, value in chosen.items() if value is not None})


@dataclass(frozen=True)
class Slice:
    """The work of one rank on one microbatch.

    Attributes
    ----------
    micro : sequences per microbatch
    tensor : ranks that share each layer
    sequence_parallel : whether these split norms and dropouts by tokens
    context, context_method : ranks that share each sequence, and the method of attention: ``ring``,
        ``all-gather`` or ``ulysses``
    expert, expert_tensor : ranks that share the experts of a layer, and those that share an expert
    routing : the load of ranks in a layer with experts
    kernels : the kernels of the framework
    precision : precision of products, storage and communication
    finetune : adapters that are trained instead of the model; None without any
    frozen_ends : ends of the model that are not trained where its layers are
    """

    model: Transformer
    micro: int
    tensor: int
    kernels: KernelChoice
    sequence_parallel: bool = False
    context: int = 1
    context_method: str = "ring"
    expert: int = 1
    expert_tensor: int = 1
    routing: Routing = BALANCED
    precision: Precision = field(default=PRECISIONS["bf16"])
    finetune: Finetune | None = None
    frozen_ends: frozenset[str] = frozenset()

    @property
    def frozen(self) -> bool:
        """Whether the weights of the model are frozen, so that they have no gradients."""
        return self.finetune is not None

    def adapts(self, target: str) -> bool:
        """Whether linear layers have adapters: ``qkv``, ``output`` or ``mlp``."""
        return self.finetune is not None and target in self.finetune.targets

    def freezes(self, end: str) -> bool:
        """Whether an end of the model is frozen: ``embedding`` or ``logits``."""
        return self.frozen or end in self.frozen_ends

    @property
    def width(self) -> int:
        """Bytes of an activation."""
        return self.precision.width

    @property
    def tokens(self) -> int:
        """Tokens of a microbatch on this rank, b s / c."""
        return self.micro * self.model.sequence // self.context

    @property
    def stream(self) -> float:
        """Elements of the residual stream in matrix products, b s h / c."""
        return float(self.tokens * self.model.hidden)

    @property
    def shared(self) -> int:
        """Ranks that split the residual stream between products: t in sequence parallelism."""
        return self.tensor if self.sequence_parallel else 1

    @property
    def residual(self) -> float:
        """Elements of the residual stream between products, b s h / c, over t if split."""
        return self.stream / self.shared

    @property
    def attention(self) -> str:
        """The attention kernel of this slice: the fused softmax does not support all shapes.

        It needs at most 2,048 keys, and multiples of four rows and attention matrices. Megatron-LM,
        ``megatron/model/fused_softmax.py``, ``is_kernel_available``.
        """
        chosen, sequence = self.kernels.attention, self.model.sequence
        matrices = self.micro * self.model.heads // self.tensor
        supported = sequence <= 2048 and sequence % 4 == 0 and matrices % 4 == 0
        return "unfused" if chosen == "fused-softmax" and not supported else chosen

    @property
    def scores(self) -> float:
        """Elements of the attention matrix of this rank, b a s^2 / t c."""
        rows = float(self.model.sequence) ** 2 / self.context
        return self.micro * self.model.heads * rows / self.tensor

    @property
    def experts(self) -> ExpertShape:
        """The mixture of experts of the model, which has one."""
        assert self.model.experts is not None
        return self.model.experts

    @property
    def heads(self) -> int:
        """Query heads of this rank."""
        return self.model.heads // self.tensor

    @property
    def kv_heads(self) -> int:
        """Key and value heads of this rank, replicated if there are fewer than ranks."""
        return max(1, self.model.kv_heads // self.tensor)

    def gemm(
        self, name: str, m: int, n: int, k: int, batch: int = 1, *, of_weight: bool = False
    ) -> Gemm:
        """Return a matrix product of a linear layer in this slice's precision."""
        peak, width = self.precision.peak, self.precision.operand
        share = self.kernels.products_share
        return Gemm(name, m, n, k, batch, peak=peak, width=width, of_weight=of_weight, share=share)

    def wide(self, name: str, m: int, n: int, k: int, *, of_weight: bool = False) -> Gemm:
        """Return a matrix product that stays in 16 bits in 8-bit recipes."""
        peak, width = self.precision.wide, self.width
        share = self.kernels.products_share
        return Gemm(name, m, n, k, peak=peak, width=width, of_weight=of_weight, share=share)

    def core(self, name: str, m: int, n: int, k: int, batch: int) -> Gemm:
        """Return a product of the attention core, which stays in 16 bits in 8-bit recipes.

        Rows of its operands have the width of a head or the number of keys; heads are adjacent.
        """
        peak, row = self.precision.wide, math.gcd(m, n, k)
        width, share = self.width, self.kernels.products_share
        return Gemm(
            name, m, n, k, batch, attention=True, peak=peak, width=width, row=row, share=share
        )

    def over_tensor(self, name: str, operation: str, nbytes: float) -> list[Collective]:
        """Return a collective of the tensor group; none for a single rank."""
        return [] if self.tensor == 1 else [Collective(name, operation, nbytes)]
