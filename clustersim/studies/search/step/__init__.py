"""The layouts of a training step, and what bounds its time, energy and memory."""
