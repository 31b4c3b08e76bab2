"""Search the best layout of a scenario, with proof.

scenario --free keys--> request --bounds--> layouts --best first--> incumbents --> answer

Training steps and services have spaces of their own, each with bounds; all else is shared.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from clustersim.answers import from_json, to_json
from clustersim.catalog.changes import Settings
from clustersim.runs.arguments import parse_settings
from clustersim.runs.cache_key import key_of_answer
from clustersim.runs.execution import CachedRuns, files_of
from clustersim.runs.executors import workers
from clustersim.runs.limits import Limits
from clustersim.runs.store import Store
from clustersim.scenario.load import is_service
from clustersim.studies.search.answer import SearchAnswer
from clustersim.studies.search.conclusion import conclude
from clustersim.studies.search.loop import OnProgress, Progress, Search
from clustersim.studies.search.service.request import service_request
from clustersim.studies.search.step.request import step_request

TOP: Final = {"step": 10, "service": 3}
"""Layouts that are proven to be the best, by kind: a service takes seconds to replay."""

USUAL: Final = {"step": "tokens_per_s", "service": "tokens_per_s_per_device"}
"""Objectives, unless another one is given."""


def without_progress(progress: Progress) -> None:
    """Do nothing."""


def search(
    scenario: str | Path,
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
    on_progress: OnProgress = without_progress,
) -> SearchAnswer:
    """Find the best layout of a scenario that fits in memory, with proof.

    All layouts that divisibility allows are bounded; those whose bound is better than the best
    replays are replayed.  Of a service free are the tensor, pipeline, expert and attention-data
    degrees, the number of replicas, and whether prompts have replicas of their own.

    Parameters
    ----------
    scenario : file or name of a shipped scenario
    devices : number of devices, of a service the most; those of the scenario if None
    objective : measure that is best: ``"tokens_per_s"``, ``"tokens_per_joule"``, ``"days"``,
        ``"tpot"`` and so on; tokens/s of training, tokens/s per device of services if None
    free : further keys that are searched, with their values (``"precision=bf16,fp8"``), or keys of
        a layout with the only values that they may have (``"plan.tensor=1:8"``)
    limits : ``"memory<=70GiB"``, ``"tpot=50 ms"``, ``"tokens_per_joule>=0.02"``; of keys of a
        layout of training ``"plan.tensor<=8"``
    settings : changes of the scenario; keys of a layout that are set stay as they are, and so does
        ``pools=false`` of a service
    program : search only layouts that the framework has launch arguments for, as this program
    gap : stop when no layout can be better by more than this share
    seconds : stop after this time with the best so far [s]
    top : number of layouts that are proven to be the best; 10 of training, 3 of services if None
    store : run cache (SQLite) of replays and answers, which is created if it does not exist; None
        for one in memory
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster that computes bounds and replays instead:
        ``dask://HOST:PORT``
    on_progress : is called with the progress after each replay

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for invalid input, where no key is free, and where no layout is valid.

    >>> import clustersim
    >>> fixed = {"batch.global": 16, "batch.micro": 1, "plan.tensor": 8, "recompute": "none"}
    >>> answer = clustersim.search("frontier-22b", settings=fixed, jobs=1)
    >>> answer.gap, answer.best.set_["plan.pipeline"]
    (0.0, 1)
    """
    began = time.perf_counter()
    kind = "service" if is_service(scenario) else "step"
    requested = service_request if kind == "service" else step_request
    by, most = objective or USUAL[kind], TOP[kind] if top is None else top
    changes = parse_settings(settings)
    request = requested(str(scenario), devices, by, free, limits, changes, program)
    stated = [*limits.items()] if isinstance(limits, Mapping) else [*limits]
    arguments: dict[str, Any] = {
        "scenario": str(scenario),
        "by": by,
        "free": [*free],
        "limits": stated,
    }
    arguments |= {"gap": gap, "top": most, "fixed": request.fixed_values}
    key = key_of_answer("search", request.loaded, arguments)
    path = None if store is None else Path(store)
    if (known := _known(path, key)) is not None:
        return replace(known, fresh=0, wall_s=time.perf_counter() - began)
    with workers(jobs, executor=executor) as computing, Store(path) as cache:
        if computing.elsewhere:
            computing.carry(files_of(request.variants()))
        layouts = request.layouts(computing, on_progress)
        search = Search(layouts, CachedRuns(computing, cache), most, gap, seconds, began)
        search.run(on_progress)
        answer = conclude(request, layouts, search, began)
        if not search.open:
            cache.put_answer(key, "search", to_json(answer))
    return answer


def _known(store: Path | None, key: str) -> SearchAnswer | None:
    """Return the answer of a search that was completed before; None where there is none."""
    if store is None or not store.exists():
        return None
    with Store(store) as cache:
        found = cache.answer(key)
    return None if found is None else from_json(SearchAnswer, found)
