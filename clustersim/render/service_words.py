"""Services in words: measures, gains, and the parts of a token's time."""

from collections.abc import Mapping, Sequence
from typing import Final

from clustersim.metrics.difference import format_causes, format_ratio
from clustersim.render.charts import Step
from clustersim.render.tables import percent, words
from clustersim.scenario.serving import ReplicaFile
from clustersim.simulation.service.measures import (
    RATE,
    SERVICE_MEASURES,
    SERVICE_TIMES,
    SPEED,
    Measured,
)
from clustersim.units import counted, format_number, format_seconds

SAME: Final = 5e-4
"""Ratio, less one, below which two measures are called equal."""


NEGLIGIBLE: Final = 2e-3
"""Share of the larger total below which changes are summed."""

WAITING: Final = (("bubble", "waiting"),)
"""Names of kinds of parts in a legend."""

_COMMUNICATION: Final = ("tensor", "expert", "pipeline", "transfer", "context")
_WAITING: Final = ("waiting", "queue", "host", "frontend", "prompts")


def format_measure(by: str, value: float) -> str:
    """Return a measure with its name.

    >>> format_measure("tokens_per_s_per_device", 1234.0), format_measure("tpot", 0.0123)
    ('1,234 tokens/s per device', 'tpot 12.3 ms')
    """
    text, name = format_amount(by, value), measure_name(by)
    return f"{name} {text}" if by in SERVICE_TIMES else f"{text} {name}"


def measure_name(by: str) -> str:
    """Return a measure in words.

    >>> measure_name("tokens_per_s_per_device")
    'tokens/s per device'
    """
    return by.replace("_", " ").replace(" per s", "/s")


def format_amount(by: str, value: float) -> str:
    """Return the value of a measure: a time with its unit, or a number."""
    if by in SERVICE_TIMES:
        return format_seconds(value)
    return format_number(value)


def format_gain(by: str, ratio: float, before: float, after: float) -> str:
    """Return how a measure changes, in words.

    >>> format_gain("tokens_per_s_per_device", 1.5, 100.0, 150.0)
    '1.50 times the tokens/s per device (100 -> 150)'
    >>> format_gain("tpot", 0.5, 0.01, 0.02)
    'tpot 10 ms -> 20 ms (+100.0 %)'
    """
    name = measure_name(by)
    if abs(ratio - 1) < SAME:
        return f"the same {name} ({format_amount(by, after)})"
    change = f"{format_amount(by, before)} -> {format_amount(by, after)}"
    if SERVICE_MEASURES[by]:
        return f"{format_ratio(ratio)} times the {name} ({change})"
    return f"{name} {change} ({percent(after / before - 1, '+')})"


def front_title(front: Sequence[Measured]) -> str:
    """Return the ends of a front of services in words, the slowest user first."""
    ends = [front[0]] if len(front) == 1 else [front[0], front[-1]]
    found = [tuple(format_number(end.measures[name], 3) for name in (RATE, SPEED)) for end in ends]
    rate, speed = found[0]
    other = "".join(f", or {fast} at {quick}" for fast, quick in found[1:])
    return f"{rate} tokens/s for each device at {speed} for each user{other}"


def layout_text(plan: ReplicaFile) -> str:
    """Return a layout: ``'2 replicas of tensor 4 x pipeline 2'``."""
    degrees = [f"tensor {plan.tensor}"]
    for name in ("pipeline", "context", "attention_data"):
        degree = getattr(plan, name)
        degrees += [f"{name.replace('_', ' ')} {degree}"] if degree > 1 else []
    expert = f", expert {plan.expert}" if plan.expert > 1 else ""
    return f"{counted(plan.replicas, 'replica')} of {' x '.join(degrees)}{expert}"


# --- parts of a time ---

_PARTS: Final = {
    "kv": "KV cache",
    "prefill": "attention of prompts",
    "tensor": "tensor communication",
    "context": "context communication",
    "draft": "drafting",
    "expert": "expert exchange",
    "pipeline": "pipeline sends",
    "prompts": "prompts of others",
    "transfer": "KV transfer",
}


def part_name(name: str) -> str:
    """Return a cause of a time in words."""
    return _PARTS.get(name, words(name))


def part_kind(part: str) -> str:
    """Return the kind of a part of a time: communication, bubble or compute."""
    if part in _COMMUNICATION:
        return "communication"
    return "bubble" if part in _WAITING else "compute"


def causes_text(parts: Mapping[str, float]) -> str:
    """Return the parts that changed most, in words, after a colon."""
    return format_causes({part_name(name): seconds for name, seconds in parts.items()})


def part_steps(parts: Mapping[str, float], size: float) -> tuple[Step, ...]:
    """Return the changes of parts, the largest first; small ones are one step at the end."""
    ordered = sorted(parts.items(), key=lambda part: -abs(part[1]))
    own = [(name, s) for name, s in ordered if abs(s) >= NEGLIGIBLE * size]
    steps = [Step(part_name(name), part_kind(name), s) for name, s in own]
    rest = sum(s for name, s in ordered if (name, s) not in own)
    if abs(rest) > 1e-9 * size:
        steps.append(Step("all other parts", "other", rest))
    return tuple(steps)
