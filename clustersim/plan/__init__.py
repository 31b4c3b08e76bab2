"""How a model is distributed over ranks, where the ranks run, and the rules of a layout."""
