"""Files in which other programs describe a machine, read into catalogue files of ours.

A reader knows one format and says what a file states, as a `Sketch` of a node or a `Network`
between nodes.  `node_file` and `cluster_file` make our file of it: what is not stated is taken from
the nearest entry of the catalogue and marked as assumed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clustersim.catalog import tree
from clustersim.catalog.writing import to_yaml
from clustersim.errors import ScenarioError
from clustersim.topology.importers import (
    astra_sim,
    ibnetdiscover,
    nccl_xml,
    nvidia_smi,
    rocm_smi,
    slurm,
)
from clustersim.topology.importers.cluster_file import cluster_draft
from clustersim.topology.importers.draft import Choices, Draft, complete
from clustersim.topology.importers.node_file import node_draft
from clustersim.topology.importers.source import Source, read_source

Reader = Callable[[Source, Choices], Draft]


def _nccl(source: Source, choices: Choices) -> Draft:
    return node_draft(nccl_xml.read(source), source.file, choices)


def _nvidia(source: Source, choices: Choices) -> Draft:
    return node_draft(nvidia_smi.read(source), source.file, choices)


def _rocm(source: Source, choices: Choices) -> Draft:
    return node_draft(rocm_smi.read(source), source.file, choices)


def _infiniband(source: Source, choices: Choices) -> Draft:
    return cluster_draft(ibnetdiscover.read(source), source.file, choices)


def _slurm(source: Source, choices: Choices) -> Draft:
    return cluster_draft(slurm.read(source, choices), source.file, choices)


FORMATS: Final[dict[str, tuple[Reader, re.Pattern[str]]]] = {
    "nccl-xml": (_nccl, re.compile(r"\A\s*<")),
    "nvidia-smi": (_nvidia, re.compile(r"^(?:\x1b\[[0-9;]*m)*[ \t]*GPU0[ \t]+X\s", re.MULTILINE)),
    "rocm-smi": (_rocm, re.compile(r"^[= \t]*(?:Weight|Link Type) between two GPUs", re.MULTILINE)),
    "astra-sim": (astra_sim.read, re.compile(r"^npus_count[ \t]*:", re.MULTILINE)),
    "ibnetdiscover": (_infiniband, re.compile(r'^(?:Switch|Ca)\s+[0-9]+\s+"[SH]-', re.MULTILINE)),
    "slurm": (
        _slurm,
        re.compile(r"^[ \t]*(?:SwitchName|BlockName)=", re.MULTILINE | re.IGNORECASE),
    ),
}
"""Each format's reader, and what only a file of this format holds."""

NETWORKS: Final = ("ibnetdiscover", "slurm")
"""The formats that say nothing about the inside of a node."""


@dataclass(frozen=True)
class Imported:
    """A file of ours made from another: its plain values, its text and its format."""

    draft: Draft
    format: str
    text: str


def import_file(path: Path, choices: Choices, format: str | None = None) -> Imported:
    """Return the catalogue file that another program's file makes.

    Parameters
    ----------
    format : one of `FORMATS`, None to tell it by the content

    Raises
    ------
    ScenarioError
        when the format is unknown or the content leaves it open.
    CatalogError
        with file and line, when the file is broken or describes what cannot be.
    """
    return import_source(read_source(path), choices, format)


def import_source(source: Source, choices: Choices, format: str | None = None) -> Imported:
    """Return the catalogue file that the text of a file makes; as `import_file`."""
    name = format or _format_of(source)
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        raise ScenarioError(
            f"--format {name}: no such format{tree.nearest(name, FORMATS)} (known: {known})"
        )
    if choices.node is not None and name not in NETWORKS:
        raise ScenarioError(f"--node: is for {' and '.join(NETWORKS)}; this file has its own node")
    draft = FORMATS[name][0](source, choices)
    complete(draft, source.file, choices.beside)
    remarks = (f"Imported from {Path(source.file).name} ({name}).", *draft.taken, *draft.notes)
    return Imported(draft, name, to_yaml(draft.data, remarks))


def _format_of(source: Source) -> str:
    fitting = [name for name, (_, sign) in FORMATS.items() if sign.search(source.text)]
    if len(fitting) != 1:
        what = f"it may be {' or '.join(fitting)}" if fitting else "it is like none of them"
        raise ScenarioError(
            f"{source.file}: its format is not clear ({what}): give --format,"
            f" one of {', '.join(FORMATS)}"
        )
    return fitting[0]


__all__ = ["FORMATS", "Choices", "Draft", "Imported", "import_file", "import_source"]
