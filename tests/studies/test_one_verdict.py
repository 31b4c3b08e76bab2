"""Each verb gives one layout the same verdict on its memory."""

import pytest

import clustersim
from clustersim.memory.room import EXCEEDING, FITS, FITTING, TIGHT, UNFIT, UNLIKELY, outcome_of
from clustersim.reports.step.page import page as page_of_step
from clustersim.simulation.step.simulate import simulate
from clustersim.studies.compare.text import result_table
from clustersim.studies.scale.text import table as scaling_table
from clustersim.studies.search.text import SHOWN, distinct, format_layout_values, layout_table
from clustersim.studies.search.text import rows as search_rows
from clustersim.studies.sweep.text import layout_tables
from clustersim.studies.sweep.text import rows as sweep_rows
from clustersim.studies.whatif.text import table as change_table

SMALL = {"batch.global": 32}
NEED = simulate("frontier-22b", SMALL).memory.fullest.need


def of_capacity(share):
    """Return settings with devices of a share of the need."""
    return SMALL | {"cluster.node.accelerator.memory.capacity.value": f"{share * NEED:.0f}B"}


@pytest.mark.parametrize(
    ("share", "verdict"), [(1.5, FITS), (1.02, TIGHT), (0.93, UNLIKELY), (0.5, UNFIT)]
)
def test_one_layout_was_tight_fit_and_did_not_fit_in_five_verbs(share, verdict):
    """One rule decides in run, repr, pages, sweep, scale, whatif and compare."""
    settings, few = of_capacity(share), {"jobs": 1}
    result = simulate("frontier-22b", settings)
    cards = page_of_step(result).sections[0].blocks[0].cards
    card = next(card for card in cards if card.label == "Memory")
    (row,) = clustersim.sweep(
        "frontier-22b", over={"batch.global": [32]}, settings=settings, **few
    ).points
    curve = clustersim.scale("frontier-22b", strong=[16], settings=settings, **few).curves[0]
    base = " ".join(["frontier-22b", *_texts(settings)])
    change = clustersim.whatif(base, changes=["batch.global=64"], **few)
    compared = clustersim.compare(["frontier-22b"] * 2, settings=settings, **few)

    assert {
        "run": outcome_of(result.memory.reason),
        "repr": repr(result).rpartition(", ")[2].rstrip(">"),
        "page": card.value,
        "sweep": row["verdict"],
        "scale": scaling_table(curve)[1][-1],
        "whatif": change_table(change)[1][-1],
        "compare": result_table(compared)[-1][1],
    } == dict.fromkeys(("run", "repr", "page", "sweep", "scale", "whatif", "compare"), verdict)
    assert (card.warning, card.caution) == (verdict in EXCEEDING, verdict == TIGHT)
    assert result.answer.memory.fits == curve.points[0].fits == (verdict in FITTING)


def test_sweeps_and_searches_rank_what_fits_and_mark_what_is_tight():
    """A tight layout is ranked by its speed like others, and a column marks it."""
    without = simulate("frontier-22b", SMALL | {"recompute": "none"}).memory.fullest.need
    settings = of_capacity(1.02 * without / NEED)
    swept = clustersim.sweep(
        "frontier-22b", over={"recompute": ["none", "full"]}, settings=settings, jobs=1
    )
    table = layout_tables(swept)[0][1]
    fixed = settings | {"plan.tensor": 1, "plan.pipeline": 8, "plan.zero": 1, "batch.micro": 1}
    found = clustersim.search("frontier-22b", settings=fixed, jobs=1)

    assert swept.counts.within == len(swept.ranked) == 2
    assert (swept.counts.fits, swept.counts.tight) == (1, 1)
    assert [row["verdict"] for row in swept.fitting] == [TIGHT, FITS]
    assert [row[-1] for row in table] == ["memory", TIGHT, ""]
    assert found.ranked[0].tight == found.best.memory.tight
    (margin,) = [row.text for row in sweep_rows(swept) if row.label == "with margin"]
    assert margin.startswith("recompute full: ")
    assert [row[-1] == TIGHT for row in layout_table(found)[1:]] == [
        one.tight for one in distinct(found.ranked)[:SHOWN]
    ]


def test_a_tight_layout_was_the_best_without_a_word_on_the_best_with_room():
    """A search proves which layout is the best with room for the errors of memory as well."""
    fixed = {"plan.pipeline": 8, "plan.zero": 1, "plan.tensor": 1, "batch.micro": 1}
    ample = clustersim.search("frontier-22b", settings=of_capacity(2.0) | fixed, jobs=1, top=1)
    settings = of_capacity(1.01 * ample.best.memory.need_bytes / NEED) | fixed
    found, every = (
        clustersim.search("frontier-22b", settings=settings, jobs=1, top=n) for n in (1, 1000)
    )
    roomy = [one for one in every.ranked if not one.tight]
    lines = {row.label: row.text for row in search_rows(found)}

    assert found.best.memory.tight
    assert lines["best"].endswith("(tight in memory)")
    assert found.roomy_proven
    assert found.roomy.value == roomy[0].value < found.ranked[0].value
    assert lines["with margin"].startswith(format_layout_values(found.roomy.set_))
    assert " % worse" in lines["with margin"]


def _texts(values):
    return [f"{key}={value}" for key, value in values.items() if not isinstance(value, list)]
