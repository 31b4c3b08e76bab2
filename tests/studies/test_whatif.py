"""What if: changes of a scenario alone and together, ranked by what they improve."""

import csv
import json
import re
from functools import cache
from math import prod
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import clustersim
from answers import KINDS, answer, made_up, run_of, service, training_run
from clustersim.answers import from_json, to_json
from clustersim.errors import ScenarioError, SimulationError
from clustersim.render.page.page import render
from clustersim.render.tables import columned
from clustersim.reports.measures import VERDICT_STYLES
from clustersim.runs.variants import FAILED, INVALID, RAN, Run, Variant
from clustersim.simulation.measures import measures_of
from clustersim.simulation.step.simulate import simulate
from clustersim.studies.whatif import WhatIfAnswer, text
from clustersim.studies.whatif.answer import change_groups, rank_changes, variants_of
from clustersim.studies.whatif.files import change_label, page, savings_chart
from commands import ending, output, printed

SMALL = Variant("frontier-22b", ("batch.global=16",))
LAW = settings(max_examples=20, deadline=None)
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)
PAIR = [("plan.zero=0",), ("batch.micro=2",)]
RUN = "megatron-1t-84-days training.replications=30"
SERVICE = "llama3-70b-h100-serving load.concurrency=8 load.requests=16"
BY = {"step": "step_time_s", "training run": "days", "service": "tpot"}


def ranked(base, *runs, changes=None, together=None, by="step_time_s"):
    """Return the answer of runs; one may be given as its verdict or the parts of its step."""
    changes = changes or [(f"batch.global={16 * i}",) for i in range(1, len(runs) + 1)]
    last = [] if together is None else [together]
    return rank_changes(variants_of(SMALL, changes), [*map(_run, (base, *runs, *last))], by)


def _run(result):
    if isinstance(result, str):
        return Run(None, result, "a reason")
    return run_of(answer(result) if isinstance(result, dict) else result)


# --- what is run ----------------------------------------------------------------------------------


def test_each_change_is_run_alone_and_all_together():
    """After the base, in the order in which they are given."""
    question = variants_of(SMALL, [("plan.zero=0",), ("batch.micro=2", "recompute=none")])

    assert [variant.settings[1:] for variant in question.all] == [
        (),
        ("plan.zero=0",),
        ("batch.micro=2", "recompute=none"),
        ("plan.zero=0", "batch.micro=2", "recompute=none"),
    ]
    assert question.joined == (0, 1)


def test_one_change_is_together_with_nothing():
    """There is nothing to combine."""
    question = variants_of(SMALL, [("plan.zero=0",)])

    assert (len(question.all), question.together, question.apart) == (2, None, None)


def test_an_invalid_layout_is_not_combined():
    """It is named with its reason; the others are joined without it."""
    changes = [("plan.data=4",), ("plan.zero=0",), ("batch.micro=2",)]
    question = variants_of(SMALL, changes)

    assert "32 ranks, but the job has 16 devices" in question.variants[0].problem
    assert question.together.settings[1:] == ("plan.zero=0", "batch.micro=2")
    assert question.joined == (1, 2)


def test_changes_that_can_only_be_together_are():
    """Half the stages alone are too few ranks, twice the replicas too many; both at once fit."""
    question = variants_of(SMALL, [("plan.pipeline=4",), ("plan.data=4",)])

    assert all(variant.problem for variant in question.variants)
    assert question.together.settings[1:] == ("plan.pipeline=4", "plan.data=4")


def test_two_values_for_one_key_are_never_together():
    """They are alternatives, and the reason names the key."""
    question = variants_of(SMALL, [("batch.micro=2",), ("batch.micro=4",)])

    assert question.together is None
    assert question.apart == "batch.micro is changed twice"


def test_a_setting_is_a_change_and_so_are_several_in_one_text():
    """`--set` changes one value, `--change` several that belong together."""
    assert change_groups("a", ["x=1"], ["y=2 z=3"]) == [("x=1",), ("y=2", "z=3")]


