"""The layouts of a training step that are searched, with the bounds of their objective.

scenario --free keys--> spaces --bounds--> candidates, the best bound first
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final

from clustersim.catalog.changes import Change, changes_of
from clustersim.cost.power import machine_power, missing_power
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.exporters.arguments import has_argument, launch_of
from clustersim.memory.peak_errors import shipped_peak_errors
from clustersim.records import dataclass
from clustersim.runs.cache_key import key_of
from clustersim.runs.variants import Run, Variant
from clustersim.runs.workers import Workers
from clustersim.scenario.costs import usd_per_hour
from clustersim.scenario.load import Loaded, load
from clustersim.simulation.limits import Limits, kinds_of, read_limits
from clustersim.simulation.measures import MONEY, Measure, check_measure, measures_of
from clustersim.simulation.step.build import recompute_value
from clustersim.simulation.step.check import scenario_problems
from clustersim.simulation.training_run.whole_run import tokens_of_run
from clustersim.studies.search.loop import (
    NO_DEADLINE,
    Deadline,
    Layouts,
    OnProgress,
    Progress,
    TimeOverError,
)
from clustersim.studies.search.step.arguments import (
    Freed,
    Ranges,
    allows,
    device_changes,
    fixed_keys,
    freed_of,
    split_limits,
)
from clustersim.studies.search.step.candidates import (
    Base,
    Candidates,
    StepLimits,
    candidates_of,
    excluded_by_rule,
    own_candidates,
)
from clustersim.studies.search.step.lower_bound.jobs import LayoutJobs
from clustersim.studies.search.step.space import Choices, Space
from clustersim.workload.flops import model_flops
from clustersim.workload.ops import Recompute
from clustersim.workload.slice import PRECISIONS

HOUR: Final = 3600.0
DAY: Final = 86_400.0

ENERGY: Final = "tokens_per_joule"
"""The objective that is one of energy."""

BOUNDED: Final = (
    "tokens_per_s", "tokens_per_s_per_device", "samples_per_s", "tflops_per_device_model", "mfu",
    "tokens_per_dollar", ENERGY, "step_time_s", "days",
)  # fmt: skip
"""Measures with a bound; for a given batch all but the energy fall with the step time."""


@dataclass(frozen=True)
class StepRequest:
    """What is searched, from the arguments of a search.

    Attributes
    ----------
    scenario, changes : file or name, and the changes of all scenarios
    bases : the scenarios, one for each combination of other free keys, with their changes
    freed : free keys with values of their own
    fixed : keys of a layout that are not free
    problems : of combinations that are invalid
    measure : the objective
    limits : worst values of measures
    ranges : of keys of a layout
    program : that layouts must have launch arguments for
    """

    scenario: str
    changes: tuple[Change, ...]
    bases: tuple[tuple[tuple[Change, ...], Loaded], ...]
    freed: Freed
    fixed: tuple[str, ...]
    problems: tuple[ScenarioError | CatalogError, ...]
    measure: Measure
    limits: Mapping[str, float]
    ranges: Ranges
    program: str | None

    @property
    def loaded(self) -> list[Loaded]:
        """The scenarios that are searched."""
        return [loaded for _, loaded in self.bases]

    @property
    def fixed_values(self) -> list[str]:
        """What the key of the answer has, next to scenarios and arguments."""
        return [*self.fixed, self.program or ""]

    def variants(self) -> list[Variant]:
        """Return the scenarios, whose files an executor elsewhere needs."""
        return [Variant(self.scenario, (*self.changes, *further)) for further, _ in self.bases]

    def layouts(
        self, executor: Workers, on_progress: OnProgress, deadline: Deadline = NO_DEADLINE
    ) -> "StepLayouts":
        """Return the layouts that can fit, with their bounds.

        Raises
        ------
        ScenarioError, CatalogError
            in one line, where no key is free, where no layout is valid, and where the time is over
            before all layouts are known and the scenarios' own ones are none of them.
        """
        try:
            bases = self._spaces(deadline)
            _check_spaces(bases)
        except TimeOverError:
            bases = self._spaces(NO_DEADLINE, own=True)
            candidates = own_candidates(bases)
            if not len(candidates):
                raise
            return self._layouts(bases, candidates)

        def on_bounds(bounded: int, valid: int) -> None:
            on_progress(Progress(bounded, valid, bounded=False))

        return self._layouts(bases, candidates_of(bases, executor, on_bounds, deadline))

    def _layouts(self, bases: Sequence[Base], candidates: Candidates) -> "StepLayouts":
        return StepLayouts(
            kinds=("step", "training run"),
            measure=self.measure,
            limits=self.limits,
            loaded=[base.loaded for base in bases],
            costs=candidates.cost,
            roomy=candidates.roomy,
            own_places=candidates.own,
            possible=sum(base.space.possible for base in bases),
            memory=candidates.memory,
            limited=candidates.limited,
            unbounded=candidates.unbounded,
            rules=excluded_by_rule(bases),
            candidates=candidates,
        )

    def _spaces(self, deadline: Deadline, *, own: bool = False) -> list[Base]:
        """Return the scenarios with their spaces; those without any layout are left out.

        Parameters
        ----------
        own : whether the spaces are those of the scenarios' own layouts
        """
        bases, problems = [], [*self.problems]
        for further, loaded in self.bases:
            try:
                space = self._space(loaded, deadline, own=own)
            except TimeOverError:
                raise
            except (ScenarioError, CatalogError) as problem:
                problems.append(problem)
                continue
            bases.append(
                Base(
                    scenario=self.scenario,
                    changes=(*self.changes, *further),
                    loaded=loaded,
                    key=key_of(loaded),
                    space=space,
                    scale=scale_of(self.measure, loaded, f"--objective {self.measure.name}"),
                    capacity=min(self.limits.get("memory_peak_bytes", inf), _capacity(loaded)),
                    fixed=self.fixed,
                    common=len(self.changes),
                    energy=self.measure.name == ENERGY,
                    most=_most(self.limits, loaded),
                    room=_room(loaded),
                )
            )
        if not bases:
            raise problems[0]
        return bases

    def _space(self, loaded: Loaded, deadline: Deadline, *, own: bool) -> Space:
        """Return the space of a scenario."""
        jobs = LayoutJobs(loaded)
        if problems := scenario_problems(loaded, jobs.model(1)):
            raise PlanError("\n".join(problems))
        launch = None if self.program is None else launch_of(loaded, self.program)

        def allowed(key: str, value: Any, stated: Mapping[str, str]) -> bool:
            plain = recompute_value(value) if isinstance(value, Recompute) else value
            launched = launch is None or has_argument(launch, key, plain, stated)
            return launched and allows(self.ranges, key, value)

        choices = Choices(loaded, self.fixed, self.freed.values, allowed)
        return Space(jobs, choices, deadline, own=own)

    @property
    def first(self) -> Variant:
        """The first scenario's own layout."""
        further, _ = self.bases[0]
        return Variant(self.scenario, (*self.changes, *further), memory_first=True)


