"""The cluster file and the framework profile of a case.

    words of its system          --validation/machines.yaml----> MachineChoice
    its group, else its source   --validation/frameworks.yaml--> FrameworkChoice

No case has a parameter of its own: both are found in tables by the words of the case, and each
entry of a table states its source or its assumption.
"""

import fnmatch
import re
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog import finding
from clustersim.catalog.checking import shipped_record
from clustersim.catalog.facts import Strict
from clustersim.validation.cases.nodes import node_shape, with_ports
from clustersim.validation.cases.reasons import NOT_STATED, Ungradable
from clustersim.validation.cases.rows import Row
from clustersim.validation.cases.texts import ports_of


class Choice(Strict):
    """An entry of a table, with its source or its assumption."""

    source: str | None = None
    assumed: str | None = None

    @model_validator(mode="after")
    def _has_proof(self) -> Self:
        if (self.source is None) == (self.assumed is None):
            raise ValueError("needs either 'source' or 'assumed', and not both")
        return self


class MachineChoice(Choice):
    """A cluster file for the cases with matching texts; `settings` are facts of that machine.

    `take` is the number of devices of a node of the file that a job uses, where a case counts
    smaller nodes.  `clock_ghz` is the clock of the devices in the run, where jobs may choose it.
    `ports: stated` reads number and rate of a node's ports from the text of the case.
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

    def matches(self, row: Row) -> bool:
        """Whether this is the machine of a row."""
        system = row.system
        return (
            matches(self.accelerator, system.accelerator)
            and matches(self.system, system.name)
            and matches(self.interconnect, system.interconnect)
            and self.gpus_per_node in (None, system.gpus_per_node)
            and self.clock_ghz in (None, system.clock_ghz)
        )


class OtherName(Choice):
    """Other names of an accelerator, as patterns over texts that `plain_name` has shortened."""

    words: list[str]
    means: str


class MachineTable(Strict):
    """``validation/machines.yaml``: the first entry that matches; other names are tried last."""

    kind: str
    names: list[OtherName]
    machines: list[MachineChoice]


class FrameworkChoice(Choice):
    """A framework profile for the cases of some groups, and the options that they ran it with.

    `runs` are patterns over the id of a case and the note of its source, which names the release
    of the software that ran: of a group with several releases, each has an entry.  `notes` are
    patterns over the note of a case, which names options of the software.
    `stated` has options by patterns over the id and the note of a case.
    `recompute` has the operations that the software recomputes by its word for them (*selective*),
    `usual` the values of its recipes for settings that a case does not state, `modes` the options
    of a mode of mixed precision, `pipelined` those with a pipeline.
    `uneven` is the division of layers that the stages divide neither alone nor with both ends.
    `memory` is the stage of the measured memory: the fullest one, the first, that of rank 0, or
    what the allocator of the fullest reserves, without what is held before the first tensor.
    `titles` are words in the title of a source, for groups without an entry.
    `zero` are the ZeRO stages of a default entry; one with `context: false` has no context
    parallelism.
    """

    groups: list[str] = Field(default_factory=list)
    titles: list[str] = Field(default_factory=list)
    runs: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    framework: str
    settings: dict[str, Any] = Field(default_factory=dict)
    stated: dict[str, dict[str, Any]] = Field(default_factory=dict)
    recompute: dict[str, dict[str, Any]] = Field(default_factory=dict)
    usual: dict[str, Any] = Field(default_factory=dict)
    modes: dict[str, dict[str, Any]] = Field(default_factory=dict)
    pipelined: dict[str, Any] = Field(default_factory=dict)
    uneven: Literal["with-ends", "filled"] = "with-ends"
    memory: Literal["fullest", "first", "reserved"] = "fullest"
    zero: list[int] | None = None
    context: bool = True

    def is_release_of(self, row: Row) -> bool:
        """Whether a row ran this release of its software."""
        texts = [row.id, row.source.note or ""]
        released = any(matches(run, text) for run in self.runs for text in texts)
        noted = any(matches(note, row.note) for note in self.notes)
        return (released or not self.runs) and (noted or not self.notes)

    def can_run(self, zero: int, context: int) -> bool:
        """Whether the software supports a layout."""
        return (self.zero is None or zero in self.zero) and (self.context or context == 1)

    def options(self, row: Row) -> dict[str, Any]:
        """Return the options of the software in the run of a row."""
        options = self.settings | self.modes.get(row.parallel.mp_mode or "", {})
        for pattern, settings in self.stated.items():
            if matches(pattern, row.id) or (row.note and matches(pattern, row.note)):
                options |= settings
        return options


class FrameworkTable(Strict):
    """``validation/frameworks.yaml``: the first entry that matches, else the first default."""

    kind: str
    frameworks: list[FrameworkChoice]
    defaults: Annotated[list[FrameworkChoice], Field(min_length=1)]


def matches(pattern: str | None, text: str | None) -> bool:
    """Whether a text matches a pattern (``vtrain-*``) in any case; every text matches None."""
    if pattern is None:
        return True
    return fnmatch.fnmatchcase((text or "").lower(), pattern.lower())


@lru_cache
def machine_table() -> MachineTable:
    """Return the table of machines."""
    return shipped_record(MachineTable, "validation", "machines")


@lru_cache
def frameworks() -> FrameworkTable:
    """Return the table of frameworks."""
    return shipped_record(FrameworkTable, "validation", "frameworks")


def machine_of(row: Row) -> MachineChoice:
    """Return the machine of a row.

    Raises
    ------
    Ungradable
        when the row names no accelerator, or there is no entry or no cluster file for it.
    """
    accelerator, per_node = row.system.accelerator, row.system.gpus_per_node
    if accelerator is None:
        text = f"accelerator{NOT_STATED}"
        raise Ungradable.because(text)
    choice = _entry_of(row)
    if choice is None:
        of_node = f", {per_node} a node" if per_node else ""
        raise Ungradable.because("no machine file", f"no machine file for '{accelerator}'{of_node}")
    if choice.cluster not in finding.entry_names("cluster"):
        raise Ungradable.because("no machine file", f"no machine file '{choice.cluster}'")
    return _with_stated_ports(choice, row)


def _entry_of(row: Row) -> MachineChoice | None:
    """Return the first entry that matches, by the words of the row, else by another name."""
    for choice in machine_table().machines:
        if choice.matches(row):
            return choice
    other = _other_name(row.system.accelerator or "")
    if other is None:
        return None
    system = row.system.model_copy(update={"accelerator": other.means})
    renamed = row.model_copy(update={"system": system})
    same = next((choice for choice in machine_table().machines if choice.matches(renamed)), None)
    if same is None or other.assumed is None:
        return same
    assumed = "; ".join(filter(None, [other.assumed, same.assumed or same.source]))
    return same.model_copy(update={"source": None, "assumed": assumed})


def _other_name(accelerator: str) -> OtherName | None:
    text = plain_name(accelerator)
    for name in machine_table().names:
        if any(matches(pattern, text) for pattern in name.words):
            return name
    return None


_MAKERS: Final = frozenset(
    {"nvidia", "amd", "intel", "google", "fujitsu", "tesla", "geforce", "instinct", "gpu", "gpus"}
)
"""Words of a name that do not distinguish parts."""


def plain_name(accelerator: str) -> str:
    """Return the name of an accelerator without its maker, in lower case, separated by spaces.

    >>> plain_name("NVIDIA Tesla V100-SXM2-32GB"), plain_name("NVIDIA H100 80GB HBM3")
    ('v100 sxm2 32gb', 'h100 80gb hbm3')
    """
    words = re.split(r"[\s_,/()-]+", accelerator.lower())
    return " ".join(word for word in words if word and word not in _MAKERS)


def _with_stated_ports(machine: MachineChoice, row: Row) -> MachineChoice:
    """Return a machine with the ports that a row states, where its entry allows it."""
    ports = ports_of(row.system.interconnect) if machine.ports == "stated" else None
    if ports is None:
        return machine
    shape = node_shape(machine.cluster)
    changes = with_ports(ports, shape, row.system.gpus_per_node or shape.devices)
    if not changes:
        return machine
    assumed = f"{machine.assumed}; the ports of a node are stated by the case"
    return machine.model_copy(update={"settings": machine.settings | changes, "assumed": assumed})


def framework_of(row: Row) -> FrameworkChoice | None:
    """Return the entry of the group of a row, else that of its title; None without one."""
    choices = [choice for choice in frameworks().frameworks if choice.is_release_of(row)]
    by_group = (c for c in choices if any(matches(name, row.group) for name in c.groups))
    title = row.source.title
    by_title = (c for c in choices if title and any(matches(name, title) for name in c.titles))
    return next(by_group, None) or next(by_title, None)


def default_framework(zero: int, context: int) -> FrameworkChoice:
    """Return the framework for cases of unknown software: the first that supports the layout."""
    choices = frameworks().defaults
    return next((choice for choice in choices if choice.can_run(zero, context)), choices[0])
