"""The nodes of the jobs of a shared machine that are searched, by rules, with their bounds.

scenario --free keys--> machines --rules of each job--> nodes --bytes of links--> bounds
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from clustersim.catalog.changes import Change, changes_of
from clustersim.errors import ClustersimError, ScenarioError
from clustersim.records import dataclass
from clustersim.runs.variants import Run, Variant, in_a_line
from clustersim.runs.workers import Workers
from clustersim.scenario.load import LoadedSharing, load_sharing
from clustersim.scenario.sharing import PLACES
from clustersim.simulation.limits import Limits, read_limits
from clustersim.simulation.measures import Measure, check_measure
from clustersim.simulation.sharing.bound import least_slowdown, most_work
from clustersim.simulation.sharing.machine import SharedMachine
from clustersim.simulation.sharing.replays import Replays
from clustersim.studies.search.free_values import check_values, freed_values
from clustersim.studies.search.loop import (
    NO_DEADLINE,
    Deadline,
    Layouts,
    OnProgress,
    Progress,
    cost_of,
)
from clustersim.topology.fabrics.fabric import Fabric
from clustersim.units import counted

BOUNDED: Final = ("slowdown", "slowdown_mean", "tokens_per_s", "lost_devices")
"""Measures with a bound."""

MOST: Final = 4_096
"""Combinations that are bounded at most."""

Rules = Mapping[int, str]
"""Rules for the nodes of jobs, by their number in the file."""


class _Base(NamedTuple):
    """A scenario with a combination of free values other than nodes."""

    point: tuple[Change, ...]
    loaded: LoadedSharing


class Placed(NamedTuple):
    """A choice of rules, with the bound of its cost."""

    base: _Base
    rules: Rules
    cost: float


@dataclass(frozen=True)
class SharingRequest:
    """What is searched, from the arguments of a search.

    Attributes
    ----------
    scenario, changes : file or name, and its changes as they are given
    bases : the scenario with each combination of further free values
    words : rules that each job may have, by its number; none of jobs whose nodes are fixed
    measure : the objective
    limits : worst values of measures
    problems : of combinations that are invalid
    """

    scenario: str
    changes: tuple[Change, ...]
    bases: tuple[_Base, ...]
    words: Mapping[int, Sequence[str]]
    measure: Measure
    limits: Mapping[str, float]
    problems: Mapping[str, int]

    @property
    def loaded(self) -> list[LoadedSharing]:
        """The scenarios that are searched."""
        return [base.loaded for base in self.bases]

    @property
    def fixed_values(self) -> list[str]:
        """What the key of the answer has, next to scenarios and arguments."""
        return [repr(sorted(self.words.items()))]

    @property
    def first(self) -> Variant:
        """The scenario's own nodes."""
        return Variant(self.scenario, self.changes)

    def variants(self) -> list[Variant]:
        """Return the scenarios, whose files an executor elsewhere needs."""
        return [Variant(self.scenario, base.loaded.changes) for base in self.bases]

    @property
    def title(self) -> str:
        """What is searched."""
        clusters = [loaded.scenario.cluster for loaded in self.loaded]
        nodes = " or ".join(dict.fromkeys(f"{cluster.nodes:,}" for cluster in clusters))
        names = " or ".join(dict.fromkeys(cluster.name for cluster in clusters))
        jobs = sum(job.copies for job in self.loaded[0].scenario.jobs)
        return f"Best nodes of {counted(jobs, 'job')} on {nodes} nodes of {names}"

    @property
    def _words(self) -> list[tuple[str, ...]]:
        return [*product(*self.words.values())]

    def layouts(
        self, executor: Workers, on_progress: OnProgress, deadline: Deadline = NO_DEADLINE
    ) -> "SharingLayouts":
        """Return the choices of nodes, with their bounds.

        Raises
        ------
        ScenarioError
            in one line, where no choice is valid.
        """
        rules, found, unbounded = Counter(self.problems), list[Placed](), 0
        own = {number: self.bases[0].loaded.scenario.jobs[number].nodes for number in self.words}
        every = [dict(zip(self.words, words, strict=True)) for words in self._words]
        every.sort(key=lambda chosen: chosen != own)
        for base in self.bases:
            machine, known = SharedMachine(base.loaded), set[Any]()
            for chosen in every:
                if found and not deadline.remaining:
                    unbounded += 1
                    continue
                try:
                    nodes = tuple(machine.assign(chosen))
                except ClustersimError as problem:
                    rules[in_a_line(problem)] += 1
                    continue
                if nodes in known:
                    rules["the nodes are those of another rule"] += 1
                    continue
                known.add(nodes)
                placed = machine.placed(dict(enumerate(nodes)))
                bound = self._bound(Replays(placed, base.loaded.scenario.steps))
                found.append(Placed(base, chosen, cost_of(self.measure, bound)))
                on_progress(Progress(len(found), len(self.bases) * len(every), bounded=False))
        if not found:
            raise ScenarioError(f"{self.bases[0].loaded.name}: {next(iter(rules))}")
        found.sort(key=lambda placed: placed.cost)
        return SharingLayouts(
            kinds=("shared machine",),
            measure=self.measure,
            limits=self.limits,
            loaded=self.loaded,
            costs=np.array([placed.cost for placed in found]),
            own_places=[at for at, placed in enumerate(found) if placed.rules == own],
            possible=len(self.bases) * len(every) + sum(self.problems.values()),
            memory=0,
            limited=0,
            unbounded=unbounded,
            rules=rules,
            request=self,
            found=tuple(found),
        )

    def _bound(self, replays: Replays) -> float:
        """Return the bound of the objective on some nodes."""
        alone = np.array(replays.alone)
        demand, ones = replays.rates / alone[:, None], np.ones(len(alone))
        if self.measure.name == "slowdown":
            return least_slowdown(demand, ones, "largest")
        if self.measure.name == "slowdown_mean":
            return least_slowdown(demand, ones, "mean")
        if self.measure.name == "tokens_per_s":
            rates = [
                (job.tokens or 0.0) / time for job, time in zip(replays.jobs, alone, strict=True)
            ]
            return most_work(demand, ones, np.array(rates))
        size = replays.machine.cluster.node.devices
        devices = np.array([len(job.nodes) * size for job in replays.jobs], dtype=np.float64)
        return max(0.0, float(devices.sum()) - most_work(demand, ones, devices))


