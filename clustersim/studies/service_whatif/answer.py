"""What if, of a service: each change alone, and all together, by what they improve.

    base ---- change 1 ---- change 2 ---- ... ---- all valid changes together

A change makes a measure `gain` times as good.  Gains of independent changes multiply; the product
is reported next to what the changes gain together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from typing import Literal

from clustersim.catalog.changes import Settings
from clustersim.errors import ScenarioError
from clustersim.runs.arguments import study_of, variant_of
from clustersim.runs.execution import OnProgress, ignore_progress, run_study
from clustersim.runs.service_arguments import check_measure
from clustersim.runs.variants import FAILED, Run
from clustersim.simulation.service.answer import ServeAnswer
from clustersim.simulation.service.measures import service_measures
from clustersim.studies.compare import BeforeAfter, required
from clustersim.studies.service_compare import compare_two, usual_measure
from clustersim.studies.whatif import change_groups, variants_of


@dataclass(frozen=True)
class ServiceChange:
    """What a change of a service improves.

    Attributes
    ----------
    settings : settings of the change
    verdict : `served`; `invalid` where the layout or a value is not allowed, or `failed`
    why : the reason in one line, unless it was served and fits
    gain : how many times better the measure `by` is: a rate after over before, a time before over
        after; null where the service does not run
    measures : by name: times are means [s], rates in a second; empty where it does not run
    part : the part of the mean time per token that changed most, in the direction of its sum
    parts : change of each part of `attribution`, after less before [s]
    limiting : `before` and `after`: the largest cause of the time per token; null where it does
        not run
    fits : whether it fits in memory; null where the change is invalid
    """

    settings: tuple[str, ...]
    verdict: Literal["served", "invalid", "failed"]
    why: str | None
    gain: float | None
    measures: Mapping[str, float]
    part: str | None
    parts: Mapping[str, float]
    limiting: BeforeAfter[str | None] | None
    fits: bool | None


@dataclass(frozen=True)
class ServiceWhatIf:
    """The changes of a service, and how much better each of them makes a measure.

    Attributes
    ----------
    by : measure that changes are ranked by
    base : what `serve --json` prints of the scenario without changes
    changes : the one with the largest gain first; those without a result last
    together : all valid changes together; null where there are fewer than two
    product : gains of these changes, multiplied; null where one of them has none
    apart : the reason why two or more changes are not together; null where they are
    """

    by: str
    base: ServeAnswer
    changes: tuple[ServiceChange, ...]
    together: ServiceChange | None = None
    product: float | None = None
    apart: str | None = None


def whatif_service(
    scenario: str,
    *,
    settings: Settings = (),
    changes: Sequence[Settings] = (),
    by: str | None = None,
    store: str | Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> ServiceWhatIf:
    """Simulate each change of a service alone, and all together; rank them by a measure.

    Parameters
    ----------
    scenario : file or name of a shipped serving scenario; ``"A precision=fp8"`` is A with a change
    settings, changes : of one value, and of several values each, as of `clustersim.whatif`
    by : measure, one of `SERVICE_MEASURES`; tokens/s per device of users and of offline requests,
        else the latency, if None
    store, jobs, executor, on_progress : as of `clustersim.whatif`

    Raises
    ------
    ScenarioError, CatalogError
        when the scenario or a setting is invalid, before any is simulated, and when the service
        does not fit without changes.
    SimulationError
        when clustersim itself is at fault.
    """
    if by is not None:
        check_measure("--by", by)
    requested = variants_of(variant_of(scenario), change_groups(scenario, settings, changes))
    loaded = requested.base.load_service()
    study = study_of("whatif", loaded.name, loaded.scenario.title, requested.all)
    runs = run_study(
        study, requested.all, store=store, jobs=jobs, executor=executor, on_progress=on_progress
    )
    base = required(loaded.name, runs[0].service, runs[0])
    if not base.memory.fits:
        raise ScenarioError(f"{loaded.name}: {base.memory.verdict}, so that no change has a gain")
    measure = by or usual_measure(loaded, base)
    if not service_measures(base).get(measure):
        raise ScenarioError(f"{loaded.name}: {_why(base, measure)}, so that no change has a gain")
    results = [
        _result(change, base, run, measure)
        for change, run in zip(requested.changes, runs[1:], strict=False)
    ]
    together, product = None, None
    if requested.together is not None:
        joined = [results[place] for place in requested.joined]
        every = tuple(chain.from_iterable(one.settings for one in joined))
        together = _result(every, base, runs[-1], measure)
        gains = [one.gain for one in joined if one.gain is not None]
        product = prod(gains) if len(gains) == len(joined) else None
    order = sorted(results, key=lambda one: -1.0 if one.gain is None else one.gain, reverse=True)
    return ServiceWhatIf(measure, base, tuple(order), together, product, requested.apart)


def _result(change: tuple[str, ...], base: ServeAnswer, run: Run, by: str) -> ServiceChange:
    """Return what came of a change."""
    after = run.service
    if after is None:
        verdict: Literal["failed", "invalid"] = "failed" if run.verdict == FAILED else "invalid"
        return ServiceChange(change, verdict, run.why, None, {}, None, {}, None, None)
    comparison = compare_two((base.name, " ".join(change)), base, after, by)
    parts = comparison.parts
    sign = 1 if sum(parts.values()) > 0 else -1
    most = max(parts, key=lambda part: sign * parts[part], default=None)
    return ServiceChange(
        settings=change,
        verdict="served",
        why=None if comparison.gain is not None else _why(after, by),
        gain=comparison.gain,
        measures=service_measures(after),
        part=most if most is not None and parts[most] else None,
        parts=parts,
        limiting=comparison.limiting if after.memory.fits else None,
        fits=after.memory.fits,
    )


def _why(after: ServeAnswer, by: str) -> str:
    """Return why a service has no gain."""
    if not after.memory.fits:
        return after.memory.verdict
    return "; ".join([f"{by} is not known", *after.unavailable.values()])
