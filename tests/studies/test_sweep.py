"""`clustersim sweep`: combinations, the best within the limits, the front, bad input."""

import json
from dataclasses import asdict, replace
from functools import cache
from math import prod

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from answers import KINDS, answer, made_up, run_of, training_run
from clustersim import sweep
from clustersim.answers import from_json, to_json
from clustersim.errors import ScenarioError
from clustersim.memory.room import FITS, UNFIT, UNLIKELY
from clustersim.render.charts.picture import Table
from clustersim.render.page.page import Chart, render
from clustersim.render.tables import Row as Line
from clustersim.render.tables import short_keys
from clustersim.runs.cache_key import key_of
from clustersim.runs.variants import INVALID, MEMORY_ONLY, RAN, MemoryEstimate, Run, Variant
from clustersim.scenario.load import load, load_any, load_service
from clustersim.simulation.step.simulate import simulate
from clustersim.simulation.training_run.train import train
from clustersim.studies.study.answer import runs_table, stored_runs
from clustersim.studies.sweep import SweepAnswer
from clustersim.studies.sweep.answer import MISSES
from clustersim.studies.sweep.arguments import read_axes
from clustersim.studies.sweep.charts import layouts_chart, sweep_front
from clustersim.studies.sweep.combinations import DEGREES, filled_keys, grid
from clustersim.studies.sweep.files import files_of, page
from clustersim.studies.sweep.ranking import rank, reasons_of
from clustersim.studies.sweep.text import layout_tables, rows
from commands import output, printed
from small import AXES, small


def combinations(file, over, settings=()):
    """Return the variants of a sweep."""
    return grid(str(file), load(file, settings), read_axes(over))


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
        plan = variant.load_any().scenario.plan
        assert variant.point[f"plan.{axis}"] == getattr(plan, axis)
        assert prod(getattr(plan, name) for name in DEGREES) == 8 * nodes


def test_combinations_come_in_the_order_of_the_axes(tmp_path):
    """The last axis changes fastest, and each combination is there once."""
    over = {"plan.tensor": [2, 1], "batch.micro": [1, 2, 4]}
    points = [variant.point for variant in combinations(small(tmp_path), over)]

    assert [(p["plan.tensor"], p["batch.micro"]) for p in points] == [
        (2, 1), (2, 2), (2, 4), (1, 1), (1, 2), (1, 4),
    ]  # fmt: skip


def test_a_table_and_axes_are_combined(here, capsys):
    """Each line of a table goes with each value of the other axes, and may be filled."""
    (here / "layouts.csv").write_text(
        "plan.tensor,plan.pipeline,plan.data\n2,2,fill\n3,1,fill\n", encoding="utf-8"
    )
    axes = "--list", "layouts.csv", "--over", "batch.micro=1,2"
    found = printed(capsys, "sweep", small(here), *axes)

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
    assert [key_of(v.load_any()) for v in both[0]] == [key_of(v.load_any()) for v in both[1]]


def test_a_sweep_in_python_is_that_of_the_command_line(here, capsys):
    """The function returns what the verb prints, and calls back for each run."""
    file, calls = small(here), []
    words = ("--over", "batch.micro=1,2,3", "--set", "plan.zero=1")
    shown = printed(capsys, "sweep", file, *words)
    answer = sweep(
        file,
        over={"batch.micro": [1, 2, 3]},
        settings={"plan.zero": 1},
        store="runs/studies.db",
        jobs=1,
        on_progress=lambda completed, total: calls.append((completed, total)),
    )

    assert to_json(answer) == shown | {"fresh": 0}
    assert from_json(SweepAnswer, shown) == replace(answer, fresh=3)
    assert calls[-1] == (3, 3)


def test_an_axis_without_values_is_an_error(tmp_path):
    """A list in Python may be empty, which no sweep can run."""
    with pytest.raises(ScenarioError, match=r"^--over batch\.micro: the list is empty$"):
        sweep(small(tmp_path), over={"batch.micro": []})


# --- the answer -----------------------------------------------------------------------------------


def made_up_run(verdict, rate, peak, capacity=10.0):
    """Return a run with a rate and a memory."""
    if verdict == INVALID:
        return Run(None, INVALID, f"--set x=1: x: {rate:g} is too much (at most {peak:g})")
    step = answer({"matmul": 1 / rate}, tokens=1)
    fits = verdict == RAN
    memory = replace(step.memory, peak_bytes=peak, capacity_bytes=capacity, fits=fits)
    memory = replace(memory, verdict="fits" if fits else "does not fit")
    if verdict == MEMORY_ONLY:
        return Run("a", MEMORY_ONLY, "too large", estimate=MemoryEstimate(memory, 8))
    return Run(f"{rate} {peak}", RAN, answer=replace(step, tokens_per_s=rate, memory=memory))


