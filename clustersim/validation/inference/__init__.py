"""Measured inference: rows as services, their predictions and a one-line baseline."""
