"""Sentences on what a parameter takes, and on what else is held."""

from typing import Final

from clustersim.studies.show.profile.rules import Rule, counted, either, listed, percent


def _padded(multiple: int) -> str:
    if multiple == 1:
        return "The vocabulary is padded to a multiple of the tensor ranks only."
    return f"The vocabulary is padded to a multiple of {multiple} times the tensor ranks."


PRECISION: Final = (Rule(("vocab_multiple",), _padded),)


def recipe(name: str) -> Rule:
    """Return the rule of what a parameter takes in a precision."""
    parts = ("weights", "gradients", "optimiser", "master")

    def tell(*values: float | None) -> str:
        told = ["weights", "gradients", "states of the optimiser", "master weights"]
        each = [f"{value:g} of {what}" for value, what in zip(values, told, strict=True) if value]
        whole = sum(value or 0 for value in values)
        return f"In {name} a parameter takes {counted(whole, 'byte')}: {listed(each)}."

    return Rule(tuple(f"state.{name}.{part}" for part in parts), tell)


def sums(name: str) -> tuple[Rule, ...]:
    """Return the rules of how a precision adds its gradients up and reduces them."""
    how = {"all-reduce": "all-reduced", "reduce-scatter": "reduce-scattered"}

    def reduced(each: float, collective: str | None) -> str:
        told = f", and {how[collective]} where states are sharded" if collective else ""
        return f"In {name} a gradient is {counted(each, 'byte')} on the wire{told}."

    return (
        Rule(
            (f"state.{name}.accumulation",),
            lambda each: f"In {name} adding gradients up moves {counted(each, 'byte')} a weight.",
        ),
        Rule((f"state.{name}.reduced", f"state.{name}.collective"), reduced),
    )


def of_recipe(name: str) -> tuple[Rule, ...]:
    """Return all rules of a precision."""
    return recipe(name), *sums(name)


def _fragmented(share: float) -> str:
    more = f"{percent(share)} more than" if share else "no more than"
    return f"The allocator holds {more} is alive of what comes and goes."


MEMORY: Final = (
    Rule(("runtime_memory",), lambda size: f"Context, libraries and communicators take {size}."),
    Rule(("graphs.memory",), lambda size: f"Buffers of graphs take {size} more."),
    Rule(("fragmentation",), _fragmented),
    Rule(
        ("memory.loss_forward", "memory.loss_backward"),
        lambda ahead, back: (
            f"Beside what it keeps, the loss holds {counted(ahead, 'byte')} for each logit forward"
            f" and {back:g} backward."
        ),
    ),
    Rule(("memory.bucket",), lambda size: f"Gradients are reduced from a buffer of {size}."),
    Rule(
        ("memory.step", "memory.norm"),
        lambda step, norm: (
            f"The optimiser step makes flat buffers of {counted(step, 'byte')} for each parameter"
            " that it updates"
            + (f", and {norm:g} for each of the largest tensor." if norm else ".")
        ),
    ),
    either(
        "memory.outputs",
        "A stage keeps what it handed on until its backward.",
        "A stage gives up what it handed on.",
    ),
)

__all__ = ["MEMORY", "PRECISION", "recipe"]
