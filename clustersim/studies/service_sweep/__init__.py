"""Sweep of a service: all combinations of some values, and the best one within limits."""

from clustersim.studies.service_sweep.answer import ServiceSweep, sweep_services

__all__ = ["ServiceSweep", "sweep_services"]
