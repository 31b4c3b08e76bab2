"""Logs of other programs."""