verdicts = st.builds(
    made_up_run, st.sampled_from([RAN, MEMORY_ONLY, INVALID]), st.integers(1, 9), st.integers(1, 9)
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return load(small(tmp_path_factory.mktemp("base")))


def sweep_of(base, runs, by="tokens_per_s"):
    """Return the answer of a sweep of one axis with some runs."""
    points = [Variant("small.yaml", (), {"batch.micro": i}) for i in range(len(runs))]
    return rank(base, points, runs, by=by)


SCENARIOS = {
    "step": "frontier-22b",
    "training run": "megatron-1t-84-days",
    "service": "llama3-70b-h100-serving",
}
RANKED = {"step": "step_time_s", "training run": "days", "service": "tpot"}
loaded = cache(load_any)


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=8), st.floats(0.1, 10), st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_best_of_any_kind_is_the_first_within_the_limits(kind, sizes, limit, against):
    """The others have a verdict and a reason; what is worse in both measures is off the front."""
    by = RANKED[kind]
    answers = [made_up(kind, size) for size in sizes]
    limit = made_up(kind, limit).measures()[by]
    variants = [Variant("small.yaml", (), {"x": i}) for i in range(len(sizes))]
    result = rank(
        loaded(SCENARIOS[kind]), variants, [*map(run_of, answers)], by=by,
        pareto="devices" if against else None, limits={by: limit},
    )  # fmt: skip
    values = [row[by] for row in result.fitting]

    assert values == sorted(value for row in result.points if (value := row[by]) <= limit)
    assert result.counts.misses == len(sizes) - len(values)
    assert result.best == (result.ranked[0] if values else None)
    for row in result.points:
        assert (row["verdict"] == MISSES) == (row[by] > limit)
        assert row["verdict"] == FITS or f"{by} " in row["why"]
    assert not values or result.front[-1][by] == values[0]
    assert from_json(SweepAnswer, to_json(result)) == result
    lines = [line.text for line in rows(result) if line.label == "best"]
    assert values or lines[0].startswith("no layout fits and meets the limits; x 0: ")
    render(page(result))


@pytest.mark.parametrize("kind", KINDS)
def test_a_measure_that_is_not_known_is_not_ranked(kind):
    """The reason is stated: of a limit, and of the measure that ranks."""
    answers = {
        "step": replace(
            made_up("step"), usd_per_hour=None, unavailable={"usd_per_hour": "no price"}
        ),
        "training run": training_run({"useful": 1.0}, cost=None, unavailable={"cost": "no price"}),
        "service": replace(made_up("service"), cost=None, unavailable={"cost": "no price"}),
    }
    by = {"step": "tokens_per_dollar", "training run": "cost", "service": "output_tokens_per_usd"}
    why = "no price"
    variants, runs = [Variant("small.yaml", (), {"x": 1})], [run_of(answers[kind])]
    ranked = rank(loaded(SCENARIOS[kind]), variants, runs, by=by[kind])
    limited = rank(loaded(SCENARIOS[kind]), variants, runs, limits={by[kind]: 1.0})

    assert (ranked.best, ranked.points[0]["why"]) == (None, why)
    assert (limited.best, limited.points[0]["why"]) == (None, why)
    assert rows(ranked)[2].text == f"no layout has the measure; x 1: {why}"
    assert rows(limited)[3].text == f"no layout fits and meets the limits; x 1: {why}"
    for result in (ranked, limited):
        assert why in render(files_of(result).page)


def test_a_machine_without_a_price_does_not_vanish_from_a_ranking_by_price(capsys, tmp_path):
    """Machines that are not ranked are counted, each with its reason; the rate is stated."""
    file = small(tmp_path)
    axes = ["--over", "cluster.name=dgx-h100,dgx-b200,mi300x-roce", "--set", "plan.tensor=2"]
    text = output(
        capsys, "sweep", file, *axes, "--by", "tokens_per_dollar", "--jobs", "1",
        "--out", tmp_path / "out",
    )  # fmt: skip
    lines = text.splitlines()

    assert "verdicts      3 fit (2 without tokens per dollar, not ranked)" in lines
    assert "rate          3.37 USD per device and hour, on-demand: median of 10 quotes" in text
    for name, accelerator in (("dgx-b200", "b200"), ("mi300x-roce", "mi300x")):
        [line] = [each for each in lines if each.startswith(f"not ranked    cluster {name}")]
        assert f"no on-demand price of {accelerator} is quoted (state" in line
        assert "clustersim list sites" in line
    assert "1 best layout:" in lines


