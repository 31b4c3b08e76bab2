"""What each stage holds, when, and whether it fits."""
