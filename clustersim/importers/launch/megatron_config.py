"""Names of the configuration classes of Megatron-Core, and of parsed arguments, as its arguments.

hidden_size      -------------> --hidden-size
num_moe_experts  ---renamed---> --num-experts
add_bias_linear  --inverted---> --disable-bias-linear

Names are those of NVIDIA/Megatron-LM: megatron/core/model_parallel_config.py,
transformer/transformer_config.py, distributed/distributed_data_parallel_config.py and
optimizer/optimizer_config.py, and the destinations in megatron/training/arguments.py (read
2026-11-24).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from clustersim.importers.launch import megatron
from clustersim.importers.launch.options import Option
from clustersim.importers.launch.table import Read, Reads, reason_of

_RENAMED: Final[Mapping[str, str]] = {
    "num-moe-experts": "num-experts",
    "gated-linear-unit": "swiglu",
    "virtual-pipeline-model-parallel-size": "num-virtual-stages-per-pipeline-rank",
    "num-layers-in-first-pipeline-stage": "decoder-first-pipeline-num-layers",
    "num-layers-in-last-pipeline-stage": "decoder-last-pipeline-num-layers",
    "average-in-collective": "ddp-average-in-collective",
    "bucket-size": "ddp-bucket-size",
    "pad-buckets-for-high-nccl-busbw": "ddp-pad-buckets-for-high-nccl-busbw",
    "nccl-ub": "use-nccl-ub",
    "use-custom-fsdp": "use-megatron-fsdp",
    "keep-fp8-transpose-cache-when-using-custom-fsdp": "keep-fp8-transpose-cache",
    "use-te-rng-tracker": "te-rng-tracker",
    "microbatch-group-size-per-vp-stage": "microbatch-group-size-per-virtual-pipeline-stage",
    "overlap-p2p-comm-warmup-flush": "overlap-p2p-communication-warmup-flush",
    "layernorm-epsilon": "norm-epsilon",
    "layernorm-zero-centered-gamma": "apply-layernorm-1p",
    "fp8": "fp8-format",
}
"""Names of classes that differ from their argument."""

_INVERTED: Final[Mapping[str, str]] = {
    "add-bias-linear": "disable-bias-linear",
    "share-embeddings-and-output-weights": "untie-embeddings-and-output-weights",
    "bias-gelu-fusion": "no-bias-gelu-fusion",
    "bias-swiglu-fusion": "no-bias-swiglu-fusion",
    "bias-dropout-fusion": "no-bias-dropout-fusion",
    "bias-dropout-add-fusion": "no-bias-dropout-fusion",
    "apply-rope-fusion": "no-rope-fusion",
    "add-position-embedding": "no-position-embedding",
    "masked-softmax-fusion": "no-masked-softmax-fusion",
    "gradient-accumulation-fusion": "no-gradient-accumulation-fusion",
    "gradient-reduce-div-fusion": "no-gradient-reduce-div-fusion",
    "overlap-p2p-comm": "no-overlap-p2p-communication",
    "scatter-gather-tensors-in-pipeline": "no-scatter-gather-tensors-in-pipeline",
    "align-grad-reduce": "no-align-grad-reduce",
    "align-param-gather": "no-align-param-gather",
    "fp8-wgrad": "no-fp8-wgrad",
    "pin-cpu-grads": "no-pin-cpu-grads",
    "pin-cpu-params": "no-pin-cpu-params",
    "perform-initialization": "no-initialization",
    "async-tensor-model-parallel-allreduce": "no-async-tensor-model-parallel-allreduce",
    "clone-scatter-output-in-embedding": "no-clone-scatter-output-in-embedding",
    "create-attention-mask-in-dataloader": "no-create-attention-mask-in-dataloader",
    "mmap-bin-files": "no-mmap-bin-files",
    "check-for-nan-in-loss-and-grad": "no-check-for-nan-in-loss-and-grad",
}
"""Flags that are on where their argument is left out."""

_DOTTED: Final = (
    "attention-backend",
    "main-grads-dtype",
    "main-params-dtype",
    "exp-avg-dtype",
    "exp-avg-sq-dtype",
)
"""Values that are names in a module: ``torch.bfloat16``, ``AttnBackend.flash``."""

_TYPES: Final = {"float32": "fp32", "bfloat16": "bf16", "half": "fp16", "float16": "fp16",
                 "uint8": "fp8"}  # fmt: skip


def _inverted(read: Read) -> Read:
    return Read(read.key, lambda option: read.convert(_with(option, not option.is_set())))


def _dotted(read: Read) -> Read:
    def convert(option: Option) -> Any:
        name = option.word().rpartition(".")[2]
        return read.convert(_with(option, _TYPES.get(name, name)))

    return Read(read.key, convert)


def _with(option: Option, value: Any) -> Option:
    return replace(option, values=(value,))


def _narrow(option: Option) -> str | None:
    """Return the format of products in 8 bits, which some files only turn on."""
    stated = option.word() if option.is_set() else None
    return "hybrid" if stated in ("True", "true") else stated


def _reduced(option: Option) -> int:
    return 4 if option.is_set() else 2


_ARGUMENTS: Final = megatron.READS

READS: Final[Reads] = {
    **_ARGUMENTS,
    **{name: _ARGUMENTS[of] for name, of in _RENAMED.items() if of in _ARGUMENTS},
    **{name: _inverted(_ARGUMENTS[of]) for name, of in _INVERTED.items() if of in _ARGUMENTS},
    **{name: _dotted(_ARGUMENTS[name]) for name in _DOTTED},
    "fp8": Read("of.fp8", _narrow),
    "grad-reduce-in-fp32": Read("framework.gradients.bytes_each", _reduced),
}
"""Options that are read, by their names in the classes."""

_INSIDE: Final = "a detail inside of kernels that the profile has as measured"
_SET: Final = "set by the program itself"

IGNORED: Final[Mapping[str, str]] = {
    **{
        name: reason
        for name, of in {**_RENAMED, **_INVERTED}.items()
        if name not in READS and (reason := reason_of(of, megatron.IGNORED)) is not None
    },
    "persist-layer-norm": "norms are those of Transformer Engine",
    "memory-efficient-layer-norm": "norms are those of Transformer Engine",
    "batch-p2p-*": "transfers between stages are those of the profile",
    "deallocate-pipeline-outputs": "outputs of a stage are freed when they are sent",
    "variable-seq-lengths": "sequences are full",
    "pipeline-dtype": "transfers between stages have the precision of the model",
    "params-dtype": "weights have the format of the precision",
    "autocast-*": "weights have the format of the precision",
    "enable-autocast": "weights have the format of the precision",
    "preserve-fp32-weights": "of use-megatron-fsdp",
    "outer-dp-sharding-strategy": "of use-megatron-fsdp",
    "store-param-remainders": "of use-precision-aware-optimizer",
    "reduce-scatter-with-fp32-accumulation": "not modelled: an all-to-all instead of the sum",
    "offload-optimizer-states": "not modelled: moments that leave the device after each step",
    "optimizer-cuda-graph": "the captured parts are those of the profile",
    "num-microbatches-with-partial-activation-checkpoints": "every microbatch is recomputed alike",
    "cpu-offloading": "of cpu-offloading-num-layers",
    "cpu-offloading-*": "of cpu-offloading-num-layers",
    "fine-grained-activation-offloading": "not modelled: offload of single activations",
    "offload-modules": "not modelled: offload of single activations",
    "activation-func": "one pass over the same numbers",
    "activation-func-*": _INSIDE,
    "use-transformer-engine-*": _INSIDE,
    "transformer-layer-spec": "modelled as layers of Transformer Engine",
    "fused-single-qkv-rope": _INSIDE,
    "softmax-scale": _INSIDE,
    "disable-parameter-transpose-cache": _INSIDE,
    "tp-comm-*": "of tp-comm-overlap, in its usual form",
    "tp-only-amax-red": _INSIDE,
    "moe-token-dropping": "of moe-expert-capacity-factor",
    "use-kitchen": "not modelled: quantisation by recipes",
    "quant-recipe": "not modelled: quantisation by recipes",
    "fp4": "not modelled: training in 4 bits",
    "soap-*": "modelled as Adam with 32-bit moments",
    "lion-*": "modelled as Adam with 32-bit moments",
    "init-method": "changes the loss, not the time of a step",
    "output-layer-init-method": "changes the loss, not the time of a step",
    "*-func": _SET,
    "timers": _SET,
    "barrier-with-L1-time": "logging",
    **megatron.IGNORED,
}
"""Options that are not read, or patterns of them, each with the reason; the first match counts."""
