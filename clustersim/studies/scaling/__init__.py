"""Scaling curves: efficiency over numbers of devices, and what it is lost to."""

from clustersim.studies.scaling.answer import ScalingAnswer, scale

__all__ = ["ScalingAnswer", "scale"]
