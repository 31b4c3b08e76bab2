"""Claims on how training scales on Frontier: curves of its scenarios, at their ends."""

from clustersim.runs.variants import run_variant
from clustersim.studies.scaling.answer import scaled
from clustersim.studies.scaling.arguments import Wanted, curves_of


def weak_scaling() -> dict[str, float]:
    """Claim 5: efficiency where the batch grows with the devices [%]."""
    return {
        "175B on 1,024": _efficiency("frontier-175b", Wanted(weak=(128, 1024))),
        "1T on 3,072": _efficiency("frontier-1t", Wanted(weak=(1024, 3072))),
    }


def strong_scaling() -> dict[str, float]:
    """Claim 6: efficiency where the batch stays as it is [%]."""
    return {
        "175B on 1,024": _efficiency("frontier-175b", Wanted(strong=(128, 1024))),
        "1T on 3,072": _efficiency("frontier-1t", Wanted(strong=(512, 3072))),
    }


def _efficiency(name: str, wanted: Wanted) -> float:
    """Return the efficiency of the last point of a curve [%]."""
    (curve,) = curves_of([name], wanted)
    answer = scaled(curve, [run_variant(point.variant, None) for point in curve.points])
    return 100 * float(answer["points"][-1]["efficiency"])


__all__ = ["strong_scaling", "weak_scaling"]
