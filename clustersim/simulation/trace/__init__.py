"""Execution traces on machines: their step time, and where it goes."""
