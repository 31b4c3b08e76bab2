"""Search the best layout of a scenario, with proof.

scenario --free keys--> request --bounds--> layouts --best first--> incumbents --> answer

Training steps and services have spaces of their own, each with bounds; all else is shared.
"""

import copy
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from math import inf, isfinite
from pathlib import Path
from statistics import median
from typing import Any, Final

from pydantic_core import to_jsonable_python

from clustersim.answers import from_json, to_json
from clustersim.catalog.changes import Scale, Settings
from clustersim.errors import ScenarioError
from clustersim.runs.arguments import parse_settings, scenario_value, without_numbers
from clustersim.runs.cache_key import key_of_answer
from clustersim.runs.execution import CachedRuns, files_of
from clustersim.runs.executors import workers
from clustersim.runs.progress import usual_progress
from clustersim.runs.store import Store, run_cache
from clustersim.runs.variants import ScenarioAnswer, run_variant
from clustersim.scenario.costs import rate_text
from clustersim.scenario.load import LoadedScenario, load
from clustersim.scenario.origins import kind_of, scenario_text
from clustersim.scenario.references import WORDS
from clustersim.scenario.sharing import Sharing
from clustersim.simulation.limits import Limits, kinds_of
from clustersim.simulation.measures import MONEY, Measure, ParetoFront, measures_of, pareto_front
from clustersim.simulation.service.answer import ServeAnswer
from clustersim.simulation.step.answer import RunAnswer
from clustersim.studies.compare import compare_two
from clustersim.studies.search.answer import (
    BestRun,
    BestService,
    BestSharing,
    LayoutCounts,
    LayoutDifference,
    RankedLayout,
    RuleCount,
    SearchAnswer,
)
from clustersim.studies.search.loop import (
    Deadline,
    Incumbent,
    OnProgress,
    Progress,
    Search,
    never,
)
from clustersim.studies.search.service.request import (
    ServiceLayouts,
    ServiceRequest,
    service_request,
)
from clustersim.studies.search.sharing.request import (
    SharingLayouts,
    SharingRequest,
    sharing_request,
)
from clustersim.studies.search.step.offloads import offloads_of
from clustersim.studies.search.step.request import StepLayouts, StepRequest, step_request

Request = StepRequest | ServiceRequest | SharingRequest
Found = StepLayouts | ServiceLayouts | SharingLayouts

TOP: Final = {"step": 10, "service": 3, "sharing": 3}
"""Layouts that are proven to be the best, by kind: services and jobs take seconds to replay."""

USUAL: Final = {
    "step": "tokens_per_s", "service": "tokens_per_s_per_device", "sharing": "slowdown_mean",
}  # fmt: skip
"""Objectives, unless another one is given."""


def _usual_progress() -> OnProgress:
    """Return what shows the progress of a search: in a notebook a bar, and nothing elsewhere."""
    show = usual_progress("search")

    def update(far: Progress) -> None:
        if far.bounded:
            show(far.examined, far.ahead)

    return update


