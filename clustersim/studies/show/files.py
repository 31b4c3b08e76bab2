"""The folder of a machine's pictures, written whole or not at all."""

from collections.abc import Mapping
from pathlib import Path

from clustersim.render.diagram import Diagram
from clustersim.render.folder import SUMMARY, check_free, replacing, write_summary
from clustersim.render.matplotlib.diagram import write_diagram
from clustersim.render.matplotlib.figure import OPTIONS
from clustersim.studies.show.text import Page


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
        write_summary(page.to_json(), names, new)
        for stem, diagram in pictures.items():
            write_diagram(diagram, new / stem)


__all__ = ["check_free", "write"]
