"""Rows of measured cases that are no step of training and no service, by family."""
