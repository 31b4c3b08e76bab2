"""Bytes that are alive on one tensor rank: parameters it holds and activations it keeps.

Activation formulas are those of Korthikanti et al. 2022, arXiv:2205.05198, section 4, for numbers
of 2 bytes and dropout masks of 1; letters as there: s tokens, b sequences, h hidden, a heads,
t tensor ranks.
"""

from clustersim.workload.kernels import Slice
from clustersim.workload.model import Transformer


def layer_parameters(model: Transformer, tensor: int) -> float:
    """Return the parameters of one block on one tensor rank.

    Matrices and the biases of their columns are split; the biases after a reduction and the norms
    are held by every rank.
    """
    h, f = model.hidden, model.ffn
    split = 4 * h * h + 2 * h * f + 3 * h + f
    whole = 2 * h + 4 * h
    return split / tensor + whole


def rank_parameters(
    model: Transformer, tensor: int, layers: int, *, first: bool, last: bool
) -> float:
    """Return the parameters of one rank of a stage.

    The first stage holds both embeddings, the last the final norm and, when it is not the first,
    its own copy of the tied token embedding for the logits.
    """
    held = layers * layer_parameters(model, tensor)
    if first:
        held += model.embedding_parameters / tensor + model.position_parameters
    if last:
        held += 2 * model.hidden + (0 if first else model.embedding_parameters / tensor)
    return held


def layer_activations(part: Slice) -> float:
    r"""Return what one block keeps from forward to backward without recomputation [B].

    .. math:: s b h \left(10 + \frac{24}{t} + \frac{5 a s}{h t}\right)

    Flash attention keeps no attention matrix: the last term falls away but for one 4-byte number
    for each row.
    """
    x, t = part.stream, part.tensor
    if part.kernels.attention == "flash":
        rows = part.micro * part.model.heads * part.model.sequence / t
        return x * (10 + 24 / t) + 4 * rows
    return x * (10 + 24 / t) + 5 * part.scores


def checkpoint(part: Slice) -> float:
    """Return what one fully recomputed block keeps: its input, 2 s b h [B]."""
    return 2 * part.stream


def embedding_activations(part: Slice) -> float:
    """Return what the embedding keeps: the mask of its dropout, s b h [B]."""
    return part.stream


def head_activations(part: Slice) -> float:
    """Return what norm, logits and loss keep: two inputs, and the logits in 2 and 4 bytes [B]."""
    logits = part.tokens * part.model.vocab / part.tensor
    return 4 * part.stream + (2 + 4) * logits
