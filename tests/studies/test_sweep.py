"""`clustersim sweep` and `clustersim study`: combinations, the best, the front, bad input."""

import json
from dataclasses import replace
from math import prod

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from answers import answer
from clustersim import sweep
from clustersim.answers import from_json, to_json
from clustersim.cli import main
from clustersim.errors import ScenarioError
from clustersim.render.charts.picture import Table
from clustersim.render.page.page import Chart, render
from clustersim.render.tables import Row as Line
from clustersim.render.words import short_keys
from clustersim.runs.cache_key import key_of
from clustersim.runs.store import Store
from clustersim.runs.variants import INVALID, MEMORY_ONLY, RAN, MemoryEstimate, Run, Variant
from clustersim.scenario.load import load
from clustersim.studies.sweep import SweepAnswer
from clustersim.studies.sweep.arguments import read_axes
from clustersim.studies.sweep.charts import layouts_chart
from clustersim.studies.sweep.combinations import DEGREES, filled_keys, grid
from clustersim.studies.sweep.page import page
from clustersim.studies.sweep.ranking import rank_layouts
from clustersim.studies.sweep.shared_reasons import reasons_of
from clustersim.studies.sweep.text import rows
from small import AXES, small


def ending(capsys, *arguments):
    """Return exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code or 0, *capsys.readouterr()


def combinations(file, over, settings=()):
    """Return the variants of a sweep."""
    return grid(str(file), load(file, settings), read_axes(over))


def swept(capsys, *arguments):
    """Return what a sweep prints as JSON."""
    code, out, complaint = ending(capsys, "sweep", *arguments, "--jobs", "1", "--json")
    assert (code, complaint) == (0, "")
    return json.loads(out)


# --- combinations ---------------------------------------------------------------------------------


@given(
    st.sampled_from(DEGREES),
    st.dictionaries(st.sampled_from(DEGREES), st.integers(1, 12)),
    st.integers(1, 64),
)
@settings(max_examples=20, deadline=None)
def test_a_filled_degree_takes_the_remaining_devices(tmp_path_factory, axis, degrees, nodes):
    """The four degrees multiply to the devices; or the problem has the arithmetic."""
    others = {name: degrees.get(name, 1) for name in DEGREES if name != axis}
    changes = [f"cluster.nodes={nodes}", *(f"plan.{name}={n}" for name, n in others.items())]
    file = small(tmp_path_factory.getbasetemp())
    (variant,) = combinations(file, [f"plan.{axis}=fill"], changes)

    if 8 * nodes % prod(others.values()):
        assert variant.problem is not None
        assert variant.problem.startswith(f"plan.{axis}=fill: {8 * nodes} devices / (")
    else:
        plan = variant.load().scenario.plan
        assert variant.point[f"plan.{axis}"] == getattr(plan, axis)
        assert prod(getattr(plan, name) for name in DEGREES) == 8 * nodes


def test_combinations_come_in_the_order_of_the_axes(tmp_path):
    """The last axis changes fastest, and each combination is there once."""
    over = {"plan.tensor": [2, 1], "batch.micro": [1, 2, 4]}
    points = [variant.point for variant in combinations(small(tmp_path), over)]

    assert [(p["plan.tensor"], p["batch.micro"]) for p in points] == [
        (2, 1), (2, 2), (2, 4), (1, 1), (1, 2), (1, 4),
    ]  # fmt: skip


def test_a_table_and_axes_are_combined(tmp_path, capsys, monkeypatch):
    """Each line of a table goes with each value of the other axes, and may be filled."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layouts.csv").write_text(
        "plan.tensor,plan.pipeline,plan.data\n2,2,fill\n3,1,fill\n", encoding="utf-8"
    )
    found = swept(
        capsys, str(small(tmp_path)), "--list", "layouts.csv", "--over", "batch.micro=1,2"
    )

    assert [(p["plan.data"], p["batch.micro"], p["verdict"]) for p in found["points"]] == [
        (2, 1, "fits"), (2, 2, "fits"), ("fill", 1, "invalid"), ("fill", 2, "invalid"),
    ]  # fmt: skip
    assert [(group["why"], group["count"]) for group in found["refused"]] == [
        (
            "plan.data=fill: 8 devices / (tensor 3 x pipeline 1 x context 1) = 2.667, which is not"
            " a whole number",
            2,
        )
    ]


