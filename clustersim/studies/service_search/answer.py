"""The answer of a search of a service: its best layouts, and what became of all others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clustersim.runs.variants import Value


@dataclass(frozen=True)
class FoundService:
    """A layout that was simulated.

    Attributes
    ----------
    plan : the key `plan` of its scenario
    set : values of further keys that were free
    measures : by name: times are means [s], rates in a second
    bound : of the objective: no replay of this layout is better; null where so few requests are
        measured that there is none
    missed : the limit that it misses, and by how much; null where it meets all
    """

    plan: Mapping[str, Any]
    set: Mapping[str, Value]
    measures: Mapping[str, float]
    bound: float | None
    missed: str | None


@dataclass(frozen=True)
class ServiceLayouts:
    """What became of the layouts.

    Attributes
    ----------
    possible : layouts of at most the given devices
    invalid : layouts that the model, machine or engine does not allow
    memory : layouts in which the longest request does not fit
    limits : layouts whose shortest possible times miss a limit
    bounded : layouts that cannot be better than the best
    replayed : layouts that were simulated
    """

    possible: int
    invalid: int
    memory: int
    limits: int
    bounded: int
    replayed: int


@dataclass(frozen=True)
class ServiceSearch:
    """The best layout of a service, with proof.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : title of the scenario
    objective : measure that is best
    limits : limits of mean times by name [s]
    devices : most devices of a layout
    best : the best layout; null where none meets the limits
    ranked : the best layouts, the best first
    simulated : all layouts that were simulated, the best first, then those that miss a limit
    own : measures of the layout of the scenario; empty where it does not run
    layouts : what became of all layouts
    excluded : reasons of invalid layouts, with their number
    nearest : why the layout that comes nearest misses a limit; null where one meets them
    gap : by how much another layout can be better, share of the best; null without a best, and
        where it has no bound
    tightness : measure over its bound, median of the replays; times the other way round
    scenario : the scenario of the best layout, as in a file
    wall_s : time that the search took [s]
    """

    name: str
    title: str
    objective: str
    limits: Mapping[str, float]
    devices: int
    best: FoundService | None
    ranked: tuple[FoundService, ...]
    simulated: tuple[FoundService, ...]
    own: Mapping[str, float]
    layouts: ServiceLayouts
    excluded: Mapping[str, int]
    nearest: str | None
    gap: float | None
    tightness: float | None
    scenario: Mapping[str, Any] | None
    wall_s: float
