"""Scenario files: their schema, how they are loaded, and changes of them."""
