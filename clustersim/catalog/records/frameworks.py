"""Framework files: how a training framework runs a step, every value with its source.

A key that may be omitted has the default that its docstring states; without one the effect that it
describes is absent.
"""

from typing import Annotated, Literal

from clustersim.catalog.facts import (
    Bytes,
    Count,
    Fact,
    Fraction,
    NotNegative,
    Positive,
    Record,
    Seconds,
    Share,
    Strict,
    Usual,
    Whole,
)
from clustersim.catalog.launching import LaunchArguments, Program
from clustersim.catalog.libraries import Algorithm


class StateBytes(Strict):
    """Bytes of training state for each parameter held, by part.

    `master` is the separate copy of the weights that the optimiser updates.  `accumulation`,
    `reduced` and `collective` are the sum and the reduction of gradients of this recipe, where they
    differ from `kernels.gradient_accumulation`, `gradients.bytes_each` and
    `gradients.sharded_collective`.  `renewed` is those of `gradients` that are freed before each
    backward and allocated again in it.  `step` is `memory.step` of this recipe, without a `norm`,
    where it differs.  `saved` is what a checkpoint has: `weights`, `master` and `optimiser` if
    missing.  `ends` is what embedding and logits have of the optimiser beyond `optimiser`.
    """

    weights: Fact[NotNegative]
    gradients: Fact[NotNegative]
    optimiser: Fact[NotNegative]
    master: Fact[NotNegative] | None = None
    saved: Fact[NotNegative] | None = None
    renewed: Fact[NotNegative] | None = None
    step: Fact[NotNegative] | None = None
    accumulation: Fact[NotNegative] | None = None
    reduced: Fact[NotNegative] | None = None
    collective: Fact[Literal["all-reduce", "reduce-scatter"]] | None = None
    ends: Usual[NotNegative] = 0.0


class ReplayFacts(Strict):
    """Eager modules of Hugging Face, wrapped into sharded units, whose tensors are replayed.

    `broadcast` is the bucket in which weights of the first rank reach the others as units are set
    up.  `mask`: every sequence has a mask of all positions of the model, not only of its own
    tokens.
    """

    broadcast: Fact[Bytes]
    mask: Fact[bool]


class MemoryFacts(Strict):
    """Live memory other than states and activations.

    `loss_forward` and `loss_backward` are the bytes for each logit that the loss holds only while
    it runs.  `bucket` is the buffer into which gradients are flattened to be reduced.  `step` is
    the bytes of flat buffers that the optimiser allocates for each parameter it updates, `norm` for
    each number of the largest tensor among them, before the former.  `outputs` is whether a stage
    keeps the output that it has sent until its backward, which does not read it, and
    `outputs_shared` whether each tensor rank keeps its share of it alone.  `ring` is what the
    backward of attention over a ring of ranks holds for each number of the queries.  In sequence
    parallelism `gather_buffers` of the size of a layer's whole input are kept for gathers, and
    `held_results` of a layer that were reduced over the tensor group are not reusable until the
    device has reduced them, which the host is ahead of by `lead` layers.  `joined`: the allocator
    joins free blocks, so that flat buffers of the optimiser step fit where activations were.
    `replay` is for software whose tensors are known one by one: the blocks of its allocator are
    replayed, where no rank has a part of a layer.
    """

    loss_forward: Fact[NotNegative]
    loss_backward: Fact[NotNegative]
    bucket: Fact[Bytes] | None = None
    step: Fact[NotNegative] | None = None
    norm: Fact[NotNegative] | None = None
    outputs: Fact[bool] | None = None
    outputs_shared: Fact[bool] | None = None
    ring: Fact[NotNegative] | None = None
    gather_buffers: Fact[Whole] | None = None
    held_results: Fact[Whole] | None = None
    lead: Fact[Whole] | None = None
    joined: Fact[bool] | None = None
    replay: ReplayFacts | None = None


class PipelineFacts(Strict):
    """How stages send activations.

    `sharded`: each tensor rank sends its share and the receivers gather it; otherwise every rank
    sends the whole.  `blocking`: a stage waits for its send before it computes on.  The gathers are
    all-gathers over the tensor group for each microbatch, where shares are sent.  `forwards_first`:
    an interleaved pipeline with as many microbatches as stages runs all forwards before the first
    backward; true if missing.  `head_deferred` is the number of microbatches whose weight gradients
    of the output head the last stage computes after its last backward; 0 if missing.
    """

    sharded: Fact[bool]
    blocking: Fact[bool]
    gathers_forward: Fact[Whole]
    gathers_backward: Fact[Whole]
    forwards_first: Usual[bool] = True
    head_deferred: Usual[Whole] = 0


