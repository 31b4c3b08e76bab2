"""Sweeps of whole runs: ranked by days, goodput, energy and price."""

import re
from functools import lru_cache

import pytest
from clustersim.studies.compare.charts import run_waterfall

from clustersim.errors import ScenarioError
from clustersim.render.page.page import render
from clustersim.studies.compare import compare
from clustersim.studies.compare.files import files_of
from clustersim.studies.compare.text import result_rows
from clustersim.studies.compare.text import rows as compare_rows
from clustersim.studies.sweep import sweep
from clustersim.studies.sweep.text import layout_tables, rows
from clustersim.studies.whatif import whatif
from clustersim.studies.whatif.charts import savings_chart
from clustersim.studies.whatif.page import page as whatif_page
from clustersim.studies.whatif.text import RUN_WORDS, finding, table
from clustersim.studies.whatif.text import rows as whatif_rows

OVER = {"training.checkpoint.every": ["5 min", "31 min", "4 h"]}
FEW = "training.replications=100"
FAST = {"training.replications": 100}


def test_a_sweep_over_intervals_ranks_runs_by_their_days():
    """The interval near the optimum is the best; its row has days, goodput, energy and price."""
    answer = sweep("megatron-1t-84-days", over=OVER, by="days", settings=FAST, jobs=1)
    best = answer.fitting[0]
    days = [row["days"] for row in answer.fitting]

    assert best["training.checkpoint.every"] == "31 min"
    assert days == sorted(days)
    assert {"goodput", "energy", "cost"} <= best.keys()
    assert "days" in rows(answer)[2].text
    assert "days" in layout_tables(answer)[0][1][0]


def test_steps_have_no_columns_of_runs():
    """A sweep without a section training has the columns of a step alone."""
    answer = sweep("frontier-22b", over={"batch.micro": [1]}, settings={"batch.global": 16}, jobs=1)

    assert "days" not in answer.points[0]


def test_days_of_a_step_are_rejected():
    """Ranking by days needs a run."""
    with pytest.raises(ScenarioError, match="no section training"):
        sweep("frontier-22b", over={"batch.micro": [1]}, by="days", jobs=1)


def test_intervals_shorter_than_a_drain_are_invalid_combinations():
    """Such a combination is part of the answer, with its reason."""
    settings = {**FAST, "training.checkpoint.mode": "asynchronous"}
    over = {"training.checkpoint.every": ["10 s", "31 min"]}
    answer = sweep("megatron-1t-84-days", over=over, by="goodput", settings=settings, jobs=1)

    assert answer.counts.invalid == 1
    assert "pile up" in answer.invalid[0].why


def test_a_what_if_of_a_run_ranks_changes_by_days():
    """Asynchronous saves change no step and save days of the run."""
    settings = ["training.checkpoint.mode=asynchronous", "training.checkpoint.every=4 h"]
    answer = whatif("megatron-1t-84-days training.replications=100", settings=settings, jobs=1)
    best = answer.changes[0]

    assert best.settings == ("training.checkpoint.mode=asynchronous",)
    assert best.saved_s == 0
    assert best.saved_days > 2
    assert "days of the run" in finding(answer)
    assert "days saved" in table(answer)[0]


CHANGES = (
    "training.checkpoint.mode=asynchronous",
    "cluster.node.accelerator.power_cap='300 W'",
)


@lru_cache
def changed(by, *settings):
    """Return the changes of a run by a measure."""
    return whatif("megatron-1t-84-days training.replications=100", settings=settings, by=by, jobs=1)


@pytest.mark.parametrize(
    "by",
    ["days", *(pytest.param(by, marks=pytest.mark.large) for by in ("goodput", "energy", "cost"))],
)
def test_what_ifs_rank_by_the_measure(by):
    """The order is that of what is saved of the measure; the first column has it."""
    answer = changed(by, *CHANGES)
    saved = [change.saved_run[by] for change in answer.changes]
    heads, *lines = table(answer)

    assert answer.by == by
    assert saved == sorted(saved, reverse=True)
    assert heads[0] == RUN_WORDS[by].heading
    assert float(lines[0][0].replace(",", "")) == pytest.approx(
        RUN_WORDS[by].factor * saved[0], rel=6e-3
    )
    assert RUN_WORDS[by].verb in finding(answer)


@pytest.mark.large
def test_a_lower_cap_saves_energy_and_costs_days():
    """The two measures rank one change apart: it saves by one and does not by the other."""
    cap = changed("energy", CHANGES[1]).changes[0]

    assert cap.saved_run["energy"] > 0 > cap.saved_run["days"]
    assert cap.saved_run["days"] == cap.saved_days
    assert sum(cap.run_parts.values()) == pytest.approx(-cap.saved_days)
    assert finding(changed("days", CHANGES[1])) == "none of the changes saves time"


@pytest.mark.large
@pytest.mark.parametrize("by", ["days", "energy", "goodput"])
def test_savings_of_a_run_lead_to_all_changes_together(by):
    """The waterfall ends where the run with all changes is, their interaction included."""
    answer = changed(by, *CHANGES)
    chart, together = savings_chart(answer), answer.together
    base = {"days": answer.base.training.days, "goodput": answer.base.training.goodput}.get(
        by, answer.base.training.energy_kwh
    )
    sign = 1 if by == "goodput" else -1

    assert chart.end == pytest.approx(RUN_WORDS[by].factor * (base + sign * together.saved_run[by]))
    assert together.sum_run == pytest.approx(sum(c.saved_run[by] for c in answer.changes))
    assert "in all; separately they" in whatif_rows(answer)[0].text
    assert render(whatif_page(answer)).count(RUN_WORDS[by].unit) > 0


