"""A model on a machine for the tokens of a run: goodput, steps, days, and the answer.

Goodput is the share of a run that useful steps take: stated, or predicted with failures and saves.
The layout of a model has a checkpoint of its own size, and its machine fails at its own rate, so
that a prediction belongs to the model as its utilisation does.
"""

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from clustersim.answers import answer_from
from clustersim.catalog.changes import Change, changes_of
from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.scenario.costs import rate_text
from clustersim.simulation.training_run.train import billed, train
from clustersim.studies.size.answer import LawOptimum, SizeAnswer, TrainedSize
from clustersim.studies.size.layouts import Machine, Trained
from clustersim.units import counted, format_seconds
from clustersim.workload.scaling_laws import FLOPS_PER_PARAMETER, LAWS, Law

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


def sized_answer(
    machine: Machine,
    request: Sizing,
    question: str,
    found: ModelSteps,
    days: float,
    sizes: Sequence[ModelSteps],
) -> SizeAnswer:
    """Return the answer of a sizing.

    Parameters
    ----------
    question : what was to be found: ``model``, ``days`` or ``devices``
    found, days : the model with its steps, and the duration of its run [d]
    sizes : models that are compared, by parameters
    """
    result, law = found.trained.result, request.law
    accelerator = result.scenario.cluster.node.accelerator.name
    seconds = days * DAY
    useful = found.goodput.share * seconds
    accounting = {"useful": useful, "waiting": seconds - useful}
    paid = billed(result.loaded, [(1.0, result.energy)], accounting, found.tokens)
    whole, rate = paid["bill"], rate_text(result.scenario.costs, accelerator)
    return answer_from(
        SizeAnswer,
        *(_size(law, found), found, machine),
        name=f"{machine.cluster}-{machine.nodes}-nodes",
        title=_title(question, found, machine),
        question=question,
        law=law.name,
        days=days,
        accelerator=accelerator,
        goodput=found.goodput.share,
        goodput_note=found.goodput.note,
        tokens_per_parameter=found.tokens / found.parameters,
        sizes=tuple(_size(law, steps) for steps in sizes),
        laws=_laws(law, found.flops),
        energy_kwh=paid["energy_kwh"],
        power_w=None if whole is None else whole.mean_w,
        co2e_kg=paid["co2e_kg"],
        cost=paid["cost"],
        price=paid["unavailable"].get("cost") or (rate if whole is None else whole.rate),
        bill=whole,
        wall_s=time.perf_counter() - request.began,
    )


def _title(question: str, found: ModelSteps, machine: Machine) -> str:
    where = f"{counted(machine.nodes, 'node')} of {machine.cluster}"
    if question == "model":
        return f"The model that is worth training on {where}"
    return f"{found.trained.result.scenario.model.name} on {where}"


def _loss(law: Law, steps: ModelSteps) -> float | None:
    return None if law.loss is None else law.loss.at(steps.parameters, steps.tokens)


def _size(law: Law, steps: ModelSteps) -> TrainedSize:
    result = steps.trained.result
    own = {"model": result.scenario.model.name, "loss": _loss(law, steps)}
    return answer_from(TrainedSize, steps, steps.trained, result, **own)


def _laws(law: Law, flops: float) -> tuple[LawOptimum, ...]:
    """Return the optimum of each law for a budget, the requested law first."""
    ordered = [law, *(other for other in LAWS.values() if other is not law)]
    return tuple(_optimum(one, flops) for one in ordered)


def _optimum(law: Law, flops: float) -> LawOptimum:
    optimum = law.optimum(flops)
    loss = None if law.loss is None else law.loss.at(optimum.parameters, optimum.tokens)
    own = {"law": law.name, "loss": loss, "extrapolated": law.extrapolated(flops)}
    own["formula"] = law.form.text
    return answer_from(LawOptimum, optimum, law, **own)
