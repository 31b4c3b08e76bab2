"""The notebooks of the documentation run where clustersim is installed, and nothing else is."""

import re
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NAMES = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def read(name):
    return nbformat.read(FOLDER / name, as_version=4)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_short_and_has_no_outputs(name):
    """It says what one sees, needs no file of the repository, and stores no number."""
    notebook = read(name)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]

    nbformat.validate(notebook)
    assert len(code) <= 10
    assert len(texts) >= len(code) / 2
    assert texts[0].startswith("# ")
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert not re.search(r"\.\./|docs/|tests/|scenarios/", "".join(cell.source for cell in code))


@pytest.mark.large
@pytest.mark.exhaustive  # `make wheel-test` runs them as well, where only the wheel is installed
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("default")  # of the libraries of the kernel
def test_a_notebook_runs_and_shows_something_in_each_cell(name, tmp_path):
    """No cell fails in an empty folder; a cell that ends in an expression shows it."""
    from nbclient import NotebookClient

    notebook = read(name)
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()

    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        shown = [output for output in cell.outputs if output.output_type != "stream"]
        last = cell.source.splitlines()[-1]
        assert shown or last.startswith(("!", "os.", "mlx")), cell.source
        for output in shown:
            assert {"image/png", "text/html", "text/plain", "application/vnd.plotly.v1+json"} & {
                *output.data
            }
    assert any("image/png" in output.get("data", {}) for cell in notebook.cells
               for output in cell.get("outputs", ()))  # fmt: skip
