"""`clustersim size`: the model that is worth training on a machine, or the days of a model."""

from typing import TYPE_CHECKING, Annotated

import typer

import clustersim
from clustersim.cli import options
from clustersim.cli.options import command_line, destination, option, print_rows
from clustersim.units import parse_count

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.size import SizeAnswer


def _count(text: str | float) -> float:
    """Return the count of an option."""
    try:
        return parse_count(text)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None


Count = Annotated[
    float | None,
    option("N", "Tokens of that model: 1.4T or 1.4e12.", parser=_count),
]
Goodput = Annotated[
    float | None,
    option(
        "SHARE",
        "Share of the time of useful steps [0.9, or predicted: --set training.failures=rsc-1].",
    ),
]
Family = Annotated[
    str, typer.Option(metavar="NAME", help="Shapes: llama, gpt, or a list of models: NAME,NAME,...")
]
Law = Annotated[
    str, typer.Option(metavar="NAME", help="Law: chinchilla-3, replication, llama3, ...")
]
Model = Annotated[
    str | None,
    option("NAME", "Find days or nodes of this model, with --tokens."),
]
Precision = Annotated[
    str | None,
    option("NAME", "Number format of products: bf16, fp8, ... [the usual one of the cluster]."),
]
StepTokens = Annotated[
    float, typer.Option(metavar="N", parser=_count, help="Tokens of a step, about.")
]


def size(
    cluster: Annotated[str, option("NAME", "Cluster file or shipped name.", "--cluster")],
    nodes: Annotated[int | None, option("N", "Nodes of the cluster.")] = None,
    days: Annotated[float | None, option("D", "Duration in days.")] = None,
    law: Law = "chinchilla-3",
    family: Family = "llama",
    model: Model = None,
    tokens: Count = None,
    goodput: Goodput = None,
    framework: Annotated[
        str | None,
        option("NAME", "Framework file or shipped name [the usual one of the cluster]."),
    ] = None,
    precision: Precision = None,
    batch_tokens: StepTokens = 4_194_304,
    settings: options.Settings = None,
    out: options.Out = None,
    figures: options.Figures = None,
    as_json: options.AsJson = False,
    force: options.Force = False,
) -> None:
    """Find the model that is worth training on a machine, or the days that a model takes."""
    place = destination(f"{cluster}-size", out, figures, as_json=as_json, force=force)
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
    given = {"cluster": cluster, "nodes": nodes, "days": days, "model": model, "tokens": tokens}
    named = {key: None if value is None else f"{value}" for key, value in given.items()}
    command = command_line("size", [], **named, law=law, set=settings)
    place.report(answer, command, _show)


def _show(answer: "SizeAnswer", written: "list[Row]") -> None:
    """Print the answer in lines."""
    from clustersim.studies.size import text

    print_rows(text.finding(answer), [*text.rows(answer), *written])
