"""Claims of papers, each with the numbers that are predicted for it."""
