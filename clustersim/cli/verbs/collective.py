"""`clustersim collective`: time of a collective by size, with the columns of nccl-tests."""

from pathlib import Path
from typing import Annotated

import typer

import clustersim
from clustersim.cli import options
from clustersim.cli.options import (
    command_line,
    destination,
    option,
    print_json,
    print_rows,
    print_table,
)
from clustersim.cli.output import echo

Devices = Annotated[int | None, option("N", "Use the first N devices.", "--devices", min=2)]
On = Annotated[
    str | None,
    option("N,N-N,..", "Use these devices, in rank order: 0-31,64.", "--on"),
]
Split = Annotated[
    str | None,
    option("SPLIT", "Run concurrent groups, as nccl-tests: 'MOD 8' or 'DIV 8'.", "--split"),
]
Sizes = Annotated[
    str | None,
    option("SIZES", "Sizes of the buffer: 1MiB,4MiB or 32KiB:16GiB [these].", "--bytes"),
]
Against = Annotated[
    Path | None,
    option("LOG", "Log of nccl-tests, whose times are shown next to the predicted.", "--against"),
]
Algorithm = Annotated[
    str | None,
    option("NAME", "Algorithm, instead of the choice of the library.", "--algorithm"),
]
Background = Annotated[
    list[str] | None,
    option("TRAFFIC", "Concurrent traffic: 'all-to-all 64MiB on 0-31'. Repeatable.", "--with"),
]


def collective(
    cluster: Annotated[
        str,
        option("NAME", "Cluster file or shipped name.", "--cluster"),
    ],
    op: Annotated[str, option("NAME", "Operation: all-reduce, all-to-all, ...", "--op")],
    devices: Devices = None,
    on: On = None,
    split: Split = None,
    sizes: Sizes = None,
    algorithm: Algorithm = None,
    background: Background = None,
    against: Against = None,
    settings: options.Settings = None,
    out: options.Out = None,
    figures: options.Figures = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON list; write files only with --out."),
    ] = False,
    force: options.Force = False,
) -> None:
    """Compute the time of a collective by size, its algorithm, and what limits it."""
    from clustersim.studies.collective.files import WORDS, measured_finding, table

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
        against=against,
    )
    place = destination(f"{answer.name}-collective", out, figures, as_json=as_json, force=force)
    stated = {
        "cluster": cluster, "op": op, "devices": devices, "on": on, "split": split,
        "bytes": sizes, "algorithm": algorithm, "with": background, "against": against,
        "set": settings,
    }  # fmt: skip
    written = place.write(answer, command_line("collective", [], **stated))
    if as_json:
        print_json(answer.timings)
        return
    echo(answer.title, "", sep="\n")
    print_table(table(answer), WORDS)
    if answer.ratios:
        echo("", measured_finding(answer), sep="\n")
    if written:
        echo()
        print_rows(None, written)
