"""Text tables, figures, diagrams, pages and folders; computes nothing."""
