"""Rules of a framework profile in words: pipeline, gradients, sharding, precision and memory."""

from collections.abc import Sequence
from typing import Final

from clustersim.reports.show.rules import (
    Rule,
    as_list,
    as_percent,
    either,
    one_of,
)
from clustersim.units import counted

PROFILE: Final = (
    Rule(("extends",), lambda name: f"Values that this file does not set are those of {name}."),
)


def _schedules(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"Supported pipeline schedule: {names[0]}."
    return f"Supported pipeline schedules: {as_list(names)}."


def _gathers(forward: int, backward: int, sharded: bool | None) -> str:
    if not sharded:
        return "Received activations are not gathered over the tensor group."
    return (
        f"The shares are gathered by {counted(forward, 'all-gather')} per microbatch forward and"
        f" {counted(backward, 'all-gather')} backward."
    )


PIPELINE: Final = (
    Rule(("schedules",), _schedules),
    either(
        "pipeline.sharded",
        "Each tensor rank sends its share of the activations to the next stage.",
        "Each tensor rank sends all of its activations to the next stage.",
    ),
    Rule(("pipeline.gathers_forward", "pipeline.gathers_backward", "pipeline.sharded"), _gathers),
    either(
        "pipeline.blocking",
        "Sends are blocking: a stage computes again only after its send has completed.",
        "Sends are asynchronous: a stage computes while it sends.",
    ),
    either(
        "pipeline.forwards_first",
        "With as many microbatches as stages, an interleaved pipeline runs all forwards before the"
        " first backward.",
        "With as many microbatches as stages, an interleaved pipeline begins backwards as soon as"
        " it can.",
    ),
)


def _accumulated(nbytes: float) -> str:
    if not nbytes:
        return "Gradient accumulation needs no separate passes."
    return f"Accumulating the gradients of a microbatch moves {counted(nbytes, 'byte')} per weight."


def _step(held: float, updated: float) -> str:
    if not held:
        return (
            f"The optimiser step moves {updated:g} bytes per parameter whose state the rank owns."
        )
    return (
        f"The optimiser step moves {counted(held, 'byte')} per parameter that the rank holds, and"
        f" {updated:g} per parameter whose state it owns."
    )


GRADIENTS: Final = (
    Rule(("kernels.gradient_accumulation",), _accumulated),
    Rule(
        ("gradients.bytes_each",),
        lambda nbytes: f"Gradients are communicated as {counted(nbytes, 'byte')} per element.",
    ),
    one_of(
        "gradients.overlap",
        {
            "never": "Gradients are reduced after the last backward.",
            "without-pipeline": "Gradient reduction overlaps with the last backward, but follows it"
            " in a pipeline.",
            "always": "Gradient reduction overlaps with the last backward.",
        },
    ),
    one_of(
        "gradients.sharded_collective",
        {
            "all-reduce": "With sharded states, all gradients are still all-reduced.",
            "reduce-scatter": "With sharded states, gradients are reduce-scattered.",
        },
    ),
    Rule(
        ("gradients.gathered",),
        lambda nbytes: (
            f"Updated weights are communicated as {counted(nbytes, 'byte')} per element."
        ),
    ),
    either(
        "gradients.gather_overlap",
        "The gather of updated weights overlaps with the first forward.",
        "The gather of updated weights completes before the first forward.",
    ),
    Rule(
        ("gradients.share_each",),
        lambda time: f"The host needs {time} to copy a rank's share of one of these tensors.",
    ),
    Rule(("optimiser.held", "optimiser.updated"), _step),
    Rule(
        ("optimiser.host_updated",),
        lambda nbytes: f"On the host it moves {counted(nbytes, 'byte')} per updated parameter.",
    ),
)


_SHARDED: Final = {
    0: "no sharding",
    1: "optimiser states",
    2: "optimiser states and gradients",
    3: "optimiser states, gradients and weights",
}


def _zero(stages: Sequence[int]) -> str:
    supported = as_list(f"{stage} ({_SHARDED[stage]})" for stage in stages)
    return f"Supported ZeRO stages: {supported}."


def _prefetched(ahead: int) -> str:
    if not ahead:
        return "A layer is gathered when it is needed, without prefetching."
    return f"Up to {counted(ahead, 'layer')} are prefetched while a layer is computed."


def _calls(calls: int, small: int | None) -> str:
    more = f", and {small:g} more for its norms and biases" if small else ""
    return f"A layer is gathered or reduced in {counted(calls, 'collective')}{more}."


SHARDING: Final = (
    Rule(("zero",), _zero),
    Rule(("sharding.prefetch",), _prefetched),
    either(
        "sharding.reshard",
        "A gathered layer is released after its forward and gathered again for its backward.",
        "A gathered layer is kept from its forward to its backward.",
    ),
    either(
        "sharding.recompute_gathers",
        "A recomputed layer is gathered twice: for recomputation and for its backward.",
        "A recomputed layer is gathered once for recomputation and its backward.",
    ),
    either(
        "sharding.kept_in_pipeline",
        "In a pipeline, layers that are kept stay until the last backward of a step.",
        "In a pipeline, layers that are kept are released in every backward.",
    ),
    Rule(
        ("sharding.gather", "sharding.reduce"),
        lambda gather, reduce: (
            f"Weights are gathered as {counted(gather, 'byte')} per element, and gradients reduced"
            f" as {reduce:g}."
        ),
    ),
    either(
        "sharding.each_microbatch",
        "Gradients are reduced after every microbatch.",
        "Gradients are reduced once per step.",
    ),
    Rule(("sharding.calls", "sharding.small"), _calls),
    either(
        "sharding.adapters_apart",
        "Each factor of an adapter is a unit of its own, and delays the gather of the next layer.",
        "Adapters are gathered with their layers.",
    ),
    either(
        "sharding.by_module",
        "Each collective gathers one weight, which is released separately.",
        "All weights of a layer are released together.",
    ),
    Rule(
        ("sharding.host_each",),
        lambda time: f"The host needs {time} for each rank's share in a collective.",
    ),
    Rule(
        ("sharding.gather_copied",),
        lambda nbytes: (
            f"The device moves {counted(nbytes, 'byte')} in its memory per byte gathered."
        ),
    ),
    Rule(
        ("sharding.reduce_copied",),
        lambda nbytes: (
            f"The device moves {counted(nbytes, 'byte')} in its memory per byte reduced."
        ),
    ),
)


CONTEXT: Final = (
    Rule(
        ("context",),
        lambda methods: f"Supported methods of context parallelism: {as_list(methods)}.",
    ),
)


def _padded(multiple: int) -> str:
    if multiple == 1:
        return "The vocabulary is padded to a multiple of the tensor degree."
    return f"The vocabulary is padded to a multiple of {multiple} times the tensor degree."


PRECISION: Final = (Rule(("vocab_multiple",), _padded),)


def of_recipe(name: str) -> tuple[Rule, ...]:
    """Return the rules of a precision: bytes of a parameter, accumulation and reduction."""
    return _bytes_of_parameter(name), *_gradients_in(name)


def _bytes_of_parameter(name: str) -> Rule:
    keys = ("weights", "gradients", "optimiser", "master")

    def sentence(*values: float | None) -> str:
        nouns = ["weights", "gradients", "optimiser states", "master weights"]
        parts = [
            f"{value:g} for {noun}" for value, noun in zip(values, nouns, strict=True) if value
        ]
        total = sum(value or 0 for value in values)
        return f"In {name}, a parameter takes {counted(total, 'byte')}: {as_list(parts)}."

    return Rule(tuple(f"state.{name}.{key}" for key in keys), sentence)


def _gradients_in(name: str) -> tuple[Rule, ...]:
    """Return the rules of how a precision accumulates and reduces its gradients."""
    verbs = {"all-reduce": "all-reduced", "reduce-scatter": "reduce-scattered"}

    def reduced(nbytes: float, collective: str | None) -> str:
        sharded = f", and {verbs[collective]} with sharded states" if collective else ""
        return (
            f"In {name}, gradients are communicated as {counted(nbytes, 'byte')} per"
            f" element{sharded}."
        )

    return (
        Rule(
            (f"state.{name}.accumulation",),
            lambda nbytes: (
                f"In {name}, gradient accumulation moves {counted(nbytes, 'byte')} per weight."
            ),
        ),
        Rule(
            (f"state.{name}.renewed",),
            lambda nbytes: (
                f"In {name}, gradients of {counted(nbytes, 'byte')} per parameter are freed before"
                " each backward."
            ),
        ),
        Rule(
            (f"state.{name}.step",),
            lambda nbytes: (
                f"In {name}, the optimiser step allocates flat buffers of"
                f" {counted(nbytes, 'byte')} per updated parameter."
            ),
        ),
        Rule((f"state.{name}.reduced", f"state.{name}.collective"), reduced),
        Rule(
            (f"state.{name}.saved",),
            lambda nbytes: f"In {name}, a checkpoint has {counted(nbytes, 'byte')} per parameter.",
        ),
    )


def _fragmented(share: float) -> str:
    if not share:
        return "The allocator holds no more memory than live temporary tensors need."
    return f"The allocator holds {as_percent(share)} more memory than live temporary tensors need."


MEMORY: Final = (
    Rule(("runtime_memory",), lambda size: f"Context, libraries and communicators take {size}."),
    Rule(("graphs.memory",), lambda size: f"Buffers of CUDA graphs take {size} more."),
    Rule(("fragmentation",), _fragmented),
    Rule(
        ("memory.loss_forward", "memory.loss_backward"),
        lambda ahead, back: (
            f"The loss needs {counted(ahead, 'byte')} of temporary memory per logit forward and"
            f" {back:g} backward."
        ),
    ),
    Rule(("memory.bucket",), lambda size: f"Gradients are reduced from a buffer of {size}."),
    Rule(
        ("memory.step", "memory.norm"),
        lambda step, norm: (
            f"The optimiser step allocates flat buffers of {counted(step, 'byte')} per updated"
            f" parameter{f', after {norm:g} per element of the largest tensor' if norm else ''}."
        ),
    ),
    Rule(
        ("memory.gather_buffers",),
        lambda count: f"{count} buffers of a layer's whole input are kept for gathers.",
    ),
    Rule(
        ("memory.held_results", "memory.lead"),
        lambda count, lead: (
            f"{count} results of each layer are held until they are reduced; the host is {lead}"
            " layers ahead."
        ),
    ),
    either(
        "memory.joined",
        "The allocator joins free blocks, so that flat buffers fit where activations were.",
        "The allocator does not join free blocks: flat buffers have blocks of their own.",
    ),
    either(
        "memory.outputs",
        "A stage keeps its output until its backward.",
        "A stage releases its output after the send.",
    ),
    either(
        "memory.outputs_shared",
        "Of a kept output each tensor rank keeps its share.",
        "Each tensor rank keeps the whole of a kept output.",
    ),
    Rule(
        ("memory.ring",),
        lambda nbytes: (
            "With context parallelism over a ring, the backward of attention needs"
            f" {counted(nbytes, 'byte')} of temporary memory per element of the queries."
        ),
    ),
    Rule(
        ("memory.replay.broadcast", "memory.replay.mask"),
        lambda bucket, mask: (
            "The blocks of the allocator are replayed: weights are broadcast in buckets of"
            f" {bucket}, and {'each sequence has a' if mask else 'there is no'} mask of all"
            " positions of the model."
        ),
    ),
)
