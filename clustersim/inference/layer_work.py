r"""What a layer of a served model runs on one device: products, passes over memory, attention.

norm -> queries, keys, values -> rotation, cache -> attention -> output -> all-reduce
norm -> Mamba-2 in -> convolution -> update of the state, or scan -> out -> all-reduce
norm -> MLP, or router -> dispatch -> experts -> combine                -> all-reduce
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from clustersim.inference.replica import Replica
from clustersim.workload.model import Layer

HALF: Final = 2.0
"""Size of a number of the residual stream [B]."""

_SEPARATE_NORM: Final = (4, 24.0)
"""Kernels of a norm that is written in operations of PyTorch, and the bytes that they move for each
number: conversion to 32 bits, mean of squares, product, product with the weights and conversion."""


class Product(NamedTuple):
    """`batch` products of all tokens with weights of (k, n), in a number format."""

    kernel: str
    n: float
    k: float
    batch: float = 1.0


class Pass(NamedTuple):
    """Elementwise kernels that move `nbytes` for each token, in `launches` kernels."""

    launches: float
    nbytes: float


class LayerWork(NamedTuple):
    """What one device runs for a layer, for each token that it has."""

    products: tuple[Product, ...]
    passes: tuple[Pass, ...]


def layer_work(replica: Replica, layer: Layer) -> LayerWork:
    """Return the work of a layer on one device, without attention, scans and routed experts."""
    products, passes = list[Product](), [*_norm_passes(replica, layer)]
    if layer.mixer == "attention":
        products += _attention_products(replica)
        passes += _rotary_passes(replica)
        passes += _more_passes(replica)
    elif layer.mixer == "mamba":
        products += _mamba_products(replica)
        passes += _mamba_passes(replica)
    if layer.mlp:
        products += _mlp_products(replica, layer)
        passes += _gate_passes(replica, layer)
    passes += _bias_passes(replica, layer)
    return LayerWork(tuple(products), tuple(passes))


# --- products -------------------------------------------------------------------------------------


def _attention_products(replica: Replica) -> Iterator[Product]:
    model, tensor, wide = replica.model, replica.layout.tensor, replica.formats.wide
    kernel, h = replica.kernel("attention"), model.hidden
    heads = model.heads / tensor
    if model.latent is None:
        kv_heads = max(1.0, model.kv_heads / tensor)
        queries = model.query_heads / tensor
        yield Product(kernel, (queries + 2 * kv_heads) * model.head_size, h)
        yield Product(kernel, h, heads * model.head_size)
        return
    shape = model.latent
    narrow = shape.keys_values + shape.rope
    if shape.query is None:
        yield Product(kernel, narrow + heads * model.head_size, h)
    else:
        yield Product(kernel, narrow + shape.query, h)
        yield Product(kernel, heads * model.head_size, shape.query)
    if shape.indexer is not None:
        width = shape.indexer.head_size
        yield Product(kernel, shape.indexer.heads * width, shape.query or h)
        yield Product(kernel, width, h)
        yield Product(wide, shape.indexer.heads, h)
    yield Product(wide, shape.keys_values, shape.nope, heads)
    yield Product(wide, shape.value, shape.keys_values, heads)
    yield Product(kernel, h, heads * shape.value)


def _mamba_products(replica: Replica) -> Iterator[Product]:
    """Yield both projections, in the number format of attention."""
    shape, tensor, h = replica.model.mamba, replica.layout.tensor, replica.model.hidden
    assert shape is not None
    kernel = replica.kernel("attention")
    yield Product(kernel, shape.columns / tensor, h)
    yield Product(kernel, h, shape.inner / tensor)


def _mlp_products(replica: Replica, layer: Layer) -> Iterator[Product]:
    model, tensor = replica.model, replica.layout.tensor
    kernel, h, inner = replica.kernel("mlp"), model.hidden, model.ffn
    if layer.experts:
        assert model.experts is not None
        yield Product(replica.formats.wide, model.experts.count, h)
        inner = model.experts.shared * model.experts.ffn
        kernel = replica.kernel("experts")
    if inner:
        yield Product(kernel, (2 if model.gated else 1) * inner / tensor, h)
        yield Product(kernel, h, inner / tensor)


# --- passes ---------------------------------------------------------------------------------------


def _norm_passes(replica: Replica, layer: Layer) -> Iterator[Pass]:
    """Yield the norms, each after a residual sum, and those of outputs, queries and keys.

    In a parallel block both outputs are added before the one residual sum.
    """
    model, tensor, fused = replica.model, replica.layout.tensor, replica.engine.kernels
    h = HALF * model.hidden
    alone = Pass(1, 2 * h) if fused.norm else Pass(_SEPARATE_NORM[0], _SEPARATE_NORM[1] * h)
    if model.parallel_block:
        yield Pass(1, 3 * h)
        if model.parallel_block == "own-norms":
            yield alone
    for _ in range(1 if model.parallel_block else layer.halves):
        if fused.norm_reduced and tensor > 1:
            continue
        if fused.norm and fused.residual_norm:
            yield Pass(1, 4 * h)
        else:
            yield Pass(1, 3 * h)
            yield alone
    if model.output_norms:
        yield Pass(layer.halves * alone.launches, layer.halves * alone.nbytes)
    if model.qk_norm and layer.mixer == "attention":
        heads = (model.heads + model.kv_heads) / tensor
        yield Pass(2 * alone.launches, alone.nbytes * heads * model.head_size / model.hidden)


def _rotary_passes(replica: Replica) -> Iterator[Pass]:
    """Yield the rotation of queries and keys, and the write of keys and values to the cache."""
    fused, head = replica.engine.kernels, replica.head
    if fused.rotary_attended:
        return
    cached = HALF * head.kv_heads * head.read
    turned = HALF * (head.heads * replica.model.head_size + head.kv_heads * head.key)
    if replica.model.positions == "none":
        turned = 0.0
    if fused.rotary_cached:
        yield Pass(1, 2 * turned + 2 * cached)
    else:
        yield Pass(1, 2 * turned)
        yield Pass(1, 2 * cached)


def _more_passes(replica: Replica) -> Iterator[Pass]:
    """Yield the product with a gate, and norm, rotation and cast of an indexer's inputs."""
    latent = replica.model.latent
    if latent is not None and (indexer := latent.indexer) is not None:
        yield Pass(4, HALF * 3 * (indexer.heads + 1) * indexer.head_size)
    if replica.model.attention_gate:
        yield Pass(1, HALF * 3 * replica.head.heads * replica.model.head_size)


def _mamba_passes(replica: Replica) -> Iterator[Pass]:
    """Yield the norm of the groups, which reads the result of the scan and its gate."""
    assert replica.model.mamba is not None
    yield Pass(1, 3 * HALF * replica.model.mamba.inner / replica.layout.tensor)


def _gate_passes(replica: Replica, layer: Layer) -> Iterator[Pass]:
    model, tensor, fused = replica.model, replica.layout.tensor, replica.engine.kernels
    inner = model.ffn / tensor
    if layer.experts:
        assert model.experts is not None
        inner = model.experts.shared * model.experts.ffn / tensor
        yield Pass(1, HALF * 2 * model.experts.count)
    if inner and model.gated:
        yield Pass(1, HALF * 3 * inner) if fused.gate else Pass(2, HALF * 5 * inner)
    elif inner:
        yield Pass(1, HALF * 2 * inner)


def _bias_passes(replica: Replica, layer: Layer) -> Iterator[Pass]:
    if replica.engine.kernels.bias:
        return
    parts = ["qkv", "output"] * (layer.mixer == "attention") + ["mlp"] * layer.mlp
    biased = sum(1 for name in parts if name in replica.model.biases)
    yield Pass(biased, HALF * 2 * biased * replica.model.hidden)