def test_values_that_need_each_other_are_checked_together(tmp_path):
    """A value that means nothing alone is fine where another axis gives it a meaning."""
    over = ["finetune.method=lora,dora", "finetune.rank=8,16"]

    assert len(combinations(small(tmp_path), over)) == 4


def test_texts_and_values_are_the_same_runs(tmp_path):
    """Axes in Python have the points and the cache keys of the same axes as texts."""
    texts = ["plan.tensor=1,2", "recompute=none,full", "cluster.nic.bandwidth=x2,25 GB/s"]
    values = {
        "plan.tensor": [1, 2],
        "recompute": ["none", "full"],
        "cluster.nic.bandwidth": ["x2", "25 GB/s"],
    }
    file = small(tmp_path)
    both = [combinations(file, over) for over in (texts, values)]

    assert [v.point for v in both[0]] == [v.point for v in both[1]]
    assert [key_of(v.load()) for v in both[0]] == [key_of(v.load()) for v in both[1]]


def test_a_sweep_in_python_is_that_of_the_command_line(tmp_path, capsys, monkeypatch):
    """The function returns what the verb prints, and calls back for each run."""
    monkeypatch.chdir(tmp_path)
    file, calls = small(tmp_path), []
    printed = swept(capsys, str(file), "--over", "batch.micro=1,2,3", "--set", "plan.zero=1")
    answer = sweep(
        file,
        over={"batch.micro": [1, 2, 3]},
        settings={"plan.zero": 1},
        store="runs/studies.db",
        jobs=1,
        on_progress=lambda completed, total: calls.append((completed, total)),
    )

    assert to_json(answer) == printed | {"fresh": 0}
    assert from_json(SweepAnswer, printed) == replace(answer, fresh=3)
    assert calls[-1] == (3, 3)


def test_an_axis_without_values_is_an_error(tmp_path):
    """A list in Python may be empty, which no sweep can run."""
    with pytest.raises(ScenarioError, match=r"^--over batch\.micro: the list is empty$"):
        sweep(small(tmp_path), over={"batch.micro": []})


# --- the answer -----------------------------------------------------------------------------------


def run_of(verdict, rate, peak, capacity=10.0):
    """Return a run with a rate and a memory."""
    if verdict == INVALID:
        return Run(None, INVALID, f"--set x=1: x: {rate:g} is too much (at most {peak:g})")
    made_up = answer({"matmul": 1 / rate}, tokens=1)
    memory = replace(made_up.memory, peak_bytes=peak, capacity_bytes=capacity, fits=verdict == RAN)
    if verdict == MEMORY_ONLY:
        return Run("a", MEMORY_ONLY, "too large", estimate=MemoryEstimate(memory, 8))
    return Run(f"{rate} {peak}", RAN, answer=replace(made_up, tokens_per_s=rate, memory=memory))


