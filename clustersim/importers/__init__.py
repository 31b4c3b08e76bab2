"""Files of other programs become catalogue files: machines, models."""
