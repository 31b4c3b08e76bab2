"""What makes ranks differ: causes that a scenario states, and the random numbers that they draw."""
