"""The entries of the catalogue, in lists."""
