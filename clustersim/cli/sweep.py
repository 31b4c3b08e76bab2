"""`clustersim sweep SCENARIO --over KEY=VALUES`: which layout is best, and why others cannot be."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from clustersim.cli.options import (
    STORE,
    AsJson,
    Figures,
    Force,
    Jobs,
    Out,
    Settings,
    StoreFile,
    command_line,
    figure_formats,
    place_of,
    print_table,
    run_variants,
    show,
)

if TYPE_CHECKING:
    from clustersim.runs.variants import Variant
    from clustersim.scenario.load import Loaded
    from clustersim.studies.sweep.answer import Sweep
    from clustersim.studies.sweep.axes import Axis
    from clustersim.studies.sweep.told import Told


USUAL: Final = "tokens_per_s"
"""What makes a layout the best, unless another measure is named."""


def sweep(
    scenario: Annotated[str, typer.Argument(help="Scenario file, or the name of a shipped one.")],
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="KEY=VALUES",
            help="An axis: plan.tensor=1,2,4,8, batch.micro=1:8 (doublings), plan.pipeline=4:16:4"
            " (steps), plan.data=fill (the devices that are left). Repeatable.",
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option("--list", metavar="FILE", help="CSV of combinations, a column for each key."),
    ] = None,
    by: Annotated[
        str, typer.Option(metavar="MEASURE", help="What makes a layout the best.")
    ] = USUAL,
    pareto: Annotated[
        str | None,
        typer.Option(metavar="COST", help="Front against memory or devices [what differs]."),
    ] = None,
    settings: Settings = None,
    store: StoreFile = STORE,
    jobs: Jobs = None,
    out: Out = None,
    figures: Figures = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Run all combinations of some values: which is the best that fits, and why others cannot."""
    from clustersim.studies.sweep.told import Told

    asked = _asked(scenario, settings or [], over or [], table, by, pareto)
    formats = figure_formats(figures)
    place = place_of("sweep", asked.base.name, out, json_output=as_json, force=force)
    found = asked.swept(store, jobs)
    told, names = Told(found.to_json()), list[str]()
    if place is not None:
        measure = None if by == USUAL else by
        command = command_line(
            "sweep", [scenario], set=settings, list=table, over=over, by=measure, pareto=pareto
        )
        names = _write(found, told, place, command, formats, force=force)
    if as_json:
        print(json.dumps(told.answer, allow_nan=False))
    else:
        _show(told, place, names)


@dataclass(frozen=True)
class _Asked:
    """What a person asks for, checked."""

    base: "Loaded"
    variants: "list[Variant]"
    filled: tuple[str, ...]
    by: str
    pareto: str | None

    def swept(self, store: Path, jobs: int | None) -> "Sweep":
        """Return the sweep when all of it has been run."""
        from clustersim.runs.arguments import study_of
        from clustersim.studies.sweep.answer import Sweep, against_of

        base = self.base
        study = study_of("sweep", base.name, base.scenario.title, self.variants)
        runs = run_variants(study, self.variants, store, jobs)
        against = against_of(runs, self.pareto)
        return Sweep(self.base, self.variants, runs, self.filled, self.by, against)


def _asked(
    scenario: str,
    settings: list[str],
    over: list[str],
    table: Path | None,
    by: str,
    pareto: str | None,
) -> _Asked:
    """Return what is asked for.

    Raises
    ------
    ScenarioError, CatalogError
        before anything has been run, in one line.
    """
    from clustersim.scenario.load import load
    from clustersim.studies.sweep.answer import BY, COST
    from clustersim.studies.sweep.axes import axis_of, table_of
    from clustersim.studies.sweep.grid import filled, grid

    _check_word("--by", by, [*BY])
    if pareto is not None:
        _check_word("--pareto", pareto, [*COST])
    axes: list[Axis] = [*([table_of(table)] if table else []), *map(axis_of, over)]
    variants = grid(scenario, settings, axes)
    return _Asked(load(scenario, settings), variants, filled(axes), by, pareto)


def _check_word(option: str, word: str, known: list[str]) -> None:
    from clustersim.catalog.tree import nearest
    from clustersim.errors import ScenarioError

    if word not in known:
        hint = nearest(word, known)
        raise ScenarioError(f"{option} {word}: is not known{hint} (known: {', '.join(known)})")


def _write(
    found: "Sweep",
    told: "Told",
    place: Path,
    command: str,
    formats: tuple[str, ...],
    *,
    force: bool,
) -> list[str]:
    """Write the files and return their names."""
    from clustersim.runs.table import frame
    from clustersim.studies.sweep.files import write

    rows = frame([{k: v for k, v in one.items() if k != "position"} for one in found.rows])
    return write(told, rows, place, command=command, formats=formats, force=force)


def _show(found: "Told", place: Path | None, names: list[str]) -> None:
    """Print the answer: what came out in lines, then the best and the front as tables."""
    from clustersim.render.tables import files
    from clustersim.studies.sweep import text as report

    said = report.rows(found)
    if place is not None:
        said.append(files(place, names))
    show(found.title, said)
    for heading, table in report.tables(found):
        print(f"\n{heading}:")
        print_table(table)
