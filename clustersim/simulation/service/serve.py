"""A serving scenario in, a result out: the whole pipeline on one page.

load -> build replicas -> draw requests -> estimate memory -> replay -> measure
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.changes import Settings
from clustersim.engine.requests.replay import RequestLoad, replay_requests
from clustersim.errors import PlanError, ScenarioError
from clustersim.scenario.load import LoadedService, load_service, service_from_mapping
from clustersim.simulation.garbage import garbage_collection_off
from clustersim.simulation.service.answer import LoadPoint
from clustersim.simulation.service.deployment import build_deployment
from clustersim.simulation.service.load import load_of
from clustersim.simulation.service.memory import service_memory
from clustersim.simulation.service.pools import Pool, build_pools
from clustersim.simulation.service.result import ServeResult

CURVED: Final = ("concurrency", "rate", "batch")
"""Loads that have a size."""

FEWER: Final = (32, 16, 8, 4, 2)
"""Loads of a usual curve, as parts of the load of the scenario."""


def serve(
    scenario: str | Path | Mapping[str, Any] | LoadedService,
    settings: Settings = (),
    *,
    loads: Sequence[float] = (),
) -> ServeResult:
    """Simulate the requests of a serving scenario.

    Parameters
    ----------
    scenario : path of a scenario file, name of a shipped scenario, the keys and values of a
        scenario as a dict, or a loaded scenario
    settings : changes as texts, ``["plan.tensor=4", "load.concurrency=64"]``, or as values,
        ``{"plan.tensor": 4}``
    loads : sizes of the load at which `result.curve` has the service: users, requests in a second,
        or requests of a batch, as in the scenario

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
        loaded = _loaded_from(scenario, settings)
        load = load_of(loaded, loaded.scenario.engine.first)
        result = _served(loaded, load, build_pools(loaded, int(load.inputs.sum())))
        result = replace(result, curve=_load_curve(loaded, loads))
    return replace(result, wall=time.perf_counter() - began)


def check_service(loaded: LoadedService) -> None:
    """Check that a service can be simulated, without simulating it.

    Raises
    ------
    ScenarioError, CatalogError, PlanError
        the error that a simulation would end with; memory is a verdict and no error.
    """
    load = load_of(loaded, loaded.scenario.engine.first)
    build_pools(loaded, int(load.inputs.sum()))
    _check_positions(loaded, int((load.inputs + load.outputs).max()))


def usual_loads(loaded: LoadedService) -> tuple[float, ...]:
    """Return sizes of the load up to that of the scenario; none where it has no size."""
    load = loaded.scenario.load
    if load.kind not in CURVED:
        return ()
    size = getattr(load, load.kind)
    if isinstance(size, int):
        return tuple(dict.fromkeys([*(size // part for part in FEWER if size >= part), size]))
    return (*(size / part for part in FEWER), size)


def _load_curve(loaded: LoadedService, loads: Sequence[float]) -> tuple[LoadPoint, ...]:
    """Return the service at some sizes of its load; those at which it does not fit are left out."""
    if loads and loaded.scenario.load.kind not in CURVED:
        raise ScenarioError(
            f"{loaded.where('load', loaded.scenario.load.kind)}: has no curve over the load (those"
            f" with {', '.join(CURVED)} have)"
        )
    key = f"load.{loaded.scenario.load.kind}"
    whole = loaded.scenario.load.kind != "rate"
    points = []
    for load in loads:
        result = serve(loaded, {key: int(load) if whole else load})
        if result.replayed is not None:
            points.append(_point(load, result))
    return tuple(points)


def _point(load: float, result: ServeResult) -> LoadPoint:
    assert result.ttft is not None
    assert result.latency is not None
    assert result.replayed is not None
    return LoadPoint(
        load=load,
        ttft_s=result.ttft.mean,
        tpot_s=None if result.tpot is None else result.tpot.mean,
        latency_s=result.latency.mean,
        latency_p99_s=result.latency.p99,
        output_tokens_per_s=result.rates["output_tokens_per_s"],
        output_tokens_per_s_per_device=result.rates["output_tokens_per_s_per_device"],
        tokens_per_s_per_user=result.rates.get("tokens_per_s_per_user"),
        goodput_share=None if result.goodput is None else result.goodput.share,
        kv_occupancy=max(result.replayed.peak_blocks) / result.model.blocks,
    )


def _loaded_from(
    scenario: str | Path | Mapping[str, Any] | LoadedService, settings: Settings
) -> LoadedService:
    if isinstance(scenario, Mapping):
        return service_from_mapping("scenario", scenario, settings)
    if not isinstance(scenario, LoadedService):
        return load_service(scenario, settings)
    return scenario.changed(settings) if settings else scenario


def _served(loaded: LoadedService, load: RequestLoad, pools: tuple[Pool, ...]) -> ServeResult:
    given = loaded.scenario
    total = load.inputs + load.outputs
    _check_positions(loaded, int(total.max()))
    memory = service_memory(pools, int(total.max()), float(total.mean()))
    deployment = build_deployment(pools, given)
    replayed = replay_requests(load, deployment) if memory.fits else None
    return ServeResult(
        name=loaded.name,
        scenario=given,
        pools=pools,
        memory=memory,
        model=deployment.model,
        replayed=replayed,
        before=load.before,
        wall=0.0,
        departures=loaded.departures,
    )


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
