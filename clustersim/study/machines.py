"""Which cluster file and which framework stand for those of a case.

    words of its system --validation/machines.yaml----> MachineChoice
    name of its group   --validation/frameworks.yaml--> FrameworkChoice

No case has a knob of its own: both are found in tables by the words of the case, and each entry of
a table says what it rests on.
"""

import fnmatch
from functools import lru_cache
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog import finding
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Strict
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError
from clustersim.study.cases import Case
from clustersim.study.reasons import NOT_STATED, Reason, Ungradable


class Choice(Strict):
    """An entry of a table, with what it rests on."""

    source: str | None = None
    assumed: str | None = None

    @model_validator(mode="after")
    def _has_proof(self) -> Self:
        if (self.source is None) == (self.assumed is None):
            raise ValueError("needs either 'source' or 'assumed', and not both")
        return self


class MachineChoice(Choice):
    """A cluster file for the cases whose texts match; `settings` are facts of that machine.

    `take` is how many devices of a node of the file a job takes, where a case counts smaller nodes.
    `clock_ghz` is the clock that a case says its devices ran at, where jobs may choose it.
    """

    accelerator: str
    system: str | None = None
    gpus_per_node: int | None = None
    interconnect: str | None = None
    clock_ghz: float | None = None
    cluster: str
    take: int | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    def matches(self, case: Case) -> bool:
        """Whether this is the machine of a case."""
        system = case.system
        return (
            alike(self.accelerator, system.accelerator)
            and alike(self.system, system.name)
            and alike(self.interconnect, system.interconnect)
            and self.gpus_per_node in (None, system.gpus_per_node)
            and self.clock_ghz in (None, system.clock_ghz)
        )


class MachineTable(Strict):
    """``validation/machines.yaml``: the first entry that matches."""

    kind: str
    machines: list[MachineChoice]


class FrameworkChoice(Choice):
    """A framework profile for the cases of some groups, and the options that they ran it with.

    `told` says what the words of a case mean for them: patterns over its id and its note.
    `recompute` says what the software runs again by a word for it (*selective*), `usual` what its
    recipes set where a case does not tell, `modes` the options behind a mode of mixed precision,
    `pipelined` those that it has with a pipeline.
    `uneven` is how layers are shared out that the stages divide neither alone nor with both ends.
    `memory` is the stage whose memory they tell: the fullest one, or the first, that of rank 0.
    """

    groups: list[str] = Field(default_factory=list)
    framework: str
    settings: dict[str, Any] = Field(default_factory=dict)
    told: dict[str, dict[str, Any]] = Field(default_factory=dict)
    recompute: dict[str, dict[str, Any]] = Field(default_factory=dict)
    usual: dict[str, Any] = Field(default_factory=dict)
    modes: dict[str, dict[str, Any]] = Field(default_factory=dict)
    pipelined: dict[str, Any] = Field(default_factory=dict)
    uneven: Literal["with-ends", "filled"] = "with-ends"
    memory: Literal["fullest", "first"] = "fullest"

    def options(self, case: Case) -> dict[str, Any]:
        """Return the options that the software ran a case with."""
        said = self.settings | self.modes.get(case.parallel.mp_mode or "", {})
        for pattern, settings in self.told.items():
            if alike(pattern, case.id) or (case.note and alike(pattern, case.note)):
                said |= settings
        return said


class FrameworkTable(Strict):
    """``validation/frameworks.yaml``: the first entry that matches, else the default."""

    kind: str
    frameworks: list[FrameworkChoice]
    default: FrameworkChoice


def alike(pattern: str | None, told: str | None) -> bool:
    """Whether a text is of a pattern (``vtrain-*``), large or small letters; all are of None."""
    if pattern is None:
        return True
    return fnmatch.fnmatchcase((told or "").lower(), pattern.lower())


@lru_cache
def machines() -> tuple[MachineChoice, ...]:
    """Return the table of machines."""
    tree = Tree.of(finding.find("validation", "machines"))
    return tuple(checked(MachineTable, tree, CatalogError).machines)


@lru_cache
def frameworks() -> FrameworkTable:
    """Return the table of frameworks."""
    tree = Tree.of(finding.find("validation", "frameworks"))
    return checked(FrameworkTable, tree, CatalogError)


def machine_of(case: Case) -> MachineChoice:
    """Return the machine that stands for that of a case.

    Raises
    ------
    Ungradable
        when the case names no accelerator, or no entry or no cluster file is there for it.
    """
    accelerator, each = case.system.accelerator, case.system.gpus_per_node
    if accelerator is None:
        told = f"accelerator{NOT_STATED}"
        raise Ungradable(Reason(told, told))
    found = next((choice for choice in machines() if choice.matches(case)), None)
    if found is None:
        among = f", {each} a node" if each else ""
        told = f"no machine file for '{accelerator}'{among}"
        raise Ungradable(Reason("no machine file", told))
    if found.cluster not in finding.names("cluster"):
        raise Ungradable(Reason("no machine file", f"no machine file '{found.cluster}'"))
    return found


def framework_of(group: str) -> FrameworkChoice:
    """Return the framework that stands for that of a group."""
    for choice in frameworks().frameworks:
        if any(alike(pattern, group) for pattern in choice.groups):
            return choice
    return frameworks().default
