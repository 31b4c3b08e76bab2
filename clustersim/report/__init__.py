"""Renders answers as text, tables, figures, pages and traces; computes nothing.

A run comes as a `Result`, all else as the plain values of ``--json``.  Of each answer there are at
most four modules: its text (`sweep`), what its figure shows (`sweep_picture`), who draws it
(`sweep_figure`) and who writes its files (`sweep_files`); its page is `page.of_sweep`.
"""
