"""Claims of papers, and what is predicted for their numbers."""
