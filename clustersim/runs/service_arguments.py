"""Measures and limits of services as the command line takes them."""

from collections.abc import Mapping, Sequence

from clustersim.catalog.tree import nearest
from clustersim.errors import ScenarioError
from clustersim.simulation.service.measures import SERVICE_MEASURES, SERVICE_TIMES
from clustersim.units import format_seconds, parse

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
        seconds = parse(value, "seconds") if name in SERVICE_TIMES else 1.0
    except ValueError as problem:
        raise ScenarioError(f"--limit {text}: {problem}") from None
    _check(text, name, seconds)
    return name, seconds


def _check(text: str, name: str, seconds: float) -> None:
    if name not in SERVICE_TIMES:
        hint, known = nearest(name, SERVICE_TIMES), ", ".join(SERVICE_TIMES)
        raise ScenarioError(f"--limit {text}: unknown time{hint} (known: {known})")
    if seconds <= 0:
        raise ScenarioError(f"--limit {text}: must be greater than 0")


def check_measure(option: str, by: str) -> None:
    """Reject an unknown measure of services."""
    if by not in SERVICE_MEASURES:
        hint, known = nearest(by, SERVICE_MEASURES), ", ".join(SERVICE_MEASURES)
        raise ScenarioError(f"{option} {by}: unknown measure{hint} (known: {known})")


def missed_limits(measures: Mapping[str, float], limits: Mapping[str, float]) -> str | None:
    """Return the limits that a service misses, and by how much; None within all of them."""
    missed = [
        f"{name} {format_seconds(measures[name], 3)} ({measures[name] / limit:.3g} times the limit)"
        for name, limit in limits.items()
        if measures.get(name, 0.0) > limit
    ]
    return "; ".join(missed) or None
