"""Answers compared: what changed, by how much and why; the parts add up to the difference."""

import csv
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clustersim
from answers import KINDS, answer, compare_page, compared, made_up, training_run
from clustersim.answers import from_json, to_json
from clustersim.metrics.attribution import slowest_stage
from clustersim.render.page.page import render
from clustersim.reports.evidence import evidence_rows
from clustersim.simulation.measures import measures_of
from clustersim.simulation.step.simulate import simulate
from clustersim.studies.compare import CompareAnswer
from clustersim.studies.compare.answer import ComparedRun
from clustersim.studies.compare.compared import names_of
from clustersim.studies.compare.files import files_of, page
from clustersim.studies.compare.text import evidence, result_table, rows, waterfalls
from clustersim.studies.compare.timelines import timelines
from commands import ending, output, printed

LAW = settings(max_examples=20, deadline=None)
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)
sizes = st.floats(0.1, 10.0)

STEP = ("frontier-22b batch.global=16", "frontier-22b batch.global=16 recompute=none")
RUN = "megatron-1t-84-days training.replications=100"
SERVICE = "llama3-70b-h100-serving load.concurrency=8 load.requests=16"
PAIRS = {
    "step": STEP,
    "training run": (RUN, f"{RUN} training.checkpoint.every=4h"),
    "service": (SERVICE, f"{SERVICE} precision=bf16"),
}
"""A scenario of each kind, and a change of it."""


@cache
def compared_pair(kind):
    """Return the comparison of a real pair."""
    return clustersim.compare(PAIRS[kind], jobs=1)


# --- laws, of all kinds ---------------------------------------------------------------------------


@ALL_KINDS
def test_an_answer_does_not_differ_from_itself(kind):
    """Compared with itself, an answer has the same measures, and no part changed."""
    result = compared(made_up(kind), made_up(kind))
    (same,) = result.comparisons
    label = measures_of(result.kinds)[result.by].label

    assert same.finding.startswith(f"run 0: the same {label} (")
    assert (same.gain, {*same.parts.values()}) == (1.0, {0.0})
    assert {number.change for number in same.differences.values()} == {0.0}
    assert any("changed" in row.text for row in rows(same, result) if row.label == "causes")


@ALL_KINDS
@LAW
@given(sizes, sizes)
def test_the_way_back_is_the_way_there_with_other_signs(kind, old, new):
    """What B gains over A, A loses against B."""
    pair = made_up(kind, old), made_up(kind, new)
    (forth,), (back,) = compared(*pair).comparisons, compared(*pair[::-1]).comparisons

    assert back.gain == pytest.approx(1 / forth.gain)
    assert back.parts == {part: -change for part, change in forth.parts.items()}
    for name, number in forth.differences.items():
        assert back.differences[name].change == -number.change


@ALL_KINDS
@LAW
@given(sizes, sizes)
def test_parts_add_up_to_the_difference(kind, old, new):
    """No part of any account is missing: step, token, first token, elapsed time of a run."""
    before, after = made_up(kind, old), made_up(kind, new)
    result = compared(before, after)
    (comparison,) = result.comparisons
    totals = {"step": "step_time_s", "run": "days", "first token": "ttft"}
    totals |= {"token": "tpot"} if kind == "service" else {}

    for first, last in zip(before.accounts(), after.accounts(), strict=True):
        change = sum(comparison.accounts[first.name].values())
        assert change == pytest.approx(last.total - first.total, abs=1e-9)
        if first.name in totals:
            measured = comparison.differences[totals[first.name]].change
            assert change == pytest.approx(measured, abs=1e-9)
    for name, chart in waterfalls(comparison, result).items():
        levels, account = chart.levels(), next(a for a in after.accounts() if a.name == name)
        scale = 1 if chart.measure.unit in ("s", "d") else chart.start / levels[0]
        assert levels[-1] * scale == pytest.approx(chart.end, abs=1e-9)
        assert chart.end / chart.start == pytest.approx(
            account.total / next(a.total for a in before.accounts() if a.name == name)
        )


@ALL_KINDS
def test_real_pairs_are_explained(kind):
    """Of real answers as well: parts sum to the change, and gain is the ratio of the measure."""
    result = compared_pair(kind)
    (comparison,) = result.comparisons
    measure, number = measures_of(result.kinds)[result.by], comparison.differences[result.by]
    accounts = {account.name: account for account in result.runs[0].answer.accounts()}

    assert comparison.gain == pytest.approx(measure.gain(number.before, number.after))
    assert len(comparison.inputs) == 1
    assert comparison.finding.startswith(f"{comparison.after}: {measure.label} ")
    for name, parts in comparison.accounts.items():
        other = {a.name: a for a in result.runs[1].answer.accounts()}[name]
        change = other.total - accounts[name].total
        assert sum(parts.values()) == pytest.approx(change, abs=1e-9)