# --- laws, of all kinds ---------------------------------------------------------------------------


@ALL_KINDS
@LAW
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=4))
def test_changes_are_ranked_by_their_gain(kind, sizes):
    """The best first; gain is the ratio of the measure, and the parts sum to its change."""
    by, base = BY[kind], made_up(kind)
    changes = [(f"batch.micro={i + 1}", f"batch.global={16 * (i + 1)}") for i in range(len(sizes))]
    result = ranked(base, *(made_up(kind, size) for size in sizes), changes=changes, by=by)
    gains, value = [each.gain for each in result.changes], base.measures()[by]

    assert gains == sorted(gains, reverse=True)
    for each in result.changes:
        assert each.gain == pytest.approx(value / each.measures[by])
        assert sum(each.parts.values()) == pytest.approx(each.change, abs=1e-9)


@ALL_KINDS
def test_the_answer_is_read_back_from_json(kind):
    """Changes with and without a result, and the combination, keep their types."""
    result = ranked(
        made_up(kind), INVALID, made_up(kind, 0.5), changes=PAIR, together=made_up(kind, 0.5),
        by=BY[kind],
    )  # fmt: skip

    assert from_json(WhatIfAnswer, to_json(result)) == result


@ALL_KINDS
@pytest.mark.parametrize(
    ("alone", "together", "of_sum"),
    [((0.9, 0.8), 0.7, 1.0), ((0.9, 0.8), 0.85, 0.5), ((0.9, 0.9), 0.6, 2.0)],
    ids=["independent", "one hides the other", "for each other"],
)
def test_the_interaction_of_changes_is_reported(kind, alone, together, of_sum):
    """What they change together over what they change one by one; the chart adds up to it."""
    result = ranked(
        *(made_up(kind, size) for size in (1.0, *alone)), changes=PAIR,
        together=made_up(kind, together), by=BY[kind],
    )  # fmt: skip
    chart = savings_chart(result)

    assert result.of_sum == pytest.approx(of_sum)
    assert result.sum == pytest.approx(sum(each.change for each in result.changes))
    assert result.product == pytest.approx(prod(each.gain for each in result.changes))
    assert chart.end / chart.start == pytest.approx(1 / result.together.gain)
    assert f"{100 * of_sum:.1f} % of the sum" in next(text.rows(result)).text
    assert measures_of(result.base.kinds)[result.by].label in render(page(result))


@ALL_KINDS
def test_changes_without_a_result_come_last(kind):
    """After all that ran, with the reason."""
    runs = (INVALID, made_up(kind, 2), FAILED, made_up(kind, 0.5))
    result = ranked(made_up(kind), *runs, by=BY[kind])
    rows = {row.label: row.text for row in text.rows(result)}

    assert [each.verdict for each in result.changes] == [RAN, RAN, INVALID, FAILED]
    assert to_json(result)["changes"][2] == {
        "settings": ["batch.global=16"], "verdict": INVALID, "why": "a reason",
        **dict.fromkeys(("gain", "change", "account", "part", "fits")),
        **{key: {} for key in ("measures", "parts", "facts", "assumed")},
    }  # fmt: skip
    assert (rows["invalid"], rows["failed"]) == ("batch.global=16: a reason",
                                                 "batch.global=48: a reason")  # fmt: skip


@ALL_KINDS
def test_a_base_without_the_measure_is_an_error(kind):
    """Without its number no change has a gain: it failed, does not fit, or is not known."""
    with pytest.raises(SimulationError, match="frontier-22b: a reason"):
        ranked(FAILED, made_up(kind))
    base, by, why = {
        "step": (answer({"matmul": 1.0}), "bubble_fraction", "bubble is 0"),
        "training run": (training_run({"useful": 1.0}, cost=None), "cost", "cost is not known"),
        "service": (service({"kv": 1.0}, fits=False), "tpot", "does not fit: a device needs"),
    }[kind]
    with pytest.raises(ScenarioError, match=f"^made-up: {why}.*, so that no change has a gain$"):
        ranked(base, made_up(kind), by=by)


