"""`clustersim run`: the answer, the files behind it, and what it rejects."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread
from pyarrow import csv, parquet
from typer.testing import CliRunner

from clustersim.cli import app
from clustersim.errors import ScenarioError, SimulationError
from clustersim.render.charts.timeline import covered
from clustersim.render.folder import check_free, is_ours, replacing
from clustersim.render.matplotlib import write_figure
from clustersim.render.render_process import RenderProcess
from clustersim.render.tables import table
from clustersim.reports.step.charts import memory_over_time
from clustersim.reports.step.files import FIGURE_TABLES, FIGURES, FILES
from clustersim.reports.step.pipeline import pipeline, views
from clustersim.reports.step.text import answer
from clustersim.simulation.step.simulate import simulate
from commands import ending, printed, rejected
from small import small

SMALL = ("frontier-22b", "--set", "batch.global=32")

KEYS = {
    "step_time_s",
    "interval",
    "nearest",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "tflops_per_device",
    "mfu",
    "hfu",
    "bubble_fraction",
    "bubble_overhead",
    "attribution",
    "memory",
    "published",
    "counts",
    "wall_s",
}
"""What a script may rely on."""

N, P = r"[\d.,]+(?:e[+-]\d+)?", r"[\d.]+ %"  # a number, a share

ANSWER = rf"""
GPT 22B on 16 GCDs of Frontier
machine       2 nodes of frontier, 16 x mi250x-gcd
model         gpt-22b in fp16, megatron-deepspeed-rocm5
layout        tensor 1 x pipeline 8 x data 2, 1f1b, ZeRO-1, full recomputation
batch         32 sequences of 2,048 tokens: 16 microbatches of 1 per replica
step time     {N} s, {N} tokens/s, {N} sequences/s
interval      {N} s to {N} s \(level 90 %, from {N} measured runs by nearness, {N} on .*\)
nearest runs  frontier-22b [+-]{N} % \({N} x mi250x-gcd, .*\)
FLOP rate     {N} model TFLOP/s per device \(MFU {P}\), {N} executed without masked .* \(HFU {P}\)
bubble        {P} of the step time \({P} of the time without bubbles\)
time          matmul {P}, bubble {P}(?:, [a-z ]+ {P}){{4}}
exposed       communication {P}: pipeline {N} m?s, data {N} m?s over n0.dev0>n0.dev1 \(limited by .*
memory        fits: {N} of 59.6 GiB on stage 0
memory use    optimiser {N}(?:, [a-z ]+ {N}){{4}}, other {N} GiB
busiest link  [\w.]+>[\w.]+, {P} of {N} GB/s, mean of the step
power         {N} kW mean, {N} kW peak; {N} W per device; {N} kJ per step, {N} J per token
data group    2 ranks on 1 node, over xgmi {N} GB/s
pipeline      8 ranks on 2 nodes, over nic {N} GB/s, xgmi {N} GB/s, bus {N} GB/s.*
embedding     2 ranks on 2 nodes, over nic {N} GB/s, bus {N} GB/s, xgmi {N} GB/s.*
published     TFLOP/s per device \(hardware FLOPs\) 73.5 for another run \(.* batch.global\); .*
assumed       3 keys: plan, batch, framework
"""


def invoke(*arguments):
    """Return what a successful command prints."""
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def result():
    return simulate(SMALL[0], [SMALL[2]])


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The text of a run, and its folder, which an earlier run had filled."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    folder.mkdir()
    for name in ("old.csv", "summary.json"):
        (folder / name).write_text(json.dumps({"files": ["old.csv", "summary.json"]}))
    return invoke("run", *SMALL, "--out", str(folder)), folder


def test_the_answer_is_about_ten_lines(result):
    """Each line has its label and its numbers with units."""
    lines, patterns = answer(result), ANSWER.strip().splitlines()

    assert len(lines) == len(patterns)
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), f"{line!r} is not like {pattern!r}"


def test_run_prints_the_answer_and_where_the_files_are(result, ran):
    """Off a terminal, lines are not broken."""
    text, folder = ran

    assert text.splitlines()[:-1] == answer(result)
    assert text.splitlines()[-1].startswith(f"files         {folder}/: report.html, ")


def test_a_terminal_gets_the_same_lines_as_a_table(result):
    """Too much memory catches the eye."""
    from rich.console import Console

    from clustersim.render.tables import Row
    from clustersim.reports.step.text import rows

    lines = [*rows(result), Row("memory", "does not fit", warning=True)]
    console = Console(width=60, force_terminal=True, color_system="standard")
    with console.capture() as shown:
        console.print(table(lines))

    text = re.sub(r"\x1b\[[\d;]*m", "", shown.get())
    assert "\x1b[1;31mdoes not fit" in shown.get()
    assert max(map(len, text.splitlines())) <= 60
    assert [line.split("  ")[0] for line in text.splitlines() if line[0] != " "] == [
        row.label for row in lines
    ]


def test_a_run_leaves_its_files_and_replaces_the_earlier_ones_whole(ran):
    """What an earlier run wrote and this one does not is gone; no other file remains."""
    _, folder = ran

    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_the_summary_is_what_json_prints_with_the_scenario(result, ran):
    """All promised keys are there, and the scenario with its changes."""
    summary = json.loads((ran[1] / "summary.json").read_text())

    assert summary.keys() >= KEYS
    assert summary["step_time_s"] == result.step_time
    assert summary["scenario"]["batch"]["global"] == 32
    assert summary["scenario"]["cluster"]["node"]["accelerator"]["name"] == "mi250x-gcd"


def test_the_timeline_table_holds_every_block(result, ran):
    """The Parquet file has a row for every block of every rank class."""
    blocks = parquet.read_table(ran[1] / "timeline.parquet")

    columns, track = blocks.to_pydict(), result.timeline.tracks[0]
    rows = len(track.start)
    assert blocks.num_rows == result.timeline.blocks
    for name in ("backward", "microbatch", "start", "end"):
        assert columns[name][:rows] == getattr(track, name).tolist()


def test_the_breakdown_table_adds_up(result, ran):
    """Parts that are too small to draw are all that is missing."""
    seconds = csv.read_csv(ran[1] / "breakdown.csv")["seconds"].to_pylist()

    assert sum(seconds) == pytest.approx(result.step_time, rel=1e-3)


FORMATS = ("png", "svg", "pdf")


@pytest.fixture(scope="module")
def figures(result, tmp_path_factory):
    """The folder of a run with all figures in all formats."""
    folder = tmp_path_factory.mktemp("figures") / "run"
    with RenderProcess() as process:
        result.files().write(folder, formats=FORMATS, process=process)
    return folder


@pytest.mark.parametrize("name", ["timeline", "breakdown", "memory"])
def test_figures_are_not_blank(figures, name):
    """Both formats show something: light and dark, and text."""
    pixels = imread(figures / f"{name}.png")[..., :3]
    drawing = (figures / f"{name}.svg").read_text()

    assert min(pixels.shape[:2]) > 200
    assert pixels.mean(axis=2).std() > 0.1
    assert "frontier-22b" in drawing
    assert "clustersim 0." in drawing
    assert "<dc:date>" not in drawing


@pytest.mark.large
def test_drawing_twice_gives_the_same_bytes(tmp_path):
    """A figure depends on nothing but its picture, painted above and block by block below."""
    pictures = views(pipeline(simulate("frontier-22b", ["batch.global=320"])))
    for stem in ("one", "two"):
        write_figure(pictures, tmp_path / stem)

    for suffix in ("png", "svg", "pdf"):
        one, two = ((tmp_path / f"{stem}.{suffix}").read_bytes() for stem in ("one", "two"))
        assert one == two


def test_figures_as_pdf_have_whole_fonts_and_come_with_their_data(result, figures):
    """Fonts are TrueType, no file has a date, and what a figure shows is in a CSV as well."""
    folder = figures
    timeline, memory = pipeline(result).columns(), memory_over_time(result)
    drawn = csv.read_csv(folder / "timeline.csv").to_pydict()
    fullest = csv.read_csv(folder / "memory_fullest.csv").to_pydict()
    layers = {layer.name: layer.values.tolist() for layer in memory.layers}

    figures = {f"{stem}.{end}" for stem in FIGURES for end in FORMATS}
    assert {path.name for path in folder.iterdir()} == {*FILES, *FIGURE_TABLES, *figures}
    assert is_ours(folder)
    for path in folder.glob("*.pdf"):
        content = path.read_bytes()
        assert b"/CIDFontType2" in content
        assert b"/Type3" not in content
        assert b"Date" not in content
    assert {name: values.tolist() for name, values in timeline.items()} == drawn
    assert {f"{name} [GiB]": values for name, values in layers.items()}.items() <= fullest.items()
    assert fullest["time [s]"] == memory.begins.tolist()


def test_a_pixel_is_covered_by_what_lies_in_it():
    """Half a bin that works is half covered; what begins outside counts from the edge."""
    start, end = np.array([0.0, 2.0, 3.5]), np.array([1.0, 3.0, 5.0])

    assert covered(start, end, np.array([0.0, 2.0, 4.0])).tolist() == [0.5, 0.75]


def test_json_is_one_object_and_writes_nothing(here):
    """`--json` alone is for scripts."""
    answered = json.loads(invoke("run", *SMALL, "--json"))

    assert answered.keys() >= KEYS
    assert {"model", "hardware", "executed"} == answered["tflops_per_device"].keys()
    assert {"peak_bytes", "capacity_bytes", "fits", "parts"} <= answered["memory"].keys()
    assert {"devices", "actors", "blocks", "activities"} <= answered["counts"].keys()
    assert {"metric", "value", "predicted", "error", "source"} <= answered["published"][0].keys()
    assert sum(answered["attribution"].values()) == pytest.approx(answered["step_time_s"])
    assert list(here.iterdir()) == []


def test_set_changes_the_answer():
    """Twice the batch takes longer and waits less."""
    once, twice = (
        json.loads(invoke("run", "frontier-22b", "--json", *settings))
        for settings in (SMALL[1:], (*SMALL[1:], "--set", "batch.global=x2"))
    )

    assert 1.3 < twice["step_time_s"] / once["step_time_s"] < 2
    assert twice["bubble_fraction"] < once["bubble_fraction"]


@pytest.mark.large
def test_json_with_out_does_both(tmp_path):
    """One object on standard output, and the files, in a process that draws with another."""
    script = (
        "import sys; from clustersim.cli import main\n"
        "try: main()\n"
        "finally: print({'matplotlib', 'pandas'} & sys.modules.keys(), file=sys.stderr)"
    )
    out = tmp_path / "new" / "run"
    done = subprocess.run(
        [sys.executable, "-c", script, "run", *SMALL, "--json", "--out", str(out)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert json.loads(done.stdout).keys() >= KEYS
    assert {path.name for path in out.iterdir()} == set(FILES)
    assert done.stderr == "set()\n" or _one_core()


def _one_core():
    return (os.cpu_count() or 1) < 2


@pytest.mark.parametrize(
    "content",
    [
        {"thesis.tex": "years of work"},
        {"summary.json": "mine"},
        {"summary.json": "[]"},
        {"summary.json": '{"files": ["summary.json"]}', "notes.txt": "mine as well"},
    ],
)
def test_a_folder_that_is_not_ours_is_left_alone(tmp_path, capsys, content):
    """There is one line before anything is simulated, and every file is as it was."""
    folder = tmp_path / "precious"
    folder.mkdir()
    for name, text in content.items():
        (folder / name).write_text(text)

    assert rejected(capsys, "run", *SMALL, "--out", folder) == (
        f"{folder}: already exists and has files that are not the output of an earlier run;"
        " use --force to write there and keep them, or choose another --out\n"
    )
    assert {path.name: path.read_text() for path in folder.iterdir()} == content
    assert list(tmp_path.iterdir()) == [folder]


def contents(folder):
    """Return the texts of all files of a folder, by path."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(files)}


def fill(folder, **others):
    """Write a folder as a run does, with the files of someone else."""
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps({"files": ["summary.json", "old.csv"]}))
    (folder / "old.csv").write_text("of an earlier run")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "a.ipynb").write_text("{}")
    (folder / ".DS_Store").write_text("Bud1")
    for name, text in others.items():
        (folder / name).write_text(text)


