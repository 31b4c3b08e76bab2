"""Launch files where a scenario is named: what they do not state comes from the changes.

train.sh, cluster.name=dgx-h100, cluster.nodes=8  -->  a scenario with lines of train.sh
"""

from collections.abc import Mapping, Sequence
from operator import eq
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.changes import Change
from clustersim.catalog.files import shown
from clustersim.catalog.reading import Key
from clustersim.importers.draft import Choices
from clustersim.importers.launch.draft import LaunchDraft, scenario_draft
from clustersim.importers.launch.formats import LAUNCHES, launch_format
from clustersim.importers.launch.table import Launch
from clustersim.importers.source import as_source
from clustersim.records import dataclass
from clustersim.scenario.requests import LOADS

FORMATS: Final = tuple(LAUNCHES)
"""Names of the formats of launch files."""


@dataclass(frozen=True)
class LaunchFile:
    """A launch file where a scenario is named.

    Attributes
    ----------
    launch : its format
    """

    file: Path
    text: str
    launch: Launch

    @property
    def service(self) -> bool:
        """Whether it launches a service, not a training run."""
        return self.launch.service

    def scenario(self, changes: Sequence[Change]) -> LaunchDraft:
        """Return its scenario, for the machine and the model that changes name.

        Raises
        ------
        ScenarioError, CatalogError
            in one line, when the file cannot be read, is incomplete, or contradicts itself.
        """
        source = as_source(shown(self.file), self.text.encode("utf-8"))
        draft = scenario_draft(source, self.launch, _choices(changes, self.file.parent))
        _make_way(draft.data.get("load", {}), changes)
        _state(draft.data, changes)
        return draft


def launch_file(file: Path, text: str) -> LaunchFile | None:
    """Return a file as a launch file, if its content is that of one."""
    name = launch_format(text)
    return None if name is None else LaunchFile(file, text, LAUNCHES[name][0])


def _make_way(load: dict[str, Any], changes: Sequence[Change]) -> None:
    """Leave out assumed keys of a load that contradict a change of it: of two kinds, both."""
    for change in changes:
        if change.path[0] == "load" and change.path[-1] in LOADS:
            for key in (*LOADS, *(("input", "output") if change.path[-1] == "trace" else ())):
                if key != change.path[-1]:
                    load.pop(key, None)


def _state(data: dict[str, Any], changes: Sequence[Change]) -> None:
    """Leave out of the assumed keys those that changes state, and those that made way for them."""
    kept = {key: why for key, why in data.pop("assumed", {}).items() if not _stated(key, changes)}
    kinds = {f"load.{kind}" for kind in LOADS if kind not in data.get("load", {})}
    if kept := {key: why for key, why in kept.items() if key not in kinds}:
        data["assumed"] = kept


def _stated(key: str, changes: Sequence[Change]) -> bool:
    """Return whether a change is of a key, of one below it, or of the table that has it."""
    path = key.split(".")
    return any(all(map(eq, path, change.path)) for change in changes)


def _choices(changes: Sequence[Change], folder: Path) -> Choices:
    """Return what changes name, whether by a name, by a key of it, or by a table."""
    values: dict[Key, Any] = {}
    for change in changes:
        if isinstance(change.value, Mapping):
            values |= {(*change.path, key): value for key, value in change.value.items()}
        else:
            values[change.path] = change.value
    return Choices(
        folder=folder,
        cluster=_name(values, "cluster"),
        nodes=_count(values, ("cluster", "nodes")),
        model=_name(values, "model"),
        devices=_count(values, ("cluster", "node", "devices")),
    )


def _count(values: Mapping[Key, Any], key: Key) -> int | None:
    count = values.get(key)
    return count if isinstance(count, int) and count > 0 else None


def _name(values: Mapping[Key, Any], kind: str) -> str | None:
    stated = values.get((kind, "name"), values.get((kind,)))
    return stated if isinstance(stated, str) else None
