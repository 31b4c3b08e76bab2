"""The rule on memory: need, reserve and capacity, and the errors of measured peaks."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.evidence import MeasuredPeaks, shipped_interval_data
from clustersim.memory.peak_errors import peak_errors, shipped_peak_errors
from clustersim.memory.room import (
    FITS,
    FITTING,
    TIGHT,
    UNFIT,
    UNLIKELY,
    Room,
    outcome_of,
)
from clustersim.memory.verdict import StageMemory, Verdict
from clustersim.units import GIB

NONE = peak_errors([], "chip", "software")
SHIPPED = shipped_peak_errors("h100-sxm", "megatron-lm")
amounts = st.floats(1e6, 1e12)


def peaks(*ratios, framework="software", accelerator="chip", source="source"):
    """Return the measured peaks of one source."""
    return MeasuredPeaks(source=source, accelerator=accelerator, framework=framework, ratios=ratios)


def verdict(need, capacity, reserve=0.0):
    """Return the verdict on one stage, with amounts in GiB."""
    held = {"runtime": need * GIB, "fragmentation": min(reserve, max(0.0, capacity - need)) * GIB}
    return Verdict((StageMemory(0, {}, (), 0.0, held, reserve=reserve * GIB),), capacity * GIB)


@given(amounts, amounts, amounts)
def test_need_alone_decides_and_reserve_never_does(need, reserve, capacity):
    """A job whose allocator could give memory back fits, and its verdict is that without it."""
    room = Room(need, reserve, capacity, SHIPPED)

    assert room.fits == (room.outcome in FITTING) == (need <= capacity)
    assert (room.chance is None) == room.fits
    assert room.outcome == replace(room, reserve=0.0).outcome
    assert 0.0 <= room.missing <= reserve


@given(amounts, st.lists(amounts, min_size=2, max_size=9))
def test_more_capacity_is_never_a_worse_verdict(need, capacities):
    """Verdicts improve in their order, and so does the chance of what does not fit."""
    order = [UNFIT, UNLIKELY, TIGHT, FITS]
    rooms = [Room(need, 0.0, capacity, SHIPPED) for capacity in sorted(capacities)]
    places = [order.index(room.outcome) for room in rooms]
    chances = [room.chance for room in rooms if room.chance is not None]

    assert places == sorted(places)
    assert chances == sorted(chances)


def test_88_7_of_79_1_gib_is_not_tight():
    """Above its capacity a job probably does not fit, and the chance that it does is stated."""
    found = verdict(88.7, 79.1)

    assert (found.fits, found.tight) == (False, False)
    assert found.answer.chance == pytest.approx(SHIPPED.chance(79.1 / 88.7))
    assert 0.0 < found.answer.chance < 0.5
    assert found.reason.startswith("probably does not fit: 88.7 of 79.1 GiB on stage 0, 9.6 GiB")
    assert "% chance that it fits, by 99 measured peaks" in found.reason


def test_the_bounds_of_the_four_verdicts_are_the_measured_errors():
    """Each verdict ends where the errors of measured peaks do, and begins its sentence."""
    above, below = SHIPPED.above, SHIPPED.below
    edges = {1.001 * above: FITS, 0.999 * above: TIGHT, 1.0: TIGHT, 0.999: UNLIKELY}
    edges |= {1.001 / below: UNLIKELY, 0.999 / below: UNFIT}

    assert {edge: outcome_of(verdict(10.0, 10.0 * edge).reason) for edge in edges} == edges
    assert 1.1 < above < 1.25
    assert 1.1 < below < 1.25


def test_what_an_allocator_could_free_is_named_where_there_is_no_room_for_it():
    """Need, reserve and capacity are three numbers of the answer and of the verdict."""
    found = verdict(30.0, 40.0, reserve=12.0)
    numbers = (found.answer.need_bytes, found.answer.reserve_bytes, found.answer.capacity_bytes)

    assert numbers == (30 * GIB, 12 * GIB, 40 * GIB)
    assert found.reason == (
        "fits: 40.0 of 40.0 GiB on stage 0, of which 10.0 GiB are unused blocks of the allocator"
        " (with more room it would keep 2.0 GiB more)"
    )


def test_measured_peaks_of_the_same_software_narrow_the_errors():
    """Enough peaks of the software, on the accelerator first, leave out those of others."""
    ratios = [1 + i / 200 for i in range(-20, 21)]
    own, elsewhere = peaks(*ratios), peaks(*ratios[:40], accelerator="other", source="b")
    other = peaks(*ratios[:39], framework="other", source="c")

    def rows(*known):
        return peak_errors(known, "chip", "software").reach.rows

    assert rows(own, elsewhere, other) == 41
    assert rows(elsewhere, other) == 40
    assert rows(peaks(0.6), other) == 40  # one peak of its own, which widens those of others
    assert peak_errors([peaks(0.6), other], "chip", "software").below >= 1 / 0.6


def test_without_evidence_no_job_surely_fits_or_fails():
    """Without measured peaks a job that fits is tight, and one that does not is unlikely."""
    assert [Room(1.0, 0.0, c, NONE).outcome for c in (2.0, 0.5)] == [TIGHT, UNLIKELY]
    assert NONE.above == NONE.below == math.inf


def test_the_errors_of_other_sources_hold_the_measured_peaks_of_each():
    """Each source left out in turn, the range of errors holds four in five of the 99 peaks."""
    known = shipped_interval_data().peaks
    inside = []
    for own in known:
        rest = [peak for peak in known if peak.source != own.source]
        errors = peak_errors(rest, own.accelerator, own.framework)
        inside += [1 / errors.below <= ratio <= errors.above for ratio in own.ratios]

    assert len(inside) == 99
    assert sum(inside) / len(inside) > 0.8
