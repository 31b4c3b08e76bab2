"""Predict a whole training run: days, failures, checkpoints, energy and price."""