# --- findings -------------------------------------------------------------------------------------


def test_a_measure_of_0_is_the_best_and_has_no_ratio():
    """Without a pipeline there is no bubble; the change is first and has no gain."""
    bubbles = [{"matmul": 6.0, "bubble_fill": seconds} for seconds in (2.0, 1.0, 0.0)]
    result = ranked(*bubbles, changes=PAIR, together=INVALID, by="bubble_fraction")
    best = result.changes[0]

    assert (best.settings, best.gain) == (PAIR[1], None)
    assert best.why == "bubble_fraction is 0, which has no ratio"
    assert text.finding(result) == "batch.micro=2 is best: bubble 25.0 % -> 0.0 %"
    assert text.table(result)[2][0] == "-"


def test_changes_of_other_batches_are_explained_by_a_token():
    """Twice the batch in 1.5 times the time is a third faster."""
    result = ranked({"matmul": 4.0}, answer({"matmul": 6.0}, tokens=2**21), by="tokens_per_s")

    assert result.changes[0].gain == pytest.approx(4 / 3)
    assert result.changes[0].account == "token"
    assert "other tokens in a step" in next(text.rows(result)).text


def test_a_sum_that_saves_nothing_has_no_share():
    """Nothing is divided by what two changes do not save."""
    parts = [{"matmul": seconds} for seconds in (10.0, 10.0, 10.0)]
    result = ranked(*parts, changes=PAIR, together={"matmul": 9.0})

    assert (result.sum, result.of_sum) == (0.0, None)
    assert savings_chart(result).end == pytest.approx(9.0)


def test_changes_of_both_signs_were_a_tenth_of_their_combination():
    """Of a gain and a loss the sum has no meaning as a whole; the chart still adds up."""
    parts = [{"matmul": seconds} for seconds in (10.0, 8.0, 11.9)]
    result = ranked(*parts, changes=PAIR, together={"matmul": 11.0})

    assert (result.sum, result.of_sum) == (pytest.approx(-0.1), None)
    assert savings_chart(result).end == pytest.approx(11.0)


FINDINGS = [
    ([9.0, 8.0], "batch.micro=2 is best: step time 10 s -> 8 s (-20.0 %)"),
    ([9.0, answer({"matmul": 8.0}, fits=False)],
     "plan.zero=0 is best: step time 10 s -> 9 s (-10.0 %); batch.micro=2 gains more, but does not"
     " fit"),
    ([11.0, answer({"matmul": 8.0}, fits=False)],
     "no change that fits improves the step time; batch.micro=2 would: step time 10 s -> 8 s"
     " (-20.0 %), but does not fit"),
    ([11.0, INVALID], "none of the changes improves the step time"),
    ([INVALID, INVALID], "no change is valid and fits"),
]  # fmt: skip


@pytest.mark.parametrize(("runs", "finding"), FINDINGS, ids=[each[1][:30] for each in FINDINGS])
def test_the_finding_is_the_best_change_that_fits(runs, finding):
    """That none of these improves comes before one that does not fit."""
    results = [{"matmul": run} if isinstance(run, float) else run for run in runs]
    result = ranked({"matmul": 10.0}, *results, changes=PAIR, together=INVALID)

    assert text.finding(result) == finding
    render(page(result))


def test_a_terminal_gets_the_same_table():
    """Broken where it is narrow, and too much memory catches the eye."""
    heavy = answer({"matmul": 9.0}, fits=False)
    result = ranked({"matmul": 10.0}, heavy, {"matmul": 8.0}, changes=PAIR, together=INVALID)
    console = Console(width=100, force_terminal=True, color_system="standard")
    with console.capture() as shown:
        console.print(columned(text.table(result), text.WORDS, VERDICT_STYLES))
    lines = re.sub(r"\x1b\[[\d;]*m", "", shown.get()).splitlines()

    assert max(map(len, lines)) <= 100
    assert "\x1b[1;31mdoes" in shown.get()