Times = Whole
BothWays = Annotated[tuple[Times, Times], "forward and backward"]
OnceAndEach = Annotated[tuple[NotNegative, NotNegative], "once, and at each further step"]


class KernelFacts(Strict):
    """Which kernels a layer runs as.

    `tensor_overlap`: in the backward of a linear layer whose columns are split, the sum of the
    input's gradient overlaps the weight's product, and a gather of tokens the input's.
    `gated_fused`, `rotary_fused`, `norm_fused`: a gate with its product, the rotation by position
    and an RMSNorm are one kernel each; true if missing.  `gate_merged`: the two products of a gated
    MLP are one kernel; true if missing.  `adapters_merged`: in fine-tuning, queries, keys and
    values are one layer with one adapter, and so are the two products of a gated MLP.
    `adapters_scaled`: the products of an adapter scale their result; a separate pass does if
    missing.  `norm_persistent`: a norm computes the gradients of its input and of its parameters in
    one pass.  `dropout_mask` is the bytes of a number of a dropout's mask as it is kept, 1 if
    missing.  `gradient_accumulation` is 0 where the products themselves add to the sum.
    `attention_cudnn`: attention uses cuDNN's kernels on devices whose file has them, those of
    FlashAttention-2 otherwise.  `products_share` and `attention_share` are the rates of matrix
    products and of flash attention as shares of the rates in that file, where the library of a
    release is slower or faster than the one measured there; 1 if missing, and no product exceeds
    the peak.  `loss_kept` is the bytes for each logit that the loss keeps for its backward; its own
    width and 32 bits if missing.  `weight_cast_forward` and `weight_cast_backward` are the bytes
    moved for each weight of an 8-bit product to cast it whenever the product runs; 0 if missing, as
    weights are cast once a step.
    `query_copies`, `key_copies` and `result_copies` are how often queries, keys with values, and
    the result are transposed around flash attention, forward and backward.  `query_kept` is how
    many tensors of their size the queries of flash attention keep alive, as a view of a larger one;
    1 if missing.  `kv_repeated`: keys and values are copied to the queries that share them before
    flash attention.  `ring_result` and `ring_gradients` are the bytes moved to join the results of
    the steps of a ring whose ranks share a sequence: once, and at each step but the first; for each
    number of the result forward, and of queries, keys and values backward.  `ring_sent` is the
    bytes that a rank sends backward for each number of its keys and values, as often; both and
    their gradients at each step if missing.  `ring_waits`: transfers of the ring do not overlap
    attention.  `tensor_pipelined`: in linear layers the collectives of the tensor group run in
    pieces that overlap the products before or after them, forward and backward.  `cast_searched`:
    the scale of a tensor that is converted to 8 bits is its own maximum, found by a pass before;
    otherwise that of earlier steps.
    """

    attention: Fact[Literal["unfused", "math", "fused-softmax", "flash"]]
    products_share: Usual[Positive] = 1.0
    attention_share: Usual[Positive] = 1.0
    attention_cudnn: Usual[bool] = False
    bias_gelu_fused: Fact[bool]
    bias_dropout_fused: Fact[bool]
    gradient_accumulation: Fact[NotNegative]
    loss_forward: Fact[NotNegative]
    loss_backward: Fact[NotNegative]
    loss_kept: Fact[NotNegative] | None = None
    weight_cast_forward: Usual[NotNegative] = 0.0
    weight_cast_backward: Usual[NotNegative] = 0.0
    query_copies: Usual[BothWays] = (0, 0)
    key_copies: Usual[BothWays] = (0, 0)
    result_copies: Usual[BothWays] = (0, 0)
    query_kept: Usual[Whole] = 1
    kv_repeated: Usual[bool] = False
    ring_result: Usual[OnceAndEach] = (0.0, 0.0)
    ring_gradients: Usual[OnceAndEach] = (0.0, 0.0)
    ring_sent: Fact[OnceAndEach] | None = None
    ring_waits: Usual[bool] = False
    tensor_pipelined: Usual[bool] = False
    tensor_overlap: Usual[bool] = False
    gated_fused: Usual[bool] = True
    gate_merged: Usual[bool] = True
    adapters_merged: Fact[bool] | None = None
    adapters_scaled: Usual[bool] = False
    rotary_fused: Usual[bool] = True
    norm_fused: Usual[bool] = True
    norm_persistent: Usual[bool] = False
    dropout_mask: Usual[NotNegative] = 1
    cast_searched: Usual[bool] = False


