"""Limits of measures as the command line takes them: ``--limit tpot=50ms --limit devices=64``.

A limit is the worst value that is allowed: the largest time, the smallest rate.
"""

from collections.abc import Iterable, Mapping, Sequence

from clustersim.errors import ScenarioError
from clustersim.simulation.measures import Kind, Measure, check_measure, measures_of
from clustersim.units import format_number

Limits = Mapping[str, float] | Sequence[str]
"""Limits by measure, or texts: ``tpot=50 ms``."""


def read_limits(limits: Limits, kinds: Iterable[Kind], where: str) -> dict[str, float]:
    """Return limits by measure.

    Parameters
    ----------
    kinds : of the answers that are limited
    where : name of the scenario

    >>> read_limits(["tpot=50ms"], ["service"], "a")
    {'tpot': 0.05}

    Raises
    ------
    ScenarioError
        in one line, for an unknown measure or a value that is not a positive amount of it.
    """
    kinds = tuple(kinds)
    if isinstance(limits, Mapping):
        return dict(
            _limit(f"{name}={value}", name, value, kinds, where) for name, value in limits.items()
        )
    texts = [(text, *text.partition("=")[::2]) for text in limits]
    return dict(_limit(text, name.strip(), value, kinds, where) for text, name, value in texts)


def _limit(
    text: str, name: str, value: str | float, kinds: tuple[Kind, ...], where: str
) -> tuple[str, float]:
    measure = check_measure("--limit", name, kinds, where)
    try:
        amount = measure.read(value) if isinstance(value, str) else value
    except ValueError as problem:
        raise ScenarioError(f"--limit {text}: {problem}") from None
    if amount <= 0:
        raise ScenarioError(f"--limit {text}: must be greater than 0")
    return name, amount


def missed_limits(
    numbers: Mapping[str, float], limits: Mapping[str, float], measures: Mapping[str, Measure]
) -> str | None:
    """Return the limits that are missed, and by how much; None within all of them."""
    missed = [
        f"{name} {measures[name].text(numbers[name])}"
        f" ({format_number(numbers[name] / limit, 3)} times the limit)"
        for name, limit in limits.items()
        if name in numbers and not measures[name].within(numbers[name], limit)
    ]
    return "; ".join(missed) or None


def format_limits(limits: Mapping[str, float], kinds: Iterable[Kind]) -> str:
    """Return limits in words: ``time per token at most 50 ms, MFU at least 40.0 %``."""
    measures, bounds = measures_of(kinds), {True: "at least", False: "at most"}
    return ", ".join(
        f"{measures[n].label} {bounds[bool(measures[n].more_is_better)]} {measures[n].text(limit)}"
        for n, limit in limits.items()
    )
