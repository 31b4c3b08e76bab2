"""Stored studies: the studies of a run cache, and the runs of one of them.

>>> stored_studies("missing.db")
Traceback (most recent call last):
    ...
clustersim.errors.ScenarioError: missing.db: no such file (clustersim sweep writes one)
"""

from dataclasses import dataclass
from pathlib import Path

from clustersim.catalog.tree import nearest
from clustersim.errors import ScenarioError
from clustersim.runs.store import Store, StoredStudy
from clustersim.runs.store_file import check_store
from clustersim.runs.table import Row, row


@dataclass(frozen=True)
class StoredStudies:
    """The studies of a run cache, the oldest first.

    Attributes
    ----------
    store : file of the run cache
    studies : its studies
    """

    store: str
    studies: list[StoredStudy]


@dataclass(frozen=True)
class StoredRuns:
    """The runs of a study.

    Attributes
    ----------
    study : the study, with the keys of `studies[]`
    points : its runs, with the keys of `points[]` of `sweep --json`; `verdict` is null until a run
        is completed
    """

    study: StoredStudy
    points: list[Row]


def stored_studies(store: str | Path) -> StoredStudies:
    """Return the studies of a run cache.

    Raises
    ------
    ScenarioError
        when there is no such file, or it is not a run cache.
    """
    path = Path(store)
    check_store(path, must_exist=True)
    with Store(path) as cache:
        return StoredStudies(str(store), cache.studies())


def stored_runs(store: str | Path, name: str | None = None) -> StoredRuns:
    """Return the runs of a study.

    Parameters
    ----------
    name : of the study, or its position; None for the only one

    Raises
    ------
    ScenarioError
        as `stored_studies`, and when there is no such study.
    """
    studies = stored_studies(store).studies
    study = studies[_index(store, [one.name for one in studies], name)]
    with Store(Path(store)) as cache:
        return StoredRuns(study, [row(*point) for point in cache.points(study.name)])


def _index(store: str | Path, names: list[str], name: str | None) -> int:
    if name is None:
        if len(names) == 1:
            return 0
        raise ScenarioError(f"--name: required, {store} has {len(names)} studies")
    if name in names:
        return names.index(name)
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return int(name) - 1
    raise ScenarioError(
        f"--name {name}: no such study in {store}{nearest(name, names)}"
        f" (clustersim study {store} lists them)"
    )
