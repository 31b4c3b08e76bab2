"""What the model counts for the time of a token of a service: its parts, layers, and collectives.

Amounts are those of one token, so that a coefficient is the time of one layer, all-reduce or
sequence of a step, or a share of predicted seconds.
"""

from collections.abc import Mapping
from typing import Final

from clustersim.reports.measures import part_name
from clustersim.validation.explanation.quantities import QUANTITIES, Amount, Quantity
from clustersim.validation.token_times import TokenTime

PARTS: Final = (
    "weights", "compute", "experts", "elementwise", "kv", "prefill", "prompts", "tensor", "expert",
    "context", "pipeline", "sampling", "draft", "host", "waiting", "frontend",
)  # fmt: skip
"""Causes of the time of a token."""

TOKEN: Final = "token_time"
"""The quantity that is the whole predicted time."""

SERVING_QUANTITIES: Final[Mapping[str, Quantity]] = {
    **{f"{part}_time": Quantity(part_name(part), "seconds", part=part) for part in PARTS},
    "token_layers": Quantity("layers of a step", "count", "layer"),
    "token_reduces": Quantity("all-reduces of a step", "count", "call"),
    "token_sequences": Quantity("sequences of a step", "count", "sequence"),
    "tokens": Quantity("a constant", "count", "step"),
    TOKEN: Quantity("predicted time of a token", "seconds"),
}
"""All quantities of inference, by their key in the answer."""

ALL_QUANTITIES: Final[Mapping[str, Quantity]] = {**QUANTITIES, **SERVING_QUANTITIES}
"""Those of steps of training as well."""


def token_quantities(token: TokenTime) -> dict[str, Amount]:
    """Return the amount of each quantity of a case; its keys are those of `SERVING_QUANTITIES`."""
    whole = token.seconds
    counts = {
        "token_layers": float(token.layers),
        "token_reduces": float(token.reduces),
        "token_sequences": float(token.sequences),
        "tokens": 1.0,
        TOKEN: whole,
    }
    parts = {f"{part}_time": token.parts.get(part, 0.0) for part in PARTS}
    return {
        **{key: Amount(seconds, seconds) for key, seconds in parts.items()},
        **{key: Amount(units, whole) for key, units in counts.items()},
    }


def whole_of(amounts: Mapping[str, Amount]) -> float:
    """Return the predicted time that the quantities of a run are parts of [s]."""
    return amounts[TOKEN if TOKEN in amounts else "step_time"].units