def sharing_request(
    scenario: str,
    devices: int | None,
    objective: str,
    free: Sequence[str],
    limits: Limits,
    changes: tuple[Change, ...],
    program: str | None,
) -> SharingRequest:
    """Return what is searched; parameters as of `search`.

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for invalid input.
    """
    loaded = load_sharing(scenario, changes)
    _check_arguments(loaded, devices, program)
    measure = _objective(objective, loaded)
    words, axes = _freed(loaded, free, changes)
    rules = _check_choices(loaded, axes, words)
    for text in free:
        key, values = freed_values(text, [text])
        check_values(loaded, key, values, f"--free {text}")
    bases, problems = [], Counter[str]()
    for point in product(*axes):
        try:
            bases.append(_Base(point, loaded.changed(point) if point else loaded))
        except ClustersimError as problem:
            problems[in_a_line(problem)] += rules
    if not bases:
        raise ScenarioError(f"{loaded.name}: {next(iter(problems))}")
    worst = read_limits(limits, ("shared machine",), loaded.name)
    return SharingRequest(scenario, changes, tuple(bases), words, measure, worst, problems)


def _check_arguments(loaded: LoadedSharing, devices: int | None, program: str | None) -> None:
    """Reject arguments that have no effect on a shared machine, and draws."""
    if program is not None:
        raise ScenarioError("--as: has no effect on a shared machine (leave it out)")
    if devices is not None:
        raise ScenarioError("--devices: has no effect on a shared machine (--set cluster.nodes=N)")
    if loaded.scenario.replications > 1:
        raise ScenarioError(
            f"{loaded.where('replications')}: a search draws nodes once (--set replications=1)"
        )


def _objective(name: str, loaded: LoadedSharing) -> Measure:
    """Return the measure that is best, which has a bound."""
    measure = check_measure("--objective", name, ("shared machine",), loaded.name)
    if measure.name not in BOUNDED:
        raise ScenarioError(
            f"--objective {name}: has no bound (search {', '.join(BOUNDED)}, or sweep)"
        )
    if measure.name == "tokens_per_s" and all(job.scenario is None for job in loaded.scenario.jobs):
        raise ScenarioError(
            f"--objective tokens_per_s: no job of {loaded.name} is training (slowdown_mean)"
        )
    return measure


