"""Sentences on kernels, and on how the host issues them."""

from typing import Final

from clustersim.studies.show.profile.rules import Rule, counted, either, listed, one_of, percent

KERNELS: Final = (
    either(
        "kernels.bias_gelu_fused",
        "Bias and GELU are one kernel.",
        "Bias and GELU are a kernel each.",
    ),
    either(
        "kernels.bias_dropout_fused",
        "Bias, dropout and the sum with the residual stream are one kernel.",
        "Bias, dropout and the sum with the residual stream are a kernel each.",
    ),
    either(
        "kernels.gated_fused",
        "A gate and its product are one kernel.",
        "A gate and its product are a kernel each.",
    ),
    either(
        "kernels.gate_merged",
        "The two products of a gated MLP are one.",
        "The two products of a gated MLP are run one after the other.",
    ),
    either(
        "kernels.rotary_fused",
        "The rotation by position is one kernel.",
        "The rotation by position is run operation by operation.",
    ),
    either(
        "kernels.norm_fused",
        "An RMSNorm is one kernel.",
        "An RMSNorm is run operation by operation.",
    ),
    either(
        "kernels.norm_persistent",
        "A norm finds the gradients of its input and of its parameters in one pass.",
        "A norm takes a second pass for the gradients of its parameters.",
    ),
    either(
        "kernels.tensor_overlap",
        "In the backward, collectives of the tensor group run beside the products.",
        "In the backward, products wait for the collectives of the tensor group.",
    ),
    either(
        "kernels.tensor_pipelined",
        "Where ranks share the tokens out, collectives of the tensor group run piece by piece"
        " beside the products that they feed or follow.",
        "Collectives of the tensor group are not cut into pieces beside products.",
    ),
    Rule(
        ("kernels.weight_cast_forward", "kernels.weight_cast_backward"),
        lambda ahead, back: (
            f"In 8 bits, casting a weight moves {counted(ahead, 'byte')} whenever it is used, and"
            f" {back or 0:g} in the backward."
        ),
    ),
    Rule(
        ("kernels.dropout_mask",),
        lambda each: f"The mask of a dropout is kept in {counted(each, 'byte')} a number.",
    ),
    Rule(
        ("kernels.loss_forward", "kernels.loss_backward"),
        lambda ahead, back: (
            f"The loss moves {counted(ahead, 'byte')} for each logit forward and {back:g} backward."
        ),
    ),
    Rule(
        ("kernels.loss_kept",),
        lambda each: f"It keeps {counted(each, 'byte')} of each logit for its backward.",
    ),
    either(
        "kernels.adapters_merged",
        "In fine-tuning, layers that read the same input are one, with one adapter.",
        "In fine-tuning, layers that read the same input have an adapter each.",
    ),
    either(
        "kernels.adapters_scaled",
        "The products of an adapter scale what they make.",
        "What an adapter makes is scaled by a pass of its own.",
    ),
    Rule(
        ("passes",),
        lambda share: (
            f"Elementwise passes reach at most {percent(share)} of the memory's bandwidth."
        ),
    ),
)


def _ringed(what: str, moved: tuple[float, float]) -> str:
    """Tell what is moved to join the steps of a ring."""
    once, each = moved
    return (
        f"Where ranks share a sequence in a ring, {counted(once, 'byte')} for each number of {what}"
        f" and {each:g} for each step but the first join what the steps made."
    )


def _copied(what: str, times: tuple[int, int]) -> str:
    ahead, back = times
    return f"{what} copied into another order {counted(ahead, 'time')} forward and {back} backward."


ATTENTION: Final = (
    one_of(
        "kernels.attention",
        {
            "flash": "Attention is one kernel that never writes the matrix of scores.",
            "fused-softmax": "Scores are written; scale, mask and softmax are one kernel on them.",
            "unfused": "Scores are written; scale, mask and softmax are passes over them.",
        },
    ),
    Rule(
        ("kernels.attention_share",),
        lambda share: f"That kernel is {share:g} times as fast as devices are known with.",
    ),
    either(
        "kernels.attention_cudnn",
        "Where attention is fused, it is cuDNN's on devices that are known with it.",
        "Where attention is fused, it is FlashAttention-2.",
    ),
    either(
        "kernels.kv_repeated",
        "Keys and values are copied to all queries that share them.",
        "Fused attention reads keys and values that queries share as they are, not copies.",
    ),
    Rule(("kernels.ring_result",), lambda each: _ringed("the result", each)),
    Rule(
        ("kernels.ring_gradients",),
        lambda each: _ringed("queries, keys and values backward", each),
    ),
    Rule(("kernels.query_copies",), lambda each: _copied("Queries are", each)),
    Rule(("kernels.key_copies",), lambda each: _copied("Keys and values are", each)),
    Rule(
        ("kernels.result_copies",),
        lambda each: _copied("The result, of several sequences, is", each),
    ),
)


EXPERTS: Final = (
    either(
        "experts.grouped",
        "The products of a rank's experts are one kernel.",
        "The products of a rank's experts are run one after another.",
    ),
    either(
        "experts.once_per_node",
        "A token is sent once to each node that has some of its experts, and copied there.",
        "A token is sent to each of its experts.",
    ),
    Rule(
        ("experts.dispatched",),
        lambda each: f"On its way there a number is {counted(each, 'byte')}.",
    ),
    either(
        "experts.sorted",
        "Tokens that came are copied into the order of the experts here, and back.",
        "Tokens are computed with in the order in which they came.",
    ),
    either(
        "experts.counted",
        "How many tokens come, and their weights, are sent in messages of their own.",
        "Nothing but tokens is sent.",
    ),
)


HOST: Final = (
    Rule(("dispatch",), lambda each: f"The host takes {each} for each kernel that it issues."),
    Rule(("dispatch_backward",), lambda each: f"For those of a backward it takes {each}."),
    either(
        "launches_wait",
        "It waits for each kernel before it issues the next.",
        "It issues kernels ahead of the device.",
    ),
    Rule(
        ("graphs.parts",),
        lambda parts: f"Of a layer, {listed(parts)} are captured in one graph each way.",
    ),
    Rule(("graphs.replay",), lambda each: f"For each graph the host takes {each}."),
)

__all__ = ["ATTENTION", "EXPERTS", "HOST", "KERNELS"]
