"""Layers as lists of operations: attention or Mamba-2, an MLP or experts, and the model's ends."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from clustersim.workload.finetune import trainable
from clustersim.workload.kernels import Collective, Kernel, flat
from clustersim.workload.layers.attention import attention_ops
from clustersim.workload.layers.mamba import mamba_ops
from clustersim.workload.layers.mlp import experts_ops, mlp_ops, shared_ops, shared_sum
from clustersim.workload.layers.pieces import gradient_sum, norm_op, residual_op
from clustersim.workload.model import Layer
from clustersim.workload.ops import Op
from clustersim.workload.slice import Slice


def layer_ops(shard: Slice, layer: Layer) -> list[Op]:
    """Return the operations of one layer, in the order of its forward."""
    return in_order(ops_by_part(shard, layer))


def in_order(parts: Mapping[str, Sequence[Op]]) -> list[Op]:
    """Return the operations of all parts of a layer."""
    return [op for ops in parts.values() for op in ops]


def ops_by_part(shard: Slice, layer: Layer) -> dict[str, list[Op]]:
    """Return the operations of one layer by part, in the order of its forward.

    Parts are ``gradients``, ``attention`` or ``mamba``, and ``mlp`` or ``router``, ``experts``,
    ``shared`` and ``end``; a layer of a pattern has only one of mixer and MLP.
    """
    trained = trainable(shard.model, layer, shard.finetune)
    weights = trained.dense(shard.tensor) + trained.of_experts(shard.expert, shard.expert_tensor)
    return {
        "gradients": [Op("layer gradient sum", backward=gradient_sum("layer", shard, weights))],
        **_mixer(shard, layer),
        **(_after_mixer(shard, layer) if layer.mlp else {}),
    }


def _mixer(shard: Slice, layer: Layer) -> dict[str, list[Op]]:
    """Return what mixes tokens, from its norm to its residual, if the layer has it."""
    if layer.mixer is None:
        return {}
    name = layer.mixer
    *ops, projection = mamba_ops(shard) if name == "mamba" else attention_ops(shard, layer)
    if shard.model.parallel_block:  # the MLP reduces the sum of both outputs
        projection = _without_collectives(projection)
    return {
        name: [
            norm_op(f"{name} norm", shard),
            *ops,
            projection,
            *_output_norm(name, shard),
            residual_op(f"{name} residual", shard, "output"),
        ]
    }


def _after_mixer(shard: Slice, layer: Layer) -> dict[str, list[Op]]:
    """Return an MLP or experts, from their norm to their residual."""
    norm = norm_op("mlp norm", shard)
    residual = [*_output_norm("mlp", shard), residual_op("mlp residual", shard, "mlp")]
    if layer.experts:
        return _with_experts(shard, norm, residual)
    return {"mlp": [*_mlp(shard, norm), *residual]}


def _mlp(shard: Slice, norm: Op) -> list[Op]:
    """Return an MLP behind its norm.

    In a parallel block with one norm it reads what attention has normalised, gathered and saved.
    Wang and Komatsuzaki 2021, GPT-J; Chowdhery et al. 2022, section 2, arXiv:2204.02311.
    """
    up, *rest = mlp_ops(shard)
    if shard.model.parallel_block == "one-norm":
        return [replace(_without_collectives(up), inputs=0.0), *rest]
    return [norm, up, *rest]


def _without_collectives(op: Op) -> Op:
    """Return an operation without what it moves over the tensor group."""
    return replace(op, forward=_computed(op.forward), backward=_computed(op.backward))


def _computed(kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    return tuple(kernel for kernel in flat(kernels) if not isinstance(kernel, Collective))


def _output_norm(name: str, shard: Slice) -> list[Op]:
    """Return the norm of an output before its sum with the residual, if the model has one."""
    if not shard.model.output_norms:
        return []
    return [norm_op(f"{name} output norm", shard, residual=False)]


def _with_experts(shard: Slice, norm: Op, residual: list[Op]) -> dict[str, list[Op]]:
    router, *routed = experts_ops(shard)
    shared = shared_ops(shard)
    end = [shared_sum(shard), *residual] if shared else residual
    return {"router": [norm, router], "experts": routed, "shared": shared, "end": end}


def captured_ops(of_layer: Mapping[str, Sequence[Op]], parts: Collection[str]) -> frozenset[str]:
    """Return the names of the operations of a layer that CUDA graphs of some parts capture.

    Shared experts are captured with the router: Megatron-Core, ``TransformerLayer``.

    Parameters
    ----------
    of_layer : its operations by part
    """
    captured = {*parts, "shared"} if "router" in parts else {*parts}
    captured |= {"end"} if "experts" in parts else set()
    return frozenset(op.name for name in of_layer if name in captured for op in of_layer[name])
