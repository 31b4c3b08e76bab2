"""The layouts of a service that are searched, with the bounds of their measures.

scenario --free keys--> layouts --memory, bounds within limits--> candidates, the best bound first
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from clustersim.arrays import Floats
from clustersim.catalog.changes import Change, changes_of
from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.runs.variants import Run, Variant
from clustersim.runs.workers import Workers
from clustersim.scenario.load import LoadedService, load_service
from clustersim.simulation.limits import (
    Limits,
    excess_of,
    missed_limits,
    percentile_changes,
    read_limits,
)
from clustersim.simulation.measures import QUEUE_GROWTH, Measure, check_measure, measures_of
from clustersim.studies.search.free_values import freed_values
from clustersim.studies.search.loop import NO_DEADLINE, Deadline, Layouts, OnProgress, cost_of
from clustersim.studies.search.service.candidates import Candidate, Candidates, bounded_layouts
from clustersim.studies.search.service.layouts import FREE

UNBOUNDED = ("output_tokens_per_joule", "output_tokens_per_usd", "sustainable_rate")
"""Measures without a bound, which cannot be searched."""

SHARES = (0.7, 0.85, 0.95)
"""Shares of the limits, by bounds, that layouts use at most which are replayed first."""

SERVICE = measures_of(("service",))
"""Measures of services by name."""


@dataclass(frozen=True)
class ServiceRequest:
    """What is searched, from the arguments of a search.

    Attributes
    ----------
    scenario, changes : file or name, and its changes as they are given
    bases : the scenario with each combination of further free values
    points : changes of each of them
    devices : most devices
    allowed : values of keys of a layout that are not generated
    pools : whether replicas for prefill and decode are tried
    measure : the objective
    limits : worst values of measures
    free : whether the objective is the rate of requests, so that each layout has its highest one
    """

    scenario: str
    changes: tuple[Change, ...]
    bases: tuple[LoadedService, ...]
    points: tuple[tuple[Change, ...], ...]
    devices: int
    allowed: Mapping[str, Sequence[int]]
    pools: bool
    measure: Measure
    limits: Mapping[str, float]
    free: bool

    @property
    def loaded(self) -> list[LoadedService]:
        """The scenarios that are searched."""
        return [*self.bases]

    @property
    def within(self) -> Mapping[str, float] | None:
        """Limits within which a layout runs at its highest rate; None at that of the scenario."""
        return self.limits if self.free else None

    @property
    def fixed_values(self) -> list[str]:
        """What the key of the answer has, next to scenarios and arguments."""
        return [str(self.devices), str(self.pools), repr(sorted(self.allowed.items()))]

    @property
    def first(self) -> Variant:
        """The scenario's own layout."""
        changes = tuple(each for each in self.changes if each.path != ("pools",))
        if self.free:
            changes += changes_of({"load": _load_at_a_rate(self.bases[0], self.limits)})
        return Variant(self.scenario, changes, within=self.within)

    def variants(self) -> list[Variant]:
        """Return the scenarios, whose files an executor elsewhere needs."""
        return [Variant(self.scenario, self.changes)]

    def layouts(
        self, executor: Workers, on_progress: OnProgress, deadline: Deadline = NO_DEADLINE
    ) -> "ServiceLayouts":
        """Return the layouts that can fit, with their bounds.

        Raises
        ------
        ScenarioError
            in one line, where no layout is valid.
        """
        found = bounded_layouts(
            self.bases, self.devices, self.allowed, self.pools, deadline, free=self.free
        )
        if not found.fit and not found.memory:
            first = next(iter(found.excluded), "all layouts have more devices")
            raise ScenarioError(f"{self.bases[0].name}: no layout is valid ({first})")
        within = [c for c in found.fit if missed_limits(c.bound, self.limits, SERVICE) is None]
        cost = np.array([cost_of(self.measure, c.bound[self.measure.name]) for c in within])
        used = np.array([self._used(candidate) for candidate in within])
        order = np.lexsort((used, cost))
        ahead = tuple(within[i] for i in order)
        return ServiceLayouts(
            kinds=("service",),
            measure=self.measure,
            limits=self.limits,
            loaded=self.loaded,
            costs=cost[order],
            own_places=[at for at, each in enumerate(ahead) if each.own],
            hopeful=_hopeful(ahead, used[order]),
            possible=found.possible,
            memory=found.memory,
            limited=len(found.fit) - len(ahead),
            unbounded=found.unbounded,
            rules=found.excluded,
            request=self,
            found=found,
            ahead=ahead,
        )

    def _used(self, candidate: Candidate) -> float:
        """Return how much of the limits, and of the sustainable rate, a layout uses at least."""
        bound, excess = candidate.bound, excess_of(candidate.bound, self.limits, SERVICE)
        if self.free or "sustainable_rate" not in bound:
            return excess
        return max(bound["requests_per_s"] / bound["sustainable_rate"], excess)


