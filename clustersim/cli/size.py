"""`clustersim size`: the model that is worth training on a machine, or the days of a model."""

from typing import Annotated

import typer

import clustersim
from clustersim.cli.options import (
    AsJson,
    Figures,
    Force,
    Out,
    Settings,
    command_line,
    figure_formats,
    output_folder,
    print_json,
    print_rows,
)
from clustersim.units import parse_count


def _count(text: str | float) -> float:
    """Return the count of an option."""
    try:
        return parse_count(text)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None


def size(
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="NAME", help="Cluster file or shipped name.")
    ],
    nodes: Annotated[int | None, typer.Option(metavar="N", help="Nodes of the cluster.")] = None,
    days: Annotated[float | None, typer.Option(metavar="D", help="Duration in days.")] = None,
    law: Annotated[
        str, typer.Option(metavar="NAME", help="Law: chinchilla-3, replication, llama3, ...")
    ] = "chinchilla-3",
    family: Annotated[
        str,
        typer.Option(metavar="NAME", help="Shapes: llama, gpt, or a list of models: NAME,NAME,..."),
    ] = "llama",
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Find days or nodes of this model, with --tokens."),
    ] = None,
    tokens: Annotated[
        float | None,
        typer.Option(metavar="N", parser=_count, help="Tokens of that model: 1.4T or 1.4e12."),
    ] = None,
    goodput: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the time of useful steps [0.9, or predicted: --set"
            " training.failures=rsc-1].",
        ),
    ] = None,
    framework: Annotated[
        str, typer.Option(metavar="NAME", help="Framework file or shipped name.")
    ] = "megatron-core",
    precision: Annotated[
        str, typer.Option(metavar="NAME", help="Number format of products: bf16, fp8, ...")
    ] = "bf16",
    batch_tokens: Annotated[
        float, typer.Option(metavar="N", parser=_count, help="Tokens of a step, about.")
    ] = 4_194_304,
    settings: Settings = None,
    out: Out = None,
    figures: Figures = None,
    json_output: AsJson = False,
    force: Force = False,
) -> None:
    """Find the model that is worth training on a machine, or the days that a model takes."""
    from clustersim.render import tables
    from clustersim.render.study_folder import write_study
    from clustersim.studies.size import text
    from clustersim.studies.size.files import files_of

    formats = figure_formats(figures)
    place = output_folder("size", cluster, out, json_output=json_output, force=force)
    answer = clustersim.size(
        cluster,
        nodes=nodes,
        days=days,
        law=law,
        family=family,
        model=model,
        tokens=tokens,
        goodput=goodput,
        framework=framework,
        precision=precision,
        batch_tokens=batch_tokens,
        settings=settings or (),
    )
    files: list[str] = []
    if place is not None:
        given = {"cluster": cluster, "nodes": nodes, "days": days, "model": model, "tokens": tokens}
        named = {key: None if value is None else f"{value}" for key, value in given.items()}
        command = command_line("size", [], **named, law=law, set=settings)
        contents = files_of(answer, command)
        files = write_study(answer, contents, place, formats=formats, force=force)
    if json_output:
        print_json(answer)
        return
    lines = text.rows(answer)
    if place is not None:
        lines.append(tables.files(place, files))
    print_rows(text.finding(answer), lines)


__all__ = ["size"]
