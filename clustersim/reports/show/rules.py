"""Rules of a framework profile in words: computation, kernels and the host.

A rule names its keys and makes one sentence of their values, as they are written in the file.  No
rule depends on a particular framework.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from clustersim.units import counted


class Rule(NamedTuple):
    """How one sentence is made.

    Attributes
    ----------
    keys : facts of the sentence; it is written where the file has the first of them
    sentence : the text, from their values in this order, None for missing ones
    """

    keys: tuple[str, ...]
    sentence: Callable[..., str]


def either(key: str, yes: str, no: str) -> Rule:
    """Return the rule of a flag."""
    return Rule((key,), lambda value: yes if value else no)


def one_of(key: str, texts: Mapping[str, str]) -> Rule:
    """Return the rule of a choice."""
    return Rule((key,), lambda value: texts[value])


def as_list(words: Iterable[Any], last: str = "and") -> str:
    """Return words as a list in prose.

    >>> as_list(["1f1b", "gpipe", "zb-v"], "or")
    '1f1b, gpipe or zb-v'
    """
    *most, final = [str(word) for word in words]
    return f"{', '.join(most)} {last} {final}" if most else final


def as_percent(share: float) -> str:
    """Return a share in percent: ``percent(0.0213)`` is ``2.13 %``."""
    return f"{100 * share:.3g} %"


KERNELS: Final = (
    either(
        "kernels.bias_gelu_fused",
        "Bias and GELU are fused into one kernel.",
        "Bias and GELU are separate kernels.",
    ),
    either(
        "kernels.bias_dropout_fused",
        "Bias, dropout and residual addition are fused into one kernel.",
        "Bias, dropout and residual addition are separate kernels.",
    ),
    either(
        "kernels.gated_fused",
        "The activation and product of a gated MLP are fused into one kernel.",
        "The activation and product of a gated MLP are separate kernels.",
    ),
    either(
        "kernels.gate_merged",
        "The gate and up projections of a gated MLP are one matrix product.",
        "The gate and up projections of a gated MLP are two matrix products.",
    ),
    either(
        "kernels.rotary_fused",
        "Rotary position embedding is one kernel.",
        "Rotary position embedding runs operation by operation.",
    ),
    either(
        "kernels.norm_fused",
        "RMSNorm is one kernel.",
        "RMSNorm runs operation by operation.",
    ),
    either(
        "kernels.norm_persistent",
        "The backward of a norm computes input and parameter gradients in one pass.",
        "The backward of a norm computes parameter gradients in a second pass.",
    ),
    either(
        "kernels.cast_searched",
        "A pass before each conversion to 8 bits finds the maximum of a tensor, which scales it.",
        "A conversion to 8 bits is one pass, scaled by the maximum of earlier steps.",
    ),
    either(
        "kernels.tensor_overlap",
        "In the backward, tensor-parallel collectives overlap with matrix products.",
        "In the backward, tensor-parallel collectives do not overlap with matrix products.",
    ),
    either(
        "kernels.tensor_pipelined",
        "With sequence parallelism, tensor-parallel collectives are pipelined with the adjacent"
        " matrix products.",
        "Tensor-parallel collectives are not pipelined with matrix products.",
    ),
    Rule(
        ("kernels.weight_cast_forward", "kernels.weight_cast_backward"),
        lambda ahead, back: (
            f"In 8-bit precision, casting a weight moves {counted(ahead, 'byte')} per use forward"
            f" and {back or 0:g} backward."
        ),
    ),
    Rule(
        ("kernels.dropout_mask",),
        lambda nbytes: f"A dropout mask takes {counted(nbytes, 'byte')} per element.",
    ),
    Rule(
        ("kernels.loss_forward", "kernels.loss_backward"),
        lambda ahead, back: (
            f"The loss moves {counted(ahead, 'byte')} per logit forward and {back:g} backward."
        ),
    ),
    Rule(
        ("kernels.loss_kept",),
        lambda nbytes: f"The loss keeps {counted(nbytes, 'byte')} per logit for its backward.",
    ),
    either(
        "kernels.adapters_merged",
        "In fine-tuning, projections of the same input are merged and share one adapter.",
        "In fine-tuning, projections of the same input have separate adapters.",
    ),
    either(
        "kernels.adapters_scaled",
        "Adapter outputs are scaled within the matrix product.",
        "Adapter outputs are scaled in a separate pass.",
    ),
    Rule(
        ("passes",),
        lambda share: f"Elementwise kernels reach at most {as_percent(share)} of memory bandwidth.",
    ),
)


def _ringed(what: str, moved: tuple[float, float]) -> str:
    """Return what merging the partial results of ring attention moves."""
    once, step = moved
    return (
        f"In ring attention, merging {what} moves {counted(once, 'byte')} per element and {step:g}"
        " more for each step after the first."
    )


def _copied(what: str, times: tuple[int, int]) -> str:
    ahead, back = times
    return f"{what} copied to another layout {counted(ahead, 'time')} forward and {back} backward."


ATTENTION: Final = (
    one_of(
        "kernels.attention",
        {
            "flash": "Attention is one fused kernel, which never writes the score matrix.",
            "fused-softmax": "The score matrix is written; scale, mask and softmax are one kernel.",
            "math": "The score matrix is written; its mask is added in place before the softmax.",
            "unfused": "The score matrix is written; scale, mask and softmax are separate passes.",
        },
    ),
    Rule(
        ("kernels.products_share",),
        lambda share: f"Matrix products run at {share:g} times the rate of the device file.",
    ),
    Rule(
        ("kernels.attention_share",),
        lambda share: f"The attention kernel runs at {share:g} times the rate of the device file.",
    ),
    either(
        "kernels.attention_cudnn",
        "Where attention is fused, the kernel is cuDNN's if the device file has its rate.",
        "Where attention is fused, the kernel is FlashAttention-2.",
    ),
    either(
        "kernels.kv_repeated",
        "Keys and values are copied to all queries that share them.",
        "Where attention is fused, shared keys and values are read in place, without copies.",
    ),
    Rule(("kernels.ring_result",), lambda moved: _ringed("the results", moved)),
    Rule(
        ("kernels.ring_gradients",),
        lambda moved: _ringed("the gradients of queries, keys and values", moved),
    ),
    Rule(
        ("kernels.ring_sent",),
        lambda sent: (
            f"In the backward of ring attention each rank sends {sent[0]:g} bytes once and"
            f" {sent[1]:g} in each step after the first, per element of its keys and values."
        ),
    ),
    either(
        "kernels.ring_waits",
        "Transfers of ring attention do not overlap with it.",
        "Transfers of ring attention overlap with it.",
    ),
    Rule(("kernels.query_copies",), lambda times: _copied("Queries are", times)),
    Rule(
        ("kernels.query_kept",),
        lambda count: f"Queries are a view that keeps {count} tensors of their size alive.",
    ),
    Rule(("kernels.key_copies",), lambda times: _copied("Keys and values are", times)),
    Rule(
        ("kernels.result_copies",),
        lambda times: _copied("With several sequences per microbatch, the result is", times),
    ),
)


EXPERTS: Final = (
    either(
        "experts.grouped",
        "The matrix products of a rank's experts are one grouped kernel.",
        "The matrix products of a rank's experts run one after another.",
    ),
    either(
        "experts.once_per_node",
        "A token is sent once to each node that holds some of its experts, and copied there.",
        "A token is sent separately to each of its experts.",
    ),
    Rule(
        ("experts.dispatched",),
        lambda nbytes: f"Dispatched activations take {counted(nbytes, 'byte')} per element.",
    ),
    either(
        "experts.sorted",
        "Received tokens are copied into the order of the local experts, and back.",
        "Received tokens are processed in the order of their arrival.",
    ),
    either(
        "experts.counted",
        "Token counts and routing weights are sent in separate messages.",
        "Only tokens are sent, without separate messages for counts and weights.",
    ),
    either(
        "experts.separate",
        "The host issues the products of each expert separately, and they run concurrently.",
        "The host issues the products of all experts together.",
    ),
    Rule(
        ("experts.bookkeeping",),
        lambda kernels: (
            f"{kernels[0]} small kernels count and number rows forward, and {kernels[1]} backward."
        ),
    ),
    either(
        "experts.synchronised",
        "The host waits for the row counts of each layer before it issues the exchange.",
        "The host issues the exchange without waiting for row counts.",
    ),
    either(
        "experts.overlapped",
        "The exchange of a microbatch overlaps the computation of another one.",
        "The exchange does not overlap the computation of other microbatches.",
    ),
    Rule(
        ("experts.exchange_units",),
        lambda units: f"The exchange occupies {counted(units, 'compute unit')}.",
    ),
    either(
        "experts.padded",
        "Rows are copied to multiples that 8-bit products need, and back.",
        "Rows are not padded in a separate pass.",
    ),
    either(
        "experts.fused",
        "Activation and conversions of the experts are part of their products.",
        "Activation and conversions of the experts are separate kernels.",
    ),
)


HOST: Final = (
    Rule(("dispatch",), lambda time: f"The host needs {time} to issue a kernel."),
    Rule(("dispatch_backward",), lambda time: f"In the backward it needs {time} per kernel."),
    either(
        "launches_wait",
        "The host waits for each kernel before it issues the next.",
        "The host issues kernels ahead of the device.",
    ),
    Rule(
        ("graphs.parts",),
        lambda parts: f"CUDA graphs capture {as_list(parts)}, with one graph per direction.",
    ),
    Rule(("graphs.replay",), lambda time: f"The host needs {time} to launch a graph."),
)
