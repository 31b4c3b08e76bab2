"""`clustersim study [FILE]`: the studies that a store keeps, and the runs of one of them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustersim.cli.options import STORE, print_table

if TYPE_CHECKING:
    from clustersim.runs.store import Progress
    from clustersim.runs.variants import Run, Variant


def study(
    store: Annotated[Path, typer.Argument(metavar="[FILE]", help="A study store.")] = STORE,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show the runs of this study: its name or number."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the runs as CSV.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Write them as Parquet.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files in the way.")] = False,
) -> None:
    """List the studies of a store; show the runs of one, or write them to a file."""
    from clustersim.runs.store import Store, check_store
    from clustersim.studies.stored.text import check_file

    check_store(store, there=True)
    files = [path for path in (csv, parquet) if path is not None]
    for place, path in enumerate(files):
        check_file(path, apart=[store, *files[:place]], force=force)
    with Store(store) as kept:
        found = kept.studies()
        if name is None and not files:
            _show_studies(store, found, as_json=as_json)
            return
        position = _position(store, found, name)
        one = found[position - 1]
        points = kept.points(one.study.name)
    _show_runs(points, one.to_json(position), (csv, parquet), as_json=as_json)


def _position(store: Path, found: "list[Progress]", name: str | None) -> int:
    """Return which study is meant, counted from 1; the only one where none is named."""
    from clustersim.catalog.tree import nearest
    from clustersim.errors import ScenarioError

    names = [each.study.name for each in found]
    if name is None:
        if len(names) == 1:
            return 1
        raise ScenarioError(f"--name: which of the {len(names)} studies in {store} is meant")
    if name in names:
        return names.index(name) + 1
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return int(name)
    raise ScenarioError(
        f"--name {name}: no such study in {store}{nearest(name, names)}"
        f" (clustersim study {store} lists them)"
    )


def _show_studies(store: Path, found: "list[Progress]", *, as_json: bool) -> None:
    from clustersim.studies.stored.text import studies_table

    told = [each.to_json(position) for position, each in enumerate(found, 1)]
    if as_json:
        print(json.dumps({"store": str(store), "studies": told}))
    elif found:
        print_table(studies_table(told))
    else:
        print(f"{store}: no studies")


def _show_runs(
    points: "list[tuple[Variant, Run | None]]",
    told: dict[str, Any],
    files: tuple[Path | None, Path | None],
    *,
    as_json: bool,
) -> None:
    from clustersim.runs.table import frame, row
    from clustersim.studies.stored.text import SHOWN, export, runs_table
    from clustersim.studies.sweep.grid import points_of

    if any(files):
        export(frame(points), *files)
    rows = [row(*each) for each in points]
    if as_json:
        print(json.dumps({"study": told, "points": rows}))
        return
    print(told["title"])
    print_table(runs_table([*points_of([variant for variant, _ in points])], rows))
    if len(rows) > SHOWN:
        print(f"and {len(rows) - SHOWN:,} more (--csv FILE has all)")
    for path in filter(None, files):
        print(path)