def search(
    scenario: str | Path | Mapping[str, Any],
    *,
    devices: int | None = None,
    objective: str | None = None,
    free: Sequence[str] = (),
    limits: Limits = (),
    settings: Settings = (),
    program: str | None = None,
    gap: float = 0.0,
    seconds: float | None = None,
    top: int | None = None,
    store: str | Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: OnProgress | None = None,
    stopped: Callable[[], bool] = never,
) -> SearchAnswer:
    """Find the best layout of a scenario that fits in memory, with proof.

    All layouts that divisibility allows are bounded; those whose bound is better than the best
    replays are replayed.  Where none of training fits, those with states on the hosts are searched.
    Of a service free are the tensor, pipeline, expert and attention-data degrees, the number of
    replicas, and whether prompts have replicas of their own; of a shared machine the rules for the
    nodes of its jobs.

    Parameters
    ----------
    scenario : file or name of a shipped scenario, or its keys and values as a dict
    devices : number of devices, of a service the most; those of the scenario if None
    objective : measure that is best: ``"tokens_per_s"``, ``"tokens_per_joule"``, ``"days"``,
        ``"tpot"`` and so on; tokens/s of training, tokens/s per device of services and the
        mean slowdown of the jobs of a shared machine if None;
        ``"rate"`` finds the highest rate of requests within limits
    free : further keys that are searched, with their values (``"precision=bf16,fp8"``), or keys of
        a layout with the only values that they may have (``"plan.tensor=1:8"``)
    limits : ``"memory<=70GiB"``, ``"tpot=50 ms"``, ``"tokens_per_joule>=0.02"``; of keys of a
        layout of training ``"plan.tensor<=8"``
    settings : changes of the scenario; keys of a layout that are set stay as they are, and so does
        ``pools=false`` of a service
    program : search only layouts that the framework has launch arguments for, as this program
    gap : stop when no layout can be better by more than this share
    seconds : end after this time with the best so far; replays that are running are abandoned [s]
    top : number of layouts that are proven to be the best; 10 of training, else 3 if None
    store : run cache (SQLite) of replays and answers, which is created if it does not exist; None
        for one in memory
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster that computes bounds and replays instead:
        ``dask://HOST:PORT``
    on_progress : is called with the progress after each replay; None shows a bar in a notebook
    stopped : whether the search is to end now with the best so far; is called about every second

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for invalid input, where no key is free, and where no layout is valid.

    >>> import clustersim
    >>> fixed = {"batch.global": 16, "batch.micro": 1, "plan.tensor": 8, "recompute": "none"}
    >>> fixed |= {"plan.schedule": "1f1b"}
    >>> answer = clustersim.search("frontier-22b", settings=fixed, jobs=1)
    >>> answer.gap, answer.best.set_["plan.pipeline"]
    (0.0, 1)
    """
    text, began = scenario_text(scenario), time.perf_counter()
    arguments: dict[str, Any] = {
        "devices": devices, "objective": objective, "limits": limits, "settings": settings,
        "program": program, "gap": gap, "top": top, "store": store, "jobs": jobs,
        "executor": executor, "on_progress": on_progress or _usual_progress(), "stopped": stopped,
    }  # fmt: skip
    answer = _search(text, free=free, seconds=seconds, **arguments)
    for offload in _offloads(text, settings, free) if _lacks_memory(answer) else ():
        remaining = None if seconds is None else began + seconds - time.perf_counter()
        if stopped() or (remaining is not None and remaining <= 0):
            break
        held = [*free, *(f"offload.{part}=true" for part in offload)]
        try:
            further = _search(text, free=held, seconds=remaining, **arguments)
        except ScenarioError:
            continue  # not allowed by the framework, the machine or the layout
        if further.best is not None:
            return replace(further, offload=offload, wall_s=time.perf_counter() - began)
    return replace(answer, wall_s=time.perf_counter() - began)


def _lacks_memory(answer: SearchAnswer) -> bool:
    """Whether memory alone excludes all layouts of a training step."""
    counts = answer.layouts
    others = counts.open or counts.limited or answer.missed
    return answer.best is None and "step" in answer.kinds and bool(counts.memory) and not others


def _offloads(text: str, settings: Settings, free: Sequence[str]) -> Sequence[tuple[str, ...]]:
    """Return what hosts can hold, where neither scenario nor arguments state it."""
    changes = parse_settings(settings)
    stated = [*free, *(change.text for change in changes)]
    if any(each.startswith("offload") for each in stated):
        return ()
    return offloads_of(load(text, changes))[1:]


def _search(
    text: str,
    *,
    devices: int | None,
    objective: str | None,
    free: Sequence[str],
    limits: Limits,
    settings: Settings,
    program: str | None,
    gap: float,
    seconds: float | None,
    top: int | None,
    store: str | Path | None,
    jobs: int | None,
    executor: str | None,
    on_progress: OnProgress,
    stopped: Callable[[], bool],
) -> SearchAnswer:
    """Return the best layout of a scenario as it is; parameters as of `search`."""
    began = time.perf_counter()
    kind = kind_of(text)
    requested = REQUESTS[kind]
    by, most = objective or USUAL[kind], TOP[kind] if top is None else top
    changes = parse_settings(settings)
    request = requested(text, devices, by, free, limits, changes, program)
    stated = [*limits.items()] if isinstance(limits, Mapping) else [*limits]
    arguments = {"scenario": text, "by": by, "free": [*free], "limits": stated, "gap": gap}
    arguments |= {"top": most, "fixed": request.fixed_values}
    key = key_of_answer("search", request.loaded, arguments)
    path = None if store is None else Path(store)
    if (known := _known(path, key)) is not None:
        return replace(known, fresh=0, wall_s=time.perf_counter() - began)
    deadline = Deadline(seconds, began, stopped)
    ends = seconds is not None or stopped is not never
    with workers(jobs, executor=executor, endable=ends) as computing:
        if computing.elsewhere:
            computing.carry(files_of(request.variants()))
        first = computing.submit(partial(run_variant, request.first, None)) if ends else None
        layouts = request.layouts(computing, on_progress, deadline)
        if layouts.unbounded and not layouts.costs.any() and not (first and first.done()):
            deadline.check()
        with run_cache(path) as cache:  # is created after invalid input has been rejected
            runs = CachedRuns(computing, cache)
            if first is not None:
                runs.adopt(request.first, first)
            search = Search(layouts, runs, most, gap, deadline)
            search.run(on_progress)
            answer = conclude(request, layouts, search, began)
            if not deadline.remaining:
                computing.abandon()
            elif not search.open:
                cache.put_answer(key, "search", to_json(answer))
    return answer


