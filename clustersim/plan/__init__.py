"""How a model is laid out over ranks, where the ranks run, and whether it fits."""
