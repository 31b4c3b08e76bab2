"""Does it fit?  What each stage holds at its peak, by part, and why not if not.

Activations are counted from the schedule itself: how many microbatches of each chunk a stage has
taken forward and not yet backward, at most, as its steps go by.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Peak(NamedTuple):
    """The most bytes of activations and the most microbatches, one for each chunk, held at once."""

    nbytes: float
    microbatches: int


@dataclass(frozen=True)
class StageMemory:
    """The peak of one stage's ranks [B].

    Attributes
    ----------
    parts : ``weights``, ``gradients``, ``optimiser``, ``activations``, ``workspace``, ``runtime``
    in_flight : microbatches held at the peak, one for each chunk that is held
    """

    stage: int
    parts: dict[str, float] = field(hash=False)
    in_flight: int = 0

    @property
    def peak(self) -> float:
        """All parts together [B]."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Verdict:
    """Whether the fullest stage fits its devices, and what to know about it.

    Attributes
    ----------
    stages : every stage, in order
    capacity : memory of a device [B]
    """

    stages: tuple[StageMemory, ...]
    capacity: float

    @property
    def fullest(self) -> StageMemory:
        """The stage with the highest peak, the first of equals."""
        return max(self.stages, key=lambda stage: stage.peak)

    @property
    def fits(self) -> bool:
        """Whether the fullest stage fits."""
        return self.fullest.peak <= self.capacity

    @property
    def reason(self) -> str:
        """The verdict in words: *fits*, or by how much not and because of what."""
        stage, gib = self.fullest, 2.0**30
        used = f"{stage.peak / gib:.1f} of {self.capacity / gib:.1f} GiB on stage {stage.stage}"
        if self.fits:
            return f"fits: {used}"
        part, nbytes = max(stage.parts.items(), key=lambda item: item[1])
        over = (stage.peak - self.capacity) / gib
        return (
            f"does not fit: {used}, {over:.1f} GiB too many; most of it is {part}"
            f" ({nbytes / gib:.1f} GiB)"
        )


def peak_activations(
    backward: NDArray[np.bool_], chunk: NDArray[np.int64], nbytes: Sequence[float]
) -> Peak:
    """Return the most that a stage keeps between forward and backward.

    Parameters
    ----------
    backward, chunk : which step each one is, in order
    nbytes : kept for one microbatch in each chunk [B]
    """
    signs = np.where(backward, -1, 1)
    kept = np.array(nbytes)[chunk]
    return Peak(float(np.cumsum(signs * kept).max()), int(np.cumsum(signs).max()))
