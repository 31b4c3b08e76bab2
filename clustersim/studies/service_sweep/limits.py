"""Limits of the mean times of a service, and whether a service is within them."""

from collections.abc import Mapping, Sequence
from typing import Final

from clustersim.catalog.tree import nearest
from clustersim.errors import ScenarioError
from clustersim.units import format_seconds, parse

LIMITED: Final = ("ttft", "tpot", "latency")
"""Times that may have a limit."""

Limits = Mapping[str, float] | Sequence[str]
"""Limits by name [s], or texts: ``tpot=50 ms``."""


def read_limits(limits: Limits) -> dict[str, float]:
    """Return limits by name [s].

    >>> read_limits(["tpot=50ms"])
    {'tpot': 0.05}

    Raises
    ------
    ScenarioError
        in one line, for an unknown time or a value that is no positive time.
    """
    if not isinstance(limits, Mapping):
        return dict(map(_limit, limits))
    for name, seconds in limits.items():
        _check(f"{name}={seconds}", name, seconds)
    return dict(limits)


def _limit(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        seconds = parse(value, "seconds") if name in LIMITED else 1.0
    except ValueError as problem:
        raise ScenarioError(f"--limit {text}: {problem}") from None
    _check(text, name, seconds)
    return name, seconds


def _check(text: str, name: str, seconds: float) -> None:
    if name not in LIMITED:
        raise ScenarioError(
            f"--limit {text}: unknown time{nearest(name, LIMITED)} (known: {', '.join(LIMITED)})"
        )
    if seconds <= 0:
        raise ScenarioError(f"--limit {text}: must be greater than 0")


def missed_limits(measures: Mapping[str, float], limits: Mapping[str, float]) -> str | None:
    """Return the limits that a service misses, and by how much; None within all of them."""
    missed = [
        f"{name} {format_seconds(measures[name], 3)} ({measures[name] / limit:.3g} times the limit)"
        for name, limit in limits.items()
        if measures.get(name, 0.0) > limit
    ]
    return "; ".join(missed) or None


__all__ = ["LIMITED", "Limits", "missed_limits", "read_limits"]
