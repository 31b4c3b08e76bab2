"""The answer of a search: what ``clustersim search --json`` prints."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from clustersim.simulation.step.answer import RunAnswer


@dataclass(frozen=True)
class BestRun(RunAnswer):
    """The best layout, with all keys of its run.

    Attributes
    ----------
    set_ : values of the layout by dotted key, as ``--set`` takes them
    """

    set_: Annotated[Mapping[str, Any], Field(alias="set")] = field(default_factory=dict)


@dataclass(frozen=True)
class RankedLayout:
    """A layout that was replayed and fits.

    Attributes
    ----------
    set_ : values of the layout by dotted key, as ``--set`` takes them
    value : of the objective
    step_time_s : time of one training step [s]
    energy_per_step_j : its energy; null where the catalogue states no power [J]
    bound_s : lower bound of this time [s]
    tokens_per_s : tokens of the whole job in a second
    tokens_per_s_per_device : the same over the number of devices
    mfu : model FLOPs over peak
    memory_peak_bytes : the most that a device of the fullest stage holds [B]
    devices : of the job
    usd_per_hour : price of its devices, rented on demand; null where no price is known [USD/h]
    tie : whether its step time is within the prediction interval of the best layout
    """

    set_: Annotated[Mapping[str, Any], Field(alias="set")]
    value: float
    step_time_s: float
    energy_per_step_j: float | None
    bound_s: float
    tokens_per_s: float
    tokens_per_s_per_device: float
    mfu: float
    memory_peak_bytes: float
    devices: int
    usd_per_hour: float | None
    tie: bool


@dataclass(frozen=True)
class LayoutCounts:
    """What became of the layouts; the other counts add up to `possible`.

    Attributes
    ----------
    possible : layouts that divisibility generates
    excluded : layouts that a rule excludes
    bounded : layouts that cannot be better, by the bound of their step time or energy
    memory : layouts that need more memory than a device has, by a bound or by an estimate
    replayed : layouts that were replayed
    open : layouts that could be better and were not examined, as the time was over
    limited : layouts that cannot be within a limit of an objective, by a bound
    """

    possible: int
    excluded: int
    bounded: int
    memory: int
    replayed: int
    open: int
    limited: int = 0


@dataclass(frozen=True)
class RuleCount:
    """A rule that excludes layouts.

    Attributes
    ----------
    why : the rule, with the numbers of the first layout
    count : layouts that it excludes
    """

    why: str
    count: int


@dataclass(frozen=True)
class LayoutDifference:
    """The best layout compared with another one.

    Attributes
    ----------
    against : ``second``, the best of the layouts that are slower, or ``scenario``, that of the
        scenario
    set_ : values of the other layout that differ from those of the best
    step_time_s : of the other layout [s]
    saved_s : by how much the best is shorter [s]
    parts : time of each component in the best less that in the other; they add up to -`saved_s` [s]
    finding : the result in a sentence
    why : why there is no comparison; null where there is one
    """

    against: str
    set_: Annotated[Mapping[str, Any], Field(alias="set")]
    step_time_s: float | None
    saved_s: float | None
    parts: Mapping[str, float]
    finding: str
    why: str | None = None


@dataclass(frozen=True)
class FrontOfLayouts:
    """Layouts that no other replayed layout beats in both the objective and the cost.

    Attributes
    ----------
    against : cost that the objective is compared with: `memory`, `devices` or `price`
    positions : positions of these layouts in `ranked`, the cheapest first
    """

    against: str
    positions: tuple[int, ...]


@dataclass(frozen=True)
class SearchAnswer:
    """The best layout of a scenario, with proof.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : model and machine that were searched
    by : objective
    devices : numbers of devices of the scenarios that were searched
    best : the best layout with the keys of its run; null where none fits
    ranked : layouts that were replayed and fit, the best first; the first `proven` are the best of
        all
    proven : how many of `ranked` no other layout can precede
    layouts : what became of the layouts
    rules : rules that exclude layouts, those with the highest count first
    gap : by how much another layout can be better at most, share of the best step time or energy;
        null where none fits
    tightness : median of the bound over the step time, or energy, of replayed layouts; null where
        none fits
    differences : the best layout compared with the second and with that of the scenario
    pareto : fronts of the objective with memory, with devices where their number varies, and with
        the price where accelerators differ
    scenario : the best layout as a scenario file; null where none fits
    fresh : number of runs that were not in the run cache; 0 for a search that is repeated
    wall_s : time that the search took [s]
    """

    name: str
    title: str
    by: str
    devices: tuple[int, ...]
    best: BestRun | None
    ranked: tuple[RankedLayout, ...]
    proven: int
    layouts: LayoutCounts
    rules: tuple[RuleCount, ...]
    gap: float | None
    tightness: float | None
    differences: tuple[LayoutDifference, ...]
    pareto: tuple[FrontOfLayouts, ...]
    scenario: Mapping[str, Any] | None
    fresh: int
    wall_s: float

    @property
    def more_is_better(self) -> bool:
        """Whether the best layout has the largest value of the objective."""
        return self.by != "step_time_s"
