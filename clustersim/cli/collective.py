"""`clustersim collective`: time of a collective by size, as nccl-tests users know it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import Figures, figure_formats

if TYPE_CHECKING:
    from clustersim.studies.collective.answer import Bench


def collective(
    cluster: Annotated[
        str, typer.Option("--cluster", help="A cluster of the catalogue, or a cluster file.")
    ],
    op: Annotated[str, typer.Option("--op", help="all-reduce, all-gather, all-to-all, ...")],
    devices: Annotated[
        int | None, typer.Option("--devices", min=2, help="The first so many devices.")
    ] = None,
    on: Annotated[
        str | None, typer.Option("--on", help="These devices instead, in rank order: 0-31,64.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option("--split", help="Groups side by side: 'MOD 8' or 'DIV 8', as in nccl-tests."),
    ] = None,
    sizes: Annotated[
        str, typer.Option("--bytes", help="A size, a list, or doublings: 32KiB:16GiB.")
    ] = "32KiB:16GiB",
    algorithm: Annotated[
        str | None, typer.Option("--algorithm", help="Instead of what the library would choose.")
    ] = None,
    background: Annotated[
        list[str] | None,
        typer.Option("--with", help="Traffic beside it: 'all-to-all 64MiB on 0-31'."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a value: cluster.nic.bandwidth=x2. Repeatable."),
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one JSON list instead; write no files.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write, instead of runs/collective-...")
    ] = None,
    figures: Figures = None,
    force: Annotated[bool, typer.Option("--force", help="Write over whatever is there.")] = False,
) -> None:
    """Tell how long a collective takes by size, by which algorithm, and what limits it."""
    from clustersim.studies.collective.arguments import sizes_of

    formats = figure_formats(figures)
    wanted = sizes_of(sizes) if op != "barrier" else [0.0]  # it carries nothing
    bench = _bench(cluster, op, (devices, on, split), algorithm, background or [], settings or [])
    lines = [timing.to_json() for timing in bench.timings(wanted)]
    if json_output:
        print(json.dumps(lines, allow_nan=False))
        return
    from clustersim.studies.collective import text as report

    place = out or Path("runs") / bench.name
    print(report.text(bench.title, lines))
    report.write(bench.title, lines, place, formats=formats, force=force)
    print(f"\n{place}/")


def _bench(
    name: str,
    operation: str,
    group: tuple[int | None, str | None, str | None],
    algorithm: str | None,
    background: list[str],
    settings: list[str],
) -> "Bench":
    """Return what is asked for, checked."""
    from clustersim.catalog.libraries import OPERATIONS
    from clustersim.errors import ScenarioError
    from clustersim.scenario.load import load_cluster
    from clustersim.studies.collective.answer import COPIES, Bench
    from clustersim.studies.collective.arguments import (
        background_of,
        check,
        devices_of,
        nodes_of,
        prescribed,
        split_of,
    )
    from clustersim.topology.cluster import build_cluster

    count, listed, split = group
    if (count is None) == (listed is None):
        raise ScenarioError("--devices, --on: one of the two says which devices")
    members = devices_of(listed, "--on") if listed else tuple(range(count or 0))
    others = tuple(background_of(text) for text in background)
    record = load_cluster(name, None, settings)
    last = max([*members, *(device for other in others for device in other.devices)])
    machine = build_cluster(record, nodes_of(record, last, f"--cluster {name}"))
    check(members, operation, f"--op {operation}")
    for text, other in zip(background, others, strict=True):
        able = (*OPERATIONS, *COPIES)
        check(other.devices, other.operation, f"--with '{text}'", able)
    groups = split_of(members, split)
    return Bench(machine, groups, operation, prescribed(operation, algorithm), others)
