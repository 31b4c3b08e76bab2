"""What answers show in a notebook: numbers, tables, charts and folders, of every kind."""

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest

import clustersim
from clustersim.answers import Presentable
from commands import ending

SMALL, ONE = {"batch.global": 16}, {"jobs": 1}


def checked():
    """Return the check of a log of one line."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        log.write_text("completed step: 1, seconds: 60.0, TFLOP/s/device: 50.0", encoding="utf-8")
        return clustersim.check(log, scenario="frontier-22b batch.global=16", **ONE)


ANSWERS = {
    "run": lambda: clustersim.simulate("frontier-22b", SMALL),
    "serve": lambda: clustersim.serve("llama3-70b-h100-serving", {"load.requests": 16}),
    "train": lambda: clustersim.train("megatron-1t-84-days"),
    "compare": lambda: clustersim.compare(
        ["frontier-22b", "frontier-22b plan.zero=0"], settings=SMALL, **ONE
    ),
    "whatif": lambda: clustersim.whatif(
        "frontier-22b batch.global=16", settings=["recompute=none"], **ONE
    ),
    "sweep": lambda: clustersim.sweep(
        "frontier-22b", over={"batch.micro": [1, 2], "plan.zero": [0, 1]}, settings=SMALL, **ONE
    ),
    "search": lambda: clustersim.search(
        "frontier-22b",
        settings={
            **SMALL,
            "plan.tensor": 8,
            "recompute": "none",
            "batch.micro": 1,
            "plan.schedule": "1f1b",
            "plan.layers": "even",
        },
        **ONE,
    ),
    "scale": lambda: clustersim.scale("frontier-22b", strong=[16, 32], settings=SMALL, **ONE),
    "size": lambda: clustersim.size("dgx-h100", nodes=2, model="llama2-7b", tokens=2e10),
    "collective": lambda: clustersim.collective("dgx-h100", "all-reduce", devices=8, bytes=2**20),
    "check": checked,
    "validate": lambda: clustersim.validate(groups=["megatron-h100-weak"], **ONE),
}
"""An answer of each command."""

large = pytest.mark.large
QUICK = ("run", "sweep", "collective")
NAMES = [name if name in QUICK else pytest.param(name, marks=large) for name in ANSWERS]


@cache
def answer_of(name):
    return ANSWERS[name]()


class Balance(HTMLParser):
    """Which tags are open, and all text."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text = [], set(), ""

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.text += text


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_numbers_and_the_names_of_charts_and_tables(name):
    """The HTML is whole and runs nothing; the representation is one line."""
    answer, page = answer_of(name), Balance()
    page.feed(answer._repr_html_())

    assert isinstance(answer, Presentable)
    assert "\n" not in repr(answer)
    assert page.open == []
    assert page.tags <= {
        "div", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "code"
    }  # fmt: skip
    assert answer.files().page.title in page.text
    assert all(f".plot.{chart}()" in page.text for chart in dir(answer.plot))
    assert len(page.text) < 12_000


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_an_answer_are_those_of_its_folder(name, tmp_path):
    """`save` writes what it lists, and `to_frame` has the numbers of each file."""
    answer, folder = answer_of(name), tmp_path / "saved"
    names = answer.save(folder)

    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    assert {"summary.json", "report.html"} <= {*names}
    for file in [each for each in folder.glob("*.csv") if each.stat().st_size]:
        stored, frame = pd.read_csv(file), answer.to_frame(file.name)
        assert [*stored.columns] == [*map(str, frame.columns)]
        assert len(stored) == len(frame)
        for column in stored.select_dtypes("number"):
            values = pd.to_numeric(frame[column]).to_list()
            assert stored[column].to_list() == pytest.approx(values, nan_ok=True)
    assert answer.to_frame().shape[0] > 0


@pytest.mark.parametrize("name", NAMES)
def test_both_libraries_draw_every_chart(name):
    """They have the same title, and no colour is a name that only a page knows."""
    charts = answer_of(name).plot
    for chart in dir(charts):
        drawn, written = getattr(charts, chart)(), getattr(charts, chart)(backend="plotly")
        title = written.layout.title.text.replace("<br>", " ").replace("&gt;", ">")

        assert drawn.texts[0].get_text().replace("\n", " ") == title
        assert drawn._repr_png_().startswith(b"\x89PNG")
        assert "var(--" not in written.to_json()


def test_a_chart_is_drawn_by_its_own_name():
    """Charts were drawn by the order of the alphabet, and had each other's names."""
    charts = answer_of("run").plot

    assert charts.breakdown().texts[0].get_text().startswith("Compute takes")
    assert charts.memory(backend="plotly").layout.title.text.startswith("Memory of stage")
    assert charts.timeline().texts[0].get_text().startswith("Pipeline bubbles")


def test_a_line_across_a_chart_crossed_the_charts_below():
    """What spans the paper of a page spans its own chart, of several one above the other."""
    shapes = answer_of("run").plot.memory(backend="plotly").layout.shapes

    assert [(shape.xref, shape.yref) for shape in shapes] == [
        ("x domain", "y"), ("x2 domain", "y2")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("sweep", "sweep frontier-22b --over batch.micro=1,2 --over plan.zero=0,1"
         " --set batch.global=16 --jobs 1 --store {folder}/runs.db"),
        ("collective", "collective --cluster dgx-h100 --op all-reduce --devices 8 --bytes 1MiB"),
    ],
)  # fmt: skip
def test_the_folder_is_that_of_the_command(name, command, tmp_path, capsys):
    """The same files with the same bytes; the page of a command states it as well."""
    words = command.format(folder=tmp_path).split()
    ending(capsys, *words, "--out", tmp_path / "command", "--figures", "svg")
    names = answer_of(name).save(tmp_path / "saved", figures=["svg"])

    assert sorted(names) == sorted(path.name for path in (tmp_path / "command").iterdir())
    for file in names:
        if not re.search("summary|report|parquet", file):
            saved = (tmp_path / "saved" / file).read_bytes()
            assert saved == (tmp_path / "command" / file).read_bytes(), file


def test_what_an_answer_does_not_have_is_one_line():
    """The message has the nearest name, or all of them."""
    sweep = answer_of("sweep")

    with pytest.raises(clustersim.ScenarioError) as table:
        sweep.to_frame("paretto")
    with pytest.raises(AttributeError) as chart:
        _ = sweep.plot.bars
    with pytest.raises(clustersim.ScenarioError) as backend:
        sweep.plot.sweep(backend="bokeh")

    assert str(table.value) == (
        "table 'paretto': no such table (did you mean 'pareto'?) (this answer has sweep, pareto)"
    )
    assert str(chart.value) == "this answer has no chart 'bars' (it has sweep, pareto)"
    assert str(backend.value) == "backend: 'bokeh': unknown (allowed: matplotlib, plotly)"
    assert repr(sweep.plot) == "<charts: sweep, pareto>"


def test_a_folder_of_others_is_not_replaced(tmp_path):
    """As with the command, unless it is forced."""
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(clustersim.ScenarioError, match="has files that are not the output"):
        answer_of("collective").save(tmp_path)
    answer_of("collective").save(tmp_path, force=True)
    assert (tmp_path / "mine.txt").read_text() == "mine"