def _freed(
    loaded: LoadedSharing, free: Sequence[str], changes: tuple[Change, ...]
) -> tuple[dict[int, Sequence[str]], list[tuple[Change, ...]]]:
    """Return the rules that each job may have, and the values of each further free key."""
    words, axes = _words(loaded, changes), list[tuple[Change, ...]]()
    for text in free:
        key, values = freed_values(text, [f"jobs.{number}.nodes" for number in words])
        number = _job_number(key, loaded)
        if number is None:
            axes.append(values)
        elif values:
            words[number] = [str(change.value) for change in values]
            if "best" in words[number]:
                raise ScenarioError(_own_candidates(f"--free {text}", number))
    for number, job in enumerate(loaded.scenario.jobs):
        if job.nodes == "best" and number not in words:
            raise ScenarioError(_own_candidates(f"--set jobs.{number}.nodes=best", number))
    return words, axes


def _check_choices(
    loaded: LoadedSharing,
    axes: Sequence[tuple[Change, ...]],
    words: Mapping[int, Sequence[str]],
) -> int:
    """Return the combinations of rules; reject none and too many, with further free values."""
    rules = prod(map(len, words.values()))
    choices = rules * prod(map(len, axes))
    if choices < 2:
        raise ScenarioError(
            f"{loaded.name}: no key is free, all nodes are set (--free jobs.0.nodes=leaves,pods)"
        )
    if choices > MOST:
        raise ScenarioError(
            f"{loaded.name}: {choices:,} combinations of rules and free values, above {MOST:,} (fix"
            " some jobs with --set jobs.0.nodes=contiguous, or give --free jobs.0.nodes=VALUES)"
        )
    return rules


def _words(loaded: LoadedSharing, changes: Sequence[Change]) -> dict[int, Sequence[str]]:
    """Return the rules of jobs that may have any: those that neither name nodes nor are set."""
    use = loaded.scenario.cluster
    fabric = SharedMachine(loaded).cluster.fabric
    fixed = {change.text.partition("=")[0] for change in changes}
    several = sum(job.copies for job in loaded.scenario.jobs) > 1
    known = rules_of(fabric, use.nodes, several=several)
    return {
        number: known
        for number, job in enumerate(loaded.scenario.jobs)
        if job.nodes in PLACES and f"jobs.{number}.nodes" not in fixed
    }


def rules_of(fabric: Fabric, nodes: int, *, several: bool) -> list[str]:
    """Return the rules for nodes that can differ on a machine.

    Parameters
    ----------
    several : whether there are several jobs
    """
    units = [unit for unit, size in fabric.units.items() if 1 < size < nodes]
    blocks = ["blocks"] if fabric.grid else []
    return [*units, *blocks, "contiguous", *(["interleaved"] if several else []), "scattered"]


def _job_number(key: str, loaded: LoadedSharing) -> int | None:
    """Return the number of the job whose nodes a key states; None for another key."""
    for number in range(len(loaded.scenario.jobs)):
        if key == f"jobs.{number}.nodes":
            return number
    return None


def _own_candidates(where: str, number: int) -> str:
    return (
        f"{where}: best has candidates of its own (clustersim share --set jobs.{number}.nodes=best)"
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class SharingLayouts(Layouts):
    """The choices of nodes for the jobs of a shared machine, by their bounds."""

    request: SharingRequest
    found: tuple[Placed, ...]

    def _settings(self, rules: Rules) -> dict[str, Any]:
        return {f"jobs.{number}.nodes": rule for number, rule in rules.items()}

    def variant(self, at: int) -> Variant:
        """Return a choice as a scenario with changes."""
        base, rules, _ = self.found[at]
        settings = (*base.loaded.changes, *changes_of(self._settings(rules)))
        return Variant(self.request.scenario, settings)

    def settings(self, at: int) -> dict[str, Any]:
        """Return the rules of a choice, with the values of other keys that are free."""
        base, rules, _ = self.found[at]
        free = {
            change.text.partition("=")[0]: change.text.partition("=")[2] for change in base.point
        }
        return free | self._settings(rules)

    def base(self, at: int) -> tuple[LoadedSharing, dict[str, Any]]:
        """Return the scenario of a choice and the rules alone."""
        base, rules, _ = self.found[at]
        return base.loaded, self._settings(rules)

    def fits(self, at: int, run: Run) -> bool:
        """Return whether all jobs fit in memory."""
        return run.fits

    def own(self, at: int) -> tuple[Variant | None, str]:
        """Return the scenario's own nodes."""
        return self.request.first, ""