def test_tokens_per_dollar_left_out_the_electricity_that_the_cost_of_a_run_included(tmp_path):
    """A purchase needs a site in both, whose electricity is part of both, as the rate states."""
    over, bought = {"batch.micro": [1]}, {"cluster.name": "dgx-h100", "costs.price": "purchase"}
    sited = bought | {"costs.site": "industry-mean"}
    step, nowhere = (
        sweep(small(tmp_path), over=over, by="tokens_per_dollar", settings=each, jobs=1)
        for each in (sited, bought)
    )
    run = simulate(small(tmp_path), sited | {"training": {"tokens": "1G", "failures": "none"}})
    whole = train(run.loaded).bill

    assert "purchase without electricity: " in step.rate
    assert step.rate.endswith("; and electricity of industry-mean")
    hourly = whole.cost / whole.device_hours * 8
    assert step.fitting[0]["usd_per_hour"] == pytest.approx(hourly, rel=1e-3)
    assert nowhere.best is None
    assert "a purchase needs a site with a price of electricity" in nowhere.points[0]["why"]


def test_a_single_quote_is_not_ranked_in_silence_with_the_median_of_ten(tmp_path):
    """Rate and row of each accelerator have its quotes: H200 was three times as dear by one."""
    over = {"cluster.name": ["dgx-h200", "dgx-h100"], "plan.tensor": [2]}
    answer = sweep(small(tmp_path), over=over, by="tokens_per_dollar", jobs=1)
    first, second = answer.rate.split("; ")

    assert first.startswith("h100-sxm 3.37 USD per device and hour, on-demand: median of 10 quotes")
    assert second.startswith(
        "h200-sxm 10.6 USD per device and hour, on-demand: a single quote of 2025"
    )
    [(_, (heads, *lines)), *_] = layout_tables(answer)
    column = heads.index("price from")
    assert [line[column] for line in lines] == ["10 quotes", "1 quote"]


def test_a_sweep_without_a_valid_combination_does_not_blame_memory(tmp_path):
    """All combinations were invalid, and "no layout fits" was the answer."""
    answer = sweep(small(tmp_path), over={"plan.tensor": [3, 5]}, jobs=1)

    assert answer.counts.invalid == 2
    assert rows(answer)[2].text == "no combination is valid"


def test_a_best_measure_of_0_has_a_front(base):
    """A front against a best value of 0 states amounts, since there is no share of 0."""
    bubbles = [{"matmul": 1.0, "bubble_fill": seconds} for seconds in (0.0, 0.5, 1.0)]
    runs = [replace(run_of(answer(parts, devices=8 + i)), key=str(i))
            for i, parts in zip((2, 1, 0), bubbles, strict=True)]  # fmt: skip
    result = sweep_of(base, runs, "bubble_fraction")

    assert len(result.front) == 3
    assert sweep_front(result).title == "Bubble 33.3 % at devices 9 instead of 0.0 % at devices 10"


@given(st.lists(verdicts, max_size=12), st.sampled_from(["tokens_per_s", "step_time_s"]))
@settings(max_examples=20, deadline=None)
def test_no_layout_beats_the_front(base, runs, by):
    """No layout beats one of the front in both; one of the front beats or equals any other."""
    answer = sweep_of(base, runs, by)
    fitting = [(-row["tokens_per_s"], row["memory_peak_bytes"]) for row in answer.fitting]
    front = [(-row["tokens_per_s"], row["memory_peak_bytes"]) for row in answer.front]

    assert len(fitting) == answer.counts.within == sum(run.verdict == RAN for run in runs)
    assert sum(asdict(answer.counts).values()) == len(answer.points)
    for one in front:
        assert not any(beats(other, one) for other in fitting)
    for one in fitting:
        assert any(other == one or beats(other, one) for other in front)
    assert front == sorted(set(front), key=lambda pair: pair[1])
    assert fitting == sorted(fitting)


def beats(one, other):
    return one != other and one[0] <= other[0] and one[1] <= other[1]


def test_layouts_that_probably_do_not_fit_were_counted_as_those_that_do_not(base):
    """The counts are those of the verdicts of the points."""
    runs = [made_up_run(MEMORY_ONLY, 1, 12), made_up_run(MEMORY_ONLY, 2, 30)]
    memory = replace(runs[0].estimate.memory, verdict=f"{UNLIKELY}: 12 of 10 GiB")
    runs[0] = replace(runs[0], estimate=replace(runs[0].estimate, memory=memory))
    answer = sweep_of(base, runs)
    lines = {row.label: row.text for row in rows(answer)}

    assert [row["verdict"] for row in answer.points] == [UNLIKELY, UNFIT]
    assert (answer.counts.probably_does_not_fit, answer.counts.does_not_fit) == (1, 1)
    assert "1 probably does not fit in memory" in lines["verdicts"]


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
    (reason,) = rank(base, variants, runs).invalid

    assert (reason.why, reason.count) == (complaint.format(2), 2)


