"""The interval beside a step time: what it promises, and what it is made from."""

import json
import math
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim import __version__
from clustersim.catalog.finding import names, shipped
from clustersim.cli.validate import validate as command
from clustersim.errors import CatalogError
from clustersim.metrics.prediction_interval import (
    LEVEL,
    Interval,
    MeasuredRuns,
    interval,
    intraclass_correlation,
    quantile,
    reach_of,
    shipped_interval_data,
    size_of,
    to_text,
)
from clustersim.simulation.simulate import simulate
from clustersim.studies.run.text import rows
from clustersim.validation.cases.cases import read_cases
from clustersim.validation.coverage import coverage, to_json
from clustersim.validation.coverage_text import coverage_line, coverage_rows
from clustersim.validation.grading import Grade
from clustersim.validation.interval_data import earlier_runs, measured_runs, renewed, write_spread
from clustersim.validation.outcomes import Outcome
from clustersim.validation.validate import Validation, validate

laws = settings(max_examples=20, deadline=None)

SMALL = Path(__file__).parents[1] / "data" / "cases_small.yaml"
CASES = shipped("validation") / "cases.yaml"

ratios = st.lists(st.floats(0.2, 5.0), min_size=1, max_size=8)
evidence = st.lists(ratios, min_size=1, max_size=20)
"""Measured over predicted, by source."""


def runs_of(*sources, accelerator="chip", nodes="one"):
    """Return runs of sources that are named by their place."""
    return [
        MeasuredRuns(source=str(i), accelerator=accelerator, nodes=nodes, ratios=tuple(of))
        for i, of in enumerate(sources)
    ]


def outcome(ratio, source="new", accelerator="chip", nodes=1, confidence="high"):
    """Return a graded step that took `ratio` times as long as predicted."""
    error = 1 / ratio - 1
    graded = Grade("step_time_s", None, ratio, 1.0, error, error)
    return Outcome(
        f"{source}-{ratio}",
        source,
        grade=graded,
        accelerator=accelerator,
        nodes=nodes,
        confidence=confidence,
    )


def normal(generator, spread, count):
    return [math.exp(generator.gauss(0, spread)) for _ in range(count)]


# --- what an interval promises --------------------------------------------------------------------


