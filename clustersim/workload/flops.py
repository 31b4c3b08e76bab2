"""Floating-point operations of a step, by the two conventions that papers use.

Model FLOPs count forward once and backward twice, a multiplication and an addition each, without
what is recomputed and without halving attention for its causal mask.  Hardware FLOPs add the
recomputed forward of the blocks.  Narayanan et al. 2021, eq. 3, arXiv:2104.04473; Korthikanti
et al. 2022, eq. 7 and 8, arXiv:2205.05198.
"""

from clustersim.workload.model import Transformer


def layer_forward_flops(model: Transformer) -> float:
    r"""Return the FLOPs of one block on one sequence, forward [FLOP].

    .. math:: 2 s (4 h^2 + 2 h f) + 4 s^2 h

    with s = `sequence`, h = `hidden`, f = `ffn`: four projections of h by h, two of h by f, and
    the two products of attention.
    """
    s, h, f = model.sequence, model.hidden, model.ffn
    return 2.0 * s * (4 * h * h + 2 * h * f) + 4.0 * s * s * h


def logits_forward_flops(model: Transformer) -> float:
    """Return the FLOPs of the product with the embedding on one sequence, 2 s h V [FLOP]."""
    return 2.0 * model.sequence * model.hidden * model.vocab


def model_flops(model: Transformer, sequences: int) -> float:
    r"""Return the FLOPs that training on `sequences` needs [FLOP].

    .. math:: 72 B s l h^2 (1 + s / 6h + V / 12 l h)

    for f = 4 h: three times the forward of blocks and logits.
    """
    forward = model.layers * layer_forward_flops(model) + logits_forward_flops(model)
    return 3.0 * sequences * forward


def hardware_flops(model: Transformer, sequences: int, recompute: str) -> float:
    r"""Return the FLOPs that are carried out, recomputed blocks included [FLOP].

    .. math:: 96 B s l h^2 (1 + s / 6h + V / 16 l h)

    for f = 4 h and full recomputation; without, the same as `model_flops`.
    """
    again = model.layers * layer_forward_flops(model) if recompute == "full" else 0.0
    return model_flops(model, sequences) + sequences * again
