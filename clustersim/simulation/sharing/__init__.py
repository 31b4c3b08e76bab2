"""Several jobs on one machine: alone, together, and what each costs the others."""
