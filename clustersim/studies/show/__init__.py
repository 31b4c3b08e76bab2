"""Entries of the catalogue: machines, models, frameworks and schedules."""
