"""Arguments of a program for the values of a scenario, as the file of its framework states them.

values by key --texts of the profile--> words of a command, and what they cannot express
"""

import shlex
from collections.abc import Mapping
from string import Formatter
from typing import Any, Final

from clustersim.catalog.launching import PROGRAMS, LaunchArguments, Texts
from clustersim.catalog.records.models import ModelRecord
from clustersim.errors import ScenarioError
from clustersim.exporters.values import (
    Launched,
    facts_of,
    has_effect,
    job_values,
    layout_values,
    numbers_of,
    profile_of,
    shown,
)
from clustersim.plan.parallelism import AXES
from clustersim.records import dataclass
from clustersim.suggestions import nearest

FORMATS: Final[Mapping[str, str]] = {
    "chakra": "clustersim.export_traces writes traces",
    "infragraph": "clustersim.export_machine writes a machine",
}
"""What `clustersim export --as` takes that is no program with a launch file."""

PLAIN: Final[Mapping[str, Any]] = {
    "plan.tensor": 1,
    "plan.pipeline": 1,
    "plan.chunks": 1,
    "plan.context": 1,
    "plan.expert": 1,
    "plan.expert_tensor": 1,
    "plan.sequence_parallel": False,
    "plan.reshard": True,
    "plan.shard": 0,
    "plan.attention_data": 1,
    "plan.replicas": 1,
}
"""Values with which a key has no effect, so that it needs no argument, unless a table of a program
lists the values that it has."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a layout or of a whole job.

    Attributes
    ----------
    words : of the command line
    missing : values that have no argument, each with the reason
    """

    words: tuple[str, ...]
    missing: Mapping[str, str]


def launch_of(loaded: Launched, program: str) -> LaunchArguments:
    """Return the launch arguments of the framework or the engine of a scenario.

    Raises
    ------
    ScenarioError
        in one line, when it has none, or is launched as another program.
    """
    if program in FORMATS:
        raise ScenarioError(f"--as {program}: is no launch file ({FORMATS[program]})")
    if program not in PROGRAMS:
        known = *PROGRAMS, *FORMATS
        raise ScenarioError(
            f"--as {program}: unknown program{nearest(program, known)} (known: {', '.join(known)})"
        )
    profile = profile_of(loaded)
    programs = _programs(loaded)
    if not programs:
        raise ScenarioError(f"--as {program}: {_no_arguments(loaded)}")
    if program not in programs:
        raise ScenarioError(
            f"--as {program}: '{profile.name}' is launched as {' or '.join(map(repr, programs))}"
            f" ({' or '.join(f'--as {other}' for other in programs)})"
        )
    return programs[program]


def program_of(loaded: Launched) -> str:
    """Return the first program that the framework or the engine of a scenario is launched as.

    Raises
    ------
    ScenarioError
        in one line, when there is none.
    """
    for program in _programs(loaded):
        return program
    raise ScenarioError(_no_arguments(loaded))


def _programs(loaded: Launched) -> dict[str, LaunchArguments]:
    launches = profile_of(loaded).launch or {}
    return {str(name): launch for name, launch in launches.items() if launch}


def _no_arguments(loaded: Launched) -> str:
    return f"'{profile_of(loaded).name}' states no launch arguments (a section launch of its file)"


def layout_arguments(loaded: Launched, launch: LaunchArguments) -> Arguments:
    """Return the arguments of the layout of a scenario, and of the facts that they control."""
    return _arguments(loaded, launch, layout_values(loaded))


def job_arguments(loaded: Launched, launch: LaunchArguments) -> Arguments:
    """Return the arguments of a whole job: its model, layout, batch, precision, options."""
    return _arguments(loaded, launch, job_values(loaded, launch) | layout_values(loaded))


def has_argument(launch: LaunchArguments, key: str, value: Any, stated: Mapping[str, str]) -> bool:
    """Return whether a value of a key of a layout can be launched next to some stated ones.

    A value without effect needs no argument, nor does a key that follows from others, or that other
    files state.
    """
    if _needs_none(launch, key, value) or (stated and not has_effect(key, stated)):
        return True
    plain = [*value] if isinstance(value, tuple) else value
    return _argument(launch, key, plain, {}) is not None


