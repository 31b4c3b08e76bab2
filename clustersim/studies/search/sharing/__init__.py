"""The rules for nodes of a shared machine that are searched."""
