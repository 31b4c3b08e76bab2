"""Importers: catalogue files from descriptions of machines by other programs.

A reader parses one format into what the file states: a `Sketch` of a node or a `Network` between
nodes.  `node_file` and `cluster_file` complete it: missing values are taken from the nearest entry
of the catalogue and marked as assumed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clustersim.catalog import tree
from clustersim.catalog.writing import to_yaml
from clustersim.errors import ScenarioError
from clustersim.importers.machines import (
    astra_sim,
    ibnetdiscover,
    nccl_xml,
    nvidia_smi,
    rocm_smi,
    slurm,
)
from clustersim.importers.machines.cluster_file import cluster_draft
from clustersim.importers.machines.draft import Choices, Draft, complete
from clustersim.importers.machines.node_file import node_draft
from clustersim.importers.machines.source import Source, read_source

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
"""The reader of each format, and a pattern that only its files match."""

NETWORKS: Final = ("ibnetdiscover", "slurm")
"""The formats without information on the inside of a node."""


@dataclass(frozen=True)
class Imported:
    """An imported catalogue file: its plain values, its text and the format it was read from."""

    draft: Draft
    format: str
    text: str


def import_file(path: Path, choices: Choices, format: str | None = None) -> Imported:
    """Return the catalogue file for the output of another program.

    Parameters
    ----------
    format : one of `FORMATS`, None to detect it

    Raises
    ------
    ScenarioError
        when the format is unknown or ambiguous.
    CatalogError
        with file and line, when the file is malformed or describes an invalid machine.
    """
    return import_source(read_source(path), choices, format)


def import_source(source: Source, choices: Choices, format: str | None = None) -> Imported:
    """Return the catalogue file for a text that was read; see `import_file`."""
    name = format or _format_of(source)
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        raise ScenarioError(
            f"--format {name}: unknown format{tree.nearest(name, FORMATS)} (known: {known})"
        )
    if choices.node is not None and name not in NETWORKS:
        raise ScenarioError(
            f"--node: applies to {' and '.join(NETWORKS)} only; this file describes its node"
        )
    draft = FORMATS[name][0](source, choices)
    complete(draft, source.file, choices.folder)
    remarks = (f"Imported from {Path(source.file).name} ({name}).", *draft.taken, *draft.notes)
    return Imported(draft, name, to_yaml(draft.data, remarks))


def _format_of(source: Source) -> str:
    fitting = [name for name, (_, sign) in FORMATS.items() if sign.search(source.text)]
    if len(fitting) != 1:
        what = f"it matches {' and '.join(fitting)}" if fitting else "no format matches"
        raise ScenarioError(
            f"{source.file}: format not detected ({what}): set --format to"
            f" one of {', '.join(FORMATS)}"
        )
    return fitting[0]


__all__ = ["FORMATS", "Choices", "Draft", "Imported", "import_file", "import_source"]
