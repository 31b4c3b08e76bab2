"""Launch arguments of a layout, as the file of its framework states them.

layout --arguments of each key--> words of a command, and what they cannot express
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from clustersim.catalog.frameworks import LaunchArguments
from clustersim.errors import ScenarioError
from clustersim.plan.parallelism import AXES
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.build import recompute_of
from clustersim.studies.search.step.lower_bound.layout_values import recompute_value
from clustersim.workload.ops import Recompute

PLAIN: Final[Mapping[str, Any]] = {
    "plan.context": 1,
    "plan.expert": 1,
    "plan.expert_tensor": 1,
    "plan.sequence_parallel": False,
    "plan.reshard": True,
    "plan.shard": 0,
}
"""Values with which a key has no effect, so that it needs no argument."""


@dataclass(frozen=True)
class LaunchedLayout:
    """The arguments of a layout.

    Attributes
    ----------
    arguments : words of the command line
    missing : values that have no argument, each with the reason
    """

    arguments: tuple[str, ...]
    missing: Mapping[str, str]


def launch_arguments(loaded: Loaded, program: str) -> LaunchedLayout:
    """Return the launch arguments of the layout of a scenario.

    Parameters
    ----------
    program : that the framework of the scenario is launched as: ``megatron``, ``torchtitan`` ...

    Raises
    ------
    ScenarioError
        in one line, when the framework has no arguments, or is launched as another program.
    """
    return _launched(loaded, launch_of(loaded, program))


def launch_of(loaded: Loaded, program: str) -> LaunchArguments:
    """Return the launch arguments of the framework of a scenario.

    Raises
    ------
    ScenarioError
        in one line, when the framework has none, or is launched as another program.
    """
    framework = loaded.scenario.framework
    launch = framework.launch
    if launch is None:
        raise ScenarioError(
            f"--as {program}: '{framework.name}' states no launch arguments (a section launch of"
            " its file)"
        )
    if launch.program != program:
        raise ScenarioError(
            f"--as {program}: '{framework.name}' is launched as '{launch.program}'"
            f" (--as {launch.program})"
        )
    return launch


def has_argument(launch: LaunchArguments, key: str, value: Any) -> bool:
    """Return whether a value of a key of a layout can be launched.

    A value without effect needs no argument, nor does a key that follows from others.
    """
    if key in (launch.derived or {}) or PLAIN.get(key, ...) == value:
        return True
    plain = recompute_value(value) if isinstance(value, Recompute) else value
    plain = [*plain] if isinstance(plain, tuple) else plain
    return _argument(launch, key, plain, {}) is not None


def _launched(loaded: Loaded, launch: LaunchArguments) -> LaunchedLayout:
    words: list[str] = []
    missing: dict[str, str] = {}
    values = values_of_keys(loaded)
    has_experts = "true" if loaded.scenario.model.experts else "false"
    stated = {key: _shown(value) for key, value in values.items()} | {"model.experts": has_experts}
    for key, value in {**values, **_facts(loaded, launch)}.items():
        needed = (launch.only or {}).get(key, {})
        if any(stated.get(other) != needed[other] for other in needed):
            continue
        text = _argument(launch, key, value, _numbers(loaded))
        if text is not None:
            words += text.split()
        elif key not in (launch.derived or {}) and PLAIN.get(key, ...) != value:
            reason = (launch.inexpressible or {}).get(key, "no argument for this value")
            missing[f"{key} {_shown(value)}"] = reason
    return LaunchedLayout(tuple(words), missing)


def _facts(loaded: Loaded, launch: LaunchArguments) -> dict[str, Any]:
    """Return the facts of the framework that an argument controls, and that it states."""
    found = {}
    for key in launch.facts or {}:
        value: Any = loaded.scenario.framework
        for name in key.split("."):
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if value is not None:
            found[key] = value
    return found


def values_of_keys(loaded: Loaded) -> dict[str, Any]:
    """Return the values of all keys of a layout, by dotted key."""
    given = loaded.scenario
    plan = given.plan.model_dump(mode="json")
    chunks = plan.pop("chunks")
    order = plan.pop("placement")["order"]
    axes = [axis for axis in order if plan[axis] > 1]
    values = {f"plan.{key}": value for key, value in plan.items()}
    if given.plan.context == 1:
        del values["plan.context_method"]
    return values | {
        "plan.chunks": chunks or 1,
        "plan.placement": axes,
        "batch.micro": given.batch.micro,
        "batch.global": given.batch.global_,
        "recompute": recompute_value(recompute_of(given.recompute)),
        "precision": given.precision,
    }


def _numbers(loaded: Loaded) -> dict[str, int]:
    """Return the numbers that texts of arguments can contain."""
    given = loaded.scenario
    plan, batch = given.plan, given.batch
    chunks = plan.chunks or 1
    return {
        "data": plan.data,
        "copies": plan.data * plan.context // (plan.shard or plan.data * plan.context),
        "layers_per_chunk": -(-given.model.layers // (plan.pipeline * chunks)),
        "local": batch.micro if plan.pipeline == 1 else batch.global_ // plan.data,
    }


def _argument(
    launch: LaunchArguments, key: str, value: Any, numbers: Mapping[str, int]
) -> str | None:
    """Return the text of an argument; None where the value has none."""
    text = {**launch.arguments, **(launch.facts or {})}.get(key)
    if key == "plan.placement":
        usual = [axis for axis in AXES if axis in value]
        table = text if isinstance(text, Mapping) else {}
        entries = reversed(table.items())  # the first of several that order these axes alike
        orders = {tuple(a for a in k.split("-") if a in value): t for k, t in entries}
        return orders.get(tuple(value), "" if value == usual else None)
    if isinstance(text, Mapping):
        text = text.get(_shown(value), text.get("other"))
    if text is None or not numbers:
        return text
    return text.format(value=_shown(value), **numbers)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())
    return "-".join(map(str, value)) if isinstance(value, list) else str(value)


def launch_text(launched: LaunchedLayout) -> str:
    """Return arguments line by line, each option with its value, then what they leave out."""
    lines: list[str] = []
    for word in launched.arguments:
        if word.startswith("--") or not lines:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    lines += [f"# not expressed: {value} ({why})" for value, why in launched.missing.items()]
    return "\n".join(lines)
