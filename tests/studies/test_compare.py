"""Two runs compared: what changed, by how much and why; the parts add up to the difference."""

import csv
import json
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from clustersim.metrics.difference import difference, largest_changes
from clustersim.studies.compare.charts import waterfalls
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from answers import answer, attributions, compare_page
from clustersim.answers import from_json, to_json
from clustersim.cli import main
from clustersim.errors import PlanError, ScenarioError
from clustersim.metrics.attribution import slowest_stage
from clustersim.render.charts import Axis, Step, Waterfall
from clustersim.render.charts.bars import steps_of
from clustersim.render.matplotlib import write_figure
from clustersim.render.page.page import render
from clustersim.runs.arguments import check, settings_in, variant_of
from clustersim.scenario.load import load
from clustersim.simulation.step.simulate import simulate
from clustersim.studies.compare import Comparison, compare_runs
from clustersim.studies.compare.compared import names_of
from clustersim.studies.compare.inputs import Input, changed_inputs, changed_values

SMALL = ("frontier-22b batch.global=16", "frontier-22b batch.global=16 recompute=none")
LAW = settings(max_examples=20, deadline=None)

N, P = r"[\d.,]+(?:e[+-]\d+)?", r"[\d.]+ %"  # a number, a share

TEXT = rf"""
frontier-22b batch.global=16 recompute=none is {N} times as fast as frontier-22b batch.global=16: .*
inputs        recompute full -> none
step time     {N} s -> {N} s \(-{P}\)
throughput    {N} -> {N} tokens/s \(\+{P}\)
FLOP rate     {N} -> {N} TFLOP/s per device \(MFU {P} -> {P}\), .* \(HFU {P}.*\)
bubble        {P}(?: -> {P})? of the step time
devices       16
power         {N} kW -> {N} kW mean; {N} J -> {N} J per token \(-{P}\)
memory        fits: .* -> (?:fits|does not fit): .*
bottleneck    [a-z]+ communication over n0.*, before and after
slowest stage 7 \(busy for {N} s, the mean stage for {N} s\) -> 7 \(busy .*\)
causes        -{N} s  -{P}  matmul
(?:             *[+-]{N} s +[+-]?{P}  [a-z ]+
)*              -{N} s +-{P}  total
"""