@ALL_KINDS
def test_the_answer_is_read_back_from_json(kind):
    """A script that reads `compare --json` gets the comparison of the Python function."""
    result = compared(made_up(kind), made_up(kind, 2.0))

    assert from_json(CompareAnswer, to_json(result)) == result


@ALL_KINDS
def test_an_answer_that_does_not_fit_is_compared_by_its_verdict(kind):
    """The finding states what is missing; a service has no numbers then, and no gain."""
    result = compared(made_up(kind), made_up(kind, fits=False))
    table = {line[0]: line[2] for line in result_table(result)}

    assert "does not fit" in result.comparisons[0].finding
    assert table["memory"] == "does not fit"
    assert (result.comparisons[0].gain is None) == (kind == "service")
    assert "does not fit" in render(page(result))


# --- findings -------------------------------------------------------------------------------------


def test_steps_of_other_batches_are_compared_by_tokens():
    """Twice the batch in twice the time is as fast, and the causes are those of a token."""
    first, parts = answer({"matmul": 2.0, "optimiser": 1.0}), {"matmul": 4.0, "optimiser": 1.0}
    result = compared(first, answer(parts, tokens=2**21), by="tokens_per_s")
    same = compared(first, answer({"matmul": 6.0}, tokens=2**21), by="tokens_per_s")

    assert same.comparisons[0].gain == 1.0
    assert result.comparisons[0].account == "token"
    assert result.comparisons[0].finding == (
        "run 0: throughput 349,525 tokens/s -> 419,430 tokens/s (+20.0 %); of the device"
        " time per token: optimiser -3.81 us"
    )
    assert [*waterfalls(result.comparisons[0], result)] == ["token"]


def test_a_usual_measure_describes_the_pair():
    """Step time, tokens/s of other batches, days of runs, tokens/s of a device of a service."""
    other = clustersim.compare([STEP[0], "frontier-22b batch.global=32"], jobs=1)

    assert other.by == "tokens_per_s"
    assert [compared_pair(kind).by for kind in KINDS] == [
        "step_time_s", "days", "tokens_per_s_per_device",
    ]  # fmt: skip


def test_half_the_stages_have_less_bubble():
    """The trillion parameters on 32 stages and 12 replicas: larger reductions cost more."""
    base = "frontier-1t batch.global=96"
    result = clustersim.compare([base, f"{base} plan.pipeline=32 plan.data=12"], jobs=1)

    assert re.search(r"\): data communication \+.*, bubble -", result.comparisons[0].finding)
    assert result.runs[1].answer.slowest_stage.stage == 31


def test_the_slowest_stage_is_at_work_the_longest():
    """With the logits on it, the last stage of a GPT is; the mean is that of all stages."""
    tracks = simulate("frontier-22b", ["batch.global=16"]).timeline.tracks
    work = {track.stage: float(np.sum(track.end - track.start)) for track in tracks}
    stage = slowest_stage(tracks)

    assert stage.stage == max(work, key=work.__getitem__) == 7
    assert stage.seconds == pytest.approx(work[7])
    assert stage.mean_s == pytest.approx(np.mean([*work.values()]))


def test_runs_of_other_tokens_are_named():
    """Half the tokens in half the days is no faster machine."""
    pair = (training_run({"useful": days}, tokens=days * 1e10) for days in (20.0, 10.0))
    (comparison,) = compared(*pair).comparisons

    assert comparison.finding.startswith("run 0: duration 20 days -> 10 days (-50.0 %)")
    assert comparison.finding.endswith("(0.5 times the tokens)")


def test_a_run_and_a_step_are_compared_as_steps():
    """One scenario without a run leaves steps to compare."""
    result = compared(made_up("training run"), made_up("step", 2.0), by="step_time_s")

    assert result.kinds == ("step",)
    assert "days" not in result.comparisons[0].differences


def test_a_measure_that_is_not_known_has_its_reason():
    """The price of a run without a price is absent, and the finding has the reason."""
    reason = {"cost": "no price of this accelerator"}
    run = training_run({"useful": 20.0}, cost=None, unavailable=reason)
    (comparison,) = compared(run, run, by="cost").comparisons

    assert comparison.gain is None
    assert comparison.finding == "made-up: no price of this accelerator"


def test_a_comparison_of_runs_has_their_days():
    """Days, goodput, energy and price are rows of the results, checkpoints a line of facts."""
    result = compared_pair("training run")
    table = {line[0]: line[2] for line in result_table(result)}
    facts = {row.label: row.text for row in rows(result.comparisons[0], result)}

    assert re.fullmatch(r"[\d.]+ days \(\+[\d.]+ %\)", table["duration"])
    assert "Wh" in table["energy"]
    assert "USD" in table["price"]
    assert "step time" in table
    assert "synchronous" in facts["checkpoint"]
    assert next(iter(waterfalls(result.comparisons[0], result))) == "run"


