"""A model on a machine for the tokens of a run: its steps, their goodput, and the days."""

from dataclasses import dataclass
from typing import Final

from clustersim.studies.size.goodput import Goodput, RunConditions
from clustersim.studies.size.layouts import Trained
from clustersim.workload.scaling_laws import FLOPS_PER_PARAMETER, Law

DAY: Final = 86400.0


@dataclass(frozen=True)
class ModelSteps:
    """A model with its steps on the machine, and the tokens of a run."""

    trained: Trained
    tokens: float
    goodput: Goodput

    @property
    def parameters(self) -> float:
        """Parameters of the model [count]."""
        return self.trained.result.scenario.model.parameters

    @property
    def flops(self) -> float:
        """Budget of the run: 6 for each parameter and token."""
        return FLOPS_PER_PARAMETER * self.parameters * self.tokens

    @property
    def days(self) -> float:
        """Duration of the run, with its goodput [d]."""
        return self.tokens / self.trained.result.tokens_per_s / self.goodput.share / DAY

    @property
    def shape(self) -> dict[str, int]:
        """Dimensions of the model."""
        model = self.trained.result.scenario.model
        names = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
        return {name: value for name in names if (value := getattr(model, name)) is not None}


@dataclass(frozen=True)
class Sizing:
    """What a sizing is requested to assume.

    Attributes
    ----------
    law : of optimal training
    conditions : from which the goodput follows
    days : duration of the run; None where it is to be found
    began : when the sizing began, by `time.perf_counter` [s]
    """

    law: Law
    conditions: RunConditions
    days: float | None
    began: float

    def on_tokens(self, trained: Trained, tokens: float) -> ModelSteps:
        """Return a model that trains on some tokens."""
        return ModelSteps(trained, tokens, self.conditions.goodput(trained, tokens))

    def for_days(self, trained: Trained, days: float) -> ModelSteps:
        """Return a model that trains for some days."""
        useful = trained.result.tokens_per_s * days * DAY
        goodput = self.conditions.goodput(trained, useful)
        return ModelSteps(trained, useful * goodput.share, goodput)
