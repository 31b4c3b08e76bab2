"""`clustersim import FILE`: a machine, a model or a scenario from a file of another program."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.catalog.files import shown
from clustersim.cli import options
from clustersim.cli.options import option, print_json
from clustersim.cli.output import echo
from clustersim.errors import CatalogError, ScenarioError

if TYPE_CHECKING:
    from clustersim.importers.registry import Imported

_FORMATS = (
    "nccl-xml, lstopo, nvidia-smi, rocm-smi, astra-sim, infragraph, ibnetdiscover, slurm, vllm,"
    " sglang, trtllm, torchtitan, accelerate, llm-foundry, axolotl, torchtune, litgpt, deepspeed,"
    " maxtext, nemo, primus, megatron, hugging-face, chakra, kineto"
)

_Format = Annotated[
    str | None,
    option("NAME", f"Format: {_FORMATS} [detected].", "--format"),
]
_Out = Annotated[
    Path | None,
    option("PATH", "Output file [standard output].", "--out", "-o"),
]


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File of another program, or folder of a trace.")
    ],
    format: _Format = None,
    out: _Out = None,
    name: Annotated[
        str | None, option("NAME", "Name of the machine or model [name of the file].")
    ] = None,
    accelerator: Annotated[str | None, option("NAME", "Accelerator [nearest match].")] = None,
    library: Annotated[str | None, option("NAME", "Collective library [nearest match].")] = None,
    node: Annotated[
        str | None, option("NAME", "Node of an imported network [nearest match].")
    ] = None,
    cluster: options.LaunchCluster = None,
    nodes: options.LaunchNodes = None,
    model: options.LaunchModel = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing output file.")
    ] = False,
) -> None:
    """Import a machine, a model, or the launch file or the trace of a job as a scenario."""
    from clustersim.catalog.writing import write_new
    from clustersim.importers.draft import Choices
    from clustersim.importers.launch.draft import LaunchDraft
    from clustersim.importers.registry import import_answer, import_file, plain_name
    from clustersim.importers.traces.formats import READERS, trace_format
    from clustersim.scenario.load import load_launch

    if out is not None and out.suffix != ".yaml":
        raise ScenarioError(f"{out}: must end in .yaml (a scenario refers to such files)")
    if file.is_dir() and format not in READERS and trace_format(file) is None:
        file, name = _inside(file), name or (None if out else plain_name(file.resolve().name))
    name = name or (None if out is None else plain_name(out.stem))
    folder = Path.cwd() if out is None else out.parent
    choices = Choices(name, accelerator, library, node, folder, cluster, nodes, model)
    imported = import_file(file, choices, format)
    if isinstance(imported.draft, LaunchDraft):
        load_launch(file, imported.draft)
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


def _summary(imported: "Imported", file: Path) -> list[str]:
    """Return the result in lines, with every value that the file does not state."""
    from clustersim.importers.launch.draft import LaunchDraft
    from clustersim.importers.traces.draft import TraceDraft

    draft = imported.draft
    if isinstance(draft, TraceDraft):
        made = f"{draft.kind:<9} {imported.name}: {draft.data['title']} ({imported.format})"
        missing = [f"missing   {line}" for line in draft.missing]
        return [made, *(f"read      {line}" for line in draft.notes), *missing]
    if isinstance(draft, LaunchDraft):
        made = f"{draft.kind:<9} {imported.name}: {draft.data['title']} ({imported.format})"
        ignored = [f"ignored   {line}" for line in draft.ignored_by_reason]
        return [made, *draft.summary, *ignored]
    assumed = [f"assumed   {line}" for line in draft.assumed]
    made = f"{draft.kind:<9} {draft.data['name']}: {draft.data['title']}"
    notes = [f"note      {line}" for line in draft.notes]
    return [made, f"read      {file.name} as {imported.format}", *notes, *assumed]
