"""Which quantity of the model the missing time of a group of measured runs follows."""
