"""Limits of measures as the command line takes them: ``--limit tpot=50ms --limit "mfu>=40%"``.

A limit is the worst value that is allowed: the largest time, the smallest rate.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from clustersim.catalog.changes import Change, changes_of, without_numpy
from clustersim.errors import ScenarioError
from clustersim.scenario.load import LoadedScenario, LoadedService, LoadedSharing, LoadedTrace
from clustersim.simulation.measures import (
    QUEUE_GROWTH,
    Kind,
    Measure,
    check_measure,
    further_percentiles,
    measures_of,
)
from clustersim.units import format_number, parse_number

Limits = Mapping[str, float] | Sequence[str]
"""Limits by measure, or texts: ``tpot=50 ms``."""


def kinds_of(loaded: LoadedScenario) -> tuple[Kind, ...]:
    """Return the kinds of measures that the answer of a scenario will have."""
    if isinstance(loaded, LoadedService):
        return ("service",)
    if isinstance(loaded, LoadedSharing):
        return ("shared machine",)
    if isinstance(loaded, LoadedTrace):
        return ("trace",)
    return ("step",) if loaded.scenario.training is None else ("training run", "step")


def percentile_changes(loaded: LoadedScenario, measures: Iterable[str]) -> tuple[Change, ...]:
    """Return the change with which a service has the percentiles that measures are named by."""
    if not isinstance(loaded, LoadedService):
        return ()
    known = loaded.scenario.percentile_names
    further = [name for name in further_percentiles(measures) if name not in known]
    values = [*loaded.scenario.percentiles, *(float(name[1:]) for name in further)]
    return changes_of({"percentiles": values}) if further else ()


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
    kinds, worst = tuple(kinds), dict[str, float]()
    texts = [(text, False) for text in ([limits] if isinstance(limits, str) else limits)]
    if isinstance(limits, Mapping):
        texts = [(f"{k}={without_numpy(v)}", not isinstance(v, str)) for k, v in limits.items()]
    for text, plain in texts:
        measure, amount = _limit(text, kinds, where, plain=plain)
        known = worst.get(measure.name, amount)
        worst[measure.name] = min(known, amount, key=measure.order)  # the stricter one
    return worst


_LIMIT: Final = re.compile(r"\s*([a-z0-9_.]+)\s*(<=|>=|=)\s*(.+?)\s*", re.DOTALL)


def _limit(text: str, kinds: tuple[Kind, ...], where: str, *, plain: bool) -> tuple[Measure, float]:
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise ScenarioError(
            f"--limit {text}: is not of the form MEASURE=VALUE (memory=70GiB, mfu=40%, ttft=2s)"
        )
    name, sign, value = match.groups()
    measure = check_measure("--limit", name, kinds, where)
    right = ">=" if measure.more_is_better else "<="
    if sign not in ("=", right):
        side = "least" if measure.more_is_better else "greatest"
        raise ScenarioError(f"--limit {text}: must be the {side} value ({name}{right}{value})")
    try:
        amount = parse_number(value) if plain else measure.read(value, name)
    except ValueError as problem:
        raise ScenarioError(f"--limit {text}: {problem}") from None
    if not 0 < amount < inf:
        raise ScenarioError(f"--limit {text}: must be greater than 0")
    return measure, amount


def missed_limits(
    numbers: Mapping[str, float], limits: Mapping[str, float], measures: Mapping[str, Measure]
) -> str | None:
    """Return the limits that are missed, and by how much; None within all of them.

    A service whose queue grows misses all of them, whatever they are.
    """
    if unstable := growing_queue(numbers):
        return unstable
    missed = [
        f"{name} {measures[name].text(numbers[name])}{format_ratio(numbers[name], limit)}"
        for name, limit in limits.items()
        if name in numbers and not measures[name].within(numbers[name], limit)
    ]
    return "; ".join(missed) or None


def growing_queue(numbers: Mapping[str, float]) -> str | None:
    """Return by how much the queue of a service grows; None where it does not."""
    growth = numbers.get(QUEUE_GROWTH, 0.0)
    if growth <= 0:
        return None
    return f"unstable: the queue grows by {format_number(growth, 3)} requests a second"


def format_ratio(value: float, limit: float) -> str:
    """Return a value over its limit in brackets; empty for a limit of 0.

    >>> format_ratio(13.2, 12.0)
    ' (1.1 times the limit)'
    """
    return f" ({format_number(value / limit, 3)} times the limit)" if limit else ""


def format_limits(limits: Mapping[str, float], kinds: Iterable[Kind]) -> str:
    """Return limits in words: ``time per token at most 50 ms, MFU at least 40.0 %``."""
    measures, bounds = measures_of(kinds), {True: "at least", False: "at most"}
    return ", ".join(
        f"{measures[n].label} {bounds[bool(measures[n].more_is_better)]} {measures[n].text(limit)}"
        for n, limit in limits.items()
    )


def excess_of(
    numbers: Mapping[str, float], limits: Mapping[str, float], measures: Mapping[str, Measure]
) -> float:
    """Return the largest ratio by which a limit is missed; 0 without limits.

    Of a service whose queue grows, it is the rate of requests over the sustainable one.
    """
    if (growth := numbers.get(QUEUE_GROWTH, 0.0)) > 0:
        return 1 + growth / numbers["sustainable_rate"]
    ratios = {name: numbers[name] / limit for name, limit in limits.items() if name in numbers}
    worse = (1 / r if measures[name].more_is_better else r for name, r in ratios.items() if r)
    return max(worse, default=0.0)
