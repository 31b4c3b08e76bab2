"""Import of a machine or a model from a file of another program."""
