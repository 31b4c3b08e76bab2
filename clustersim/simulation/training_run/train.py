"""A scenario in, the answer of its whole training run out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clustersim.answers import answer_from
from clustersim.catalog.changes import Settings
from clustersim.errors import PlanError
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.simulate import loaded_from
from clustersim.simulation.training_run.answer import RunMeasures, TrainAnswer
from clustersim.simulation.training_run.summary import train_answer
from clustersim.simulation.training_run.whole_run import predict_run


def train(
    scenario: str | Path | Mapping[str, Any] | Loaded, settings: Settings = ()
) -> TrainAnswer:
    """Predict a whole training run: days, failures and checkpoints.

    Parameters
    ----------
    scenario : path of a scenario file with a section `training`, name of a shipped scenario, the
        keys and values of a scenario as a dict, or a loaded scenario
    settings : changes as texts, ``["training.checkpoint.every=30 min"]``, or as values

    Returns
    -------
    TrainAnswer
        The keys of ``train --json``; times in seconds unless their names state days or hours.

    Raises
    ------
    ScenarioError, CatalogError, PlanError
        for invalid input, one line for each problem.

    Examples
    --------
    >>> answer = train("gpt3-300b-tokens")
    >>> 30 < answer.days < 40
    True
    """
    return train_answer(predict_run(loaded_from(scenario, settings)))


def run_measures(loaded: Loaded) -> RunMeasures:
    """Return the numbers of the whole run of a scenario with a section `training`.

    Raises
    ------
    PlanError
        when the run does not end.
    """
    whole = train(loaded)
    if whole.days is None:
        raise PlanError(
            "training: no save survives until the next failure, so that the run does not end"
        )
    return answer_from(RunMeasures, whole)
