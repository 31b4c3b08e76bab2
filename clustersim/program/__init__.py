"""Programs: what every rank class runs, compiled from a job, folded and checked."""
