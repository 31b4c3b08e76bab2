"""Files of other programs, each read by the reader of its format, which its content shows.

A new format is a reader and one line of `FORMATS`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from clustersim.answers import answer_from
from clustersim.catalog.files import shown
from clustersim.catalog.writing import to_yaml
from clustersim.errors import CatalogError, ScenarioError
from clustersim.importers.draft import Choices, Draft, check
from clustersim.importers.launch.draft import LaunchDraft, scenario_draft
from clustersim.importers.launch.formats import LAUNCHES
from clustersim.importers.launch.table import Launch
from clustersim.importers.machines import (
    astra_sim,
    ibnetdiscover,
    infragraph,
    lstopo,
    nccl_xml,
    nvidia_smi,
    rocm_smi,
    slurm,
)
from clustersim.importers.machines.cluster_file import Network, cluster_draft
from clustersim.importers.machines.node_file import node_draft
from clustersim.importers.machines.sketch import Sketch
from clustersim.importers.models import import_config
from clustersim.importers.models.config import SAMPLE, other_text
from clustersim.importers.source import MOST_BYTES, Source, read_source
from clustersim.importers.traces.draft import TraceDraft, trace_draft
from clustersim.importers.traces.formats import READERS, trace_format
from clustersim.records import dataclass
from clustersim.suggestions import nearest

MODEL: Final = "hugging-face"
"""The format of models."""

NETWORKS: Final = ("ibnetdiscover", "slurm")
"""The formats without information on the inside of a node."""

OF_MACHINES: Final = ("accelerator", "library", "node")
"""Options that only machines have."""

OF_LAUNCHES: Final = ("cluster", "nodes", "model")
"""Options that only launch files have."""

Reader = Callable[[Source, Choices], Draft]


def _node(read: Callable[[Source], Sketch]) -> Reader:
    return lambda source, choices: node_draft(read(source), source.file, choices)


def _network(read: Callable[[Source, Choices], Network]) -> Reader:
    return lambda source, choices: cluster_draft(read(source, choices), source.file, choices)


def _model(source: Source, choices: Choices) -> Draft:
    return import_config(source.file, source.text, choices.name)


def _launch(launch: Launch) -> Reader:
    return lambda source, choices: scenario_draft(source, launch, choices)


_TOPOLOGY: Final = r"(?:\s*<[?!][^>]*>)*\s*<topology\b"
"""The root of XML of lstopo, below the declarations; other XML is NCCL's."""

FORMATS: Final[Mapping[str, tuple[Reader, re.Pattern[str]]]] = {
    "nccl-xml": (_node(nccl_xml.read), re.compile(rf"\A(?!{_TOPOLOGY})\s*<")),
    "lstopo": (_node(lstopo.read), re.compile(rf"\A{_TOPOLOGY}")),
    "nvidia-smi": (
        _node(nvidia_smi.read),
        re.compile(r"^(?:\x1b\[[0-9;]*m)*[ \t]*GPU0[ \t]+X\s", re.MULTILINE),
    ),
    "rocm-smi": (
        _node(rocm_smi.read),
        re.compile(r"^[= \t]*(?:Weight|Link Type) between two GPUs", re.MULTILINE),
    ),
    "astra-sim": (astra_sim.read, re.compile(r"^npus_count[ \t]*:", re.MULTILINE)),
    "infragraph": (
        infragraph.read,
        re.compile(r"\A(?=.*\bcomponents[\"']?[ \t]*:)(?=.*\bep1[\"']?[ \t]*:)", re.DOTALL),
    ),
    "ibnetdiscover": (
        _network(lambda source, _: ibnetdiscover.read(source)),
        re.compile(r'^(?:Switch|Ca)\s+[0-9]+\s+"[SH]-', re.MULTILINE),
    ),
    "slurm": (
        _network(slurm.read),
        re.compile(r"^[ \t]*(?:SwitchName|BlockName)=", re.MULTILINE | re.IGNORECASE),
    ),
    **{name: (_launch(launch), sign) for name, (launch, sign) in LAUNCHES.items()},
    MODEL: (_model, re.compile(r"\A\s*\{")),
}
"""The reader of each format, and a pattern of its files."""


@dataclass(frozen=True)
class Imported:
    """An imported catalogue file: its plain values, its text, its format and its name."""

    draft: Draft
    format: str
    text: str
    name: str


def import_file(path: Path, choices: Choices, format: str | None = None) -> Imported:
    """Return the catalogue file, or the scenario, for the output of another program.

    Parameters
    ----------
    path : a file; of a trace also the folder of its files
    format : one of `FORMATS` or of the traces' `READERS`, None to detect it

    Raises
    ------
    ScenarioError
        when the format is unknown or ambiguous, or an option does not apply to it.
    CatalogError
        with file and line, when the file is malformed or describes an invalid machine or model.
    """
    traced = format if format in READERS else None if format else trace_format(path)
    if traced is not None:
        return _import_trace(path, traced, choices)
    return import_source(_read(path), choices, format)