def test_the_label_of_a_bar_keeps_the_end_of_the_path():
    """A long path is cut from the left, and further settings are counted."""
    single = ["cluster.node.accelerator.memory.bandwidth=x2"]
    several = ["plan.pipeline=32", "plan.data=12", "plan.zero=0"]

    assert change_label(single) == "...memory.bandwidth=x2"
    assert change_label(several) == "plan.pipeline=32 and 2 more"


def test_the_page_has_the_ranking_and_its_chart():
    """The changes in the order of the text, and the bars that lead from the base to all of them."""
    parts = [{"matmul": seconds} for seconds in (10.0, 9.0, 8.0)]
    results, causes = page(ranked(*parts, changes=PAIR, together={"matmul": 7.5})).sections

    assert [row[0] for row in results.blocks[1].rows] == ["base", "batch.micro=2", "plan.zero=0"]
    assert causes.blocks[0].figure["data"][0]["x"] == [10.0, 2.0, 1.0, 0.5, 7.5]
    assert len(page(ranked({"matmul": 1.0}, INVALID)).sections) == 1


# --- known answers --------------------------------------------------------------------------------

ONE_NODE = "megatron21-t1-1.7b plan.data=8 cluster.nodes=1 batch.global=128"


def test_twice_the_peak_saves_up_to_half_of_the_products():
    """More than a quarter of their time, as tiles are loaded as before, and no more than half."""
    base = f"{ONE_NODE} cluster.node.accelerator.launch_overhead=0 s"
    result = clustersim.whatif(base, settings=["cluster.node.accelerator.peak.fp16=x2"], jobs=1)
    (change,), products = result.changes, result.base.attribution["matmul"]

    assert -products / 2 < change.parts["matmul"] < -products / 4
    assert change.change == pytest.approx(change.parts["matmul"] + change.parts["attention"])
    assert change.part == "matmul"


def test_an_idle_link_saves_no_time():
    """A wider network does not help a job on one node."""
    result = clustersim.whatif(ONE_NODE, settings=["cluster.fabric.link.bandwidth=x2"], jobs=1)

    assert result.changes[0].change == pytest.approx(0.0, abs=1e-9)


RUN_CHANGES = (
    "training.checkpoint.mode=asynchronous",
    "cluster.node.accelerator.power_cap='300 W'",
)


@cache
def changed_run(by):
    """Return two changes of a run by a measure."""
    return clustersim.whatif(RUN, settings=RUN_CHANGES, by=by, jobs=1)


@pytest.mark.large
def test_asynchronous_saves_gain_days_and_no_step():
    """They change no step and save days of the run; the usual measure of a run is its days."""
    result = changed_run(None)
    best = result.changes[0]

    assert (result.by, best.settings) == ("days", RUN_CHANGES[:1])
    assert best.measures["step_time_s"] == result.base.step_time_s
    assert best.change < -2
    assert "duration" in text.finding(result)
    assert "days" in text.table(result)[0]


@pytest.mark.large
def test_a_lower_cap_saves_energy_and_costs_days():
    """The two measures rank one change apart: it gains by one and not by the other."""
    by_energy, by_days = (
        next(change for change in changed_run(by).changes if change.settings == RUN_CHANGES[1:])
        for by in ("energy", "days")
    )

    assert by_energy.gain > 1 > by_days.gain
    assert (by_energy.account, by_energy.measures) == ("run", by_days.measures)


@pytest.mark.large
def test_fused_kernels_and_links_of_a_service_gain():
    """Faster links gain, unfused kernels and wider weights lose; the gains almost multiply."""
    changes = [
        "precision=bf16", "cluster.node.interconnect.bandwidth=x2", "engine.kernels.norm=false",
    ]  # fmt: skip
    result = clustersim.whatif(SERVICE, settings=changes, jobs=1)
    gains = {each.settings[0]: each.gain for each in result.changes}

    assert gains[changes[0]] < gains[changes[2]] < 1 < gains[changes[1]]
    assert result.together.gain == pytest.approx(result.product, rel=0.1)


