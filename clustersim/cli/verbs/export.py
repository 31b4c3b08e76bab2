"""`clustersim export SCENARIO --as PROGRAM`: the launch file of a scenario, or its trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import Settings, option, print_json, print_rows
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError

if TYPE_CHECKING:
    from clustersim.exporters import ExportAnswer, MachineExport
    from clustersim.render.tables import Row

Program = Annotated[
    str,
    option(
        "PROGRAM",
        "Program that reads the file: megatron, megatron-bridge, torchtitan, deepspeed,"
        " accelerate, vllm, sglang, trtllm; or chakra: a trace of each rank, infragraph: the"
        " machine, both for ASTRA-sim.",
        "--as",
    ),
]
Out = Annotated[
    Path | None,
    option("PATH", "Output file [standard output], or folder of traces.", "--out", "-o"),
]


def export(
    scenario: Annotated[
        str,
        typer.Argument(
            help="Scenario file, or the name of a shipped one; of infragraph also a cluster."
        ),
    ],
    program: Program,
    out: Out = None,
    settings: Settings = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing output file.")
    ] = False,
) -> None:
    """Write the launch file of a scenario, its step as a trace, or its machine as a graph.

    A launch file is imported again, and its comment lists each value that it does not express, and
    the command that predicts what it launches.
    """
    import clustersim
    from clustersim.catalog.writing import check_new, write_new
    from clustersim.exporters.chakra import CHAKRA
    from clustersim.exporters.infragraph import INFRAGRAPH, MachineExport

    if program == CHAKRA:
        _export_traces(scenario, out, settings or [], json_output=json_output, force=force)
        return
    if out is not None:
        check_new(out, force=force)
    exported: ExportAnswer | MachineExport
    if program == INFRAGRAPH:
        exported = clustersim.export_machine(scenario, settings or (), file=out)
    else:
        exported = clustersim.export(scenario, program, settings or (), file=out)
    if out is not None:
        write_new(out, exported.text, force=force)
    if json_output:
        print_json(exported)
    elif out is None:
        echo(exported.text, end="")
    elif isinstance(exported, MachineExport):
        print_rows(str(out), _machine_rows(exported))
    else:
        print_rows(str(out), _rows(exported))


def _export_traces(
    scenario: str, out: Path | None, settings: list[str], *, json_output: bool, force: bool
) -> None:
    """Write the step of a scenario as traces, and print what was written."""
    from clustersim.catalog.writing import check_folder
    from clustersim.exporters.chakra import export_traces
    from clustersim.render.tables import Row
    from clustersim.units import counted, format_seconds

    if out is None:
        raise ScenarioError("--as chakra: writes a file for each rank (--out FOLDER)")
    check_folder(out, force=force)
    exported = export_traces(scenario, out, settings, force=force)
    if json_output:
        print_json(exported)
        return
    what = f"{counted(exported.operations, 'operation')}, {counted(exported.groups, 'group')}"
    rows = [
        Row("traces", f"{counted(exported.ranks, 'rank')}: {exported.files[0]}, ...; {what}"),
        Row("step", format_seconds(exported.step_time_s)),
        *(Row("note", line) for line in exported.notes),
        Row("replay it", exported.command),
    ]
    print_rows(str(out), rows)


def _machine_rows(exported: "MachineExport") -> "list[Row]":
    """Return the result in lines."""
    from clustersim.render.tables import Row
    from clustersim.units import counted

    parts = ("node", exported.nodes), ("switch", exported.switches), ("cable", exported.cables)
    missing = [f"{key} {value}" for key, value in exported.not_expressed.items()]
    return [
        Row("machine", ", ".join(counted(count, word) for word, count in parts)),
        *(Row("not expressed", line) for line in missing),
        Row("import it", exported.command),
    ]


def _rows(exported: "ExportAnswer") -> "list[Row]":
    """Return the result in lines."""
    from clustersim.render.tables import Row
    from clustersim.units import counted

    missing = [f"{value} ({why})" for value, why in exported.not_expressed.items()]
    elsewhere = [f"{key} ({why})" for key, why in exported.elsewhere.items()]
    return [
        Row("arguments", f"{counted(len(exported.arguments), 'option')} of {exported.as_}"),
        *(Row("elsewhere", line) for line in elsewhere),
        *(Row("not expressed", line) for line in missing),
        Row("predict it", exported.command),
    ]