KEPT = {".ipynb_checkpoints/a.ipynb": "{}", ".DS_Store": "Bud1"}


def test_files_of_file_managers_and_notebooks_blocked_a_second_run(tmp_path):
    """They need no `--force`, and are there after the run."""
    place = tmp_path / "run"
    fill(place)

    check_free(place)
    with replacing(place) as new:
        (new / "summary.json").write_text("new")

    assert contents(place) == {"summary.json": "new", **KEPT}
    assert list(tmp_path.iterdir()) == [place]


def test_force_deleted_files_of_others(tmp_path):
    """It deletes what an earlier run has listed, and replaces files of the same name only."""
    place = tmp_path / "run"
    fill(place, thesis="years of work", report="mine")

    with pytest.raises(ScenarioError, match="has files that are not the output"):
        check_free(place)
    check_free(place, force=True)
    with replacing(place) as new:
        (new / "summary.json").write_text("new")
        (new / "report").write_text("ours")

    expected = {"summary.json": "new", "report": "ours", "thesis": "years of work"}
    assert contents(place) == {**expected, **KEPT}
    assert list(tmp_path.iterdir()) == [place]


def test_no_folder_is_deleted_and_an_error_leaves_all_as_it_was(tmp_path):
    """A folder with the name of a new file is an error; so is a fault while files are moved."""
    place = tmp_path / "run"
    fill(place)
    (place / "report.html").mkdir()
    before = contents(place)

    with pytest.raises(ScenarioError, match="is a folder"), replacing(place) as new:
        (new / "report.html").write_text("ours")

    assert contents(place) == before
    assert (place / "report.html").is_dir()
    assert list(tmp_path.iterdir()) == [place]


