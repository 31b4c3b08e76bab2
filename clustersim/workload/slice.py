"""A slice: what one rank computes on for one microbatch.

Letters in the formulas: b sequences of a microbatch, s tokens, h hidden, f ffn, a heads,
t tensor ranks, c context ranks, V vocabulary.
"""

import math
from dataclasses import dataclass, field, fields

from clustersim.catalog.frameworks import FrameworkRecord, KernelFacts
from clustersim.workload.finetune import Finetune
from clustersim.workload.kernels import Collective, Gemm
from clustersim.workload.model import Transformer
from clustersim.workload.precision import PRECISIONS, Precision
from clustersim.workload.routing import BALANCED, Routing


@dataclass(frozen=True)
class KernelChoice:
    """Which kernels the framework runs a layer as.

    Attributes
    ----------
    attention : ``flash``, ``fused-softmax`` or ``unfused``
    bias_gelu_fused, bias_dropout_fused : whether these chains are one kernel
    gradient_accumulation : bytes moved for each weight and microbatch to add its gradient up [B]
    loss_forward, loss_backward : bytes moved for each logit by the cross-entropy [B]
    tensor_overlap : whether collectives of the tensor group run beside the gradients' products
    gated_fused, rotary_fused, norm_fused : whether the gate of an MLP with its product, the
        rotation by position and an RMSNorm are one kernel each
    gate_merged : whether the two products of a gated MLP are one
    norm_persistent : whether a norm finds the gradients of input and parameters in one pass
    dropout_mask : bytes of a number of a dropout's mask as it is kept [B]
    experts_grouped : whether the products of a rank's experts are one kernel
    dispatched : bytes of a number on its way to its expert, as wide as it is kept if None [B]
    rows_sorted : whether rows that came are copied into the order of the experts, and back
    rows_counted : whether counts of rows and weights of tokens are messages of their own
    attention_share : rate of flash attention over what the device is known with
    attention_cudnn : whether flash attention is that of cuDNN, where the device is known with it
    query_copies, key_copies, result_copies : how often queries, keys with values, and the result
        are copied into another order around flash attention, forward and backward; the result only
        where a microbatch has several sequences
    kv_repeated : whether keys and values are copied to the queries that share them
    adapters_scaled : whether an adapter's products scale what they make, without a pass for it
    ring_result, ring_gradients : bytes moved to join what the steps of a ring made, once and at
        each but the first, for each number of the result, and of queries, keys and values [B]
    tensor_pipelined : whether collectives of the tensor group run piece by piece beside the
        products that they feed or follow
    loss_kept : bytes for each logit that the loss keeps; None for both widths of it [B]
    weight_cast_forward, weight_cast_backward : bytes moved to cast a weight of an 8-bit product
        whenever it is run, none where that is done once a step [B]
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
    attention_share: float = 1.0
    attention_cudnn: bool = False
    loss_kept: float | None = None
    weight_cast_forward: float = 0.0
    weight_cast_backward: float = 0.0
    query_copies: tuple[int, int] = (0, 0)
    key_copies: tuple[int, int] = (0, 0)
    result_copies: tuple[int, int] = (0, 0)
    kv_repeated: bool = False
    adapters_scaled: bool = False
    ring_result: tuple[float, float] = (0.0, 0.0)
    ring_gradients: tuple[float, float] = (0.0, 0.0)
    tensor_pipelined: bool = False


def kernel_choice(framework: FrameworkRecord, recipe: str) -> KernelChoice:
    """Return what a framework file says of its kernels, with its documented defaults.

    Parameters
    ----------
    recipe : name of the precision, whose gradients may be added up in a way of their own
    """
    facts, experts = framework.kernels, framework.experts
    known = {field.name for field in fields(KernelChoice)}
    said = {name: getattr(facts, name) for name in KernelFacts.model_fields if name in known}
    if experts is not None:
        said |= {"experts_grouped": experts.grouped, "dispatched": experts.dispatched}
        said |= {"rows_sorted": experts.sorted, "rows_counted": experts.counted}
    if (own := framework.state[recipe].accumulation) is not None:
        said["gradient_accumulation"] = own
    return KernelChoice(**{name: fact.value for name, fact in said.items() if fact is not None})


@dataclass(frozen=True)
class Slice:
    """What one rank computes on for one microbatch.

    Attributes
    ----------
    micro : sequences of a microbatch
    tensor : ranks that share each layer
    sequence_parallel : whether these share the norms and dropouts as well, by tokens
    context, context_method : ranks that share each sequence, and how attention brings it together:
        ``ring``, ``all-gather`` or ``ulysses``
    expert, expert_tensor : ranks that share the experts of a layer, and those that share an expert
    routing : what ranks get of the tokens of a layer with experts
    kernels : which kernels the framework runs
    precision : of products, and of what is kept and sent
    finetune : what is trained of the model; None for all of it
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

    @property
    def frozen(self) -> bool:
        """Whether the model's own weights stay as they are, so that none of them has a gradient."""
        return self.finetune is not None

    @property
    def width(self) -> int:
        """Bytes of an activation."""
        return self.precision.width

    @property
    def tokens(self) -> int:
        """Tokens that this rank has of a microbatch, b s / c."""
        return self.micro * self.model.sequence // self.context

    @property
    def stream(self) -> float:
        """Elements of the residual stream as matrix products see it, b s h / c."""
        return float(self.tokens * self.model.hidden)

    @property
    def shared(self) -> int:
        """Ranks that share the residual stream between the products: t in sequence parallelism."""
        return self.tensor if self.sequence_parallel else 1

    @property
    def residual(self) -> float:
        """Elements of the residual stream between the products, b s h / c, over t if shared."""
        return self.stream / self.shared

    @property
    def attention(self) -> str:
        """How attention runs on this slice: the fused softmax has shapes that it does not take.

        It needs at most 2,048 keys, and rows and attention matrices in fours. Megatron-LM,
        ``megatron/model/fused_softmax.py``, ``is_kernel_available``.
        """
        chosen, sequence = self.kernels.attention, self.model.sequence
        matrices = self.micro * self.model.heads // self.tensor
        taken = sequence <= 2048 and sequence % 4 == 0 and matrices % 4 == 0
        return "unfused" if chosen == "fused-softmax" and not taken else chosen

    @property
    def scores(self) -> float:
        """Elements of the attention matrix of this rank, b a s^2 / t c."""
        rows = float(self.model.sequence) ** 2 / self.context
        return self.micro * self.model.heads * rows / self.tensor

    @property
    def heads(self) -> int:
        """Query heads of this rank."""
        return self.model.heads // self.tensor

    @property
    def kv_heads(self) -> int:
        """Key and value heads of this rank: ranks beyond their number hold copies."""
        return max(1, self.model.kv_heads // self.tensor)

    def gemm(
        self, name: str, m: int, n: int, k: int, batch: int = 1, *, of_weight: bool = False
    ) -> Gemm:
        """Return a matrix product of a linear layer in this slice's precision."""
        peak, width = self.precision.peak, self.precision.operand
        return Gemm(name, m, n, k, batch, peak=peak, width=width, of_weight=of_weight)

    def wide(self, name: str, m: int, n: int, k: int, *, of_weight: bool = False) -> Gemm:
        """Return a matrix product that 8-bit recipes leave in 16 bits."""
        peak, width = self.precision.wide, self.width
        return Gemm(name, m, n, k, peak=peak, width=width, of_weight=of_weight)

    def core(self, name: str, m: int, n: int, k: int, batch: int) -> Gemm:
        """Return a product of the attention core, which 8-bit recipes leave in 16 bits.

        Its operands lie in rows of a head's width or of the keys; heads stand side by side.
        """
        peak, row = self.precision.wide, math.gcd(m, n, k)
        return Gemm(name, m, n, k, batch, attention=True, peak=peak, width=self.width, row=row)

    def over_tensor(self, name: str, operation: str, nbytes: float) -> list[Collective]:
        """Return a collective of the tensor group; nothing if it is of one rank."""
        return [] if self.tensor == 1 else [Collective(name, operation, nbytes)]
