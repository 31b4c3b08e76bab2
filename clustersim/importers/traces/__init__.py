"""Execution traces of other programs: what each rank computes and communicates, and after what."""