class OptimiserFacts(Strict):
    """The optimiser step.

    `held` is the bytes moved for each parameter that a rank holds (its gradients are cleared,
    scaled and averaged), `updated` for each one whose state it owns. `host_updated` is the latter
    in host memory where the host runs the optimiser; the same if missing. `iterations` is those of
    Newton and Schulz on each matrix of a layer, which ranks with parts of its states share.
    """

    held: Fact[NotNegative]
    updated: Fact[NotNegative]
    host_updated: Fact[NotNegative] | None = None
    iterations: Usual[Whole] = 0


class GradientFacts(Strict):
    """The reduction of gradients over the data axis.

    `bytes_each` is the size of one gradient on the wire; `overlap` when the reduction overlaps the
    last backward; `sharded_collective` the collective of ZeRO-1: an all-reduce of everything, or a
    reduce-scatter. `share_each` is the time of the host for each rank's share of each tensor of the
    new weights that ZeRO-1 gathers, where it copies them one by one. `gathered` is the bytes of
    such a weight on the wire, the width of activations if missing, and `gather_overlap` whether
    each part of them is gathered during the first forward of the part before.
    """

    bytes_each: Fact[NotNegative]
    overlap: Fact[Literal["never", "without-pipeline", "always"]]
    sharded_collective: Fact[Literal["all-reduce", "reduce-scatter"]]
    share_each: Usual[Seconds] = 0.0
    gathered: Fact[NotNegative] | None = None
    gather_overlap: Usual[bool] = False


class ShardingFacts(Strict):
    """How weights that are sharded over the data axis are gathered, layer by layer (ZeRO-3, FSDP).

    `prefetch` is the number of layers that are gathered ahead of the running one, 0 where gathers
    do not overlap; `reshard` whether a layer is freed after its forward. `gather` and `reduce` are
    the bytes of a weight and of a gradient on the wire. `each_microbatch` is whether gradients are
    reduced after every microbatch instead of once a step. `calls` is the number of collectives in
    which a layer is gathered or reduced, 1 if missing; `small` further ones for the gradients of
    its norms and biases, 0 if missing. `by_module` is whether each of these gathers a weight that
    is freed separately, rather than the layer as a whole. `recompute_gathers` is whether a
    recomputed layer is gathered twice, for its recomputation and for its backward; once for both if
    missing. `host_each` is the time of the host for each rank's share in each of these collectives
    while the device waits, `gather_copied` and `reduce_copied` the bytes that the device copies for
    each byte of them. `kept_in_pipeline` is whether layers that are not freed after their forward
    stay until the last backward of a step where there is a pipeline, instead of being freed in
    every backward. `adapters_apart` is whether each factor of an adapter is gathered as a unit of
    its own, which a limit of two units in flight counts as much as a layer
    (`program.movement.sharding`); false if missing.
    """

    prefetch: Fact[Whole]
    reshard: Fact[bool]
    gather: Fact[NotNegative]
    reduce: Fact[NotNegative]
    each_microbatch: Fact[bool]
    calls: Usual[Count] = 1
    small: Usual[Count] = 0
    by_module: Usual[bool] = False
    recompute_gathers: Usual[bool] = False
    host_each: Usual[Seconds] = 0.0
    gather_copied: Usual[NotNegative] = 0.0
    reduce_copied: Usual[NotNegative] = 0.0
    kept_in_pipeline: Usual[bool] = False
    adapters_apart: Usual[bool] = False


