"""The interval of a measured number: its coverage, and the runs that it is made from."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.evidence import LEVEL, intraclass_correlation, parse_runs, quantile, runs_text
from clustersim.metrics.prediction_interval import (
    Bounds,
    ErrorsByNearness,
    Interval,
    TraitTable,
    bounds,
    differences,
    interval,
)
from clustersim.reports.step.text import rows
from clustersim.simulation.step.simulate import simulate
from measured_runs import evidence, run_of, runs_of, traits

laws = settings(max_examples=20, deadline=None)

HERE = traits()


def reach_of(runs, where=HERE):
    return ErrorsByNearness(runs).reach(where)


def normal(generator, spread, count):
    return [math.exp(generator.gauss(0, spread)) for _ in range(count)]


# --- what an interval promises --------------------------------------------------------------------


@pytest.mark.parametrize("count", [19, 39, 100])
def test_nine_of_ten_new_runs_fall_inside(count):
    """Over many draws of independent runs, the share of new ones inside is the level or more."""
    generator, inside = random.Random(count), []
    for _ in range(4000 // count):
        found = reach_of(runs_of(*([ratio] for ratio in normal(generator, 0.2, count))))
        ends = math.log(found.below), math.log(found.above)
        inside.append(sum(math.erf(end / 0.2 / math.sqrt(2)) for end in ends) / 2)
    share = sum(inside) / len(inside)

    assert LEVEL - 0.02 < share < LEVEL + 2 / (count + 1) + 0.02


def test_runs_of_new_sources_fall_inside_as_often_as_promised():
    """Sources that are off by factors of their own count for less than as many single runs."""
    generator = random.Random(1)

    def sources(count):
        return [
            normal(
                generator, 0.05 * math.exp(generator.gauss(0, 0.7)), generator.choice([1, 4, 40])
            )
            for _ in range(count)
        ]

    found = reach_of(runs_of(*sources(100)))
    new = sources(300)
    inside = [sum(1 / found.below <= r <= found.above for r in of) / len(of) for of in new]

    assert sum(inside) / len(new) == pytest.approx(LEVEL, abs=0.04)


@given(evidence, st.floats(1.1, 3.0))
@laws
def test_more_spread_gives_a_wider_interval(sources, times):
    """Errors that are all larger by a factor make the logarithm of the bound larger by it."""
    wide = [[ratio**times for ratio in of] for of in sources]
    before, after = (reach_of(runs_of(*each)) for each in (sources, wide))

    assert (before.below is None) == (after.below is None)
    if before.below is not None:
        assert math.log(after.below) == pytest.approx(times * math.log(before.below), abs=1e-9)
        assert math.log(after.above) == pytest.approx(times * math.log(before.above), abs=1e-9)


@given(evidence, st.floats(0.1, 1000.0))
@laws
def test_an_interval_holds_the_prediction_and_is_symmetric_in_ratios(sources, predicted):
    """The prediction is the geometric mean of its ends."""
    found = interval(predicted, reach_of(runs_of(*sources)))
    if found.low_s is None:
        return

    assert found.low_s <= predicted <= found.high_s
    assert math.sqrt(found.low_s * found.high_s) == pytest.approx(predicted)


def test_without_runs_there_is_no_evidence():
    """An accelerator has none while none of its generation was measured, and the line states it."""
    seen = runs_of(*[[1.1]] * 50)
    where = traits(accelerator="h800-sxm", generation="11.0")
    found = interval(10.0, reach_of(seen, where))
    reason = "no evidence: no measured runs on h800-sxm, or like it"

    assert found == Interval(None, None, LEVEL, 0, reason)
    assert reach_of(seen, traits(accelerator="h800-sxm")).below is not None
    assert reach_of([]).below is None


def test_too_few_runs_in_all_give_no_interval():
    """Eight runs leave no tenth: one to come may be off by anything."""
    found = reach_of(runs_of(*[[1.1]] * 8))

    assert found.above is None
    assert found.why == "8 measured runs by nearness, 8 on chip, which are too few"
    assert reach_of(runs_of(*[[1.1]] * 9)).above > 1.09


def test_the_answer_of_a_run_has_the_interval_or_why_there_is_none():
    """On a machine that was measured there is a line with two times, on another the reason."""
    batch = "batch.global=16"
    measured = simulate("frontier-22b", [batch])
    unknown = simulate("frontier-22b", [batch, "cluster.node.accelerator=pvc-tile"])
    lines = [next(row for row in rows(r) if row.label == "interval") for r in (measured, unknown)]

    assert measured.interval.low_s < measured.step_time < measured.interval.high_s
    assert "(level 90 %, from " in lines[0].text
    assert lines[1].text == "none: no evidence: no measured runs on pvc-tile, or like it"
    assert unknown.answer.interval.low_s is None
    assert [run.run for run in measured.answer.nearest][:1] == ["frontier-22b"]


def test_the_ends_of_a_rate_are_those_of_a_time_turned_round():
    """A service that was slower than predicted has a lower rate."""
    (found,) = {reach_of(runs_of(*[[1.2]] * 12))}
    rate, time = (bounds(100.0, found, is_rate=is_rate) for is_rate in (True, False))

    assert (rate.low, rate.high) == pytest.approx((1e4 / time.high, 1e4 / time.low))
    assert bounds(1.0, reach_of([]), is_rate=True) == Bounds(
        None, None, LEVEL, 0, "no evidence: no measured runs on chip, or like it"
    )


# --- which runs it is made from -------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"accelerator": "other"}, {"machine": "other"}, {"software": "other"}, {"bits": 8},
        {"shape": "1 x 1"}, {"experts": True}, {"task": "adapters"}, {"nodes": 2},
        {"devices": 1024},
    ],
)  # fmt: skip
def test_the_nearest_runs_count_most(changed):
    """Where runs with a trait are off by more, an interval of that trait is wider."""
    calm = runs_of(*[[1.02, 0.98]] * 20)
    wild = [
        run_of(ratio, f"w{i}", f"w{i}-{ratio}", **changed)
        for i in range(20)
        for ratio in (1.3, 0.8)
    ]
    here, there = (reach_of([*calm, *wild], where) for where in (HERE, traits(**changed)))

    assert there.above > 1.1 * here.above


def test_what_was_fitted_to_a_source_is_no_evidence_for_its_own_errors():
    """The usual error of a run is that of other sources: an exact one does not narrow them."""
    exact = [run_of(1.0, "exact", f"exact-{i}", machine="own") for i in range(40)]
    others = runs_of(*[[1.2, 0.8]] * 30)
    found = reach_of([*exact, *others], traits(machine="new"))

    assert found.above > 1.15


def test_an_interval_is_wider_where_less_is_near():
    """Runs of another machine, software and model leave more room than like ones."""
    seen = runs_of(*[[1.1, 0.9]] * 30)
    far = traits(machine="x", software="y", shape="1 x 1", task="adapters", bits=8, nodes=4)

    assert reach_of(seen, far).above > reach_of(seen).above


@given(st.integers(1, 4), st.integers(0, 12))
@laws
def test_unlikeness_counts_traits_and_scale(differing, doublings):
    """Each trait counts one, and devices up to one."""
    names = ("machine", "software", "shape", "task")[:differing]
    other = traits(**dict.fromkeys(names, "other"), devices=8 * 2**doublings)

    unlike, like = TraitTable([other]).unlikeness([HERE, other])
    assert (unlike, like) == (pytest.approx(differing + min(1, doublings / 6)), 0)
    assert len(differences(HERE, other)) == differing


def test_the_nearest_runs_are_listed_once_each_with_all_their_metrics():
    """A service has a time to the first token and a time per token."""
    near = [run_of(1.25, "s", "near", metric, task="users") for metric in ("ttft", "throughput")]
    far = run_of(2.0, "s", "far", "tpot", machine="x", software="y")
    first, second = ErrorsByNearness([far, *near]).nearest(traits(task="users"), 2)

    assert (first.run, dict(first.errors)) == (
        "near", pytest.approx({"ttft": -0.2, "throughput": 0.25}),
    )  # fmt: skip
    assert first.differs == ()
    assert second.differs == ("machine", "software", "task")


@given(evidence, st.floats(0.1, 10.0))
@laws
def test_how_alike_the_runs_of_a_source_are_is_a_share_without_a_unit(sources, times):
    """The correlation lies between 0 and 1, and errors that are all larger by a factor keep it."""
    errors = {str(i): [abs(math.log(ratio)) for ratio in of] for i, of in enumerate(sources)}
    scaled = {source: [times * error for error in of] for source, of in errors.items()}
    found = intraclass_correlation(errors)

    assert 0 <= found <= 1
    assert intraclass_correlation(scaled) == pytest.approx(found, abs=1e-6)


def test_a_large_source_does_not_speak_for_all():
    """A hundred runs of one source, all far off, do not set the bound where sources are unlike."""
    errors = {"large": [1.0] * 100} | {str(i): [0.1, 0.1] for i in range(40)}
    alike = intraclass_correlation(errors)

    assert alike == pytest.approx(1.0)
    assert quantile(errors, alike, LEVEL) == 0.1
    assert quantile(errors, 0.0, LEVEL) == 1.0


# --- the table of runs ----------------------------------------------------------------------------


def test_a_table_of_runs_is_read_as_it_is_written():
    """Text with commas and quotes as well."""
    seen = [run_of(1.25, 'a "b", c', experts=True), run_of(0.5, "2", metric="ttft")]

    assert parse_runs(runs_text(seen)) == tuple(seen)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x", "row 1: zip"),
        (runs_text([run_of(1.25)]).splitlines()[1].replace("1.25,m", "-1,m"), "row 1: ratio must"),
    ],
)
def test_a_wrong_row_is_named_by_its_number(row, message):
    """A missing column, and a ratio that no run has."""
    head = runs_text([]).strip()

    with pytest.raises(ValueError, match=message):
        parse_runs(f"{head}\n{row}\n")
    with pytest.raises(ValueError, match="needs the columns run,source"):
        parse_runs("a,b\n")