def ending(capsys, *arguments):
    """Return exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code or 0, *capsys.readouterr()


# --- laws of differences --------------------------------------------------------------------------


def compare(before, after):
    return compare_runs(("a", "b"), answer(before), answer(after))


@LAW
@given(attributions)
def test_a_run_does_not_differ_from_itself(parts):
    """Compared with itself, a run is as fast, and no part changed."""
    found = compare(parts, parts)

    assert found.finding == "b is as fast as a"
    assert set(found.parts.values()) == {0.0}
    assert {number.change for number in found.differences.values()} == {0.0}


@LAW
@given(attributions, attributions)
def test_the_way_back_is_the_way_there_with_other_signs(old, new):
    """What B gains over A, A loses against B."""
    forth, back = compare(old, new), compare(new, old)

    assert back.parts == {part: -change for part, change in forth.parts.items()}
    assert back.speedup == pytest.approx(1 / forth.speedup)
    for name, number in forth.differences.items():
        assert back.differences[name].change == -number.change


@LAW
@given(attributions, attributions, attributions)
def test_differences_of_a_chain_add_up(a, b, c):
    """From A to C is from A to B and from B to C."""
    first, second, both = difference(a, b), difference(b, c), difference(a, c)

    for part, change in both.items():
        assert change == pytest.approx(first[part] + second[part], abs=1e-9)


@LAW
@given(attributions, attributions, st.integers(1, 4), st.integers(1, 4))
def test_parts_add_up_to_the_difference(old, new, tokens, devices):
    """Nothing is left over: of the step, and of a token where batches and devices differ."""
    before, after = answer(old), answer(new, tokens=tokens * 2**20, devices=8 * devices)
    found = compare_runs(("a", "b"), before, after)
    each = [1 / run.tokens_per_s_per_device for run in (before, after)]

    assert sum(found.parts.values()) == pytest.approx(
        after.step_time_s - before.step_time_s, abs=1e-9
    )
    assert sum(found.parts_per_token.values()) == pytest.approx(each[1] - each[0], abs=1e-9)


def test_the_parts_that_are_named_are_the_largest():
    """Bubbles are one; what is a tenth of the largest or less is not worth a word."""
    parts = {"matmul": -4.0, "dispatch": 0.3, "bubble_fill": 3.0, "bubble_drain": 2.0}

    assert largest_changes(parts) == [("bubble", 5.0), ("matmul", -4.0)]


def test_steps_of_other_batches_are_compared_by_tokens():
    """Twice the batch in twice the time is as fast, and the finding speaks of a token."""
    parts = {"matmul": 2.0, "optimiser": 1.0}
    twice = answer({"matmul": 4.0, "optimiser": 1.0}, tokens=2**21)
    same = compare_runs(("a", "b"), answer(parts), answer({"matmul": 6.0}, tokens=2**21))
    found = compare_runs(("a", "b"), answer(parts), twice)

    assert same.speedup == 1.0
    assert found.finding == (
        "b is 1.20 times as fast as a: optimiser -3.81 us of device time per token"
    )
    assert len(waterfalls(found)) == 2


def test_the_finding_compares_devices_where_their_number_differs():
    """A job on twice the devices that is not twice as fast has slower devices."""
    found = compare_runs(
        ("a", "b"), answer({"matmul": 3.0}), answer({"matmul": 2.0}, devices=16)
    ).finding

    assert found == "b is 1.50 times as fast as a (0.75 times the tokens per device): matmul -1 s"


# --- real pairs -----------------------------------------------------------------------------------

PAIRS = [
    (SMALL[0], SMALL[1]),
    (SMALL[0], "frontier-22b batch.global=32 cluster.nic.bandwidth=/4"),
    (SMALL[0], "megatron21-t1-1.7b"),
    (
        "frontier-1t batch.global=96",
        "frontier-1t batch.global=96 plan.pipeline=32 plan.data=12",
    ),
]


@lru_cache
def answer_of(text):
    return simulate(variant_of(text).load()).answer


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[1])
def test_differences_of_real_runs_add_up(pair):
    """Of real runs as well, the parts sum to the difference of the step times to 1e-9."""
    before, after = map(answer_of, pair)
    found = compare_runs(pair, before, after)

    step = after.step_time_s - before.step_time_s
    assert sum(found.parts.values()) == pytest.approx(step, abs=1e-9)


def test_half_the_stages_have_less_bubble():
    """The trillion parameters on 32 stages and 12 replicas: larger reductions cost more."""
    old, new = map(answer_of, PAIRS[3])
    found = compare_runs(("base", "short"), old, new)

    assert re.match(
        r"short takes 1\.\d+ times as long as base: data communication \+.*, bubble -",
        found.finding,
    )
    assert new.slowest_stage.stage == 31


def test_the_slowest_stage_is_at_work_the_longest():
    """With the logits on it, the last stage of a GPT is; the mean is that of all stages."""
    tracks = simulate("frontier-22b", ["batch.global=16"]).timeline.tracks
    work = {track.stage: float(np.sum(track.end - track.start)) for track in tracks}
    found = slowest_stage(tracks)

    assert found.stage == max(work, key=work.__getitem__) == 7
    assert found.seconds == pytest.approx(work[7])
    assert found.mean_s == pytest.approx(np.mean([*work.values()]))


def test_the_answer_is_read_back_from_json():
    """A script that reads `compare --json` gets the comparison of the Python function."""
    result = compare({"matmul": 2.0}, {"matmul": 3.0})

    assert from_json(Comparison, to_json(result)) == result


# --- inputs ---------------------------------------------------------------------------------------


def inputs(text, other):
    return changed_inputs(*(variant_of(each).load() for each in (text, other)))


def test_a_scenario_has_the_inputs_of_itself():
    """Nothing differs, nor where the same value is written in another way."""
    same = "frontier-22b cluster.nic.bandwidth=200Gb/s plan.schedule=1f1b title=Another"

    assert inputs("frontier-22b", "frontier-22b") == []
    assert inputs("frontier-22b", same) == []


def test_a_changed_value_has_its_path_and_both_values():
    """In SI units for scripts, as they are written for people."""
    (found,) = inputs("frontier-22b", "frontier-22b cluster.nic.bandwidth=x2")

    assert found == Input(
        "cluster.nic.bandwidth", 25e9, 50e9, "cluster.nic.bandwidth 25 GB/s -> 50 GB/s"
    )


def test_a_default_is_a_value():
    """A value that only one scenario has is compared with the default of the other."""
    texts = [each.text for each in inputs("megatron21-t1-39b", "megatron21-t1-39b fold=false")]

    assert texts == ["fold true -> false"]


def test_a_replaced_record_is_one_line():
    """Another machine is its name, the number of values that differ, the most important ones."""
    first, *others = inputs("megatron21-t1-39b", "megatron21-t1-39b cluster=dgx-h100 plan.zero=1")

    assert first.path == "cluster"
    assert (first.before, first.after) == ("selene", "dgx-h100")
    assert first.values > 20
    assert [each.path for each in first.telling][:2] == [
        "node.accelerator.name",
        "node.interconnect.bandwidth",
    ]
    assert first.text.startswith("cluster selene -> dgx-h100 (node.accelerator.name a100-80gb -> ")
    assert [each.text for each in others] == ["plan.zero 0 -> 1"]


def test_another_profile_of_failures_is_one_line():
    """Its causes were 58 lines of a comparison of two runs."""
    (found,) = inputs("llama3-405b-54-days", "llama3-405b-54-days training.failures=rsc-1")

    assert (found.path, found.before, found.after) == (
        "training.failures",
        "llama3-54-days",
        "rsc-1",
    )
    assert found.values > 20


def test_all_single_values_are_kept_beside_the_record():
    """The values of a record are available one by one."""
    pair = [load("megatron21-t1-39b", change) for change in ([], ["cluster=dgx-h100"])]
    single = changed_values(*pair)

    (record,) = changed_inputs(*pair)
    assert "cluster.node.accelerator.memory.bandwidth" in single
    assert record.values == len(single) - 1  # without its own name


# --- arguments --------------------------------------------------------------------------------


def test_settings_are_parted_by_spaces_that_begin_one():
    """A value may hold spaces: a word without '=' belongs to the setting before it."""
    text = "plan.data=12 cluster.nic.bandwidth=50 GB/s  framework={name: x, kernels: {}}"

    assert settings_in(text, "--change") == (
        "plan.data=12",
        "cluster.nic.bandwidth=50 GB/s",
        "framework={name: x, kernels: {}}",
    )
    with pytest.raises(ScenarioError, match=r"^--change: 'plan' is not of the form key=value$"):
        settings_in("plan data=12", "--change")


def test_settings_of_one_run_come_after_those_of_all():
    """The settings of one run win."""
    variant = variant_of("frontier-22b batch.global=32", ["batch.global=16"])

    assert variant.settings == ("batch.global=16", "batch.global=32")
    assert variant.load().scenario.batch.global_ == 32


def test_a_file_may_have_a_space_in_its_name(tmp_path):
    """A text that is a file is a file."""
    path = tmp_path / "my own.yaml"
    path.write_text(Path(load("frontier-22b").place("title").file).read_text())

    for text in (str(path), f"{path} batch.global=16"):
        assert variant_of(text).load().scenario.title == load("frontier-22b").scenario.title


def test_names_of_runs_are_short():
    """A scenario's name is enough where it is forth once."""
    assert names_of([("a", ["x=1"]), ("b", [])]) == ["a", "b"]
    assert names_of([("a", ["x=1"]), ("a", [])]) == ["a x=1", "a"]