def step_request(
    scenario: str,
    devices: int | None,
    objective: str,
    free: Sequence[str],
    limits: Limits,
    changes: tuple[Change, ...],
    program: str | None,
) -> StepRequest:
    """Return what is searched; parameters as of `search`.

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for invalid input.
    """
    changes += device_changes(load(scenario, changes), devices)
    loaded = load(scenario, changes)
    if loaded.scenario.disturbances:
        raise ScenarioError(
            f"{loaded.where('disturbances')}: a search compares undisturbed layouts"
            " (--set disturbances=[])"
        )
    kinds = kinds_of(loaded)
    measure = check_measure("--objective", objective, kinds, loaded.name)
    if measure.name not in BOUNDED:
        raise ScenarioError(
            f"--objective {objective}: has no bound (search {', '.join(BOUNDED)}, or sweep)"
        )
    ranges, of_measures = split_limits(limits)
    bounds = read_limits(of_measures, kinds, loaded.name)
    freed, problems, bases = freed_of(free, loaded), [], []
    for further in freed.combinations():
        try:
            bases.append((further, loaded.changed(further)))
        except (ScenarioError, CatalogError) as problem:
            problems.append(problem)
    for name in MONEY:
        if name == measure.name or name in bounds:
            option = "--objective" if name == measure.name else "--limit"
            _check_prices(f"{option} {name}", [base for _, base in bases])
    fixed = tuple(fixed_keys(changes, free))
    return StepRequest(
        scenario, changes, tuple(bases), freed, fixed, tuple(problems), measure, bounds, ranges,
        program,
    )  # fmt: skip


def _check_prices(option: str, bases: Sequence[Loaded]) -> None:
    """Check that the devices of all scenarios have a price, before any layout is generated."""
    prices = [_least_price(base) for base in bases]
    if missing := dict.fromkeys(price for price in prices if isinstance(price, str)):
        raise ScenarioError("\n".join(f"{option}: {why}" for why in missing))


