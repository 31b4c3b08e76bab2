"""Scaling curves: efficiency over numbers of devices, and causes of lost efficiency."""

from clustersim.studies.scaling.answer import ScalingAnswer, scale

__all__ = ["ScalingAnswer", "scale"]