verdicts = st.builds(
    run_of, st.sampled_from([RAN, MEMORY_ONLY, INVALID]), st.integers(1, 9), st.integers(1, 9)
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return load(small(tmp_path_factory.mktemp("base")))


def sweep_of(base, runs, by="tokens_per_s"):
    """Return the answer of a sweep of one axis with some runs."""
    points = [Variant("small.yaml", (), {"batch.micro": i}) for i in range(len(runs))]
    return rank_layouts(base, points, runs, by=by)


@given(st.lists(verdicts, max_size=12), st.sampled_from(["tokens_per_s", "step_time_s"]))
@settings(max_examples=20, deadline=None)
def test_no_layout_beats_the_front(base, runs, by):
    """No layout beats one of the front in both; one of the front beats or equals any other."""
    answer = sweep_of(base, runs, by)
    fitting = [(-row["tokens_per_s"], row["memory_peak_bytes"]) for row in answer.fitting]
    front = [(-row["tokens_per_s"], row["memory_peak_bytes"]) for row in answer.front]

    assert len(fitting) == answer.counts.fits == sum(run.verdict == RAN for run in runs)
    for one in front:
        assert not any(beats(other, one) for other in fitting)
    for one in fitting:
        assert any(other == one or beats(other, one) for other in front)
    assert front == sorted(set(front), key=lambda pair: pair[1])
    assert fitting == sorted(fitting)


def beats(one, other):
    return one != other and one[0] <= other[0] and one[1] <= other[1]


@given(st.lists(verdicts, max_size=12))
@settings(max_examples=20, deadline=None)
def test_every_combination_is_counted_once(base, runs):
    """Verdicts add up to the combinations, and reasons to the invalid ones."""
    answer = sweep_of(base, runs)

    assert sum(vars(answer.counts).values()) == len(runs) == len(answer.points)
    assert sum(reason.count for reason in answer.invalid) == answer.counts.invalid
    assert len(answer.invalid) <= 1  # they differ in numbers only
    json.dumps(to_json(answer), allow_nan=False)


def test_reasons_have_no_place(base):
    """A reason begins with its key, whatever the value is, and counts equal reasons."""
    complaint = "recompute.stages: there is no stage {} (0 to 1)"
    settings = [f"recompute={{mode: full, stages: [0, {i}]}}" for i in (2, 9)]
    variants = [Variant("small.yaml", (each,), {"recompute": each}) for each in settings]
    places = [f"--set {settings[0]}", "my folder/small.yaml:4"]
    runs = [
        Run(place, INVALID, f"{place}: {complaint.format(i)}")
        for place, i in zip(places, (2, 9), strict=True)
    ]
    (reason,) = rank_layouts(base, variants, runs).invalid

    assert (reason.why, reason.count) == (complaint.format(2), 2)


def test_the_best_layout_is_printed_with_its_changes(tmp_path, capsys, monkeypatch):
    """The answer has the best layout, its changes of the scenario, and the verdicts."""
    monkeypatch.chdir(tmp_path)
    arguments = (str(small(tmp_path)), *(f"--over={axis}" for axis in AXES))
    code, out, _ = ending(capsys, "sweep", *arguments, "--jobs", "1")
    found = swept(capsys, *arguments)
    lines = out.splitlines()
    best = found["points"][found["best"]]

    assert code == 0
    assert lines[0] == "A small model on eight A100"
    assert lines[1].startswith("axes          18 combinations: tensor 1, 2, 4; pipeline 1, 2, 4;")
    assert lines[2] == "verdicts      16 fit, 2 invalid"
    assert best["tokens_per_s"] == max(p.get("tokens_per_s", 0) for p in found["points"])
    assert lines[3].startswith(f"best          tensor {best['plan.tensor']}, pipeline ")
    assert lines[4] == "changes       tensor 2 -> 1, pipeline 2 -> 1, data 2 -> 8, micro 1 -> 2"
    assert found["fresh"] == 0
    assert found["changed"]["batch.micro"] == {"from": 1, "to": 2}


def test_files_of_a_sweep_agree(tmp_path, capsys, monkeypatch):
    """The tables hold every combination, the figures are not blank, the summary lists them all."""
    monkeypatch.chdir(tmp_path)
    ending(
        capsys, "sweep", str(small(tmp_path)), "--over=plan.tensor=1,2,16", "--over=plan.data=fill",
        "--over=recompute=none,full", "--jobs=1", "--figures=png",
    )  # fmt: skip
    folder = tmp_path / "runs" / "small-sweep"
    summary = json.loads((folder / "summary.json").read_text())
    table, parquet = pd.read_csv(folder / "sweep.csv"), pd.read_parquet(folder / "sweep.parquet")

    assert {path.name for path in folder.iterdir()} == set(summary["files"])
    assert list(table["verdict"]) == [each["verdict"] for each in summary["points"]]
    assert list(parquet["plan.data"]) == ["4", "4", "2", "2", "fill", "fill"]
    assert table["tokens_per_s"].max() == summary["points"][summary["best"]]["tokens_per_s"]
    for name in ("sweep.png", "pareto.png"):
        assert imread(folder / name).std() > 0.05
    front = pd.read_csv(folder / "pareto.csv")
    assert front["on_the_front"].sum() == len(summary["pareto"]["positions"])


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_sweep_without_a_layout_that_fits_has_an_answer(tmp_path, capsys, monkeypatch, axes):
    """Where no layout fits, the answer is printed, and files are written without a front."""
    monkeypatch.chdir(tmp_path)
    over = ["--over=batch.micro=1,2", "--over=plan.zero=0,3", "--over=recompute=none,full"][:axes]
    code, out, _ = ending(
        capsys,
        "sweep",
        str(small(tmp_path)),
        "--set=model=gpt3-175b",
        "--jobs=1",
        "--figures=png",
        *over,
    )
    found = {path.name for path in (tmp_path / "runs" / "small-sweep").iterdir()}

    assert code == 0
    assert "best          no layout fits" in out.splitlines()
    assert found == {
        "report.html", "summary.json", "sweep.csv", "sweep.parquet", "sweep.png",
    }  # fmt: skip


AXES_OF_PAGES = (["batch.micro"], ["batch.micro", "recompute"], ["a", "b", "batch.micro"])


@pytest.mark.parametrize("keys", AXES_OF_PAGES, ids=["bars", "heat map", "parallel"])
def test_a_page_shows_every_layout_and_keeps_words_as_words(base, keys):
    """Each chart has a table of its layouts, and no name is read as HTML."""
    wicked = "<img src=x onerror=alert(1)>"
    runs = [run_of(RAN, 3, 4), run_of(MEMORY_ONLY, 1, 20), run_of(RAN, 2, 1), run_of(INVALID, 1, 1)]
    points = [dict.fromkeys(keys, f"{wicked}{i}") for i in range(len(runs))]
    variants = [Variant("small.yaml", (), point) for point in points]
    made = page(rank_layouts(base, variants, runs), "clustersim sweep")
    html = render(made)
    charts = [block for s in made.sections for block in s.blocks if isinstance(block, Chart)]

    assert [section.id for section in made.sections] == ["answer", "layouts", "pareto", "invalid"]
    assert [len(chart.table.rows) for chart in charts] == [2 if len(keys) == 3 else 4, 2]
    assert wicked not in html
    assert "clustersim sweep" in html


def test_layouts_of_a_sweep_were_paragraphs_and_fill_had_no_axis(tmp_path):
    """The table has a sortable column for each axis, and parallel coordinates one for `fill`."""
    over = {"plan.tensor": [1, 2], "plan.data": ["fill"], "batch.micro": [1, 2]}
    over["recompute"] = ["none", "full"]
    found = sweep(str(small(tmp_path)), over=over, jobs=1)
    made = page(found)
    (table,) = [
        block for section in made.sections for block in section.blocks
        if isinstance(block, Table) and block.filter
    ]  # fmt: skip
    chart = layouts_chart(found)
    names = [column.name for column in table.columns]

    assert names[:5] == ["rank", "tensor", "data", "micro", "recompute"]
    assert [row[0] for row in table.rows] == [str(i + 1) for i in range(len(found.fitting))]
    assert [row[1] for row in table.rows] == [str(row["plan.tensor"]) for row in found.fitting]
    assert 'class="sort">tensor</button>' in render(made)
    assert [axis.label for axis in chart.axes] == ["tensor", "data (filled)", "micro", "recompute"]
    assert [name for _, name in chart.axes[1].ticks] == ["2", "4"]


def test_a_name_stays_short_where_it_can(base):
    """An axis is called by its last word, unless two have the same."""
    assert short_keys(["plan.tensor", "plan.sequence_parallel"]) == ["tensor", "sequence parallel"]
    assert short_keys(["a.size", "b.size", "c"]) == ["a.size", "b.size", "c"]


def test_only_what_is_filled_everywhere_is_filled():
    """An axis with values next to `fill` is not filled."""
    assert filled_keys(read_axes(["plan.data=fill", "plan.tensor=1,2"])) == ("plan.data",)
    assert filled_keys(read_axes(["plan.data=fill,2"])) == ()


def test_failures_have_their_own_lines(base):
    """A run that failed is listed with its error."""
    answer = sweep_of(base, [run_of(RAN, 1, 1), Run("b", "failed", "KeyError: 'x'")])

    assert Line("failed", "micro 1 (1 combination): KeyError: 'x'", warning=True) in rows(answer)


def test_a_problem_of_a_range_of_values_was_a_line_for_each_combination(tmp_path):
    """Problems that differ by their numbers are one line with the values that always have it."""
    over = {"plan.tensor": [2, 3], "plan.pipeline": [2, 5, 7, 9, 10, 11], "batch.micro": [1, 7]}
    found = sweep(str(small(tmp_path)), over=over, jobs=1)
    starts = [": ".join(line.text.split(": ")[:2]) for line in rows(found)]

    assert len(found.invalid) == 4
    assert "micro 7 (12 combinations): batch.global" in starts
    assert "tensor 3 (12 combinations): plan.tensor" in starts
    assert "pipeline 5, 7, 9-11 (20 combinations): plan.pipeline" in starts
    assert "tensor 3; pipeline 5, 7, 9-11 (22 combinations): plan" in starts


def test_reasons_that_are_not_printed_are_counted(base):
    """Five reasons are printed, and how many more there are."""
    faults = [Run(str(i), "failed", f"{'abcdefg'[i]}Error: 'x'") for i in range(7)]
    lines = [line.text for line in rows(sweep_of(base, faults)) if line.label == "failed"]

    assert len(lines) == 6
    assert lines[-1] == "and 2 more reasons (the page and --json list all)"


@given(st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=9))
def test_values_of_a_reason_are_those_of_invalid_combinations_only(wrong):
    """Every combination with such a value has the reason, in a full grid."""
    grid_points = [(a, b) for a in range(3) for b in range(3)]
    both = [
        (Variant("s.yaml", (), {"a": a, "b": b}), run_of(INVALID if (a, b) in wrong else RAN, 1, 1))
        for a, b in grid_points
    ]
    for reason in reasons_of(both, INVALID):
        assert reason.count == len(wrong)
        for key, values in reason.values.items():
            assert {p for p in grid_points if p["ab".index(key)] in values} <= wrong


