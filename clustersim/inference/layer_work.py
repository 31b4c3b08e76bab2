r"""What a layer of a served model runs on one device: products, passes over memory, attention.

norm -> queries, keys, values -> rotation, cache -> attention -> output -> all-reduce
norm -> MLP, or router -> dispatch -> experts -> combine                -> all-reduce
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from clustersim.catalog.engines import EngineKernels
from clustersim.inference.formats import Formats
from clustersim.inference.kernels import Head
from clustersim.inference.layout import Layout
from clustersim.topology.accelerator import Accelerator
from clustersim.workload.model import Layer, Transformer

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


def head_of(model: Transformer, tensor: int) -> Head:
    """Return the attention of one device; keys beyond their number of heads are replicated."""
    heads = model.heads // tensor
    if model.latent is None:
        size, kv_heads = model.head_size, max(1, model.kv_heads // tensor)
        return Head(heads, kv_heads, size, size, 2 * size)
    key = model.latent.keys_values + model.latent.rope
    return Head(heads, 1, key, model.latent.keys_values, key, latent=True)


def prompt_head_of(model: Transformer, tensor: int) -> Head:
    """Return the attention of prompts, in which latent keys and values are written out."""
    head = head_of(model, tensor)
    if model.latent is None:
        return head
    key = model.latent.nope + model.latent.rope
    return Head(head.heads, head.heads, key, model.latent.value, 0, latent=True)


def layer_work(
    model: Transformer,
    layer: Layer,
    layout: Layout,
    formats: Formats,
    fused: EngineKernels,
    device: Accelerator,
) -> LayerWork:
    """Return the work of a layer on one device, without attention and routed experts."""
    products = [*_attention_products(model, layout.tensor, formats, device)]
    products += _mlp_products(model, layer, layout.tensor, formats, device)
    passes = [*_norm_passes(model, layout, fused), *_rotary_passes(model, layout.tensor, fused)]
    passes += _gate_passes(model, layer, layout.tensor, fused)
    return LayerWork(tuple(products), tuple(passes))


# --- products -------------------------------------------------------------------------------------


def _attention_products(
    model: Transformer, tensor: int, formats: Formats, device: Accelerator
) -> Iterator[Product]:
    kernel, h = formats.kernel("attention", device), model.hidden
    heads = model.heads / tensor
    if model.latent is None:
        kv_heads = max(1.0, model.kv_heads / tensor)
        yield Product(kernel, (heads + 2 * kv_heads) * model.head_size, h)
        yield Product(kernel, h, heads * model.head_size)
        return
    shape = model.latent
    narrow = shape.keys_values + shape.rope
    if shape.query is None:
        yield Product(kernel, narrow + heads * model.head_size, h)
    else:
        yield Product(kernel, narrow + shape.query, h)
        yield Product(kernel, heads * model.head_size, shape.query)
    yield Product(formats.wide, shape.keys_values, shape.nope, heads)
    yield Product(formats.wide, shape.value, shape.keys_values, heads)
    yield Product(kernel, h, heads * shape.value)


def _mlp_products(
    model: Transformer, layer: Layer, tensor: int, formats: Formats, device: Accelerator
) -> Iterator[Product]:
    kernel, h = formats.kernel("mlp", device), model.hidden
    inner = model.ffn
    if layer.experts:
        assert model.experts is not None
        yield Product(formats.wide, model.experts.count, h)
        inner = model.experts.shared * model.experts.ffn
        kernel = formats.kernel("experts", device)
    if inner:
        yield Product(kernel, (2 if model.gated else 1) * inner / tensor, h)
        yield Product(kernel, h, inner / tensor)


# --- passes ---------------------------------------------------------------------------------------


def _norm_passes(model: Transformer, layout: Layout, fused: EngineKernels) -> Iterator[Pass]:
    """Yield the norms, each after a residual sum, and those of outputs, queries and keys.

    In a parallel block both outputs are added before the one residual sum.
    """
    h = HALF * model.hidden
    alone = Pass(1, 2 * h) if fused.norm.value else Pass(_SEPARATE_NORM[0], _SEPARATE_NORM[1] * h)
    if model.parallel_block:
        yield Pass(1, 3 * h)
        if model.parallel_block == "own-norms":
            yield alone
    for _ in range(1 if model.parallel_block else 2):
        if fused.norm_reduced.value and layout.tensor > 1:
            continue
        if fused.norm.value and fused.residual_norm.value:
            yield Pass(1, 4 * h)
        else:
            yield Pass(1, 3 * h)
            yield alone
    if model.output_norms:
        yield Pass(2 * alone.launches, 2 * alone.nbytes)
    if model.qk_norm:
        heads = (model.heads + model.kv_heads) / layout.tensor
        yield Pass(2 * alone.launches, alone.nbytes * heads * model.head_size / model.hidden)


def _rotary_passes(model: Transformer, tensor: int, fused: EngineKernels) -> Iterator[Pass]:
    """Yield the rotation of queries and keys, and the write of keys and values to the cache."""
    if fused.rotary_attended.value:
        return
    head = head_of(model, tensor)
    cached = HALF * head.kv_heads * head.read
    turned = HALF * (head.heads * model.head_size + head.kv_heads * head.key)
    if fused.rotary_cached.value:
        yield Pass(1, 2 * turned + 2 * cached)
    else:
        yield Pass(1, 2 * turned)
        yield Pass(1, 2 * cached)


def _gate_passes(
    model: Transformer, layer: Layer, tensor: int, fused: EngineKernels
) -> Iterator[Pass]:
    inner = model.ffn / tensor
    if layer.experts:
        assert model.experts is not None
        inner = model.experts.shared * model.experts.ffn / tensor
        yield Pass(1, HALF * 2 * model.experts.count)
    if inner and model.gated:
        yield Pass(1, HALF * 3 * inner) if fused.gate.value else Pass(2, HALF * 5 * inner)
    elif inner:
        yield Pass(1, HALF * 2 * inner)
    if not fused.bias.value:
        biased = sum(1 for name in ("qkv", "output", "mlp") if name in model.biases)
        yield Pass(biased, HALF * 2 * biased * model.hidden)
