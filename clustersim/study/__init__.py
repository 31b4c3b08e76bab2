"""Many scenarios at once: validation against measured cases."""
