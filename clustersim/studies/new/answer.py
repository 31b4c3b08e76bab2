"""A new scenario: the best layout of a draft, and the file that explains it."""

from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any, Final

from clustersim.answers import record
from clustersim.catalog.changes import changes_of
from clustersim.catalog.records.engines import EngineRecord
from clustersim.errors import ScenarioError
from clustersim.inference.formats import WEIGHTS
from clustersim.scenario.entries import entry
from clustersim.scenario.load import Loaded, from_mapping
from clustersim.scenario.machine import load_cluster
from clustersim.scenario.schema import PlanFile
from clustersim.scenario.serving import ServingPlanFile
from clustersim.simulation.limits import Limits
from clustersim.simulation.step.answer import RunAnswer
from clustersim.studies.new.alternatives import Alternative, alternatives
from clustersim.studies.new.draft import Draft
from clustersim.studies.search import (
    MORE_TIME,
    Deadline,
    RankedLayout,
    SearchAnswer,
    TimeOverError,
    search,
)
from clustersim.units import counted

SECONDS: Final = 30.0
"""Time after which the best so far is the answer [s]."""


@record
class NewScenario:
    """A new scenario with the best layout, and why it has it.

    Attributes
    ----------
    scenario : keys and values of the file
    search : how the layout was found, as `search --json`
    alternatives : neighbouring layouts, with what each would cost; none of a service
    faster : the best layout with less room in memory than the errors of predictions; null where it
        is this one
    """

    scenario: Mapping[str, Any]
    search: SearchAnswer
    alternatives: tuple[Alternative, ...]
    faster: RankedLayout | None = None


def new_scenario(draft: Draft, seconds: float = SECONDS) -> NewScenario:
    """Return the scenario of a draft with its best layout.

    The search runs in this process: it takes a few seconds, and workers as long to start.

    Parameters
    ----------
    seconds : time after which it ends with the best so far, to within a layout [s]

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for invalid input, and where no layout fits in memory.
    """
    served, deadline = "load" in draft.data, Deadline(seconds)
    answer, faster = _with_margin(draft, deadline)
    if answer.scenario is None:
        raise ScenarioError(_why_none(answer, draft))
    data = dict(answer.scenario)
    data.pop("pools", None)
    data["plan"] = _notable(data["plan"], ServingPlanFile if served else PlanFile)
    data["assumed"] = dict(draft.assumed)
    if not draft.assumed:
        del data["assumed"]
    found: tuple[Alternative, ...] = ()
    if isinstance(answer.best, RunAnswer):
        best: Loaded = from_mapping("new", {**data, "assumed": {}}, folder=Path())
        found = tuple(alternatives(best, answer.best.step_time_s, deadline))
    return NewScenario(data, answer, found, faster)


def _with_margin(draft: Draft, deadline: Deadline) -> tuple[SearchAnswer, RankedLayout | None]:
    """Return the search of the best layout with more room than the errors of predicted memory.

    Where no layout has that room, or the time is over, it is the best of those that fit.  The
    second value is the best layout without that room, where it is another one.
    """
    plain = _searched(draft, deadline)
    best = plain.best
    if not isinstance(best, RunAnswer) or not best.memory.tight or best.memory.errors.above is None:
        return plain, None
    if plain.roomy is None and plain.roomy_proven:
        return plain, None
    room = best.memory.capacity_bytes / best.memory.errors.above
    try:
        within = _searched(draft, deadline, {"memory_peak_bytes": room})
    except TimeOverError:
        return plain, None
    return (plain, None) if within.best is None else (within, plain.ranked[0])


def _searched(draft: Draft, deadline: Deadline, limits: Limits = ()) -> SearchAnswer:
    try:
        return search(
            draft.data,
            devices=draft.devices if "load" in draft.data else None,
            objective=draft.objective,
            free=draft.free,
            limits=limits,
            settings=[*changes_of(draft.fixed), *draft.changes],
            seconds=deadline.remaining,
            top=2,
            jobs=1,
        )
    except ScenarioError as error:
        stated = str(error).replace("scenario: precision: ", "--precision: ")
        if stated == str(error):
            raise
        raise ScenarioError(stated) from None


