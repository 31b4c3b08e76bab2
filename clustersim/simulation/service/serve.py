"""A serving scenario in, a result out: the whole pipeline on one page.

load -> build replicas -> draw requests -> estimate memory -> replay -> measure
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf, log
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.changes import Settings
from clustersim.engine.requests.completed import CompletedRequests
from clustersim.engine.requests.replay import (
    ReplayedRequests,
    RequestLoad,
    replay_requests,
)
from clustersim.errors import PlanError, ScenarioError
from clustersim.scenario.load import LoadedService, load_service, service_from_mapping
from clustersim.scenario.origins import INLINE
from clustersim.scenario.ranges import values_of
from clustersim.scenario.requests import LoadFile
from clustersim.simulation.expectations import read_expectations
from clustersim.simulation.garbage import garbage_collection_off
from clustersim.simulation.service.answer import LoadPoint, ServeMemory, SteadyState
from clustersim.simulation.service.deployment import build_deployment
from clustersim.simulation.service.load import load_of, prompts_of
from clustersim.simulation.service.memory import service_memory
from clustersim.simulation.service.pools import build_pools
from clustersim.simulation.service.result import ServeResult
from clustersim.simulation.service.steady_state import Saturated, saturated, steady_replay

CURVED: Final = ("concurrency", "rate", "batch")
"""Loads that have a size."""

LEAST_SHARE: Final = 32
"""The sustainable rate over the lowest one that is tried."""

STEP: Final = 1.6
"""Ratio of a rate to the next one that is tried, until one is within limits."""

NEAR: Final = 1.02
"""Ratio of a rate that misses limits to one within them, at which the latter is returned."""

FEWER: Final = (32, 16, 8, 4, 2)
"""Loads of a usual curve, as parts of the load of the scenario."""

TOGETHER: Final = 0.25
"""Share of the usual time of some requests within which they end together; chosen, as requests of a
steady load, and those of whole batches, take most of that time."""


def serve(
    scenario: str | Path | Mapping[str, Any] | LoadedService,
    settings: Settings = (),
    *,
    loads: Sequence[float] | str = (),
) -> ServeResult:
    """Simulate the requests of a serving scenario.

    Parameters
    ----------
    scenario : path of a scenario file, name of a shipped scenario, the keys and values of a
        scenario as a dict, or a loaded scenario
    settings : changes as texts, ``["plan.tensor=4", "load.concurrency=64"]``, or as values,
        ``{"plan.tensor": 4}``
    loads : sizes of the load at which `result.curve` has the service: users, requests in a second,
        or requests of a batch, as in the scenario; also as a text, ``"1,8,64"`` or ``"1:64"``

    Returns
    -------
    ServeResult
        Times in seconds, rates per second.  ``result.answer`` has the keys of ``serve --json``.

    Raises
    ------
    ScenarioError, CatalogError, PlanError
        for invalid input, one line for each problem.
    SimulationError
        when clustersim itself is at fault.
    """
    began = time.perf_counter()
    with garbage_collection_off():
        sizes = sizes_of(loads) if isinstance(loads, str) else loads
        service = _Service(_loaded_from(scenario, settings), sizes)
        result = replace(service.result(), curve=service.curve())
    return replace(result, wall=time.perf_counter() - began)


def serve_at_highest_rate(
    loaded: LoadedService, excess: Callable[[Mapping[str, float]], float]
) -> ServeResult:
    """Simulate a service at the highest rate at which its measures are within limits.

    The rate is at most the low end of the interval of the sustainable one, and within 2 % of one
    that misses a limit; about 1/32 of the sustainable one if that misses as well.

    Parameters
    ----------
    excess : returns the largest ratio of a measure to its limit, at most 1 within all of them
    """
    began = time.perf_counter()
    with garbage_collection_off():
        result = _Service(loaded, (), free=True).at_highest_rate(excess)
    return replace(result, wall=time.perf_counter() - began)


def check_service(loaded: LoadedService) -> None:
    """Check that a service can be simulated, without simulating it.

    Raises
    ------
    ScenarioError, CatalogError, PlanError
        the error that a simulation would end with; memory is a verdict and no error.
    """
    load = load_of(loaded)
    build_pools(loaded, prompts_of(loaded, load))
    _check_positions(loaded, int((load.inputs + load.outputs).max()))


def sizes_of(loads: str) -> tuple[float, ...]:
    """Return the loads of a list or range of values.

    >>> sizes_of("1:8")
    (1.0, 2.0, 4.0, 8.0)

    Raises
    ------
    ScenarioError
        in one line.
    """
    try:
        return tuple(_size(value) for value in values_of(loads))
    except ValueError as problem:
        raise ScenarioError(f"--loads {loads}: {problem}") from None


def _size(value: str) -> float:
    """Return a size of a load."""
    try:
        size = float(value)
    except ValueError:
        size = 0.0
    if not 0 < size < inf:
        raise ValueError(f"'{value}' is not a number greater than 0 (examples: 1,8,64 or 1:64)")
    return size


def usual_loads(loaded: LoadedService) -> tuple[float, ...]:
    """Return sizes of the load up to that of the scenario; none where it has no size."""
    load = loaded.scenario.load
    if load.kind not in CURVED:
        return ()
    size = getattr(load, load.kind)
    if isinstance(size, int):
        return tuple(dict.fromkeys([*(size // part for part in FEWER if size >= part), size]))
    return (*(size / part for part in FEWER), size)


def _point(load: float, result: ServeResult) -> LoadPoint:
    assert result.replayed is not None
    times = {"ttft": result.ttft, "tpot": result.tpot, "latency": result.latency}
    known = {name: each for name, each in times.items() if each is not None}
    means = {f"{name}_s": known[name].mean if name in known else None for name in times}
    return LoadPoint(
        load=load,
        **means,
        latency_p99_s=None if result.latency is None else result.latency.p99,
        output_tokens_per_s=result.rates["output_tokens_per_s"],
        output_tokens_per_s_per_device=result.rates["output_tokens_per_s_per_device"],
        tokens_per_s_per_user=result.rates.get("tokens_per_s_per_user"),
        goodput_share=None if result.goodput is None else result.goodput.share,
        kv_occupancy=max(result.replayed.peak_blocks) / result.model.blocks,
        times=known,
        stable=None if result.steady is None else result.steady.stable,
        queue_growth_per_s=None if result.steady is None else result.steady.queue_growth_per_s,
    )


def _loaded_from(
    scenario: str | Path | Mapping[str, Any] | LoadedService, settings: Settings
) -> LoadedService:
    if isinstance(scenario, Mapping):
        return service_from_mapping(INLINE, scenario, settings)
    if not isinstance(scenario, LoadedService):
        return load_service(scenario, settings)
    return scenario.changed(settings) if settings else scenario


class _Service:
    """A service, at its own load and at others."""

    def __init__(
        self, loaded: LoadedService, loads: Sequence[float], *, free: bool = False
    ) -> None:
        kind = loaded.scenario.load.kind
        if loads and kind not in CURVED:
            raise ScenarioError(
                f"{loaded.where('load', kind)}: has no curve over the load (those with"
                f" {', '.join(CURVED)} have)"
            )
        self._loaded, self._loads, self._free = loaded, loads, free
        self._expected = read_expectations(loaded)
        for size in loads:  # all are checked before the first is simulated
            load_of(self._sized(size))
        self._load = load_of(loaded)
        self._pools = build_pools(loaded, prompts_of(loaded, self._load))
        self._deployment = build_deployment(self._pools, loaded.scenario)

    def result(self) -> ServeResult:
        """Return the service at its own load."""
        return self._at(self._loaded, self._load)

    def at_highest_rate(self, excess: Callable[[Mapping[str, float]], float]) -> ServeResult:
        """Return the service at the highest rate within limits; see `serve_at_highest_rate`."""
        if not self._memory(self._load).fits:
            return self.result()
        rate = self._backlog.rate - min(self._backlog.half or 0.0, self._backlog.rate / 2)
        least, high = rate / LEAST_SHARE, (0.0, 0.0)
        best, found = self._measured_at(rate, excess)
        while found > 1 and rate > least:
            high, rate = (rate, found), rate / STEP
            best, found = self._measured_at(rate, excess)
        low = rate, found
        while found <= 1 and high[0] > NEAR * low[0]:
            rate = _between(low, high)
            result, ratio = self._measured_at(rate, excess)
            if ratio <= 1:
                best, low = result, (rate, ratio)
            else:
                high = rate, ratio
        return best

    def _measured_at(
        self, rate: float, excess: Callable[[Mapping[str, float]], float]
    ) -> tuple[ServeResult, float]:
        result = self._at_size(rate)
        return result, excess(result.answer.measures())

    def curve(self) -> tuple[LoadPoint, ...]:
        """Return the service at other sizes of its load; none of those at which it does not fit."""
        points = []
        for size in self._loads:
            result = self._at_size(size)
            if result.replayed is not None:
                points.append(_point(size, result))
        return tuple(points)

    def _at_size(self, size: float) -> ServeResult:
        """Return the service at another size of its load."""
        loaded = self._sized(size)
        return self._at(loaded, load_of(loaded))

    def _sized(self, size: float) -> LoadedService:
        kind = self._loaded.scenario.load.kind
        return self._loaded.changed({f"load.{kind}": size if kind == "rate" else int(size)})

    def _at(self, loaded: LoadedService, load: RequestLoad) -> ServeResult:
        _check_positions(loaded, int((load.inputs + load.outputs).max()))
        memory = self._memory(load)
        replayed, steady = None, None
        if memory.fits:
            replayed, steady = self._replayed(loaded.scenario.load, load)
        return ServeResult(
            name=loaded.name,
            loaded=loaded,
            pools=self._pools,
            memory=memory,
            model=self._deployment.model,
            replayed=replayed,
            steady=steady,
            mean_tokens=(float(load.inputs.mean()), float(load.outputs.mean())),
            wall=0.0,
            spread=self._spread(load) if memory.fits else 0.0,
            departures=loaded.departures,
            expected=self._expected,
        )

    def _spread(self, load: RequestLoad) -> float:
        """Return the spread of the mean wait; 0 where requests have no rate of their own."""
        given = self._loaded.scenario.load
        if given.rate is None or given.requests is not None or load.arrivals is None:
            return 0.0
        return self._backlog.spread(load.arrivals)

    def _memory(self, load: RequestLoad) -> ServeMemory:
        total = load.inputs + load.outputs
        return service_memory(self._pools, int(total.max()), float(total.mean()))

    @cached_property
    def _backlog(self) -> Saturated:
        """The service with a backlog, which has the same requests whatever their rate."""
        rate = self._loaded.scenario.load.rate
        assert rate is not None, "requests arrive at a rate"
        endless = load_of(self._loaded, endless=True)
        rates = () if self._free else (rate, *self._loads)
        return saturated(endless, self._deployment, rates)

    def _replayed(
        self, given: LoadFile, load: RequestLoad
    ) -> tuple[ReplayedRequests, SteadyState | None]:
        """Return what happens to requests, and of those at a rate whether it is sustained."""
        if given.rate is None:
            replayed = replay_requests(load, self._deployment)
            if replayed.seconds <= TOGETHER * _usual_seconds(replayed.measured, load):
                raise ScenarioError(
                    f"{self._loaded.where('load', 'requests')}: the measured requests end together"
                    " with those of the warm-up, so that no time is measured (use more)"
                )
            return replayed, None
        backlog = self._backlog
        growth = max(0.0, given.rate - backlog.rate)
        if given.requests is not None:
            replayed, settled = replay_requests(load, self._deployment), True
        elif growth:
            replayed, settled = backlog.replayed, True
        else:
            replayed, settled = steady_replay(load, self._deployment, self._spread(load))
        measured = "all requests" if given.requests else "backlog" if growth else "steady state"
        return replayed, SteadyState(
            stable=not growth,
            rate=given.rate,
            sustainable_requests_per_s=backlog.rate,
            half_width=backlog.half,
            queue_growth_per_s=growth,
            measured=measured,
            settled=settled,
        )


def _between(low: tuple[float, float], high: tuple[float, float]) -> float:
    """Return a rate between two, where the excess of a limit is 1 if it grows like a power.

    Each end is a rate with its excess, the low one at most 1 and the high one above.
    """
    (rate, least), (most, excess) = low, high
    share = log(1 / least) / log(excess / least) if least else 0.5
    return rate * float((most / rate) ** min(max(share, 0.2), 0.8))


def _check_positions(loaded: LoadedService, longest: int) -> None:
    """Check that a model with learned positions has one for every token."""
    model = loaded.scenario.model
    if model.positions == "learned" and longest > model.sequence:
        key = "trace" if loaded.scenario.load.trace is not None else "input"
        raise PlanError(
            f"{loaded.where('load', key)}: the longest request has {longest:,} tokens, but"
            f" '{model.name}' has {model.sequence:,} positions"
            f" ({longest - model.sequence:,} too many)"
        )


def _usual_seconds(measured: CompletedRequests, load: RequestLoad) -> float:
    r"""Return in which time users complete some requests, by Little's law; 0 for open loads [s].

    .. math:: n L / N

    with n requests of a mean latency L, of N users.
    """
    if not load.closed:
        return 0.0
    return float((measured.finish - measured.arrival).sum()) / load.users
