"""Each verb gives one layout the same verdict on its memory."""

import pytest

import clustersim
from clustersim.memory.room import EXCEEDING, FITS, FITTING, TIGHT, UNFIT, UNLIKELY, outcome_of
from clustersim.reports.step.page import page as page_of_step
from clustersim.simulation.step.simulate import simulate
from clustersim.studies.compare.text import result_table
from clustersim.studies.scale.text import table as scaling_table
from clustersim.studies.search.text import SHOWN, distinct, layout_table
from clustersim.studies.sweep.text import layout_tables
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

    assert swept.counts.fits == len(swept.ranked) == 2
    assert swept.counts.tight == 1
    assert [row["verdict"] for row in swept.fitting] == [TIGHT, FITS]
    assert [row[-1] for row in table] == ["memory", TIGHT, ""]
    assert found.ranked[0].tight == found.best.memory.tight
    assert [row[-1] == TIGHT for row in layout_table(found)[1:]] == [
        one.tight for one in distinct(found.ranked)[:SHOWN]
    ]


def _texts(values):
    return [f"{key}={value}" for key, value in values.items() if not isinstance(value, list)]
