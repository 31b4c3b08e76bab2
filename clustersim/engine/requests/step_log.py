"""The steps that an engine made, in columns."""

from dataclasses import dataclass

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.inference.batch import Batch


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of one replica, in the order of their ends.

    Attributes
    ----------
    start, end : of each step [s]
    sequences, prompt_tokens : decoding sequences and tokens of prompts
    blocks : KV blocks in use
    waiting : requests without KV blocks, of the batch in flight
    batches : what each step processed
    """

    start: Floats
    end: Floats
    sequences: Integers
    prompt_tokens: Integers
    blocks: Integers
    waiting: Integers
    batches: list[Batch]

    def __len__(self) -> int:
        return len(self.start)


class StepLog:
    """Collects steps."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, float, int, int]] = []
        self._batches: list[Batch] = []

    def add(self, start: float, end: float, batch: Batch, blocks: int, waiting: int) -> None:
        """Add a step."""
        self._rows.append((start, end, blocks, waiting))
        self._batches.append(batch)

    def steps(self) -> Steps:
        """Return the steps so far."""
        rows = np.array(self._rows, dtype=float).reshape(-1, 4)
        return Steps(
            start=rows[:, 0],
            end=rows[:, 1],
            sequences=np.array([batch.sequences for batch in self._batches], dtype=np.int64),
            prompt_tokens=np.array(
                [sum(prompt.tokens for prompt in batch.prompts) for batch in self._batches],
                dtype=np.int64,
            ),
            blocks=rows[:, 2].astype(np.int64),
            waiting=rows[:, 3].astype(np.int64),
            batches=self._batches,
        )
