"""Framework files: how a training framework runs a step, every flag with its source."""

from typing import Annotated, Literal

from pydantic import Field

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
)


class StateBytes(Strict):
    """Bytes of training state for each parameter held, by part.

    `master` is the copy of the weights that the optimiser updates, where it has one of its own;
    none if it is left out.  `accumulation`, `reduced` and `collective` are what gradients of this
    recipe are summed up and reduced by, where that is not what `kernels.gradient_accumulation`,
    `gradients.bytes_each` and `gradients.sharded_collective` say of all recipes.
    """

    weights: Fact[NotNegative]
    gradients: Fact[NotNegative]
    optimiser: Fact[NotNegative]
    master: Fact[NotNegative] | None = None
    accumulation: Fact[NotNegative] | None = None
    reduced: Fact[NotNegative] | None = None
    collective: Fact[Literal["all-reduce", "reduce-scatter"]] | None = None


class MemoryFacts(Strict):
    """What is alive beside states and activations.

    `loss_forward` and `loss_backward` are the bytes for each logit that the loss holds while it
    runs, beside what it keeps: none if the table is left out.  `bucket` is the buffer that
    gradients are flattened into to be reduced.  `step` is the bytes of flat buffers that the
    optimiser makes for each parameter it updates, `norm` for each number of the largest tensor
    among them.  `outputs` is whether a stage keeps what it handed on until its backward, though
    nothing reads it again.  What is left out is nothing.
    """

    loss_forward: Fact[NotNegative]
    loss_backward: Fact[NotNegative]
    bucket: Fact[Bytes] | None = None
    step: Fact[NotNegative] | None = None
    norm: Fact[NotNegative] | None = None
    outputs: Fact[bool] | None = None


class PipelineFacts(Strict):
    """How stages hand over activations.

    `sharded`: each tensor rank sends its share and the receivers gather it, instead of every rank
    sending the whole.  `blocking`: a stage waits for its send before it computes on.  The gathers
    are all-gathers over the tensor group for each microbatch, where shares are sent.
    """

    sharded: Fact[bool]
    blocking: Fact[bool]
    gathers_forward: Fact[Annotated[int, Field(ge=0)]]
    gathers_backward: Fact[Annotated[int, Field(ge=0)]]


Times = Annotated[int, Field(ge=0)]
BothWays = Annotated[tuple[Times, Times], "forward and backward"]
OnceAndEach = Annotated[tuple[NotNegative, NotNegative], "once, and at each further step"]