def _arguments(loaded: Launched, launch: LaunchArguments, values: Mapping[str, Any]) -> Arguments:
    words: list[str] = []
    missing: dict[str, str] = {}
    numbers = numbers_of(loaded)
    has_experts = "true" if loaded.scenario.model.experts else "false"
    every = {**values, **facts_of(loaded, launch)}
    released = _released(loaded.scenario.model)
    stated = {key: shown(value) for key, value in every.items()} | {"model.experts": has_experts}
    for key, value in every.items():
        needed = (launch.only or {}).get(key, {})
        if any(stated.get(other) != needed[other] for other in needed):
            continue
        if released.get(key) == value:
            continue  # engines load weights as they were released
        text = _argument(launch, key, value, numbers)
        needs = (launch.needs or {}).get(key, {})
        if text and any(stated.get(other) not in allowed for other, allowed in needs.items()):
            text = None
        if text is not None:
            words += text.split()
        elif has_effect(key, stated) and not _needs_none(launch, key, value):
            missing[f"{key} {shown(value)}"] = reason_of(launch, key)
    return Arguments(tuple(words), missing)


def _released(model: ModelRecord) -> dict[str, str]:
    """Return the formats of published weights, by key of a service."""
    formats = {} if model.released is None else model.released.model_dump(exclude_none=True)
    return {f"precision.{part}": form for part, form in formats.items()}


def _needs_none(launch: LaunchArguments, key: str, value: Any) -> bool:
    """Return whether a value without an argument is launched all the same."""
    others = {**(launch.derived or {}), **(launch.elsewhere or {})}
    table = _texts(launch).get(key)
    listed = isinstance(table, Mapping) and "other" not in table
    return key in others or (PLAIN.get(key, ...) == value and not listed)


def reason_of(launch: LaunchArguments, key: str) -> str:
    """Return why a value of a key has no argument."""
    reasons = {**(launch.derived or {}), **(launch.inexpressible or {})}
    own = _texts(launch).get(key)
    return reasons.get(key, "no argument" if own is None else "no argument for this value")


def _texts(launch: LaunchArguments) -> Texts:
    return {**launch.arguments, **(launch.facts or {}), **(launch.job or {})}


def _argument(
    launch: LaunchArguments, key: str, value: Any, numbers: Mapping[str, Any]
) -> str | None:
    """Return the text of an argument; None where the value has none."""
    text = _texts(launch).get(key)
    if key == "plan.placement":
        usual = [axis for axis in AXES if axis in value]
        table = text if isinstance(text, Mapping) else {}
        entries = reversed(table.items())  # the first of several that order these axes alike
        orders = {tuple(a for a in k.split("-") if a in value): t for k, t in entries}
        return orders.get(tuple(value), "" if value == usual else None)
    if isinstance(text, Mapping):
        text = text.get(shown(value), text.get("other"))
    if text is None or not numbers:
        return text
    fields = {name for _, name, _, _ in Formatter().parse(text) if name}
    if any(numbers.get(name, ...) is None for name in fields):
        return None
    plain = " ".join(map(str, value)) if isinstance(value, list) else shown(value)
    return text.format(value=plain, **numbers)


def argument_lines(arguments: Arguments) -> list[str]:
    """Return arguments line by line, each option with its value, then what they leave out."""
    return [
        *option_lines(arguments.words),
        *(f"# not expressed: {value} ({why})" for value, why in arguments.missing.items()),
    ]


def option_lines(words: tuple[str, ...]) -> list[str]:
    """Return words line by line, each option with its value.

    >>> option_lines(("--layers", "2", "--flash", "--rate=1"))
    ['--layers 2', '--flash', '--rate=1']
    """
    lines: list[str] = []
    for word in words:
        if word.startswith("--") or not lines:
            lines.append(word)
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return lines
