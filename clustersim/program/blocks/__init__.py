"""Blocks: the kernels and moves of one stage chunk for one microbatch, and their time."""
