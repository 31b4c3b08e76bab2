"""What if: each change of a scenario alone, and all together, by what they improve.

    base ---- change 1 ---- change 2 ---- ... ---- all valid changes together

A change makes a measure `gain` times as good.  Gains of independent changes multiply, and what they
save adds up only if they do not interact: two changes may shorten the same wait, or one may enable
the other.  So product and sum are reported next to what the changes do together.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from math import inf, prod
from pathlib import Path
from typing import Any, Unpack

from clustersim.answers import Presentable, record
from clustersim.catalog.changes import Settings
from clustersim.errors import CatalogError, ScenarioError
from clustersim.records import dataclass
from clustersim.reports.measures import largest_changes
from clustersim.runs.arguments import check, settings_in, settings_of, study_of, variant_of
from clustersim.runs.execution import Execution, run_study
from clustersim.runs.table import Numbers
from clustersim.runs.variants import Run, ScenarioAnswer, Variant, Verdict, in_a_line
from clustersim.scenario.origins import name_of
from clustersim.simulation.limits import kinds_of, percentile_changes
from clustersim.simulation.measures import QUEUE_GROWTH, check_measure, measures_of
from clustersim.studies.compare import BeforeAfter, compare_two, required, usual_measure

Change = tuple[str, ...]
"""Settings that belong together."""


@dataclass(frozen=True)
class WhatIfVariants:
    """The runs of a what-if.

    Attributes
    ----------
    variants : one for each change
    together : all changes that can be combined
    joined : positions of the changes that are in `together`
    apart : the reason why there is no `together` of two or more changes
    """

    base: Variant
    changes: tuple[Change, ...]
    variants: tuple[Variant, ...]
    together: Variant | None
    joined: tuple[int, ...]
    apart: str | None

    @property
    def all(self) -> list[Variant]:
        """All runs: the base, each change, and all changes together."""
        last = [] if self.together is None else [self.together]
        return [self.base, *self.variants, *last]


def change_groups(scenario: str, settings: Settings, groups: Sequence[Settings]) -> list[Change]:
    """Return changes: each setting is one, and so is each group of settings.

    Raises
    ------
    ScenarioError
        when there is none, or a group is empty.
    """
    changes: list[Change] = [(setting,) for setting in settings_of(settings)]
    for group in groups:
        if isinstance(group, str):
            changes.append(settings_in(group, f"--change '{group}'"))
        else:
            changes.append(settings_of(group))
    if not changes:
        raise ScenarioError(
            f"{scenario}: no change is given (--set cluster.nic.bandwidth=x2; several values that"
            " belong together: --change 'plan.pipeline=4 plan.data=16')"
        )
    return changes


def variants_of(base: Variant, changes: Sequence[Change]) -> WhatIfVariants:
    """Return the runs for some changes of a scenario.

    Raises
    ------
    ScenarioError, CatalogError
        when the base or a setting is invalid; an invalid layout is part of the answer.
    """
    check(base.load_any())
    variants = tuple(_changed(base, change) for change in changes)
    valid = tuple(place for place, variant in enumerate(variants) if variant.problem is None)
    if len(changes) < 2:
        return WhatIfVariants(base, tuple(changes), variants, None, (), None)
    together, joined, apart = _together(base, changes, valid)
    return WhatIfVariants(base, tuple(changes), variants, together, joined, apart)


def _changed(base: Variant, change: Change) -> Variant:
    """Return the base with a change, with the reason if its layout is invalid."""
    changed = replace(base, settings=(*base.settings, *change), point={"change": " ".join(change)})
    loaded = changed.load_any()  # an invalid setting is an error here
    try:
        check(loaded)
    except (ScenarioError, CatalogError) as problem:
        return replace(changed, problem=in_a_line(problem))
    return changed


def _together(
    base: Variant, changes: Sequence[Change], valid: tuple[int, ...]
) -> tuple[Variant | None, tuple[int, ...], str | None]:
    """Return all changes as one, or else those that are valid alone; or the reason for neither."""
    reason = ""
    for joined in dict.fromkeys([tuple(range(len(changes))), valid]):
        settings = [*chain.from_iterable(changes[place] for place in joined)]
        repeated = _repeated(settings)
        if repeated is not None:
            return None, (), f"{repeated} is changed twice"
        if len(joined) < 2:
            return None, (), reason or "fewer than two changes are valid"
        try:
            changed = _changed(base, tuple(settings))
        except (ScenarioError, CatalogError) as problem:
            reason = in_a_line(problem)
            continue
        if changed.problem is None:
            return changed, joined, None
        reason = changed.problem
    return None, (), reason


def _repeated(settings: Sequence[str]) -> str | None:
    """Return a path that two settings change."""
    counts = Counter(setting.partition("=")[0] for setting in settings)
    return next((path for path, count in counts.items() if count > 1), None)


@record
class ChangeResult:
    """What a change improves.

    Attributes
    ----------
    settings : settings of the change
    verdict : `ran`; `invalid` where the layout or a value is not allowed, or `failed`
    why : the reason in one line where there is no gain: no result, or a measure of 0; else null
    gain : how many times better the measure `by` is: a rate after over before, a time before over
        after; null where there is no result
    change : the measure with the change less that of the base; null without a gain
    measures : by name, in SI units; `energy` is in kWh, `cost` in USD; empty without a result
    account : account that explains the measure, as in `compare --json`; null without a result
    part : its part that changed most in the direction of the sum, the three bubbles as one; null
        where none did
    parts : change of each of its parts, after less before [s; d of a run]
    facts : `before` and `after` in words, by label: bottleneck, memory and so on
    fits : whether it fits in memory; null without a result
    assumed : keys that the scenario without the change does not assume, with the reason
    """

    settings: tuple[str, ...]
    verdict: Verdict
    why: str | None
    gain: float | None = None
    change: float | None = None
    measures: Numbers = field(default_factory=dict)
    account: str | None = None
    part: str | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, BeforeAfter[str | None]] = field(default_factory=dict)
    fits: bool | None = None
    assumed: Mapping[str, str] = field(default_factory=dict)


@record
class WhatIfAnswer(Presentable):
    """The changes of a scenario, and how much better each of them makes a measure.

    Attributes
    ----------
    by : measure that changes are ranked by
    base : what `run --json` prints of the scenario without changes
    changes : the one with the best measure first; those without a result last
    together : all valid changes together; null where there are fewer than two
    product : gains of these changes alone, multiplied; null where one of them has none
    sum : `change` of these changes alone, added up; null where one of them has none
    of_sum : `change` of all together over that sum; null where some improve and others do not
    apart : the reason why two or more changes are not together; null where they are
    """

    by: str
    base: ScenarioAnswer
    changes: tuple[ChangeResult, ...]
    together: ChangeResult | None = None
    product: float | None = None
    sum: float | None = None
    of_sum: float | None = None
    apart: str | None = None


def whatif(
    scenario: str | Path | Mapping[str, Any],
    *,
    settings: Settings = (),
    changes: Sequence[Settings] = (),
    by: str | None = None,
    **execution: Unpack[Execution],
) -> WhatIfAnswer:
    """Run each change of a scenario alone, and all together; rank them by what they improve.

    Parameters
    ----------
    scenario : file or name of a shipped scenario; ``"A plan.zero=1"`` is A with a change; or
        its keys and values as a dict
    settings : changes of one value each, ``["plan.zero=1"]`` or ``{"plan.zero": 1}``
    changes : changes of several values each, ``["plan.pipeline=4 plan.data=16"]`` or
        ``[{"plan.pipeline": 4, "plan.data": 16}]``
    by : measure that ranks the changes: ``"mfu"``, ``"days"``, ``"tpot"``, ...; the usual one of
        the kind of scenario if None
    store : run cache (SQLite); in memory if None
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster to run on instead: ``dask://HOST:PORT``, ``dask:FILE.yaml``
    on_progress : called with the number of runs that are done, and of all

    Raises
    ------
    ScenarioError, CatalogError
        when the scenario or a setting is invalid, before any is run; when the measure of the
        scenario itself is not known.
    SimulationError
        when the run of the scenario itself failed.

    >>> import clustersim
    >>> pair = ["recompute=none", "cluster.nic.bandwidth=x2"]
    >>> answer = clustersim.whatif("frontier-22b batch.global=16", settings=pair, jobs=1)
    >>> answer.changes[0].settings
    ('recompute=none',)
    """
    variant = variant_of(scenario)
    groups = change_groups(name_of(variant.scenario), settings, changes)
    requested = variants_of(variant, groups)
    base = requested.base.load_any()
    if by is not None:
        by = check_measure("--by", by, kinds_of(base), base.name).name
        if further := percentile_changes(base, [by]):
            variant = replace(variant, settings=(*variant.settings, *further))
            requested = variants_of(variant, groups)
    study = study_of("whatif", base.name, base.scenario.title, requested.all)
    runs = run_study(study, requested.all, **execution)
    required(base.name, runs[0])
    answers = [run.answer for run in runs if run.answer is not None]
    return rank_changes(requested, runs, by or usual_measure([base], answers))


def rank_changes(requested: WhatIfVariants, runs: Sequence[Run], by: str) -> WhatIfAnswer:
    """Return the answer of the runs of `requested.all`; `by` as in `whatif`.

    Raises
    ------
    ScenarioError, SimulationError
        when the base has no result.
    """
    base = required(requested.base.scenario, runs[0])
    if by not in base.measures() and base.measures().get(QUEUE_GROWTH):
        by = "sustainable_rate"  # times of a queue that grows have no bound
    measure, value = measures_of(base.kinds)[by], base.measures().get(by)
    if not value:
        why = base.why_missing(by) if value is None else f"{measure.label} is 0"
        raise ScenarioError(f"{base.name}: {why}, so that no change has a gain")
    results = [
        _result(change, base, run, by)
        for change, run in zip(requested.changes, runs[1:], strict=False)
    ]
    order = tuple(
        sorted(results, key=lambda e: measure.order(e.measures[by]) if by in e.measures else inf)
    )
    if requested.together is None:
        return WhatIfAnswer(by, base, order, apart=requested.apart)
    joined = [results[index] for index in requested.joined]
    every = tuple(chain.from_iterable(each.settings for each in joined))
    together = _result(every, base, runs[-1], by)
    gains = [each.gain for each in joined if each.gain is not None]
    changes = [each.change for each in joined if each.change is not None]
    total = sum(changes) if len(changes) == len(joined) else None
    small = total is None or abs(total) < 1e-9 * abs(value) or min(changes) < 0 < max(changes)
    return WhatIfAnswer(
        by=by,
        base=base,
        changes=order,
        together=together,
        product=prod(gains) if len(gains) == len(joined) else None,
        sum=total,
        of_sum=None if small or together.change is None or total is None
        else together.change / total,
        apart=requested.apart,
    )  # fmt: skip


def _result(change: Change, base: ScenarioAnswer, run: Run, by: str) -> ChangeResult:
    """Return what a change improves."""
    after = run.answer
    if after is None:
        return ChangeResult(change, run.verdict, run.why)
    compared = compare_two((base.name, " ".join(change)), base, after, by)
    sign = 1 if sum(compared.parts.values()) > 0 else -1
    along = {part: change for part, change in compared.parts.items() if sign * change > 0}
    most = largest_changes(along, 1)
    difference = compared.differences.get(by)
    why = after.why_missing(by) if difference is None else f"{by} is 0, which has no ratio"
    return ChangeResult(
        settings=change,
        verdict=run.verdict,
        why=None if compared.gain is not None else why,
        gain=compared.gain,
        change=None if difference is None else difference.change,
        measures=after.measures(),
        account=compared.account,
        part=most[0][0] if most else None,
        parts=compared.parts,
        facts=compared.facts,
        fits=after.memory.fits,
        assumed=compared.assumed,
    )
