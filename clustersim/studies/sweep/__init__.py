"""Many layouts: which is best, which fit, and why the others are invalid."""
