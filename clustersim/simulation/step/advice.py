"""Changes with which a job fits in memory, and the step time of each.

    a job that does not fit --changes, pairs of them--> jobs that fit --replay--> the three fastest

Only changes that the framework and the checks of a layout allow are tried.  Memory is estimated
first, in some 10 ms, and pairs are replayed only if they fit, in the order of an estimate: the step
time of the job times the ratios that the two changes have alone.  Where no pair is enough, the
changes that save most are combined.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, Final

from clustersim.catalog.changes import setting_text
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.memory.verdict import Remedy, Verdict
from clustersim.records import dataclass
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import Scenario
from clustersim.simulation.step.result import Result

MOST_REMEDIES: Final = 3
"""Changes that are named."""

MOST_PAIRS: Final = 8
"""Pairs of changes that are replayed."""

MOST_BLOCKS_OF_PAIRS: Final = 20_000
MOST_BLOCKS: Final = 100_000
MOST_DEVICES: Final = 1024
"""Largest jobs: blocks of one whose pairs of changes are tried, which takes a few seconds, and of
one that is replayed with each single change that fits; devices of both.  Only the memory of larger
jobs is estimated."""

Values = Mapping[str, Any]
"""A change: values by dotted key."""


@dataclass(frozen=True)
class Tools:
    """What a change is judged by.

    Attributes
    ----------
    memory : returns the memory of a scenario
    step_time : replays a scenario and returns its step time [s]
    """

    memory: Callable[[Loaded], Verdict]
    step_time: Callable[[Loaded], float]


def advice(loaded: Loaded, result: Result, tools: Tools) -> tuple[Remedy, ...]:
    """Return the changes with which a job fits, the fastest first.

    Parameters
    ----------
    loaded : a scenario that does not fit
    result : of this scenario
    """
    blocks, step_time = result.timeline.blocks, result.step_time
    replayed = blocks <= MOST_BLOCKS and result.devices <= MOST_DEVICES
    singles = _trials(loaded, changes(loaded.scenario), tools)
    tried = [trial for trial in singles if trial.memory.fits]
    if replayed and blocks <= MOST_BLOCKS_OF_PAIRS:
        tried += _fastest_pairs(loaded, singles, result.memory.fullest.peak, step_time, tools)
    if not tried:
        tried = _combined(loaded, singles, tools) or [*_adapters(loaded, tools)]
    remedies = [trial.remedy(replayed=replayed) for trial in tried]
    return tuple(
        sorted(remedies, key=lambda remedy: (remedy.step_time_s or 0.0, remedy.peak_bytes))
    )[:MOST_REMEDIES]


def _fastest_pairs(
    loaded: Loaded, singles: Sequence["_Trial"], peak: float, step_time: float, tools: Tools
) -> list["_Trial"]:
    """Return pairs of changes that fit; of those that fit alone, only with a faster second one."""
    useful = [single for single in singles if single.peak < peak or single.step_time <= step_time]
    estimates = {
        _text({**single.change, **other.change}): single.step_time * other.step_time / step_time
        for single, other in combinations(useful, 2)
    }
    pairs = _trials(loaded, _joined(useful, step_time), tools)
    fitting = sorted(
        (pair for pair in pairs if pair.memory.fits),
        key=lambda pair: estimates[_text(pair.change)],
    )
    return fitting[:MOST_PAIRS]


def _joined(useful: Sequence["_Trial"], step_time: float) -> Iterator[Values]:
    """Yield the pairs of changes of different keys."""
    for first, other in combinations(useful, 2):
        slower = (first.memory.fits and other.step_time >= step_time) or (
            other.memory.fits and first.step_time >= step_time
        )
        if not slower and not first.change.keys() & other.change.keys():
            yield {**first.change, **other.change}


def _combined(loaded: Loaded, singles: Sequence["_Trial"], tools: Tools) -> list["_Trial"]:
    """Return the first combination of changes that fits, those that save most first."""
    combination: Values = {}
    for single in sorted(singles, key=lambda single: single.peak):
        if combination.keys() & single.change.keys():
            continue
        for larger in _trials(loaded, [{**combination, **single.change}], tools):
            combination = larger.change
            if larger.memory.fits:
                return [larger]
    return []


METHODS: Final = ("lora", "qlora")
"""Adapters that are tried for a model whose training does not fit, on weights of 16 and 4 bits."""

assumed_rank: Final = 16
"""Rank of the adapters; assumed, as in most published recipes."""


def _adapters(loaded: Loaded, tools: Tools) -> Iterator["_Trial"]:
    """Yield trainings of adapters only that fit: alone, else with a further change."""
    if loaded.scenario.finetune is not None:
        return
    for method in METHODS:
        alone = {"finetune.method": method, "finetune.rank": assumed_rank}
        more = ({**alone, **change} for change in changes(loaded.scenario))
        fitting = [trial for trial in _trials(loaded, [alone, *more], tools) if trial.memory.fits]
        enough = bool(fitting) and fitting[0].change == alone
        yield from fitting[: 1 if enough else MOST_REMEDIES]


# --- changes -------------------------------------------------------------------------


def changes(scenario: Scenario) -> Iterator[Values]:
    """Yield the changes that could help, the cheapest first."""
    plan, batch, offered = scenario.plan, scenario.batch, scenario.framework.zero
    if plan.tensor > 1 and not plan.sequence_parallel:
        yield {"plan.sequence_parallel": True}
    yield from ({"plan.zero": zero} for zero in offered if zero > plan.zero and plan.data > 1)
    mode = scenario.recompute if isinstance(scenario.recompute, str) else scenario.recompute.mode
    more = {"none": ("selective", "full"), "selective": ("full",)}
    yield from ({"recompute": stronger} for stronger in more.get(mode, ()))
    if batch.micro > 1 and batch.micro % 2 == 0:
        yield {"batch.micro": batch.micro // 2}
    if plan.data % 2 == 0:
        half = {"plan.data": plan.data // 2}
        yield {"plan.tensor": 2 * plan.tensor, **half}
        yield {"plan.pipeline": 2 * plan.pipeline, **half}
    yield from _offloads(scenario)


def _offloads(scenario: Scenario) -> Iterator[Values]:
    """Yield what can be held by the host; weights that are not sharded yet, with their sharding."""
    if scenario.cluster.node.host is None:
        return
    plan = scenario.plan
    for offloaded in ("optimiser", "parameters", "activations"):
        if not getattr(scenario.offload, offloaded):
            yield {f"offload.{offloaded}": True}
    if 3 in scenario.framework.zero and plan.zero < 3 and plan.data > 1:
        yield {"plan.zero": 3, "offload.parameters": True}


# --- trials ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Trial:
    """A job with a change, whose layout is valid."""

    change: Values
    memory: Verdict
    loaded: Loaded
    tools: Tools

    @property
    def peak(self) -> float:
        """Peak of the fullest stage [B]."""
        return self.memory.fullest.peak

    @cached_property
    def step_time(self) -> float:
        """Step time of a replay, hypothetical where the job does not fit [s]."""
        return self.tools.step_time(self.loaded)

    def remedy(self, *, replayed: bool) -> Remedy:
        """Return the change with the step time of the job, if it is replayed, and its peak."""
        adapters = any(key.startswith("finetune.") for key in self.change)
        step_time = self.step_time if replayed else None
        return Remedy(_text(self.change), step_time, self.peak, self.memory.tight, adapters)


def _trials(loaded: Loaded, tried: Iterable[Values], tools: Tools) -> list[_Trial]:
    """Return the jobs with changes that are allowed."""
    trials = []
    for change in tried:
        try:
            changed = loaded.changed(change)
            trials.append(_Trial(change, tools.memory(changed), changed, tools))
        except (PlanError, ScenarioError, CatalogError):  # not allowed here: not advised
            continue
    return trials


def _text(change: Values) -> str:
    """Return a change as settings of ``--set``, with spaces between them."""
    return " ".join(setting_text(key, value) for key, value in change.items())
