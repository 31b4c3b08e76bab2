"""Drafting of tokens that a step verifies: by a small model on the same devices, or by heads.

    step = d drafted tokens, one after another + verification of 1 + d tokens of each sequence

A small model also processes the prompts, for its own KV cache.
"""

from typing import NamedTuple, Protocol

from clustersim.inference.batch import Batch
from clustersim.inference.stage import Replica


class DraftModel(Protocol):
    """A small model, whose replica is on the devices of the model that verifies."""

    @property
    def replica(self) -> Replica:
        """What it is made of."""

    def device_seconds(self, batch: Batch) -> float:
        """Return the time of the devices in a step [s]."""


class Drafting(NamedTuple):
    """How tokens are drafted.

    Attributes
    ----------
    tokens : of a sequence in a step; 0 without speculative decoding
    model : the small model; None where heads of the model draft, or a look-up
    share : time of a drafted token, over that of the step that verifies [unitless]
    """

    tokens: int = 0
    model: DraftModel | None = None
    share: float = 0.0

    def seconds(self, batch: Batch, verifying: float) -> float:
        """Return the time of drafting in a step [s].

        Parameters
        ----------
        verifying : time of the devices for the sequences of the batch, without prompts [s]
        """
        if self.model is None:
            return self.tokens * self.share * verifying if batch.sequences else 0.0
        seconds = 0.0
        if batch.prompts:
            seconds += self.model.device_seconds(Batch(0, 0, batch.prompts))
        if batch.sequences:
            one = self.model.device_seconds(Batch(batch.sequences, batch.context))
            seconds += self.tokens * one
        return seconds


NONE = Drafting()
"""No speculative decoding."""