def test_names_of_runs_are_short():
    """A scenario's name is enough where it is listed once."""
    assert names_of([("a", ["x=1"]), ("b", [])]) == ["a", "b"]
    assert names_of([("a", ["x=1"]), ("a", [])]) == ["a x=1", "a"]


# --- the page -------------------------------------------------------------------------------------


def test_the_page_has_a_waterfall_that_adds_up():
    """Its bars begin where those above end, and the last one ends where the first would be."""
    shown = compare_page({"matmul": 3.0, "bubble_fill": 2.5})
    why = next(section for section in shown.sections if section.id == "why")
    (bars,) = why.blocks[0].figure["data"]

    assert [section.id for section in shown.sections] == ["answer", "why", "changed", "numbers"]
    assert bars["x"] == [6.0, 1.0, 0.5, 5.5]
    assert bars["base"] == [0.0, 5.0, 5.0, 0.0]
    assert why.blocks[0].title == "Step time -8.3 %: matmul -1 s, bubble +500 ms"


def test_each_further_run_has_sections_of_its_own():
    """Their anchors are not the same."""
    ids = [section.id for section in compare_page({"matmul": 3.0}, {"matmul": 2.0}).sections]

    assert ids == ["answer", "why-2", "changed-2", "why-3", "changed-3", "numbers"]


def test_steps_are_drawn_on_one_time_axis():
    """The shorter step ends before the axis does; pages and figures have both."""
    result = compared_pair("step")
    files = files_of(result)
    headline, drawn = files.figures["timelines"]
    times = [run.answer.step_time_s for run in result.runs]
    section = next(each for each in files.page.sections if each.id == "timelines")

    assert [each.ends for each in drawn] == pytest.approx(times)
    assert {each.limits for each in drawn} == {(0.0, max(times))}
    assert headline.startswith(f"{result.runs[times.index(min(times))].name} has the shortest step")
    assert [block.title.partition(": ")[0] for block in section.blocks] == [
        run.name for run in result.runs
    ]


def test_a_crowded_timeline_shows_the_others_as_shares_too():
    """A timeline of bars next to one of shares could not be compared."""
    few, many = (run_named(f"frontier-22b batch.global={sequences}") for sequences in (16, 640))

    assert {each.as_shares for each in timelines([few, many])} == {True}
    assert {each.as_shares for each in timelines([few])} == {False}


def test_an_answer_of_another_folder_has_no_timeline():
    """Its scenario is not here; services have no pipeline to draw."""
    assert timelines([run_named("no-such-file.yaml plan.zero=1")]) == []
    assert timelines([run_named(SERVICE[0])]) == []


def run_named(text):
    """Return a compared run of which only the scenario is read."""
    scenario, *settings = text.split()
    return ComparedRun(text, scenario, tuple(settings), answer({"matmul": 1.0}))


def test_names_of_runs_stay_text_on_the_page():
    """A name that is made to break out of the page is shown as it is."""
    text = render(compare_page({"matmul": 3.0}, name="<b>x</b><script>alert(1)</script>"))

    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_numbers_of_a_layout_that_does_not_fit_were_like_any_others():
    """The table and the finding mark them as hypothetical, as a run does."""
    small = {"batch.global": 16, "cluster.node.accelerator.memory.capacity.value": "1GB"}
    answer = clustersim.compare(
        ["frontier-22b", "frontier-22b recompute=none"], settings=small, jobs=1
    )
    heads = result_table(answer)[0]

    assert all(head.endswith(" (hypothetical)") for head in heads[1:])
    assert "frontier-22b is hypothetical: it does not fit: " in answer.comparisons[0].finding


@ALL_KINDS
def test_pages_and_files_of_all_kinds_have_the_measure_and_its_causes(kind):
    """A card has the measure, the CSV of the causes adds up."""
    result = compared_pair(kind)
    files = files_of(result)
    _, first, *changes, last = files.tables["waterfall.csv"]
    measure = measures_of(result.kinds)[result.by]

    assert float(first[3]) + sum(float(line[2]) for line in changes) == pytest.approx(last[3])
    assert f"{measure.label} of " in render(files.page)


# --- the verb -------------------------------------------------------------------------------------

N, P = r"[\d.,]+(?:e[+-]\d+)?", r"[\d.]+ %"  # a number, a share

