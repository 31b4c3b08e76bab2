"""The folder of a sweep: its rows as tables, its figures, what ``--json`` prints."""

from pathlib import Path


def write(sweep, folder: Path, *, force: bool = False) -> None:
    pass
