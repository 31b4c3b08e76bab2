"""Moves concurrent with compute: bounds of the overlap, and weights that ranks share."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import PlanError
from clustersim.program.movement.block_moves import moves_of
from clustersim.program.movement.overlap import Move, Unit, total_seconds
from clustersim.program.movement.sharding import layer_fetch, layer_push
from clustersim.program.steps import BACKWARD, FORWARD
from clustersim.scenario.load import from_mapping
from clustersim.simulation.build import build_job
from clustersim.simulation.simulate import simulate
from clustersim.workload.parameters import layer_parameters

MODEST = settings(max_examples=20, deadline=None)
CHANNELS = st.sampled_from(["network", "from-host", "to-host"])
MOVES = st.lists(st.builds(Move, CHANNELS, st.floats(0, 5)), max_size=3).map(tuple)
ROWS = st.lists(st.builds(Unit, st.floats(0, 5), MOVES, MOVES), min_size=1, max_size=8)


def scenario(**plan):
    """Llama 2 7B trained as a whole on eight A100 with FSDP as fsdp_qlora uses it."""
    data = {
        "title": "Llama 2 7B on one board",
        "cluster": {"name": "dgx-a100", "nodes": 1},
        "model": "llama2-7b",
        "plan": {"data": 8, "zero": 3, **plan},
        "batch": {"global": 8, "micro": 1, "sequence": 2048},
        "precision": "bf16",
        "recompute": "full",
        "framework": "fsdp-qlora",
    }
    return from_mapping("overlap", data)


# --- overlap --------------------------------------------------------------------------------------


@MODEST
@given(ROWS, st.integers(0, 4))
def test_a_row_takes_at_least_its_busiest_part_and_at_most_all_of_them(units, ahead):
    """No channel and no compute runs twice at once, and nothing waits without reason."""
    compute = sum(unit.compute for unit in units)
    busy = Counter({"compute": compute})
    for unit in units:
        for channel, seconds, _ in (*unit.fetch, *unit.push):
            busy[channel] += seconds
    total = total_seconds(units, ahead)

    assert max(busy.values()) <= total * (1 + 1e-9) + 1e-12
    assert total <= sum(busy.values()) * (1 + 1e-9) + 1e-12


@MODEST
@given(st.integers(1, 20), st.floats(0.1, 5), st.floats(0.1, 5))
def test_equal_units_take_their_closed_form(count, compute, fetch):
    """With one ahead: the first fetch, then the longer of both for each unit but the last."""
    units = [Unit(compute, (Move("network", fetch),))] * count

    closed = fetch + (count - 1) * max(compute, fetch) + compute
    assert total_seconds(units, 1) == pytest.approx(closed)
    assert total_seconds(units, 0) == pytest.approx(count * (compute + fetch))


@MODEST
@given(ROWS)
def test_without_prefetch_everything_adds_up(units):
    """Nothing overlaps: compute and all moves, one after another."""
    alone = sum(unit.compute + unit.moved for unit in units)

    assert total_seconds(units, 0) == pytest.approx(alone)


# --- weights that are shared out ------------------------------------------------------------------


def test_a_layer_is_gathered_forward_and_backward_and_its_gradients_reduced_once():
    """Twice two bytes of every weight come, once two bytes of every gradient go."""
    job = build_job(scenario())
    stacked = job.layers.stacked(0, 0)[0]
    layer = stacked.layer
    nbytes = 2 * layer_parameters(job.model, layer).all

    for kind in (FORWARD, BACKWARD):
        assert sum(c.nbytes for c in layer_fetch(job, stacked, kind)) == pytest.approx(nbytes)
    assert layer_push(job, layer, FORWARD) == []
    assert sum(c.nbytes for c in layer_push(job, layer, BACKWARD)) == pytest.approx(nbytes)


@pytest.mark.parametrize(
    ("plan", "gathers", "reductions"),
    [
        ({"zero": 3}, 2, 1),
        ({"zero": 3, "reshard": False}, 1, 1),
        ({"zero": 2}, 0, 1),
        ({"zero": 0}, 0, 0),
    ],
)
def test_what_is_shared_decides_what_moves_inside_blocks(plan, gathers, reductions):
    """ZeRO 3 gathers, twice if layers are given up in between; ZeRO 2 reduces; 0 does neither."""
    job = build_job(scenario(**plan))
    moves = [pair for kind in (FORWARD, BACKWARD) for pair in moves_of(job, 0, 0, kind)]
    calls = job.framework.sharding.calls.value * job.model.layers
    found = Counter(c.operation for fetch, push in moves for c in (*fetch, *push))

    ends = 2 if gathers else 0  # below the layers and above them, once
    assert found["all-gather"] == gathers * calls + ends
    assert found["reduce-scatter"] == reductions * (calls + 2)


def test_the_exposed_time_of_sharding_is_told():
    """Without prefetch a step takes what replicas would compute, and its gathers on top."""
    shared, replicas = simulate(scenario()), simulate(scenario(zero=0))

    part = shared.attribution["sharding_communication"]
    assert part > 0
    assert replicas.attribution["sharding_communication"] == 0
    assert shared.attribution["matmul"] == pytest.approx(replicas.attribution["matmul"])
    assert sum(shared.attribution.values()) == pytest.approx(shared.step_time)


@pytest.mark.parametrize(
    ("plan", "complaint"),
    [
        ({"zero": 0, "reshard": False}, r"plan\.reshard: has no effect with zero 0.*zero: 3"),
        ({"tensor": 8, "data": 1, "zero": 3}, r"plan\.zero: 3 has no effect with data 1"),
    ],
)
def test_sharing_without_effect_is_refused(plan, complaint):
    """One line has what is without effect, why, and what to do."""
    with pytest.raises(PlanError, match=complaint):
        build_job(scenario(**plan))
