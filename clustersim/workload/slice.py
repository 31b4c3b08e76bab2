"""A slice: the work of one rank on one microbatch.

Letters in the formulas: b sequences of a microbatch, s tokens, h hidden, f ffn, a heads,
t tensor ranks, c context ranks, V vocabulary.
"""

import math
from dataclasses import field
from typing import Final, NamedTuple

from clustersim.catalog.records.frameworks import ExpertFacts, KernelFacts
from clustersim.catalog.records.models import ExpertShape
from clustersim.records import dataclass
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
    operand : bytes of an input of a matrix product, with its share of a scale [B]
    cast : whether inputs of products are converted first, with a search for their maximum
    whole : whether converted tensors have one scale and no others, so that they can be transposed
    searched : whether the maximum of a tensor is found before it is converted in any framework
    """

    name: str
    peak: str
    width: int
    operand: float
    cast: bool = False
    whole: bool = False
    searched: bool = False

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
        Precision("nvfp4", "fp4", 2, 9 / 16, cast=True, searched=True),
    )
}
"""By name. In fp8, mxfp8 and nvfp4 the products of linear layers have inputs of 8 and 4 bits;
attention and stored activations stay in bf16: Transformer Engine, ``fp8_autocast`` and
``NVFP4BlockScaling``."""


UNSTATED_EXPERTS: Final = ExpertFacts.model_construct(grouped=True, once_per_node=False)
"""How layers with experts run in a framework that does not offer them."""


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
    kernels, expert_kernels : the kernels of the framework
    precision : precision of products, storage and communication
    finetune : adapters that are trained instead of the model; None without any
    frozen_ends : ends of the model that are not trained where its layers are
    """

    model: Transformer
    micro: int
    tensor: int
    kernels: KernelFacts
    sequence_parallel: bool = False
    context: int = 1
    context_method: str = "ring"
    expert: int = 1
    expert_tensor: int = 1
    routing: Routing = BALANCED
    precision: Precision = field(default=PRECISIONS["bf16"])
    finetune: Finetune | None = None
    frozen_ends: frozenset[str] = frozenset()
    expert_kernels: ExpertFacts = UNSTATED_EXPERTS

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
