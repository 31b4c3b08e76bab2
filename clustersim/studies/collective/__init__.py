"""Collectives by message size on a machine."""
