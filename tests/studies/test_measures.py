"""Every measure of every kind of answer can be requested in every verb that takes one."""

from functools import cache

import pytest

from answers import KINDS, compared, made_up, run_of
from clustersim.errors import ScenarioError
from clustersim.reports.measures import headlines
from clustersim.runs.arguments import parse_settings
from clustersim.runs.variants import Variant
from clustersim.scenario.load import load_any
from clustersim.simulation.limits import read_limits
from clustersim.simulation.measures import BRIEF, HEADLINES, check_measure, measures_of
from clustersim.studies.compare import text as compare_text
from clustersim.studies.compare.files import files_of as files_of_compare
from clustersim.studies.search.service.request import UNBOUNDED, service_request
from clustersim.studies.search.step.request import BOUNDED, step_request
from clustersim.studies.sweep import text as sweep_text
from clustersim.studies.sweep.files import files_of as files_of_sweep
from clustersim.studies.sweep.ranking import rank
from clustersim.studies.whatif import text as whatif_text
from clustersim.studies.whatif.answer import WhatIfVariants, rank_changes
from clustersim.studies.whatif.files import files_of as files_of_whatif

SCENARIOS = {
    "step": "frontier-22b",
    "training run": "megatron-1t-84-days",
    "service": "llama3-70b-h100-serving",
}
loaded = cache(load_any)
UNITS = {"seconds": " s", "bytes": " B", "watts": " W", "": ""}
ANSWERS = {kind: [made_up(kind, size) for size in (1.0, 0.5, 2.0)] for kind in KINDS}
RANKED = [
    (kind, name)
    for kind in KINDS
    for name, measure in measures_of(ANSWERS[kind][0].kinds).items()
    if measure.more_is_better is not None
]
"""Measures that rank answers, by kind."""

EVERY = pytest.mark.parametrize(("kind", "name"), RANKED)


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_names_all_measures_of_an_answer(kind):
    """An answer has the measures of its kinds, and each headline is one of them."""
    first = ANSWERS[kind][0]
    table = measures_of(first.kinds)

    assert set(first.measures()) == set(table)
    for shown in (HEADLINES, BRIEF):
        assert {name for each in first.kinds for name in shown[each]} <= set(table)
    assert len(headlines(first.kinds, [first.measures()])) >= len(HEADLINES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_columns_had_numbers_without_a_unit(kind):
    """The unit of a number is in its cell or in the heading of its column."""
    for measure in measures_of(ANSWERS[kind][0].kinds).values():
        left_out = measure.text(0.5).removeprefix(measure.cell(0.5)).strip()

        assert left_out in measure.column, measure.name


@EVERY
def test_any_measure_compares(kind, name):
    """`compare --by`: the finding has its label, and an account of both explains it."""
    measure = check_measure("--by", name, ANSWERS[kind][0].kinds, "a")
    result = compared(*ANSWERS[kind], by=name)

    for comparison in result.comparisons:
        assert measure.label in comparison.finding
        assert comparison.gain > 0
        assert comparison.account in comparison.accounts
    assert compare_text.result_table(result)[1][0] == measure.label
    assert measure.label in files_of_compare(result).page.sections[0].blocks[0].cards[0].note


@EVERY
def test_any_measure_ranks_changes(kind, name):
    """`whatif --by`: changes are in its order, with a line each."""
    measure = measures_of(ANSWERS[kind][0].kinds)[name]
    base = Variant("made-up")
    changes = (("a=1",), ("b=1",))
    requested = WhatIfVariants(base, changes, (base, base), None, (), "one at a time")
    result = rank_changes(requested, [*map(run_of, ANSWERS[kind])], name)
    values = [change.measures[name] for change in result.changes]

    assert values == sorted(values, key=measure.order)
    assert measure.heading in whatif_text.table(result)[0]
    assert len(whatif_text.table(result)) == 4
    assert measure.label in whatif_text.finding(result)
    assert files_of_whatif(result).page.sections


@EVERY
def test_any_measure_ranks_combinations_and_limits_them(kind, name):
    """`sweep --by`, `--pareto` and `--limit`: the best first, and within the limit."""
    base, answers = loaded(SCENARIOS[kind]), ANSWERS[kind]
    measure = measures_of(answers[0].kinds)[name]
    variants = [Variant(SCENARIOS[kind], (), {"batch.micro": i}) for i in range(len(answers))]
    runs = [*map(run_of, answers)]
    value = answers[0].measures()[name]
    limits = read_limits([f"{name}={value!r}{UNITS[measure.dimension]}"], answers[0].kinds, "a")
    ranked, against, limited = (
        rank(base, variants, runs, **options)
        for options in ({"by": name}, {"pareto": name}, {"by": name, "limits": limits})
    )
    values = [row[name] for row in ranked.fitting]

    assert values == sorted(values, key=measure.order)
    assert against.cost == measure
    assert limited.limits == {name: pytest.approx(value)}
    assert {row["verdict"] for row in limited.points if measure.within(row[name], value)} == {
        "fits"
    }
    for result in (ranked, against, limited):
        assert sweep_text.rows(result)
        assert measure.heading in sweep_text.layout_tables(result)[0][1][0] or result is against
        assert files_of_sweep(result).figures.keys() == {"sweep", "pareto"}


@EVERY
def test_any_measure_is_searched_or_has_no_bound_and_limits_a_search(kind, name):
    """`search --objective` and `--limit`: one without a bound is one line that names sweep."""
    measure = measures_of(ANSWERS[kind][0].kinds)[name]
    request = service_request if kind == "service" else step_request
    value = f"{ANSWERS[kind][0].measures()[name]!r}{UNITS[measure.dimension]}"
    bounded = name not in UNBOUNDED if kind == "service" else name in BOUNDED
    usual, priced = "tokens_per_s", parse_settings(["costs.usd_per_device_hour=1.5"])
    limited = request(SCENARIOS[kind], None, usual, (), [f"{name}={value}"], priced, None)

    assert limited.limits == {name: pytest.approx(ANSWERS[kind][0].measures()[name])}
    if bounded:
        assert request(SCENARIOS[kind], None, name, (), (), priced, None).measure == measure
        return
    with pytest.raises(ScenarioError, match=rf"^--objective {name}: has no bound [^\n]+sweep\)$"):
        request(SCENARIOS[kind], None, name, (), (), (), None)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_measure_of_the_kind_is_one_line(kind):
    """An unknown name has the nearest one; a measure of runs the section that is missing."""
    kinds = ANSWERS[kind][0].kinds
    for name in ("tokens_per_sec", "memory_capacity_bytes", "checkpoint_bytes"):
        with pytest.raises(ScenarioError, match=rf"^--by {name}: [^\n]+$"):
            check_measure("--by", name, kinds, "a")
