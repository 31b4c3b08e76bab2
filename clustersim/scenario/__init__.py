"""What a person writes: the schema of scenarios, and how they are loaded."""
