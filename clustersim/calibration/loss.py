r"""The loss of a row of a fit, in which a slow run is contamination and no evidence.

A run can be slower than its machine for many reasons (a slow node, a shared fabric, a pause) and
faster for none.  With z = (r / sigma)^2 and r < 0 where the run was slower than predicted, the
slopes of the losses are

.. math:: \rho'(z) = \frac{1}{\sqrt{1 + z}}, \qquad
          \rho_{slow}'(z) = \frac{1}{\sqrt{1 + z} \, (1 + z / c^2)}

so that the pull of a slow run grows up to some sigma, and falls from there: at 10 sigma it is a
twelfth of that of a fast one.  Kernels, which are measured alone, have the first on both sides.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

assumed_turn: Final = 3.0
"""c: scatters from which slow runs lose weight quickly.  Assumed: of normal errors 0.1 % are as
slow as that."""

_REST: Final = assumed_turn**2 - 1


def slow_rows(ratios: Array, runs: Flags) -> Flags:
    """Return the rows that are runs slower than predicted."""
    return runs & (ratios < 0)


def robust_loss(z: Array, slow: Flags) -> Array:
    """Return rho of each row, and its first two derivatives."""
    root = np.sqrt(1 + z)
    both: Array = np.stack([2 * (root - 1), 1 / root, -0.5 / root**3])
    falling = 1 / (1 + z / assumed_turn**2)
    scale = np.sqrt(_REST)
    angle = np.arctan(root / scale) - np.arctan(1 / scale)
    bounded = np.stack([
        2 * assumed_turn**2 / scale * angle,
        falling / root,
        -falling / root * (0.5 / root**2 + falling / assumed_turn**2),
    ])  # fmt: skip
    chosen: Array = np.where(slow, bounded, both)
    return chosen


def weights(ratios: Array, sigma: float, runs: Flags) -> Array:
    """Return the weight of each row in the least squares with the same pull."""
    slopes: Any = robust_loss((ratios / sigma) ** 2, slow_rows(ratios, runs))[1]
    return np.asarray(slopes, dtype=np.float64)