TEXT = rf"""
frontier-22b batch.global=16 recompute=none: step time {N} s -> {N} s \(-{P}\): matmul -{N} .*
inputs         recompute full -> none
bottleneck     pipeline bubble, before and after
slowest stage  7 \(busy for {N} s, the mean stage for {N} s\) -> 7 \(busy .*\)
memory         fits: .* -> (?:fits|tight): .*
rate           no on-demand price of mi250x-gcd is quoted \(.*\), before and after
MFU            counts attention without its causal mask, .*
causes         -{N} s  -{P}  matmul
(?:             *[+-]{N} s +[+-]?{P}  [a-z ]+
)*               -{N} s +-{P}  total step time

 +frontier-22b batch.global=16  frontier-22b batch.global=16 recompute=none
step time +{N} s +{N} s \(-{P}\)
throughput +{N} tokens/s +{N} tokens/s \(\+{P}\)
(?:[A-Za-z ]+? +{N}.*
)*memory +fits +(?:fits|tight)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder to work in, whose run cache has the runs of `STEP`."""
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(autouse=True)
def _in_the_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_the_text_has_inputs_causes_and_results(capsys):
    """First of all the finding; then inputs, facts and parts; all measures as a table."""
    text = output(capsys, "compare", *STEP, "--jobs", "1")
    body, _, last = text.strip().rpartition("\n\n")
    *evidence, files = last.splitlines()

    assert [line[:14].strip() for line in evidence] == ["interval", "", "nearest runs"]
    assert re.fullmatch(TEXT.strip(), re.sub(" +$", "", body, flags=re.MULTILINE)), body
    assert files.endswith("runs/frontier-22b-compare/: report.html and more")


def test_the_files_hold_what_is_shown(capsys):
    """The summary lists them; the table has a column for each run."""
    assert ending(capsys, "compare", *STEP, "--jobs", "1")[0] == 0
    place = Path("runs/frontier-22b-compare")
    summary = json.loads((place / "summary.json").read_text())
    table, inputs = (
        [*csv.reader((place / f"{name}.csv").read_text().splitlines())]
        for name in ("compare", "inputs")
    )

    assert sorted(summary["files"]) == sorted(path.name for path in place.iterdir())
    assert table[0] == ["measure", *STEP]
    assert table[1][0] == "step_time_s"
    assert float(table[1][2]) == summary["runs"][1]["answer"]["step_time_s"]
    assert inputs[1:] == [[STEP[1], "recompute", "full", "none", "1"]]


def test_json_compares_every_run_with_the_first(capsys, folder):
    """One object, and no file but the run cache; a setting of all is in every run."""
    before = {path.name for path in folder.iterdir()}
    third = "frontier-22b batch.micro=2"
    answered = printed(
        capsys, "compare", "frontier-22b", "frontier-22b recompute=none", third,
        "--set", "batch.global=16", "--store", "runs/studies.db",
    )  # fmt: skip
    names = ["frontier-22b", "frontier-22b recompute=none", third]

    assert [run["name"] for run in answered["runs"]] == names
    assert [each["before"] for each in answered["comparisons"]] == ["frontier-22b"] * 2
    assert {path.name for path in folder.iterdir()} <= before | {"runs"}


def test_parts_of_another_sum_than_the_measure_are_labelled():
    """Changes of a throughput are of the device time per token; those of a time are its own."""
    pair = [answer({"matmul": 1.0}), answer({"matmul": 0.5})]
    by = {
        name: compared(*pair, by=name).comparisons[0].finding
        for name in ("tokens_per_s", "step_time_s")
    }

    assert "(+100.0 %); of the device time per token: matmul -" in by["tokens_per_s"]
    assert by["step_time_s"].endswith("(-50.0 %): matmul -500 ms")


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("megatron-1t-84-days", "cost"),
        ("megatron21-t1-1.7b", "tokens_per_dollar"),
        ("llama3-8b-h100-formats", "output_tokens_per_usd"),
    ],
)
def test_compared_prices_have_their_quotes(name, by):
    """Two prices stood next to each other without the rates that they are from."""
    pair = [name, f"{name} costs.usd_per_device_hour=5"]
    [comparison] = clustersim.compare(pair, by=by, jobs=1).comparisons

    assert "quotes of" in comparison.facts["rate"].before
    assert comparison.facts["rate"].after.startswith("5 USD per device and hour")


@ALL_KINDS
def test_each_side_has_its_evidence(kind):
    """As a run of its own has; where all sides have the same, it stands once, without a name."""
    answer = compared_pair(kind)
    lines = [row.text for row in evidence(answer)]
    own = {run.name: [row.text for row in evidence_rows(run.answer)] for run in answer.runs}

    assert all(len(texts) == 2 for texts in own.values())
    for name, texts in own.items():
        assert all(text in lines or f"{name}: {text}" in lines for text in texts)
    assert evidence(compared(*[answer.runs[0].answer] * 2)) == evidence_rows(answer.runs[0].answer)
