"""Moves concurrent with compute: bounds of the overlap, and weights that ranks share."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boxes import training
from clustersim.errors import PlanError
from clustersim.program.blocks.units import Move, Unit, total_seconds
from clustersim.program.blocks.work import block_work, layer_kernels
from clustersim.program.movement.sharding import layer_fetch, layer_push, tails
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.timeline import BACKWARD, FORWARD
from clustersim.workload.parameters import layer_parameters

MODEST = settings(max_examples=20, deadline=None)
CHANNELS = st.sampled_from(["network", "from-host", "to-host"])
MOVES = st.lists(st.builds(Move, CHANNELS, st.floats(0, 5), st.none(), st.none()), max_size=3)
LATE = st.lists(st.builds(Move, CHANNELS, st.floats(0, 5), st.none(), st.floats(0, 9)), max_size=3)
PUSHED = MOVES.map(tuple)
ROWS = st.lists(
    st.builds(Unit, st.floats(0, 5), (MOVES | LATE).map(tuple), PUSHED), min_size=1, max_size=8
)


def scenario(settings=(), **plan):
    """Llama 2 7B trained as a whole on eight A100 with FSDP as fsdp_qlora uses it."""
    plan, batch = {"data": 8, "zero": 3, **plan}, (8, 1, 2048)
    return training(
        "dgx-a100", 1, "llama2-7b", plan, batch, "fsdp-qlora", *settings, recompute="full"
    )


def adapted(*settings):
    """QLoRA of Llama 2 7B on two cards, the second one on four lanes."""
    plan, batch = {"data": 2, "zero": 3}, (8, 4, 2048)
    adapters = {"method": "qlora", "rank": 64, "targets": ["qkv", "mlp"]}
    return training(
        "desktop-2x3090-older", 1, "llama2-7b", plan, batch, "fsdp-qlora", *settings,
        recompute="full", finetune=adapters
    )  # fmt: skip


def first_layer(loaded):
    """Return the job of a scenario and the first layer of its stack."""
    job = build_job(loaded)
    return job, job.layers.stacked(0, 0)[0]


# --- overlap --------------------------------------------------------------------------------------


@MODEST
@given(ROWS, st.integers(0, 4))
def test_a_row_takes_at_least_its_busiest_part_and_at_most_all_of_them(units, ahead):
    """No channel and no compute runs twice at once, and nothing waits without reason."""
    compute = sum(unit.compute for unit in units)
    busy = Counter({"compute": compute})
    for unit in units:
        for move in (*unit.fetch, *unit.push):
            busy[move.channel] += move.seconds
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
def test_a_later_request_is_never_faster(units):
    """Requests at the end of a unit take longest, those at its start least."""

    def requested(late):
        moved = [
            unit._replace(fetch=tuple(move._replace(late=late) for move in unit.fetch))
            for unit in units
        ]
        return total_seconds(moved, 1)

    times = [requested(late) for late in (None, 5.0, 1.0, 0.0)]

    assert all(times[at] <= times[at + 1] * (1 + 1e-9) + 1e-12 for at in range(3))


@pytest.mark.large
@MODEST
@given(ROWS)
def test_without_prefetch_everything_adds_up(units):
    """Nothing overlaps: compute and all moves, one after another."""
    alone = sum(unit.compute + unit.moved for unit in units)

    assert total_seconds(units, 0) == pytest.approx(alone)


# --- weights that are shared out ------------------------------------------------------------------


def test_a_layer_is_gathered_forward_and_backward_and_its_gradients_reduced_once():
    """Twice two bytes of every weight come, once two bytes of every gradient go."""
    job, stacked = first_layer(scenario())
    nbytes = 2 * layer_parameters(job.model, stacked.layer).all

    for kind in (FORWARD, BACKWARD):
        assert sum(c.nbytes for c in layer_fetch(job, stacked, kind)) == pytest.approx(nbytes)
    assert layer_push(job, stacked, FORWARD) == []
    assert sum(c.nbytes for c in layer_push(job, stacked, BACKWARD)) == pytest.approx(nbytes)


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
    work = [block_work(job, 0, 0, kind) for kind in (FORWARD, BACKWARD)]
    layers = job.model.layers
    calls = Counter(transfer.operation for block in work for transfer in block.transfers)

    ends = 2 if gathers else 0  # below the layers and above them, once
    assert calls["all-gather"] == gathers * layers + ends
    assert calls["reduce-scatter"] == reductions * (layers + 2)


# --- adapters that are units of their own ---------------------------------------------------------


def test_a_layer_waits_for_the_last_adapters_of_the_layer_before():
    """What is left of a layer when the next is requested: less for its gather than for its copy.

    Forward, the gather waits for the first factor of the down projection, the last with adapters,
    and the copy for the second one of the projection before; backward, for the factors of the keys.
    """
    job, stacked = first_layer(adapted())
    forth, back = (tails(layer_kernels(job, stacked, kind), kind) for kind in (FORWARD, BACKWARD))

    assert [kernel.name for kernel in forth.gather] == [
        "mlp down adapter up",
        "mlp down adapter sum",
        "bias dropout add",
    ]
    assert "mlp down" in {kernel.name for kernel in forth.copy}
    products = [kernel.name for kernel in back.gather if kernel.name == "qkv input gradient"]
    assert len(products) == 2  # of keys and of queries
    assert len(back.copy) > len(back.gather)


def test_factors_of_adapters_are_gathered_for_each_pass():
    """Once forward and twice backward, of which no layer waits; their gradients reduced once."""
    job, stacked = first_layer(adapted())
    nbytes = 2 * job.weights.trained_of(stacked.layer).all

    for kind, times in ((FORWARD, 1), (BACKWARD, 2)):
        pushed = layer_push(job, stacked, kind)
        gathered = [c for c in pushed if c.operation == "all-gather"]
        assert len(gathered) == 12 * times
        assert len(pushed) == len(gathered) + (12 if kind == BACKWARD else 0)
        assert sum(c.nbytes for c in gathered) == pytest.approx(nbytes * times)
        (layer,) = layer_fetch(job, stacked, kind)
        whole = job.weights.gathered_of(stacked.layer).all
        assert layer.nbytes == pytest.approx(whole - nbytes)


def test_the_limit_of_units_exposes_most_of_a_gather_that_prefetching_hides():
    """Adapters that are part of their layers leave it to be gathered a layer ahead."""
    apart = simulate(adapted())
    part = simulate(adapted("framework.sharding.adapters_apart=false"))

    name = "sharding_communication"
    assert part.attribution[name] < 0.6 * apart.attribution[name]
    assert apart.attribution["matmul"] == pytest.approx(part.attribution["matmul"])


def test_a_host_that_waits_for_the_device_issues_nothing_while_a_layer_is_gathered():
    """The time by which the host is slower adds to exposed gathers, hidden by its last launches."""
    fast = simulate(adapted("batch.sequence=512", "framework.dispatch=1 us")).attribution
    slow = simulate(adapted("batch.sequence=512", "framework.dispatch=400 us")).attribution

    assert fast["dispatch"] == 0 < slow["dispatch"]
    assert 0.7 < slow["sharding_communication"] / fast["sharding_communication"] < 1


@pytest.mark.parametrize("slower", ["clock", "tokens"])
def test_longer_kernels_of_a_host_that_is_slower_hide_no_more_of_a_gather(slower):
    """The next layer is requested when the host has issued the one before, if that is later."""
    change = {
        "clock": "cluster.node.accelerator.peak.bf16=/2",
        "tokens": "batch.sequence=1024",
    }[slower]
    short = ["batch.sequence=512", "batch.micro=1"]
    before, after = (simulate(adapted(*short, *more)) for more in ([], [change]))

    assert before.attribution["dispatch"] > after.attribution["dispatch"] > 0
    assert after.step_time >= before.step_time


def test_the_exposed_time_of_sharding_is_told():
    """Without prefetch a step takes what replicas would compute, and its gathers on top."""
    blocking = "framework.sharding.prefetch=0"
    shared, replicas = simulate(scenario(settings=[blocking])), simulate(scenario(zero=0))

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
