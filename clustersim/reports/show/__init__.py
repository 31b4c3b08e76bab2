"""Entries of the catalogue: machines, models, frameworks and schedules."""

from clustersim.reports.show.answer import FactRow, fact_rows

__all__ = ["FactRow", "fact_rows"]