# --- bad input ------------------------------------------------------------------------------------

OVER = "--over=batch.micro=1,2"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "--over: no axis"),
        (["--over=plan.tensr=1,2"], "--over plan.tensr=1: plan.tensr: unknown key (did"),
        (["--over=plan.tensor=1,two"], "--over plan.tensor=two: plan.tensor: must be"),
        (["--over=model=gpt3-1.3b,gpt-2"], "--over model=gpt-2: model: no model named 'gpt-2'"),
        (["--over=recompute=none,all"], "--over recompute=all: recompute: "),
        (["--over=plan.tensor="], "--over plan.tensor=: the list is empty"),
        ([OVER, "--over=batch.micro=4"], "--over batch.micro: set by two axes"),
        ([OVER, "--over=batch.global=fill"], "--over batch.global=fill: batch.global: cannot be"),
        (
            ["--over=plan.data=fill", "--over=plan.tensor=fill"],
            "--over: plan.data and plan.tensor cannot both be filled",
        ),
        (["--over=a=1:1000:1", "--over=b=1:1000:1"], "--over: 1000 x 1000 = 1,000,000"),
        (["--list=none.csv"], "none.csv: no such file"),
        ([OVER, "--by=speed"], "--by speed: unknown (allowed: tokens_per_s, "),
        ([OVER, "--pareto=money"], "--pareto money: unknown (did you mean 'memory'?)"),
        ([OVER, "--set=plan.zro=1"], "--set plan.zro=1: plan.zro: unknown key"),
        ([OVER, "--out=taken"], "taken: already exists and has files that are not the output"),
        ([OVER, "--store=taken"], "taken: is a folder, not a run cache"),
        ([OVER, "--store=small.yaml"], "small.yaml: is not a run cache of clustersim"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("exists", [False, True], ids=["no store", "a store"])
def test_bad_input_is_one_line_and_the_store_is_untouched(
    tmp_path, capsys, monkeypatch, arguments, complaint, exists
):
    """Exit code 2, one line, nothing run, and no store made or changed."""
    monkeypatch.chdir(tmp_path)
    small(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "theirs").touch()
    store = tmp_path / "runs" / "studies.db"
    if exists:
        Store(store).__exit__(None, None, None)
    before = store.read_bytes() if exists else None
    code, out, message = ending(capsys, "sweep", "small.yaml", *arguments)

    assert (code, out) == (2, "")
    assert message.startswith(complaint)
    assert message.count("\n") == 1
    assert (store.read_bytes() if store.exists() else None) == before


# --- looking at a store ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return a store with two sweeps in it."""
    folder = tmp_path_factory.mktemp("store")
    for axis in ("batch.micro=1,2,3", "plan.tensor=2,16"):
        with pytest.raises(SystemExit):
            main(
                ["sweep", str(small(folder)), f"--over={axis}", "--json", "--jobs=1",
                 f"--store={folder / 'mine.db'}"]
            )  # fmt: skip
    return folder / "mine.db"


def test_a_store_lists_its_studies(store, capsys):
    """A line for each study with its counts, and the same as JSON."""
    code, out, _ = ending(capsys, "study", str(store))
    listed = json.loads(ending(capsys, "study", str(store), "--json")[1])

    assert code == 0
    assert len(out.splitlines()) == 3
    assert [(s["runs"], s["fits"], s["refused"], s["left"]) for s in listed["studies"]] == [
        (3, 2, 1, 0), (2, 1, 1, 0),
    ]  # fmt: skip
    assert all(s["name"].startswith("sweep-small-") for s in listed["studies"])


def test_a_study_is_shown_by_number_or_name(store, capsys):
    """Both pick the same study; its points have what the sweep had."""
    name = json.loads(ending(capsys, "study", str(store), "--json")[1])["studies"][1]["name"]
    by_number = json.loads(ending(capsys, "study", str(store), "--name=2", "--json")[1])
    by_name = json.loads(ending(capsys, "study", str(store), f"--name={name}", "--json")[1])
    _, out, _ = ending(capsys, "study", str(store), "--name=2")

    assert by_number == by_name
    assert [(p["plan.tensor"], p["verdict"]) for p in by_name["points"]] == [
        (2, "fits"), (16, "invalid"),
    ]  # fmt: skip
    assert out.splitlines()[1].split() == ["tensor", "verdict", "step", "tokens/s", "MFU", "GiB"]


def test_exports_hold_every_run(store, capsys, tmp_path):
    """CSV and Parquet have the same rows, and an existing file is kept without --force."""
    csv, parquet = tmp_path / "a.csv", tmp_path / "a.parquet"
    files = (f"--csv={csv}", f"--parquet={parquet}")
    code, _, _ = ending(capsys, "study", str(store), "--name=1", *files)
    both = pd.read_csv(csv), pd.read_parquet(parquet)
    rejected = ending(capsys, "study", str(store), "--name=2", f"--csv={csv}")
    kept = pd.read_csv(csv)
    forced, _, _ = ending(capsys, "study", str(store), "--name=2", f"--csv={csv}", "--force")

    assert (code, forced) == (0, 0)
    assert [list(table["verdict"]) for table in both] == [["fits", "fits", "invalid"]] * 2
    assert list(both[0]["step_time_s"][:2]) == list(both[1]["step_time_s"][:2])
    assert rejected == (2, "", f"{csv}: already exists (use --force)\n")
    assert len(kept) == 3
    assert len(pd.read_csv(csv)) == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--name=3"], "--name 3: no such study in "),
        (["--name=sweep"], "--name sweep: no such study in "),
        (["--csv=all.csv"], "--name: required, "),
    ],
)
def test_an_unknown_study_is_one_line(store, capsys, tmp_path, monkeypatch, arguments, complaint):
    """Exit code 2 and the reason; no file is written."""
    monkeypatch.chdir(tmp_path)
    code, out, message = ending(capsys, "study", str(store), *arguments)

    assert (code, out, message.count("\n")) == (2, "", 1)
    assert message.startswith(complaint)
    assert [*tmp_path.iterdir()] == []


def test_a_missing_run_cache_is_not_created(capsys, tmp_path):
    """Listing a run cache that does not exist is an error, and does not create it."""
    path = tmp_path / "none.db"
    code, out, message = ending(capsys, "study", str(path))

    assert (code, out) == (2, "")
    assert message == f"{path}: no such file (clustersim sweep writes one)\n"
    assert not path.exists()
