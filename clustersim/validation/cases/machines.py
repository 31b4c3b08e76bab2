"""Which cluster file and which framework stand for those of a case.

    words of its system          --validation/machines.yaml----> MachineChoice
    its group, else its source   --validation/frameworks.yaml--> FrameworkChoice

No case has a knob of its own: both are found in tables by the words of the case, and each entry of
a table says what it rests on.
"""

import fnmatch
import re
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog import finding
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Strict
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError
from clustersim.validation.cases.cases import Case
from clustersim.validation.cases.nodes import node_shape, with_ports
from clustersim.validation.cases.ports import ports_of
from clustersim.validation.cases.reasons import NOT_STATED, Reason, Ungradable


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
    `ports: stated` takes number and rate of a node's ports from the case's text, if it has any.
    """

    accelerator: str
    system: str | None = None
    gpus_per_node: int | None = None
    interconnect: str | None = None
    clock_ghz: float | None = None
    cluster: str
    take: int | None = None
    ports: Literal["stated"] | None = None
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


class OtherName(Choice):
    """Other words for an accelerator; each is a pattern over what `plain` leaves of a text."""

    words: list[str]
    means: str


class MachineTable(Strict):
    """``validation/machines.yaml``: the first entry that matches; other names are tried last."""

    kind: str
    names: list[OtherName]
    machines: list[MachineChoice]


class FrameworkChoice(Choice):
    """A framework profile for the cases of some groups, and the options that they ran it with.

    `told` says what the words of a case mean for them: patterns over its id and its note.
    `recompute` says what the software runs again by a word for it (*selective*), `usual` what its
    recipes set where a case does not tell, `modes` the options behind a mode of mixed precision,
    `pipelined` those that it has with a pipeline.
    `uneven` is how layers are shared out that the stages divide neither alone nor with both ends.
    `memory` is the stage whose memory they tell: the fullest one, or the first, that of rank 0.
    `titles` are words in the title of a source, for groups that no entry names.
    `zero` are the stages of ZeRO that a default can stand for, `context: false` one that cannot
    stand for ranks which share a sequence.
    """

    groups: list[str] = Field(default_factory=list)
    titles: list[str] = Field(default_factory=list)
    framework: str
    settings: dict[str, Any] = Field(default_factory=dict)
    told: dict[str, dict[str, Any]] = Field(default_factory=dict)
    recompute: dict[str, dict[str, Any]] = Field(default_factory=dict)
    usual: dict[str, Any] = Field(default_factory=dict)
    modes: dict[str, dict[str, Any]] = Field(default_factory=dict)
    pipelined: dict[str, Any] = Field(default_factory=dict)
    uneven: Literal["with-ends", "filled"] = "with-ends"
    memory: Literal["fullest", "first"] = "fullest"
    zero: list[int] | None = None
    context: bool = True

    def stands_for(self, zero: int, context: int) -> bool:
        """Whether software like this can have run a layout."""
        return (self.zero is None or zero in self.zero) and (self.context or context == 1)

    def options(self, case: Case) -> dict[str, Any]:
        """Return the options that the software ran a case with."""
        said = self.settings | self.modes.get(case.parallel.mp_mode or "", {})
        for pattern, settings in self.told.items():
            if alike(pattern, case.id) or (case.note and alike(pattern, case.note)):
                said |= settings
        return said


class FrameworkTable(Strict):
    """``validation/frameworks.yaml``: the first entry that matches, else the first default."""

    kind: str
    frameworks: list[FrameworkChoice]
    defaults: Annotated[list[FrameworkChoice], Field(min_length=1)]


def alike(pattern: str | None, told: str | None) -> bool:
    """Whether a text is of a pattern (``vtrain-*``), large or small letters; all are of None."""
    if pattern is None:
        return True
    return fnmatch.fnmatchcase((told or "").lower(), pattern.lower())


@lru_cache
def machine_table() -> MachineTable:
    """Return the table of machines."""
    tree = Tree.of(finding.find("validation", "machines"))
    return checked(MachineTable, tree, CatalogError)


def machines() -> tuple[MachineChoice, ...]:
    """Return the entries of the table of machines."""
    return tuple(machine_table().machines)


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
    found = _found(case)
    if found is None:
        among = f", {each} a node" if each else ""
        told = f"no machine file for '{accelerator}'{among}"
        raise Ungradable(Reason("no machine file", told))
    if found.cluster not in finding.names("cluster"):
        raise Ungradable(Reason("no machine file", f"no machine file '{found.cluster}'"))
    return _with_stated_ports(found, case)


def _found(case: Case) -> MachineChoice | None:
    """Return the first entry that matches, by the words of the case, else by another name."""
    for choice in machines():
        if choice.matches(case):
            return choice
    other = _other_name(case.system.accelerator or "")
    if other is None:
        return None
    system = case.system.model_copy(update={"accelerator": other.means})
    renamed = case.model_copy(update={"system": system})
    found = next((choice for choice in machines() if choice.matches(renamed)), None)
    if found is None or other.assumed is None:
        return found
    told = "; ".join(filter(None, [other.assumed, found.assumed or found.source]))
    return found.model_copy(update={"source": None, "assumed": told})


def _other_name(accelerator: str) -> OtherName | None:
    text = plain(accelerator)
    for name in machine_table().names:
        if any(alike(pattern, text) for pattern in name.words):
            return name
    return None


_MAKERS: Final = frozenset(
    {"nvidia", "amd", "intel", "google", "fujitsu", "tesla", "geforce", "instinct", "gpu", "gpus"}
)
"""Words of a name that tell no part apart."""


def plain(accelerator: str) -> str:
    """Return the name of an accelerator without its maker, small, its words apart by one space.

    >>> plain("NVIDIA Tesla V100-SXM2-32GB"), plain("NVIDIA H100 80GB HBM3")
    ('v100 sxm2 32gb', 'h100 80gb hbm3')
    """
    words = re.split(r"[\s_,/()-]+", accelerator.lower())
    return " ".join(word for word in words if word and word not in _MAKERS)


def _with_stated_ports(machine: MachineChoice, case: Case) -> MachineChoice:
    """Return a machine with the ports that a case tells of, where its entry leaves them open."""
    ports = ports_of(case.system.interconnect) if machine.ports == "stated" else None
    if ports is None:
        return machine
    shape = node_shape(machine.cluster)
    changes = with_ports(ports, shape, case.system.gpus_per_node or shape.devices)
    if not changes:
        return machine
    told = f"{machine.assumed}; but for the ports of a node, which the case tells"
    return machine.model_copy(update={"settings": machine.settings | changes, "assumed": told})


def framework_of(group: str, title: str | None = None) -> FrameworkChoice | None:
    """Return the framework that stands for that of a group, else of a source with a title."""
    for choice in frameworks().frameworks:
        if any(alike(pattern, group) for pattern in choice.groups):
            return choice
    for choice in frameworks().frameworks:
        if title is not None and any(alike(pattern, title) for pattern in choice.titles):
            return choice
    return None


def default_framework(zero: int, context: int) -> FrameworkChoice:
    """Return the framework for cases of unknown software, by what it must be able to run."""
    choices = frameworks().defaults
    return next((choice for choice in choices if choice.stands_for(zero, context)), choices[0])
