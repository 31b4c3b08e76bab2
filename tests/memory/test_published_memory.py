"""Memory of published runs: states of a replica, microbatches in flight, activations, offload."""

import pytest

from clustersim import simulate
from tools.claims.claims import read_claims

ONE_REPLICA = ["plan.data=1", "cluster.nodes=8", "batch.global=320"]

FIGURE_1 = {"22b": 9.6, "175b": 12.4, "530b": 23.1, "1t": 26.6}
"""Activations of the fullest stage, arXiv:2205.05198, Figure 1, by calculon's validation [GiB]."""

YI = ["model=yi-34b", "batch.global=8", "batch.micro=4"]


def runs_of(number):
    """Return the runs of a claim, by name."""
    file = read_claims()
    return file.runs_of(file.by_number[number])


def fourteen_bytes():
    """Return the settings of the recipe of the paper of Frontier."""
    return list(read_claims().settings["14-bytes"])


@pytest.mark.parametrize(("recipe", "nbytes"), [([], 2.79e12), (fourteen_bytes(), 2.45e12)])
def test_the_ranks_of_one_replica_share_the_states_of_gpt3(recipe, nbytes):
    """All ranks of a run of one replica hold 16 or 14 bytes a parameter, within 1 %."""
    states = simulate("frontier-175b", [*ONE_REPLICA, *recipe]).memory.state_bytes

    assert states == pytest.approx(nbytes, rel=0.01)


@pytest.mark.parametrize("batch", [4, 12, 30])
def test_1f1b_holds_at_most_as_many_microbatches_as_stages(batch):
    """The first stage holds min(p, m) microbatches in 1F1B and m in GPipe, in equal time."""
    runs = runs_of(12)
    first, one = (runs[name].changed(f"batch.global={batch}").result for name in ("gpipe", "1f1b"))

    assert one.step_time == pytest.approx(first.step_time, rel=1e-9)
    assert one.memory.stages[0].in_flight == min(12, batch)
    assert first.memory.stages[0].in_flight == batch


def test_activations_grow_with_the_batch_in_gpipe_alone():
    """From 24 to 48 microbatches GPipe holds twice the activations, 1F1B the same."""
    runs = runs_of(12)
    gpipe, one = (
        [
            runs[name].changed(f"batch.global={batch}").result.memory.stages[0].parts["activations"]
            for batch in (24, 48)
        ]
        for name in ("gpipe", "1f1b")
    )

    assert gpipe[1] == pytest.approx(2 * gpipe[0])
    assert one[1] == one[0]


def test_sixteen_microbatches_nearly_fill_a_device_without_recomputation():
    """From a batch of 16 the first stage of 145B holds 16 microbatches: 98 % of all memory."""
    base = runs_of(15)["base"].changed("recompute=none")
    memory, larger = (base.changed(f"batch.global={batch}").result.memory for batch in (16, 64))

    assert memory.fullest.stage == 0
    assert memory.fullest.in_flight == 16
    assert memory.fullest.peak > 0.98 * memory.capacity
    assert larger.fullest.peak == pytest.approx(memory.fullest.peak)


@pytest.mark.parametrize("size", FIGURE_1)
def test_the_fullest_stage_has_the_published_activations(size):
    """Activations and logits at the peak of the fullest stage are those of the paper within 3 %."""
    fullest = simulate(f"korthikanti-{size}-seqsel").memory.fullest
    kept = fullest.parts["activations"] + fullest.parts["logits"]

    assert kept / 2**30 == pytest.approx(FIGURE_1[size], rel=0.03)


@pytest.mark.parametrize("name", ["qlora-70b-2x3090", "qlora-70b-2x4090"])
def test_two_cards_hold_70_billion_weights_with_offload(name):
    """Memory of card and host are sufficient; memory is met to 15 %, the step time to 25 %."""
    result = simulate(name)
    errors = {check.metric: abs(check.error) for check in result.published}

    assert result.memory.fits
    assert errors["memory_bytes"] < 0.15
    assert errors["step_time_s"] < 0.25


def test_two_cards_do_not_hold_them_without():
    """Some 17.5 GB of weights of 4 bits on each card are too much, and the verdict has a reason."""
    memory = simulate("qlora-70b-no-offload").memory

    assert not memory.fits
    assert memory.reason.startswith("does not fit")
    assert 17.0 < memory.fullest.parts["quantised_base"] / 1e9 < 19.5


@pytest.mark.parametrize("cards", ["qlora-70b-2x3090", "qlora-70b-2x4090"])
def test_offload_makes_room_for_twice_the_batch(cards):
    """Two sequences a card fit without offload and four do not; with offload four do."""
    without = ["offload.parameters=false"]

    assert simulate(cards, [*YI, *without, "batch.micro=2", "batch.global=4"]).memory.fits
    assert not simulate(cards, [*YI, *without]).memory.fits
    assert simulate(cards, YI).memory.fits