def test_an_invalid_layout_is_rejected_without_running_it():
    """Also a prescribed algorithm that no group can take."""
    check(load("frontier-22b"))
    with pytest.raises(PlanError, match="1024 ranks, but the job has 512 devices"):
        check(load("megatron21-t1-39b", ["plan.tensor=16"]))
    with pytest.raises(PlanError, match="nvls"):
        check(load("frontier-22b", ["collectives.all-reduce=nvls"]))


# --- the waterfall --------------------------------------------------------------------------------


def waterfall(start, steps):
    """Return a waterfall of seconds."""
    measure = Axis("time of a step", "s")
    return Waterfall(title="t", measure=measure, first="a", last="b", start=start, steps=steps)


@LAW
@given(attributions, attributions)
def test_a_waterfall_ends_at_the_other_total(old, new):
    """Every step begins where the one before ended, and small parts are one of them."""
    start, end = sum(old.values()), sum(new.values())
    picture = waterfall(start, steps_of(difference(old, new), max(start, end)))

    assert picture.levels()[0] == start
    assert picture.levels()[-1] == pytest.approx(picture.end, abs=1e-9)
    assert picture.end == pytest.approx(end, abs=1e-9)


def test_a_waterfall_is_drawn_in_the_unit_of_its_totals():
    """Milliseconds of a short step are not drawn as thousandths of a second."""
    picture = waterfall(0.004, (Step("part", "compute", -0.001),)).in_unit()

    assert (picture.start, picture.steps[0].change, picture.measure.unit) == (4.0, -1.0, "ms")


