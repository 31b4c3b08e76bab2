"""Measured training runs as they were published, normalised, and as scenarios.

    rows of a file --read_entries--> Entry --case_of--> Case --scenario_of--> Loaded

All text is read in the first two steps: `rows` and `values` read numbers and words, `texts` reads
prose, `settings` and `machines` choose what a row does not state.  A `Case` has plain values.
"""