def test_what_ifs_of_a_step_have_no_measure_of_a_run():
    """Days of a step are rejected in one line."""
    with pytest.raises(ScenarioError, match=r"^--by days: frontier-22b has no section training"):
        whatif("frontier-22b", settings=["plan.zero=1"], by="days", jobs=1)


# --- comparisons ----------------------------------------------------------------------------------

RUN = f"megatron-1t-84-days {FEW}"
CAPPED = f"{RUN} cluster.node.accelerator.power_cap='300 W'"


@lru_cache
def compared(*scenarios, by=None):
    """Return the comparison of two whole runs."""
    return compare(scenarios, by=by, jobs=1).comparisons[0]


def test_runs_that_differ_in_their_days_alone_are_not_as_fast():
    """Saves every four hours change no step; the finding states the days and their cause."""
    change = compared(RUN, f"{RUN} training.checkpoint.every=4h")
    days = change.differences["days"]

    assert change.speedup == 1
    assert days.change > 2
    assert re.search(
        r"takes [\d.]+ % more days than \S+ \S+ \([\d.]+ -> [\d.]+\): lost \+", change.finding
    )
    assert change.training.gain == pytest.approx(days.before / days.after)


def test_parts_of_whole_runs_add_up_to_their_days():
    """Each part of the elapsed time differs by its own days, the step as useful time among them."""
    change = compared(RUN, CAPPED)

    assert sum(change.training.parts.values()) == pytest.approx(
        change.differences["days"].change, abs=1e-9
    )
    assert change.training.parts["useful"] == pytest.approx(
        change.differences["run_useful_s"].change / 86400
    )


def test_energy_is_days_times_energy_per_day():
    """A lower cap takes longer and less energy; the finding states both factors."""
    change = compared(RUN, CAPPED, by="energy")
    days, energy = change.differences["days"], change.differences["energy"]
    found = re.search(r"days \+([\d.]+) %, energy per day -([\d.]+) %", change.finding)
    ratio = (1 + float(found[1]) / 100) * (1 - float(found[2]) / 100)

    assert change.finding.startswith(f"{CAPPED} takes")
    assert "less energy" in change.finding
    assert ratio == pytest.approx(energy.after / energy.before, abs=2e-3)
    assert change.training.gain > 1 > days.before / days.after


@pytest.mark.large
@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("cost", r"costs [\d.]+ % more than .* USD\)"),
        ("goodput", r"has (?:the same|[\d.]+ points)"),
    ],
)
def test_findings_state_the_measure(by, words):
    """The sentence is about what was requested."""
    assert re.search(words, compared(RUN, CAPPED, by=by).finding)


def test_a_comparison_of_a_run_with_itself_has_no_causes():
    """Equal runs take as many days, and no part changed."""
    change = compared(RUN, RUN)
    texts = [row.text for row in compare_rows(change)]

    assert change.finding.endswith(f"takes as many days as {RUN}")
    assert "no part of the elapsed time changed" in texts
    assert run_waterfall(change).title == "The run takes as long"


def test_a_comparison_of_runs_has_their_days():
    """Days, goodput, energy, price and checkpoints of both runs are lines of the results."""
    runs = [f"{RUN} training.checkpoint.every={every}" for every in ("1h", "4h")]
    lines = {row.label: row.text for row in result_rows(compared(*runs))}

    assert re.fullmatch(r"[\d.]+ -> [\d.]+ days \(\+[\d.]+ %\)", lines["duration"])
    assert "interruptions" in lines["goodput"]
    assert "MWh" in lines["energy"]
    assert "USD" in lines["price"]
    assert re.fullmatch(r"[\d.]+ min -> 4[\d.]* h", lines["interval"])


def test_runs_of_other_tokens_are_named():
    """Half the tokens in half the days is no faster machine."""
    change = compared(RUN, f"{RUN} training.tokens=225e9")

    assert "(0.5 times the tokens)" in change.finding


def test_a_step_alone_is_compared_as_a_step():
    """One scenario without a run leaves steps to compare; a measure of runs is rejected."""
    change = compared("frontier-22b batch.global=16", RUN)

    assert change.training is None
    assert "days" not in change.differences
    with pytest.raises(ScenarioError, match="frontier-22b has no section training"):
        compare([RUN, "frontier-22b"], by="days", jobs=1)


@pytest.mark.parametrize(
    ("scenario", "by", "message"),
    [
        (RUN, "dayz", r"^--by dayz: unknown measure of runs \(did you mean 'days'\?\) \(known: "),
        (f"fugaku-llm-run {FEW}", "cost", r"^--by cost: .* has no cost: no price of this acc"),
    ],
)
def test_measures_that_no_run_has_are_rejected(scenario, by, message):
    """Each is one line with the reason."""
    with pytest.raises(ScenarioError, match=message):
        compare([scenario, f"{scenario} training.checkpoint.every=3h"], by=by, jobs=1)


def test_the_page_of_a_comparison_of_runs_has_days_and_their_causes():
    """The cards have days, the causes begin with the parts of the run, the CSV adds up."""
    answer = compare([RUN, f"{RUN} training.checkpoint.every=4h"], jobs=1)
    files = files_of(answer)
    _, *lines = files.tables["waterfall-run.csv"]
    levels = [line[3] for line in lines]

    assert {"waterfall-run", "waterfall"} <= files.figures.keys()
    assert levels[0] == pytest.approx(answer.runs[0].answer.training.days)
    assert levels[-1] == pytest.approx(answer.runs[1].answer.training.days, rel=1e-3)
    assert "days</span>" in render(files.page)
