"""How fast clustersim is: one command that measures, `python -m benchmarks`, or `make bench`.

A part is a function that yields tables; `parts.py` lists them, `__main__.py` prints them and writes
them as JSON and as docs/performance.md.
"""
