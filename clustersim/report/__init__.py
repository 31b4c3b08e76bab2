"""Renders results as text, tables, figures and traces; computes nothing."""