def _import_trace(path: Path, format: str, choices: Choices) -> Imported:
    """Return the scenario of a trace."""
    for option in (*OF_MACHINES, "model"):
        if getattr(choices, option) is not None:
            raise ScenarioError(f"--{option}: does not apply to a trace ({shown(path)})")
    draft = trace_draft(path, format, choices)
    name = choices.name or plain_name(path.resolve().name)
    missing = (f"not placed: {line}" for line in draft.missing)
    remarks = (f"Imported from {path.name} ({format}).", *draft.notes, *missing)
    return Imported(draft, format, to_yaml(draft.data, remarks), name)


def import_source(source: Source, choices: Choices, format: str | None = None) -> Imported:
    """Return the catalogue file for a text that was read; see `import_file`."""
    name = format or _format_of(source)
    if name not in FORMATS:
        known = ", ".join((*FORMATS, *READERS))
        raise ScenarioError(
            f"--format {name}: unknown format{nearest(name, FORMATS)} (known: {known})"
        )
    _check_options(name, source, choices)
    if not choices.name:
        stem = Path(source.file).stem
        unnamed = name == MODEL and stem == "config"
        choices = replace(choices, name="" if unnamed else plain_name(stem))
    draft = FORMATS[name][0](source, choices)
    if isinstance(draft, LaunchDraft):
        own = draft.remarks
    else:
        own = (*draft.taken, *draft.notes)
        if name != MODEL:
            check(draft, source.file, choices.folder)
    remarks = (f"Imported from {Path(source.file).name} ({name}).", *own)
    entry = str(draft.data.get("name") or choices.name)
    return Imported(draft, name, to_yaml(draft.data, remarks), entry)


def plain_name(stem: str) -> str:
    """Return the name of a machine or a model from the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "imported"


def _read(path: Path) -> Source:
    """Return the text of a file; report what one that is too large is."""
    try:
        return read_source(path)
    except CatalogError:
        if path.is_file() and path.stat().st_size > MOST_BYTES:
            with path.open("rb") as opened:
                head = opened.read(SAMPLE).decode("utf-8", "replace")
            if head.lstrip().startswith("{") and (problem := other_text(head)):
                raise CatalogError(f"{shown(path)}: {problem}") from None
        raise


def _format_of(source: Source) -> str:
    """Return the format that the content shows; any JSON object may be a model."""
    matches = [name for name, (_, sign) in FORMATS.items() if sign.search(source.text)]
    if len(matches) > 1:
        matches = [name for name in matches if name != MODEL]
    if len(matches) != 1:
        what = f"it matches {' and '.join(matches)}" if matches else "no format matches"
        raise ScenarioError(
            f"{source.file}: format not detected ({what}): set --format to"
            f" one of {', '.join(FORMATS)}"
        )
    return matches[0]


def _check_options(format: str, source: Source, choices: Choices) -> None:
    made = "a scenario" if format in LAUNCHES else "a model" if format == MODEL else "a machine"
    of_machines = OF_MACHINES if made != "a machine" else ()
    of_launches = OF_LAUNCHES if made != "a scenario" else ()
    for option in (*of_machines, *of_launches):
        if getattr(choices, option) is not None:
            raise ScenarioError(f"--{option}: does not apply to {made} ({source.file})")
    if choices.node is not None and format not in NETWORKS:
        raise ScenarioError(
            f"--node: applies to {' and '.join(NETWORKS)} only; this file describes its node"
        )


# --- what clustersim import --json prints ---------------------------------------------------------


@dataclass(frozen=True)
class ImportAnswer:
    """A catalogue file or a scenario that was made from a file of another program.

    Attributes
    ----------
    file : file that was written; null without `--out`
    kind : `cluster`, `node`, `model` or `scenario`
    name : name of the entry
    format : format of the imported file
    assumed : values that the imported file does not state, each with its reason
    notes : omissions, repairs and anomalies
    record : the catalogue file or the scenario as plain values
    read : options of a launch file that were read, as they are written
    ignored : its options without effect on the scenario, each with the reason
    unknown : its options that are not known
    not_placed : operations of a trace that have no time, a line for each type and reason
    """

    file: str | None
    kind: str
    name: str
    format: str
    assumed: tuple[str, ...]
    notes: tuple[str, ...]
    record: Mapping[str, Any]
    read: tuple[str, ...]
    ignored: Mapping[str, str]
    unknown: tuple[str, ...]
    not_placed: tuple[str, ...]


def import_answer(imported: Imported, out: Path | None) -> ImportAnswer:
    """Return the answer of an import that was written to `out`, if it was."""
    draft, file = imported.draft, None if out is None else str(out)
    return answer_from(
        ImportAnswer,
        draft,
        record=draft.data,
        file=file,
        name=imported.name,
        format=imported.format,
        read=draft.read if isinstance(draft, LaunchDraft) else (),
        ignored=dict(draft.ignored) if isinstance(draft, LaunchDraft) else {},
        unknown=draft.unknown if isinstance(draft, LaunchDraft) else (),
        not_placed=draft.missing if isinstance(draft, TraceDraft) else (),
    )
