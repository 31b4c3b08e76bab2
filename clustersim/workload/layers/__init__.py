"""Layers as lists of operations: attention, an MLP or experts, and the two ends of the model."""

from clustersim.workload.layers.attention import attention_ops
from clustersim.workload.layers.experts import experts_ops
from clustersim.workload.layers.mlp import mlp_ops
from clustersim.workload.layers.pieces import gradient_sum, norm_op, residual_op
from clustersim.workload.model import Layer
from clustersim.workload.ops import Op
from clustersim.workload.parameters import layer_parameters
from clustersim.workload.slice import Slice


def layer_ops(part: Slice, layer: Layer) -> list[Op]:
    """Return the operations of one layer, in the order of its forward."""
    held = layer_parameters(part.model, layer)
    weights = held.dense(part.tensor) + held.of_experts(part.expert, part.expert_tensor)
    return [
        Op("layer gradient sum", backward=gradient_sum("layer", part, weights)),
        norm_op("attention norm", part),
        *attention_ops(part, layer),
        residual_op("attention residual", part, "output"),
        norm_op("mlp norm", part),
        *(experts_ops(part) if layer.experts else mlp_ops(part)),
        residual_op("mlp residual", part, "mlp"),
    ]
