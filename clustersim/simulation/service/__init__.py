"""Simulate a service: scenario in, answer out."""
