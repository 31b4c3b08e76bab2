"""The pipelines of Fugaku: what their bubble is, and how far off many replicas are.

Up to eight replicas are a scaling study; `test_scaling_studies` has it.

The steps of 30B were timed twice. In June 2023 at seven numbers of replicas, in April at two: the
layout of 16 replicas took 313.6 s in April and 353.8 s in June, 13 % apart.
"""

from functools import cache

import pytest

from clustersim.scenario.load import load
from clustersim.simulation.step.simulate import simulate
from clustersim.validation.case_runs import run_case
from clustersim.validation.grading import layer_times
from measured_runs import shipped_cases

JUNE = {1: 3534.9, 2: 1841.6, 4: 982.8, 6: 701.7, 8: 558.8, 16: 353.8, 32: 252.0}
"""Replicas, and seconds of a step of 1,536 sequences."""

APRIL = {1: 3720.0, 16: 313.6}


@cache
def alone(replicas):
    """Seconds of a step of one of several replicas, with the machine to itself."""
    return simulate("fugaku-30b-pp48", [f"batch.global={1536 // replicas}"]).step_time


def test_steps_of_june_have_a_minute_more_than_the_pipeline_explains():
    """At 16 and 32 replicas June's steps are 45 to 65 s longer than those of a single replica.

    One replica takes the mean of April's 3,720 s and June's 3,534.9 s within 1 %.

    A line through all seven steps of June has 2.2 s for each microbatch and 143 s in addition, at
    any number of replicas; one through April's two has 87 s, where 48 stages fill and drain in 81.
    """
    longer = {replicas: JUNE[replicas] - alone(replicas) for replicas in (16, 32)}
    april = APRIL[16] - alone(16) * APRIL[1] / alone(1)

    assert alone(1) == pytest.approx((APRIL[1] + JUNE[1]) / 2, rel=0.01)
    assert all(45 < each < 65 for each in longer.values()), longer
    assert abs(april) < 5


def test_gradients_are_no_part_of_that_minute():
    """Reducing the gradients of a layer over two replicas is exposed for less than a second."""
    two = simulate("fugaku-30b-pp48", ["plan.data=2", "cluster.nodes=384", "batch.global=192"])

    assert 0 < two.attribution["data_communication"] < 1


# --- Fugaku-LLM ----------------------------------------------------------------------------------

SMALL = ["plan.data=2", "batch.global=14", "cluster.nodes=96", "cluster.fabric.job=[2,2,2,2,3,2]"]
"""Two replicas of Fugaku-LLM instead of 288."""


def test_the_bubble_of_fugaku_llm_is_as_long_as_its_work():
    """7 microbatches on 8 stages: (p - 1) / m = 1 of the time of forwards and backwards, to 8 %.

    Stages are not alike: half of them recompute forwards, and the last has the logits.
    """
    parts = simulate("fugaku-llm-13b", SMALL).attribution
    idle = sum(seconds for part, seconds in parts.items() if part.startswith("bubble"))
    work = sum(parts[part] for part in ("matmul", "attention", "memory_bound"))
    work += parts["tensor_communication"]

    assert idle / work == pytest.approx(1, rel=0.08)


def test_the_optimiser_takes_its_passes_at_the_same_pace():
    """136 bytes for each of the fullest stage's parameters at 20 GB/s: a second and two thirds."""
    step = simulate("fugaku-30b-pp48", ["batch.global=96"])
    parameters = step.memory.fullest.parts["parameters"] / 4

    assert parameters == pytest.approx(245e6, rel=0.1)
    longest = max(actor.tail.optimiser for actor in step.program.actors)
    assert longest == pytest.approx(136 * parameters / 20.3e9, rel=0.1)


def test_recomputation_on_half_of_the_stages_is_run_on_those_only():
    """The first four stages keep less than the last four, which is what it is for."""
    memory = simulate("fugaku-llm-13b", SMALL).memory
    kept = [stage.parts["activations"] for stage in memory.stages]

    assert max(kept[:4]) < min(kept[4:])


def test_gradients_are_flattened_beside_what_was_freed():
    """The tensor that is reduced is one of 4 B a parameter more, whatever a stage held before."""
    settings = ["batch.global=96"]
    flat = simulate("fugaku-30b-pp48", settings).memory
    none = simulate("fugaku-30b-pp48", [*settings, "framework.memory.step=0"]).memory

    for with_it, without in zip(flat.stages, none.stages, strict=True):
        assert with_it.peak - without.peak == pytest.approx(with_it.parts["gradients"])


def test_passes_take_the_pace_of_the_software():
    """Half the share of memory bandwidth makes passes, and nothing else, take twice as long."""
    times = [
        sum(layer_times(load("fugaku-30b-pp48", [f"framework.passes={share}"]))[:2])
        for share in (0.01, 0.02, 0.04)
    ]

    assert times[0] - times[1] == pytest.approx(2 * (times[1] - times[2]))


@pytest.mark.parametrize(
    "case",
    [
        "fugaku-1.3b-1node-ac-2.0ghz",
        "fugaku-1.3b-4node-tp4-ac",
        "fugaku-1.3b-torch110-dp512",
        "fugaku-124m-torch17-dp1-b4-20",
        "fugaku-124m-stdmalloc-dp2",
        "fugaku-124m-torch17-dp512-b2-22",
        "fugaku-350m-tp2-dp512",
    ],
)
def test_small_models_that_one_rate_of_passes_serves(case):
    """From one node to 2,048, with and without recomputation: to 8 %."""
    (entry,) = [e for e in shipped_cases() if e.id == case]

    assert abs(run_case(entry).grade.error) < 0.08
