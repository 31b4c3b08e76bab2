"""The replay: the only place where time passes, and the only one that imports simpy."""
