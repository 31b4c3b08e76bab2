"""`clustersim study [PATH]`: the studies of a run cache, and the runs of one of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import STORE, option, print_json, print_table
from clustersim.cli.output import echo

if TYPE_CHECKING:
    from clustersim.studies.study.answer import StoredRuns, StoredStudies


def study(
    store: Annotated[Path, typer.Argument(metavar="[PATH]", help="Run cache (SQLite).")] = STORE,
    name: Annotated[
        str | None,
        option("NAME", "Print the runs of this study (name or number)."),
    ] = None,
    csv: Annotated[Path | None, option("PATH", "Write the runs as CSV.", "--csv")] = None,
    parquet: Annotated[
        Path | None, option("PATH", "Write the runs as Parquet.", "--parquet")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """List the studies of a run cache; print or export the runs of one study."""
    from clustersim.studies.study.answer import check_file, export, stored_runs, stored_studies

    files = [path for path in (csv, parquet) if path is not None]
    for i, path in enumerate(files):
        check_file(path, other=[store, *files[:i]], force=force)
    if name is None and not files:
        studies = stored_studies(store)
        print_json(studies) if as_json else _print_studies(studies)
        return
    runs = stored_runs(store, name)
    if files:
        from clustersim.runs.table import data_frame

        export(data_frame(runs.points), csv, parquet)
    print_json(runs) if as_json else _print_runs(runs, files)


def _print_studies(found: "StoredStudies") -> None:
    from clustersim.studies.study.answer import studies_table

    if found.studies:
        print_table(studies_table(found.studies))
    else:
        echo(f"{found.store}: no studies")


def _print_runs(runs: "StoredRuns", files: list[Path]) -> None:
    from clustersim.studies.study.answer import SHOWN, runs_table

    echo(runs.study.title)
    print_table(runs_table(runs.points))
    if len(runs.points) > SHOWN:
        echo(f"and {len(runs.points) - SHOWN:,} more (--csv PATH writes all)")
    for path in files:
        echo(f"written       {path}")