class ExpertFacts(Strict):
    """How a layer with experts is run.

    `grouped`: whether the products of a rank's experts are one kernel. `once_per_node`: whether a
    token is sent once to each node that has some of its experts, and copied there. `dispatched` is
    the bytes of a number on its way to its expert, the width in which it is kept if missing.
    `sorted`: rows received from other ranks are copied into the order of the experts, and back
    before they return. `counted`: ranks exchange the numbers of rows, and the weights of their
    tokens, in separate messages. `separate`: the host issues the products and conversions of each
    expert separately, on several streams that fill the device as one kernel does. `bookkeeping` is
    the small kernels, forward and backward, that count and number rows. `synchronised`: the host
    waits for the numbers of rows before it issues the exchange, so that it is not ahead of the
    device. `overlapped`: the exchange of a microbatch overlaps the computation of another one.
    `exchange_units` is the compute units that the exchange occupies, those of the library if
    missing. `permute_fused`: tokens are copied to their experts and their results added up by one
    kernel each, rather than by several of PyTorch; true if missing. `padded`: the rows of each
    expert are copied to multiples that 8-bit products need, and back. `fused`: activation and
    conversions between the two products are part of the products.
    """

    grouped: Fact[bool]
    once_per_node: Fact[bool]
    dispatched: Fact[NotNegative] | None = None
    sorted: Usual[bool] = False
    counted: Usual[bool] = False
    separate: Usual[bool] = False
    bookkeeping: Usual[BothWays] = (0, 0)
    synchronised: Usual[bool] = False
    overlapped: Usual[bool] = False
    exchange_units: Fact[Count] | None = None
    permute_fused: Usual[bool] = True
    padded: Usual[bool] = False
    fused: Usual[bool] = False


class GraphFacts(Strict):
    """Which kernels the host issues as CUDA graphs: captured once, replayed as a whole.

    `parts` are the captured parts of a layer: `attention` and `mlp` with the norm before and the
    residual after, `router` with the norm before it and the shared experts, `experts` from the
    exchange of tokens to the residual. The captured parts of a layer are one graph forward and one
    backward. `replay` is the time of the host for each of them,
    `memory` the size of their buffers, which are not freed.
    """

    parts: Fact[list[Literal["attention", "mlp", "router", "experts"]]]
    replay: Fact[Seconds]
    memory: Fact[Bytes] | None = None


class FrameworkRecord(Record):
    """``workloads/frameworks/*.yaml``: how a training framework runs a step.

    `extends` names the framework file that this one changes: its values win one by one.  `dispatch`
    is the time of the host for each kernel that it issues separately, and `graphs` the kernels that
    it does not.  `dispatch_backward` is its time for kernels of a backward, which an autograd
    engine issues without Python; the same if missing.  `fragmentation` is the memory that the
    allocator holds beyond live tensors, as a share of those that come and go: activations, logits,
    workspace.  `passes` is the share of the memory bandwidth that its elementwise passes reach at
    most; that of the device if missing.  `launches_wait` is whether the host waits for each kernel
    before it issues the next, so that its time adds to that of the device.  `context` is the
    methods by which ranks can share a sequence, and `experts` how layers with experts run; neither
    is offered if missing.  `axes` is the axes over which it divides a model, next to data; all if
    missing.  `libraries` is the collective libraries of the machines that its figures
    are of, by their `software`; any if missing.  `algorithms_off` is what its launch scripts turn
    off in these libraries; nothing if missing.  `launch` is the arguments of a job, by the program
    that it is launched as, null where that of the extended file is none of this one.
    """

    kind: Literal["framework"]
    extends: str | None = None
    libraries: Fact[list[str]] | None = None
    algorithms_off: Usual[tuple[Algorithm, ...]] = ()
    schedules: Fact[list[str]]
    zero: Fact[list[int]]
    axes: Usual[tuple[Literal["tensor", "pipeline"], ...]] = ("tensor", "pipeline")
    vocab_multiple: Fact[Count]
    dispatch: Fact[Seconds]
    dispatch_backward: Fact[Seconds] | None = None
    graphs: GraphFacts | None = None
    pipeline: PipelineFacts
    kernels: KernelFacts
    gradients: GradientFacts
    optimiser: OptimiserFacts
    sharding: ShardingFacts | None = None
    context: Fact[list[str]] | None = None
    experts: ExpertFacts | None = None
    state: dict[str, StateBytes]
    memory: MemoryFacts | None = None
    runtime_memory: Fact[Bytes]
    fragmentation: Fact[Share] | None = None
    passes: Fact[Fraction] | None = None
    launches_wait: Usual[bool] = False
    launch: dict[Program, LaunchArguments | None] | None = None
