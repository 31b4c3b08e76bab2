"""Links: the traffic of a step on them, their use, and where collectives of blocks share them."""
