"""`clustersim serve SCENARIO`: the requests of a service, and how long they take."""

from typing import Annotated

import typer

import clustersim
from clustersim.cli.options import AsJson, Settings, print_json, print_rows


def serve(
    scenario: Annotated[
        str, typer.Argument(help="Serving scenario (- for standard input), or a shipped one.")
    ],
    settings: Settings = None,
    json_output: AsJson = False,
) -> None:
    """Simulate the requests of a service: latency, throughput, goodput."""
    result = clustersim.serve(scenario, settings or ())
    if json_output:
        print_json(result.answer)
        return
    from clustersim.studies.serve.text import rows

    print_rows(result.scenario.title, rows(result))


__all__ = ["serve"]
