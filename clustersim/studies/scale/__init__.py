"""Scaling curves: efficiency over numbers of devices, and causes of lost efficiency."""

from clustersim.studies.scale.answer import ScalingAnswer
from clustersim.studies.scale.scaling_curves import scale

__all__ = ["ScalingAnswer", "scale"]
