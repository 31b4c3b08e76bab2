"""Simulate one training step: scenario in, result out."""