REQUESTS: Final[Mapping[str, Callable[..., Request]]] = {
    "step": step_request, "service": service_request, "sharing": sharing_request,
}  # fmt: skip
"""What reads the arguments of a search, by kind of the scenario."""


def _known(store: Path | None, key: str) -> SearchAnswer | None:
    """Return the answer of a search that was completed before; None where there is none."""
    if store is None or not store.exists():
        return None
    with Store(store) as cache:
        found = cache.answer(key)
    return None if found is None else from_json(SearchAnswer, found)


COSTS: Final = ("memory_peak_bytes", "devices", "usd_per_hour", "tokens_per_s_per_user")
"""Measures that the objective has a front with, where they vary."""

NAMES: Final = {"second": "the second layout", "scenario": "the layout of the scenario"}


def conclude(
    request: Request,
    layouts: Found,
    found: Search,
    began: float,
) -> SearchAnswer:
    """Return the answer of a search; `began` is when it began [s]."""
    first, incumbents, measure = layouts.loaded[0], found.incumbents, layouts.measure
    proven = len(incumbents) if not found.open and not found.accepted else 0
    ranked = tuple(_ranked(each, measure, incumbents[0]) for each in incumbents)
    bounds = [each.bound / each.cost for each in incumbents if each.bound > 0]
    return SearchAnswer(
        name=first.name,
        title=_title(request),
        kinds=kinds_of(first),
        by=measure.name,
        limits=request.limits,
        devices=_devices(request),
        best=_best(incumbents[0]) if incumbents else None,
        ranked=ranked,
        missed=tuple(
            _ranked(missed.incumbent, measure, None, missed.words)
            for missed in found.missed
            if measure.name in missed.incumbent.answer.measures()
        ),
        proven=min(proven, found.top),
        layouts=_counts(layouts, found),
        rules=_rules(layouts, found),
        gap=_gap(found),
        tightness=median(bounds) if bounds else None,
        differences=tuple(_differences(layouts, found)),
        pareto=tuple(_fronts(ranked, measure, request.loaded)),
        nearest=None if incumbents else _nearest(layouts, found),
        scenario=_scenario(layouts, incumbents[0]) if incumbents else None,
        fresh=found.runs.computed,
        wall_s=time.perf_counter() - began,
        roomy=_roomy(found, measure),
        roomy_proven=found.roomy_is_proven,
        rate=_rate(layouts, incumbents[0]) if incumbents and measure.name in MONEY else None,
    )


def _roomy(found: Search, measure: Measure) -> RankedLayout | None:
    """Return the best layout with room for the errors of memory, where the best has it not."""
    best, roomy = found.incumbents[:1], found.roomy
    return None if roomy is None or roomy in best else _ranked(roomy, measure, best[0])


def _rate(layouts: Found, best: Incumbent) -> str | None:
    scenario = layouts.base(best.at)[0].scenario
    assert not isinstance(scenario, Sharing), "has no measure of money"
    return rate_text(scenario.costs, scenario.cluster.node.accelerator.name)


def _title(request: Request) -> str:
    """Return what is searched: model, devices and cluster, also where settings changed them."""
    if isinstance(request, SharingRequest):
        return request.title
    scenarios = [each.scenario for each in request.loaded]
    models = dict.fromkeys(scenario.model.name for scenario in scenarios)
    clusters = dict.fromkeys(scenario.cluster.name for scenario in scenarios)
    devices = " or ".join(f"{number:,}" for number in _devices(request))
    return f"Best layout of {' or '.join(models)} on {devices} devices of {' or '.join(clusters)}"


