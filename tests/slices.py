"""Layers of a rank without a scenario, and sums over their kernels, which several files test."""

from clustersim.catalog.records.frameworks import KernelFacts
from clustersim.workload.kernels import Collective, Flash, Gemm, Stream, flat
from clustersim.workload.layers import layer_ops
from clustersim.workload.model import Layer
from clustersim.workload.slice import Slice

PLAIN = Layer()
"""A layer without experts that sees all tokens."""


def kernel_facts(attention="flash", **facts):
    """Return the kernels of a framework, with the defaults of its file."""
    usual = {
        "bias_gelu_fused": True, "bias_dropout_fused": True, "loss_forward": 38.0,
        "loss_backward": 14.0, "gradient_accumulation": 6.0,
    }  # fmt: skip
    return KernelFacts.model_construct(attention=attention, **(usual | facts))


def slice_of(model, tensor=1, micro=1, attention="flash", **facts):
    """Return a slice; keys of a framework's kernels may be given as well as those of a slice."""
    kernels = kernel_facts(attention)
    own = {key: facts.pop(key) for key in list(facts) if hasattr(kernels, key)}
    return Slice(model, micro, tensor, kernels.model_copy(update=own), **facts)


def block(part, layer=PLAIN):
    """Return the operations of a layer."""
    return layer_ops(part, layer)


def flops(kernels):
    """Return the FLOPs of the products in a chain."""
    return sum(kernel.flops for kernel in flat(kernels) if isinstance(kernel, Gemm | Flash))


def moved(kernels, name):
    """Return the bytes of the passes of a name in a chain."""
    return sum(k.nbytes for k in flat(kernels) if isinstance(k, Stream) and k.name == name)


def collectives(kernels):
    """Return the collectives in a chain."""
    return [kernel for kernel in flat(kernels) if isinstance(kernel, Collective)]
