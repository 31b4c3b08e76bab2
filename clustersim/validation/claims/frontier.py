"""Claims on how training scales on Frontier: curves of its scenarios, at their ends."""

from clustersim.studies.scaling import scale


def weak_scaling() -> dict[str, float]:
    """Claim 5: efficiency where the batch grows with the devices [%]."""
    return {
        "175B on 1,024": _efficiency("frontier-175b", weak=(128, 1024)),
        "1T on 3,072": _efficiency("frontier-1t", weak=(1024, 3072)),
    }


def strong_scaling() -> dict[str, float]:
    """Claim 6: efficiency where the batch stays as it is [%]."""
    return {
        "175B on 1,024": _efficiency("frontier-175b", strong=(128, 1024)),
        "1T on 3,072": _efficiency("frontier-1t", strong=(512, 3072)),
    }


def _efficiency(name: str, *, weak: tuple[int, ...] = (), strong: tuple[int, ...] = ()) -> float:
    """Return the efficiency of the last point of a curve [%]."""
    (curve,) = scale(name, weak=weak, strong=strong, jobs=1).curves
    return 100 * curve.points[-1].efficiency


__all__ = ["strong_scaling", "weak_scaling"]