@dataclass(frozen=True, eq=False, kw_only=True)
class StepLayouts(Layouts):
    """The layouts of a training step that can fit, by their bounds."""

    candidates: Candidates

    def variant(self, at: int) -> Variant:
        """Return a layout as a scenario with changes: the scenario's own one without any."""
        base, layout = self.candidates.layout(at)
        if at in self.candidates.own:
            return Variant(base.scenario, base.changes, memory_first=True)
        settings = (*base.changes, *changes_of(base.settings(layout)))
        return Variant(base.scenario, settings, memory_first=True)

    def settings(self, at: int) -> dict[str, Any]:
        """Return the values of a layout, with those of other keys that are free."""
        base, layout = self.candidates.layout(at)
        other = {".".join(map(str, c.path)): c.value for c in base.changes[base.common :]}
        return other | base.settings(layout)

    def base(self, at: int) -> tuple[Loaded, dict[str, Any]]:
        """Return the scenario of a layout and the values of the layout alone."""
        base, layout = self.candidates.layout(at)
        return load(base.scenario, base.changes), base.settings(layout)

    def fits(self, at: int, run: Run) -> bool:
        """Return whether a replay fits in the memory that may be used."""
        base, _ = self.candidates.layout(at)
        return run.step is not None and run.fits and run.step.memory.peak_bytes <= base.capacity

    def own(self, at: int) -> tuple[Variant | None, str]:
        """Return the scenario's own layout; or why it cannot be compared with a layout."""
        base, _ = self.candidates.layout(at)
        plan, devices = base.loaded.scenario.plan, base.loaded.scenario.devices
        ranks = plan.tensor * plan.context * plan.data * plan.pipeline
        if ranks != devices:
            return None, f"the scenario's own layout is for {ranks:,} devices, not {devices:,}"
        return Variant(base.scenario, base.changes, memory_first=True), ""


def _check_spaces(bases: Sequence[Base]) -> None:
    """Check that several layouts are possible, and that rules leave some of them.

    Raises
    ------
    ScenarioError
        in one line, with the rule that excludes most layouts.
    """
    possible = sum(base.space.possible for base in bases)
    first = bases[0].loaded
    if possible == 1:
        raise ScenarioError(
            f"{first.name}: no key is free, all of the layout is set (leave a key of plan out of"
            " --set, or --free KEY)"
        )
    if any(base.space.valid for base in bases):
        return
    rules = excluded_by_rule(bases)
    if not rules:
        raise ScenarioError(f"{first.name}: {bases[0].space.choices.lacking}")
    raise ScenarioError(
        f"{first.name}: no layout is possible on {first.scenario.devices:,} devices, most of"
        f" {possible:,} by: {rules.most_common(1)[0][0]}"
    )


def _most(limits: Mapping[str, float], loaded: Loaded) -> StepLimits:
    """Return the longest step, and that of the most energy, within limits that have a bound."""
    seconds, joules, table = [inf], [inf], measures_of(kinds_of(loaded))
    for name, worst in limits.items():
        if name in BOUNDED:
            scale = scale_of(table[name], loaded, f"--limit {name}")
            most = scale / worst if table[name].more_is_better else scale * worst
            (joules if name == ENERGY else seconds).append(most)
    return StepLimits(min(seconds), min(joules))


def scale_of(measure: Measure, loaded: Loaded, option: str) -> float:
    """Return the objective of a step of one second; one over it where less is better.

    Of an objective of energy, return that of a step of one joule; of days, those without failures
    and saves.
    """
    scenario, name = loaded.scenario, measure.name
    batch, devices = scenario.batch, scenario.devices
    tokens = float(batch.tokens)
    if name == "step_time_s":
        return 1.0
    if name == "samples_per_s":
        return float(batch.global_)
    if name == ENERGY:
        if machine_power(scenario.cluster, scenario.cluster.nodes) is None:
            raise ScenarioError(f"{option}: {missing_power(scenario.cluster)}")
        return tokens
    if name in ("tokens_per_s", "tokens_per_s_per_device"):
        return tokens / devices if name.endswith("device") else tokens
    if name == "tokens_per_dollar":
        price = _least_price(loaded)
        assert not isinstance(price, str), "checked before the search"
        return tokens * HOUR / price
    if name == "days":
        training = scenario.training
        if training is None or training.batch_schedule:
            why = "has no bound with a batch_schedule (search tokens_per_s)"
            raise ScenarioError(f"{option}: {why}")
        return DAY * tokens / tokens_of_run(training, tokens, batch.sequence)
    jobs = LayoutJobs(loaded)
    flops = model_flops(jobs.model(1), batch.global_) / devices
    peak = jobs.cluster.accelerator.peak_rate(PRECISIONS[scenario.precision].peak)
    return flops / peak if name == "mfu" else flops / 1e12


def _least_price(loaded: Loaded) -> float | str:
    """Return the price of an hour without electricity [USD/h]; or why a layout has no price."""
    scenario, cluster = loaded.scenario, loaded.scenario.cluster
    known = machine_power(cluster, cluster.nodes) is not None
    watts = 0.0 if known else missing_power(cluster)
    where = f"{loaded.where('costs', 'site')}: "
    name = cluster.node.accelerator.name
    return usd_per_hour(scenario.costs, name, scenario.devices, watts, where)


def _capacity(loaded: Loaded) -> float:
    return float(LayoutJobs(loaded).cluster.accelerator.memory_capacity)


def _room(loaded: Loaded) -> float:
    """Return the memory of a device over the errors of predicted peaks [B]."""
    scenario = loaded.scenario
    names = scenario.cluster.node.accelerator.name, scenario.framework.name
    return _capacity(loaded) / shipped_peak_errors(*names).above
