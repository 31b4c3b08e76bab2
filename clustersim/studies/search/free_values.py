"""Values of a key that a search is to choose from: ``--free plan.tensor=1:8``."""

from collections.abc import Container, Sequence

from clustersim.catalog.changes import Change, changes_of
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.runs.variants import in_a_line
from clustersim.scenario.load import Loaded, LoadedSharing
from clustersim.scenario.ranges import values_of


def freed_values(text: str, alone: Container[str]) -> tuple[str, tuple[Change, ...]]:
    """Return a key and its values from ``key=values``.

    Parameters
    ----------
    alone : keys that may have no values, as they are free anyway
    """
    key, equals, listed = text.partition("=")
    if not equals and key in alone:
        return key, ()
    try:
        values = values_of(listed)
    except ValueError as problem:
        raise ScenarioError(f"--free {text}: {problem}") from None
    return key, changes_of([f"{key}={value}" for value in values])


def check_values(
    base: Loaded | LoadedSharing, key: str, changes: Sequence[Change], where: str
) -> None:
    """Check that a scenario can have a key and its values."""
    for change in changes:
        try:
            base.changed([change])
        except PlanError:
            continue
        except (ScenarioError, CatalogError) as problem:
            line = in_a_line(problem).replace(f"{change.place}: ", "")
            raise ScenarioError(f"{where}: {line}") from None
