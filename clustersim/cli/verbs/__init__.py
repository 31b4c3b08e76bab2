"""The verbs of the command line: one module each, which parses, calls and prints."""
