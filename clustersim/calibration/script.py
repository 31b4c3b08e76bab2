"""The script that measures a device: stand-alone PyTorch, kept beside this file as a template."""

from importlib.resources import files
from typing import Final

TEMPLATE: Final = "measure.py.txt"
"""Its file; no `.py`, because nothing here imports PyTorch."""


def measuring_script() -> str:
    """Return the text of the script."""
    return files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")
