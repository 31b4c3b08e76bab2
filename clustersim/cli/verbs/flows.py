"""`clustersim flows FILE`: finish times of point-to-point flows on explicit links."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.output import echo
from clustersim.escaping import escaped

if TYPE_CHECKING:
    from clustersim.engine.network.flows import FinishTimes, FlowCase


def flows(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="JSON file with a list 'cases' of links and flows."),
    ],
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the finish times of flows that share links by max-min fairness."""
    from dataclasses import asdict

    from clustersim.engine.network.flows import finish_times, read_flow_cases

    cases = read_flow_cases(file)
    answers = {case.id: finish_times(case) for case in cases}
    if json_output:
        echo(json.dumps({name: asdict(answer) for name, answer in answers.items()}))
    else:
        for case in cases:
            _print_table(case, answers[case.id])


def _print_table(case: "FlowCase", answer: "FinishTimes") -> None:
    """Print one case as a table, a flow a line."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=escaped(case.id), caption=f"makespan {answer.makespan:.9g} s")
    table.add_column("flow")
    table.add_column("route")
    for heading in ("start [s]", "bytes [B]", "finish [s]"):
        table.add_column(heading, justify="right")
    for flow in case.flows:
        numbers = (flow.start, flow.bytes, answer.finish[flow.id])
        table.add_row(
            escaped(flow.id),
            escaped(" ".join(flow.route)),
            *(f"{number:.9g}" for number in numbers),
        )
    Console(markup=False).print(table)
