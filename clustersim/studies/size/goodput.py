"""The share of a run that useful steps take: stated, or predicted with failures and saves.

The layout of a model has a checkpoint of its own size, and its machine fails at its own rate, so
that a prediction belongs to the model as its utilisation does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from clustersim.catalog.changes import Change, changes_of
from clustersim.errors import ScenarioError
from clustersim.simulation.training_run.train import train
from clustersim.studies.size.layouts import Trained
from clustersim.units import format_seconds

assumed_goodput: Final = 0.9
"""Share of the time of useful steps; assumed, as Llama 3 reports more than 90 %."""


class Goodput(NamedTuple):
    """The share of the time that useful steps take, and where it is from."""

    share: float
    note: str


@dataclass(frozen=True)
class RunConditions:
    """How whole runs proceed.

    Attributes
    ----------
    stated : goodput of all runs; None for the assumed one, or a predicted one
    settings : changes of the section ``training``, with which goodput is predicted
    """

    stated: float | None
    settings: tuple[Change, ...] = ()

    def goodput(self, trained: Trained, tokens: float) -> Goodput:
        """Return the goodput of a run over some tokens.

        Raises
        ------
        ScenarioError, CatalogError
            where it cannot be predicted, as `train`; and where such a run does not end.
        """
        if self.stated is not None:
            return Goodput(self.stated, "stated")
        if not self.settings:
            return Goodput(assumed_goodput, "assumed")
        of_run = (*changes_of({"training.tokens": tokens}), *self.settings)
        answer = train(trained.loaded.changed(of_run))
        if answer.days is None:
            raise ScenarioError(
                "training: no save survives until the next failure, so that the run does not end"
            )
        every = format_seconds(answer.checkpoint.every_s, 3)
        failures = f"{answer.interruptions:,.3g} interruptions, a save every {every}"
        return Goodput(answer.goodput, f"predicted: {failures}")


def conditions_of(stated: float | None, settings: Sequence[Change]) -> RunConditions:
    """Return the conditions of runs: a stated goodput, or settings to predict it.

    Raises
    ------
    ScenarioError
        when there are both, or the goodput is no share.
    """
    if stated is not None and settings:
        raise ScenarioError(
            f"--goodput {stated:g}: excludes --set {settings[0]}, with which it is predicted"
            " (leave out one or the other)"
        )
    if stated is not None and not 0 < stated <= 1:
        raise ScenarioError(f"--goodput {stated:g}: must be above 0 and at most 1")
    return RunConditions(stated, tuple(settings))