@pytest.mark.parametrize("count", [9, 19, 400])
def test_nine_of_ten_new_runs_fall_inside(count):
    """Over many draws of independent runs, the share of new ones inside is the level or more."""
    generator, inside = random.Random(count), []
    for _ in range(40000 // count):
        seen = runs_of(*([ratio] for ratio in normal(generator, 0.2, count)))
        bound = math.log(reach_of(seen, "chip", "one").factor)
        inside.append(math.erf(bound / 0.2 / math.sqrt(2)))
    share = sum(inside) / len(inside)

    assert LEVEL - 0.005 < share < LEVEL + 1 / (count + 1) + 0.005


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

    factor = reach_of(runs_of(*sources(300)), "chip", "one").factor
    new = sources(300)
    share = sum(sum(1 / factor <= r <= factor for r in of) / len(of) for of in new) / len(new)

    assert share == pytest.approx(LEVEL, abs=0.04)


@given(evidence, st.floats(1.1, 3.0))
@laws
def test_more_spread_gives_a_wider_interval(sources, times):
    """Errors that are all larger by a factor make the logarithm of the bound larger by it."""
    wide = [[ratio**times for ratio in of] for of in sources]
    before, after = (reach_of(runs_of(*each), "chip", "one") for each in (sources, wide))

    assert (before.factor is None) == (after.factor is None)
    if before.factor is not None:
        assert math.log(after.factor) == pytest.approx(times * math.log(before.factor), abs=1e-9)


@given(evidence, st.floats(0.1, 1000.0))
@laws
def test_an_interval_holds_the_prediction_and_nine_in_ten_of_its_own_runs(sources, predicted):
    """Its ends are as far from the prediction, as factors, and the middle of its runs is inside."""
    reach = reach_of(runs_of(*([ratio] for of in sources for ratio in of)), "chip", "one")
    found = interval(predicted, reach)
    if found.low_s is None:
        assert found.rows < 9
        return
    measured = sorted(predicted * ratio for of in sources for ratio in of)
    inside = [found.low_s * 0.999999 <= time <= found.high_s * 1.000001 for time in measured]

    assert found.low_s <= predicted <= found.high_s
    assert found.low_s * found.high_s == pytest.approx(predicted**2)
    assert inside[len(inside) // 2]
    assert sum(inside) >= LEVEL * len(inside)


def test_without_runs_there_is_no_interval():
    """An accelerator that nobody measured has none, however many others were measured."""
    seen = runs_of(*[[1.1]] * 50)
    found = interval(10.0, reach_of(seen, "h800-sxm", "one"))

    assert found == Interval(None, None, LEVEL, 0, "no measured runs on h800-sxm")
    assert reach_of([], "chip", "one").factor is None


def test_too_few_runs_in_all_give_no_interval():
    """Eight runs bound no nine tenths: one to come may be off by anything."""
    found = reach_of(runs_of(*[[1.1]] * 8), "chip", "one")

    assert found.factor is None
    assert found.why == (
        "8 measured runs of 8 sources on all accelerators, 8 of them on chip, are too few"
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


def test_a_size_of_job_stands_for_itself_where_it_has_nine_sources():
    """One node is told apart from several where both were measured by enough sources."""
    many = runs_of(*[[1.2]] * 9, nodes="several")
    few = runs_of(*[[1.05]] * 8)
    enough = runs_of(*[[1.05]] * 9)

    assert reach_of([*many, *enough], "chip", "one").factor == pytest.approx(1.05)
    assert reach_of([*many, *few], "chip", "one").factor == pytest.approx(1.2)
    assert reach_of([*many, *few], "chip", "several").why == (
        "9 measured runs of 9 sources on chip, several nodes"
    )


def test_few_runs_borrow_from_other_accelerators_and_are_still_held():
    """The bound of all accelerators holds at least what the few runs of this one show."""
    others = runs_of(*[[1.1]] * 30)
    calm = MeasuredRuns(source="calm", accelerator="rare", nodes="one", ratios=(1.01,))
    wild = calm.model_copy(update={"source": "wild", "ratios": (0.5,)})

    assert reach_of([*others, calm], "rare", "one").factor == pytest.approx(1.1)
    assert reach_of([*others, wild], "rare", "one").factor == pytest.approx(2.0)
    assert reach_of([*others, wild], "rare", "one").why.endswith(", 1 of them on rare")


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


# --- coverage -------------------------------------------------------------------------------------


@given(evidence, ratios)
@laws
def test_a_coverage_never_looks_at_the_runs_of_its_own_source(sources, own):
    """Whatever the file holds of a case's source, its verdict is the same."""
    others = runs_of(*sources)
    mine = MeasuredRuns(source="new", accelerator="chip", nodes="one", ratios=tuple(own))
    cases = [outcome(ratio) for ratio in own]

    assert coverage(cases, [*others, mine]) == coverage(cases, others)


def test_a_coverage_counts_who_is_inside_who_is_not_and_who_has_none():
    """Groups add up to all; cases without a graded step count nowhere."""
    seen = runs_of(*[[1.1]] * 20)
    cases = [
        outcome(1.05),
        outcome(0.92),
        outcome(1.3),
        outcome(1.0, source="far", accelerator="unknown"),
        Outcome("refused", "new"),
    ]
    found = to_json(coverage(cases, seen))

    assert found["all"] == {"count": 3, "inside": 2, "share": pytest.approx(2 / 3), "without": 1}
    assert found["groups"]["far"] == {"count": 0, "inside": 0, "share": None, "without": 1}
    assert coverage_line(found) == (
        "Intervals of 90 % hold 2 of 3 measured runs (66.7 %); no interval for 1."
    )
    assert list(coverage_rows(found)) == [
        ("far", "0", "0", "", "1"),
        ("new", "3", "2", "66.7 %", "0"),
        ("all", "3", "2", "66.7 %", "1"),
    ]
    assert Validation(tuple(cases), runs=tuple(seen)).to_json()["coverage"] == found


def test_nothing_graded_has_no_coverage():
    """Without a case the line says so instead of dividing by nothing."""
    assert coverage_line(to_json({})) == "Intervals: none for 0 measured runs."


# --- the file -------------------------------------------------------------------------------------


def test_only_graded_steps_of_high_confidence_are_evidence():
    """Recalled numbers tell nothing about our errors, and layers and memory have no step time."""
    layer = replace(outcome(3.0), accelerator=None, nodes=None)
    memory = replace(outcome(4.0), grade=Grade("memory_gb_per_gpu", None, 1.0, 4.0, 3.0, None))
    cases = [outcome(1.25), outcome(2.0, confidence="low"), layer, memory]
    (found,) = measured_runs(cases)

    assert (found.source, found.accelerator, found.nodes) == ("new", "chip", "one")
    assert found.ratios == pytest.approx((1.25,))


def test_groups_that_ran_again_take_the_place_of_their_earlier_runs(tmp_path):
    """A file is renewed group by group, and what it says is what is read."""
    file = tmp_path / "spread.yaml"
    assert earlier_runs(file) == []
    write_spread(file, runs_of([1.5, 0.75], [1.25] * 30))
    again = renewed(earlier_runs(file), [outcome(2.0, source="1", nodes=4)])
    write_spread(file, again)

    assert [(run.source, run.nodes, run.ratios) for run in earlier_runs(file)] == [
        ("0", "one", (1.5, 0.75)),
        ("1", "several", (2.0,)),
    ]


def test_another_file_is_not_overwritten(tmp_path):
    """A path with something else is refused, in a line for each problem, before anything runs."""
    file = tmp_path / "notes.yaml"
    file.write_text("kind: notes\n")

    with pytest.raises(CatalogError, match=r"notes\.yaml:1: kind: "):
        earlier_runs(file)


def test_the_command_renews_a_file_and_judges_by_it(tmp_path, capsys):
    """`--intervals` writes the runs of this validation, keeps those of other groups of the file."""
    file = tmp_path / "spread.yaml"
    write_spread(file, runs_of(*[[1.1]] * 20))
    command(cases=SMALL, group=["small"], intervals=file, json_output=True)
    answer = json.loads(capsys.readouterr().out)
    kept = [run for run in earlier_runs(file) if run.accelerator == "chip"]

    assert kept == sorted(runs_of(*[[1.1]] * 20), key=lambda run: run.source)
    assert answer["coverage"]["all"]["count"] + answer["coverage"]["all"]["without"] > 0


def test_the_shipped_file_is_as_it_is_written():
    """Nobody edited it: its groups, machines and counts are those of the cases, in order."""
    runs = shipped_interval_data()
    text = (shipped("validation") / "prediction_intervals.yaml").read_text(encoding="utf-8")
    cases = [entry.group for entry in read_cases(CASES)]
    keys = [(run.source, run.accelerator, run.nodes) for run in runs]

    assert text == to_text(runs, __version__)
    assert all(one < other for one, other in pairwise(keys))
    assert {run.accelerator for run in runs} <= set(names("accelerator"))
    for source in {run.source for run in runs}:
        rows = sum(len(run.ratios) for run in runs if run.source == source)
        assert rows <= cases.count(source), source


def test_the_shipped_intervals_hold_nine_in_ten_of_runs_they_have_not_seen():
    """Each source left out in turn, 85 to 97 % of all runs fall inside."""
    runs = shipped_interval_data()
    nodes = {"one": 1, "several": 2}
    cases = [
        outcome(ratio, run.source, run.accelerator, nodes[run.nodes])
        for run in runs
        for ratio in run.ratios
    ]

    assert 0.85 <= to_json(coverage(cases, runs))["all"]["share"] <= 0.97


STEADY = ("fsdpqlora-4090", "korthikanti22-step", "mosaicml-h100-fp8")
"""Groups that are run again here: three accelerators in a few seconds."""


def test_the_shipped_file_is_in_step_with_the_predictions():
    """Written anew, a sample of it moves by less than 2 %; else: make validation."""
    now = validate(read_cases(CASES), STEADY).outcomes
    told = {(r.source, r.nodes): r.ratios for r in shipped_interval_data() if r.source in STEADY}
    found = {(r.source, r.nodes): r.ratios for r in measured_runs(now)}

    assert found.keys() == told.keys()
    for key, measured in found.items():
        assert measured == pytest.approx(told[key], rel=0.02), key


def test_one_node_is_no_several():
    """A job that crosses the network is of another size than one that does not."""
    assert [size_of(nodes) for nodes in (1, 2, 9408)] == ["one", "several", "several"]
