"""Sentences on what ranks hand on, sum up and share out."""

from collections.abc import Sequence
from typing import Final

from clustersim.studies.show.profile.rules import Rule, counted, either, listed, one_of

PROFILE: Final = (
    Rule(("extends",), lambda name: f"What this file does not say is as {name} has it."),
)


def _schedules(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"The one schedule of a pipeline is {names[0]}."
    return f"A pipeline can run the schedules {listed(names, 'or')}."


def _gathers(forward: int, backward: int, sharded: bool | None) -> str:
    if not sharded:
        return "What a stage receives is not gathered over the tensor group."
    return (
        f"Shares are put together by {counted(forward, 'gather')} a microbatch forward"
        f" and {counted(backward, 'gather')} backward."
    )


PIPELINE: Final = (
    Rule(("schedules",), _schedules),
    either(
        "pipeline.sharded",
        "Each tensor rank sends its share of what a stage hands on.",
        "Each tensor rank sends all that it has of what a stage hands on.",
    ),
    Rule(("pipeline.gathers_forward", "pipeline.gathers_backward", "pipeline.sharded"), _gathers),
    either(
        "pipeline.blocking",
        "A stage waits until its send is through before it computes on.",
        "A stage computes on while it sends.",
    ),
)


def _accumulated(each: float) -> str:
    if not each:
        return "Gradients are not added up by passes of their own."
    return f"Adding a microbatch's gradients up moves {counted(each, 'byte')} for each weight."


def _step(held: float, updated: float) -> str:
    if not held:
        return f"The optimiser step moves {updated:g} bytes for each parameter whose state it owns."
    return (
        f"The optimiser step moves {counted(held, 'byte')} for each parameter that a rank holds,"
        f" and {updated:g} for each whose state it owns."
    )


GRADIENTS: Final = (
    Rule(("kernels.gradient_accumulation",), _accumulated),
    Rule(
        ("gradients.bytes_each",),
        lambda each: f"A gradient is {counted(each, 'byte')} on the wire.",
    ),
    one_of(
        "gradients.overlap",
        {
            "never": "Gradients are reduced once the last backward is done.",
            "without-pipeline": "Gradients are reduced beside the last backward, but after it where"
            " there is a pipeline.",
            "always": "Gradients are reduced beside the last backward.",
        },
    ),
    one_of(
        "gradients.sharded_collective",
        {
            "all-reduce": "Where states are sharded, all gradients are all-reduced all the same.",
            "reduce-scatter": "Where states are sharded, gradients are reduce-scattered.",
        },
    ),
    Rule(
        ("gradients.gathered",),
        lambda each: f"A new weight is {counted(each, 'byte')} on the wire.",
    ),
    either(
        "gradients.gather_overlap",
        "New weights come part by part, beside the first forward.",
        "New weights come before the first forward begins.",
    ),
    Rule(
        ("gradients.share_each",),
        lambda each: f"The host takes {each} to copy a rank's share of a tensor of these.",
    ),
    Rule(("optimiser.held", "optimiser.updated"), _step),
    Rule(
        ("optimiser.host_updated",),
        lambda each: f"On the host it moves {counted(each, 'byte')} for each that it updates.",
    ),
)


_SHARED: Final = {
    0: "nothing",
    1: "optimiser states",
    2: "states and gradients",
    3: "states, gradients and weights",
}


def _zero(stages: Sequence[int]) -> str:
    what = listed((_SHARED[stage] for stage in stages), "or")
    return f"Ranks with the same weights share out {what} (ZeRO {listed(stages, 'or')})."


def _prefetched(ahead: int) -> str:
    if not ahead:
        return "A layer is gathered when it is needed, and none ahead of it."
    return f"While a layer is computed, {counted(ahead, 'layer')} ahead of it may be gathered."


def _calls(calls: int, small: int | None) -> str:
    more = f", and {small:g} more for its norms and biases" if small else ""
    return f"A layer is gathered or reduced in {counted(calls, 'collective')}{more}."


SHARDING: Final = (
    Rule(("zero",), _zero),
    Rule(("sharding.prefetch",), _prefetched),
    either(
        "sharding.reshard",
        "It is given up after its forward and gathered again for its backward.",
        "It is kept from its forward to its backward.",
    ),
    either(
        "sharding.again",
        "Where it is run again, it is gathered for that and once more for its backward.",
        "Where it is run again, one gather serves that and its backward.",
    ),
    either(
        "sharding.kept_in_pipeline",
        "In a pipeline, what is kept stays until the last backward of a step.",
        "In a pipeline, it is given up in every backward.",
    ),
    Rule(
        ("sharding.gather", "sharding.reduce"),
        lambda gather, reduce: (
            f"A weight is {counted(gather, 'byte')} on the wire, and a gradient {reduce:g}."
        ),
    ),
    either(
        "sharding.each_microbatch",
        "Gradients are reduced after every microbatch.",
        "Gradients are reduced once a step.",
    ),
    Rule(("sharding.calls", "sharding.small"), _calls),
    either(
        "sharding.by_module",
        "Each of these brings a weight that is given up by itself.",
        "What they bring is given up as a layer.",
    ),
    Rule(
        ("sharding.host_each",),
        lambda each: f"For each rank's share in a collective the host takes {each} alone.",
    ),
    Rule(
        ("sharding.gather_copied",),
        lambda each: f"For each byte gathered the device moves {each:g} in its own memory.",
    ),
    Rule(
        ("sharding.reduce_copied",),
        lambda each: f"For each byte reduced it moves {each:g}.",
    ),
)


CONTEXT: Final = (
    Rule(
        ("context",),
        lambda methods: f"Ranks can share a sequence by the methods {listed(methods, 'or')}.",
    ),
)

__all__ = ["CONTEXT", "GRADIENTS", "PIPELINE", "PROFILE", "SHARDING"]
