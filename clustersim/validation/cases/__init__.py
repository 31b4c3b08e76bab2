"""Measured training runs as they were published, and the scenarios that stand for them."""
