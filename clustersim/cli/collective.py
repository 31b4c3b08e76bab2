"""`clustersim collective`: time of a collective by size, with the columns of nccl-tests."""

from typing import Annotated

import typer

import clustersim
from clustersim.cli.options import (
    Figures,
    Force,
    Out,
    Settings,
    figure_formats,
    output_folder,
    print_json,
    print_rows,
    print_table,
)
from clustersim.cli.output import echo


def collective(
    cluster: Annotated[
        str,
        typer.Option("--cluster", metavar="NAME", help="Cluster file or shipped name."),
    ],
    op: Annotated[
        str, typer.Option("--op", metavar="NAME", help="Operation: all-reduce, all-to-all, ...")
    ],
    devices: Annotated[
        int | None,
        typer.Option("--devices", metavar="N", min=2, help="Use the first N devices."),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="N,N-N,..", help="Use these devices, in rank order: 0-31,64."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            metavar="SPLIT",
            help="Run concurrent groups, as nccl-tests: 'MOD 8' or 'DIV 8'.",
        ),
    ] = None,
    sizes: Annotated[
        str,
        typer.Option(
            "--bytes", metavar="SIZES", help="Sizes of the buffer: 1MiB,4MiB or 32KiB:16GiB."
        ),
    ] = "32KiB:16GiB",
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm", metavar="NAME", help="Algorithm, instead of the choice of the library."
        ),
    ] = None,
    background: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="TRAFFIC",
            help="Concurrent traffic: 'all-to-all 64MiB on 0-31'. Repeatable.",
        ),
    ] = None,
    settings: Settings = None,
    out: Out = None,
    figures: Figures = None,
    json_output: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON list; write files only with --out."),
    ] = False,
    force: Force = False,
) -> None:
    """Compute the time of a collective by size, its algorithm, and what limits it."""
    from clustersim.render import tables
    from clustersim.render.study_folder import write_study
    from clustersim.studies.collective import text
    from clustersim.studies.collective.files import files_of

    formats = figure_formats(figures)
    answer = clustersim.collective(
        cluster,
        op,
        devices=devices,
        on=on,
        split=split,
        bytes=sizes,
        algorithm=algorithm,
        background=background or (),
        settings=settings or (),
    )
    place = output_folder("collective", answer.name, out, json_output=json_output, force=force)
    if json_output:
        print_json(answer.timings)
    else:
        echo(answer.title, "", sep="\n")
        print_table(text.table(answer), text.WORDS)
    if place is not None:
        files = write_study(answer, files_of(answer), place, formats=formats, force=force)
        if not json_output:
            echo()
            print_rows(None, [tables.files(place, files)])


__all__ = ["collective"]
