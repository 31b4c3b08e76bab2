"""`clustersim import FILE`: a machine or a model from the output of another program."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.catalog.files import shown
from clustersim.catalog.tree import nearest
from clustersim.cli.options import print_json
from clustersim.cli.output import echo
from clustersim.errors import CatalogError, ScenarioError

if TYPE_CHECKING:
    from clustersim.importers.machines import Imported
    from clustersim.importers.machines.source import Source
    from clustersim.importers.models import ImportedModel

_FORMATS = "nccl-xml, nvidia-smi, rocm-smi, astra-sim, ibnetdiscover, slurm, hugging-face"

_Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help=f"Format: {_FORMATS} [detected].", show_default=False
    ),
]
_Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="PATH", help="Output file [standard output].", show_default=False
    ),
]


def _choice(help: str) -> typer.models.OptionInfo:
    """Return an option that names an entry."""
    option: typer.models.OptionInfo = typer.Option(metavar="NAME", help=help, show_default=False)
    return option


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Output of another program.")],
    format: _Format = None,
    out: _Out = None,
    name: Annotated[str | None, _choice("Name of the machine or model [name of the file].")] = None,
    accelerator: Annotated[str | None, _choice("Accelerator [nearest match].")] = None,
    library: Annotated[str | None, _choice("Collective library [nearest match].")] = None,
    node: Annotated[str | None, _choice("Node of an imported network [nearest match].")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing output file.")
    ] = False,
) -> None:
    """Import a machine or model from nvidia-smi, NCCL, Slurm, Hugging Face and others."""
    from clustersim.catalog.writing import write_new
    from clustersim.importers.answer import import_answer

    if out is not None and out.suffix != ".yaml":
        raise ScenarioError(f"{out}: must end in .yaml (a scenario refers to such files)")
    chosen = {"accelerator": accelerator, "library": library, "node": node}
    if file.is_dir():
        file, name = _inside(file), name or (None if out else _plain(file.resolve().name))
    source = _read(file)
    imported: Imported | ImportedModel
    if _is_model(source, format):
        imported = _model(source, name or (None if out is None else _plain(out.stem)), chosen)
    else:
        imported = _machine(source, name or _plain((out or file).stem), chosen, out, format)
    if out is not None:
        write_new(out, imported.text, force=force)
    if json_output:
        print_json(import_answer(imported, out))
    elif out is None:
        echo(imported.text, end="")
        echo("\n".join(_summary(imported, file)), file=sys.stderr)
    else:
        echo("\n".join([*_summary(imported, file), f"written   {out}"]))


def _inside(folder: Path) -> Path:
    """Return the configuration of a model in a folder, as a model is downloaded.

    Raises
    ------
    CatalogError
        when the folder has none.
    """
    file = folder / "config.json"
    if not file.exists():
        raise CatalogError(
            f"{shown(folder)}: is a folder without a config.json (name the file to import)"
        )
    return file


def _read(file: Path) -> "Source":
    """Return the text of a file; report what one that is too large is."""
    from clustersim.importers.machines.source import MOST_BYTES, read_source
    from clustersim.importers.models.unsupported import SAMPLE, other_text

    try:
        return read_source(file)
    except CatalogError:
        if file.is_file() and file.stat().st_size > MOST_BYTES:
            with file.open("rb") as opened:
                head = opened.read(SAMPLE).decode("utf-8", "replace")
            if head.lstrip().startswith("{") and (problem := other_text(head)):
                raise CatalogError(f"{shown(file)}: {problem}") from None
        raise


def _is_model(source: "Source", format: str | None) -> bool:
    """Whether a file is the configuration of a model, which is a JSON object.

    Raises
    ------
    ScenarioError
        when the format is unknown.
    """
    from clustersim.importers.machines import FORMATS
    from clustersim.importers.models import FORMAT

    if format is None:
        signs = [sign for _, sign in FORMATS.values()]
        return source.text.lstrip().startswith("{") and not any(
            sign.search(source.text) for sign in signs
        )
    known = (*FORMATS, FORMAT)
    if format not in known:
        raise ScenarioError(
            f"--format {format}: unknown format{nearest(format, known)} (known: {', '.join(known)})"
        )
    return format == FORMAT


def _model(source: "Source", name: str | None, chosen: Mapping[str, str | None]) -> "ImportedModel":
    """Return the model of a configuration; options of machines are errors."""
    from clustersim.importers.models import import_config

    for option, value in chosen.items():
        if value is not None:
            raise ScenarioError(f"--{option}: does not apply to a model ({source.file})")
    stem = Path(source.file).stem
    return import_config(
        source.file, source.text, name or ("" if stem == "config" else _plain(stem))
    )


def _machine(
    source: "Source",
    name: str,
    chosen: Mapping[str, str | None],
    out: Path | None,
    format: str | None,
) -> "Imported":
    """Return the machine of a description."""
    from clustersim.importers.machines import Choices, import_source

    folder = Path.cwd() if out is None else out.parent
    return import_source(source, Choices(name, folder=folder, **chosen), format)


def _plain(stem: str) -> str:
    """Return the name of a machine or a model from the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "imported"


def _summary(imported: "Imported | ImportedModel", file: Path) -> list[str]:
    """Return the result in lines, with every value that the file does not state."""
    draft = imported.draft
    assumed = [f"assumed   {line}" for line in draft.assumed]
    made = f"{draft.kind:<9} {draft.data['name']}: {draft.data['title']}"
    notes = [f"note      {line}" for line in draft.notes]
    return [made, f"read      {file.name} as {imported.format}", *notes, *assumed]
