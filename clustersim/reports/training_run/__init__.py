"""A whole training run: days, failures and checkpoints, as text, charts and a page."""
