"""What every rank class does: schedules, blocks, traffic, folded and checked."""