class KernelFacts(Strict):
    """Which kernels a layer runs as.

    `tensor_overlap`: in the backward of a linear layer whose columns are split, the sum of the
    input's gradient runs beside the weight's product, and a gather of tokens beside the input's;
    not where it is missing.  `gated_fused`, `rotary_fused`, `norm_fused`: a gate with its product,
    the rotation by position and an RMSNorm are one kernel each; they are where that is missing.
    `gate_merged`: the two products of a gated MLP are one kernel; they are where it is missing.
    `adapters_merged`: in fine-tuning, queries, keys and values are one layer with one adapter, and
    so are the two products of a gated MLP; each is its own where that is missing.
    `adapters_scaled`: an adapter's products scale what they make; a pass does where it is missing.
    `norm_persistent`: a norm finds the gradients of its input and of its parameters in one pass;
    not where it is missing. `dropout_mask` is the bytes of a number of a dropout's mask as it is
    kept, 1 where it is missing.
    `gradient_accumulation` is 0 where the products themselves add to the sum.
    `attention_cudnn`: it takes cuDNN's kernels on devices whose file knows them, else those of
    FlashAttention-2; not where it is missing. `attention_share` is the rate of flash attention as a
    share of what that file gives of them; the same where it is missing. `loss_kept` is the bytes
    for each logit that the loss keeps for its backward: in their own width and in 32 bits
    where it is missing.  `weight_cast_forward` and `weight_cast_backward` are the bytes moved for
    each weight of an 8-bit product to cast it whenever the product is run; none where they are
    missing, as weights are cast once a step.
    `query_copies`, `key_copies` and `result_copies` are how often queries, keys with values, and
    the result are copied into another order of their numbers around flash attention, forward and
    backward; not at all where they are missing.  `kv_repeated`: keys and values are copied to the
    queries that share them before flash attention; not where it is missing.
    `ring_result` and `ring_gradients` are the bytes moved to join what the steps of a ring made,
    whose ranks share a sequence: once, and at each step but the first; for each number of the
    result forward, and of queries, keys and values backward; none where they are missing.
    `tensor_pipelined`: in linear layers the collectives of the tensor group run piece by piece
    beside the products that they feed or follow, forward and backward; not where it is missing.
    """

    attention: Fact[Literal["unfused", "fused-softmax", "flash"]]
    attention_share: Fact[Positive] | None = None
    attention_cudnn: Fact[bool] | None = None
    bias_gelu_fused: Fact[bool]
    bias_dropout_fused: Fact[bool]
    gradient_accumulation: Fact[NotNegative]
    loss_forward: Fact[NotNegative]
    loss_backward: Fact[NotNegative]
    loss_kept: Fact[NotNegative] | None = None
    weight_cast_forward: Fact[NotNegative] | None = None
    weight_cast_backward: Fact[NotNegative] | None = None
    query_copies: Fact[BothWays] | None = None
    key_copies: Fact[BothWays] | None = None
    result_copies: Fact[BothWays] | None = None
    kv_repeated: Fact[bool] | None = None
    ring_result: Fact[OnceAndEach] | None = None
    ring_gradients: Fact[OnceAndEach] | None = None
    tensor_pipelined: Fact[bool] | None = None
    tensor_overlap: Fact[bool] | None = None
    gated_fused: Fact[bool] | None = None
    gate_merged: Fact[bool] | None = None
    adapters_merged: Fact[bool] | None = None
    adapters_scaled: Fact[bool] | None = None
    rotary_fused: Fact[bool] | None = None
    norm_fused: Fact[bool] | None = None
    norm_persistent: Fact[bool] | None = None
    dropout_mask: Fact[NotNegative] | None = None


class OptimiserFacts(Strict):
    """The optimiser step.

    `held` is the bytes moved for each parameter that a rank holds (its gradients are cleared,
    scaled and averaged), `updated` for each one whose state it owns. `host_updated` is the latter
    in host memory where the host runs the optimiser; the same if it is missing.
    """

    held: Fact[NotNegative]
    updated: Fact[NotNegative]
    host_updated: Fact[NotNegative] | None = None


class GradientFacts(Strict):
    """The reduction of gradients over the data axis.

    `bytes_each` is the size of one gradient on the wire; `overlap` when the reduction runs beside
    the last backward; `sharded_collective` what ZeRO-1 uses: an all-reduce of everything, or a
    reduce-scatter. `share_each` is what the host takes for each rank's share of each tensor of the
    new weights that ZeRO-1 gathers, where it copies them one by one; nothing if it is missing.
    `gathered` is the bytes of such a weight on the wire, as wide as activations if it is missing,
    and `gather_overlap` whether each part of them comes while the part before is at its first
    forward; not where it is missing.
    """

    bytes_each: Fact[NotNegative]
    overlap: Fact[Literal["never", "without-pipeline", "always"]]
    sharded_collective: Fact[Literal["all-reduce", "reduce-scatter"]]
    share_each: Fact[Seconds] | None = None
    gathered: Fact[NotNegative] | None = None
    gather_overlap: Fact[bool] | None = None