def test_steps_stand_kind_by_kind_the_largest_first():
    """A reader finds communication in one place; what is too small to see is summed up."""
    parts = {
        "matmul": 1.0,
        "tensor_communication": -3.0,
        "data_communication": 0.5,
        "dispatch": 0.1,
        "optimiser": 0.01,
        "host_transfer": 0.0,
    }
    steps = [(step.label, step.kind) for step in steps_of(parts, size=20.0)]

    assert steps == [
        ("tensor communication", "communication"),
        ("data communication", "communication"),
        ("matmul", "compute"),
        ("dispatch", "compute"),
        ("all other parts", "other"),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"matmul": 10.0, "bubble_fill": 2.0}, {"matmul": 4.0, "bubble_fill": 3.0}),
        ({"matmul": 100.0, "bubble_fill": 2.0}, {"matmul": 100.0, "bubble_fill": 2.1}),
        ({"matmul": 1e-4}, {"matmul": 1e-4}),
    ],
    ids=["large", "small", "none"],
)
def test_a_waterfall_is_drawn_the_same_every_time(old, new, tmp_path):
    """It is not blank, has its labels as text, and depends on nothing but its picture."""
    (picture,) = waterfalls(compare(old, new))
    for stem in ("one", "two"):
        write_figure(picture, tmp_path / stem)

    drawing = (tmp_path / "one.svg").read_text()
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    assert drawing == (tmp_path / "two.svg").read_text()
    assert imread(tmp_path / "one.png")[..., :3].mean(axis=2).std() > 0.05
    assert picture.title in drawing
    assert f"step time [{picture.measure.unit}]" in drawing


# --- the page -------------------------------------------------------------------------------------


def test_the_page_has_a_waterfall_that_adds_up():
    """Its bars begin where those above end, and the last one ends where the first would be."""
    page = compare_page({"matmul": 3.0, "bubble_fill": 2.5})
    why = next(section for section in page.sections if section.id == "why")
    (bars,) = why.blocks[0].figure["data"]

    assert [section.id for section in page.sections] == ["answer", "why", "changed", "numbers"]
    assert bars["x"] == [6.0, 1.0, 0.5, 5.5]
    assert bars["base"] == [0.0, 5.0, 5.0, 0.0]
    assert why.blocks[0].title == "A step is 1.091 times as fast: matmul -1 s, bubble +500 ms"


def test_each_further_run_has_sections_of_its_own():
    """Their anchors are not the same."""
    ids = [section.id for section in compare_page({"matmul": 3.0}, {"matmul": 2.0}).sections]

    assert ids == ["answer", "why-2", "changed-2", "why-3", "changed-3", "numbers"]


def test_names_of_runs_stay_text_on_the_page():
    """A name that is made to break out of the page is shown as it is."""
    text = render(compare_page({"matmul": 3.0}, name="<b>x</b><script>alert(1)</script>"))

    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


