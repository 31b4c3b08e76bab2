"""The folder of what `show` shows: a summary, texts, and drawings in some formats."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clustersim.render.folder import SUMMARY, check_free, replacing, write_summary

Draw = Callable[[Path, Sequence[str]], object]
"""Writes a drawing to a file without ending, in some formats."""


def write_files(
    folder: Path, summary: Mapping[str, Any], drawings: Mapping[str, Draw], *,
    texts: Mapping[str, str] | None = None, formats: Sequence[str] = (), force: bool = False,
) -> list[str]:  # fmt: skip
    """Write a summary, texts by file name and drawings by stem; return the file names.

    Raises
    ------
    ScenarioError
        when the folder already exists or is not writable.
    """
    check_free(folder, force=force)
    texts = texts or {}
    names = [SUMMARY, *texts, *(f"{stem}.{end}" for stem in drawings for end in formats)]
    with replacing(folder) as new:
        write_summary(summary, names, new)
        for name, text in texts.items():
            (new / name).write_text(text, encoding="utf-8")
        for stem, draw in drawings.items() if formats else ():
            draw(new / stem, formats)
    return names
