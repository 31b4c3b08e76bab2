"""Delays: what makes the blocks of some ranks longer than those of others."""
