"""Operations of a layer: forward, backward, and the activations saved in between.

A layer is a list of operations.  Everything follows from that list: the kernels of its forward, of
its backward (in reverse order) and of recomputation, and the bytes that stay alive in between.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from clustersim.records import dataclass
from clustersim.workload.kernels import Gemm, Kernel, Overlapped, Stream


@dataclass(frozen=True)
class Op:
    """One operation of a layer.

    Attributes
    ----------
    name : name, as in ``recompute: {ops: [...]}``
    forward, backward : its kernels
    inputs : inputs that its backward needs [B]
    inside : intermediate results for its backward, not saved if it is recomputed [B]
    skew : time of the slowest rank over that of the mean rank, whose kernels these are
    reads : all inputs needed for its recomputation, if more than `inputs` [B]
    sources : the operations that produce its inputs, with the bytes of each [B], if not only the
        previous one
    """

    name: str
    forward: tuple[Kernel, ...] = ()
    backward: tuple[Kernel, ...] = ()
    inputs: float = 0.0
    inside: float = 0.0
    skew: float = 1.0
    reads: float = 0.0
    sources: tuple[tuple[str, float], ...] = ()


def forward(ops: Iterable[Op]) -> list[Kernel]:
    """Return the kernels of a forward."""
    return [kernel for op in ops for kernel in op.forward]


def backward(ops: Sequence[Op]) -> list[Kernel]:
    """Return the kernels of a backward, from the last operation to the first."""
    return [kernel for op in reversed(ops) for kernel in op.backward]


def of_inputs(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Return the part of a backward that the previous stage waits for: no weight gradients.

    A collective that overlaps with weight gradients only is then exposed.
    """
    chain: list[Kernel] = []
    for kernel in kernels:
        if isinstance(kernel, Overlapped):
            rest = tuple(k for k in kernel.kernels if not _of_weight(k))
            chain.append(kernel._replace(kernels=rest) if rest else kernel.moved)
        elif not _of_weight(kernel):
            chain.append(kernel)
    return chain


