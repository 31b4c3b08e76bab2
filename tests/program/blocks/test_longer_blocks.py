"""Blocks that take longer or shorter: their kernels are stretched, their collectives are not."""

import pytest

from clustersim.program.blocks.units import Move, Unit, Units, stretched_segments, stretched_units
from clustersim.simulation.step.simulate import simulate
from clustersim.traffic import Traffic

SHARED = Traffic("a", (0,), (1.0,), 1e9, 0.0)

SCATTERED = {
    "batch.global": 32,
    "plan.tensor": 2,
    "plan.pipeline": 4,
    "plan.placement.order": ["data", "pipeline", "tensor", "context"],
    "fusion_bound": 1e-9,
}
"""Tensor groups over nodes, whose collectives share links and are not fused."""


def test_segments_of_kernels_share_the_additional_time():
    """Kernels before and after a collective take longer in proportion."""
    assert stretched_segments((1.0, SHARED, 3.0), 2.0) == (1.5, SHARED, 4.5)
    assert stretched_segments((4.0,), -1.0) == (3.0,)
    assert stretched_segments((0.0, SHARED, 0.0), 1.0) == (0.0, SHARED, 0.0, 1.0)


def test_units_share_the_additional_time():
    """Layers take longer in proportion, and their moves as long as before."""
    move = Move("network", 1.0)
    units = Units((Unit(2.0, (move,)), Unit(9.0, (), (), (1.0, SHARED, 1.0))), 1, 0.0, True)
    longer = stretched_units(units, 2.0)

    assert longer.units[0] == Unit(3.0, (move,))
    assert longer.units[1].segments == (1.5, SHARED, 1.5)
    assert stretched_units(Units((), 1, 0.0, True), 2.0).rest == 2.0


@pytest.mark.parametrize(
    "disturbance",
    [
        {"type": "slow-device", "factor": 0.3},
        {"type": "sequence-lengths", "histogram": [[64, 3], [2048, 1]]},
        {"type": "jitter", "deviation": 0.1},
    ],
    ids=lambda given: given["type"],
)
def test_a_rank_that_is_faster_ends_no_block_before_it_begins(disturbance):
    """Where collectives share links, kernels change by the same time as in fused blocks."""
    settings = {**SCATTERED, "disturbances": [disturbance]}
    separate = simulate("frontier-22b", settings)
    fused = simulate("frontier-22b", {**settings, "fusion_bound": 1.0})

    assert not separate.program.fused.whole
    assert fused.program.fused.whole
    assert separate.attribution["disturbance"] == pytest.approx(fused.attribution["disturbance"])
