"""The scenario files of a study: each process reads a file once, and variants are changes of it.

    file --load--> scenario --changed--> variant      what variants share is checked once
                                 `-----> key          and written as text once

A study uses its files as they are when a process first needs them.
"""

import uuid
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from threading import Lock
from typing import Final

from clustersim.bounded_cache import BoundedCache
from clustersim.catalog.changes import Change, Settings, changes_of
from clustersim.errors import CatalogError, ScenarioError
from clustersim.scenario.load import LoadedScenario, load_any
from clustersim.scenario.references import REFERENCES

_RECORDS: Final = frozenset(path[0] for path in REFERENCES if len(path) == 1)
"""Keys of a scenario that hold catalogue records, which are large and which few changes concern."""

_MOST: Final = 16
"""Number of scenarios that are kept."""

_LATEST: Final = 128
"""Number of variants that are kept, from their keys to their runs."""


class ScenarioFiles:
    """The scenario files of a study in one process.

    Sent to another process, it becomes the object that this process has for the same study.

    Parameters
    ----------
    study : what distinguishes the study from all others; a new study if it is left out
    """

    def __init__(self, study: str = "") -> None:
        self._study = study or uuid.uuid4().hex
        self._bases: dict[Hashable, LoadedScenario | None] = {}
        self._latest = BoundedCache(_LATEST, 1)
        self._lock = Lock()  # a Dask worker runs tasks in threads

    def __reduce__(self) -> tuple[Callable[[str], "ScenarioFiles"], tuple[str]]:
        """Return what another process makes its object of."""
        return scenario_files_of, (self._study,)

    def load(self, scenario: str, settings: Settings) -> LoadedScenario:
        """Return a scenario file with changes.

        Parameters
        ----------
        scenario : file, or bare name of a shipped one

        Raises
        ------
        ScenarioError, CatalogError
            one line for each problem.
        """
        changes = changes_of(settings)
        compute = partial(self._load, scenario, changes)
        return self._latest.get(_key(scenario, changes), 1, compute)

    def _load(self, scenario: str, changes: tuple[Change, ...]) -> LoadedScenario:
        of_records = [change for change in changes if change.path[0] in _RECORDS]
        with self._lock:
            base = self._base(scenario, of_records)
        if base is None:
            return load_any(scenario, changes)
        others = [change for change in changes if change.path[0] not in _RECORDS]
        return replace(base.changed(others) if others else base, changes=changes)

    def _base(self, scenario: str, changes: Sequence[Change]) -> LoadedScenario | None:
        """Return a file with changes of its catalogue records.

        None where it is invalid so: then the message has to consider all changes.
        """
        key = _key(scenario, changes)
        if key in self._bases:
            base = self._bases.pop(key)
        else:
            try:
                base = self._changed(scenario, changes)
            except (ScenarioError, CatalogError):
                base = None
        self._bases[key] = base  # the latest is the last, and the first one is dropped
        if len(self._bases) > _MOST:
            self._bases.pop(next(iter(self._bases)))
        return base

    def _changed(self, scenario: str, changes: Sequence[Change]) -> LoadedScenario:
        """Return a file with changes, on top of the file without any where that is valid."""
        base = self._base(scenario, ()) if changes else None
        return base.changed(changes) if base is not None else load_any(scenario, changes)


def _key(scenario: str, changes: Sequence[Change]) -> Hashable:
    return scenario, *((change.text, repr(change.value)) for change in changes)


@lru_cache(maxsize=4)
def scenario_files_of(study: str) -> ScenarioFiles:
    """Return the scenario files of a study in this process."""
    return ScenarioFiles(study)
