"""Engine files: how an inference engine runs a step, each value with its source or its fit."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from clustersim.catalog.facts import (
    Bytes,
    Count,
    Fact,
    Fraction,
    NotNegative,
    Positive,
    Record,
    Seconds,
    Strict,
    Whole,
)
from clustersim.catalog.launching import LaunchArguments, Program
from clustersim.catalog.records.models import WeightFormat

KvFormat = Literal["fp16", "bf16", "fp8", "int8"]
ActivationFormat = Literal["fp16", "bf16", "fp8", "int8", "nvfp4", "mxfp4", "mxfp8"]


def _ascending(sizes: list[int]) -> list[int]:
    if sizes != sorted(set(sizes)) or not sizes:
        raise ValueError("must be ascending numbers, at least one")
    return sizes


Sizes = Annotated[list[Count], AfterValidator(_ascending)]


class EngineFormats(Strict):
    """Number formats of an engine: of weights, of activations in products, of cached keys."""

    weights: Fact[list[WeightFormat]]
    activations: Fact[list[ActivationFormat]]
    kv: Fact[list[KvFormat]]


class SchedulerFacts(Strict):
    """How an engine forms the batch of a step.

    `batching` is ``continuous`` where requests join and leave at every step, ``static`` where a
    batch runs until all its requests end.  `sequences` is the most that decode at the same
    time, in each batch of a pipeline where `each_batch` is true, in all of them where it is false
    or missing.  `tokens` is the most that a step processes, and `chunked` whether a prompt is
    divided to stay below; a prompt runs whole if it is not.  `mixed` is whether prompts and
    decoding sequences share a step.  `block` is the tokens of a block of the KV cache, and
    `reserved` whether a request is admitted only with room for all its tokens, so that none is
    preempted.
    `preemption` is what happens to a request whose blocks are needed: its tokens are computed
    or copied from the host later.  `ahead` is whether the host schedules a step while the one
    before it runs, so that requests which come in that time join the step after it; `hidden` is
    whether all its work for sequences is in that time, as `ahead` if missing; with pipeline stages
    engines do neither.
    `wait_steps` is the steps for which prompts wait for others while sequences decode, unless the
    tokens of the step are `wait_share` of `tokens`; prompts do not wait if missing.
    `recomputed` is whether replicas for decode recompute the last token of a prompt for the first
    token, which is that of the replica for prefill otherwise.
    """

    batching: Fact[Literal["continuous", "static"]]
    sequences: Fact[Count]
    each_batch: Fact[bool] | None = None
    tokens: Fact[Count]
    chunked: Fact[bool]
    mixed: Fact[bool]
    block: Fact[Count]
    reserved: Fact[bool]
    preemption: Fact[Literal["recompute", "swap"]]
    ahead: Fact[bool]
    hidden: Fact[bool] | None = None
    wait_steps: Fact[Whole] | None = None
    wait_share: Fact[Fraction] | None = None
    recomputed: Fact[bool] | None = None


class EngineGraphs(Strict):
    """CUDA graphs of steps: the captured numbers of tokens, to the next of which a step is padded.

    Steps of more tokens are issued kernel by kernel.  `mixed` is whether steps with prompts run as
    graphs as well.
    """

    sizes: Fact[Sizes]
    mixed: Fact[bool]


class FilledTiles(Strict):
    """Kernels of experts that fill the tokens of each expert up to whole tiles.

    They are those of weights in `formats`, on devices with these compute `capabilities`, up to a
    tensor degree of experts of `tensor`.
    """

    rows: Fact[Count]
    formats: Fact[list[WeightFormat]]
    capabilities: Fact[list[str]]
    tensor: Fact[Count]


class EngineKernels(Strict):
    """Which elementwise kernels of a layer are fused.

    `residual_norm`: a residual sum and the norm after it are one kernel.  `norm_reduced`: both
    are part of the all-reduce before them, where there is one.  `rotary_cached`: rotation by
    position and the write into the cache are one kernel.  `rotary_attended`: both are part of
    attention.  `packed`: most query heads that share keys in attention of one query; where more
    share them, each reads the keys again.  `gate`: the activation of an MLP and its gate are
    one kernel.  `bias`: biases are part of the product or of the kernel after it.  `cast`: the
    kernel before a product in a narrow format converts its input.  `norm`: a norm is one
    kernel, otherwise several that each read and write the whole.  `experts_alone`: each expert
    of a device has a time of its own, as in the measured kernels of TensorRT-LLM, instead of
    one kernel for all.  `prompts`: attention of prompts is one kernel, otherwise its products,
    softmax and transpositions are separate and write all scores to memory.  `prompts_narrow`: it
    multiplies in 8 bits where the cache has 8, otherwise in 16.  `together`: compute
    capabilities of devices on which prompts and decoding sequences of a step are in the same
    kernel of attention, where no query heads share keys; it reads them again at `reread` times
    the rate of memory, from the cache.  `cast_apart` are formats for which a kernel of its own
    converts in any case.  `measured` is the name by which the files of measured kernels have its
    own, which win over the others, and `measured_experts` the same of routed experts, where these
    are another's.
    """

    norm: Fact[bool]
    residual_norm: Fact[bool]
    norm_reduced: Fact[bool]
    rotary_cached: Fact[bool]
    rotary_attended: Fact[bool]
    gate: Fact[bool]
    packed: Fact[Count]
    bias: Fact[bool]
    cast: Fact[bool]
    experts_alone: Fact[bool]
    prompts: Fact[bool]
    prompts_narrow: Fact[bool]
    together: Fact[list[str]] | None = None
    reread: Fact[Positive] | None = None
    cast_apart: Fact[list[WeightFormat]] | None = None
    measured: Fact[str] | None = None
    measured_experts: Fact[str] | None = None
    filled: FilledTiles | None = None

    @model_validator(mode="after")
    def _reread(self) -> Self:
        if (self.together is None) != (self.reread is None):
            raise ValueError("needs both together and reread, or neither")
        return self


class EngineCollectives(Strict):
    """Collectives of an engine.

    `library` is that of all-reduces in a node as `topologies/kernels` names it, and `limit` the
    largest buffer that it reduces, by devices; the collective library reduces larger ones, and all
    if `library` is ``nccl`` or missing.  `rate` is the share of the measured bandwidth that the
    collective library of this release reaches, and `skew` the time that each of its calls waits for
    the last device, where the host of each device issues its kernels one by one.  `decode` and
    `prefill` are the libraries that exchange tokens of experts.  `overlapped` is whether two halves
    of a batch alternate, so that the exchange of one runs during the computation of the other.
    """

    library: Fact[str] | None = None
    limit: Fact[dict[Literal["2", "4", "6", "8"], Bytes]] | None = None
    rate: Fact[Fraction]
    skew: Fact[Seconds]
    decode: Fact[str]
    prefill: Fact[str]
    overlapped: Fact[bool]

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if (self.library is None) != (self.limit is None):
            raise ValueError("needs both library and limit, or neither")
        return self


class EngineMemory(Strict):
    """Memory of a device: `share` of it is for weights, KV cache, activations and buffers.

    With `of_free`, `share` is the part of what the others leave that the KV cache takes.  `buffers`
    are those of graphs and communication, `activations` the bytes for each token of a
    step and number of the hidden width.
    """

    share: Fact[Fraction]
    of_free: Fact[bool] | None = None
    buffers: Fact[Bytes]
    activations: Fact[NotNegative]


class EngineIntake(Strict):
    """The process of the front end, which takes requests one after another.

    `request` is its time for each of them, and `token` that for each token of a prompt.
    """

    request: Fact[Seconds]
    token: Fact[Seconds]


class EngineRecord(Record):
    """``workloads/engines/*.yaml``: how an inference engine runs a step.

    `extends` names the engine file that this one changes: its values win one by one. `step` is the
    time of the host between two steps, in which the device is idle, and `sequence` that for each
    sequence of the batch; `in_flight` is that for each sequence of the other batches of a pipeline,
    all of which the scheduler goes through at each step. `first` is the time of a first token after
    the engine, for which later ones do not wait: the start of a stream. `intake` is the time for
    which a request keeps others from coming, none if missing: tokenisation. `dispatch` is the time
    of the host for each kernel that is not in a graph. `launch` is the arguments of its server, by
    program, null where that of the extended file is none of this one.
    """

    kind: Literal["engine"]
    extends: str | None = None
    formats: EngineFormats
    scheduler: SchedulerFacts
    graphs: EngineGraphs | None = None
    kernels: EngineKernels
    collectives: EngineCollectives
    memory: EngineMemory
    step: Fact[Seconds]
    sequence: Fact[Seconds]
    in_flight: Fact[Seconds]
    first: Fact[Seconds]
    intake: EngineIntake | None = None
    dispatch: Fact[Seconds] = Field(description="time of the host for a kernel without a graph")
    launch: dict[Program, LaunchArguments | None] | None = None
