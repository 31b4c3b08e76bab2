"""The answer of a search: what ``clustersim search --json`` prints."""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Final

from pydantic import Field

from clustersim.answers import Presentable, record
from clustersim.simulation.measures import Kind, Measure, ParetoFront, measures_of
from clustersim.simulation.service.answer import Goodput, ServeAnswer
from clustersim.simulation.sharing.answer import ShareAnswer
from clustersim.simulation.step.answer import RunAnswer

HELD: Final[Mapping[str, str]] = {
    "optimiser": "optimiser states",
    "parameters": "weights, gradients and optimiser states",
    "activations": "activations",
}
"""What hosts hold, in words."""


@record
class BestRun(RunAnswer):
    """The best layout of training, with all keys of its run.

    Attributes
    ----------
    set_ : values of the layout by dotted key, as ``--set`` takes them
    """

    set_: Annotated[Mapping[str, Any], Field(alias="set")] = field(default_factory=dict)


@record
class BestService(ServeAnswer):
    """The best layout of a service, with all keys of its answer.

    Attributes
    ----------
    set_ : values of the layout by dotted key, as ``--set`` takes them
    """

    set_: Annotated[Mapping[str, Any], Field(alias="set")] = field(default_factory=dict)


@record
class BestSharing(ShareAnswer):
    """The best nodes of the jobs of a shared machine, with all keys of its answer.

    Attributes
    ----------
    set_ : rules for the nodes by dotted key, as ``--set`` takes them
    """

    set_: Annotated[Mapping[str, Any], Field(alias="set")] = field(default_factory=dict)


@record
class RankedLayout:
    """A layout that was replayed and fits.

    Attributes
    ----------
    set_ : values of the layout by dotted key, as ``--set`` takes them
    value : of the objective
    bound : no replay of this layout has a better objective; null where there is no bound
    measures : by name, in SI units
    tie : whether its step time is within the prediction interval of the best layout
    missed : the limit that it misses, and by how much; null where it meets all
    tight : whether it fits in memory with less room than the errors of predictions
    """

    set_: Annotated[Mapping[str, Any], Field(alias="set")]
    value: float
    bound: float | None
    measures: Mapping[str, float]
    tie: bool = False
    missed: str | None = None
    tight: bool = False


@record
class LayoutCounts:
    """What became of the layouts; the other counts add up to `possible`.

    Attributes
    ----------
    possible : layouts that divisibility generates
    excluded : layouts that a rule excludes
    bounded : layouts that cannot be better, by the bound of their objective
    memory : layouts that need more memory than a device has, by a bound or by an estimate
    replayed : layouts that were replayed
    open : layouts that could be better and were not examined, as the time was over
    limited : layouts that cannot be within a limit, by a bound
    unbounded : of `open`, layouts whose bound was not known before half of the time was over
    """

    possible: int
    excluded: int
    bounded: int
    memory: int
    replayed: int
    open: int
    limited: int
    unbounded: int = 0


@record
class RuleCount:
    """A rule that excludes layouts.

    Attributes
    ----------
    why : the rule, with the numbers of the first layout
    count : layouts that it excludes
    """

    why: str
    count: int


@record
class LayoutDifference:
    """The best layout compared with another one.

    Attributes
    ----------
    against : ``second``, the best of the layouts that are worse, or ``scenario``, that of the
        scenario
    set_ : values of the other layout that differ from those of the best
    value : objective of the other layout; null where there is no comparison
    gain : how many times better the best is
    account : account that explains the objective, as in `compare --json`
    label : what it is the sum of
    before : the sum of the other layout [s; d of a run]
    parts : change of each part from the other layout to the best [s; d of a run]
    finding : the result in a sentence
    why : why there is no comparison; null where there is one
    """

    against: str
    set_: Annotated[Mapping[str, Any], Field(alias="set")]
    value: float | None = None
    gain: float | None = None
    account: str | None = None
    label: str = ""
    before: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    finding: str = ""
    why: str | None = None


@record
class SearchAnswer(Presentable):
    """The best layout of a scenario, with proof.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : model and machine that were searched
    kinds : kinds of its measures
    by : objective
    limits : worst values of measures that are allowed
    devices : numbers of devices of the scenarios that were searched; of a service the most, of a
        shared machine those of its nodes
    best : the best layout with the keys of its answer; null where none fits
    ranked : layouts that were replayed, fit and meet the limits, the best first; the first `proven`
        are the best of all
    missed : layouts that were replayed and miss a limit, the nearest first; without those that
        have no objective, such as the latency where a queue grows
    proven : how many of `ranked` no other layout can precede
    layouts : what became of the layouts
    rules : rules that exclude layouts, those with the highest count first
    gap : by how much another layout can be better at most, share of the best step time or energy,
        or of the time of a token; null where none fits or there is no bound
    tightness : median of the bound over what it bounds, of replayed layouts; null where none fits
    differences : the best layout compared with the second and with that of the scenario
    pareto : fronts of the objective with other measures
    nearest : why the layout that comes nearest misses a limit; null where one meets them
    scenario : the best layout as a scenario file; null where none fits
    offload : what the hosts hold, as no layout fits without: `optimiser`, `parameters`,
        `activations`; none where one fits, or the scenario states it
    roomy : where the best is tight, the best layout that has room for the errors of predicted
        memory; null where none with room was replayed
    roomy_proven : whether no other layout with room is better than that; true where the best is
        not tight
    rate : price of a device of the best with its quotes, where the objective depends on it
    fresh : number of runs that were not in the run cache; 0 for a search that is repeated
    wall_s : time that the search took [s]
    """

    name: str
    title: str
    kinds: tuple[Kind, ...]
    by: str
    limits: Mapping[str, float]
    devices: tuple[int, ...]
    best: BestRun | BestService | BestSharing | None
    ranked: tuple[RankedLayout, ...]
    missed: tuple[RankedLayout, ...]
    proven: int
    layouts: LayoutCounts
    rules: tuple[RuleCount, ...]
    gap: float | None
    tightness: float | None
    differences: tuple[LayoutDifference, ...]
    pareto: tuple[ParetoFront, ...]
    nearest: str | None
    scenario: Mapping[str, Any] | None
    fresh: int
    wall_s: float
    roomy: RankedLayout | None = None
    roomy_proven: bool = True
    rate: str | None = None
    offload: tuple[str, ...] = ()

    @property
    def measure(self) -> Measure:
        """The objective."""
        return measures_of(self.kinds)[self.by]

    @property
    def goodput(self) -> Goodput | None:
        """That of the best service, by the limits of its scenario."""
        return self.best.goodput if isinstance(self.best, BestService) else None

    @property
    def offload_text(self) -> str:
        """What the hosts hold, and why."""
        held = " and ".join(HELD[part] for part in self.offload)
        options = " ".join(f"--set offload.{part}=true" for part in self.offload)
        return f"no layout fits in device memory alone: the hosts hold {held} ({options})"
