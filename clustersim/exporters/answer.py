"""The launch file of a scenario, with what it does not express."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from clustersim.answers import record
from clustersim.catalog.changes import Change, Settings
from clustersim.catalog.launching import LaunchArguments
from clustersim.exporters.arguments import Arguments, job_arguments, launch_of, option_lines
from clustersim.exporters.forms import ENDINGS, FORMS, Job
from clustersim.exporters.read_back import ELSEWHERE, read_back
from clustersim.exporters.values import Launched, numbers_of
from clustersim.importers.launch.formats import LAUNCHES
from clustersim.scenario.load import LoadedJob, load_job
from clustersim.scenario.origins import scenario_text

_OPTIONS: Final = {
    "cluster": "cluster",
    "cluster.name": "cluster",
    "cluster.nodes": "nodes",
    "model": "model",
    "model.name": "model",
}
"""Options of `clustersim run` that name what a launch file does not state."""


@record
class ExportAnswer:
    """The launch file of a scenario.

    Attributes
    ----------
    as_ : program that reads the file
    file : file that was written; null without `--out`
    text : the launch file
    arguments : arguments of the program, each with its value
    command : command that predicts what the file launches
    elsewhere : keys that the command states, as no launch file has them, each with what states it
    not_expressed : values of the scenario that the program has no option for, each with the reason
    """

    as_: Annotated[str, Field(alias="as")]
    file: str | None
    text: str
    arguments: tuple[str, ...]
    command: str
    elsewhere: Mapping[str, str]
    not_expressed: Mapping[str, str]


def export(
    scenario: str | Path | Mapping[str, Any] | LoadedJob,
    program: str,
    settings: Settings = (),
    *,
    file: str | Path | None = None,
) -> ExportAnswer:
    """Return the launch file of a scenario, in the form that a program reads.

    The file is imported again: a value that the import does not return is not expressed.

    Parameters
    ----------
    scenario : file or name of a shipped scenario, or a launch file; its keys and values as a dict;
        or a loaded scenario
    program : ``megatron``, ``megatron-bridge``, ``torchtitan``, ``deepspeed``, ``accelerate``,
        ``vllm``, ``sglang`` or ``trtllm``
    settings : changes, ``["plan.zero=1"]`` or ``{"plan.zero": 1}``
    file : name of the file in the command that its comment shows; it is not written

    Raises
    ------
    ScenarioError, CatalogError
        in one line, when the scenario is invalid, the program is unknown, or the framework or the
        engine of the scenario is not launched as this program.

    Examples
    --------
    >>> exported = export("frontier-22b", "deepspeed")
    >>> exported.arguments[0]
    '--seq-length 2048'
    """
    if isinstance(scenario, LoadedJob):
        loaded: Launched = scenario.changed(settings) if settings else scenario
    else:
        loaded = load_job(scenario_text(scenario), settings)
    launch = launch_of(loaded, program)
    place = Path(file) if file else Path(f"{loaded.name}{ENDINGS[launch.form]}")
    arguments = job_arguments(loaded, launch)
    bare = _text(loaded, program, launch, arguments, ())
    read = read_back(loaded, launch, place.name, bare)
    missing = {**read.differences, **arguments.missing}
    line = _command(str(place), read.settings)
    elsewhere = {key: why for key, why in _elsewhere(launch).items() if _states(read.settings, key)}
    remarks = (*_remarks(loaded, launch, line, elsewhere), *_not_expressed(missing))
    return ExportAnswer(
        as_=program,
        file=None if file is None else str(file),
        text=_text(loaded, program, launch, arguments, remarks),
        arguments=tuple(option_lines(arguments.words)),
        command=line,
        elsewhere=elsewhere,
        not_expressed=missing,
    )


def _text(
    loaded: Launched,
    program: str,
    launch: LaunchArguments,
    arguments: Arguments,
    remarks: tuple[str, ...],
) -> str:
    cluster = loaded.scenario.cluster
    job = Job(
        words=(*arguments.words, *(launch.fixed or "").split()),
        remarks=remarks,
        command=launch.command or "",
        exports=launch.exports or {},
        config=tuple((launch.config or "").format(**numbers_of(loaded)).split()),
        nodes=cluster.nodes,
        devices=cluster.node.devices,
        reads=LAUNCHES[program][0].reads if program in LAUNCHES else {},
    )
    return FORMS[launch.form](job)


def _command(file: str, settings: tuple[Change, ...]) -> str:
    """Return the command that predicts what a launch file launches."""
    names: dict[str, str] = {}
    others: list[str] = []
    for change in settings:
        key, _, value = str(change).partition("=")
        if key in _OPTIONS and not value.startswith(("{", "x", "/")):
            names[_OPTIONS[key]] = value
        else:
            others += ["--set", str(change)]
    named = [word for name, value in names.items() for word in (f"--{name}", value)]
    return shlex.join(["clustersim", "run", file, *named, *others])


def _elsewhere(launch: LaunchArguments) -> dict[str, str]:
    return {**ELSEWHERE, **(launch.elsewhere or {})}


def _states(settings: tuple[Change, ...], key: str) -> bool:
    paths = [".".join(map(str, change.path)) for change in settings]
    return any(path == key or path.startswith(f"{key}.") for path in paths)


def _remarks(
    loaded: Launched, launch: LaunchArguments, line: str, elsewhere: Mapping[str, str]
) -> tuple[str, ...]:
    others = [f"{key} ({why})" for key, why in elsewhere.items() if key != "cluster"]
    return (
        loaded.scenario.title,
        "predict its time and memory:",
        line,
        *([f"stated by other files: {', '.join(others)}"] if others else []),
        *([f"not of the scenario: {launch.fixed}"] if launch.fixed else []),
    )


def _not_expressed(missing: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"not expressed: {value} ({why})" for value, why in missing.items())
