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
from clustersim.importers.launch.table import Read, Reads, ignored
from clustersim.importers.reasons import reason_of

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
    "fp4": "fp4-format",
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


def not_read(program: str, reads: Reads) -> Mapping[str, str]:
    """Return the options of a program, and of the classes, that are not read, with the reasons."""
    arguments = ignored("megatron")
    renamed = {name: reason_of(of, arguments) for name, of in {**_RENAMED, **_INVERTED}.items()}
    table = {**ignored(program, "megatron-config", "megatron"), **renamed}
    return {name: why for name, why in table.items() if why is not None and name not in reads}