def _devices(request: Request) -> tuple[int, ...]:
    if isinstance(request, ServiceRequest):
        return (request.devices,)
    clusters = [loaded.scenario.cluster for loaded in request.loaded]
    return tuple(dict.fromkeys(each.nodes * each.node.devices for each in clusters))


def _gap(found: Search) -> float | None:
    """Return by how much another layout can be better; None where a bound is nothing."""
    gap = found.gap
    return None if gap == 1.0 else gap


def _best(incumbent: Incumbent) -> BestRun | BestService | BestSharing:
    answer = incumbent.answer
    kind = next(
        best for best in (BestRun, BestService, BestSharing) if issubclass(best, type(answer))
    )
    values = {field.name: getattr(answer, field.name) for field in fields(type(answer))}
    return kind(**values, set_=incumbent.settings)


def _ranked(
    incumbent: Incumbent, measure: Measure, best: Incumbent | None, missed: str | None = None
) -> RankedLayout:
    numbers, bound = incumbent.answer.measures(), incumbent.bound
    if measure.more_is_better:
        bound = 1 / bound if bound else inf
    return RankedLayout(
        set_=incumbent.settings,
        value=numbers[measure.name],
        bound=bound if isfinite(bound) and bound else None,
        measures=numbers,
        tie=best is not None and _ties(incumbent, best),
        missed=missed,
        tight=incumbent.answer.memory.tight,
    )


def _ties(incumbent: Incumbent, best: Incumbent) -> bool:
    """Return whether a layout lies within the prediction interval of the best one."""
    if not isinstance(best.answer, RunAnswer) or best.answer.interval.high_s is None:
        return False
    return incumbent.cost / best.cost <= best.answer.interval.high_s / best.answer.step_time_s


def _scenario(layouts: Found, best: Incumbent) -> dict[str, Any]:
    """Return the scenario of a layout as plain values of a file."""
    loaded, values = layouts.base(best.at)
    if isinstance(best.answer, ServeAnswer) and best.answer.steady is not None:
        values = values | {"load.rate": best.answer.steady.rate}
    return dict(to_jsonable_python(file_values(loaded, values)))


def _counts(layouts: Found, found: Search) -> LayoutCounts:
    excluded = sum(layouts.rules.values()) + sum(found.invalid.values())
    memory, limited = layouts.memory + found.memory, layouts.limited
    bounded = layouts.possible - excluded - memory - limited - found.replayed - found.open
    return LayoutCounts(
        *(layouts.possible, excluded, bounded, memory, found.replayed, found.open, limited),
        unbounded=layouts.unbounded,
    )


def _rules(layouts: Found, found: Search) -> tuple[RuleCount, ...]:
    """Return the rules with their counts; those that differ in numbers only are one."""
    counts, first = Counter[str](), dict[str, str]()
    for why, count in (*layouts.rules.items(), *found.invalid.items()):
        pattern = without_numbers(why)
        counts[pattern] += count
        first.setdefault(pattern, why)
    return tuple(RuleCount(first[pattern], count) for pattern, count in counts.most_common())


def _fronts(
    ranked: Sequence[RankedLayout], by: Measure, loaded: Sequence[LoadedScenario]
) -> Iterator[ParetoFront]:
    """Yield the fronts over measures that vary.

    With one accelerator the price is proportional to the devices, and has no front of its own.
    """
    numbers = [layout.measures for layout in ranked]
    accelerators = {each.scenario.cluster.node.accelerator.name for each in loaded}
    table = measures_of(kinds_of(loaded[0]))
    for name in COSTS:
        known = [each[name] for each in numbers if name in each]
        varies = len(set(known)) > 1 or (name == "memory_peak_bytes" and bool(known))
        alone = name != "usd_per_hour" or len(accelerators) > 1
        if name in table and name != by.name and len(known) == len(numbers) and varies and alone:
            yield ParetoFront(name, pareto_front(numbers, by, table[name]))


def _nearest(layouts: Found, found: Search) -> str | None:
    """Return the layout that comes nearest to the limits, and what it misses."""
    if found.missed:
        nearest = found.missed[0]
        values = ", ".join(
            f"{k.removeprefix('plan.').replace('.', ' ')} {v}"
            for k, v in nearest.incumbent.settings.items()
        )
        return f"{values}: {nearest.words}"
    return layouts.nearest_bound() if isinstance(layouts, ServiceLayouts) else None


