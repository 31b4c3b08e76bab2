"""Scaling of services: more replicas for a larger load, or more devices for the same load."""

from clustersim.studies.service_scaling.answer import ServiceScaling, scale_service

__all__ = ["ServiceScaling", "scale_service"]
