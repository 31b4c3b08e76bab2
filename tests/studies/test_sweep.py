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
from clustersim.cli import main
from clustersim.render.page.page import Chart, render
from clustersim.render.tables import Row
from clustersim.runs.store import Store
from clustersim.runs.variants import INVALID, MEMORY_ONLY, RAN, MemoryEstimate, Run, Variant
from clustersim.scenario.load import load
from clustersim.studies.sweep.answer import Sweep
from clustersim.studies.sweep.axes import axis_of
from clustersim.studies.sweep.grid import DEGREES, filled, grid
from clustersim.studies.sweep.page import page
from clustersim.studies.sweep.text import rows, short
from clustersim.studies.sweep.told import Told
from small import AXES, small


def ending(capsys, *arguments):
    """Return exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code or 0, *capsys.readouterr()


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
def test_what_is_filled_makes_the_product_of_degrees_the_devices(
    tmp_path_factory, axis, degrees, nodes
):
    """Filled, the four degrees multiply to the devices; or the arithmetic says why not."""
    said = {name: degrees.get(name, 1) for name in DEGREES if name != axis}
    changes = [f"cluster.nodes={nodes}", *(f"plan.{name}={n}" for name, n in said.items())]
    file = str(small(tmp_path_factory.getbasetemp()))
    (variant,) = grid(file, changes, [axis_of(f"plan.{axis}=fill")])

    if 8 * nodes % prod(said.values()):
        assert variant.problem is not None
        assert variant.problem.startswith(f"plan.{axis}=fill: {8 * nodes} devices / (")
    else:
        plan = variant.load().scenario.plan
        assert variant.point[f"plan.{axis}"] == getattr(plan, axis)
        assert prod(getattr(plan, name) for name in DEGREES) == 8 * nodes


def test_combinations_come_in_the_order_of_the_axes(tmp_path):
    """The last axis changes fastest, and each combination is there once."""
    axes = [axis_of("plan.tensor=2,1"), axis_of("batch.micro=1:4")]
    points = [variant.point for variant in grid(str(small(tmp_path)), [], axes)]

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
            "plan.data=fill: 8 devices / (tensor 3 x pipeline 1 x context 1) = 2.667, which is no"
            " whole number",
            2,
        )
    ]


def test_values_that_need_each_other_are_tried_together(tmp_path):
    """A value that means nothing alone is fine where another axis gives it a meaning."""
    axes = [axis_of("finetune.method=lora,dora"), axis_of("finetune.rank=8,16")]

    assert len(grid(str(small(tmp_path)), [], axes)) == 4


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
    """Return a sweep of one axis with some runs."""
    points = [Variant("small.yaml", (), {"batch.micro": i}) for i in range(len(runs))]
    return Sweep(base, points, runs, by=by)


@given(st.lists(verdicts, max_size=12), st.sampled_from(["tokens_per_s", "step_time_s"]))
@settings(max_examples=20, deadline=None)
def test_the_front_is_what_nothing_beats(base, runs, by):
    """Who is on the front is beaten by none that fits; who is not, is no better than one on it."""
    sweep = sweep_of(base, runs, by)
    fitting = [(-each["tokens_per_s"], each["memory_peak_bytes"]) for each in sweep.ranked]
    front = [(-each["tokens_per_s"], each["memory_peak_bytes"]) for each in sweep.front]

    assert len(fitting) == sweep.counts["fits"] == sum(run.verdict == RAN for run in runs)
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
    """Verdicts add up to the combinations, and reasons to those that are refused."""
    sweep = sweep_of(base, runs)

    assert sum(sweep.counts.values()) == len(runs) == len(sweep.rows)
    assert sum(group.count for group in sweep.reasons()) == sweep.counts["refused"]
    assert len(sweep.reasons()) <= 1  # they differ in numbers only
    json.dumps(sweep.to_json(), allow_nan=False)


def test_reasons_are_told_without_the_place_of_a_value(base):
    """A reason begins with its key, whatever the value is that was set, and counts its likes."""
    complaint = "recompute.stages: there is no stage {} (0 to 1)"
    settings = [f"recompute={{mode: full, stages: [0, {i}]}}" for i in (2, 9)]
    variants = [Variant("small.yaml", (each,), {"recompute": each}) for each in settings]
    places = [f"--set {settings[0]}", "my folder/small.yaml:4"]
    runs = [
        Run(place, INVALID, f"{place}: {complaint.format(i)}")
        for place, i in zip(places, (2, 9), strict=True)
    ]
    (group,) = Sweep(base, variants, runs).reasons()

    assert (group.why, group.count) == (complaint.format(2), 2)


def test_the_best_is_told_with_what_it_changes(tmp_path, capsys, monkeypatch):
    """The answer has the best first, says how it differs from the scenario, and keeps verdicts."""
    monkeypatch.chdir(tmp_path)
    arguments = (str(small(tmp_path)), *(f"--over={axis}" for axis in AXES))
    code, out, _ = ending(capsys, "sweep", *arguments, "--jobs", "1")
    found = swept(capsys, *arguments)
    lines = out.splitlines()
    best = found["points"][found["best"]]

    assert code == 0
    assert lines[0] == "A small model on eight A100"
    assert lines[1].startswith("swept         18 combinations: tensor 1, 2, 4; pipeline 1, 2, 4;")
    assert lines[2] == "verdicts      16 fit, 2 refused"
    assert best["tokens_per_s"] == max(p.get("tokens_per_s", 0) for p in found["points"])
    assert lines[3].startswith(f"best          tensor {best['plan.tensor']}, pipeline ")
    assert (
        lines[4]
        == "which changes tensor 1 (was 2), pipeline 1 (was 2), data 8 (was 2), micro 2 (was 1)"
    )
    assert found["fresh"] == 0
    assert found["changed"]["batch.micro"] == {"from": 1, "to": 2}


def test_files_of_a_sweep_are_whole_and_say_the_same(tmp_path, capsys, monkeypatch):
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
def test_a_sweep_without_a_layout_that_fits_is_told(tmp_path, capsys, monkeypatch, axes):
    """Where nothing fits the answer says so, and files are there without a front."""
    monkeypatch.chdir(tmp_path)
    said = ["--over=batch.micro=1,2", "--over=plan.zero=0,3", "--over=recompute=none,full"][:axes]
    code, out, _ = ending(
        capsys,
        "sweep",
        str(small(tmp_path)),
        "--set=model=gpt3-175b",
        "--jobs=1",
        "--figures=png",
        *said,
    )
    found = {path.name for path in (tmp_path / "runs" / "small-sweep").iterdir()}

    assert code == 0
    assert "best          none fits" in out.splitlines()
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
    told = Told(Sweep(base, variants, runs).to_json())
    made = page(told, "clustersim sweep")
    html = render(made)
    charts = [block for s in made.sections for block in s.blocks if isinstance(block, Chart)]

    assert [section.id for section in made.sections] == ["answer", "layouts", "pareto", "refused"]
    assert [len(chart.table.rows) for chart in charts] == [2 if len(keys) == 3 else 4, 2]
    assert wicked not in html
    assert "clustersim sweep" in html


def test_a_name_stays_short_where_it_can(base):
    """An axis is called by its last word, unless two have the same."""
    assert short(["plan.tensor", "plan.sequence_parallel"]) == ["tensor", "sequence parallel"]
    assert short(["a.size", "b.size", "c"]) == ["a.size", "b.size", "c"]


def test_only_what_is_filled_everywhere_is_filled():
    """An axis with other values beside `fill` is one that was chosen."""
    assert filled([axis_of("plan.data=fill"), axis_of("plan.tensor=1,2")]) == ("plan.data",)
    assert filled([axis_of("plan.data=fill,2")]) == ()


def test_failures_are_told_as_such(base):
    """A fault of ours stands beside the refusals, with its error."""
    sweep = sweep_of(base, [run_of(RAN, 1, 1), Run("b", "failed", "KeyError: 'x'")])

    assert Row("failed", "1 x KeyError: 'x' [micro 1]", alarm=True) in rows(Told(sweep.to_json()))


# --- bad input ------------------------------------------------------------------------------------

OVER = "--over=batch.micro=1,2"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "--over: nothing is swept"),
        (["--over=plan.tensr=1,2"], "--over plan.tensr=1: plan.tensr: unknown key (did"),
        (["--over=plan.tensor=1,two"], "--over plan.tensor=two: plan.tensor: input should be"),
        (["--over=model=gpt3-1.3b,gpt-2"], "--over model=gpt-2: model: no model named 'gpt-2'"),
        (["--over=recompute=none,all"], "--over recompute=all: recompute: "),
        (["--over=plan.tensor="], "--over plan.tensor=: the list is empty"),
        ([OVER, "--over=batch.micro=4"], "--over batch.micro: two axes set it"),
        ([OVER, "--over=batch.global=fill"], "--over batch.global=fill: batch.global: cannot be"),
        (
            ["--over=plan.data=fill", "--over=plan.tensor=fill"],
            "--over: plan.data and plan.tensor cannot both be filled",
        ),
        (["--over=a=1:1000:1", "--over=b=1:1000:1"], "--over: 1000 x 1000 = 1,000,000"),
        (["--list=none.csv"], "none.csv: cannot be read"),
        ([OVER, "--by=speed"], "--by speed: is not known (known: tokens_per_s, "),
        ([OVER, "--pareto=money"], "--pareto money: is not known (did you mean 'memory'?)"),
        ([OVER, "--set=plan.zro=1"], "--set plan.zro=1: plan.zro: unknown key"),
        ([OVER, "--out=taken"], "taken: already exists and is not the output of an earlier run"),
        ([OVER, "--store=taken"], "taken: is a folder, not a run cache"),
        ([OVER, "--store=small.yaml"], "small.yaml: is not a run cache of clustersim"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("there", [False, True], ids=["no store", "a store"])
def test_bad_input_is_one_line_and_the_store_is_untouched(
    tmp_path, capsys, monkeypatch, arguments, complaint, there
):
    """Exit code 2, one line, nothing run, and no store made or changed."""
    monkeypatch.chdir(tmp_path)
    small(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "theirs").touch()
    store = tmp_path / "runs" / "studies.db"
    if there:
        Store(store).__exit__(None, None, None)
    before = store.read_bytes() if there else None
    code, out, said = ending(capsys, "sweep", "small.yaml", *arguments)

    assert (code, out) == (2, "")
    assert said.startswith(complaint)
    assert said.count("\n") == 1
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
    told = json.loads(ending(capsys, "study", str(store), "--json")[1])

    assert code == 0
    assert len(out.splitlines()) == 3
    assert [(s["runs"], s["fits"], s["refused"], s["left"]) for s in told["studies"]] == [
        (3, 2, 1, 0), (2, 1, 1, 0),
    ]  # fmt: skip
    assert all(s["name"].startswith("sweep-small-") for s in told["studies"])


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
    """CSV and Parquet have the same rows, and a file in the way is kept without --force."""
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
def test_a_study_that_is_not_there_is_one_line(
    store, capsys, tmp_path, monkeypatch, arguments, complaint
):
    """Exit code 2, what was meant, and how to find out; nothing is written."""
    monkeypatch.chdir(tmp_path)
    code, out, said = ending(capsys, "study", str(store), *arguments)

    assert (code, out, said.count("\n")) == (2, "", 1)
    assert said.startswith(complaint)
    assert [*tmp_path.iterdir()] == []


def test_a_store_that_is_not_there_is_not_made(capsys, tmp_path):
    """Listing a store that does not exist is one line, and it still does not exist."""
    path = tmp_path / "none.db"
    code, out, said = ending(capsys, "study", str(path))

    assert (code, out) == (2, "")
    assert said == f"{path}: no such file (clustersim sweep writes one)\n"
    assert not path.exists()
