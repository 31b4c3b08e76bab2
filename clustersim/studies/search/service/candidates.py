"""The layouts of a service that fit, each with bounds of its measures."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from clustersim.engine.requests.replay import RequestLoad
from clustersim.engine.requests.scheduling import ReplicaModel
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.records import dataclass
from clustersim.runs.variants import in_a_line
from clustersim.scenario.load import LoadedService
from clustersim.simulation.service.deployment import replica_model
from clustersim.simulation.service.load import load_of, prompts_of
from clustersim.simulation.service.memory import memory_problem
from clustersim.simulation.service.pools import build_pools
from clustersim.studies.search.loop import NO_DEADLINE, Deadline
from clustersim.studies.search.service.bound import ReplicaBound, bound_measures
from clustersim.studies.search.service.layouts import (
    Pool,
    ServiceLayout,
    layouts_of,
)
from clustersim.studies.search.service.load_amounts import LoadAmounts, amounts_of

ROLES: Final[Mapping[int, Sequence[tuple[bool, bool]]]] = {
    1: ((True, True),),
    2: ((False, True), (True, False)),
}
"""Whether the pools of a layout decode, and process prompts, by their number."""


@dataclass(frozen=True)
class Candidate:
    """A layout that fits.

    Attributes
    ----------
    base : place of its scenario
    bound : measures that no replay of it exceeds
    own : whether it is the layout of the scenario itself
    """

    base: int
    layout: ServiceLayout
    bound: Mapping[str, float]
    own: bool = False


@dataclass
class Candidates:
    """The layouts of some scenarios.

    Attributes
    ----------
    possible : number of layouts
    fit : those that are valid and fit
    memory : number of those that do not fit
    excluded : reasons of invalid layouts, and the number of layouts of each
    unbounded : number of those whose bounds were not known in time
    """

    possible: int = 0
    fit: list[Candidate] = field(default_factory=list)
    memory: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    unbounded: int = 0

    def exclude(self, why: str) -> None:
        """Count an invalid layout."""
        self.excluded[why] = self.excluded.get(why, 0) + 1


def bounded_layouts(
    bases: Sequence[LoadedService],
    devices: int,
    allowed: Mapping[str, Sequence[int]],
    pools: bool,
    deadline: Deadline = NO_DEADLINE,
    *,
    free: bool = False,
) -> Candidates:
    """Return the layouts of all scenarios with at most some devices.

    Parameters
    ----------
    deadline : at which those that are known suffice; of each scenario's own layout they are
    free : whether requests arrive at the highest rate, and not at that of the scenario
    """
    found = Candidates()
    for place, base in enumerate(bases):
        replicas = _Replicas(base, free)
        every = layouts_of(base.scenario, devices, allowed, pools=pools)
        both = [(layout.is_of(base.scenario), layout) for layout in every]
        for own, layout in sorted(both, key=lambda one: not one[0]):
            found.possible += 1
            if not (own or deadline.remaining):
                found.unbounded += 1
                continue
            try:
                bounds = replicas.bounds(layout)
            except PlanError as problem:
                found.exclude(str(problem))
                continue
            if bounds is None:
                found.memory += 1
                continue
            measures = bound_measures(
                bounds, replicas.load, layout.devices, replicas.after,
                base.scenario.percentile_names,
            )  # fmt: skip
            found.fit.append(Candidate(place, layout, measures, own))
    return found


class _Replicas:
    """The replicas of a scenario, each built once."""

    def __init__(self, base: LoadedService, free: bool) -> None:
        self._base = base
        load = load_of(base)
        self.after = load.after
        self._prompts = prompts_of(base, load)
        self.load: LoadAmounts = _amounts(base, load, free)
        self._built: dict[str, ReplicaModel | str | None] = {}
        self._bounds: dict[tuple[str, bool, bool], ReplicaBound] = {}

    def bounds(self, layout: ServiceLayout) -> list[tuple[ReplicaBound, int]] | None:
        """Return the bound of a replica of each pool, and their number; None if one does not fit.

        Raises
        ------
        PlanError
            where the layout is not valid.
        """
        models = [self._model(pool) for pool in layout.pools]
        if None in models:
            return None
        return [
            (self._bound(pool, *role), pool["replicas"])
            for pool, role in zip(layout.pools, ROLES[len(layout.pools)], strict=True)
        ]

    def _bound(self, pool: Pool, decodes: bool, prefills: bool) -> ReplicaBound:
        key = repr(_degrees(pool)), decodes, prefills
        if key not in self._bounds:
            model = self._model(pool)
            assert model is not None, "the pool fits"
            self._bounds[key] = ReplicaBound(
                model, self.load, decodes, prefills, pool["attention_data"]
            )
        return self._bounds[key]

    def _model(self, pool: Pool) -> ReplicaModel | None:
        """Return a replica of a pool; None where the longest request does not fit."""
        key = repr(_degrees(pool))
        if key not in self._built:
            try:
                self._built[key] = self._build(pool)
            except (ScenarioError, CatalogError) as problem:
                self._built[key] = in_a_line(problem).partition(": plan.")[2] or str(problem)
        found = self._built[key]
        if isinstance(found, str):
            raise PlanError(found)
        return found

    def _build(self, pool: Pool) -> ReplicaModel | None:
        plan = ServiceLayout(({**pool, "replicas": 1},)).plan(self._base.scenario)
        loaded = self._base.changed({"plan": plan})
        (built,) = build_pools(loaded, self._prompts)
        if memory_problem(built, self.load.longest):
            return None
        return replica_model(built, loaded.scenario)


def _amounts(base: LoadedService, load: RequestLoad, free: bool) -> LoadAmounts:
    given = base.scenario.load
    steady = given.rate is not None and given.requests is None
    return amounts_of(load, None if free else given.rate, steady=steady)


def _degrees(pool: Pool) -> dict[str, int]:
    """Return the degrees of a replica."""
    return {key: n for key, n in pool.items() if key != "replicas"}