def service_request(
    scenario: str,
    devices: int | None,
    objective: str,
    free: Sequence[str],
    limits: Limits,
    changes: tuple[Change, ...],
    program: str | None,
) -> ServiceRequest:
    """Return what is searched; parameters as of `search`.

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for invalid input.
    """
    if program is not None:
        raise ScenarioError("--as: has no effect on a serving scenario (leave it out)")
    fixed = [change for change in changes if change.text.partition("=")[0] in FREE]
    others = [change for change in changes if change not in fixed]
    plain = load_service(scenario, others)
    measure = check_measure("--objective", objective, ("service",), plain.name)
    worst, free_rate = read_limits(limits, ("service",), plain.name), objective == "rate"
    further = percentile_changes(plain, [measure.name, *worst])
    others += further
    if free_rate:
        others += changes_of({"load": _load_at_a_rate(plain, worst)})
        plain = load_service(scenario, others)
    if measure.name in UNBOUNDED:
        raise ScenarioError(
            f"--objective {objective}: has no bound (search tokens_per_s_per_device, or sweep)"
        )
    allowed: dict[str, Sequence[int]] = {}
    for change in fixed:
        allowed[change.text.partition("=")[0]] = _counts([change], f"--set {change.text}")
    axes: list[tuple[Change, ...]] = []
    for text in free:
        key, values = freed_values(text, FREE)
        if key not in FREE:
            axes.append(values)
        elif values:
            allowed[key] = _counts(values, f"--free {text}")
    most = plain.scenario.devices if devices is None else devices
    nodes = _nodes(plain, most)
    sized = [*others, *changes_of({"cluster.nodes": nodes})]
    points = tuple(tuple(combination) for combination in product(*axes))
    load = plain.scenario.load
    return ServiceRequest(
        scenario=scenario,
        changes=(*changes, *further),
        bases=tuple(load_service(scenario, [*sized, *point]) for point in points),
        points=points,
        devices=most,
        pools=allowed.pop("pools", [1]) != [0] and not load.cached and load.kind != "batch",
        allowed=allowed,
        measure=measure,
        limits=worst,
        free=free_rate,
    )


def _load_at_a_rate(plain: LoadedService, limits: Mapping[str, float]) -> dict[str, Any]:
    """Return the load of a scenario without a number of requests, at any rate.

    Raises
    ------
    ScenarioError
        in one line, without limits and for a trace, whose requests have their own times.
    """
    if not limits:
        raise ScenarioError(
            "--objective rate: needs a limit (--limit ttft_p99=2s; serve prints the rate that a"
            " layout sustains)"
        )
    given = plain.scenario.load
    if given.trace is not None:
        raise ScenarioError("--objective rate: a trace has its own arrivals (give load.rate)")
    kept = {"arrivals", "burstiness", "input", "output", "cached", "seed"}
    return {"rate": given.rate or 1.0} | given.model_dump(include=kept, exclude_unset=True)