def of_weights(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Return the part of a backward that computes weight gradients."""
    gradients: list[Kernel] = []
    for kernel in kernels:
        inner = kernel.kernels if isinstance(kernel, Overlapped) else (kernel,)
        gradients += [each for each in inner if _of_weight(each)]
    return gradients


def _of_weight(kernel: Kernel) -> bool:
    return isinstance(kernel, Gemm | Stream) and kernel.of_weight


def kept_for_weights(ops: Iterable[Op]) -> float:
    """Return the bytes alive until weight gradients are computed: both factors of each [B].

    For a layer of Megatron-LM 32 s b h, as Qi et al. 2023 count it, arXiv:2401.10241, Table 1.
    """
    total = 0.0
    for op in ops:
        products = [k for k in of_weights(op.backward) if isinstance(k, Gemm)]
        if products:
            total += op.inputs + sum(each.width * each.batch * each.m * each.k for each in products)
    return total


def kept(ops: Iterable[Op], recomputed: Collection[str] = (), *, outputs: bool = True) -> float:
    """Return the bytes alive from forward to backward when some operations are recomputed [B].

    A recomputed operation saves no intermediate results, and its inputs only if the operation that
    produces them is not recomputed as well.

    Parameters
    ----------
    outputs : whether outputs of recomputed operations are saved, or recomputed as well
    """
    total, before = 0.0, ""
    for op in (op for op in ops if op.forward):
        read = op.inputs if outputs else max(op.inputs, op.reads)
        sources = op.sources or ((before, read),)
        reproduced = sum(nbytes for name, nbytes in sources if name in recomputed)
        if op.name in recomputed:
            total += sum(nbytes for _, nbytes in sources) - reproduced
        else:
            total += op.inside + (op.inputs if outputs else max(0.0, op.inputs - reproduced))
        before = op.name
    return total


def op_names(ops: Iterable[Op]) -> frozenset[str]:
    """Return the names of some operations."""
    return frozenset(op.name for op in ops)


# --- recomputation --------------------------------------------------------------------------------
#
#    none        all activations are saved
#    selective   the attention core is recomputed: cheap to compute, large to save
#    full        only the input of a layer is saved, and its whole forward is recomputed
#    ops         the listed operations are recomputed

SELECTIVE = frozenset({"attention"})
"""Operations of selective recomputation. Korthikanti et al. 2022, section 5."""

MODULES: Final[Mapping[str, frozenset[str]]] = {
    "core_attn": SELECTIVE,
    "layernorm": frozenset({"attention norm", "mlp norm"}),
    "mla_up_proj": frozenset({"query up", "qkv", "rotary"}),
    "mlp": frozenset({"up", "activation", "down"}),
    "moe_act": frozenset({"expert activation"}),
    "moe": frozenset(
        {"router", "permute", "dispatch", "expert up", "expert activation", "expert down"}
        | {"combine", "unpermute", "shared up", "shared activation", "shared down", "shared sum"}
    ),
    "shared_experts": frozenset({"shared up", "shared activation", "shared down"}),
}
"""Operations of modules that are recomputed selectively, by the names of Megatron-Core,
``transformer_config.py``, ``recompute_modules``."""


@dataclass(frozen=True)
class Recompute:
    """A setting of activation recomputation.

    Attributes
    ----------
    mode : ``none``, ``selective``, ``full`` or ``ops``
    ops : names of operations, for mode ``ops``
    every : interval between recomputed layers of a stage
    stages : stages with recomputation; None for all
    """

    mode: str = "none"
    ops: frozenset[str] = frozenset()
    every: int = 1
    stages: frozenset[int] | None = None

    @property
    def outputs(self) -> bool:
        """Whether the outputs of recomputed operations are saved.

        Checkpoints of selective recomputation save them. Listed operations are recomputed when
        their output is needed: Megatron-Core, ``tensor_parallel/random.py``,
        ``CheckpointWithoutOutput``.
        """
        return self.mode != "ops"

    def applies(self, stage: int, index: int) -> bool:
        """Return whether the layer at this index of a stage is recomputed."""
        selected = self.stages is None or stage in self.stages
        return self.mode != "none" and selected and index % self.every == 0

    def of(self, ops: Iterable[Op]) -> frozenset[str]:
        """Return the recomputed operations of a recomputed layer."""
        return {
            "none": lambda: frozenset[str](),
            "selective": lambda: SELECTIVE,
            "full": lambda: op_names(ops),
            "ops": lambda: self.ops,
        }[self.mode]()


NONE = Recompute()


@dataclass(frozen=True)
class Offload:
    """What is offloaded to the host, with copies on demand.

    A rank's shard of a layer is copied from the host before the layer is gathered, and gradients of
    trained weights to it; an optimiser on the host receives gradients and returns weights; saved
    activations are copied in the forward, and back in the backward. Rajbhandari et al. 2021,
    ZeRO-Infinity, arXiv:2104.07857; PyTorch, ``CPUOffload`` of FSDP.

    Attributes
    ----------
    parameters : weights and gradients, copied layer by layer
    optimiser : optimiser states; the optimiser runs on the host
    activations : activations saved from forward to backward
    """

    parameters: bool = False
    optimiser: bool = False
    activations: bool = False

    @property
    def any(self) -> bool:
        """Whether anything is offloaded."""
        return self.parameters or self.optimiser or self.activations

    @property
    def host_optimiser(self) -> bool:
        """Whether the host runs the optimiser: if it holds weights or states."""
        return self.parameters or self.optimiser


NO_OFFLOAD = Offload()


class HostCopy(NamedTuple):
    """A copy between device and host memory: bytes per device [B]."""

    name: str
    nbytes: float
    direction: Literal["to-host", "from-host"]
