"""Comparisons of `clustersim validate`: the best-constant baseline, ranks of layouts, regret."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.answers import to_json
from clustersim.validation.answer import validation_of
from clustersim.validation.case_runs import run_cases
from clustersim.validation.cases.rows import parse_entries, read_entries
from clustersim.validation.grading import Grade
from clustersim.validation.outcome import Outcome
from clustersim.validation.ranking import job_runs, pooled_tau, tau_of
from clustersim.validation.summary import RatedRun, best_constant, errors_of, summarise
from clustersim.validation.text import GROUPS, LAYOUTS
from measured_runs import SMALL, traits

few = settings(max_examples=40, deadline=None)
rates = st.floats(1e12, 1e15)
apart = st.lists(st.integers(1, 999).map(lambda n: n * 1e12), min_size=2, max_size=12, unique=True)
runs = st.lists(st.builds(RatedRun, rates, st.booleans()), min_size=2, max_size=8)
points = st.lists(st.tuples(rates, rates), min_size=2, max_size=12)


def outcome(name, measured, predicted, *, layout=None, group="g", job="job", timed=True):
    """Return a graded run with the given rates of a device [FLOP/s]."""
    late = measured / predicted - 1  # a rate that is predicted too high is a time too short
    metric = "step_time_s" if timed else "tflops_per_gpu"
    error = late if timed else predicted / measured - 1
    return Outcome(
        name,
        group,
        grade=Grade(metric, None, 1.0, 1.0 + error, error, late),
        rates={"model": predicted, "hardware": predicted},
        job=job,
        layout={"tensor": layout or name},
    )


def outcomes_of(pairs):
    """Return a run of one job for each pair of rates, each in a layout of its own."""
    return [outcome(f"run-{i}", m, p) for i, (m, p) in enumerate(pairs)]


# --- the best constant ----------------------------------------------------------------------------


@few
@given(runs, rates)
def test_no_other_constant_has_a_smaller_mean_error(found, other):
    """The baseline is the strongest of its kind."""
    best = errors_of(best_constant(found), found).mean()

    assert best <= errors_of(other, found).mean() * (1 + 1e-9)


@few
@given(rates, st.lists(st.booleans(), min_size=2, max_size=5))
def test_equal_runs_are_met_exactly(rate, timed):
    """Where all devices run at one rate, a constant is right, whatever unit they are graded in."""
    found = [RatedRun(rate, by_time) for by_time in timed]

    assert errors_of(best_constant(found), found).max() < 1e-12


@few
@given(points)
def test_the_baseline_is_graded_on_the_same_runs(pairs):
    """It has a figure for each figure of the errors, over as many runs."""
    sums = summarise(outcomes_of(pairs))

    assert sums.constant.count == len(pairs)
    assert sums.constant.median_abs_error <= sums.constant.worst
    assert sums.constant.p90_abs_error <= sums.constant.worst * (1 + 1e-12)
    assert sums.p90_abs_error <= sums.worst * (1 + 1e-12)


def test_a_single_run_has_no_baseline():
    """One constant for one run would be right by construction."""
    sums = summarise([outcome("one", 1e14, 2e14)])

    assert sums.constant is None


def test_each_group_has_a_constant_of_its_own():
    """Over two groups of equal runs, two constants make no error and one would."""
    slow = [outcome(name, 1e13, 2e13, group="slow") for name in "ab"]
    fast = [outcome(name, 1e14, 2e14, group="fast") for name in "cd"]
    sums = summarise(slow + fast)

    assert sums.constant.mean_abs_error == pytest.approx(0)
    assert sums.constant.tflops is None
    assert summarise(slow).constant.tflops == pytest.approx(10)


# --- ranks ----------------------------------------------------------------------------------------


@few
@given(apart, st.floats(0.5, 2))
def test_a_perfect_ranking_has_tau_one(measured, factor):
    """Predictions that are all off by one factor put all runs in their order, and lose nothing."""
    sums = summarise(outcomes_of([(rate, factor * rate) for rate in measured])).layouts

    assert (sums.kendall_tau, sums.kendall_tau_group) == (1.0, pytest.approx(1.0))
    assert (sums.regret, sums.worst_regret) == (0.0, 0.0)


@few
@given(apart)
def test_a_reversed_ranking_has_tau_minus_one_and_takes_the_slowest(measured):
    """The most that can be lost is what is between the fastest and the slowest."""
    sums = summarise(outcomes_of([(rate, 1e27 / rate) for rate in measured])).layouts

    assert sums.kendall_tau == -1.0
    assert sums.regret == pytest.approx(1 - min(measured) / max(measured))
    assert sums.regret >= sums.blind_regret - 1e-12


@few
@given(points)
def test_the_tau_over_the_pairs_of_one_job_is_kendalls_tau_b(pairs):
    """Pooled over a single set it is that of scipy, with ties."""
    tied = [(round(m / 4e14), round(p / 4e14)) for m, p in pairs]

    assert pooled_tau([tied]) == pytest.approx(tau_of(tied))


def test_predicting_the_same_for_all_ranks_nothing():
    """A prediction that is equal for all layouts chooses the worst of them, and has no tau."""
    sums = summarise(outcomes_of([(1e14, 2e14), (2e14, 2e14), (4e14, 2e14)])).layouts

    assert sums.kendall_tau is None
    assert sums.regret == pytest.approx(0.75)


def test_repeated_runs_of_a_layout_are_one():
    """Two runs in one layout are no pair; a choice is held to their mean."""
    repeated = [outcome("a", 1e14, 3e14, layout=1), outcome("b", 2e14, 3e14, layout=1)]
    (job,) = job_runs([*repeated, outcome("c", 3e14, 2e14, layout=2)])

    assert [measured for measured, _ in job.rates] == [1.5e14, 3e14]
    assert job.ranking.regret == pytest.approx(0.5)
    assert job_runs(repeated) == []


def test_only_runs_of_one_job_are_ranked():
    """Another model, another batch or another group is another question."""
    found = [outcome("a", 1e14, 1e14), outcome("b", 2e14, 1e14, job="other")]

    assert job_runs([*found, outcome("c", 2e14, 1e14, group="h")]) == []
    assert summarise(found).layouts is None


# --- through the whole command --------------------------------------------------------------------


def row_like(**fields):
    """Return the row of the small file that states everything, with other fields."""
    row = next(entry.row for entry in read_entries(SMALL) if entry.id == "good")
    return {**row.model_dump(by_alias=True), **fields}


@pytest.fixture(scope="module")
def answer():
    """Return the answer for one run in three units, and for it in another layout."""
    seconds, tokens = 0.1, 8 * 1024 / 4
    units = {"step_time_s": seconds, "tokens_per_s_per_gpu": tokens / seconds}
    units["samples_per_s"] = 8 / seconds
    rows = [row_like(id=name, measured={name: value}) for name, value in units.items()]
    rows.append(row_like(id="again", recompute="none", measured={"step_time_s": 0.08}))
    rows.append(row_like(id="larger", batch={"global": 16, "micro": 2}))
    return validation_of(run_cases(parse_entries(rows)))


def test_a_run_in_another_unit_is_graded_the_same(answer):
    """Its time is as far off, and its devices are as fast, whatever the source prints."""
    times = [case.time_error for case in answer.cases[:3]]
    speeds = [case.tflops_measured for case in answer.cases[:3]]

    assert times == pytest.approx([times[0]] * 3)
    assert speeds == pytest.approx([speeds[0]] * 3)


def test_a_layer_alone_has_a_throughput_as_a_step_has():
    """Its FLOPs over its time on each device: a forward takes a third of those of both passes."""
    whole = row_like(id="whole", scope="single-layer", measured={"layer_total_ms": 20})
    ahead = row_like(id="ahead", scope="single-layer", measured={"layer_forward_ms": 20})
    outcomes = run_cases(parse_entries([whole, ahead]))
    both, forward = (outcome.answer.tflops_measured for outcome in outcomes)
    # 2 sequences of 1,024 on 2 ranks; 24 h^2 + 4 s h a token, forward, for h = 1,024
    flops = 2 * 1024 * (24 * 1024**2 + 4 * 1024 * 1024) / 2

    assert forward == pytest.approx(flops / 20e-3 / 1e12)
    assert both == pytest.approx(3 * forward)


def test_layouts_of_one_job_stand_together(answer):
    """Recomputation is a matter of layout; the size of the batch is not."""
    (job,) = to_json(answer)["layouts"]

    assert job["cases"] == ["step_time_s", "tokens_per_s_per_gpu", "samples_per_s", "again"]
    assert job["chosen"] == job["fastest"] == "again"
    assert (job["regret"], job["kendall_tau"]) == (0, 1)


def test_the_tables_hold_the_baseline_and_the_ranks(answer):
    """A figure is followed by that of the baseline, and a loss by the mean over all layouts."""
    (group, _), (layouts, _) = GROUPS.rows(answer), LAYOUTS.rows(answer)
    shown = f"({100 * answer.groups['small'].constant.mean_abs_error:.1f} %)"

    assert group[3].endswith(shown)
    assert layouts[:4] == ("small", "4 of 1", "1.00", layouts[3])
    assert layouts[5] == "0.0 %"


def test_a_choice_within_the_prediction_interval_is_a_tie():
    """Layouts whose predictions differ by less than the error of predictions tie."""
    machine = {"traits": traits(accelerator="a100-80gb", generation="8.0", nodes=4)}
    close, far = (
        [replace(one, **machine) for one in outcomes_of(pairs)]
        for pairs in ([(10.0, 1.0), (9.0, 1.02)], [(10.0, 1.0), (9.0, 100.0)])
    )

    assert job_runs(close)[0].ranking.tie is True
    assert job_runs(far)[0].ranking.tie is False
    assert job_runs(outcomes_of([(1.0, 1.0), (2.0, 2.0)]))[0].ranking.tie is None
