"""Scaling curves: efficiency over numbers of devices, and causes of lost efficiency."""

from clustersim.studies.scaling.answer import ScalingAnswer
from clustersim.studies.scaling.scaling_curves import scale

__all__ = ["ScalingAnswer", "scale"]
