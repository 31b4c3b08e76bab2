"""Completion of command lines in shells, answered without an import of the verbs.

    clustersim completion bash             a script, which the shell reads once
    clustersim __complete SHELL WORDS      what the script runs at each TAB

The verbs, their options and the keys of `--set` are read from `words.json`, which
`python -m tools.completion` writes; names of machines, models and scenarios are those of the
catalogue's folders, files those of the working folder.
"""