# --- the verb -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder to work in, whose store has the runs of `SMALL`."""
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(autouse=True)
def _in_the_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_the_text_has_inputs_results_and_causes(capsys):
    """First of all the finding; then inputs, numbers and parts, each before and after."""
    code, text, _ = ending(capsys, "compare", *SMALL, "--jobs", "1")
    body, _, files = text.strip().rpartition("\n\n")

    assert code == 0
    assert re.fullmatch(TEXT.strip(), body), body
    assert files.endswith("runs/frontier-22b-compare/: report.html and more")


def lines(path):
    return [*csv.reader(path.read_text().splitlines())]


def test_the_files_hold_what_is_shown(capsys):
    """The summary lists them; the table has a column for each run, the waterfall adds up."""
    assert ending(capsys, "compare", *SMALL, "--jobs", "1")[0] == 0
    place = Path("runs/frontier-22b-compare")
    summary = json.loads((place / "summary.json").read_text())
    table, inputs, fall = (
        lines(place / f"{name}.csv") for name in ("compare", "inputs", "waterfall")
    )

    assert sorted(summary["files"]) == sorted(path.name for path in place.iterdir())
    assert table[0] == ["measure", *SMALL]
    assert table[1][0] == "step_time_s"
    assert float(table[1][2]) == summary["runs"][1]["answer"]["step_time_s"]
    assert inputs[1:] == [[SMALL[1], "recompute", "full", "none", "1"]]
    first, *changes, last = fall[1:]
    total = float(first[3]) + sum(float(line[2]) for line in changes)
    assert total == pytest.approx(float(last[3]), abs=1e-9)


def test_json_compares_every_run_with_the_first(capsys, folder):
    """One object, and no file but the store; a setting of all is in every run."""
    before = {path.name for path in folder.iterdir()}
    third = "frontier-22b batch.micro=2"
    code, text, _ = ending(
        capsys, "compare", "frontier-22b", "frontier-22b recompute=none", third,
        "--set", "batch.global=16", "--json", "--jobs", "1", "--store", "runs/studies.db",
    )  # fmt: skip
    answered = json.loads(text)

    assert code == 0
    assert [run["name"] for run in answered["runs"]] == [
        "frontier-22b",
        "frontier-22b recompute=none",
        third,
    ]
    assert [each["before"] for each in answered["comparisons"]] == ["frontier-22b"] * 2
    for found, run in zip(answered["comparisons"], answered["runs"][1:], strict=True):
        first = answered["runs"][0]["answer"]["step_time_s"]
        change = run["answer"]["step_time_s"] - first
        assert sum(found["parts"].values()) == pytest.approx(change, abs=1e-9)
        assert found["differences"]["step_time_s"]["change"] == change
    assert {path.name for path in folder.iterdir()} <= before | {"runs"}


COMPLAINTS = [
    (["frontier-22b"], "frontier-22b: one scenario, and two are needed (name a second one, or a"
     " change of the first: 'frontier-22b batch.micro=2')"),
    (["frontier-22b", "frontier-22c"], "frontier-22c: no such file, and no shipped scenario of that"
     " name (did you mean 'frontier-22b'?)"),
    (["frontier-22b", "frontier-22b plan"], "frontier-22b plan: no such file, and no shipped"
     " scenario of that name"),
    (["frontier-22b", "frontier-22b plan.tensr=2"], "--set plan.tensr=2: plan.tensr: unknown key"
     " (did you mean 'tensor'?)"),
    (["frontier-22b", "frontier-22b plan.data=4"], "plan: tensor 1 x pipeline 8 x data 4 = 32"
     " ranks, but the job has 16 devices"),
    (["frontier-22b", "frontier-1t", "--out", "."], ".: contains the working or the home folder"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "complaint"), COMPLAINTS)
def test_invalid_input_is_one_line_and_exit_code_2(capsys, arguments, complaint):
    """The store is not even made."""
    code, out, error = ending(capsys, "compare", *arguments, "--store", "none.db")

    assert (code, out) == (2, "")
    assert complaint in error
    assert error.count("\n") == 1
    assert not Path("none.db").exists()
