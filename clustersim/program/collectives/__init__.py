"""Collectives compiled to loads on links, one file an algorithm."""
