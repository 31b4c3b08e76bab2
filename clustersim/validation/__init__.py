"""Measured cases and published claims, predicted and graded."""
