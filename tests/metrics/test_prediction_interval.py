"""The interval of a step time: its coverage, and the runs that it is made from."""

import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.catalog.finding import shipped
from clustersim.evidence import LEVEL, MeasuredRuns, intraclass_correlation, quantile
from clustersim.metrics.prediction_interval import (
    Interval,
    interval,
    reach_of,
    size_of,
)
from clustersim.reports.step.text import rows
from clustersim.simulation.step.simulate import simulate
from measured_runs import evidence, runs_of

laws = settings(max_examples=20, deadline=None)

SMALL = Path(__file__).parents[1] / "data" / "cases_small.yaml"
CASES = shipped("validation") / "cases.yaml"


def normal(generator, spread, count):
    return [math.exp(generator.gauss(0, spread)) for _ in range(count)]


# --- what an interval promises --------------------------------------------------------------------


@pytest.mark.parametrize("count", [19, 39, 400])
def test_nine_of_ten_new_runs_fall_inside(count):
    """Over many draws of independent runs, the share of new ones inside is the level or more."""
    generator, inside = random.Random(count), []
    for _ in range(16000 // count):
        seen = runs_of(*([ratio] for ratio in normal(generator, 0.2, count)))
        reach = reach_of(seen, "chip", "one")
        bounds = math.log(reach.below), math.log(reach.above)
        inside.append(sum(math.erf(bound / 0.2 / math.sqrt(2)) for bound in bounds) / 2)
    share = sum(inside) / len(inside)

    assert LEVEL - 0.005 < share < LEVEL + 2 / (count + 1) + 0.005


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

    found = reach_of(runs_of(*sources(300)), "chip", "one")
    new = sources(300)
    inside = [sum(1 / found.below <= r <= found.above for r in of) / len(of) for of in new]
    share = sum(inside) / len(new)

    assert share == pytest.approx(LEVEL, abs=0.04)


@given(evidence, st.floats(1.1, 3.0))
@laws
def test_more_spread_gives_a_wider_interval(sources, times):
    """Errors that are all larger by a factor make the logarithm of the bound larger by it."""
    wide = [[ratio**times for ratio in of] for of in sources]
    before, after = (reach_of(runs_of(*each), "chip", "one") for each in (sources, wide))

    assert (before.below is None) == (after.below is None)
    if before.below is not None:
        assert math.log(after.below) == pytest.approx(times * math.log(before.below), abs=1e-9)
        assert math.log(after.above) == pytest.approx(times * math.log(before.above), abs=1e-9)


@given(evidence, st.floats(0.1, 1000.0))
@laws
def test_an_interval_holds_the_prediction_and_nine_in_ten_of_its_own_runs(sources, predicted):
    """The prediction is inside, and so is the middle of its runs."""
    reach = reach_of(runs_of(*([ratio] for of in sources for ratio in of)), "chip", "one")
    found = interval(predicted, reach)
    if found.low_s is None:
        assert found.rows < 19
        return
    measured = sorted(predicted * ratio for of in sources for ratio in of)
    inside = [found.low_s * 0.999999 <= time <= found.high_s * 1.000001 for time in measured]

    assert found.low_s <= predicted <= found.high_s
    assert inside[len(inside) // 2]
    assert sum(inside) >= LEVEL * len(inside)


def test_without_runs_there_is_no_interval():
    """An accelerator without measured runs has none, however many others were measured."""
    seen = runs_of(*[[1.1]] * 50)
    found = interval(10.0, reach_of(seen, "h800-sxm", "one"))

    assert found == Interval(None, None, LEVEL, 0, "no measured runs on h800-sxm")
    assert reach_of([], "chip", "one").below is None


def test_too_few_runs_in_all_give_no_interval():
    """Eighteen runs leave no twentieth on a side: one to come may be off by anything."""
    found = reach_of(runs_of(*[[1.1]] * 18), "chip", "one")

    assert found.above is None
    assert found.why == (
        "18 measured runs of 18 sources on all accelerators, 18 of them on chip, are too few"
    )


def test_the_answer_of_a_run_tells_the_interval_or_why_there_is_none():
    """On a machine that was measured there is a line with two times, on another the reason."""
    batch = "batch.global=16"
    measured = simulate("frontier-22b", [batch])
    unknown = simulate("frontier-22b", [batch, "cluster.node.accelerator=h800-sxm"])
    lines = [next(row for row in rows(r) if row.label == "interval") for r in (measured, unknown)]

    assert measured.interval.low_s < measured.step_time < measured.interval.high_s
    assert "(level 90 %, from " in lines[0].text
    assert lines[1].text == "none: no measured runs on h800-sxm"
    assert unknown.answer.interval.low_s is None


# --- which runs it is made from -------------------------------------------------------------------


def test_a_size_of_job_stands_for_itself_where_it_has_enough_sources():
    """One node has another interval than several where both were measured by enough sources."""
    many = runs_of(*[[1.2]] * 19, nodes="several")
    few = runs_of(*[[1.05]] * 8)
    enough = runs_of(*[[1.05]] * 19)

    assert reach_of([*many, *enough], "chip", "one").above == pytest.approx(1.05)
    assert reach_of([*many, *few], "chip", "one").above == pytest.approx(1.2)
    assert reach_of([*many, *few], "chip", "several").why == (
        "19 measured runs of 19 sources on chip, several nodes"
    )


def test_slow_runs_lengthen_an_interval_above_the_prediction_alone():
    """Of twenty slow runs and twenty exact ones none is below, so the interval begins there."""
    found = interval(10.0, reach_of(runs_of(*[[1.5], [1.0]] * 20), "chip", "one"))

    assert (found.low_s, found.high_s) == (10.0, pytest.approx(15.0))


def test_few_runs_borrow_from_other_accelerators_and_are_still_held():
    """The bound of all accelerators holds at least what the few runs of this one show."""
    others = runs_of(*[[1.1]] * 30)
    calm = MeasuredRuns(source="calm", accelerator="rare", nodes="one", ratios=(1.01,))
    wild = calm.model_copy(update={"source": "wild", "ratios": (0.5,)})

    assert reach_of([*others, calm], "rare", "one").above == pytest.approx(1.1)
    assert reach_of([*others, wild], "rare", "one").below == pytest.approx(2.0)
    assert reach_of([*others, wild], "rare", "one").why.endswith(", 1 of them on rare")


def test_one_slow_run_of_few_does_not_set_the_bound():
    """Of eleven runs the slowest is no tenth, and of nine it is."""
    others = runs_of(*[[1.1]] * 30)
    own = MeasuredRuns(source="own", accelerator="rare", nodes="several", ratios=(*[1.2] * 10, 4.0))
    fewer = own.model_copy(update={"ratios": own.ratios[2:]})

    assert reach_of([*others, own], "rare", "several").above == pytest.approx(1.2)
    assert reach_of([*others, fewer], "rare", "several").above == pytest.approx(4.0)


def test_one_node_does_not_borrow_the_errors_of_a_network():
    """Jobs on one node of other accelerators are nearer than those on several of this one."""
    calm = runs_of(*[[1.05]] * 30)
    slow = [
        MeasuredRuns(source=f"slow {i}", accelerator="rare", nodes="several", ratios=(3.0,))
        for i in range(30)
    ]

    assert reach_of([*calm, *slow], "rare", "one").above == pytest.approx(1.05)
    assert reach_of([*calm, *slow], "rare", "one").why == (
        "30 measured runs of 30 sources on all accelerators, one node, 0 of them on rare"
    )
    assert reach_of([*calm, *slow], "rare", "several").above == pytest.approx(3.0)


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


def test_one_node_is_no_several():
    """A job that crosses the network is of another size than one that does not."""
    assert [size_of(nodes) for nodes in (1, 2, 9408)] == ["one", "several", "several"]
