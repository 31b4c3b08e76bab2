"""Measured effects of shared links: which rows are graded, how, and why others are not."""

import json
from math import factorial

import pytest

from clustersim.validation.answer import validation_of
from clustersim.validation.case_runs import run_cases
from clustersim.validation.cases.rows import parse_entries
from clustersim.validation.families.sharing import busiest
from clustersim.validation.text import UNITS, case_rows
from wrong_values import wrong_values


def outcome(**row):
    """Return the outcome of a row of the family."""
    given = {"id": "a", "group": "b", "family": "sharing", "source": {"confidence": "high"}}
    [found] = run_cases(parse_entries([{**given, **row}]))
    return found


def predicted(**row):
    """Return what is predicted of a row, by metric."""
    found = outcome(**row)
    assert found.gradable, found.answer.why
    return {grade.metric: grade.predicted for grade in (found.grade, *found.others)}


# --- closed forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("compute", "sent", "copies"), [(1, 1, 2), (2, 1, 3), (0.5, 0.25, 3)])
def test_equal_jobs_in_phase_add_up_and_interleaved_ones_do_not_meet(compute, sent, copies):
    """In phase each takes the link for all of them; one after another each has it alone."""
    found = predicted(
        topology={"link_gb_s": 1},
        jobs=[{"compute_s": compute, "bytes_g": sent, "copies": copies}],
        measured={"period_s_in_phase": 1, "period_s_interleaved": 1},
    )

    assert found["period_s_in_phase"] == pytest.approx(compute + copies * sent, rel=1e-6)
    assert found["period_s_interleaved"] == pytest.approx(compute + sent, rel=1e-6)


def test_no_shift_beats_a_link_that_is_always_busy():
    """Two jobs that send longer than they compute take the time of all their bytes."""
    job = {"compute_s": 1, "bytes_g": 2}
    found = predicted(
        topology={"link_gb_s": 1}, jobs=[job, job], measured={"period_s_lower_bound": 4.0}
    )

    assert found["period_s_lower_bound"] == pytest.approx(4.0, rel=1e-6)


def test_jobs_of_unequal_periods_are_slowed_within_their_bounds():
    """The load of the link is the sum of both; each sends at half of the rate at worst."""
    found = outcome(
        topology={"link_gb_s": 1},
        jobs=[{"compute_s": 3, "bytes_g": 1}, {"compute_s": 1, "bytes_g": 0.5}],
        measured={"link_load": 7 / 12, "slowdown_bounds": [1.0, 2.0]},
    )

    assert [grade.error for grade in (found.grade, *found.others)] == pytest.approx([0] * 3)
    assert found.scored


def test_flows_collide_as_balls_in_bins():
    """Eight flows on eight cables, and 16 queue pairs of each, within four standard errors."""
    few, many = busiest(uplinks=8, flows=8), busiest(uplinks=8, flows=128)
    alone = factorial(8) / 8**8

    for most, mean in ((few, 2.595), (many, 16 * 1.369)):
        assert most.mean() == pytest.approx(mean, abs=4 * most.std() / len(most) ** 0.5 + 5e-3)
    assert (few == 1).mean() == pytest.approx(alone, abs=4 * (alone / len(few)) ** 0.5)


@pytest.mark.parametrize(("ratio", "share"), [(7, 1.0), ("2:1", 1.0), (8, 0.5)])
def test_flows_that_all_cross_share_the_cable(ratio, share):
    """Each has its part of a cable as wide as a NIC."""
    found = predicted(
        topology={"oversubscription": ratio},
        jobs=[{"crossing_share": share}],
        measured={"throughput_share": 0.1},
    )
    crossing = float(str(ratio).removesuffix(":1")) * share

    assert found["throughput_share"] == pytest.approx(1 / crossing, rel=1e-6)


# --- measured -------------------------------------------------------------------------------------


@pytest.mark.large
def test_collectives_on_a_tree_gain_by_spread_paths():
    """What the source leaves out is assumed and listed, so that the row is not scored."""
    found = outcome(
        topology={"nodes": 16, "leaf": 8, "spine": 8, "oversubscription": "1:1"},
        jobs=[{"collective": "all-reduce", "copies": 8, "nodes_each": 2}],
        measured={
            "mean_gain": 0.703,
            "busbw_gbps_before": [171.93, 263.27],
            "busbw_gbps_after": [353.86, 360.57],
        },
    )
    gain, after, before = (found.grade, *found.others)

    assert gain.predicted == pytest.approx(after.predicted / before.predicted)
    assert gain.predicted > 1.3
    assert abs(after.error) < 0.1
    assert after.measured == pytest.approx((353.86 + 360.57) / 2)
    assert {"library", "leaves", "flows", "traffic"} <= {*found.assumed}
    assert not found.scored


@pytest.mark.large
@pytest.mark.parametrize(
    ("row", "metric", "least"),
    [
        (
            {
                "topology": {"gpus_per_rack": 16, "pods": 8},
                "jobs": [{"collective": "all-reduce", "queue_pairs": [1, 16]}],
                "measured": {"allreduce_gain": 0.4},
            },
            "throughput_ratio",
            1.2,
        ),
        (
            {
                "topology": {"ideal_busbw_gbps": 362},
                "jobs": [{"collective": "all-reduce", "nodes": [2, 4]}],
                "measured": {"busbw_gbps_before_max": 240, "busbw_gbps_after": 360},
            },
            "busbw_gbps_after",
            300,
        ),
        (
            {
                "topology": {"tiers": "3-tier Clos"},
                "jobs": [{"model": "22B", "gpus": 64}],
                "measured": {"throughput_gap_to_ideal": 0.3},
            },
            "throughput_ratio",
            0.6,
        ),
    ],
    ids=["queue pairs", "ports", "step"],
)
def test_measured_effects_of_paths_are_predicted(row, metric, least):
    """More queue pairs, balanced ports, and a training step with hashed flows."""
    found = outcome(kind="counterfactual", **row)
    rates = {grade.metric: grade.predicted for grade in (found.grade, *found.others)}

    assert rates[metric] > least
    assert found.assumed
    assert not found.scored


@pytest.mark.parametrize(
    ("row", "why"), wrong_values("rows of shared machines that no scenario expresses")
)
def test_a_row_that_no_scenario_expresses_has_its_reason(row, why):
    """Rows about fleets, or without jobs or cables, are listed with the reason."""
    found = outcome(**json.loads(row))

    assert not found.gradable
    assert found.answer.why == why


def test_the_text_has_a_unit_for_each_number():
    """A number without one ended in a KeyError."""
    found = outcome(
        topology={"link_gb_s": 1},
        jobs=[{"compute_s": 1, "bytes_g": 1, "copies": 2}],
        measured={"period_s_in_phase": 3, "period_s_lower_bound": 2, "link_load": 1,
                  "period_s_interleaved": 2, "slowdown_bounds": [1, 2]},
    )  # fmt: skip
    rows = case_rows(validation_of([found]))

    assert "s a step, in phase" in str([*rows])
    assert {grade.metric for grade in (found.grade, *found.others)} <= {*UNITS}