# --- differences ----------------------------------------------------------------------------------


def _differences(layouts: Found, found: Search) -> Iterator[LayoutDifference]:
    """Yield the best layout compared with the next worse one and with that of the scenario."""
    if not found.incumbents:
        return
    best, by = found.incumbents[0], layouts.measure
    second = next((each for each in found.incumbents if each.cost > best.cost), None)
    if second is not None:
        yield _compared("second", best, second.settings, second.answer, by)
    base, _ = layouts.base(best.at)
    values = own_values(base, best.settings)
    variant, why = layouts.own(best.at)
    if variant is not None:
        run = found.replay(variant)
        if run is not None and run.answer is not None and by.name in run.answer.measures():
            yield _compared("scenario", best, values, run.answer, by)
            return
        why = "the scenario's own layout was not replayed before the time was over"
        if run is not None:
            reason = run.why if run.answer is None else run.answer.why_missing(by.name)
            problem = re.sub(
                r"^\S+\.ya?ml(?::\d+)?: (?:plan: )?", "", (reason or "").split("; ")[0]
            )
            why = f"the scenario's own layout is not possible: {problem}"
    yield LayoutDifference("scenario", _other(best, values), why=why)


def own_values(base: LoadedScenario, keys: Collection[str]) -> dict[str, Any]:
    """Return the values of a scenario for the keys of another layout.

    A service without pools has those of its replicas instead of those of pools, without the degrees
    that are 1.
    """
    values = {key: scenario_value(base, key) for key in keys}
    pools = [key for key in keys if key.startswith(("plan.prefill.", "plan.decode."))]
    if not pools or any(values[key] is not None for key in pools):
        return values
    rest = {key: value for key, value in values.items() if key not in pools}
    whole = dict.fromkeys(["plan.tensor", *(f"plan.{key.rpartition('.')[2]}" for key in pools)])
    found = {key: scenario_value(base, key) for key in whole}
    notable = {k: v for k, v in found.items() if v not in (None, 1) or k == "plan.tensor"}
    return rest | notable


def _compared(
    against: str,
    best: Incumbent,
    values: Mapping[str, Any],
    other: ScenarioAnswer,
    by: Measure,
) -> LayoutDifference:
    comparison = compare_two((NAMES[against], "the best layout"), other, best.answer, by.name)
    account = next((a for a in other.accounts() if a.name == comparison.account), None)
    return LayoutDifference(
        against=against,
        set_=_other(best, values),
        value=other.measures()[by.name],
        gain=comparison.gain,
        account=comparison.account,
        label="" if account is None else account.label,
        before=None if account is None else account.total,
        parts=comparison.parts,
        finding=comparison.finding.removeprefix("the best layout: "),
    )


def _other(best: Incumbent, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from those of the best layout; all where it has more alone."""
    other = {key: value for key, value in values.items() if best.settings.get(key) != value}
    return other or {**values}


LEFT_OUT: Final = ("published", "scaling", "assumed")
"""Keys of a scenario that belong to its own layout."""


def file_values(loaded: LoadedScenario, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a scenario file that is loaded with its changes and other values.

    Parameters
    ----------
    loaded : the scenario with its changes, of which those by a factor become numbers
    values : by dotted key, of another layout
    """
    data = copy.deepcopy(dict(loaded.origin.document.data))
    for key in LEFT_OUT:
        data.pop(key, None)
    for change in loaded.changes:
        value = change.value
        if isinstance(value, Scale):
            value = _at(loaded.tree.data, change.path)
        _put(data, change.path, value)
    for key, value in values.items():
        _put(data, tuple(key.split(".")), value)
    return data


def _put(data: Any, path: tuple[str | int, ...], value: Any) -> None:
    """Set a value in a tree; a word on the way becomes a table with that word."""
    words = WORDS if "load" in data else {}
    *way, last = path
    for key in way:
        key = int(key) if isinstance(data, list) else key
        inner = data.get(key) if isinstance(data, dict) else data[key]
        if isinstance(inner, str):
            inner = {words.get(str(key), "name"): inner}
        elif inner is None:
            inner = {}
        data[key] = inner
        data = inner
    data[last] = value


def _at(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        data = data[key]
    return data
