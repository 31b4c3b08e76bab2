"""Times of a stage by parts, looked up between knots that are computed on first use."""

from collections.abc import Iterable
from functools import cached_property
from typing import Final

import numpy as np

from clustersim.arrays import Floats
from clustersim.inference.batch import Prompt
from clustersim.inference.stage import Stage
from clustersim.inference.tables import TILE, Line, Plane, knots, tabulate

MOST_TOKENS: Final = 2**16
MOST_SEQUENCES: Final = 2**12
MOST_KEYS: Final = 2**17
"""Last knots of tables: tokens of a step, decoding sequences, and tokens of a sequence."""

DENSE_KEYS: Final = 15
"""Knots of few tokens that tables of attention leave out: it costs its launch there."""


class StageTables:
    """The tables of a stage."""

    def __init__(self, stage: Stage, queries: int) -> None:
        self._stage, self._queries = stage, queries
        self._prefills: dict[tuple[Prompt, int], float] = {}
        self.prefill_launch = stage.prefill_launch

    @cached_property
    def dense(self) -> Line:
        """Everything that depends on the tokens of a device alone [s]."""
        return tabulate(
            knots(MOST_TOKENS), lambda tokens: _sum(self._stage.dense(tokens).values(), tokens)
        )

    @cached_property
    def head(self) -> Line:
        """Logits and choice of tokens, by rows [s]."""
        return tabulate(knots(MOST_SEQUENCES), self._stage.head)

    @cached_property
    def routed(self) -> Line:
        """Routed experts, by tokens of the replica [s]."""
        experts = self._stage.replica.model.experts
        spread = 1.0 if experts is None else experts.count / experts.top_k
        return tabulate(knots(MOST_TOKENS, tile=TILE * spread), self._stage.routed)

    @cached_property
    def exchanged(self) -> Line:
        """Exchange with experts in steps without prompts [s]."""
        return tabulate(
            knots(MOST_SEQUENCES), lambda tokens: self._stage.exchange(tokens, prompts=False)
        )

    @cached_property
    def prompted(self) -> Line:
        """Exchange with experts in steps with prompts [s]."""
        return tabulate(
            knots(MOST_TOKENS), lambda tokens: self._stage.exchange(tokens, prompts=True)
        )

    @cached_property
    def decode(self) -> Plane:
        """Attention of decoding sequences, by their number and cached tokens [s]."""
        return Plane(
            knots(MOST_SEQUENCES),
            knots(MOST_KEYS)[DENSE_KEYS:],
            lambda sequences, keys: self._stage.decode(sequences, keys, self._queries),
        )

    @cached_property
    def decode_together(self) -> Plane:
        """The same in steps with prompts, whose attention is part of the same kernel [s]."""
        if not self._stage.together:
            return self.decode
        return Plane(
            knots(MOST_SEQUENCES),
            knots(MOST_KEYS)[DENSE_KEYS:],
            lambda sequences, keys: self._stage.decode(
                sequences, keys, self._queries, together=True
            ),
        )

    @cached_property
    def gathered(self) -> Line:
        """Gather of keys and values over a context group, by tokens [s]."""
        return tabulate(knots(MOST_KEYS), self._stage.context_gather)

    @cached_property
    def combined(self) -> Line:
        """Combination of results over a context group, by decoded tokens [s]."""
        return tabulate(knots(MOST_SEQUENCES), self._stage.context_combine)

    def prefill(self, prompt: Prompt, count: int) -> float:
        """Return the time of attention of some prompts of the same lengths, computed once [s]."""
        found = self._prefills.get((prompt, count))
        if found is None:
            found = self._prefills[prompt, count] = attention_seconds(self._stage, prompt, count)
        return found


def attention_seconds(stage: Stage, prompt: Prompt, count: int) -> float:
    """Return the time of attention of some prompts of the same lengths on a stage [s]."""
    queries, keys = single(prompt.tokens), single(prompt.tokens + prompt.before)
    return only(stage.prefill(queries, keys, count))


def single(value: float) -> Floats:
    """Return an array of one number."""
    return np.array([float(value)])


def only(found: Floats) -> float:
    """Return the number of such an array."""
    return float(found[0])


def _sum(parts: Iterable[Floats], like: Floats) -> Floats:
    total = np.zeros_like(like)
    for part in parts:
        total = total + part
    return total
