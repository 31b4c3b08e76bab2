"""Failures of long runs: rates, checkpoint intervals in closed form, spares and replications."""
