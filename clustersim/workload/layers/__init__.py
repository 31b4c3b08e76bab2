"""Layers as lists of operations: attention, an MLP or experts, and the two ends of the model."""

from collections.abc import Collection

from clustersim.workload.finetune import trainable
from clustersim.workload.layers.attention import attention_ops
from clustersim.workload.layers.experts import experts_ops, shared_ops, shared_sum
from clustersim.workload.layers.mlp import mlp_ops
from clustersim.workload.layers.pieces import gradient_sum, norm_op, residual_op
from clustersim.workload.model import Layer
from clustersim.workload.ops import Op
from clustersim.workload.slice import Slice


def layer_ops(part: Slice, layer: Layer) -> list[Op]:
    """Return the operations of one layer, in the order of its forward."""
    return [op for ops in layer_parts(part, layer).values() for op in ops]


def layer_parts(part: Slice, layer: Layer) -> dict[str, list[Op]]:
    """Return the operations of one layer by part, in the order of its forward.

    Parts are ``gradients``, ``attention``, and ``mlp`` or ``router``, ``experts``, ``shared`` and
    ``end``.
    """
    held = trainable(part.model, layer, part.finetune)
    weights = held.dense(part.tensor) + held.of_experts(part.expert, part.expert_tensor)
    norm, residual = norm_op("mlp norm", part), residual_op("mlp residual", part, "mlp")
    return {
        "gradients": [Op("layer gradient sum", backward=gradient_sum("layer", part, weights))],
        "attention": [
            norm_op("attention norm", part),
            *attention_ops(part, layer),
            residual_op("attention residual", part, "output"),
        ],
        **(
            _with_experts(part, norm, residual)
            if layer.experts
            else {"mlp": [norm, *mlp_ops(part), residual]}
        ),
    }


def _with_experts(part: Slice, norm: Op, residual: Op) -> dict[str, list[Op]]:
    router, *routed = experts_ops(part)
    shared = shared_ops(part)
    end = [shared_sum(part), residual] if shared else [residual]
    return {"router": [norm, router], "experts": routed, "shared": shared, "end": end}


def captured_ops(part: Slice, layer: Layer, parts: Collection[str]) -> frozenset[str]:
    """Return the names of the operations of a layer that CUDA graphs of some parts capture.

    Shared experts are captured with the router: Megatron-Core, ``TransformerLayer``.
    """
    captured = {*parts, "shared"} if "router" in parts else {*parts}
    of_layer = layer_parts(part, layer)
    return frozenset(op.name for name in of_layer if name in captured for op in of_layer[name])