class ShardingFacts(Strict):
    """How weights that are sharded over the data axis come and go, layer by layer (ZeRO-3, FSDP).

    `prefetch` is the number of layers that are gathered ahead of the one at work, none where
    nothing runs beside it; `reshard` whether a layer is given up after its forward. `gather` and
    `reduce` are the bytes of a weight and of a gradient on the wire. `each_microbatch` whether
    gradients are reduced after every microbatch instead of once a step. `calls` is the number of
    collectives that a layer is gathered or reduced in, one if it is missing; `small` further ones
    for the gradients of its norms and biases, none if it is missing. `by_module` is whether each
    of these brings a weight that is given up by itself, rather than the layer as a whole. `again`
    is whether a layer that is run again is gathered for that and once more for its backward; once
    for both where it is missing. `host_each` is what the host takes for each rank's share in each
    of these collectives while the device waits, `gather_copied` and `reduce_copied` what the device
    moves in its own memory for each byte of them; nothing where they are missing.
    `kept_in_pipeline` is whether layers that are not given up after their forward stay until the
    last backward of a step where there is a pipeline, instead of being given up in every backward;
    not where it is missing.
    """

    prefetch: Fact[Annotated[int, Field(ge=0)]]
    reshard: Fact[bool]
    gather: Fact[NotNegative]
    reduce: Fact[NotNegative]
    each_microbatch: Fact[bool]
    calls: Fact[Count] | None = None
    small: Fact[Count] | None = None
    by_module: Fact[bool] | None = None
    again: Fact[bool] | None = None
    host_each: Fact[Seconds] | None = None
    gather_copied: Fact[NotNegative] | None = None
    reduce_copied: Fact[NotNegative] | None = None
    kept_in_pipeline: Fact[bool] | None = None


class ExpertFacts(Strict):
    """How a layer with experts is run.

    `grouped`: whether the products of a rank's experts are one kernel. `once_per_node`: whether a
    token is sent once to each node that has some of its experts, and copied there. `dispatched` is
    the bytes of a number on its way to its expert, as wide as it is kept if it is missing.
    `sorted`: rows that came from other ranks are copied into the order of the experts here, and
    back before they return; not where it is missing. `counted`: ranks tell each other how many rows
    come, and send the weights of their tokens, in messages of their own; not where it is missing.
    """

    grouped: Fact[bool]
    once_per_node: Fact[bool]
    dispatched: Fact[NotNegative] | None = None
    sorted: Fact[bool] | None = None
    counted: Fact[bool] | None = None


class GraphFacts(Strict):
    """Which kernels the host issues as CUDA graphs: captured once, replayed as a whole.

    `parts` are those of a layer that are captured: `attention` and `mlp` with the norm before and
    the residual behind, `router` with the norm before it and the shared experts. What is captured
    of a layer is one graph forward and one backward. `replay` is the time of the host for each of
    them, `memory` what their buffers hold that would else be given back.
    """

    parts: Fact[list[Literal["attention", "mlp", "router"]]]
    replay: Fact[Seconds]
    memory: Fact[Bytes] | None = None


class FrameworkRecord(Record):
    """``workloads/frameworks/*.yaml``: how a training framework runs a step.

    `extends` names the framework file that this one is laid over: its values win one by one.
    `dispatch` is the time of the host for each kernel that it issues one by one, and `graphs` which
    it does not; all of them where that is left out. `dispatch_backward` is its time for those of a
    backward, which an autograd engine issues without Python; the same if it is left out.
    `fragmentation` is what the allocator holds beyond what is alive, as a share of what comes and
    goes: activations, logits, workspace. None if it is left out. `passes` is the share of the
    memory bandwidth that its elementwise passes reach at most; what the device reaches if it
    is left out. `launches_wait` is whether the host waits for each kernel before it issues the
    next, so that its time adds to that of the device; no if it is left out. `context` is the
    methods by which ranks can share a sequence, and `experts` how layers with experts run; neither
    is offered where it is left out.
    """

    kind: Literal["framework"]
    extends: str | None = None
    schedules: Fact[list[str]]
    zero: Fact[list[int]]
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
    launches_wait: Fact[bool] | None = None