def test_drafting_without_a_draft_model_was_free_without_a_word():
    """A change that assumes that drafting takes no time reports it; one that states it does not."""
    drafts = ("draft: llama3-8b", "share: 0.05")
    free, *stated = (
        f"speculation={{tokens: 3, acceptance: 0.7{more}}}"
        for more in ("", *(f", {draft}" for draft in drafts))
    )
    answer = clustersim.whatif("llama3-70b-h100-serving", settings=[free, *stated], jobs=1)
    lines = [row.text for row in text.rows(answer) if row.label == "assumed"]

    assert len(lines) == 1
    assert lines[0].startswith(
        f"{free}: speculation.share: 0: drafting takes no time, as of a look"
    )
    assert [change.settings for change in answer.changes if change.assumed] == [(free,)]


def test_a_batch_is_ranked_by_its_latency():
    """A batch that is faster serves the same requests sooner."""
    result = clustersim.whatif(
        "gpt-175b-a100-fastertransformer", settings=["load.output=9"], jobs=1
    )

    assert result.by == "latency"
    assert result.changes[0].measures["latency"] > result.base.latency_s.mean


# --- the verb -------------------------------------------------------------------------------------

N, P = r"[\d.,]+", r"[\d.]+ %"  # a number, a share

TEXT = rf"""
recompute=none is best: step time {N} s -> {N} s \(-{P}\), tight in memory

 +gain +step +tokens/s +MFU +peak memory +change +main part +bottleneck +memory
 +1 +{N} s +{N} +{P} +{N} GiB  base .*  fits
 *{N}  -{P} +{N} s +{N} +{P} +{N} GiB  recompute=none +less [a-z ]+  .* tight
 *{N}  \+{P} +{N} s +{N} +{P} +{N} GiB  cluster.nic.bandwidth=/64  more [a-z ]+  .* fits
together      the 2 valid changes: step time {N} s -> {N} s \(\+{P}\), gain {N}; separate gains .*
invalid       plan.data=4: .*: plan: tensor 1 x pipeline 8 x data 4 = 32 ranks, .*
files         runs/frontier-22b-whatif/: report.html and more
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder to work in, with its run cache."""
    return tmp_path_factory.mktemp("whatif")


@pytest.fixture(autouse=True)
def _in_the_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


CHANGES = (
    "frontier-22b batch.global=16", "--set", "cluster.nic.bandwidth=/64", "--set", "plan.data=4",
    "--change", "recompute=none",
)  # fmt: skip


def test_the_text_ranks_the_changes(capsys):
    """The finding, a line for each change, all changes together, invalid ones, the files."""
    out = output(capsys, "whatif", *CHANGES, "--jobs", "1")

    assert re.fullmatch(TEXT.strip(), out.strip()), out


def test_the_files_hold_what_is_shown(capsys):
    """The summary lists them; the table has a row for each change and for all together."""
    assert ending(capsys, "whatif", *CHANGES, "--jobs", "1")[0] == 0
    place = Path("runs/frontier-22b-whatif")
    summary = json.loads((place / "summary.json").read_text())
    rows = [*csv.DictReader((place / "whatif.csv").read_text().splitlines())]

    assert sorted(summary["files"]) == sorted(path.name for path in place.iterdir())
    assert [row["verdict"] for row in rows] == ["ran", "ran", "invalid", "ran"]
    assert rows[0]["settings"] == "recompute=none"
    assert float(rows[3]["step_time_s"]) == summary["together"]["measures"]["step_time_s"]


def test_json_is_one_object(capsys):
    """The same numbers; the base has the changes behind its name, as in a comparison."""
    result = printed(capsys, "whatif", *CHANGES)
    alone = simulate("frontier-22b", ["batch.global=16"])

    assert [each["settings"] for each in result["changes"]] == [
        ["recompute=none"], ["cluster.nic.bandwidth=/64"], ["plan.data=4"],
    ]  # fmt: skip
    assert result["base"]["step_time_s"] == pytest.approx(alone.step_time)
