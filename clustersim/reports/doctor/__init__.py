"""The state of an installation: what works on this computer, and what to do where it does not."""
