"""One self-contained HTML file about a simulation, for a browser without a network.

A result becomes plain data (`of_run`), the data sections of prose, tables, charts and drawings
(`page.Page`), and these one file (`page.render`).  Other pages are made of the same pieces.
"""