def _nodes(plain: LoadedService, most: int) -> int:
    """Return the nodes of a cluster that has most devices."""
    if most < 1:
        raise ScenarioError(f"--devices {most}: must be at least 1")
    cluster = plain.scenario.cluster
    nodes = max(cluster.nodes, -(-most // cluster.node.devices))
    if nodes > cluster.size:
        raise ScenarioError(
            f"--devices {most}: {nodes:,} nodes of '{cluster.name}', which has {cluster.size:,}"
        )
    return nodes


@dataclass(frozen=True, eq=False, kw_only=True)
class ServiceLayouts(Layouts):
    """The layouts of a service that fit and can meet the limits, by their bounds.

    Attributes
    ----------
    found : what became of all layouts
    ahead : the layouts, by their cost
    """

    request: ServiceRequest
    found: Candidates
    ahead: tuple[Candidate, ...]

    def _plan(self, at: int) -> dict[str, Any]:
        candidate = self.ahead[at]
        return candidate.layout.plan(self.request.bases[candidate.base].scenario)

    def variant(self, at: int) -> Variant:
        """Return a layout as a scenario with changes."""
        base = self.request.bases[self.ahead[at].base]
        settings = (*base.changes, *changes_of({"plan": self._plan(at)}))
        return Variant(self.request.scenario, settings, within=self.request.within)

    def settings(self, at: int) -> dict[str, Any]:
        """Return the values of a layout, with those of other keys that are free."""
        point = self.request.points[self.ahead[at].base]
        free = {change.text.partition("=")[0]: change.text.partition("=")[2] for change in point}
        values: dict[str, Any] = {}
        pools = self.ahead[at].layout.pools
        for name, pool in zip(
            ("prefill.", "decode.") if len(pools) > 1 else ("",), pools, strict=True
        ):
            usual = {"tensor": 0, "replicas": 0}  # always stated, others where they are not 1
            values |= {f"plan.{name}{k}": n for k, n in pool.items() if n != usual.get(k, 1)}
        return free | values

    def base(self, at: int) -> tuple[LoadedService, dict[str, Any]]:
        """Return the scenario of a layout and the values of the layout alone."""
        return self.request.bases[self.ahead[at].base], {"plan": self._plan(at)}

    def fits(self, at: int, run: Run) -> bool:
        """Return whether a replay fits in memory."""
        return run.fits

    def own(self, at: int) -> tuple[Variant | None, str]:
        """Return the scenario's own layout."""
        return self.request.first, ""

    def nearest_bound(self) -> str | None:
        """Return the layout whose bounds come nearest to the limits, and what they miss."""
        limits = self.request.limits
        outside = [
            (excess_of(c.bound, limits, SERVICE), c.layout, c.bound)
            for c in self.found.fit
            if missed_limits(c.bound, limits, SERVICE) is not None
        ]
        if not outside:
            return None
        _, layout, bound = min(outside, key=lambda each: each[0])
        names = ("prefill ", "decode ") if len(layout.pools) > 1 else ("",)
        pools = "; ".join(
            name + (" x ".join(f"{key} {n}" for key, n in pool.items() if n > 1) or "tensor 1")
            for name, pool in zip(names, layout.pools, strict=True)
        )
        at_best = "" if bound.get(QUEUE_GROWTH) else "at least "
        return f"{pools}: {at_best}{missed_limits(bound, limits, SERVICE)}"


def _hopeful(ahead: Sequence[Candidate], used: Floats) -> tuple[int, ...]:
    """Return layouts to replay first: those whose bounds are tight, with ever less room in them.

    Bounds of pipelines and pools leave out that stages and pools wait for each other.

    Parameters
    ----------
    used : share of the limits, and of the sustainable rate, that each layout uses at least
    """
    tight = np.array([each.layout.plain for each in ahead], dtype=np.bool_)
    firsts = (np.flatnonzero(tight & (used <= share))[:1].tolist() for share in SHARES)
    return tuple(dict.fromkeys(at for first in firsts for at in first))


def _counts(changes: Sequence[Change], where: str) -> list[int]:
    """Return the values of a key of a layout, which are counts or, of pools, true or false."""
    values = [change.value for change in changes]
    boolean = changes[0].text.partition("=")[0] == "pools"
    for value in values:
        if not isinstance(value, bool if boolean else int) or (not boolean and value < 1):
            allowed = "true or false" if boolean else "a whole number of at least 1"
            raise ScenarioError(f"{where}: must be {allowed}")
    return [int(value) for value in values]
