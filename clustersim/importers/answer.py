"""The answer of an import: what ``clustersim import --json`` prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clustersim.importers.machines import Imported
from clustersim.importers.models import ImportedModel


@dataclass(frozen=True)
class ImportAnswer:
    """A catalogue file that was made from a file of another program.

    Attributes
    ----------
    file : file that was written; null without `--out`
    kind : `cluster`, `node` or `model`
    name : name of the entry
    format : format of the imported file
    assumed : values that the imported file does not state, each with its reason
    notes : omissions, repairs and anomalies
    record : the catalogue file as plain values
    """

    file: str | None
    kind: str
    name: str
    format: str
    assumed: tuple[str, ...]
    notes: tuple[str, ...]
    record: Mapping[str, Any]


def import_answer(imported: Imported | ImportedModel, out: Path | None) -> ImportAnswer:
    """Return the answer of an import that was written to `out`, if it was."""
    draft = imported.draft
    return ImportAnswer(
        file=None if out is None else str(out),
        kind=draft.kind,
        name=draft.data["name"],
        format=imported.format,
        assumed=tuple(draft.assumed),
        notes=tuple(draft.notes),
        record=draft.data,
    )