def test_a_failure_of_ours_ends_with_1(tmp_path, capsys, monkeypatch):
    """A broken law is not the user's fault, and leaves nothing behind either."""

    def broken(*_):
        raise SimulationError("link n0>n1 carries too much")

    monkeypatch.setattr("clustersim.engine.network.network.Network.check", broken)

    code, _, text = ending(capsys, "run", *SMALL, "--json", "--out", tmp_path / "run")

    assert code == 1
    assert text.startswith("internal error: SimulationError: link n0>n1 carries too much (please")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_ends_with_130(tmp_path, capsys, monkeypatch):
    """As shells expect; the earlier output stays."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("clustersim.reports.step.files.write_trace", interrupted)

    code, *_ = ending(capsys, "run", *SMALL, "--json", "--out", tmp_path / "run")

    assert code == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["whatif", "small.yaml", "--set", "plan.zero=1"],
        ["search", "small.yaml", *(f"--set={key}" for key in ("plan.tensor=2", "plan.pipeline=2",
         "batch.micro=1", "recompute=none", "plan.schedule=1f1b", "plan.layers=even"))],
        ["sweep", "small.yaml", "--over", "batch.micro=1,2"],
        ["scale", "small.yaml", "--weak", "8"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_only_some_verbs_had_an_option_for_the_machine(words, tmp_path, monkeypatch, capsys):
    """`--cluster` is the same as the change of its name, in every study."""
    small(tmp_path)
    monkeypatch.chdir(tmp_path)
    answers = []
    for machine in (["--cluster", "dgx-h100"], ["--set", "cluster.name=dgx-h100"]):
        text = words
        if words[0] == "whatif" and "--set" in machine:
            text, machine = [words[0], f"{words[1]} {machine[1]}", *words[2:]], []
        answer = printed(capsys, *text, *machine)
        answers.append({k: v for k, v in answer.items() if k not in ("wall_s", "fresh")})

    assert answers[0] == answers[1]
