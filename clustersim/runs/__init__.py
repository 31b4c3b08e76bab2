"""Many scenarios: what identifies a run, where runs are kept, and the processes that run them."""
