"""Context parallelism: ranks that share sequences, by a ring, by gathering or by exchange."""

import pytest

from boxes import training
from clustersim.errors import PlanError
from clustersim.memory.peak import running_layer
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.workload.kernels import Collective, Flash, flat
from clustersim.workload.model import Layer
from wrong_values import wrong_values

METHODS = ("ring", "all-gather", "ulysses")
PLAIN = Layer()


def scenario(*changes, **plan):
    """Llama 3 8B in four layers on sixteen devices, with long sequences."""
    model, plan = {"name": "llama3-8b", "layers": 4}, {"data": 4, "context": 4, **plan}
    batch = (16, 1, 32768)
    return training("dgx-h100", 2, model, plan, batch, "megatron-core", *changes, recompute="full")


def core(job, chain="forward"):
    """Kernels of the attention of one layer, one after another."""
    (op,) = (op for op in job.layers.ops(PLAIN) if op.name == "attention")
    return flat(getattr(op, chain))


@pytest.mark.parametrize("method", METHODS)
def test_ranks_share_the_work_of_attention_evenly(method):
    """Four ranks do a quarter of the FLOPs each, by any method."""
    alone = build_job(scenario(data=16, context=1))
    shared = build_job(scenario(context_method=method))
    flops = [sum(k.flops for k in core(job) if isinstance(k, Flash)) for job in (alone, shared)]

    assert flops[1] == pytest.approx(flops[0] / 4)


def test_what_is_sent_is_keys_and_values_or_a_slice_of_all():
    """8 key heads of 128 numbers, twice: 4 KiB a token; Ulysses sends 32 query heads as well."""
    sent = {
        method: [k.nbytes for k in core(build_job(scenario(context_method=method))) if moves(k)]
        for method in METHODS
    }
    tokens = 32768

    assert sent["ring"] == sent["all-gather"] == [tokens * 2 * 8 * 128 * 2]
    assert sent["ulysses"] == [tokens // 4 * 128 * heads * 2 for heads in (32 + 2 * 8, 32)]


def moves(kernel):
    return isinstance(kernel, Collective) and kernel.axis == "context"


@pytest.mark.parametrize("context", [2, 4])
def test_what_the_steps_of_a_ring_made_is_joined(context):
    """4 ranks: 10 bytes and 3 times 2 of each number of the result, on a quarter of the tokens.

    32 query heads of 128 numbers. Gathered keys and values need nothing joined.
    """
    laid = ["framework.kernels.ring_result=[10, 2]"]
    moved = {
        method: [k.nbytes for k in core(build_job(made)) if k.name == "ring result"]
        for method in ("ring", "all-gather")
        for made in [scenario(*laid, data=16 // context, context=context, context_method=method)]
    }
    numbers = 32768 / context * 32 * 128

    assert moved["all-gather"] == []
    assert moved["ring"] == [numbers * (10 + 2 * (context - 1))]


def test_a_ring_hides_what_gathering_shows():
    """A ring overlaps with attention; keys and values that are gathered first are waited for."""
    exposed = {
        method: simulate(scenario(context_method=method)).attribution["context_communication"]
        for method in METHODS
    }

    assert exposed["ring"] < 0.2 * exposed["all-gather"]


@pytest.mark.parametrize("context", [2, 4])
def test_gradients_of_a_ring_are_sent_as_the_framework_does(context):
    """A rank sends 4 bytes once and 6 in each other step, of its 8 heads of 128 keys and values.

    An all-gather of n bytes over c ranks sends (c - 1) / c of n from each.
    """
    laid = ["framework.kernels.ring_sent=[4, 6]"]
    job = build_job(scenario(*laid, data=16 // context, context=context))
    [sent] = [k.nbytes * (context - 1) / context for k in core(job, "backward") if moves(k)]

    assert sent == pytest.approx((4 + 6 * (context - 1)) * 32768 / context * 2 * 8 * 128)


def test_copies_of_keys_and_values_are_sent_where_they_are_made():
    """32 query heads share 8 of keys and values: four times the bytes."""
    laid = ["framework.kernels.kv_repeated=true"]
    sent = [
        [k.nbytes for k in core(build_job(scenario(*changes))) if moves(k)]
        for changes in ([], laid)
    ]

    assert sent[1] == [4 * nbytes for nbytes in sent[0]]


def test_a_ring_that_waits_hides_nothing():
    """Its transfers come before attention, as gathers do."""
    waits = simulate(scenario("framework.kernels.ring_waits=true")).attribution
    hides = simulate(scenario()).attribution

    assert waits["context_communication"] > 5 * hides["context_communication"]


def test_sharing_sequences_shares_out_activations_and_not_weights():
    """Each rank keeps its tokens; weights and gradients stay those of the model."""
    alone, shared = (
        simulate(scenario(data=16 // n, context=n)).memory.fullest.parts for n in (1, 4)
    )

    assert shared["activations"] == pytest.approx(alone["activations"] / 4)
    assert shared["parameters"] == alone["parameters"]


@pytest.mark.parametrize("method", METHODS)
def test_a_ring_holds_sums_and_what_it_sends_in_its_backward(method):
    """So many bytes for each number of its queries, in place of the largest gradients inside."""
    held = [
        running_layer(job, job.layers.stacked(0, 0))
        for ring in (0, 1000, 1001)
        for job in [
            build_job(
                scenario(
                    f"framework.memory.ring={{value: {ring}, assumed: test}}", context_method=method
                )
            )
        ]
    ]
    numbers = 32768 / 4 * 32 * 128

    assert held[2] - held[1] == pytest.approx(numbers if method == "ring" else 0)
    assert (held[1] > held[0]) is (method == "ring")


def test_gradients_are_summed_over_slices_as_well():
    """All sixteen ranks hold the same weights, however they share sequences."""
    tail = simulate(scenario()).program.actors[0].tail

    assert tail.gradients[0][0].name == "all-reduce over 16 ranks, stage 0"


@pytest.mark.parametrize(("changes", "complaint"), wrong_values("sequences that cannot be shared"))
def test_sequences_that_cannot_be_shared_are_told_why(changes, complaint):
    """One line has the rule that is violated, and what works."""
    with pytest.raises(PlanError) as caught:
        build_job(scenario(*changes.split()))

    assert complaint in str(caught.value)
