"""Where the predicted time of a measured inference case goes, by cause.

users, arrivals, offline    the mean time of a token of a replay
static batch                its latency over its output tokens, or the first token alone
one pool alone              its step
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from clustersim.inference.batch import Batch, Prompt
from clustersim.inference.step_costs import StaticTimes, StepCosts, prompt_seconds
from clustersim.simulation.service.answer import ServeAnswer


@dataclass(frozen=True)
class TokenTime:
    """The predicted time of a token of a case, or of its first one.

    Attributes
    ----------
    parts : by cause, which add up to it [s]
    sequences : that a step decodes, mean
    layers : of the model
    reduces : all-reduces of a step
    """

    parts: Mapping[str, float] = field(default_factory=dict)
    sequences: float = 0.0
    layers: int = 0
    reduces: int = 0

    @property
    def seconds(self) -> float:
        """The whole time [s]."""
        return sum(self.parts.values())


def replayed_token(costs: StepCosts, answer: ServeAnswer) -> TokenTime:
    """Return the mean time of a token of a replay."""
    return _of(costs, answer.attribution, answer.counts.mean_batch)


def step_time(costs: StepCosts, batch: Batch) -> TokenTime:
    """Return the time of a step."""
    return _of(costs, costs.step(batch).parts, batch.sequences)


def static_token(
    costs: StepCosts, users: int, prompt: int, output: int, times: StaticTimes
) -> TokenTime:
    """Return the latency of a static batch over its output tokens, or its only token.

    Steps that decode have the parts of those of mean length, scaled to their mean time.
    """
    before = {"frontend": costs.replica.engine.first}
    if output == 1:
        prompts = costs.step(Batch(0, 0, (Prompt(prompt),) * users)).parts
        rest = times.latency - costs.replica.engine.first
        return _of(costs, before | _scaled(prompts, rest), users)
    decoding = costs.step(Batch(users, round(users * (prompt + output / 2)))).parts
    before["prompts"] = prompt_seconds(costs, users, prompt)
    parts = _scaled(decoding, (output - 1) * times.token)
    whole = {name: seconds / output for name, seconds in (parts | before).items()}
    return _of(costs, whole, users)


def _of(costs: StepCosts, parts: Mapping[str, float], sequences: float) -> TokenTime:
    model, layout = costs.replica.model, costs.replica.layout
    each = 1 if model.parallel_block else 2
    reduces = each * model.layers if layout.tensor > 1 else 0
    shown = {name: seconds for name, seconds in parts.items() if seconds}
    return TokenTime(shown, sequences, model.layers, reduces)


def _scaled(parts: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Return parts that add up to a time [s]."""
    total = sum(parts.values())
    return {name: seconds * part / total for name, part in parts.items()}
