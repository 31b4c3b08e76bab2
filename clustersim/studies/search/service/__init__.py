"""The layouts of a service, and what bounds their measures."""