def _notable(
    plan: Mapping[str, Any], kind: type[PlanFile] | type[ServingPlanFile]
) -> dict[str, Any]:
    """Return the keys of a plan that differ from their defaults, and its main degrees."""
    usual = kind().model_dump(mode="json", by_alias=True)
    main = ("tensor", "pipeline", "data") if kind is PlanFile else ("tensor", "replicas")
    notable = {
        key: value
        for key, value in plan.items()
        if key in main or (key != "placement" and value != usual.get(key))
    }
    if notable.get("chunks") == 1:
        del notable["chunks"]
    return notable


SHORT: Final = 512
"""Sequences up to which a shorter one is no remedy, as states and weights take the memory [tokens].
"""

USUAL_MOST: Final = 0.97
"""Share of a device with which an engine of few users is started where 0.9 does not suffice."""

NARROWER: Final = ("fp8", "int4")
"""Formats of weights with fewer bits, of which a service that does not fit names what it can have.
"""


def _why_none(answer: SearchAnswer, draft: Draft) -> str:
    """Return why there is no layout, and what to change."""
    counts, use, load = answer.layouts, draft.data["cluster"], draft.data.get("load", {})
    model, machine = draft.data["model"], f"on {draft.devices:,} devices of {use['name']}"
    if counts.open:
        return f"--seconds: the time was over before a layout was replayed that fits ({MORE_TIME})"
    examined = counts.possible - counts.excluded - counts.memory - counts.open
    if "rate" in load and examined > 0:
        remedies = ["more nodes", "a lower rate", "a smaller model", *_remedies(draft)]
        more = f", and {counts.memory:,} need more memory" if counts.memory else ""
        why = (
            f"--rate {load['rate']:g}: none of {counted(examined, 'layout')} of {model} that may"
            f" fit {machine} sustains it{more}"
        )
    else:
        remedies = ["more nodes", "a smaller model", *_remedies(draft)]
        layouts = f"{counts.memory:,} layouts need more memory"
        why = f"--nodes {use['nodes']}: no layout of {model} fits {machine}: {layouts}"
    return f"{why} (use {', '.join(remedies[:-1])} or {remedies[-1]})"


def _remedies(draft: Draft) -> Iterator[str]:
    """Yield what a scenario of this machine may change to need less memory."""
    data, tables = draft.data, {change.path[0] for change in draft.changes}
    load = data.get("load")
    if load is None:
        if data["batch"]["sequence"] > SHORT:
            yield f"sequences of less than {data['batch']['sequence']:,} tokens with --sequence"
        if "finetune" not in tables:
            yield "adapters with --set finetune.method=lora or qlora"
        return
    if load["input"] + load["output"] > SHORT:
        yield "shorter requests with --input and --output"
    if formats := _narrower(data):
        yield f"weights of fewer bits with --precision {' or '.join(formats)}"
    if "engine" not in tables:
        yield f"more of the memory with --set engine.memory.share={USUAL_MOST:g}"


def _narrower(data: Mapping[str, Any]) -> list[str]:
    """Return the formats with fewer bits that the engine and the device of a service have."""
    engine = entry("engine", data["engine"]).record
    assert isinstance(engine, EngineRecord), "an entry of that kind"
    use = load_cluster(data["cluster"]["name"], data["cluster"]["nodes"])
    peaks, stated = use.node.accelerator.peak, data["precision"]
    parts = stated.values() if isinstance(stated, Mapping) else (stated,)
    bits = min(WEIGHTS.get(part, inf) for part in parts)
    return [
        name
        for name in NARROWER
        if name in engine.formats.weights
        and WEIGHTS[name] < 0.9 * bits  # not scales alone
        and (name != "fp8" or name in peaks)
    ]
