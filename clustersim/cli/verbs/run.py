"""`clustersim run SCENARIO`: answer a scenario of any kind, and write its files.

A training step is answered here, with its whole run where it has a section `training`, and a trace;
a service as `clustersim serve` does, and jobs on one machine as `clustersim share` does.
"""

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

import clustersim
from clustersim.cli import options
from clustersim.cli.options import (
    check_strict,
    command_line,
    destination,
    end_strictly,
    figure_formats,
    option,
    print_json,
    print_rows,
    reject_unused,
)
from clustersim.cli.verbs.serve import report_service
from clustersim.cli.verbs.share import report_sharing

if TYPE_CHECKING:
    from clustersim.render.render_process import RenderProcess
    from clustersim.render.tables import Row
    from clustersim.scenario.load import Loaded
    from clustersim.simulation.step.result import Result
    from clustersim.simulation.trace.answer import TraceAnswer

MAX_REPLICATIONS: Final = 10_000
"""Maximum number of replications."""


def run(
    scenario: Annotated[
        str,
        typer.Argument(help="Scenario or launch file, - for standard input, or a shipped one."),
    ],
    settings: options.Settings = None,
    cluster: options.LaunchCluster = None,
    nodes: options.LaunchNodes = None,
    model: options.LaunchModel = None,
    schedule: Annotated[
        str | None,
        option("NAME", "Pipeline schedule, or a .txt file of steps; as plan.schedule."),
    ] = None,
    out: options.RunOut = None,
    replications: Annotated[
        int | None,
        option(
            "N",
            "Simulate N steps with random numbers of their own, and what each disturbance costs.",
            min=1,
            max=MAX_REPLICATIONS,
        ),
    ] = None,
    figures: options.Figures = None,
    json_output: options.AsJson = False,
    force: options.Force = False,
    strict: options.Strict = False,
) -> None:
    """Simulate a scenario of any kind: a training step, a whole run, a service, or jobs."""
    machine = options.machine_settings(cluster, nodes, model)
    changes = [*machine, *(settings or [])]
    ordered = [f"plan.schedule={schedule}"] if schedule else []
    formats = figure_formats(figures)
    # The process of the figures starts before the slow imports, which it does not wait for.
    with _figure_process() if formats else nullcontext() as process:
        from clustersim.scenario.load import LoadedService, LoadedSharing, LoadedTrace, load_any

        loaded = load_any(scenario, changes)
        options.print_remarks(loaded.origin.remarks)
        check_strict(loaded, strict=strict)
        place = destination(loaded.name, out, figures, as_json=json_output, force=force)
        every = [*changes, *ordered]
        command = command_line("run", [scenario], set=every, replications=replications)
        if isinstance(loaded, LoadedService):
            unused = {"--schedule": schedule, "--replications": replications}
            reject_unused(unused, "a serving scenario")
            report_service(loaded, (), place, command, strict=strict)
        elif isinstance(loaded, LoadedSharing):
            unused = {"--schedule": schedule, "--model": model, "--replications": replications}
            reject_unused(unused, "several jobs on one machine")
            report_sharing(loaded, place, command, strict=strict)
        elif isinstance(loaded, LoadedTrace):
            unused = {"--schedule": schedule, "--model": model, "--replications": replications}
            reject_unused(unused, "the scenario of a trace")
            answer = clustersim.replay(loaded)
            place.report(answer, command, _show_trace)
            end_strictly(loaded, answer.expectations, strict=strict)
        else:
            loaded = loaded.changed(ordered) if ordered else loaded
            result = _simulated(loaded, replications)
            _report(result, place, process, command)
            end_strictly(loaded, result.answer.expectations, strict=strict)


def _show_trace(answer: "TraceAnswer", written: "list[Row]") -> None:
    """Print a replayed trace in lines."""
    from clustersim.reports.trace import text

    print_rows(f"{answer.title}: {text.finding(answer)}", [*text.rows(answer), *written])


def _report(
    result: "Result",
    place: options.Destination,
    process: "RenderProcess | None",
    command: str,
) -> None:
    """Print a result, and write its folder if it has one; `process` draws the figures."""
    if place.folder is not None:
        from clustersim.reports.step.text import file_row, rows

        if not place.as_json:
            print_rows(result.scenario.title, rows(result))
        place.write(result, command, process)
        if not place.as_json:
            print_rows(None, [file_row(place.folder, place.formats)])
    if place.as_json:
        print_json(result.answer)


def _simulated(loaded: "Loaded", count: int | None) -> "Result":
    """Return the result of a scenario; with replications, which all cores compute, if requested."""
    result = clustersim.simulate(loaded, advise=True)
    if loaded.scenario.training is not None:
        from clustersim.simulation.training_run.train import run_measures

        result = replace(result, training=run_measures(result))
    if count is None:
        return result
    from clustersim.runs.executors import workers

    with workers(tasks=count) as executor:
        found = clustersim.replicate(loaded, count, executor=executor)
    return replace(result, replications=found)


def _figure_process() -> "RenderProcess":
    from clustersim.render.matplotlib.figure import warm_up
    from clustersim.render.render_process import RenderProcess

    return RenderProcess(warm_up)
