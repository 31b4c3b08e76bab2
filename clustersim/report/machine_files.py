"""The folder of a machine's pictures, written whole or not at all."""

import json
from collections.abc import Mapping
from pathlib import Path

from clustersim import __version__
from clustersim.report.diagram import Diagram
from clustersim.report.drawing import draw
from clustersim.report.folder import SUMMARY, check_free, replacing
from clustersim.report.machine import Page
from clustersim.report.paper import OPTIONS


def write(
    page: Page, pictures: Mapping[str, Diagram], folder: Path, *, force: bool = False
) -> None:
    """Write every picture as PNG, SVG and PDF, and the page as ``summary.json``.

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    check_free(folder, force=force)
    names = [SUMMARY, *(f"{stem}{end}" for stem in pictures for end in OPTIONS)]
    with replacing(folder) as new:
        summary = {**page.to_json(), "version": __version__, "files": names}
        (new / SUMMARY).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        for stem, diagram in pictures.items():
            draw(diagram, new / stem)


__all__ = ["check_free", "write"]
