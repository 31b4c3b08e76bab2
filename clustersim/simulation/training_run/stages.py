"""Parts of a whole run: each distinct batch, sequence or other setting is replayed once.

batch_schedule: 12 B tokens of 1,024 sequences, then 2,048 --replay--> steps and their times
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from clustersim.errors import PlanError
from clustersim.scenario.load import Loaded
from clustersim.scenario.training import BatchStage, Training
from clustersim.simulation.step.result import Result
from clustersim.simulation.step.simulate import simulate


@dataclass(frozen=True)
class RunStage:
    """A part of the run, with one batch.

    Attributes
    ----------
    tokens : of this part
    steps : number of its steps
    result : one of its steps
    """

    tokens: float
    steps: int
    result: Result

    @property
    def seconds(self) -> float:
        """Time of its steps without interruptions [s]."""
        return self.steps * self.result.step_time


def run_stages(loaded: Loaded, training: Training) -> list[RunStage]:
    """Return the parts of a run, each with its replayed step.

    Raises
    ------
    PlanError
        when the parts of the schedule have more tokens than the run.
    """
    parts = training.batch_schedule or [BatchStage()]
    replayed: dict[tuple[tuple[str, object], ...], Result] = {}
    found, remaining = [], None
    for place, (part, last) in enumerate(_with_last(parts)):
        changes = _changes(part)
        key = tuple(sorted(changes.items(), key=str))
        if key not in replayed:
            replayed[key] = simulate(loaded, changes) if changes else simulate(loaded)
        result = replayed[key]
        batch = result.scenario.batch
        if remaining is None:
            remaining = tokens_of_run(training, batch.global_ * batch.sequence, batch.sequence)
        tokens = remaining if last and part.tokens is None else (part.tokens or remaining)
        if tokens > remaining * (1 + 1e-9) or (tokens <= 0 and not last):
            raise PlanError(
                f"{loaded.where('training', 'batch_schedule')}: part {place} needs {tokens:,.0f}"
                f" tokens, and {remaining:,.0f} of the run remain"
            )
        remaining -= tokens
        if tokens > 0:
            steps = ceil(tokens / (batch.global_ * batch.sequence) - 1e-9)
            found.append(RunStage(tokens, steps, result))
    if remaining is not None and remaining > 0.5:
        raise PlanError(
            f"{loaded.where('training', 'batch_schedule')}: {remaining:,.0f} tokens of the run are"
            " in no part (leave out the tokens of the last part)"
        )
    return found


def _with_last(parts: list[BatchStage]) -> Iterator[tuple[BatchStage, bool]]:
    """Yield each part, and whether it is the last one."""
    for place, part in enumerate(parts, 1):
        yield part, place == len(parts)


def _changes(part: BatchStage) -> dict[str, object]:
    """Return the settings of a part, by key."""
    changes: dict[str, object] = {}
    if part.global_ is not None:
        changes["batch.global"] = part.global_
    if part.sequence is not None:
        changes["batch.sequence"] = part.sequence
    return changes | dict(part.set)


def tokens_of_run(training: Training, of_step: float, of_sequence: int) -> float:
    """Return the tokens of the run; steps and samples are those of its first part."""
    if training.tokens is not None:
        return training.tokens
    if training.steps is not None:
        return float(training.steps * of_step)
    if training.samples is not None:
        return training.samples * of_sequence
    assert training.epochs is not None, "a run has a length"
    assert training.dataset is not None, "epochs are of a dataset"
    return training.epochs * training.dataset
