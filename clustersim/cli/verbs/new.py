"""`clustersim new`: a first scenario with the best layout that fits, as a file that explains it."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from clustersim.cli.options import Settings, command_line, option, print_json, print_rows
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError

Model = Annotated[
    str | None, option("NAME", "Model of the catalogue, or of NAME.yaml here.", "--model")
]
Cluster = Annotated[str | None, option("NAME", "Cluster of the catalogue.", "--cluster")]


def new(
    model: Model = None,
    cluster: Cluster = None,
    nodes: Annotated[int | None, option("N", "Nodes of the cluster [1].")] = None,
    sequence: Annotated[
        int | None, option("N", "Tokens of a sequence of training [of the model, at most 8192].")
    ] = None,
    batch: Annotated[
        int | None, option("N", "Sequences of a training step [about 4.2 million tokens].")
    ] = None,
    precision: Annotated[
        str | None, option("NAME", "Number format [bf16, or fp16 where the device has no bf16].")
    ] = None,
    framework: Annotated[
        str | None, option("NAME", "Framework of training [the usual one of the machine].")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Write a service, not training.")] = False,
    rate: Annotated[
        float | None, option("R", "Requests of a service that arrive in a second.")
    ] = None,
    concurrency: Annotated[int | None, option("N", "Users of a service [64].")] = None,
    input: Annotated[int | None, option("N", "Tokens of a prompt of a service [1024].")] = None,
    output: Annotated[int | None, option("N", "Tokens that a request generates [256].")] = None,
    engine: Annotated[str | None, option("NAME", "Engine of a service [vllm].")] = None,
    settings: Settings = None,
    seconds: Annotated[
        float, typer.Option(metavar="S", help="End with the best so far, to within a layout [s].")
    ] = 30.0,
    out: Annotated[
        Path | None, option("PATH", "File to write [MODEL-CLUSTER.yaml].", "--out", "-o")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a first scenario with the best layout that fits, and explain it.

    Without --model and --cluster, it prompts for missing options on a terminal.
    """
    machine: dict[str, Any] = {"model": model, "cluster": cluster, "nodes": nodes}
    training: dict[str, Any] = {"sequence": sequence, "batch": batch, "framework": framework}
    service: dict[str, Any] = {
        "rate": rate,
        "concurrency": concurrency,
        "input": input,
        "output": output,
    }
    service |= {"engine": engine}
    serve = serve or any(value is not None for value in service.values())
    if model is None or cluster is None:
        serve = _prompt(machine, training, service, serve=serve)
    _reject_others(training if serve else service, serve=serve)
    load = service if serve else training
    place = out or Path(
        f"{machine['model']}-{machine['cluster']}{'-serving' if serve else ''}.yaml"
    )
    _write(
        place,
        machine,
        load | {"precision": precision},
        serve,
        settings or (),
        seconds,
        force,
        as_json,
    )


def _write(
    place: Path,
    machine: dict[str, Any],
    load: dict[str, Any],
    serve: bool,
    settings: Sequence[str],
    seconds: float,
    force: bool,
    as_json: bool,
) -> None:
    """Search the layout, write the file and print why."""
    from clustersim.catalog.writing import check_new, write_new
    from clustersim.studies.new import (
        Machine,
        new_scenario,
        service_draft,
        step_draft,
        with_settings,
    )
    from clustersim.studies.new.text import file_text, rows

    check_new(place, force=force)
    values = {name: value for name, value in machine.items() if value is not None}
    used = Machine(**values, precision=load["precision"])
    if serve:
        lengths = {name: load[name] for name in ("input", "output")}
        draft = service_draft(used, load["rate"], load["concurrency"], lengths, load["engine"])
    else:
        draft = step_draft(used, load["sequence"], load["batch"], load["framework"])
    new = new_scenario(with_settings(draft, settings), seconds)
    given = {**values, **{name: value for name, value in load.items() if value is not None}}
    texts = {name: f"{value}" for name, value in given.items()}
    command = command_line("new", ["--serve"] if serve else [], **texts, set=settings)
    write_new(place, file_text(new, command), force=force)
    if as_json:
        print_json(new)
        return
    print_rows(str(new.scenario["title"]), rows(new))
    echo(f"written       {place} (clustersim run {place})")


def _reject_others(options: dict[str, Any], *, serve: bool) -> None:
    for name, value in options.items():
        if value is not None:
            kind = "a service (leave it out)" if serve else "training (--serve)"
            raise ScenarioError(f"--{name}: has no effect on {kind}")


EXAMPLE = "clustersim new --model llama3-70b --cluster dgx-h100 --nodes 8 --sequence 8192"


def _prompt(
    machine: dict[str, Any], training: dict[str, Any], service: dict[str, Any], *, serve: bool
) -> bool:
    """Prompt for the options that are missing; return whether it is a service.

    Raises
    ------
    ScenarioError
        in one line, without a terminal.
    """
    missing = [f"--{name}" for name in ("model", "cluster") if machine[name] is None]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ScenarioError(
            f"{', '.join(missing)}: needed without a terminal ({EXAMPLE}; names: clustersim list)"
        )
    from clustersim.catalog.finding import entry_names

    if not serve and all(value is None for value in training.values()):
        kind = _choice("Training or service", ["training", "service"], "training")
        serve = kind == "service"
    for name in ("model", "cluster"):
        if machine[name] is None:
            machine[name] = _choice(name.title(), entry_names(name))
    machine["nodes"] = machine["nodes"] or _number("Nodes of the cluster", 1)
    if serve and service["rate"] is None and service["concurrency"] is None:
        service["concurrency"] = _number("Users", 64)
    elif not serve and training["sequence"] is None:
        training["sequence"] = _number("Tokens of a sequence", 4096)
    return serve


def _choice(question: str, names: list[str], usual: str | None = None) -> str:
    """Return one of some names, which are listed; prompt until it is one of them."""
    from difflib import get_close_matches

    echo(f"{question}: {', '.join(names)}")
    while True:
        name = str(typer.prompt(question, default=usual)).strip()
        if name in names:
            return name
        close = get_close_matches(name, names, 3, 0.4)
        hint = f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
        echo(f"{name!r} is none of these names{hint}")


def _number(question: str, usual: int) -> int:
    """Return a number above 0 that is entered."""
    while (number := int(typer.prompt(question, default=usual, type=int))) <= 0:
        echo("a number greater than 0 is needed")
    return number