def test_the_best_layout_is_printed_with_its_changes(here, capsys):
    """The answer has the best layout, its changes of the scenario, and the verdicts."""
    arguments = (str(small(here)), *(f"--over={axis}" for axis in AXES))
    out = output(capsys, "sweep", *arguments, "--jobs", "1")
    found = printed(capsys, "sweep", *arguments)
    lines = out.splitlines()
    best = found["points"][found["best"]]

    assert lines[0] == "A small model on eight A100"
    assert lines[1].startswith("axes          18 combinations: tensor 1, 2, 4; pipeline 1, 2, 4;")
    assert lines[2] == "verdicts      16 fit, 2 invalid"
    assert best["tokens_per_s"] == max(p.get("tokens_per_s", 0) for p in found["points"])
    assert lines[3].startswith(f"best          tensor {best['plan.tensor']}, pipeline ")
    assert lines[4] == "changes       tensor 2 -> 1, pipeline 2 -> 1, data 2 -> 8, micro 1 -> 2"
    assert found["fresh"] == 0
    assert found["changed"]["batch.micro"] == {"from": 1, "to": 2}


def test_files_of_a_sweep_agree(here, capsys):
    """The tables hold every combination, the figures are not blank, the summary lists them all."""
    over = "plan.tensor=1,2,16", "plan.data=fill", "recompute=none,full"
    options = "--jobs=1", "--figures=png", *(f"--over={axis}" for axis in over)
    output(capsys, "sweep", small(here), *options)
    folder = here / "runs" / "small-sweep"
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
def test_a_sweep_without_a_layout_that_fits_has_an_answer(here, capsys, axes):
    """Where no layout fits, the answer is printed, and files are written without a front."""
    over = ["--over=batch.micro=1,2", "--over=plan.zero=0,3", "--over=recompute=none,full"][:axes]
    options = "--set=model=gpt3-175b", "--jobs=1", "--figures=png"
    out = output(capsys, "sweep", small(here), *options, *over)
    found = {path.name for path in (here / "runs" / "small-sweep").iterdir()}

    assert "best          no layout fits; micro 1" in out
    assert "GiB" in out
    assert found == {
        "report.html", "summary.json", "sweep.csv", "sweep.parquet", "sweep.png",
    }  # fmt: skip


def test_the_first_layout_was_named_and_not_the_nearest_one(here, capsys):
    """Where none fits, the one with the least memory says what is missing."""
    options = "--set=plan.sequence_parallel=false", "--set=batch.global=64", "--set=batch.micro=1"
    axes = "--over=plan.tensor=1,2", "--over=plan.data=fill"
    out = output(capsys, "sweep", "korthikanti-22b-full", *options, *axes, "--jobs=1")

    assert "best          no layout fits; tensor 2, data 4: does not fit" in out


def test_files_of_a_sweep_without_a_valid_combination_were_an_internal_error(here, capsys):
    """Where every combination is invalid, the files are written without numbers."""
    out = output(capsys, "sweep", str(small(here)), "--jobs=1", "--over=plan.tensor=7")

    assert "1 invalid" in out
    assert (here / "runs" / "small-sweep" / "sweep.csv").is_file()


AXES_OF_PAGES = (["batch.micro"], ["batch.micro", "recompute"], ["a", "b", "batch.micro"])


@pytest.mark.parametrize("keys", AXES_OF_PAGES, ids=["bars", "heat map", "parallel"])
def test_a_page_shows_every_layout_and_keeps_words_as_words(base, keys):
    """Each chart has a table of its layouts, and no name is read as HTML."""
    wicked = "<img src=x onerror=alert(1)>"
    runs = [
        made_up_run(RAN, 3, 4),
        made_up_run(MEMORY_ONLY, 1, 20),
        made_up_run(RAN, 2, 1),
        made_up_run(INVALID, 1, 1),
    ]
    points = [dict.fromkeys(keys, f"{wicked}{i}") for i in range(len(runs))]
    variants = [Variant("small.yaml", (), point) for point in points]
    made = page(rank(base, variants, runs), "clustersim sweep")
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
    answer = sweep_of(base, [made_up_run(RAN, 1, 1), Run("b", "failed", "KeyError: 'x'")])

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
        (
            Variant("s.yaml", (), {"a": a, "b": b}),
            made_up_run(INVALID if (a, b) in wrong else RAN, 1, 1),
        )
        for a, b in grid_points
    ]
    for reason in reasons_of(both, INVALID):
        assert reason.count == len(wrong)
        for key, values in reason.values.items():
            assert {p for p in grid_points if p["ab".index(key)] in values} <= wrong


