"""Measures of whole runs as the command line takes them."""

from collections.abc import Iterable

from clustersim.catalog.tree import nearest
from clustersim.errors import ScenarioError
from clustersim.runs.table import RUN_MEASURES
from clustersim.scenario.load import Loaded


def check_run_measure(by: str, scenarios: Iterable[Loaded]) -> None:
    """Reject an unknown measure of whole runs, and one of a scenario without a run.

    Raises
    ------
    ScenarioError
        in one line.
    """
    if by not in RUN_MEASURES:
        hint, known = nearest(by, RUN_MEASURES), ", ".join(RUN_MEASURES)
        raise ScenarioError(f"--by {by}: unknown measure of runs{hint} (known: {known})")
    for loaded in scenarios:
        if loaded.scenario.training is None:
            raise ScenarioError(
                f"--by {by}: {loaded.name} has no section training, whose run it is of"
            )
