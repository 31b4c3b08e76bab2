"""One self-contained HTML file that tells what was simulated, for a browser without a network.

A result becomes plain data (`of_run`), the data sections of prose, tables, charts and drawings
(`page.Page`), and these one file (`page.render`).  Other pages are made of the same pieces.
"""
