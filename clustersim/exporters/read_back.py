"""What a launch file launches: it is imported, and compared with the scenario that it is for.

scenario --export--> text --import--> scenario: values that differ are not expressed
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.changes import Change, changes_of, setting_text
from clustersim.catalog.launching import LaunchArguments
from clustersim.catalog.tree import is_fact
from clustersim.errors import CatalogError, ScenarioError
from clustersim.exporters.arguments import reason_of
from clustersim.exporters.values import (
    NAMES,
    Launched,
    has_effect,
    layout_values,
    plain_values,
    profile_of,
    shown,
)
from clustersim.records import dataclass
from clustersim.scenario.launch_files import launch_file
from clustersim.scenario.load import Loaded, LoadedService, load_launch

ELSEWHERE: Final[Mapping[str, str]] = {
    "cluster": "the machine",
    "disturbances": "the machine",
    "load": "the clients of a server",
    "experts": "the data",
    "speculation": "the data and the draft model",
}
"""Keys that no launch file states, each with what states it."""


@dataclass(frozen=True)
class ReadBack:
    """What an import of a launch file needs, and how its scenario differs.

    Attributes
    ----------
    settings : changes that name what the launch file does not state
    differences : values that the file does not express, each with the reason
    """

    settings: tuple[Change, ...]
    differences: Mapping[str, str]


def read_back(loaded: Launched, launch: LaunchArguments, name: str, text: str) -> ReadBack:
    """Import a launch file, and compare it with the scenario that it was written for.

    Parameters
    ----------
    name : of the file

    Raises
    ------
    ScenarioError
        in one line, when the import rejects the file.
    """
    settings = settings_of(loaded, launch)
    try:
        found = _imported(loaded, name, text, settings)
        profile = profile_of(loaded).name
        if profile_of(found).name != profile:
            kind = "framework" if isinstance(loaded, Loaded) else "engine"
            settings += changes_of({f"{kind}.name": profile})
            found = _imported(loaded, name, text, settings)
    except (ScenarioError, CatalogError) as problem:
        raise ScenarioError(
            f"{loaded.name}: cannot be launched so, as its import is rejected: {problem}"
        ) from None
    return ReadBack(settings, differences(loaded, found, launch))


def _imported(loaded: Launched, name: str, text: str, settings: tuple[Change, ...]) -> Launched:
    file = (loaded.origin.folder or Path()) / name
    launch = launch_file(file, text)
    assert launch is not None, "each form has a format that is found by its content"
    return load_launch(file, launch.scenario(settings), settings)


def settings_of(loaded: Launched, launch: LaunchArguments) -> tuple[Change, ...]:
    """Return what a launch file does not state, as the scenario and its changes have it."""
    keys = (*ELSEWHERE, *(launch.elsewhere or {}))
    document = loaded.origin.document.data
    written = [setting_text(*each) for key in keys for each in _written(document, key)]
    changes = [each for each in loaded.changes if _is_within(".".join(map(str, each.path)), keys)]
    return (*changes_of(written), *changes)


def _is_within(path: str, keys: tuple[str, ...]) -> bool:
    return any(path == key or path.startswith(f"{key}.") for key in keys)


def _written(document: Any, key: str) -> list[tuple[str, Any]]:
    """Return the values of a key as a file has them, each with its dotted key."""
    value = document
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return [] if value is None else _leaves(key, value)


def _leaves(key: str, value: Any) -> list[tuple[str, Any]]:
    if is_fact(value):
        return [(key, value["value"])]
    by_leaf = key.startswith(("cluster", "model")) and isinstance(value, Mapping)
    if not by_leaf or "kind" in value:
        return [(key, value)]
    return [leaf for name, item in value.items() for leaf in _leaves(f"{key}.{name}", item)]


def differences(loaded: Launched, found: Launched, launch: LaunchArguments) -> dict[str, str]:
    """Return the values of a scenario that another one does not have, each with the reason."""
    values, others = effective_values(loaded, launch), effective_values(found, launch)
    other_format = values.get("precision") != others.get("precision")
    return {
        f"{key} {shown(values.get(key))}": _reason(launch, key, others.get(key))
        for key in [*values, *(key for key in others if key not in values)]
        if values.get(key) != others.get(key) and not (other_format and "framework.state." in key)
    }


def _reason(launch: LaunchArguments, key: str, other: Any) -> str:
    own = key.removeprefix("framework.").removeprefix("engine.")
    reason = reason_of(launch, own)
    return f"{reason}; launched {'without' if other is None else f'with {shown(other)}'}"


# --- values with an effect ------------------------------------------------------------------------

OFFERED: Final = frozenset({"schedules", "zero", "axes", "context", "formats"})
"""Keys of a profile that state what it offers."""

COUNTED: Final = frozenset(
    {"parameters", "active", "family", "hugging_face", "released", "sequence", "longest"}
)
"""Keys of a model that follow from others, or that describe it."""


def effective_values(loaded: Launched, launch: LaunchArguments) -> dict[str, Any]:
    """Return the values that decide what is run, by dotted key."""
    given = loaded.scenario
    profile = "framework" if isinstance(loaded, Loaded) else "engine"
    values = {
        **layout_values(loaded),
        **(_of_step(loaded) if isinstance(loaded, Loaded) else _of_service(loaded)),
        **_of_model(loaded),
        **dict(plain_values(profile_of(loaded), profile, NAMES | OFFERED)),
        **dict(plain_values(given.cluster, "cluster", NAMES)),
    }
    return {key: value for key, value in values.items() if _has_effect(loaded, launch, key, values)}


def _of_step(loaded: Loaded) -> dict[str, Any]:
    """Return the values of a step that no layout has."""
    given = loaded.scenario
    offload = {f"offload.{key}": value for key, value in given.offload.model_dump().items()}
    tables = given.model_dump(
        mode="json", include={"finetune", "collectives", "disturbances", "experts"}
    )
    return {"batch.sequence": given.batch.sequence, **offload, **tables}


def _of_service(loaded: LoadedService) -> dict[str, Any]:
    return loaded.scenario.model_dump(mode="json", include={"load", "speculation", "experts"})


def _of_model(loaded: Launched) -> dict[str, Any]:
    model = loaded.scenario.model
    values = dict(plain_values(model, "model", NAMES | COUNTED))
    if model.latent is None:
        values["model.kv_heads"] = model.kv_heads or model.heads
        values["model.head_size"] = model.head_size or model.hidden // model.heads
    values["model.biases"] = sorted(model.biases)
    if isinstance(loaded, Loaded):
        longest = model.longest or model.sequence
        values["model.longest"] = max(longest, loaded.scenario.batch.sequence)
    return values


def _has_effect(
    loaded: Launched, launch: LaunchArguments, key: str, values: Mapping[str, Any]
) -> bool:
    """Return whether a value has an effect next to the others."""
    if key.startswith("framework.state.") and f".{values['precision']}." not in key:
        return False
    stated = {other: shown(value) for other, value in values.items()}
    stated["model.experts"] = shown(loaded.scenario.model.experts is not None)
    own = key.removeprefix("framework.").removeprefix("engine.")
    only = (launch.only or {}).get(own, {})
    unmet = any(stated.get(other) != value for other, value in only.items())
    return has_effect(key, stated) and not unmet
