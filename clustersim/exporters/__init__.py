"""Launch files for a scenario, in the form that each program reads."""