# --- runs and services ----------------------------------------------------------------------------

FEW_REQUESTS = {"load.requests": 16}


@pytest.mark.large
def test_a_sweep_over_intervals_ranks_runs_by_their_days():
    """The interval near the optimum is the best; its row has days, goodput, energy and price."""
    over = {"training.checkpoint.every": ["5 min", "31 min", "4 h"]}
    fast = {"training.replications": 20}
    result = sweep(SCENARIOS["training run"], over=over, by="days", settings=fast, jobs=1)
    days = [row["days"] for row in result.fitting]

    assert result.fitting[0]["training.checkpoint.every"] == "31 min"
    assert days == sorted(days)
    assert {"goodput", "energy", "cost"} <= result.fitting[0].keys()
    assert "days" in layout_tables(result)[0][1][0]


def test_intervals_shorter_than_a_drain_are_invalid_combinations():
    """Such a combination is part of the answer, with its reason."""
    settings = {"training.replications": 100, "training.checkpoint.mode": "asynchronous"}
    over = {"training.checkpoint.every": ["10 s", "31 min"]}
    result = sweep(SCENARIOS["training run"], over=over, settings=settings, jobs=1)

    assert result.counts.invalid == 1
    assert "pile up" in result.invalid[0].why


def test_steps_have_no_columns_of_runs():
    """A sweep without a section training has the columns of a step alone."""
    result = sweep("frontier-22b", over={"batch.micro": [1]}, settings={"batch.global": 16}, jobs=1)

    assert "days" not in result.points[0]


def test_a_service_has_a_verdict_for_each_combination_and_comes_from_the_run_cache(tmp_path):
    """The second sweep has the answers of the first one; a stored study has its measures."""
    over = {"plan.tensor": [1, 3, 4, 8]}
    arguments = {"settings": FEW_REQUESTS | {"load.concurrency": 4}, "jobs": 1,
                 "store": tmp_path / "studies.db"}  # fmt: skip
    counts = []
    first = sweep(SCENARIOS["service"], over=over, limits={"tpot": 0.009}, **arguments)
    again = sweep(
        SCENARIOS["service"], over=over, limits={"tpot": 0.009}, **arguments,
        on_progress=lambda completed, total: counts.append((completed, total)),
    )  # fmt: skip
    stored = stored_runs(tmp_path / "studies.db")
    verdicts = [row["verdict"] for row in first.points]

    assert verdicts == ["does not fit", "invalid", "misses a limit", "fits"]
    assert "times the limit" in first.points[2]["why"]
    assert "divide the 64 attention heads" in first.points[1]["why"]
    assert again == replace(first, fresh=0)
    assert counts == [(0, 4), (0, 4), (4, 4)]
    assert [row.get("ttft") for row in stored.points] == [row.get("ttft") for row in first.points]
    assert runs_table(stored.points)[0][-4:] == [
        "first token", "each token", "per device", "per user",
    ]  # fmt: skip
    assert {"sweep.csv", "pareto.csv"} & files_of(first).frames.keys() == {"sweep.csv"}


def test_the_front_of_services_falls_from_the_fastest_user_to_the_cheapest_device():
    """No combination of it is beaten in both."""
    over = {"plan.tensor": [4, 8], "load.concurrency": [4, 32]}
    result = sweep(SCENARIOS["service"], over=over, settings=FEW_REQUESTS, jobs=1)
    front = [(row["tokens_per_s_per_user"], row["tokens_per_s_per_device"]) for row in result.front]

    assert front == sorted(front, reverse=True)
    assert [rate for _, rate in front] == sorted(rate for _, rate in front)
    assert len(front) > 1


def test_a_trace_that_changed_is_another_run(tmp_path):
    """The key of a run has the bytes of its trace."""
    trace = tmp_path / "trace.csv"
    load = {"load": {"trace": str(trace)}, "plan.tensor": 8}
    keys = []
    for tokens in (8, 9):
        trace.write_text(f"arrival,input,output\n0,100,{tokens}\n")
        keys.append(key_of(load_service(SCENARIOS["service"], load)))

    assert keys[0] != keys[1]
